//! The command line: what it prints, and its exit status.
//!
//! The programs that it runs are this program, started again with `PERFMARK_TEST_SCENARIO`.

#[path = "../../perfmark/tests/program/mod.rs"]
mod program;
#[path = "../../perfmark-rdpmc/tests/seccomp/mod.rs"]
mod seccomp;
#[path = "../../perfmark-rdpmc/tests/support/mod.rs"]
mod support;

use std::env;
use std::fs::{self, File};
use std::hint::black_box;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output, Stdio};

use perfmark::{Event, Format, Mark, Read, Report, Snapshot, Unit, Values, perfmark};
use program::{SCENARIO, text};

fn main() -> ExitCode {
    if let Ok(scenario) = env::var(SCENARIO) {
        return run_scenario(&scenario);
    }
    // A shell that starts this program in the background lets it ignore SIGINT, and the programs that it starts inherit
    // that.
    // SAFETY: no thread runs yet, and no handler is installed.
    unsafe { libc::signal(libc::SIGINT, libc::SIG_DFL) };
    let tests: &[(&str, fn())] = &[
        ("a_report_is_printed_as_the_program_would_print_it", a_report_is_printed_as_by_the_program),
        ("several_reports_are_merged_exactly_or_printed_one_by_one", several_reports_are_merged_exactly),
        ("each_is_accepted_only_with_formats_that_can_hold_several_reports", each_is_accepted_only_with_some_formats),
        ("a_table_has_colours_on_a_terminal_that_supports_them", a_table_has_colours_on_a_terminal),
        ("a_report_is_read_from_stdin_and_written_to_a_file", a_report_is_read_from_stdin_and_written_to_a_file),
        ("a_file_is_replaced_and_a_link_or_device_is_written_to", a_file_is_replaced),
        ("another_users_link_in_a_shared_directory_is_not_followed", another_users_link_is_not_followed),
        ("marks_are_selected_by_a_filter_and_one_that_matches_none_is_reported", marks_are_selected_by_a_filter),
        ("a_file_that_is_not_a_report_is_reported_with_a_remedy", a_file_that_is_not_a_report_is_reported),
        ("a_truncated_report_is_never_accepted", a_truncated_report_is_never_accepted),
        ("a_report_with_20000_events_in_a_mark_is_read_quickly", a_report_with_20000_events_is_read_quickly),
        ("a_closed_pipe_is_not_a_failure", a_closed_pipe_is_not_a_failure),
        (
            "settings_in_the_environment_do_not_overwrite_the_file_that_is_read",
            settings_in_the_environment_overwrite_no_file,
        ),
        ("one_percent_more_instructions_fail_the_gate_and_name_the_function", one_percent_more_fails_the_gate),
        ("comparing_equal_runs_passes_20_times_of_20", comparing_equal_runs_passes_20_times_of_20),
        ("a_caller_is_not_blamed_for_its_callees", a_caller_is_not_blamed_for_its_callees),
        ("the_self_mean_covers_the_same_calls_as_the_self_sum", the_self_mean_covers_the_same_calls_as_the_self_sum),
        ("a_change_within_the_spread_of_runs_passes_the_gate", a_change_within_the_spread_of_runs_passes_the_gate),
        ("times_are_compared_by_their_distributions", times_are_compared_by_their_distributions),
        ("times_of_one_or_two_runs_are_not_judged", times_of_one_or_two_runs_are_not_judged),
        ("pairs_of_runs_are_judged_and_marks_below_the_noise_are_listed", pairs_of_runs_are_judged),
        ("a_comparison_has_the_names_and_the_order_of_a_report", a_comparison_has_names_and_order_of_a_report),
        ("report_and_diff_have_the_same_quantile", report_and_diff_have_the_same_quantile),
        ("run_alternates_two_programs_and_judges_the_pairs", run_alternates_two_programs),
        ("a_program_that_fails_ends_the_comparison", a_program_that_fails_ends_the_comparison),
        ("what_cannot_be_compared_is_reported", what_cannot_be_compared_is_reported),
        ("a_gate_that_judges_nothing_fails", a_gate_that_judges_nothing_fails),
        ("a_slow_run_in_the_head_does_not_excuse_a_rise", a_slow_run_in_the_head_does_not_excuse_a_rise),
        ("a_side_with_too_few_measured_calls_fails_the_gate", a_side_with_too_few_measured_calls_fails_the_gate),
        ("a_coverage_gate_names_each_mark_below_it", a_coverage_gate_names_each_mark_below_it),
        ("a_comparison_is_available_as_markdown_and_json", a_comparison_is_available_as_markdown_and_json),
        ("the_reports_of_all_processes_are_merged", the_reports_of_all_processes_are_merged),
        ("processes_with_equal_pids_keep_separate_reports", processes_with_equal_pids_keep_separate_reports),
        ("reports_from_several_pid_namespaces_are_merged", reports_from_several_pid_namespaces_are_merged),
        ("run_exits_as_the_program_does", run_exits_as_the_program_does),
        ("reports_that_cannot_be_printed_are_kept", reports_that_cannot_be_printed_are_kept),
        ("a_signal_reaches_the_program_and_its_report_is_printed", a_signal_reaches_the_program),
        ("ctrl_c_ends_the_program_and_its_report_follows", ctrl_c_ends_the_program_and_its_report_follows),
        (
            "sigint_from_a_process_gives_a_report_and_leaves_other_actions_alone",
            sigint_from_a_process_gives_a_report_and_leaves_other_actions_alone,
        ),
        ("a_process_that_still_runs_is_reported", a_process_that_still_runs_is_reported),
        ("nothing_but_the_running_process_is_reported", nothing_but_the_running_process_is_reported),
        ("settings_for_a_program_are_checked_and_passed_on", settings_for_a_program_are_passed_on),
        ("doctor_reports_the_findings_of_the_library", doctor_reports_the_findings_of_the_library),
        ("the_guide_shows_the_output_of_doctor", the_guide_shows_the_output_of_doctor),
        ("doctor_reports_a_seccomp_filter_and_the_remedy", doctor_reports_a_seccomp_filter_and_the_remedy),
        ("every_event_is_listed_with_its_availability", every_event_is_listed),
        ("completions_and_manual_name_every_command", completions_and_manual_name_every_command),
    ];
    support::run(tests.iter().map(|&(name, test)| support::trial(name, test)).collect(), &[])
}

// The programs to run.

#[perfmark(time)]
fn work(n: u64) -> u64 {
    (0..n).map(black_box).sum()
}

#[perfmark]
fn bare() {
    black_box(());
}

fn run_scenario(scenario: &str) -> ExitCode {
    let child = |scenario: &str| {
        let mut command = Command::new(env::current_exe().expect("known"));
        command.env(SCENARIO, scenario);
        command
    };
    match scenario {
        "calls" => {
            work(1);
            bare();
        }
        "children of the head" => {
            work(1);
            for _ in 0..2 {
                assert!(child("calls").stdout(Stdio::null()).status().expect("started").success());
            }
        }
        "writes half a report" | "writes half a report only" => {
            let files = env::var("PERFMARK_OUTPUT").expect("set");
            fs::write(files.replace("%p", "half"), "{\"schema\": 2,").expect("written");
            if scenario == "writes half a report only" {
                // SAFETY: it ends this process, without a report.
                unsafe { libc::_exit(0) };
            }
        }
        "children" => {
            work(1);
            for _ in 0..3 {
                assert!(child("calls").status().expect("started").success());
            }
            println!("what the program says");
            return ExitCode::from(7);
        }
        // The same process ID twice, as when the kernel reuses one.
        "leaves a report and becomes another program" => {
            use std::os::unix::process::CommandExt as _;
            work(1);
            let file = env::var("PERFMARK_OUTPUT").expect("set");
            Report::new(&perfmark::snapshot()).format(Format::Json).write_to(file).expect("written");
            panic!("{}", child("calls").exec());
        }
        "children in namespaces" => {
            work(1);
            for _ in 0..3 {
                let program = this_program();
                let status = unshare().arg(program).env(SCENARIO, "calls").status().expect("started");
                assert!(status.success());
            }
        }
        "killed" => {
            work(1);
            // SAFETY: it ends this process.
            unsafe { libc::raise(libc::SIGKILL) };
        }
        "leaves a child running" | "only leaves a child running" => {
            let pipe = child("listens")
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("started");
            println!("{}", pipe.id());
            std::mem::forget(pipe);
            if scenario == "only leaves a child running" {
                // SAFETY: it ends this process, without a report.
                unsafe { libc::_exit(0) };
            }
            work(1);
        }
        // Refuses the system call as container engines do.
        "doctor without perf_event_open" => {
            use std::os::unix::process::CommandExt as _;
            seccomp::refuse(&[libc::SYS_perf_event_open], libc::EPERM).expect("a filter");
            let error = perfmark(&["doctor"]).env_remove(SCENARIO).exec();
            panic!("{error}");
        }
        "listens" => {
            // Until it is killed.
            loop {
                std::thread::park();
            }
        }
        _ => return wait_for_a_signal(scenario),
    }
    ExitCode::SUCCESS
}

