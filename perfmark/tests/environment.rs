//! Settings in the environment: the filter, and the destination of the report. Some programs must ignore them.
//!
//! Each scenario is this program, started again with `PERFMARK_TEST_SCENARIO`.

#[path = "../../perfmark-rdpmc/tests/support/mod.rs"]
mod support;
mod program;

use std::alloc::{GlobalAlloc, Layout, System};
use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::SystemTime;

use perfmark::perfmark;
use program::{SCENARIO, assert_code, command, ending, file, json, mark, scenario, scenario_of, text};
use serde_json::Value;

fn main() -> ExitCode {
    if let Ok(scenario) = env::var(SCENARIO) {
        run_scenario(&scenario);
        return ExitCode::SUCCESS;
    }
    // A shell that starts this program in the background lets it ignore SIGINT, and the programs that it starts inherit
    // that.
    // SAFETY: no thread runs yet, and no handler is installed.
    unsafe {
        libc::signal(libc::SIGINT, libc::SIG_DFL);
    }
    let tests: &[(&str, fn())] = &[
        ("marks_that_the_filter_turns_off_are_reported", marks_that_the_filter_turns_off),
        ("an_invalid_filter_is_reported_and_all_marks_are_on", an_invalid_filter),
        ("a_misspelled_variable_is_reported_and_others_are_not", a_misspelled_variable),
        ("variables_of_others_do_not_change_what_the_program_allocates", variables_of_others_are_not_copied),
        ("each_process_has_a_report_of_its_own", each_process_has_a_report_of_its_own),
        ("a_program_that_aborts_leaves_its_last_dump", the_last_dump_is_left),
        #[cfg(feature = "signal")]
        ("a_dump_at_a_signal_interrupts_no_system_call_of_the_program", a_dump_interrupts_nothing),
        ("the_program_has_only_its_own_threads_before_its_first_call", only_its_own_threads),
        #[cfg(feature = "signal")]
        ("with_perfmark_off_dumps_write_nothing_and_signals_end_no_program", with_perfmark_off_nothing_is_dumped),
        #[cfg(feature = "signal")]
        ("the_signal_for_dumps_ends_no_program_that_writes_none", no_dumps_at_the_signal),
        ("sigint_before_the_first_call_ends_the_program", sigint_before_the_first_call),
        ("sigint_ends_a_program_whose_report_hangs", sigint_while_the_report_hangs),
        ("a_handler_of_the_programs_replaces_the_one_for_sigint", a_handler_of_the_programs),
        #[cfg(feature = "signal")]
        ("a_signal_before_the_first_call_is_answered_at_that_call", a_signal_before_the_first_call),
        #[cfg(feature = "signal")]
        ("a_program_that_ends_in_a_handler_for_signals_writes_its_report", a_program_that_ends_in_a_handler),
        ("a_program_that_requests_no_report_writes_none_and_no_dumps", no_report_is_written),
        ("other_users_cannot_write_to_a_report", other_users_cannot_write_to_a_report),
        ("a_report_takes_no_permissions_from_another_users_file", a_report_takes_no_permissions),
        ("a_file_size_limit_does_not_end_the_program", a_file_size_limit),
        ("a_setuid_program_ignores_settings_and_reads_no_source_files", a_setuid_program_ignores_settings),
        ("another_users_link_in_a_shared_directory_is_not_followed", another_users_link_is_not_followed),
    ];
    support::run(tests.iter().map(|&(name, test)| support::trial(name, test)).collect(), &[])
}

/// Counts the bytes that the program has allocated.
struct Counting;

static ALLOCATED: AtomicUsize = AtomicUsize::new(0);
/// Whether allocations of threads other than the main one do not return.
static HANGS: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: forwards every call to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: no pointers.
        while HANGS.load(Relaxed) && unsafe { libc::gettid() != libc::getpid() } {
            std::thread::yield_now();
        }
        ALLOCATED.fetch_add(layout.size(), Relaxed);
        // SAFETY: the caller keeps the contract of `GlobalAlloc::alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `GlobalAlloc::dealloc`.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[perfmark(time)]
fn one() {}

