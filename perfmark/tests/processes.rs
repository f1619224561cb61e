//! Complete programs: how they end, their environment, and the report that they leave.
//!
//! Each scenario is this program, started again with `PERFMARK_TEST_SCENARIO`.

#[path = "../../perfmark-rdpmc/tests/child/mod.rs"]
mod child;
mod program;
#[path = "../../perfmark-rdpmc/tests/seccomp/mod.rs"]
mod seccomp;
#[path = "../../perfmark-rdpmc/tests/support/mod.rs"]
mod support;

use std::env;
use std::ffi::CStr;
use std::fs;
use std::hint::black_box;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, ExitCode, Output, Stdio};
use std::thread;
use std::time::Duration;

use perfmark::{Format, Session, perfmark};
use perfmark_rdpmc::{Attr, Counter, Software, known_loop};
use program::{SCENARIO, assert_code, command, ending, file, json, mark, scenario, scenario_of, terminal, text};
use serde_json::Value;

fn main() -> ExitCode {
    if let Ok(scenario) = env::var(SCENARIO) {
        return run_scenario(&scenario);
    }
    let tests: &[(&str, fn())] = &[
        ("with_perfmark_off_nothing_is_reported_or_opened", with_perfmark_off_nothing_is_reported_or_opened),
        ("a_wrong_setting_is_reported_in_one_line_and_the_table_is_printed", a_wrong_setting_is_reported_in_one_line),
        ("a_program_that_calls_no_mark_still_lists_them", a_program_that_calls_no_mark_still_lists_them),
        ("cpu_time_before_the_program_was_executed_is_not_its_own", cpu_time_before_the_program_is_not_its_own),
        ("the_report_goes_to_the_given_output", the_report_goes_to_the_given_output),
        (
            "an_empty_line_is_before_a_table_on_stderr_and_before_no_other_format",
            an_empty_line_is_before_a_table_on_stderr,
        ),
        ("a_program_whose_file_was_deleted_keeps_its_name", a_program_whose_file_was_deleted_keeps_its_name),
        ("a_terminal_gets_its_width_and_colours_unless_disabled", a_terminal_gets_its_width_and_colours),
        ("a_report_that_cannot_be_written_goes_to_stderr", a_report_that_cannot_be_written_goes_to_stderr),
        ("events_in_the_environment_apply_to_bare_marks_only", events_in_the_environment_apply_to_bare_marks_only),
        ("without_a_running_clock_the_rest_is_reported", without_a_running_clock_the_rest_is_reported),
        ("a_closed_stderr_does_no_harm", a_closed_stderr_does_no_harm),
        ("a_link_to_a_descriptor_is_written_to_and_kept", a_link_to_a_descriptor_is_written_to_and_kept),
        (
            "a_reader_that_does_not_read_does_not_block_the_program",
            a_reader_that_does_not_read_does_not_block_the_program,
        ),
        (
            "the_draft_of_a_process_killed_in_a_dump_is_removed_by_the_next_dump",
            the_draft_of_a_killed_process_is_removed,
        ),
        ("dumps_at_intervals_do_not_require_futex", dumps_do_not_require_futex),
        ("a_process_that_may_not_call_getpid_keeps_its_known_id_or_has_none", a_process_that_may_not_call_getpid),
        (
            "a_pipe_without_a_reader_neither_kills_nor_blocks_the_program",
            a_pipe_without_a_reader_neither_kills_nor_blocks_the_program,
        ),
    ];
    let on_pmu: &[support::OnPmu] = &[("user_reads_and_read_2_agree_on_a_marked_loop", user_reads_and_read_2_agree)];
    support::run(tests.iter().map(|&(name, test)| support::trial(name, test)).collect(), on_pmu)
}

// The marked functions.

#[perfmark(time, page_faults, instructions)]
fn work(n: u64) -> u64 {
    (0..n).map(black_box).sum()
}

#[perfmark]
fn bare() {
    black_box(());
}

#[perfmark(instructions)]
fn looped() -> u64 {
    known_loop(1_000_000)
}

#[perfmark(time)]
fn never_called() {}

/// The scenario in which the clock stands still, as in some simulators.
const CLOCK_STANDS: &str = "clock stands";