fn wait_for_a_signal(scenario: &str) -> ExitCode {
    match scenario {
        "parks" => {
            work(1);
            println!("ready");
            loop {
                std::thread::park();
            }
        }
        // A forked child has no thread that writes a report. SIGINT still ends it.
        "parks, forked" => {
            work(1);
            // SAFETY: the child only waits for the signal, and the numbers are of this process and its child.
            unsafe {
                let child = libc::fork();
                if child == 0 {
                    loop {
                        libc::pause();
                    }
                }
                libc::kill(child, libc::SIGINT);
                let mut status = 0;
                libc::waitpid(child, &raw mut status, 0);
                assert!(libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGINT, "{status}");
            }
            println!("ready");
        }
        "waits" | "waits for SIGINT" => {
            // SAFETY: the pointers are to live memory, and no handler is installed.
            unsafe {
                let mut set = std::mem::zeroed();
                libc::sigemptyset(&raw mut set);
                libc::sigaddset(&raw mut set, if scenario == "waits" { libc::SIGTERM } else { libc::SIGINT });
                libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
                work(1);
                println!("ready");
                let mut signal = 0;
                libc::sigwait(&raw const set, &raw mut signal);
                return ExitCode::from(u8::try_from(signal).expect("small"));
            }
        }
        _ => panic!("no scenario {scenario}"),
    }
    ExitCode::SUCCESS
}

// Reports for the tests.

/// A report of 100 calls of each function, each call with the given number of instructions.
fn report(instructions: &[(&str, u64)]) -> Snapshot {
    let marks = instructions.iter().map(|&(name, each)| mark(name, vec![values("instructions", &[each; 100])]));
    snapshot(marks.collect())
}

fn snapshot(marks: Vec<Mark>) -> Snapshot {
    let event = |name: &str, unit, read| {
        let mut event = Event::default();
        (event.name, event.unit, event.read) = (name.into(), unit, read);
        event
    };
    let mut snapshot = Snapshot::default();
    snapshot.schema = Snapshot::SCHEMA;
    snapshot.program = "app".into();
    snapshot.pid = 7;
    snapshot.threads = 1;
    snapshot.wall_ns = 1_000_000;
    snapshot.events = vec![event("instructions", Unit::Count, Read::User), event("time", Unit::Ns, Read::Ticks)];
    snapshot.marks = marks;
    snapshot
}

fn mark(name: &str, values: Vec<Values>) -> Mark {
    let calls = values.first().map_or(0, |values| values.measured);
    let mut mark = Mark::default();
    mark.name = name.into();
    mark.path = format!("app::{name}");
    mark.file = "src/main.rs".into();
    mark.line = 3;
    mark.on = true;
    mark.calls = calls;
    mark.every = 1;
    mark.values = values;
    mark
}

fn values(event: &str, calls: &[u64]) -> Values {
    let mut sorted = calls.to_vec();
    sorted.sort_unstable();
    let mut buckets: Vec<(u64, u64, u64)> = Vec::new();
    for &value in &sorted {
        match buckets.last_mut().filter(|bucket| bucket.0 == value) {
            Some(bucket) => bucket.2 += 1,
            None => buckets.push((value, value, 1)),
        }
    }
    let (measured, sum) = (calls.len() as u64, calls.iter().sum::<u64>().cast_signed());
    let at =
        |per_mille: usize| sorted.get((sorted.len() * per_mille / 1000).min(sorted.len().saturating_sub(1))).copied();
    let mut values = Values::default();
    values.event = event.into();
    values.measured = measured;
    values.weight = measured;
    values.sum = sum;
    values.total = sum;
    values.self_sum = Some(sum);
    values.min = sorted.first().copied();
    values.max = sorted.last().copied();
    values.mean = (measured > 0).then(|| sum as f64 / measured as f64);
    values.p50 = at(500);
    values.p90 = at(900);
    values.p99 = at(990);
    values.p999 = at(999);
    values.buckets = buckets;
    values
}

/// A directory for one test, removed when it ends.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = program::file(name);
        _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).expect("made");
        Self(path)
    }

    fn file(&self, name: &str, text: impl AsRef<[u8]>) -> String {
        let path = self.0.join(name);
        fs::write(&path, text).expect("written");
        path.to_str().expect("UTF-8").into()
    }

    fn report(&self, name: &str, snapshot: &Snapshot) -> String {
        self.file(name, json(snapshot))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.0);
    }
}

fn json(snapshot: &Snapshot) -> String {
    Report::new(snapshot).format(Format::Json).to_string()
}

fn table(snapshot: &Snapshot) -> String {
    Report::new(snapshot).to_string()
}

// Running the command line.

fn perfmark(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_perfmark"));
    for (variable, _) in env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("PERFMARK")) {
        command.env_remove(variable);
    }
    command.args(arguments).stdin(Stdio::null());
    command
}

/// The output. Checks the exit status.
#[track_caller]
fn answer(arguments: &[&str], status: i32) -> Output {
    let output = perfmark(arguments).output().expect("started");
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(status), "{arguments:?}\n{stdout}\n{stderr}");
    assert!(!stderr.contains("panicked"), "{stderr}");
    output
}

#[track_caller]
fn stdout(arguments: &[&str], status: i32) -> String {
    text(&answer(arguments, status).stdout).into()
}

#[track_caller]
fn stderr(arguments: &[&str], status: i32) -> String {
    text(&answer(arguments, status).stderr).into()
}

#[track_caller]
fn assert_contains(text: &str, parts: &[&str]) {
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in parts {
        assert!(flat.contains(part), "no {part:?} in:\n{text}");
    }
}

// Printing reports.

/// The path and the content of a real report of this program.
fn real(folder: &Folder, name: &str) -> (String, Snapshot) {
    let path = folder.0.join(name);
    let path = path.to_str().expect("UTF-8");
    let output = program::scenario("calls", &[("PERFMARK_FORMAT", "json"), ("PERFMARK_OUTPUT", path)]);
    assert!(output.status.success());
    (path.into(), serde_json::from_slice(&fs::read(path).expect("left")).expect("a report"))
}

fn a_report_is_printed_as_by_the_program() {
    let folder = Folder::new("cli-shown");
    let (file, snapshot) = real(&folder, "a.json");
    assert_eq!(stdout(&["report", &file], 0), table(&snapshot));
    assert_eq!(stdout(&["report", &file, "--format", "json"], 0), fs::read_to_string(&file).expect("there"));
    assert_eq!(stdout(&["report", &file, "--width", "130"], 0), Report::new(&snapshot).width(130).to_string());
    for name in Format::names() {
        let format = name.parse().expect("named");
        assert_eq!(stdout(&["report", &file, "--format", name], 0), Report::new(&snapshot).format(format).to_string());
    }
    assert_contains(&stderr(&["report", &file, "--format", "xml"], 2), &["invalid value 'xml'", "table, json"]);
}

fn several_reports_are_merged_exactly() {
    let folder = Folder::new("cli-merged");
    let (mut files, mut merged) = (Vec::new(), Snapshot::default());
    for n in 0..3 {
        let (file, snapshot) = real(&folder, &format!("{n}.json"));
        files.push(file);
        merged.merge(&snapshot);
    }
    let [one, two, three] = [0, 1, 2].map(|n| files[n].as_str());
    let output = answer(&["report", one, two, three], 0);
    assert_eq!(text(&output.stdout), table(&merged));
    assert_contains(
        text(&output.stderr),
        &["merged 3 reports; program and process number are those of the first", "--each shows each"],
    );
    assert_eq!(stdout(&["report", "--merge", "--format", "json", one, two, three], 0), json(&merged));
    let each = stdout(&["report", "--each", one, two], 0);
    assert_contains(&each, &[&format!("==> {one} <=="), &format!("==> {two} <==")]);
    let work = merged.marks.iter().find(|mark| mark.name == "work").expect("called");
    assert_eq!(work.calls, 3);
}

fn each_is_accepted_only_with_some_formats() {
    let folder = Folder::new("cli-each");
    let (one, two) = (report(&[("parse", 1000)]), report(&[("print", 2000)]));
    let (first, second) = (folder.report("a.json", &one), folder.report("b.json", &two));
    let documents = stdout(&["report", "--each", "--format", "json", &first, &second], 0);
    assert_eq!(documents, json(&one) + &json(&two));
    let both = folder.file("both.json", documents);
    let each = stdout(&["report", "--each", &both], 0);
    let heads = [1, 2].map(|number| format!("==> {both} · {number} of 2 <==\n"));
    assert_eq!(each, format!("{}{}\n{}{}", heads[0], table(&one), heads[1], table(&two)));
    for name in Format::names().filter(|name| !["table", "markdown", "json"].contains(name)) {
        let why = ["--each supports the formats table, markdown and json"];
        assert_contains(&stderr(&["report", "--each", "--format", name, &first, &second], 2), &why);
        let never_made = folder.0.join("made");
        let made = never_made.to_str().expect("UTF-8");
        assert_contains(&stderr(&["run", "--each", "--format", name, "--", "touch", made], 2), &why);
        assert!(!never_made.exists(), "the program did not start");
    }
}

/// What a command prints on a terminal that is its stdout and stderr.
fn on_terminal(mut command: Command) -> String {
    use std::io::Read as _;
    use std::os::fd::{FromRawFd as _, OwnedFd};
    let (mut ours, mut theirs) = (-1, -1);
    // SAFETY: the memory is live, and nothing else owns the two descriptors.
    let (mut ours, theirs) = unsafe {
        use std::ptr::null_mut;
        assert_eq!(libc::openpty(&raw mut ours, &raw mut theirs, null_mut(), null_mut(), null_mut()), 0);
        (File::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs))
    };
    let mut child = command.stdout(theirs.try_clone().expect("cloned")).stderr(theirs).spawn().expect("started");
    // Closes the command's own copies of the descriptors.
    drop(command);
    let mut shown = Vec::new();
    // The last read fails with EIO.
    _ = ours.read_to_end(&mut shown);
    assert!(child.wait().expect("ended").success(), "{}", text(&shown));
    text(&shown).replace("\r\n", "\n")
}

