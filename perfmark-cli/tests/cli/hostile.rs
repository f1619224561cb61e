//! Reports that are made to exhaust memory or time, or to have a file opened. With `PERFMARK_TEST_FULL`, they are eight
//! times as large.

use std::ffi::CString;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Output;
use std::{env, fs};

use perfmark::{Node, NodeValues, Samples, Snapshot};

use super::command::{assert_contains, perfmark};
use super::sample::{Folder, frame, json, location, mark, module, path, report, snapshot, values};

pub(super) const TESTS: &[(&str, fn())] = &[
    ("many_marks_of_one_name_take_little_time", many_marks_of_one_name),
    ("many_marks_with_samples_take_little_time", many_sampled_marks),
    ("many_modules_files_events_and_notes_take_little_time", many_of_everything),
    ("many_reports_in_one_file_take_little_time", many_reports),
    ("a_long_name_at_many_addresses_takes_memory_once", a_long_name_at_many_addresses),
    ("long_names_in_a_deep_call_graph_take_memory_once", a_deep_graph),
    ("long_names_in_deep_paths_and_stacks_take_memory_once", deep_paths_and_stacks),
    ("many_marks_and_functions_with_long_paths_take_little_time", many_long_paths),
    ("many_async_functions_in_deep_stacks_take_little_time", many_async_functions),
    ("a_location_with_very_many_functions_is_refused", a_location_with_very_many_functions),
    ("a_stack_with_very_many_locations_is_refused", a_stack_with_very_many_locations),
    ("a_module_that_is_no_file_is_not_opened", a_module_that_is_no_file),
];

/// That many at full length.
fn many(count: usize) -> usize {
    if env::var_os("PERFMARK_TEST_FULL").is_some() { count } else { count / 8 }
}