/// Takes the place of the C library's.
#[unsafe(no_mangle)]
extern "C" fn clock_gettime(clock: libc::clockid_t, time: *mut libc::timespec) -> libc::c_int {
    // SAFETY: the caller's memory; the environment does not change.
    unsafe {
        let scenario = libc::getenv(c"PERFMARK_TEST_SCENARIO".as_ptr());
        if !scenario.is_null() && CStr::from_ptr(scenario).to_bytes() == CLOCK_STANDS.as_bytes() {
            time.write(libc::timespec { tv_sec: 1, tv_nsec: 0 });
            return 0;
        }
        libc::c_int::try_from(libc::syscall(libc::SYS_clock_gettime, clock, time)).unwrap_or(-1)
    }
}

fn with_a_standing_clock() {
    // SAFETY: it takes no pointers; the signal ends a program that waits for ever.
    unsafe { libc::alarm(60) };
    work(1);
    let snapshot = perfmark::snapshot();
    assert_eq!(snapshot.marks.iter().map(|mark| mark.calls).sum::<u64>(), 1);
    let threads = perfmark::threads();
    let values = threads.iter().flat_map(|thread| &thread.marks).flat_map(|mark| &mark.values);
    assert!(values.clone().count() == 0 || values.clone().all(|values| values.event != "time"), "{threads:?}");
    assert_eq!(perfmark::measure(&["time"], || ()).expect("time is always there").counts[0].count, None);
    let _dumping = dumps();
    while !fs::exists(env::var_os(FILE).expect("set")).expect("known") {
        thread::yield_now();
    }
}

// The scenarios.

fn run_scenario(scenario: &str) -> ExitCode {
    match scenario {
        "calls" => {
            work(1);
            bare();
            println!("the program's own output");
        }
        "sessions" => [Format::Table, Format::Markdown].into_iter().for_each(session),
        "deleted" => fs::remove_file(env::current_exe().expect("known")).expect("its own copy"),
        "off" => {
            let descriptors = || fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
            let mappings = || fs::read_to_string("/proc/self/maps").map_or(0, |maps| maps.lines().count());
            let before = (descriptors(), mappings());
            work(1);
            bare();
            let snapshot = perfmark::snapshot();
            assert_eq!((descriptors(), mappings()), before);
            assert_eq!((snapshot.threads, snapshot.marks.iter().map(|mark| mark.calls).sum()), (0, 0));
        }
        CLOCK_STANDS => with_a_standing_clock(),
        "loop" => (0..10).for_each(|_| _ = looped()),
        "sigpipe" => {
            // SAFETY: it restores the default action, as command-line tools do.
            unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
            work(1);
        }
        // As a sandbox does, before the program starts and while it runs.
        "without getpid from the start" => {
            use std::os::unix::process::CommandExt as _;
            let error = match seccomp::refuse(&[libc::SYS_getpid], libc::ENOSYS) {
                Ok(()) => Command::new(env::current_exe().expect("known")).env(SCENARIO, "calls").exec(),
                Err(why) => why,
            };
            eprintln!("not run: {error}");
            return ExitCode::from(NOT_RUN);
        }
        "without getpid" => {
            println!("{}", std::process::id());
            work(1);
            if let Err(why) = seccomp::refuse(&[libc::SYS_getpid, libc::SYS_gettid], libc::EPERM) {
                eprintln!("not run: {why}");
                return ExitCode::from(NOT_RUN);
            }
            thread::spawn(|| {
                work(1);
                // The IDs of this thread and of the one before.
                let ids: Vec<_> = perfmark::threads().into_iter().map(|thread| thread.id).collect();
                assert!(ids.len() == 2 && ids.contains(&None) && ids.iter().flatten().count() == 1, "{ids:?}");
            })
            .join()
            .expect("it does not panic");
        }
        "killed in a dump" => {
            // The process is killed when the dump is written but not yet renamed.
            #[cfg(target_arch = "x86_64")]
            let renames = [libc::SYS_rename, libc::SYS_renameat, libc::SYS_renameat2];
            #[cfg(not(target_arch = "x86_64"))]
            let renames = [libc::SYS_renameat, libc::SYS_renameat2];
            // SAFETY: it takes no pointers. It prevents a core file.
            unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) };
            if let Err(why) = seccomp::answer_to(&renames, libc::SECCOMP_RET_KILL_PROCESS) {
                eprintln!("not run: {why}");
                return ExitCode::from(NOT_RUN);
            }
            let _dumping = dumps();
            loop {
                thread::park();
            }
        }
        "dumps without futex" => return dumps_without_futex(),
        "dumps" => {
            let file = env::var_os(FILE).expect("set");
            _ = fs::remove_file(&file);
            let _dumping = dumps();
            while !fs::exists(&file).expect("known") {
                thread::yield_now();
            }
        }
        _ if black_box(false) => never_called(),
        _ => {}
    }
    ExitCode::SUCCESS
}