fn a_table_has_colours_on_a_terminal() {
    let folder = Folder::new("cli-colours");
    let snapshot = report(&[("parse", 1000)]);
    let file = folder.report("a.json", &snapshot);
    let to = |mut command: Command, term: &str, no_color: &str| {
        command.env("TERM", term).env("NO_COLOR", no_color);
        on_terminal(command)
    };
    let coloured = Report::new(&snapshot).color(true).to_string();
    assert_ne!(coloured, table(&snapshot));
    assert_eq!(to(perfmark(&["report", &file]), "xterm", ""), coloured);
    assert_eq!(to(perfmark(&["report", &file, "-o", "-"]), "xterm", ""), coloured);
    assert_eq!(to(perfmark(&["report", &file]), "dumb", ""), table(&snapshot));
    assert_eq!(to(perfmark(&["report", &file]), "xterm", "1"), table(&snapshot));
    assert!(to(running(&folder, &[], "calls"), "xterm", "").contains("\u{1b}["));
}

fn a_report_is_read_from_stdin_and_written_to_a_file() {
    let folder = Folder::new("cli-stdin");
    let snapshot = report(&[("parse", 1000)]);
    let file = folder.report("a.json", &snapshot);
    let output = perfmark(&["report", "-"]).stdin(File::open(&file).expect("there")).output().expect("started");
    assert_eq!(text(&output.stdout), table(&snapshot));
    // Several reports in one file.
    let twice = folder.file("b.json", json(&snapshot).repeat(2));
    let mut merged = snapshot.clone();
    merged.merge(&snapshot);
    assert_eq!(stdout(&["report", &twice], 0), table(&merged));
    let to = folder.0.join("to-%p");
    assert_eq!(stdout(&["report", &file, "-o", to.to_str().expect("UTF-8")], 0), "");
    let written = fs::read_dir(&folder.0).expect("there").flatten().find(|entry| {
        let name = entry.file_name().into_string().expect("UTF-8");
        name.strip_prefix("to-").is_some_and(|pid| pid.parse::<u32>().is_ok())
    });
    assert_eq!(fs::read_to_string(written.expect("written").path()).expect("read"), table(&snapshot));
    assert_contains(
        &stderr(&["report", &file, "-o", "/nowhere/at/all"], 2),
        &["writing /nowhere/at/all: No such file"],
    );
}

fn a_file_is_replaced() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let folder = Folder::new("cli-files");
    let snapshot = report(&[("parse", 1000)]);
    let file = folder.report("a.json", &snapshot);
    let write = |to: &Path| stdout(&["report", &file, "-o", to.to_str().expect("UTF-8")], 0);
    let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o7777;
    let [fresh, kept, link, other] = ["fresh", "kept", "link", "other"].map(|name| folder.0.join(name));
    // SAFETY: no other test creates files whose mode matters.
    unsafe { libc::umask(0o022) };
    write(&fresh);
    assert_eq!((fs::read_to_string(&fresh).expect("written"), mode(&fresh)), (table(&snapshot), 0o644));
    fs::write(&kept, "a longer text than the report: ".repeat(1000)).expect("written");
    fs::set_permissions(&kept, fs::Permissions::from_mode(0o4600)).expect("its owner may");
    // A reader of the old file still sees the old text.
    fs::hard_link(&kept, &other).expect("linked");
    write(&kept);
    assert_eq!((fs::read_to_string(&kept).expect("written"), mode(&kept)), (table(&snapshot), 0o600));
    assert!(fs::read_to_string(&other).expect("there").starts_with("a longer text"));
    symlink(&other, &link).expect("linked");
    write(&link);
    assert_eq!(fs::read_to_string(&other).expect("there"), table(&snapshot));
    assert!(link.is_symlink());
    fs::remove_file(&other).expect("there");
    write(&link);
    assert_eq!(fs::read_to_string(&other).expect("made"), table(&snapshot));
    assert_eq!(write(Path::new("/dev/stdout")), table(&snapshot));
    assert_eq!(fs::read_dir(&folder.0).expect("there").count(), 5, "no draft is left");
}

fn another_users_link_is_not_followed() {
    use std::os::unix::fs::{PermissionsExt as _, lchown, symlink};
    const NOBODY: u32 = 65534;
    // SAFETY: it takes no arguments and always succeeds.
    if unsafe { libc::geteuid() } != 0 {
        return eprintln!("not run: only root can create another user's link");
    }
    let folder = Folder::new("cli-shared");
    let file = folder.report("a.json", &report(&[("parse", 1000)]));
    let [shared, elsewhere] = ["shared", "elsewhere"].map(|name| folder.0.join(name));
    fs::create_dir(&shared).expect("made");
    fs::create_dir(&elsewhere).expect("made");
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o1777)).expect("its owner may");
    // At the end of a path, and on the way.
    for (name, target) in [("link", elsewhere.join("file")), ("way", elsewhere.clone())] {
        let link = shared.join(name);
        symlink(target, &link).expect("linked");
        lchown(&link, Some(NOBODY), None).expect("root may");
        let to = if name == "way" { link.join("file") } else { link };
        let printed = stderr(&["report", &file, "-o", to.to_str().expect("UTF-8")], 2);
        assert_contains(&printed, &["is a symbolic link of user 65534 in a world-writable directory"]);
    }
    assert!(is_empty(&elsewhere));
}

fn marks_are_selected_by_a_filter() {
    let folder = Folder::new("cli-filter");
    let file = folder.report("a.json", &report(&[("parse", 1000), ("print", 2000)]));
    let shown = stdout(&["report", &file, "--marks", "app::parse"], 0);
    assert!(shown.contains("parse") && !shown.contains("print"), "{shown}");
    assert_contains(
        &stderr(&["report", &file, "--marks", "app::prase"], 2),
        &["--marks app::prase", "did you mean parse?"],
    );
    let by_name = stdout(&["report", &file, "--marks", "parse", "--details"], 0);
    assert!(by_name.contains("\ndetails ") && !by_name.contains("print"), "{by_name}");
    let top = stdout(&["report", &file, "--top", "0", "--sort", "calls"], 0);
    assert_contains(&top, &["and 2 more marks", "Sorted by calls."]);
    assert_contains(
        &stderr(&["report", &file, "--marks", "x=every:0"], 2),
        &["`every:0`: expected a number from 1 to"],
    );
}

fn a_file_that_is_not_a_report_is_reported() {
    let folder = Folder::new("cli-wrong");
    let good = json(&report(&[("parse", 1000)]));
    for (name, content, why) in [
        ("empty", String::new(), "is empty"),
        ("cut", good[..good.len() / 2].into(), "is truncated"),
        ("table", table(&report(&[("parse", 1000)])), "is a report in the format `table`, not JSON"),
        ("text", "hello\n".into(), "is not a JSON report"),
        ("other", "{\"a\": 1}".into(), "is JSON, but not a perfmark report"),
        ("list", "[1, 2]".into(), "is JSON, but not a perfmark report"),
        (
            "newer",
            good.replace("\"schema\": 2", "\"schema\": 3"),
            concat!("has schema 3, but perfmark ", env!("CARGO_PKG_VERSION"), " reads schema 2; install the version"),
        ),
        (
            // Schema 1 had no weights and no rows for unwound calls.
            "older",
            good.replace("\"schema\": 2", "\"schema\": 1").replace("\"weight\":100,", ""),
            concat!("has schema 1, but perfmark ", env!("CARGO_PKG_VERSION"), " reads schema 2; an older version"),
        ),
        (
            "no field",
            good.replace("\"every\":1,", ""),
            "is damaged, or is not a report of schema 2 (missing field `every`",
        ),
        ("altered", good.replace("[1000,1000,100]", "[1000,999,100]"), "is damaged"),
        ("negative", good.replace("\"calls\":100", "\"calls\":-1"), "is damaged"),
        ("deep", format!("{{\"a\":{}", "[".repeat(1_000_000)), "is truncated"),
        ("deep list", "[".repeat(1_000_000), "is JSON, but not a perfmark report"),
        ("two and a half", format!("{good}{good}{}", &good[..99]), "is truncated"),
    ] {
        let file = folder.file(name, content);
        let printed = stderr(&["report", &file], 2);
        assert_contains(&printed, &[why, &format!("perfmark: {file} ")]);
        assert_contains(&stderr(&["diff", &file, &file], 2), &[why]);
    }
    for bytes in [&b"\xff\xfe\0\0"[..], b"\0", b"\x1f\x8b\x08\x00"] {
        assert_contains(&stderr(&["report", &folder.file("bytes", bytes)], 2), &["is not a JSON report"]);
    }
    let large = folder.file("large", "");
    File::options().write(true).open(&large).expect("there").set_len((1 << 30) + 1).expect("sparse");
    assert_contains(&stderr(&["report", &large], 2), &["larger than 1024 MiB, the limit for reports"]);
    assert_contains(
        &stderr(&["report", folder.0.to_str().expect("UTF-8")], 2),
        &["is a directory; name the reports in it"],
    );
    assert_contains(&stderr(&["report", "/nowhere"], 2), &["/nowhere: No such file or directory"]);
}

