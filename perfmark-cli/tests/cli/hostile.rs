//! Reports that are made to exhaust memory or time, or to have a file opened.

use std::ffi::CString;
use std::fs;
use std::os::unix::process::CommandExt as _;

use perfmark::Snapshot;

use super::command::{assert_contains, perfmark};
use super::program::{ending, text};
use super::sample::{Folder, json, location, mark, module, path, report, snapshot, values};

pub(super) const TESTS: &[(&str, fn())] = &[
    ("many_marks_of_one_name_take_little_time", many_marks_of_one_name),
    ("a_long_name_at_many_addresses_takes_memory_once", a_long_name_at_many_addresses),
    ("a_location_with_very_many_functions_is_refused", a_location_with_very_many_functions),
    ("a_stack_with_very_many_locations_is_refused", a_stack_with_very_many_locations),
    ("a_module_that_is_no_file_is_not_opened", a_module_that_is_no_file),
];

/// Runs the command with 160 MiB of memory and 20 seconds of CPU time. Returns its stderr.
#[track_caller]
fn within_limits(arguments: &[&str], status: i32) -> String {
    let mut command = perfmark(arguments);
    let set = |what, most: u64| {
        let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
        // SAFETY: the limit is live.
        unsafe { libc::setrlimit(what, &raw const limit) }
    };
    // SAFETY: setrlimit and alarm are async-signal-safe. The alarm ends a program that waits.
    unsafe {
        command.pre_exec(move || {
            libc::alarm(120);
            match (set(libc::RLIMIT_AS, 160 << 20), set(libc::RLIMIT_CPU, 20)) {
                (0, 0) => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        });
    }
    let output = command.output().expect("started");
    assert_eq!(output.status.code(), Some(status), "{arguments:?}: {}", ending(&output));
    text(&output.stderr).to_owned()
}

/// Each command that reads reports, with this one.
#[track_caller]
fn read_everywhere(name: &str, snapshot: &Snapshot, status: i32) -> Vec<String> {
    let folder = Folder::new(name);
    let file = folder.0.join("report.json");
    fs::write(&file, json(snapshot)).expect("written");
    let file = file.to_str().expect("UTF-8");
    let commands: [&[&str]; 4] = [
        &["report", file, "--marks", "*", "--symbols"],
        &["report", file, file, "--details"],
        &["report", file, "--format", "html"],
        &["diff", file, file],
    ];
    commands.iter().map(|arguments| within_limits(arguments, status)).collect()
}

fn many_marks_of_one_name() {
    let all = (0..8_000).map(|_| mark("same", vec![values("time", &[1])]));
    read_everywhere("hostile-names", &snapshot(all.collect()), 0);
}

/// Samples at this many addresses, each with these functions.
fn sampled(addresses: u64, functions: &[usize]) -> perfmark::Samples {
    let mut samples = perfmark::Samples::default();
    samples.event = "cpu-clock".into();
    samples.modules = vec![module("/no/such/program", Some("6c01ab"))];
    samples.locations = (0..addresses).map(|address| location(0, address, functions)).collect();
    let stacks: Vec<[usize; 1]> = (0..samples.locations.len()).map(|at| [at]).collect();
    let stacks: Vec<(&[usize], u64)> = stacks.iter().map(|stack| (&stack[..], 1)).collect();
    samples.paths = vec![path(&[0], &stacks)];
    samples
}

fn a_long_name_at_many_addresses() {
    let mut snapshot = report(&[("one", 1)]);
    let mut samples = sampled(5_000, &[0]);
    samples.frames = vec![super::sample::frame(&"f".repeat(40_000), "src/main.rs", 3)];
    snapshot.samples = vec![samples];
    read_everywhere("hostile-text", &snapshot, 0);
}

fn a_location_with_very_many_functions() {
    let mut snapshot = report(&[("one", 1)]);
    let functions: Vec<usize> = (0..257).collect();
    let mut samples = sampled(1, &functions);
    samples.frames = functions.iter().map(|n| super::sample::frame(&n.to_string(), "src/main.rs", 3)).collect();
    snapshot.samples = vec![samples];
    for why in read_everywhere("hostile-functions", &snapshot, 2) {
        assert_contains(&why, &["samples: location 0 has more than 256 functions"]);
    }
}

fn a_stack_with_very_many_locations() {
    let mut snapshot = report(&[("one", 1)]);
    let mut samples = sampled(1, &[]);
    samples.paths = vec![path(&[0], &[(&[0; 1_025], 1)])];
    snapshot.samples = vec![samples];
    for why in read_everywhere("hostile-stack", &snapshot, 2) {
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
        let mut snapshot = report(&[("one", 1)]);
        let mut samples = sampled(1, &[]);
        samples.modules = vec![module(file, Some("6c01ab"))];
        snapshot.samples = vec![samples];
        let why = &read_everywhere("hostile-fifo", &snapshot, 0)[0];
        assert_contains(why, &[&format!("{file}: not a file")]);
    }
}