fn session(format: Format) {
    let _session = Session::new().format(format);
    work(1);
}

/// The file for a scenario's dumps.
const FILE: &str = "PERFMARK_TEST_FILE";
const NOT_RUN: u8 = 77;

fn dumps() -> perfmark::Dumping {
    let dumps = perfmark::Dumps::new(env::var_os(FILE).expect("set"));
    dumps.every(Duration::from_millis(1)).start().expect("a thread")
}

fn dumps_without_futex() -> ExitCode {
    if let Err(why) = seccomp::refuse(&[libc::SYS_futex], libc::EPERM) {
        eprintln!("not run: {why}");
        return ExitCode::from(NOT_RUN);
    }
    // SAFETY: it takes no pointers; the signal ends a program that waits for ever.
    unsafe { libc::alarm(60) };
    // Its end would wait for the thread, which requires futex.
    std::mem::forget(dumps());
    while !fs::exists(env::var_os(FILE).expect("set")).expect("known") {
        thread::yield_now();
    }
    ExitCode::SUCCESS
}

// The tests.

fn with_perfmark_off_nothing_is_reported_or_opened() {
    let output = scenario("off", &[("PERFMARK", "off")]);
    assert_code(&output, 0);
    assert_eq!((text(&output.stdout), text(&output.stderr)), ("", ""));
}

fn a_wrong_setting_is_reported_in_one_line() {
    let output = scenario("calls", &[("PERFMARK_FORMAT", "xml")]);
    let stderr = text(&output.stderr);
    let (first, table) = stderr.split_once('\n').expect("lines");
    assert!(first.starts_with("perfmark: PERFMARK_FORMAT=xml: ") && first.contains("json"), "{first}");
    assert!(!table.contains("xml"), "reported once: {table}");
    assert!(table.contains("work") && table.contains("share"), "{table}");
}

fn a_program_that_calls_no_mark_still_lists_them() {
    let output = scenario("nothing", &[]);
    let stderr = text(&output.stderr);
    assert!(stderr.contains("never called:") && stderr.contains("never_called") && stderr.contains("work"), "{stderr}");
}

/// A shell that computes for a while, and then becomes this program (`execve(2)`).
fn cpu_time_before_the_program_is_not_its_own() {
    const SCRIPT: &str = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; times >&2; exec \"$0\"";
    let variables = [("PERFMARK_FORMAT", "json"), ("PERFMARK_OUTPUT", "-")];
    let mut shell = command(Path::new("sh"), "calls", &variables);
    let output = shell.args(["-c", SCRIPT]).arg(env::current_exe().expect("known")).output().expect("there is a shell");
    assert_code(&output, 0);
    let stdout = text(&output.stdout);
    let report: Value = serde_json::from_str(&stdout[stdout.find('{').expect("a report")..]).expect("JSON");
    let [cpu, wall] = ["cpu_ns", "wall_ns"].map(|field| report[field].as_u64().expect("a number"));
    println!("{cpu} ns CPU in {wall} ns; the shell: {}", text(&output.stderr));
    // The kernel counts CPU time in ticks of up to 10 ms. The program has one thread.
    assert!(cpu <= wall + 50_000_000, "{cpu} ns CPU in {wall} ns");
}