fn a_truncated_report_is_never_accepted() {
    let folder = Folder::new("cli-cuts");
    let good = json(&report(&[("parse", 1000)]));
    let whole = good.trim_end().len();
    for length in (0..whole).step_by(37).chain([whole - 1]) {
        let file = folder.file("cut", &good[..length]);
        assert_contains(&stderr(&["report", &file], 2), &[if length == 0 { "is empty" } else { "is truncated" }]);
    }
}

fn a_report_with_20000_events_is_read_quickly() {
    let folder = Folder::new("cli-many");
    let all = (0..20_000).map(|n| values(&format!("r{n:x}"), &[1])).collect();
    let file = folder.report("many.json", &snapshot(vec![mark("parse", all)]));
    let out = stdout(&["report", &file, "--format", "json"], 0);
    assert!(out.contains("\"r4e1f\""));
}

fn a_closed_pipe_is_not_a_failure() {
    let folder = Folder::new("cli-pipe");
    let marks = (0..2000).map(|n| mark(&format!("f{n}"), vec![values("time", &[n + 1; 3])])).collect();
    let file = folder.report("a.json", &snapshot(marks));
    let mut child =
        perfmark(&["report", &file]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("ended");
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""));
}

fn settings_in_the_environment_overwrite_no_file() {
    let folder = Folder::new("cli-settings");
    let snapshot = report(&[("parse", 1000)]);
    let file = folder.report("a.json", &snapshot);
    let output = perfmark(&["report", &file])
        .envs([("PERFMARK_OUTPUT", &*file), ("PERFMARK_FORMAT", "json"), ("PERFMARK_DUMP_INTERVAL", "60")])
        .output()
        .expect("started");
    assert_eq!(text(&output.stdout), table(&snapshot));
    assert_eq!(fs::read_to_string(&file).expect("there"), json(&snapshot));
}

// Comparing reports.

fn one_percent_more_fails_the_gate() {
    let folder = Folder::new("cli-gate");
    let base = folder.report("base.json", &report(&[("parse", 100_000), ("print", 50_000), ("main", 20_000_000)]));
    let head = folder.report("head.json", &report(&[("parse", 101_000), ("print", 50_000), ("main", 20_000_000)]));
    let printed = stdout(&["diff", &base, &head, "--fail-on", "instructions:0.5%"], 1);
    assert_contains(
        &printed,
        &[
            "1 of 3 marks changed; 1 of 1 gate failed",
            "✗ parse: instructions per call rose by 1.0 % (gate instructions:0.5%): 100,000 → 101,000 (src/main.rs:3)",
            "parse instructions (mean) 100,000 101,000 +1.0 % +1,000",
            "print instructions (mean) 50,000 50,000 =",
            "gate instructions:0.5%: 3 marks judged",
        ],
    );
    assert_eq!(printed.matches('✗').count(), 1);
    stdout(&["diff", &base, &head, "--fail-on", "instructions:1%"], 0);
    stdout(&["diff", &base, &head, "--fail-on", "instructions:0.5%", "--marks", "app::print"], 0);
    stdout(&["diff", &head, &base, "--fail-on", "instructions:0%"], 0);
    stdout(&["diff", &base, &head], 0);
    let by_underscore = stderr(&["diff", &base, &head, "--fail-on", "branch_misses:1"], 2);
    assert_contains(
        &by_underscore,
        &["--fail-on branch-misses:1%: no report has the event; the reports have instructions, time"],
    );
    for wrong in ["instructions", "instructions:", ":1%", "instructions:-1%", "instructions:x%", "instructions:NaN"] {
        assert_contains(&stderr(&["diff", &base, &head, "--fail-on", wrong], 2), &["expected EVENT:PERCENT%"]);
    }
}

fn comparing_equal_runs_passes_20_times_of_20() {
    let folder = Folder::new("cli-same");
    // Hash seeds differ from run to run, so some calls take a few instructions more.
    let run = |seed: u64| {
        let calls: Vec<u64> =
            (0..100).map(|n: u64| 100_000 + n.wrapping_mul(seed + 7).wrapping_mul(2_654_435_761) % 300).collect();
        let times: Vec<u64> =
            (0..100).map(|n: u64| 30_000 + n.wrapping_mul(seed + 3).wrapping_mul(2_654_435_761) % 9_000).collect();
        snapshot(vec![mark("parse", vec![values("instructions", &calls), values("time", &times)])])
    };
    for seed in 0..20 {
        let base = folder.report("base.json", &run(seed));
        let head = folder.report("head.json", &run(seed + 100));
        let printed = stdout(
            &["diff", &base, &head, "--fail-on", "instructions:1%", "--fail-on", "time:5%", "--allow-few-runs"],
            0,
        );
        assert_contains(&printed, &["0 of 1 mark changed; 2 gates passed"]);
    }
}

fn a_caller_is_not_blamed_for_its_callees() {
    let folder = Folder::new("cli-caller");
    let with = |inner: u64| {
        let mut outer = values("instructions", &[1000 + inner; 100]);
        outer.self_sum = Some(100 * 1000);
        snapshot(vec![mark("outer", vec![outer]), mark("inner", vec![values("instructions", &[inner; 100])])])
    };
    let (base, head) = (folder.report("base", &with(10_000)), folder.report("head", &with(11_000)));
    let printed = stdout(&["diff", &base, &head, "--fail-on", "instructions:1%"], 1);
    assert_contains(
        &printed,
        &["✗ outer: instructions per call rose by 9.1 %", "the change is in marked calls inside it"],
    );
    let inner = printed.lines().find(|line| line.starts_with("✗ inner")).expect("printed");
    assert!(!inner.contains("marked calls inside"), "{inner}");
}

fn the_self_mean_covers_the_same_calls_as_the_self_sum() {
    let folder = Folder::new("cli-self-mean");
    let mut lacking = report(&[("parse", 1000)]);
    lacking.marks[0].calls = 150;
    let values = &mut lacking.marks[0].values[0];
    // 100 calls were measured and 50 were not. Self includes nothing for the latter.
    (values.unmeasured, values.extrapolated) = (50, true);
    let file = folder.report("lacking.json", &lacking);
    let shown = Report::new(&lacking).width(200).to_string();
    let row = shown.lines().find(|line| line.starts_with("parse")).expect("a row");
    assert_eq!(row.matches(" ≈1,000 ").count(), 1, "{shown}");
    let compared: serde_json::Value =
        serde_json::from_str(&stdout(&["diff", &file, &file, "--format", "json"], 0)).expect("JSON");
    let own = &compared["marks"][0]["events"][0]["self"];
    assert_eq!((&own["base"], &own["head"]), (&1000.0.into(), &1000.0.into()), "{compared}");
}

fn a_change_within_the_spread_of_runs_passes_the_gate() {
    let folder = Folder::new("cli-runs");
    let write = |side: &str, all: &[u64]| -> Vec<String> {
        let file = |(n, &each): (usize, &u64)| folder.report(&format!("{side}-{n}"), &report(&[("parse", each)]));
        all.iter().enumerate().map(file).collect()
    };
    let base = write("base", &[100_000, 103_000, 101_000]);
    for (all, status) in [(&[102_500, 103_500, 104_000], 0), (&[105_000, 105_500, 106_000], 1)] {
        let head = write("head", all);
        let mut arguments = vec!["diff", "--fail-on", "instructions:1%", "--base"];
        arguments.extend(base.iter().map(String::as_str));
        arguments.push("--head");
        arguments.extend(head.iter().map(String::as_str));
        stdout(&arguments, status);
    }
}

fn times_are_compared_by_their_distributions() {
    let folder = Folder::new("cli-times");
    let with = |from: u64, to: u64| {
        let calls: Vec<u64> = (0..100).map(|n| from + (to - from) * n / 99).collect();
        snapshot(vec![mark("parse", vec![values("time", &calls)])])
    };
    let base = folder.report("base", &with(10_000, 14_000));
    for (head, status, expected) in [
        (with(10_500, 14_500), 0, "0 of 1 mark changed"),
        (with(14_000, 18_000), 1, "parse: time per call rose by 33"),
        (with(5_000, 9_000), 0, "1 of 1 mark changed"),
    ] {
        let head = folder.report("head", &head);
        let arguments = ["diff", "--allow-few-runs", &base, &head, "--fail-on", "time:2%"];
        assert_contains(&stdout(&arguments, status), &[expected]);
    }
    let few = folder.report("few", &snapshot(vec![mark("parse", vec![values("time", &[90_000; 3])])]));
    let printed = stdout(&["diff", "--allow-few-runs", &base, &few, "--fail-on", "time:2%"], 1);
    assert_contains(
        &printed,
        &[
            "too few calls",
            "nothing to judge: parse: too few calls (3); compare three runs per side",
            "100 calls in base, 3 in head",
        ],
    );
}