/// Runs the command with 160 MiB of memory and 20 seconds of CPU time.
#[track_caller]
fn within_limits(arguments: &[&str], temporary: &Path) -> Output {
    let mut command = perfmark(arguments);
    command.env("TMPDIR", temporary);
    let set = |what, most: u64| {
        let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
        // SAFETY: the limit is live.
        unsafe { libc::setrlimit(what, &raw const limit) }
    };
    // SAFETY: setrlimit and alarm are async-signal-safe. The alarm ends a program that waits.
    unsafe {
        command.pre_exec(move || {
            libc::alarm(600);
            match (set(libc::RLIMIT_AS, 160 << 20), set(libc::RLIMIT_CPU, 20)) {
                (0, 0) => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        });
    }
    command.output().expect("started")
}

/// Each command that reads reports, with this file. Returns what they print on stderr.
#[track_caller]
fn read_file(file: &str, statuses: &[i32]) -> Vec<String> {
    let report = |arguments: &[&'static str]| [&["report", file][..], arguments].concat();
    let mut commands = vec![
        report(&["--marks", "*", "--symbols"]),
        report(&["--top", "all", "--details"]),
        vec!["report", file, file, "--details"],
        vec!["report", file, file, "--each", "--format", "markdown"],
        vec!["diff", file, file],
        vec!["diff", file, file, "--format", "json"],
        vec!["run", "--", "sh", "-c", "cp $0 ${PERFMARK_OUTPUT%/*}/report.json", file],
    ];
    let formats = ["json", "csv", "markdown", "html", "folded", "svg", "openmetrics"];
    let formats = formats.into_iter().chain(["folded-samples", "pprof", "firefox", "bencher"]);
    commands.extend(formats.map(|format| report(&["--format", format])));
    // Those of the formats that repeat names have limits of their own.
    let most = (32 << 20) + 10 * fs::read(file).expect("written").len();
    let (mut printed, mut failures) = (Vec::new(), Vec::new());
    for arguments in commands {
        let output = within_limits(&arguments, Path::new(file).parent().expect("a folder"));
        // Samples may be missing, or more than a format can have. `run` has a status of its own for what is refused.
        let is_expected = output.status.code().is_some_and(|status| match status {
            2 => true,
            125 => arguments[0] == "run" && statuses == [2],
            status => statuses.contains(&status),
        });
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        if !is_expected || output.stdout.len() > most {
            let bytes = output.stdout.len();
            failures.push(format!("{arguments:?}: {}, {bytes} bytes on stdout; {stderr}", output.status));
        }
        printed.push(stderr);
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    printed
}

/// A report of one mark of that name, with these samples.
fn of_samples(name: &str, samples: Vec<Samples>) -> Snapshot {
    let mut snapshot = report(&[(name, 1)]);
    snapshot.samples = samples;
    snapshot
}

/// Each command that reads reports, with this one.
#[track_caller]
fn read_everywhere(name: &str, snapshot: &Snapshot, statuses: &[i32]) -> Vec<String> {
    let folder = Folder::new(name);
    read_file(&folder.report("report.json", snapshot), statuses)
}

fn many_marks_of_one_name() {
    let all = (0..many(8_000)).map(|_| mark("same", vec![values("time", &[1])]));
    read_everywhere("hostile-names", &snapshot(all.collect()), &[0]);
}

/// Each mark with a path, a line and a function of its own, in a file of its own.
fn many_sampled_marks() {
    let count = many(10_000);
    let file = |n: usize| format!("/src/{n}.rs");
    let all = (0..count).map(|n| mark(&format!("f{n}"), vec![values("time", &[1])]));
    let mut snapshot = snapshot(all.collect());
    snapshot.marks.iter_mut().enumerate().for_each(|(n, mark)| mark.file = format!("{n}.rs"));
    let mut samples = sampled(0, &[]);
    samples.frames = (0..2 * count).map(|n| frame(&format!("app::f{n}"), &file(n), 3)).collect();
    samples.locations = (0..2 * count).map(|n| location(0, n as u64, &[n])).collect();
    samples.paths = (0..count).map(|n| path(&[n], &[(&[n], 9)])).collect();
    let outside: Vec<[usize; 1]> = (count..2 * count).map(|n| [n]).collect();
    samples.paths.push(path(&[], &outside.iter().map(|stack| (&stack[..], 9)).collect::<Vec<_>>()));
    snapshot.samples = vec![samples];
    read_everywhere("hostile-marks", &snapshot, &[0]);
}

fn many_of_everything() {
    let mut samples = sampled(many(20_000) as u64, &[]);
    samples.modules = (0..4_096).map(|n| module(&format!("/no/{n}"), None)).collect();
    samples.locations.iter_mut().enumerate().for_each(|(n, one)| one.module = n % 4_096);
    let mut snapshot = of_samples("one", vec![samples]);
    snapshot.notes = (0..many(20_000)).map(|n| format!("note {n}")).collect();
    read_everywhere("hostile-modules", &snapshot, &[0]);
    let mut events = report(&[("one", 1)]);
    events.events = vec![events.events[0].clone(); many(5_000)];
    events.events.iter_mut().enumerate().for_each(|(n, event)| event.name = format!("e{n}"));
    read_everywhere("hostile-events", &events, &[0]);
    let mut wide = report(&[("one", 1)]);
    wide.marks[0].values = (0..10_000).map(|n| values(&format!("r{n:x}"), &[1])).collect();
    read_everywhere("hostile-values", &wide, &[0]);
    let mut samplings = of_samples("one", vec![sampled(1, &[]); 2_000]);
    samplings.samples.iter_mut().enumerate().for_each(|(n, samples)| samples.event = format!("e{n}"));
    read_everywhere("hostile-samplings", &samplings, &[2]);
}

fn many_reports() {
    let folder = Folder::new("hostile-reports");
    let large = json(&snapshot((0..many(2_000)).map(|n| mark(&format!("f{n}"), vec![values("time", &[1])])).collect()));
    let file = folder.file("report.json", large + &json(&snapshot(Vec::new())).repeat(many(2_000)));
    read_file(&file, &[0]);
}

/// Samples at this many addresses, each with these functions.
fn sampled(addresses: u64, functions: &[usize]) -> Samples {
    let mut samples = Samples::default();
    samples.event = "cpu-clock".into();
    samples.modules = vec![module("/no/such/program", Some("6c01ab"))];
    samples.locations = (0..addresses).map(|address| location(0, address, functions)).collect();
    let stacks: Vec<[usize; 1]> = (0..samples.locations.len()).map(|at| [at]).collect();
    let stacks: Vec<(&[usize], u64)> = stacks.iter().map(|stack| (&stack[..], 1)).collect();
    samples.paths = vec![path(&[0], &stacks)];
    samples
}

fn a_long_name_at_many_addresses() {
    let mut samples = sampled(5_000, &[0]);
    samples.frames = vec![frame(&"f".repeat(40_000), "src/main.rs", 3)];
    read_everywhere("hostile-text", &of_samples("one", vec![samples]), &[0]);
}

fn node(parent: Option<usize>, mark: usize) -> Node {
    let mut own = NodeValues::default();
    (own.event, own.measured, own.sum, own.self_sum) = ("time".into(), 1, 1, Some(1));
    let mut node = Node::default();
    (node.parent, node.mark, node.calls, node.values) = (parent, mark, 1, vec![own]);
    node
}

/// Marks that call each other, as deep as a graph may be.
fn a_deep_graph() {
    let mut snapshot = report(&[]);
    snapshot.marks = (0..8).map(|n| mark(&format!("f{n}{}", "f".repeat(40_000)), vec![values("time", &[1])])).collect();
    snapshot.call_graph = (0..16_384).map(|n| node((n % 2_048 > 0).then(|| n - 1), (n / 2_048 + n) % 8)).collect();
    read_everywhere("hostile-graph", &snapshot, &[0]);
}

/// Stacks and paths of marks as deep as they may be, each of other functions.
fn deep_paths_and_stacks() {
    let mut snapshot = report(&[]);
    let long = "f".repeat(40_000);
    snapshot.marks = (0..3).map(|n| mark(&format!("f{n}{long}"), vec![values("time", &[1])])).collect();
    let mut samples = sampled(3, &[0, 1]);
    samples.frames = (0..3).map(|n| frame(&format!("f{n}{long}"), "src/main.rs", n)).collect();
    let stacks: Vec<Vec<usize>> = (0..many(500)).map(|n| (0..1_000).map(|at| (n + at * at) % 3).collect()).collect();
    let stacks: Vec<(&[usize], u64)> = stacks.iter().map(|stack| (&stack[..], 1)).collect();
    let marks = |n: usize| (0..2_000).map(|at| (n + at * at) % 3).collect::<Vec<usize>>();
    samples.paths = (0..many(100)).map(|n| path(&marks(n), &[(&[n % 3], 1)])).chain([path(&[0], &stacks)]).collect();
    snapshot.samples = vec![samples];
    read_everywhere("hostile-depth", &snapshot, &[0]);
}

/// Marks and functions of one name, in stacks of all these functions.
fn many_long_paths() {
    let long = |of: &str, n: usize| format!("app::{of}{n}{}::same", "::a".repeat(600));
    let count = many(300);
    let mut snapshot = snapshot((0..count).map(|n| mark(&format!("f{n}"), Vec::new())).collect());
    snapshot.marks.iter_mut().enumerate().for_each(|(n, mark)| mark.path = long("marked", n));
    let mut samples = sampled(0, &[]);
    samples.frames = (0..512).map(|n| frame(&long("called", n), "src/main.rs", 3)).collect();
    let functions: Vec<usize> = (0..512).collect();
    samples.locations = functions.chunks(256).map(|inlined| location(0, inlined[0] as u64, inlined)).collect();
    samples.paths = (0..count).map(|n| path(&[n], &[(&[0, 1], 9)])).collect();
    snapshot.samples = vec![samples];
    read_everywhere("hostile-paths", &snapshot, &[0]);
}

/// Bodies of async functions, each inlined in the next one.
fn many_async_functions() {
    let mut samples = sampled(1, &[0; 256]);
    samples.frames = vec![frame(&format!("{{async_block#0}}{}", "a".repeat(4_000)), "src/main.rs", 3)];
    samples.paths = vec![path(&[0], &vec![(&[0; 1_000][..], 9); many(12)])];
    read_everywhere("hostile-async", &of_samples(&"a".repeat(100), vec![samples]), &[0]);
}

fn a_location_with_very_many_functions() {
    let functions: Vec<usize> = (0..257).collect();
    let mut samples = sampled(1, &functions);
    samples.frames = functions.iter().map(|n| frame(&n.to_string(), "src/main.rs", 3)).collect();
    for why in read_everywhere("hostile-functions", &of_samples("one", vec![samples]), &[2]) {
        assert_contains(&why, &["samples: location 0 has more than 256 functions"]);
    }
}

fn a_stack_with_very_many_locations() {
    let mut samples = sampled(1, &[]);
    samples.paths = vec![path(&[0], &[(&[0; 1_025], 1)])];
    for why in read_everywhere("hostile-stack", &of_samples("one", vec![samples]), &[2]) {
        assert_contains(&why, &["samples: a stack has more than 1024 locations"]);
    }
}

fn a_module_that_is_no_file() {
    let folder = Folder::new("hostile-module");
    let fifo = folder.0.join("fifo");
    let name = CString::new(fifo.to_str().expect("UTF-8")).expect("no zero");
    // SAFETY: the path is live.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0, "{}", std::io::Error::last_os_error());
    for file in [fifo.to_str().expect("UTF-8"), "/dev/null", "/"] {
        let mut samples = sampled(1, &[]);
        samples.modules = vec![module(file, Some("6c01ab"))];
        let why = &read_everywhere("hostile-fifo", &of_samples("one", vec![samples]), &[0])[0];
        assert_contains(why, &[&format!("{file}: not a file")]);
    }
}