#[perfmark(time, every = 2)]
fn two() {}

/// The line that the report of [`report_with_a_line`] shows.
const LINE: &str = "fn one() {}";

/// A report that has samples at the first line of the file `PERFMARK_TEST_SOURCE`, in this program.
fn report_with_a_line() -> perfmark::Report<'static> {
    let mut snapshot = perfmark::snapshot();
    let index = snapshot.marks.iter().position(|mark| mark.name == "one").expect("a mark");
    let (mut frame, mut location) = (perfmark::Frame::default(), perfmark::Location::default());
    frame.function.clone_from(&snapshot.marks[index].path);
    (frame.file, frame.line) = (env::var("PERFMARK_TEST_SOURCE").ok(), Some(1));
    location.frames = vec![0];
    let mut module = perfmark::Module::default();
    module.path = env::current_exe().expect("known").to_str().expect("UTF-8").into();
    let (mut stack, mut path) = (perfmark::SampledStack::default(), perfmark::SampledPath::default());
    (stack.locations, stack.samples) = (vec![0], 9);
    (path.marks, path.samples, path.stacks) = (vec![index], 9, vec![stack]);
    let mut samples = perfmark::Samples::default();
    (samples.frames, samples.locations, samples.modules) = (vec![frame], vec![location], vec![module]);
    samples.paths = vec![path];
    snapshot.samples = vec![samples];
    perfmark::Report::new(Box::leak(Box::new(snapshot)))
}

fn run_scenario(scenario: &str) {
    if scenario == "open" {
        // SAFETY: it takes no pointers.
        unsafe { libc::umask(0) };
    }
    if scenario == "no files" {
        let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: the pointer is to a live limit.
        unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const none) };
    }
    if scenario == "secure" {
        // SAFETY: it only reads the auxiliary vector of the process.
        println!("{}", unsafe { libc::getauxval(libc::AT_SECURE) });
    }
    match scenario {
        "counts threads" => println!("{}", threads()),
        "interrupted" => kill(libc::SIGINT),
        "signalled first" => kill(libc::SIGUSR2),
        "signalled for no dumps" => {
            static HAS_COME: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);
            extern "C" fn come(_: libc::c_int) {
                HAS_COME.store(true, Relaxed);
            }
            kill(libc::SIGUSR2);
            let handler: extern "C" fn(libc::c_int) = come;
            // SAFETY: the handler stores to an atomic variable.
            unsafe { libc::signal(libc::SIGUSR2, handler as libc::sighandler_t) };
            kill(libc::SIGUSR2);
            assert!(HAS_COME.load(Relaxed), "the program's own handler");
        }
        "ends without a report" | "finishes without a report" => perfmark::disable_report(),
        _ => {}
    }
    one();
    #[cfg(feature = "signal")]
    if scenario == "dumps" {
        let file = env::var_os("PERFMARK_TEST_FILE").expect("set");
        let dumps = perfmark::Dumps::new(file).on_signal(libc::SIGUSR2).every(std::time::Duration::from_millis(1));
        let _dumping = dumps.start().expect("a directory");
        kill(libc::SIGUSR2);
        println!("{}", threads());
    }
    match scenario {
        "counts threads" => println!("{}", threads()),
        "counts allocated bytes" => println!("{}", ALLOCATED.load(Relaxed)),
        "handles an interrupt" => handles_an_interrupt(),
        #[cfg(feature = "signal")]
        "ends in a handler" | "ends in a handler of dumps" => ends_in_a_handler(scenario),
        "hangs" => {
            HANGS.store(true, Relaxed);
            let start = std::time::Instant::now();
            // Without an end by a signal, the test fails after this time.
            while start.elapsed().as_secs() < 60 {
                kill(libc::SIGINT);
            }
        }
        "ends dumps without a report" => {
            perfmark::disable_report();
            // The thread that writes dumps has ended. The kernel removes it from the list a moment later.
            while threads() > 1 {
                std::thread::yield_now();
            }
        }
        "signalled first" => {
            while !fs::exists(env::var_os("PERFMARK_OUTPUT").expect("set")).expect("a path") {
                std::thread::yield_now();
            }
            std::process::abort();
        }
        _ => {}
    }
    (0..10).for_each(|_| two());
    if scenario == "secure" {
        println!("{}", report_with_a_line());
    }
    if scenario == "finishes without a report" {
        perfmark::finish();
        assert!(perfmark::snapshot().marks.iter().any(|mark| mark.calls == 10), "it is still recorded");
    }
    if let Some(signal) = scenario.strip_prefix("dumped by ") {
        dumped(signal.parse().unwrap_or(0));
    }
    // The report at exit replaces a dump of the same process.
    #[cfg(feature = "signal")]
    if scenario == "waits while dumped" {
        waits_while_dumped();
    }
    if scenario == "dumped at exit" {
        let pattern = env::var("PERFMARK_OUTPUT").expect("set");
        let (folder, name) = pattern.rsplit_once('/').expect("absolute");
        let own = name.replace("%p", &std::process::id().to_string()).replace("%u", "");
        let is_dump = |name: &str| name.starts_with(&own) && !name.contains(".perfmark-");
        while !fs::read_dir(folder).expect("there").flatten().any(|entry| is_dump(&entry.file_name().to_string_lossy()))
        {
            std::thread::yield_now();
        }
    }
    if scenario == "forks" {
        // SAFETY: the child only calls marks, which is allowed there, and exits.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                one();
                one();
                std::process::exit(0);
            }
            program::wait_for(child, 0);
        }
    }
}