fn times_of_one_or_two_runs_are_not_judged() {
    let folder = Folder::new("cli-one-run");
    let run = |name: &str, time: u64, instructions: u64| {
        let values = vec![values("instructions", &[instructions; 100]), values("time", &[time; 100])];
        folder.report(name, &snapshot(vec![mark("parse", values)]))
    };
    let (base, head) = (run("base", 1000, 5000), run("head", 2000, 5000));
    let reason = "gate time:5%: cannot judge time with fewer than 3 runs on a side (base 1, head 1)";
    let remedy = "use `perfmark run --times 10 --against BASE -- HEAD`";
    let gate = ["--fail-on", "time:5%"];
    let with = |more: &[&str], status: i32| stdout(&[&["diff", &base, &head], more].concat(), status);
    let printed = with(&gate, 3);
    let parts = ["0 of 1 mark changed; 1 of 1 gate cannot be judged", reason, remedy, "~ +100.0 %"];
    assert_contains(&printed, &parts);
    assert_contains(&with(&[], 0), &["times are not judged, because fewer than 3 runs on a side (base 1, head 1)"]);
    assert_contains(&with(&["--fail-on", "time:5%", "--allow-few-runs"], 1), &["time per call rose by 100.0 %"]);
    // Another gate that fails decides.
    let more = run("more", 2000, 6000);
    let printed = stdout(&["diff", &base, &more, "--fail-on", "time:5%", "--fail-on", "instructions:1%"], 1);
    assert_contains(&printed, &["1 of 2 gates cannot be judged; 1 of 2 gates failed", reason]);
    // Every format has the reason.
    let output = answer(&["diff", &base, &head, "--fail-on", "time:5%", "--format", "json"], 3);
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&document["failed"], &document["gates"][0]["failed"]), (&false.into(), &false.into()));
    assert!(document["gates"][0]["cannot_judge"].as_str().expect("a reason").starts_with(reason));
    assert_contains(text(&output.stderr), &[reason]);
    let output = answer(&["diff", &base, &head, "--fail-on", "time:5%", "--format", "markdown"], 3);
    assert!(text(&output.stdout).starts_with("⚠️ **perfmark**: "), "{}", text(&output.stdout));
    assert_contains(text(&output.stdout), &["cannot judge time with fewer than 3 runs"]);
}

/// Pairs of runs with a mark of 1000 ns, whose head takes `factor` times as long, and one that varies by 20 %.
fn pairs_of_runs(folder: &Folder, pairs: u64, factor: f64) -> Vec<String> {
    let side = |side: &'static str, number: u64, factor: f64| {
        let varied = |size: f64, part: u64, seed: u64| {
            let random = number.wrapping_mul(seed).wrapping_mul(2_654_435_761) % 1000;
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small number")]
            values("time", &[(size * (1.0 + part as f64 / 100.0 * random as f64 / 1000.0)) as u64; 100])
        };
        let seed = if side == "base" { 7919 } else { 104_729 };
        let marks = vec![
            mark("parse", vec![varied(100_000.0 * factor, 1, seed)]),
            mark("noisy", vec![varied(100_000.0, 40, seed + 2)]),
            mark("short", vec![values("time", &[1; 100])]),
        ];
        folder.report(&format!("{side}-{number}"), &snapshot(marks))
    };
    let mut arguments = vec!["diff".to_owned(), "--paired".into(), "--base".into()];
    arguments.extend((1..=pairs).map(|number| side("base", number, 1.0)));
    arguments.push("--head".into());
    arguments.extend((1..=pairs).map(|number| side("head", number, factor)));
    arguments
}

fn pairs_of_runs_are_judged() {
    let folder = Folder::new("cli-pairs");
    let run = |pairs: u64, factor: f64, gate: &str, status: i32| {
        let mut arguments = pairs_of_runs(&folder, pairs, factor);
        arguments.extend(["--fail-on".into(), gate.into()]);
        stdout(&arguments.iter().map(String::as_str).collect::<Vec<_>>(), status)
    };
    let noise = "gate time:2%: not judged: noisy: a rise by less than";
    let short = "gate time:2%: not judged: short: a call is no longer than the noise of the probe";
    let printed = run(10, 1.05, "time:2%", 1);
    assert_contains(&printed, &["✗ parse: time per call rose by", "time (midmean)", noise, short, "1 mark judged"]);
    let printed = run(10, 1.0, "time:2%", 0);
    assert_contains(&printed, &["0 of 3 marks changed; the gate passed", noise, short, "10 pairs of runs"]);
    assert_contains(&run(10, 1.05, "time:7%", 0), &["1 of 3 marks changed; the gate passed"]);
    assert_contains(&run(7, 1.5, "time:2%", 3), &["cannot judge time with fewer than 8 pairs of runs (there are 7)"]);
    let uneven = stderr(&["diff", "--paired", "--base", "a", "b", "--head", "c"], 2);
    assert_contains(&uneven, &["a: No such file"]);
}

fn a_comparison_has_names_and_order_of_a_report() {
    let folder = Folder::new("cli-order");
    let of = |path: &str, line: u32, each: u64| {
        let (_, name) = path.rsplit_once("::").expect("a path");
        let mut mark = mark(name, vec![values("instructions", &[each; 100])]);
        (mark.path, mark.line) = (path.into(), line);
        mark
    };
    let run = |name: &str, warm: u64, more: Mark| {
        let step = |line, each| of("app::parse::step", line, each);
        let marks = [of("app::Tree::new", 1, 10_000), of("app::Table::new", 2, 30_000), of("app::cold", 3, 100)];
        let steps = [step(5, 20_000), step(6, 40_000)];
        folder.report(
            name,
            &snapshot(marks.into_iter().chain([of("app::warm", 4, warm)]).chain(steps).chain([more]).collect()),
        )
    };
    let base = run("base", 15_000, of("app::gone::new", 7, 99_000));
    let head = run("head", 16_000, of("app::came::new", 7, 5));
    let names = |more: &[&str]| -> Vec<String> {
        let printed = stdout(&[&["diff", "--format", "json", &base, &head], more].concat(), 0);
        let document: serde_json::Value = serde_json::from_str(&printed).expect("JSON");
        let marks = document["marks"].as_array().expect("a list");
        marks.iter().map(|mark| mark["mark"].as_str().expect("a name").to_owned()).collect()
    };
    let expected = [
        // It changed.
        "warm",
        // It is only in the base, where it costs most.
        "gone::new",
        "app::parse::step (src/main.rs:6)",
        "Table::new",
        "app::parse::step (src/main.rs:5)",
        "Tree::new",
        "cold",
        "came::new",
    ];
    assert_eq!(names(&[]), expected);
    for name in expected.iter().filter(|name| !name.ends_with(')')) {
        assert_eq!(names(&["--marks", name]), [*name], "a filter accepts each name");
    }
    let shown = stdout(&["report", &head, "--format", "csv"], 0);
    let labels: Vec<&str> = shown.lines().skip(1).filter_map(|row| row.rsplit(',').next()).collect();
    let unchanged = |name: &&str| !["warm", "gone::new"].contains(name);
    assert!(labels.into_iter().filter(unchanged).eq(expected.into_iter().filter(unchanged)), "{shown}");
}

fn report_and_diff_have_the_same_quantile() {
    let folder = Folder::new("cli-quantile");
    let calls: Vec<u64> = (0..1001).map(|n: u64| 1_000 + n * n % 70_000).collect();
    let mut one = snapshot(vec![mark("parse", vec![values("time", &calls)])]);
    // Buckets as in a histogram: a quantile is the middle of one.
    let buckets = &mut one.marks[0].values[0].buckets;
    *buckets = buckets
        .chunks(7)
        .map(|part| (part[0].0, part[part.len() - 1].1, part.iter().map(|bucket| bucket.2).sum()))
        .collect();
    let median = one.marks[0].values[0].quantile(0.5);
    one.marks[0].values[0].p50 = median;
    let file = folder.report("a.json", &one);
    let printed: serde_json::Value =
        serde_json::from_str(&stdout(&["report", "--format", "json", &file], 0)).expect("JSON");
    let compared: serde_json::Value =
        serde_json::from_str(&stdout(&["diff", "--format", "json", &file, &file], 0)).expect("JSON");
    let (shown, event) = (&printed["marks"][0]["values"]["time"]["p50"], &compared["marks"][0]["events"][0]);
    assert_eq!(shown.as_u64(), median);
    assert_eq!((event["statistic"].as_str(), event["base"].as_f64()), (Some("p50"), shown.as_f64()));
}

fn what_cannot_be_compared_is_reported() {
    let folder = Folder::new("cli-printed");
    let base = {
        let mut base =
            report(&[("gone", 10), ("fell silent", 10), ("covered", 10), ("unmeasured", 10), ("sampled", 10)]);
        base.notes.push("the counter \u{1b}[31mlies".into());
        base
    };
    let head = {
        let mut head = report(&[("came", 10), ("covered", 10), ("unmeasured", 10), ("sampled", 10)]);
        head.marks.push(mark("fell silent", vec![]));
        head.program = "another".into();
        head.events[0].read = Read::Syscall;
        for mark in &mut head.marks {
            match &*mark.name {
                "covered" => (mark.values[0].unmeasured, mark.values[0].scaled) = (25, 10),
                "unmeasured" => {
                    mark.values[0] = values("instructions", &[]);
                    mark.values[0].unmeasured = 100;
                }
                "sampled" => (mark.calls, mark.every, mark.skipped) = (6400, 64, 6300),
                _ => {}
            }
        }
        head
    };
    let (base, head) = (folder.report("base", &base), folder.report("head", &head));
    let printed = stdout(&["diff", &base, &head, "--fail-on", "instructions:5%"], 1);
    assert_contains(
        &printed,
        &[
            "only in base: gone",
            "only in head: came",
            "called in base, not in head: fell silent",
            "instructions: head: 20.0 % of the calls were not counted (covered)",
            "instructions: head: 10.0 % of the calls were counted in part, and scaled (covered)",
            "✗ unmeasured: instructions cannot be judged (gate instructions:5%): not measured in head: \
             no call was counted",
            "sampled: 100 calls in base, 6,400 in head",
            "head: 100 of 6400 calls were measured (every)",
            "read by user in base, by syscall in head",
            "base is of program app, head of another",
            "base: the counter \u{fffd}[31mlies",
        ],
    );
}