fn the_report_goes_to_the_given_output() {
    let output = scenario("calls", &[("PERFMARK_OUTPUT", "-")]);
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(stdout.starts_with("the program's own output\n") && stdout.contains("work"), "{stdout}");
    assert_eq!(stderr, "");

    let path = file("report");
    fs::write(&path, "an older and much longer report ".repeat(1_000)).expect("writable");
    let output = scenario("calls", &[("PERFMARK_OUTPUT", path.to_str().expect("UTF-8")), ("PERFMARK_FORMAT", "json")]);
    assert_eq!((text(&output.stdout), text(&output.stderr)), ("the program's own output\n", ""));
    let report: Value = serde_json::from_slice(&fs::read(&path).expect("written")).expect("complete JSON");
    assert_eq!(mark(&report, "work")["calls"], 1);
    fs::remove_file(&path).expect("there");
}

fn an_empty_line_is_before_a_table_on_stderr() {
    let has_empty_lines = |output: &Output| -> Vec<bool> {
        let lines: Vec<&str> = std::iter::once("first").chain(text(&output.stderr).lines()).collect();
        lines.windows(2).filter(|pair| pair[1].starts_with("perfmark · ")).map(|pair| pair[0].is_empty()).collect()
    };
    let at_exit =
        ["table", "markdown"].map(|format| has_empty_lines(&scenario("calls", &[("PERFMARK_FORMAT", format)])));
    assert_eq!(at_exit, [[true], [false]]);
    assert_eq!(has_empty_lines(&scenario("sessions", &[("PERFMARK_OUTPUT", "-")])), [true, false]);
}

/// As after a deployment, which replaces the file.
fn a_program_whose_file_was_deleted_keeps_its_name() {
    let program = file("deleted");
    fs::copy(env::current_exe().expect("known"), &program).expect("copied");
    let output = scenario_of(&program, "deleted", &[("PERFMARK_FORMAT", "json")]);
    assert_code(&output, 0);
    let report: Value = serde_json::from_slice(&output.stderr).expect("JSON");
    assert_eq!(report["program"].as_str(), program.file_name().expect("a name").to_str());
}

fn a_terminal_gets_its_width_and_colours() {
    for (columns, variables, has_color) in [
        (80, [("TERM", "xterm"), ("NO_COLOR", "")], true),
        (120, [("TERM", "xterm"), ("NO_COLOR", "")], true),
        (120, [("TERM", "xterm"), ("NO_COLOR", "1")], false),
        (120, [("TERM", "dumb"), ("NO_COLOR", "")], false),
    ] {
        let report = match on_terminal(columns, &variables) {
            Ok(report) => report,
            Err(why) => return eprintln!("not run: there are no terminals here: {why}"),
        };
        assert!(report.contains("work"), "{report:?}");
        assert_eq!(report.contains("total sum"), columns == 120, "{report:?}");
        assert_eq!(report.contains('\u{1b}'), has_color, "{variables:?}: {report:?}");
    }
    // A file has no colours, whatever the terminal supports.
    let output = scenario("calls", &[("TERM", "xterm"), ("NO_COLOR", "")]);
    assert!(!text(&output.stderr).contains('\u{1b}'), "{}", text(&output.stderr));
}

/// What a terminal with that many columns receives from stderr.
fn on_terminal(columns: u16, variables: &[(&str, &str)]) -> io::Result<String> {
    let (mut ours, theirs) = terminal(columns)?;
    let mut command = command(&env::current_exe().expect("known"), "calls", variables);
    let mut child = command.stdout(Stdio::null()).stderr(theirs).spawn().expect("started");
    // The terminal closes with its last open descriptor.
    drop(command);
    let mut received = Vec::new();
    _ = ours.read_to_end(&mut received);
    let status = child.wait().expect("a child");
    let received = String::from_utf8(received).expect("UTF-8");
    assert!(status.success(), "{status}: {received}");
    Ok(received)
}