/// The number of threads of this process, where the kernel tells it.
fn threads() -> usize {
    fs::read_dir("/proc/self/task").map_or(1, Iterator::count)
}

/// Sends the process a signal that perfmark handles.
fn kill(signal: i32) {
    // SAFETY: no pointers.
    assert_eq!(unsafe { libc::kill(libc::getpid(), signal) }, 0);
}

/// Instead of hanging, the program dies after five seconds of CPU time.
#[cfg(feature = "signal")]
fn ends_in_a_handler(scenario: &str) {
    let signal = if scenario.ends_with("dumps") { libc::SIGUSR2 } else { libc::SIGTERM };
    let limit = libc::rlimit { rlim_cur: 5, rlim_max: 5 };
    // SAFETY: a live limit; nothing else happens in the program.
    unsafe {
        libc::setrlimit(libc::RLIMIT_CPU, &raw const limit);
        signal_hook::low_level::register(signal, || std::process::exit(0)).expect("it can be handled");
    }
    kill(signal);
    loop {
        std::thread::park();
    }
}

/// Handles SIGINT by a handler that also calls the one before, as libraries do, and is interrupted.
fn handles_an_interrupt() {
    use std::mem;
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering::SeqCst;
    static BEFORE: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn handler(signal: i32) {
        let before = BEFORE.load(SeqCst);
        if before != libc::SIG_DFL && before != libc::SIG_IGN {
            // SAFETY: the address of a handler without flags.
            unsafe { mem::transmute::<usize, extern "C" fn(i32)>(before)(signal) };
        }
    }
    // SAFETY: a handler for any signal.
    BEFORE.store(unsafe { libc::signal(libc::SIGINT, handler as extern "C" fn(i32) as usize) }, SeqCst);
    kill(libc::SIGINT);
}