fn a_gate_that_judges_nothing_fails() {
    let folder = Folder::new("cli-nothing");
    let mut none = snapshot(vec![mark("parse", vec![values("time", &[1000; 100])])]);
    none.events[0].read = Read::None;
    none.events[0].reason = Some("no PMU here".into());
    let file = folder.report("a", &none);
    let printed = stdout(&["diff", &file, &file, "--fail-on", "instructions:1%"], 1);
    assert_contains(&printed, &["✗ gate instructions:1%: nothing to judge: no PMU here"]);
}

/// Compares runs in which `parse` takes that many nanoseconds. The gate allows `time` to rise by 5 %.
fn times_of_runs(folder: &Folder, base: &[u64], head: &[u64], status: i32) -> String {
    let file = |side: &str, number: usize, each: u64| {
        let run = snapshot(vec![mark("parse", vec![values("time", &[each; 100])])]);
        folder.report(&format!("{side}-{number}"), &run)
    };
    let files = |side: &str, all: &[u64]| -> Vec<String> {
        all.iter().enumerate().map(|(number, &each)| file(side, number, each)).collect()
    };
    let (base, head) = (files("base", base), files("head", head));
    let mut arguments = vec!["diff", "--fail-on", "time:5%", "--base"];
    arguments.extend(base.iter().map(String::as_str));
    arguments.push("--head");
    arguments.extend(head.iter().map(String::as_str));
    stdout(&arguments, status)
}

fn a_slow_run_in_the_head_does_not_excuse_a_rise() {
    let folder = Folder::new("cli-slower");
    let base = [1000; 3];
    // How slow the slowest run of the head is does not matter, nor how fast the fastest run of the base is.
    for head in [[1500, 1500, 1500], [1500, 1500, 2600], [1500, 9000, 2600]] {
        assert_contains(&times_of_runs(&folder, &base, &head, 1), &["parse: time per call rose by"]);
    }
    times_of_runs(&folder, &[100, 1000, 1000], &[1500; 3], 1);
    times_of_runs(&folder, &[1000; 5], &[1500, 1500, 1500, 9000, 1000], 1);
    // A run between the medians excuses a rise: one of the head as fast as the base, or one of the base as slow as the
    // head.
    times_of_runs(&folder, &base, &[1000, 1500, 1500], 0);
    times_of_runs(&folder, &[1000, 1000, 1500], &[1500; 3], 0);
    // The same holds for a fall, which is reported only if no run of either side is between the medians.
    assert_contains(&times_of_runs(&folder, &[1500, 1500, 9000], &base, 0), &["1 of 1 mark changed"]);
    assert_contains(&times_of_runs(&folder, &[1000, 1500, 1500], &base, 0), &["0 of 1 mark changed"]);
}

fn a_side_with_too_few_measured_calls_fails_the_gate() {
    let folder = Folder::new("cli-little");
    let full = folder.report("full", &report(&[("parse", 1000)]));
    let with = |measured: usize, unmeasured: u64, skipped: u64| {
        let mut values = values("instructions", &vec![1000; measured]);
        values.unmeasured = unmeasured;
        let calls = measured as u64 + unmeasured + skipped;
        let file = folder.0.join(format!("{measured}-{unmeasured}-{skipped}"));
        let mut parse = mark("parse", vec![values]);
        (parse.calls, parse.skipped) = (calls, skipped);
        folder.report(file.file_name().expect("named").to_str().expect("UTF-8"), &snapshot(vec![parse]))
    };
    for (few, expected) in [
        (with(1, 1_000_000, 0), "1 of 1,000,001 calls"),
        (with(1, 0, 1_000_000), "1 of 1,000,001 calls"),
        (with(50, 451, 0), "50 of 501 calls"),
    ] {
        let of_head = stdout(&["diff", &full, &few, "--fail-on", "instructions:1%"], 1);
        assert_contains(
            &of_head,
            &["✗ parse: instructions cannot be judged (gate instructions:1%): head measured", expected],
        );
        let of_base = stdout(&["diff", &few, &full, "--fail-on", "instructions:1%"], 1);
        assert_contains(
            &of_base,
            &["✗ parse: instructions cannot be judged (gate instructions:1%): base measured", expected],
        );
    }
    // A sample that is large enough, and a mark that had no more calls.
    for enough in [with(100, 0, 9_900), with(100, 100, 0), with(3, 0, 0)] {
        stdout(&["diff", &full, &enough, "--fail-on", "instructions:1%"], 0);
    }
}

fn a_coverage_gate_names_each_mark_below_it() {
    let folder = Folder::new("cli-coverage");
    let with = |name: &str, unmeasured: u64| {
        let mut values = values("time", &[1000; 100]);
        values.unmeasured = unmeasured;
        mark(name, vec![values])
    };
    let base = folder.report("base", &snapshot(vec![with("parse", 900), with("print", 900)]));
    let new = with("new", 300);
    let mut sampled = with("sampled", 0);
    (sampled.calls, sampled.skipped) = (6400, 6300);
    let head = snapshot(vec![with("parse", 11), with("print", 12), new, sampled, mark("silent", Vec::new())]);
    let head = folder.report("head", &head);
    let printed = stdout(&["diff", &base, &head, "--fail-on", "coverage:90%"], 1);
    assert_contains(
        &printed,
        &[
            "✗ print: 89.3 % of its calls were measured in head (gate coverage:90%): time in 100 of 112 calls",
            "✗ new: 25.0 % of its calls were measured in head (gate coverage:90%): time in 100 of 400 calls",
            "gate coverage:90%: 4 marks judged",
        ],
    );
    assert_eq!(
        printed.matches('✗').count(),
        2,
        "coverage of the base and calls that `every` skipped do not matter: {printed}"
    );
    stdout(&["diff", &base, &head, "--fail-on", "coverage:25%"], 0);
    stdout(&["diff", &base, &head, "--fail-on", "coverage:90%", "--marks", "app::parse"], 0);
    // An event that could be counted in the base but not in the head.
    let lost = {
        let mut lost = snapshot(vec![mark("parse", vec![values("time", &[1000; 100])])]);
        (lost.events[0].read, lost.events[0].reason) = (Read::None, Some("no PMU here".into()));
        folder.report("lost", &lost)
    };
    let both = [values("instructions", &[7; 100]), values("time", &[1000; 100])];
    let full = folder.report("full", &snapshot(vec![mark("parse", both.to_vec())]));
    let printed = stdout(&["diff", &full, &lost, "--fail-on", "coverage:1%"], 1);
    assert_contains(
        &printed,
        &[
            "✗ parse: 0.0 % of its calls were measured in head (gate coverage:1%): instructions in 0 of 100 calls",
            "no PMU here",
        ],
    );
    stdout(&["diff", &lost, &lost, "--fail-on", "coverage:100%"], 0);
    let empty = folder.report("empty", &snapshot(vec![mark("parse", Vec::new())]));
    assert_contains(&stdout(&["diff", &full, &empty, "--fail-on", "coverage:1%"], 1), &["nothing to judge"]);
    for wrong in ["coverage:101%", "coverage:-1%"] {
        assert_contains(&stderr(&["diff", &full, &full, "--fail-on", wrong], 2), &["EVENT:PERCENT%"]);
    }
}

fn a_comparison_is_available_as_markdown_and_json() {
    let folder = Folder::new("cli-forms");
    let base = folder.report("base", &report(&[("parse", 100_000), ("<c>a|b", 50_000)]));
    let head = folder.report("head", &report(&[("parse", 110_000), ("<c>a|b", 50_000)]));
    let output = answer(&["diff", &base, &head, "--fail-on", "instructions:1%", "--format", "markdown"], 1);
    let markdown = text(&output.stdout);
    assert!(markdown.starts_with("❌ **perfmark**: 1 of 2 marks changed; 1 of 1 gate failed\n\n- parse: instructions"));
    assert_contains(
        markdown,
        &[
            "| parse | instructions (mean) | 100,000 | 110,000 | +10.0 % | +10,000 |",
            "<details><summary>1 mark unchanged</summary> | mark |",
            "| &lt;c&gt;a\\|b |",
        ],
    );
    assert_contains(text(&output.stderr), &["perfmark: parse: instructions per call rose by 10.0 %"]);
    let document: serde_json::Value =
        serde_json::from_str(&stdout(&["diff", &base, &head, "--fail-on", "instructions:1%", "--format", "json"], 1))
            .expect("JSON");
    assert_eq!(document["failed"], true);
    assert_eq!(document["gates"][0]["failures"][0]["mark"], "parse");
    assert_eq!(document["marks"][0]["mark"], "parse");
    assert_eq!(document["marks"][0]["events"][0]["verdict"], "more");
    assert_eq!(document["marks"][0]["events"][0]["change_percent"], 10.0);
}

// Running programs.

fn this_program() -> String {
    env::current_exe().expect("known").to_str().expect("UTF-8").into()
}

/// `perfmark run` of a scenario, with a temporary directory of its own.
fn running(folder: &Folder, options: &[&str], scenario: &str) -> Command {
    let program = this_program();
    let mut arguments = vec!["run"];
    arguments.extend(options);
    arguments.extend(["--", &program]);
    let mut command = perfmark(&arguments);
    command.env(SCENARIO, scenario).env("TMPDIR", &folder.0).env("RUST_BACKTRACE", "0");
    command
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).expect("there").next().is_none()
}