fn a_report_that_cannot_be_written_goes_to_stderr() {
    let output = scenario("calls", &[("PERFMARK_OUTPUT", "/proc/report")]);
    let stderr = text(&output.stderr);
    assert_code(&output, 0);
    assert!(stderr.starts_with("perfmark: PERFMARK_OUTPUT=/proc/report: "), "{stderr}");
    assert!(stderr.contains("work"), "{stderr}");
    let mut command = command(&env::current_exe().expect("known"), "sigpipe", &[("PERFMARK_OUTPUT", "-")]);
    let full = fs::File::options().write(true).open("/dev/full").expect("there");
    let output = command.stdout(full).output().expect("started");
    let stderr = text(&output.stderr);
    assert_code(&output, 0);
    let why = "perfmark: PERFMARK_OUTPUT=-: No space left on device (os error 28); the report follows\n";
    assert!(stderr.starts_with(why) && stderr.contains("work"), "{stderr}");
}

fn events_in_the_environment_apply_to_bare_marks_only() {
    let report = json("calls", &[("PERFMARK_EVENTS", "page-faults")], 0);
    let events =
        |name| -> Vec<String> { mark(&report, name)["values"].as_object().expect("a map").keys().cloned().collect() };
    let faults = report["events"].as_array().expect("a list").iter().find(|event| event["name"] == "page-faults");
    let faults = faults.expect("asked for");
    match Counter::open(&Attr::new(Software::PageFaults)) {
        Ok(_) => assert_eq!((events("bare"), &faults["read"]), (vec!["page-faults".into()], &"syscall".into())),
        // A target without counters.
        Err(why) => {
            assert_eq!((events("bare"), &faults["read"]), (vec!["time".into()], &"none".into()));
            assert_eq!(faults["reason"], why.reason());
        }
    }
    assert!(events("work").contains(&"time".into()));
}

fn without_a_running_clock_the_rest_is_reported() {
    let dump = file("clock");
    let report = json(CLOCK_STANDS, &[(FILE, dump.to_str().expect("UTF-8"))], 0);
    fs::remove_file(dump).expect("written");
    let event = |name: &str| report["events"].as_array().and_then(|all| all.iter().find(|event| event["name"] == name));
    let time = event("time").expect("it was requested");
    assert!(
        time["read"] == "none" && time["reason"].as_str().is_some_and(|why| why.contains("stands still")),
        "{time}"
    );
    let work = mark(&report, "work");
    assert!(work["calls"] == 1 && work["values"]["time"].is_null(), "{work}");
    if Counter::open(&Attr::new(Software::PageFaults)).is_ok() {
        assert_eq!(work["values"]["page-faults"]["measured"], 1, "{work}");
    }
}

fn a_closed_stderr_does_no_harm() {
    let program = env::current_exe().expect("known");
    let output = Command::new("sh")
        .args(["-c", "exec \"$0\" 2>&-"])
        .arg(program)
        .env(SCENARIO, "calls")
        .output()
        .expect("started");
    assert_code(&output, 0);
    assert_eq!(text(&output.stdout), "the program's own output\n");
}

/// How far the two ways may differ: by the user-mode instructions of read(2), and of an exit for which the kernel
/// touched the counter.
const READ_2: u64 = if cfg!(debug_assertions) { 2_000 } else { 240 };

fn user_reads_and_read_2_agree() {
    let counted = |read: &str| {
        let report = json("loop", &[("PERFMARK_READ", read)], 0);
        let event = &report["events"][0];
        assert_eq!((&event["name"], &event["read"]), (&"instructions".into(), &read.into()), "{event}");
        let values = &mark(&report, "looped")["values"]["instructions"];
        assert_eq!(values["measured"], 10);
        (values["min"].as_u64().expect("measured"), values["max"].as_u64().expect("measured"))
    };
    let (user, syscall) = (counted("user"), counted("syscall"));
    println!("a loop of 2,000,000 instructions: {user:?} by user reads, {syscall:?} by read(2) (min, max)");
    assert!(user.0 >= 2_000_000 && user.0.abs_diff(syscall.0) <= READ_2 && user.1.abs_diff(syscall.1) <= READ_2);
}

fn a_link_to_a_descriptor_is_written_to_and_kept() {
    let (link, log) = (file("link"), file("log"));
    std::os::unix::fs::symlink("/proc/self/fd/2", &link).expect("linked");
    let stderr = fs::File::create(&log).expect("created");
    let status = Command::new(env::current_exe().expect("known"))
        .env(SCENARIO, "calls")
        .env("PERFMARK_OUTPUT", &link)
        .stdout(Stdio::null())
        .stderr(stderr)
        .status()
        .expect("started");
    assert!(status.success(), "{status}: {}", fs::read_to_string(&log).unwrap_or_default());
    assert!(fs::symlink_metadata(&link).expect("there").is_symlink());
    assert!(fs::read_to_string(&log).expect("written").contains("work"));
    fs::remove_file(&link).expect("there");
    fs::remove_file(&log).expect("there");
}