/// Waits in poll(2) and nanosleep(2) while the process gets signals for dumps.
#[cfg(feature = "signal")]
fn waits_while_dumped() {
    use std::io::Write as _;
    use std::os::fd::AsRawFd as _;
    use std::ptr;
    let file = env::var_os("PERFMARK_OUTPUT").expect("set");
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    std::thread::spawn(|| {
        let year = libc::timespec { tv_sec: 365 * 86_400, tv_nsec: 0 };
        // SAFETY: live memory.
        let slept = unsafe { libc::nanosleep(&raw const year, ptr::null_mut()) };
        panic!("nanosleep returned {slept}: {}", std::io::Error::last_os_error());
    });
    std::thread::spawn(move || {
        for _ in 0..20 {
            kill(libc::SIGUSR2);
            while fs::remove_file(&file).is_err() {
                std::thread::yield_now();
            }
        }
        writer.write_all(b".").expect("it is open");
    });
    let mut entry = libc::pollfd { fd: reader.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: live memory.
    let ready = unsafe { libc::poll(&raw mut entry, 1, -1) };
    assert_eq!(ready, 1, "{}", std::io::Error::last_os_error());
}

/// Aborts as soon as a dump has all calls, in JSON or in a table with details. Sends the signal for a dump first,
/// unless it is 0.
fn dumped(signal: i32) {
    let file = env::var_os("PERFMARK_OUTPUT").expect("set");
    if signal != 0 {
        kill(signal);
    }
    let has_all = |report: &str| match env::var("PERFMARK_FORMAT").as_deref() {
        Ok("json") => mark(&serde_json::from_str(report).expect("complete"), "two")["calls"] == 10,
        _ => report.contains(" 10 calls\n"),
    };
    loop {
        if fs::read_to_string(&file).is_ok_and(|report| has_all(&report)) {
            std::process::abort();
        }
        std::thread::yield_now();
    }
}

fn marks_that_the_filter_turns_off() {
    let filter = ("PERFMARK_FILTER", "*::one");
    let report = json("calls", &[filter], 0);
    assert_eq!((&mark(&report, "one")["on"], &mark(&report, "one")["calls"]), (&true.into(), &1.into()));
    assert_eq!((&mark(&report, "two")["on"], &mark(&report, "two")["calls"]), (&false.into(), &0.into()));
    let table = scenario("calls", &[filter]);
    assert!(text(&table.stderr).contains("\noff: two\n"), "{}", text(&table.stderr));
    for filter in ["on,*::two=every:5", "*::one,*::two=every:5"] {
        let both = json("calls", &[("PERFMARK_FILTER", filter)], 0);
        assert_eq!((&mark(&both, "two")["every"], &mark(&both, "two")["skipped"]), (&5.into(), &8.into()), "{filter}");
    }
}

fn an_invalid_filter() {
    for (filter, why) in [("one=every:0", "from 1 to"), ("one=cycels", "cycels"), ("=off", "no pattern")] {
        let output = scenario("calls", &[("PERFMARK_FILTER", filter)]);
        let (first, table) = text(&output.stderr).split_once('\n').expect("lines");
        assert!(first.starts_with(&format!("perfmark: PERFMARK_FILTER={filter}: ")), "{first}");
        let end = if why == "cycels" { "? Recording all marks" } else { "; recording all marks" };
        assert!(first.contains(why) && first.ends_with(end), "{first}");
        assert!(table.contains("one") && table.contains("two") && !table.contains("off:"), "{table}");
    }
    let unmatched = scenario("calls", &[("PERFMARK_FILTER", "on,oen=off")]);
    assert!(
        text(&unmatched.stderr).contains("note: the filter's `oen` matches no mark"),
        "{}",
        text(&unmatched.stderr)
    );
}

fn a_misspelled_variable() {
    let variables = [("PERFMARK_OUPUT", "report.json"), ("PERFMARK_OTHER", "1")];
    for (filter, marks) in [("off", 0), ("*::one", 1)] {
        let output = scenario("calls", &[variables[0], variables[1], ("PERFMARK_FILTER", filter)]);
        let expected = "perfmark: PERFMARK_OUPUT is not a setting of this version of perfmark, and is ignored; did you \
                        mean PERFMARK_OUTPUT?\n";
        let printed = text(&output.stderr);
        assert!(printed.starts_with(expected), "{printed}");
        assert_eq!(printed.matches("not a setting").count(), 1, "{printed}");
        assert_eq!(printed.lines().filter(|line| line.starts_with("one ")).count(), marks, "{printed}");
    }
}

/// So two runs under `perfmark run --emulate` need not have the same variables.
fn variables_of_others_are_not_copied() {
    let of_others = |count| (0..count).map(|n| (format!("VARIABLE_{n}"), "x".repeat(n))).collect::<Vec<_>>();
    let allocated = [0, 100].map(|count| {
        let mut command = command(&env::current_exe().expect("known"), "counts allocated bytes", &[]);
        let output = command.envs(of_others(count)).output().expect("started");
        text(&output.stdout).trim().parse::<usize>().expect("a number")
    });
    assert_eq!(allocated[0], allocated[1]);
}

fn read(path: &PathBuf) -> Value {
    serde_json::from_str(&fs::read_to_string(path).expect("written")).expect("JSON")
}

#[cfg(feature = "signal")]
fn a_dump_interrupts_nothing() {
    let path = file("interrupts");
    let ended = scenario(
        "waits while dumped",
        &[("PERFMARK_OUTPUT", path.to_str().expect("UTF-8")), ("PERFMARK_DUMP_SIGNAL", "USR2")],
    );
    fs::remove_file(&path).expect("written at exit");
    assert_code(&ended, 0);
    assert_eq!(text(&ended.stderr), "");
}

fn the_last_dump_is_left() {
    use std::os::unix::process::ExitStatusExt as _;
    let folder = file("dumps");
    fs::create_dir(&folder).expect("a folder");
    let path = folder.join("report");
    let output = [("PERFMARK_OUTPUT", path.to_str().expect("UTF-8")), ("PERFMARK_FORMAT", "json")];
    let interval = ("PERFMARK_DUMP_INTERVAL", "0.001");
    let signal = (format!("dumped by {}", libc::SIGUSR2), ("PERFMARK_DUMP_SIGNAL", "USR2"));
    for (name, variable) in
        [("dumped by 0".to_owned(), interval), signal].into_iter().take(if cfg!(feature = "signal") { 2 } else { 1 })
    {
        let ended = scenario(&name, &[output[0], output[1], variable]);
        assert_eq!(ended.status.signal(), Some(libc::SIGABRT), "{}", ending(&ended));
        assert_eq!(text(&ended.stderr), "");
        assert_eq!(mark(&read(&path), "two")["calls"], 10);
        fs::remove_file(&path).expect("there");
    }
    let details = [output[0], interval, ("PERFMARK_DETAILS", "on")];
    assert_eq!(scenario("dumped by 0", &details).status.signal(), Some(libc::SIGABRT));
    fs::remove_file(&path).expect("there");
    let printed = scenario("calls", &[("PERFMARK_DUMP_INTERVAL", "60")]);
    let printed = text(&printed.stderr);
    assert_eq!(printed.matches("PERFMARK_OUTPUT names no file; writing no dumps").count(), 1, "{printed}");
    // A unique name stays the same for one process.
    let unique = [("PERFMARK_OUTPUT", format!("{}-%p-%u", path.display()))];
    let unique = [(unique[0].0, &*unique[0].1), output[1], ("PERFMARK_DUMP_INTERVAL", "0.001")];
    for count in 1..=3 {
        assert_code(&scenario("dumped at exit", &unique), 0);
        let complete = fs::read_dir(&folder).expect("there").flatten().map(|entry| entry.path());
        let complete: Vec<_> =
            complete.filter(|path| path.extension().is_none_or(|extension| extension != "draft")).collect();
        assert_eq!(complete.len(), count, "{complete:?}");
        assert!(complete.iter().all(|path| mark(&read(path), "two")["calls"] == 10));
    }
    for entry in fs::read_dir(&folder).expect("there").flatten() {
        fs::remove_file(entry.path()).expect("there");
    }
    // The report at exit is the last, whatever the interval.
    for _ in 0..20 {
        assert_code(&scenario("calls", &[output[0], output[1], ("PERFMARK_DUMP_INTERVAL", "0.001")]), 0);
        assert_eq!(mark(&read(&path), "two")["calls"], 10);
    }
    // It may still hold the draft of a dump that the abort interrupted.
    fs::remove_dir_all(&folder).expect("there");
}

fn only_its_own_threads() {
    let path = file("threads");
    let output = ("PERFMARK_OUTPUT", path.to_str().expect("UTF-8"));
    let started = |variables: &[(&str, &str)]| {
        let ended = scenario("counts threads", &[&[output], variables].concat());
        assert_code(&ended, 0);
        text(&ended.stdout).to_owned()
    };
    assert_eq!(started(&[]), "1\n1\n");
    assert_eq!(started(&[("PERFMARK_ON_SIGINT", "report")]), "1\n2\n");
    assert_eq!(started(&[("PERFMARK_DUMP_INTERVAL", "60")]), "1\n2\n");
    if cfg!(feature = "signal") {
        assert_eq!(started(&[("PERFMARK_DUMP_SIGNAL", "USR2")]), "1\n2\n");
    }
    if cfg!(feature = "sampling") {
        let sampled = started(&[("PERFMARK_SAMPLE", "99")]);
        match fs::read_to_string(&path).expect("written at exit").split_once("PERFMARK_SAMPLE has no effect") {
            None => assert_eq!(sampled, "1\n2\n"),
            Some((_, why)) => {
                println!("skipped: no samples can be taken here{why}");
                assert_eq!(sampled, "1\n1\n");
            }
        }
    }
    fs::remove_file(path).expect("written at exit");
}

#[cfg(feature = "signal")]
fn with_perfmark_off_nothing_is_dumped() {
    let path = file("dumped-while-off");
    let ended = scenario("dumps", &[("PERFMARK", "off"), ("PERFMARK_TEST_FILE", path.to_str().expect("UTF-8"))]);
    assert_code(&ended, 0);
    assert_eq!((text(&ended.stdout), text(&ended.stderr)), ("1\n", ""));
    assert!(!path.exists());
}

#[cfg(feature = "signal")]
fn no_dumps_at_the_signal() {
    let output = ("PERFMARK_OUTPUT", "/no-such-folder/report");
    for others in [&[("PERFMARK", "off")][..], &[], &[output]] {
        let ended = scenario("signalled for no dumps", &[&[("PERFMARK_DUMP_SIGNAL", "USR2")], others].concat());
        assert_code(&ended, 0);
    }
}

fn sigint_before_the_first_call() {
    use std::os::unix::process::ExitStatusExt as _;
    let ended = scenario("interrupted", &[("PERFMARK_ON_SIGINT", "report")]);
    assert_eq!(ended.status.signal(), Some(libc::SIGINT), "{}", ending(&ended));
}

fn sigint_while_the_report_hangs() {
    use std::os::unix::process::ExitStatusExt as _;
    let ended = scenario("hangs", &[("PERFMARK_ON_SIGINT", "report")]);
    assert_eq!(ended.status.signal(), Some(libc::SIGINT), "{}", ending(&ended));
}

fn a_handler_of_the_programs() {
    let report = json("handles an interrupt", &[("PERFMARK_ON_SIGINT", "report")], 0);
    assert_eq!(mark(&report, "two")["calls"], 10);
}

#[cfg(feature = "signal")]
fn a_signal_before_the_first_call() {
    use std::os::unix::process::ExitStatusExt as _;
    let path = file("before");
    let output = ("PERFMARK_OUTPUT", path.to_str().expect("UTF-8"));
    let ended = scenario("signalled first", &[output, ("PERFMARK_FORMAT", "json"), ("PERFMARK_DUMP_SIGNAL", "USR2")]);
    assert_eq!(ended.status.signal(), Some(libc::SIGABRT), "{}", ending(&ended));
    assert_eq!(mark(&read(&path), "two")["calls"], 0);
    fs::remove_file(path).expect("there");
}

/// While signal-hook calls a handler, it removes none.
#[cfg(feature = "signal")]
fn a_program_that_ends_in_a_handler() {
    let path = file("ended");
    let output = ("PERFMARK_OUTPUT", path.to_str().expect("UTF-8"));
    let variables = [output, ("PERFMARK_FORMAT", "json"), ("PERFMARK_DUMP_SIGNAL", "USR2")];
    for name in ["ends in a handler", "ends in a handler of dumps"] {
        assert_code(&scenario(name, &variables), 0);
        assert_eq!(mark(&read(&path), "one")["calls"], 1);
        fs::remove_file(&path).expect("written at exit");
    }
}

fn no_report_is_written() {
    let report = file("no-report");
    let output = ("PERFMARK_OUTPUT", report.to_str().expect("UTF-8"));
    for name in ["ends without a report", "finishes without a report", "ends dumps without a report"] {
        for variables in [&[][..], &[output, ("PERFMARK_DUMP_INTERVAL", "60")]] {
            let ended = scenario(name, variables);
            assert_code(&ended, 0);
            assert_eq!((text(&ended.stdout), text(&ended.stderr)), ("", ""));
            assert!(!report.exists());
        }
    }
}

fn each_process_has_a_report_of_its_own() {
    let folder = file("reports");
    fs::create_dir(&folder).expect("a folder");
    for (name, count) in [("%p.json", 2), ("report.json", 2), ("r-%p-%u.json", 2), ("%u.json", 2)] {
        let output = folder.join(name);
        let variables = [("PERFMARK_OUTPUT", output.to_str().expect("UTF-8")), ("PERFMARK_FORMAT", "json")];
        assert_code(&scenario("forks", &variables), 0);
        let paths: Vec<PathBuf> =
            fs::read_dir(&folder).expect("there").map(|entry| entry.expect("read").path()).collect();
        assert_eq!(paths.len(), count, "{paths:?}");
        let mut calls: Vec<(u64, u64)> = Vec::new();
        for path in &paths {
            let report = read(path);
            let number = |value: &Value| value.as_u64().expect("a number");
            calls.push((number(&mark(&report, "one")["calls"]), number(&mark(&report, "two")["calls"])));
            let pid = report["pid"].to_string();
            let expected = match name {
                "%p.json" => format!("{pid}.json"),
                "r-%p-%u.json" => format!("r-{pid}-"),
                _ => String::new(),
            };
            let file = path.file_name().and_then(|file| file.to_str()).expect("UTF-8");
            assert!(file.starts_with(&expected) && !file.contains('%'), "{file}");
            fs::remove_file(path).expect("removed");
        }
        calls.sort_unstable();
        assert_eq!(calls, [(1, 10), (2, 0)]);
    }
    fs::remove_dir(folder).expect("empty");
}

fn other_users_cannot_write_to_a_report() {
    use std::os::unix::fs::PermissionsExt as _;
    let output = file("mode");
    assert_code(&scenario("open", &[("PERFMARK_OUTPUT", output.to_str().expect("UTF-8"))]), 0);
    let mode = fs::metadata(&output).expect("written").permissions().mode();
    fs::remove_file(output).expect("removed");
    assert_eq!(mode & 0o777, 0o644);
}

/// A report keeps the read permissions of the user's own older file, and takes none from another user's file.
fn a_report_takes_no_permissions() {
    use std::os::unix::fs::{PermissionsExt as _, chown};
    for (mode, is_own, expected) in [(0o6640, true, 0o640), (0o6777, false, 0o644)] {
        let output = file("rights");
        fs::write(&output, "older").expect("written");
        if !is_own {
            if !is_root() {
                return fs::remove_file(output).expect("removed");
            }
            chown(&output, Some(NOBODY), None).expect("root may");
        }
        fs::set_permissions(&output, fs::Permissions::from_mode(mode)).expect("root's, or its own");
        assert_code(&scenario("open", &[("PERFMARK_OUTPUT", output.to_str().expect("UTF-8"))]), 0);
        let new_mode = fs::metadata(&output).expect("written").permissions().mode();
        fs::remove_file(output).expect("removed");
        assert_eq!(new_mode & 0o7777, expected, "{mode:o}");
    }
}

fn a_file_size_limit() {
    let folder = file("limited");
    fs::create_dir(&folder).expect("a folder");
    let output = folder.join("report");
    let ended = scenario("no files", &[("PERFMARK_OUTPUT", output.to_str().expect("UTF-8"))]);
    let left = fs::read_dir(&folder).expect("there").count();
    fs::remove_dir_all(&folder).expect("removed");
    let stderr = text(&ended.stderr);
    assert_code(&ended, 0);
    assert!(stderr.contains("(os error 27); the report follows") && stderr.contains("two"), "{stderr}");
    assert_eq!(left, 0, "no draft");
}

const NOBODY: u32 = 65_534;

/// Whether this test can create files of other users, which only root can. Prints a note if not.
fn is_root() -> bool {
    // SAFETY: it takes no arguments and always succeeds.
    let is_root = unsafe { libc::geteuid() } == 0;
    if !is_root {
        println!("not run: only root makes files of other users");
    }
    is_root
}

fn a_setuid_program_ignores_settings() {
    use std::os::unix::fs::{PermissionsExt as _, chown};
    if !cfg!(feature = "symbols") {
        println!("not run: reports have source lines with the feature `symbols`");
        return;
    }
    if !is_root() {
        return;
    }
    let (program, output, source) = (file("setuid"), file("setuid-report"), file("source.rs"));
    fs::write(&source, LINE).expect("written");
    // A file that is newer than the program is not shown.
    let set_time = |file: fs::File| file.set_modified(SystemTime::UNIX_EPOCH);
    fs::File::options().write(true).open(&source).and_then(set_time).expect("modified");
    fs::copy(env::current_exe().expect("known"), &program).expect("copied");
    chown(&program, Some(NOBODY), None).expect("root may");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).expect("root may");
    let own = ("PERFMARK_TEST_SOURCE", source.to_str().expect("UTF-8"));
    let variables = [own, ("PERFMARK_OUTPUT", output.to_str().expect("UTF-8")), ("PERFMARK_FILTER", "=wrong")];
    let done = scenario_of(&program, "secure", &variables);
    let of_its_user = scenario("secure", &[own]);
    fs::remove_file(program).and_then(|()| fs::remove_file(&source)).expect("removed");
    assert_code(&done, 0);
    if text(&done.stdout).starts_with('0') {
        println!("not run: the folder for temporary files is mounted without setuid");
        return;
    }
    assert!(!output.exists(), "written with the rights of another user");
    let has_text = |output: &[u8]| text(output).contains(LINE);
    assert!(text(&done.stdout).contains("source.rs:1") && !has_text(&done.stdout), "{}", text(&done.stdout));
    assert!(has_text(&of_its_user.stdout), "it is read with the rights of the user");
    assert!(text(&done.stderr).contains("one") && !text(&done.stderr).contains("=wrong"), "{}", text(&done.stderr));
}