fn the_reports_of_all_processes_are_merged() {
    let folder = Folder::new("cli-processes");
    let output = running(&folder, &["--format", "json"], "children").output().expect("started");
    assert_eq!(output.status.code(), Some(7), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "what the program says\n");
    let all = text(&output.stderr);
    assert_contains(all, &["merged 4 reports", "--each shows each"]);
    let merged: Snapshot = serde_json::from_str(&all[all.find('{').expect("JSON")..]).expect("a report");
    let calls = |name: &str| merged.marks.iter().find(|mark| mark.name == name).map(|mark| mark.calls);
    assert_eq!((calls("work"), calls("bare")), (Some(4), Some(3)));
    let output = running(&folder, &["--each"], "children").output().expect("started");
    assert_eq!(text(&output.stderr).matches("==> cli").count(), 4, "{}", text(&output.stderr));
    assert!(is_empty(&folder.0), "nothing is left behind");
    let file = folder.0.join("report");
    let output = running(&folder, &["-o", file.to_str().expect("UTF-8")], "calls").output().expect("started");
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""));
    assert!(fs::read_to_string(file).expect("written").contains("work"));
}

/// Calls of `work` in all processes and the number of reports, as `perfmark run` prints them.
fn merged_calls(folder: &Folder, scenario: &str) -> (u64, usize) {
    let output = running(folder, &["--format", "json"], scenario).output().expect("started");
    let printed = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{printed}");
    let (head, report) = printed.split_at(printed.find('{').expect("JSON"));
    let merged: Snapshot = serde_json::from_str(report).expect("a report");
    let reports = head.lines().find_map(|line| line.strip_prefix("perfmark: merged ")?.split_once(" reports;"));
    let work = merged.marks.iter().find(|mark| mark.name == "work").expect("called");
    (work.calls, reports.map_or(1, |(count, _)| count.parse().expect("a number")))
}

fn processes_with_equal_pids_keep_separate_reports() {
    let folder = Folder::new("cli-equal");
    assert_eq!(merged_calls(&folder, "leaves a report and becomes another program"), (2, 2));
    assert!(is_empty(&folder.0), "nothing is left behind");
}

/// Runs a program as process 1 of a new namespace.
fn unshare() -> Command {
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork"]);
    // SAFETY: it takes no arguments and always succeeds.
    if unsafe { libc::geteuid() } != 0 {
        command.args(["--user", "--map-root-user"]);
    }
    command
}

fn reports_from_several_pid_namespaces_are_merged() {
    match unshare().arg("true").output() {
        Ok(output) if output.status.success() => {}
        Ok(output) => return eprintln!("not run: there are no new namespaces here: {}", text(&output.stderr).trim()),
        Err(why) => return eprintln!("not run: unshare: {why}"),
    }
    let folder = Folder::new("cli-namespaces");
    assert_eq!(merged_calls(&folder, "children in namespaces"), (4, 4));
}

fn run_exits_as_the_program_does() {
    let folder = Folder::new("cli-ends");
    let killed = running(&folder, &[], "killed").output().expect("started");
    assert_eq!(killed.status.code(), Some(128 + libc::SIGKILL));
    assert_contains(text(&killed.stderr), &["left no report: signal 9 ended it; set PERFMARK_DUMP_INTERVAL=1"]);
    let printed = stderr(&["run", "--", "true"], 0);
    assert_contains(&printed, &["true left no report: no marked function is linked into it"]);
    assert_contains(&stderr(&["run", "--", "/nowhere/program"], 127), &["/nowhere/program: No such file or directory"]);
    assert_contains(&stderr(&["run", "--", "/etc/passwd"], 126), &["/etc/passwd: Permission denied"]);
    assert_contains(&stderr(&["run"], 2), &["PROGRAM"]);
    let off = running(&folder, &[], "calls").env("PERFMARK", "off").output().expect("started");
    assert_contains(text(&off.stderr), &["PERFMARK=off is set"]);
    let nowhere = running(&folder, &[], "calls").env("TMPDIR", "/nowhere").output().expect("started");
    assert_eq!(nowhere.status.code(), Some(125));
    assert_contains(text(&nowhere.stderr), &["set TMPDIR"]);
    for (file, why) in [("/nowhere/report", "No such file"), ("/tmp", "is a directory"), ("/proc/report", "")] {
        let unwritable = running(&folder, &["-o", file], "children").output().expect("started");
        assert_eq!((unwritable.status.code(), text(&unwritable.stdout)), (Some(125), ""), "the program did not start");
        assert_contains(text(&unwritable.stderr), &[&format!("writing {file}: {why}")]);
    }
    assert!(is_empty(&folder.0));
}

fn reports_that_cannot_be_printed_are_kept() {
    for (options, scenario, status, why) in [
        (&["--marks", "nosuch"][..], "calls", 125, "no mark matches"),
        (&["--marks", "nosuch"], "children", 7, "no mark matches"),
        (&["-o", "/dev/full"], "calls", 125, "writing /dev/full"),
        (&["--format", "json"], "calls", 125, ""),
        (&[], "writes half a report", 125, "1 report could not be read"),
        (&[], "writes half a report only", 125, "1 report could not be read"),
    ] {
        let folder = Folder::new("cli-kept");
        let mut command = running(&folder, options, scenario);
        if why.is_empty() {
            command.stderr(File::options().write(true).open("/dev/full").expect("there"));
        }
        let output = command.output().expect("started");
        let printed = text(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{printed}");
        let kept = fs::read_dir(&folder.0).expect("there").flatten().next().expect("kept").path();
        assert!(!is_empty(&kept));
        if !why.is_empty() {
            assert_contains(printed, &[why, &format!("the reports are kept as JSON in {}", kept.display())]);
        }
        assert!(!printed.contains("left no report"), "{printed}");
        assert_eq!(
            printed.contains("perfmark · cli"),
            scenario == "writes half a report",
            "readable reports are printed"
        );
    }
}

fn a_signal_reaches_the_program() {
    use std::io::BufRead as _;
    let folder = Folder::new("cli-signal");
    let mut child =
        running(&folder, &[], "waits").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
    let mut line = String::new();
    std::io::BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("read");
    assert_eq!(line, "ready\n");
    // SAFETY: the process is the one that this test started.
    unsafe { libc::kill(child.id().cast_signed(), libc::SIGTERM) };
    let output = child.wait_with_output().expect("ended");
    assert_eq!(output.status.code(), Some(libc::SIGTERM), "the program's own answer to the signal");
    assert_contains(text(&output.stderr), &["work"]);
}

/// A shell script that executes this program with a scenario, after `first`.
fn script(folder: &Folder, name: &str, first: &str, scenario: &str) -> String {
    use std::os::unix::fs::PermissionsExt as _;
    let lines = format!("#!/bin/sh\n{first}\n{SCENARIO}='{scenario}' exec '{}'\n", this_program());
    let path = folder.file(name, lines);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("its owner may");
    path
}

fn run_alternates_two_programs() {
    let folder = Folder::new("cli-against");
    let log = folder.file("log", "");
    let base = script(&folder, "base", &format!("echo base >>{log}; echo printed"), "calls");
    let head = script(&folder, "head", &format!("echo head $1 >>{log}"), "children of the head");
    let run = |options: &[&str], status: i32| {
        let arguments = [&["run", "--against", &base], options, &["--", &head, "argument"]].concat();
        let output = perfmark(&arguments).env("TMPDIR", &folder.0).output().expect("started");
        assert_eq!(output.status.code(), Some(status), "{}{}", text(&output.stdout), text(&output.stderr));
        text(&output.stdout).to_owned()
    };
    let printed = run(&["--times", "8", "--format", "json"], 0);
    let document: serde_json::Value = serde_json::from_str(&printed).expect("JSON, and no output of the programs");
    assert_eq!((&document["runs"]["base"], &document["paired"]), (&8.into(), &true.into()));
    let work = document["marks"].as_array().expect("a list").iter().find(|mark| mark["mark"] == "work");
    assert_eq!(work.expect("called")["calls"]["head"], serde_json::json!([3, 3]), "reports of processes are merged");
    let order = fs::read_to_string(&log).expect("written");
    let lines: Vec<&str> = order.lines().collect();
    assert!(lines.len() == 16 && lines.iter().all(|line| ["base", "head argument"].contains(line)), "{order}");
    assert!(lines.chunks(2).all(|pair| pair[0] != pair[1]), "one of each in a pair: {order}");
    assert_contains(&run(&["--times", "2", "--fail-on", "time:5%"], 3), &["fewer than 8 pairs of runs (there are 2)"]);
    let formats = stderr(&["run", "--against", &base, "--format", "csv", "--", &head], 2);
    assert_contains(&formats, &["--against supports the formats table, markdown and json"]);
    assert_contains(&stderr(&["run", "--times", "3", "--", &head], 2), &["--against"]);
}

fn a_program_that_fails_ends_the_comparison() {
    let folder = Folder::new("cli-against-fails");
    let good = script(&folder, "good", "", "calls");
    let bad = script(&folder, "bad", "exit 7", "calls");
    let killed = script(&folder, "killed", "kill -TERM $$", "calls");
    let run = |head: &str, status: i32, why: &str| {
        let output = perfmark(&["run", "--against", &good, "--", head]).env("TMPDIR", &folder.0).output();
        let output = output.expect("started");
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(status), ""), "{}", text(&output.stderr));
        assert_contains(text(&output.stderr), &[&format!("perfmark: head run 1 of 10: {head}: {why}")]);
    };
    run(&bad, 125, "exit status: 7; nothing was compared, because both programs must succeed");
    run(&killed, 143, "signal: 15 (SIGTERM); nothing was compared");
    run("/bin/true", 125, "left no report; `perfmark run -- PROGRAM` prints why");
    run("/nowhere/program", 127, "No such file or directory");
    let left = fs::read_dir(&folder.0).expect("there").flatten().filter(|entry| entry.path().is_dir());
    assert_eq!(left.count(), 0);
}