fn a_reader_that_does_not_read_does_not_block_the_program() {
    use std::os::fd::AsRawFd as _;
    if env::var_os("PERFMARK_TEST_FULL").is_none() {
        return eprintln!("not run without PERFMARK_TEST_FULL: programs wait five seconds for the reader");
    }
    let program = env::current_exe().expect("known");
    // One note for each pattern: more than a page, whatever else is in the report.
    let filter = (0..500).fold("on".to_owned(), |filter, number| format!("{filter},none{number}=off"));
    let run = |output: &str, stdout: Stdio, stderr: Stdio| {
        let variables = [("PERFMARK_FORMAT", "json"), ("PERFMARK_OUTPUT", output), ("PERFMARK_FILTER", &filter)];
        let mut command = command(&program, "nothing", &variables);
        child::run_to_end(command.stdout(stdout).stderr(stderr), Duration::from_secs(60))
    };
    thread::scope(|scope| {
        // A full pipe, and one with room for a page, which is a part of the report.
        for room in [0, 4096] {
            let run = &run;
            scope.spawn(move || {
                let (mut reader, writer) = io::pipe().expect("made");
                // SAFETY: the descriptor is open; the call sets the pipe's size, rounded up to pages.
                let size = unsafe { libc::fcntl(writer.as_raw_fd(), libc::F_SETPIPE_SZ, 4096) };
                let size = usize::try_from(size).expect("set");
                (&writer).write_all(&vec![b' '; size - room]).expect("as much as fits");
                let output = run("-", writer.into(), Stdio::piped());
                assert_code(&output, 0);
                let printed = text(&output.stderr);
                let counts = printed
                    .strip_prefix("perfmark: ")
                    .and_then(|printed| printed.split_once(" bytes of the report were not written: "));
                let counts = counts.and_then(|(counts, _)| counts.split_once(" of "));
                let (lost, all) = counts.unwrap_or_else(|| panic!("{printed}"));
                let number = |text: &str| text.parse::<usize>().expect("a number");
                assert!(printed.lines().count() == 1 && number(all) > 8192, "{printed}");
                assert_eq!(number(all) - number(lost), room, "{printed}");
                let mut got = Vec::new();
                reader.read_to_end(&mut got).expect("read");
                assert_eq!(got.len(), size);
            });
        }
        // Both descriptors are one socket, as under systemd.
        scope.spawn(|| {
            let (ours, theirs) = UnixStream::pair().expect("made");
            let size: libc::c_int = 1;
            // SAFETY: the option is live and has that size; the kernel uses its minimum.
            let set = unsafe {
                let (option, length) = ((&raw const size).cast(), size_of_val(&size));
                let length = length.try_into().expect("small");
                libc::setsockopt(theirs.as_raw_fd(), libc::SOL_SOCKET, libc::SO_SNDBUF, option, length)
            };
            assert_eq!(set, 0, "{}", io::Error::last_os_error());
            let both = OwnedFd::from(theirs);
            let output = run("", both.try_clone().expect("cloned").into(), both.into());
            assert_code(&output, 0);
            drop(ours);
        });
        // A stopped terminal, as after Ctrl-S.
        scope.spawn(|| {
            let (ours, theirs) = match terminal(0) {
                Ok(ends) => ends,
                Err(why) => return eprintln!("not run: there are no terminals here: {why}"),
            };
            // SAFETY: it takes no pointers.
            assert_eq!(unsafe { libc::tcflow(theirs.as_raw_fd(), libc::TCOOFF) }, 0);
            assert_code(&run("", Stdio::null(), theirs.into()), 0);
            drop(ours);
        });
    });
}