fn another_users_link_is_not_followed() {
    use std::os::unix::fs::{PermissionsExt as _, lchown, symlink};
    let folder = file("shared");
    fs::create_dir(&folder).expect("a folder");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o1777)).expect("its owner may");
    let (link, target) = (folder.join("link"), file("target"));
    fs::write(&target, "before").expect("written");
    symlink(&target, &link).expect("a link");
    let variables = [("PERFMARK_OUTPUT", link.to_str().expect("UTF-8"))];
    assert_code(&scenario("calls", &variables), 0);
    assert!(fs::read_to_string(&target).expect("there").contains("one"), "a link of the same user is followed");
    if is_root() {
        fs::write(&target, "before").expect("written");
        lchown(&link, Some(NOBODY), None).expect("root may");
        let done = scenario("calls", &variables);
        assert_eq!(fs::read_to_string(&target).expect("there"), "before");
        let stderr = text(&done.stderr);
        assert!(stderr.contains("is a symbolic link of user 65534 in a world-writable directory"), "{stderr}");
        assert!(stderr.contains("one"), "the report follows: {stderr}");
        // Nor is a link followed on the way to the file.
        let (way, elsewhere) = (folder.join("way"), file("elsewhere"));
        fs::create_dir(&elsewhere).expect("a folder");
        symlink(&elsewhere, &way).expect("a link");
        lchown(&way, Some(NOBODY), None).expect("root may");
        let done = scenario("calls", &[("PERFMARK_OUTPUT", way.join("report").to_str().expect("UTF-8"))]);
        // With `fs.protected_symlinks`, the kernel lets nobody follow the link, and there is no such folder.
        assert!(text(&done.stderr).contains("perfmark: PERFMARK_OUTPUT="), "{}", text(&done.stderr));
        assert!(text(&done.stderr).contains("one"), "the report follows: {}", text(&done.stderr));
        fs::remove_dir(elsewhere).expect("nothing was written there");
    }
    fs::remove_file(target).expect("removed");
    fs::remove_dir_all(folder).expect("removed");
}