fn a_process_that_still_runs_is_reported() {
    let folder = Folder::new("cli-goes-on");
    let output = running(&folder, &[], "leaves a child running").output().expect("started");
    let pid = text(&output.stdout).trim();
    let directory = fs::read_dir(&folder.0).expect("there").flatten().next().expect("kept").path();
    let expected = format!(
        "1 process is still running and not in this report; reports at exit will be in {}: {pid} (",
        directory.display()
    );
    assert_contains(text(&output.stderr), &[&expected, "work"]);
    // SAFETY: the process is the one that this test's program started.
    unsafe { libc::kill(pid.parse().expect("a number"), libc::SIGKILL) };
}

fn ctrl_c_ends_the_program_and_its_report_follows() {
    use std::io::{BufRead as _, Read as _};
    use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
    use std::os::unix::process::CommandExt as _;
    let folder = Folder::new("cli-ctrl-c");
    let (mut ours, mut theirs) = (-1, -1);
    // SAFETY: the memory is live, and nothing else owns the two descriptors.
    let (mut ours, theirs) = unsafe {
        use std::ptr::null_mut;
        assert_eq!(libc::openpty(&raw mut ours, &raw mut theirs, null_mut(), null_mut(), null_mut()), 0);
        (File::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs))
    };
    let terminal = theirs.as_raw_fd();
    let mut command = running(&folder, &[], "parks");
    command.stdin(theirs.try_clone().expect("cloned")).stdout(Stdio::piped()).stderr(Stdio::piped());
    // SAFETY: it calls only setsid(2) and ioctl(2), so that Ctrl-C reaches both processes as at a terminal.
    unsafe {
        command.pre_exec(move || {
            assert!(libc::setsid() > 0 && libc::ioctl(terminal, libc::TIOCSCTTY, 0) == 0);
            Ok(())
        });
    }
    let mut child = command.spawn().expect("started");
    let mut line = String::new();
    let mut printed = std::io::BufReader::new(child.stdout.take().expect("piped"));
    printed.read_line(&mut line).expect("read");
    assert_eq!(line, "ready\n");
    ours.write_all(b"\x03").expect("written");
    let mut report = String::new();
    child.stderr.take().expect("piped").read_to_string(&mut report).expect("read");
    assert_eq!(child.wait().expect("ended").code(), Some(128 + libc::SIGINT), "{report}");
    assert_contains(&report, &["perfmark · cli", "work"]);
    assert!(is_empty(&folder.0), "{report}");
}

fn sigint_from_a_process_gives_a_report_and_leaves_other_actions_alone() {
    use std::io::BufRead as _;
    let folder = Folder::new("cli-sigint");
    for (scenario, setting, status, is_reported) in [
        ("parks", None, 128 + libc::SIGINT, true),
        ("parks", Some("end"), 128 + libc::SIGINT, false),
        ("waits for SIGINT", None, libc::SIGINT, true),
        ("parks, forked", None, 0, true),
    ] {
        let mut command = running(&folder, &[], scenario);
        command.envs(setting.map(|setting| ("PERFMARK_ON_SIGINT", setting)));
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
        let mut line = String::new();
        std::io::BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("read");
        assert_eq!(line, "ready\n", "{scenario}");
        if scenario != "parks, forked" {
            // SAFETY: the process is the one that this test started.
            unsafe { libc::kill(child.id().cast_signed(), libc::SIGINT) };
        }
        let output = child.wait_with_output().expect("ended");
        let printed = text(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{scenario}: {printed}");
        assert_eq!(printed.contains("perfmark · cli"), is_reported, "{scenario}: {printed}");
    }
}

fn nothing_but_the_running_process_is_reported() {
    let folder = Folder::new("cli-only-goes-on");
    let output = running(&folder, &[], "only leaves a child running").output().expect("started");
    let printed = text(&output.stderr);
    // SAFETY: the process is the one that this test's program started.
    unsafe { libc::kill(text(&output.stdout).trim().parse().expect("a number"), libc::SIGKILL) };
    assert_contains(printed, &["1 process is still running"]);
    assert_eq!(printed.lines().count(), 1, "{printed}");
}

fn settings_for_a_program_are_passed_on() {
    let folder = Folder::new("cli-passed-on");
    let options = ["-e", "page-faults", "--filter", "*::bare", "--format", "json"];
    let output = running(&folder, &options, "calls").output().expect("started");
    let all = text(&output.stderr);
    let report: Snapshot = serde_json::from_str(all.trim()).expect("a report");
    let mark = |name: &str| report.marks.iter().find(|mark| mark.name == name).expect("listed");
    assert_eq!((mark("work").calls, mark("bare").calls), (0, 1));
    assert_eq!(mark("bare").values[0].event, "page-faults");
    assert_contains(
        &stderr(&["run", "-e", "pagefaults", "true"], 2),
        &["unknown event `pagefaults`; did you mean `page-faults`"],
    );
    assert_contains(&stderr(&["run", "--filter", "a=b=c", "true"], 2), &["--filter"]);
    _ = std::io::stdout().flush();
}

// Events of this machine.

fn doctor_reports_the_findings_of_the_library() {
    let support = perfmark_rdpmc::support();
    let is_counted = support
        .trial
        .as_ref()
        .is_some_and(|trial| trial.instructions.as_ref().is_ok_and(perfmark_rdpmc::support::LoopCheck::passes));
    let printed = stdout(&["doctor"], i32::from(!is_counted));
    for finding in
        support.findings().iter().filter(|finding| finding.subject != "read cost" && finding.subject != "accuracy")
    {
        assert_contains(&printed, &[&finding.text.split_whitespace().collect::<Vec<_>>().join(" ")]);
    }
}

/// Compares the words; numbers differ. The guide shows a virtual machine without a PMU.
fn the_guide_shows_the_output_of_doctor() {
    let support = perfmark_rdpmc::support();
    if !support.user_mode() || !support.core_pmus.is_empty() || support.virtual_machine.is_none() {
        println!("skipped: this is not a virtual machine without a PMU, in which user mode can be counted");
        return;
    }
    let words = |line: &str| {
        let is_number = |word: &str| word.starts_with(|first: char| first.is_ascii_digit());
        let words = line.split_whitespace().map(|word| if is_number(word) { "N" } else { word });
        words.collect::<Vec<_>>().join(" ")
    };
    let printed = stdout(&["doctor"], 1);
    let printed: Vec<String> = printed.lines().map(words).collect();
    let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../perfmark/src/guide/permissions.md");
    let guide = fs::read_to_string(guide).expect("the guide of the workspace");
    let (_, shown) = guide.split_once("$ perfmark doctor\n").expect("the command");
    let (shown, _) = shown.split_once("…\n").expect("the rest is left out");
    for line in shown.lines() {
        // The kernel, the processor and the level differ.
        let line = words(line).replace("x86_64:", &format!("{}:", env::consts::ARCH));
        assert!(printed.contains(&line) || line.contains("perf_event_paranoid"), "{line}: {printed:#?}");
    }
}

fn doctor_reports_a_seccomp_filter_and_the_remedy() {
    let output = program::scenario("doctor without perf_event_open", &[]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert_contains(
        text(&output.stdout),
        &[
            "nothing can be counted",
            "perf_event_open failed with EPERM: a seccomp filter is installed",
            "seccomp=unconfined",
        ],
    );
}

fn every_event_is_listed() {
    let all = stdout(&["events"], 0);
    for name in ["cycles", "page-faults", "L1-dcache-load-misses", "r01c2", "SYSTEM:NAME", "mem:0x1000/8:w"] {
        assert!(all.contains(name), "{name}");
    }
    for line in all.lines().filter(|line| line.starts_with("  ✓")) {
        let name = line.split_whitespace().nth(1).expect("named");
        let event: perfmark_rdpmc::Event = name.parse().expect("as it is listed");
        assert!(perfmark_rdpmc::Counter::open(&perfmark_rdpmc::Attr::new(event)).is_ok(), "{name}");
    }
    let software = stdout(&["events", "sw"], 0);
    assert!(software.contains("minor-faults") && !software.contains("cache"), "{software}");
    let some = stdout(&["events", "L1*MISSES"], 0);
    assert!(some.contains("L1-icache-load-misses") && !some.contains("LLC"), "{some}");
    assert_contains(&stderr(&["events", "nosuch"], 1), &["no event matches nosuch"]);
    assert_contains(&stderr(&["events", "pagefautls"], 1), &["no event matches pagefautls; did you mean page-faults"]);
}

fn completions_and_manual_name_every_command() {
    let (completions, manual) = (stdout(&["completions", "bash"], 0), stdout(&["man"], 0));
    for command in ["report", "diff", "run", "doctor", "events"] {
        assert!(completions.contains(command), "{command}");
        assert!(manual.contains(&format!("perfmark\\-{command}")), "{command}");
        assert!(stdout(&["man", command], 0).contains(".SH SYNOPSIS"), "{command}");
    }
    assert_contains(&stderr(&["man", "nosuch"], 2), &["unknown command `nosuch`; expected one of report, diff"]);
}