fn the_draft_of_a_killed_process_is_removed() {
    use std::os::unix::process::ExitStatusExt as _;
    let folder = file("drafts");
    fs::create_dir(&folder).expect("made");
    let report = folder.join("report.txt");
    let run = |scenario: &str| {
        let mut command = command(&env::current_exe().expect("known"), scenario, &[("PERFMARK_OUTPUT", "-")]);
        command.env(FILE, &report).output().expect("started")
    };
    let files =
        || -> Vec<_> { fs::read_dir(&folder).expect("there").flatten().map(|entry| entry.file_name()).collect() };
    let killed = run("killed in a dump");
    if killed.status.code() == Some(NOT_RUN.into()) {
        fs::remove_dir(&folder).expect("empty");
        return eprintln!("not run: there are no seccomp filters here: {}", text(&killed.stderr));
    }
    assert_eq!(killed.status.signal(), Some(libc::SIGSYS), "{}", ending(&killed));
    let left = files();
    assert!(left.len() == 1 && left[0] != "report.txt", "it was killed in the middle: {left:?}");
    // Files with the names of others, which perfmark must not remove.
    for name in ["own.draft", "report.txt.1.0.draft"] {
        fs::write(folder.join(name), "").expect("written");
    }
    assert_code(&run("dumps"), 0);
    let mut files = files();
    files.sort_unstable();
    assert_eq!(files, ["own.draft", "report.txt", "report.txt.1.0.draft"]);
    fs::remove_dir_all(&folder).expect("there");
}

fn dumps_do_not_require_futex() {
    let dump = file("futex");
    let mut command = command(&env::current_exe().expect("known"), "dumps without futex", &[("PERFMARK_OUTPUT", "-")]);
    let output = command.env(FILE, &dump).output().expect("started");
    _ = fs::remove_file(dump);
    if output.status.code() == Some(NOT_RUN.into()) {
        return eprintln!("not run: there are no seccomp filters here: {}", text(&output.stderr));
    }
    assert_code(&output, 0);
}

fn a_process_that_may_not_call_getpid() {
    let folder = file("numbers");
    fs::create_dir(&folder).expect("made");
    let output = folder.join("report-%p.json");
    let output = output.to_str().expect("UTF-8");
    for scenario_name in ["without getpid from the start", "without getpid"] {
        let table = scenario(scenario_name, &[]);
        if table.status.code() == Some(NOT_RUN.into()) {
            fs::remove_dir(&folder).expect("empty");
            return eprintln!("not run: there are no seccomp filters here: {}", text(&table.stderr));
        }
        assert_code(&table, 0);
        let is_known = scenario_name == "without getpid";
        let number = if is_known { text(&table.stdout).trim() } else { "unknown" };
        assert!(text(&table.stderr).contains(&format!(" · pid {number} · ")), "{}", text(&table.stderr));
        // It is not its own child, and its report is in the given file.
        let output = scenario(scenario_name, &[("PERFMARK_OUTPUT", output), ("PERFMARK_FORMAT", "json")]);
        assert_code(&output, 0);
        assert_eq!(text(&output.stderr), "");
        let number = if is_known { text(&output.stdout).trim() } else { "unknown" };
        let path = folder.join(format!("report-{number}.json"));
        let report: Value = serde_json::from_slice(&fs::read(&path).expect("written")).expect("JSON");
        assert_eq!(report["pid"], number.parse().unwrap_or(0));
        fs::remove_file(path).expect("there");
    }
    fs::remove_dir(folder).expect("nothing else");
}

fn a_pipe_without_a_reader_neither_kills_nor_blocks_the_program() {
    let (reader, writer) = io::pipe().expect("made");
    drop(reader);
    let status = Command::new(env::current_exe().expect("known")).env(SCENARIO, "sigpipe").stderr(writer).status();
    let status = status.expect("started");
    assert!(status.success(), "{status}");
    // A named pipe that nobody opened is refused, and the report goes to stderr.
    let path = file("fifo");
    let made = Command::new("mkfifo").arg(&path).status().expect("started");
    assert!(made.success(), "{made}");
    let output = scenario("calls", &[("PERFMARK_OUTPUT", path.to_str().expect("UTF-8"))]);
    assert!(text(&output.stderr).contains("the report follows") && text(&output.stderr).contains("work"));
    fs::remove_file(&path).expect("there");
}
