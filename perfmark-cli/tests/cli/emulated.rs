//! `perfmark run --emulate`: exact counts, and what prevents them.

use std::env;
use std::fs;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

use perfmark::{Mark, Node, Read, Snapshot, Values, perfmark};
use perfmark_rdpmc::known_loop;

use super::command::{assert_contains, is_empty, perfmark, running, this_program};
use super::executor::{run as block_on, yield_now};
use super::program::{SCENARIO, assert_code, ending, text};
use super::sample::Folder;

pub(super) const TESTS: &[(&str, fn())] =
    &[("a_program_that_cannot_be_emulated_is_refused_with_the_remedy", a_program_that_cannot_be_emulated_is_refused)];

/// Those that need QEMU's user-mode emulator.
pub(super) const IN_EMULATOR: &[(&str, fn())] = &[
    ("emulated_loops_are_counted_to_the_last_instruction", loops_are_counted_to_the_last_instruction),
    ("emulated_callers_include_nothing_of_perfmark", callers_include_nothing_of_perfmark),
    ("emulated_callers_include_nothing_of_the_polls_inside", callers_include_nothing_of_the_polls_inside),
    ("emulated_calls_that_are_too_deep_take_nothing_from_the_others", too_deep_calls_take_nothing_from_the_others),
    ("emulated_branches_loads_and_stores_are_exact", branches_loads_and_stores_are_exact),
    ("emulated_threads_and_forked_processes_count_for_themselves", threads_and_processes_count_for_themselves),
    ("two_emulated_runs_give_the_same_report", two_runs_give_the_same_report),
    ("two_emulated_runs_of_hot_functions_count_the_same", two_runs_of_hot_functions_count_the_same),
    ("an_emulated_string_instruction_counts_once_for_each_element", a_string_instruction_counts_each_element),
    ("an_emulated_signal_handler_counts_in_the_function_that_it_interrupts", a_signal_handler_counts),
    ("emulated_programs_may_be_static_or_at_fixed_addresses", programs_may_be_static),
    ("a_program_that_an_emulated_one_starts_says_why_it_counts_nothing", a_started_program_says_why),
    ("a_plugin_of_another_version_is_named_with_the_remedy", a_plugin_of_another_version_is_named),
    ("the_time_of_an_emulator_is_not_recorded", time_is_not_recorded),
    ("a_signal_that_ends_an_emulated_program_is_named_with_the_remedy", a_signal_that_ends_it_is_named),
    ("a_signal_before_an_emulated_program_runs_leaves_no_directory", a_signal_before_the_program_leaves_no_directory),
];

/// Why they cannot run here.
pub(super) fn missing() -> Option<String> {
    let name = format!("qemu-{}", env::consts::ARCH);
    match Command::new(&name).arg("--version").output() {
        Ok(_) => None,
        Err(error) => Some(format!("{name}: {error} (Debian's package qemu-user has it)")),
    }
}

/// Marked functions, each with its events.
macro_rules! marked {
    ($($name:ident [$($event:tt),+]: $body:expr;)+) => { $(
        #[perfmark($($event),+)]
        fn $name() {
            $body;
        }
    )+ };
}

/// Loops with their number of turns.
const LOOPS: [(&str, u64, fn()); 4] =
    [("of_1", 1, of_1), ("of_10", 10, of_10), ("of_1000", 1_000, of_1000), ("of_1000000", 1_000_000, of_1000000)];

#[perfmark(instructions, every = 16)]
fn thinned() {
    black_box(known_loop(10));
}

#[inline(never)]
fn unmarked(turns: u64) {
    black_box(known_loop(turns));
}

#[perfmark(instructions)]
fn inner(turns: u64) {
    black_box(known_loop(turns));
}

/// How many turns the loops of inner calls make. Their values are in many octaves of the histogram, which grows.
const SHORT: [u64; 6] = [1, 2, 3, 4, 5, 6];
const LONG: [u64; 6] = [7, 70, 700, 3_000, 50_000, 200_000];
/// How many turns other loops make.
const FEW: u64 = 10;
const MANY: u64 = 1_000;

marked! {
    of_1 [instructions]: black_box(known_loop(black_box(1)));
    of_10 [instructions]: black_box(known_loop(black_box(10)));
    of_1000 [instructions]: black_box(known_loop(black_box(1_000)));
    of_1000000 [instructions]: black_box(known_loop(black_box(1_000_000)));
    caller_of_short [instructions]: SHORT.into_iter().for_each(inner);
    caller_of_long [instructions]: LONG.into_iter().for_each(inner);
    caller_of_unmarked [instructions]: SHORT.into_iter().for_each(unmarked);
    short_accesses [instructions, branches, "L1-dcache-loads", "L1-dcache-stores"]: accesses(FEW);
    long_accesses [instructions, branches, "L1-dcache-loads", "L1-dcache-stores"]: accesses(MANY);
    around_short [instructions, branches, "L1-dcache-loads", "L1-dcache-stores"]: (0..3).for_each(|_| short_accesses());
    around_long [instructions, branches, "L1-dcache-loads", "L1-dcache-stores"]: (0..3).for_each(|_| long_accesses());
    moves_few [instructions]: move_bytes(FEW);
    moves_many [instructions]: move_bytes(MANY);
    in_handler [instructions]: black_box(known_loop(TURNS.load(Relaxed)));
    interrupted_short [instructions]: interrupt(FEW);
    interrupted_long [instructions]: interrupt(MANY);
    in_test [instructions]: black_box(known_loop(black_box(1_000)));
}

/// A loop of each length in a poll of its own.
async fn in_polls(turns: &[u64]) {
    for &turns in turns {
        black_box(known_loop(turns));
        yield_now().await;
    }
}

/// How often a call is suspended that others await.
const SUSPENSIONS: [u64; 2] = [2, 100];

async fn suspended(times: u64) {
    for _ in 0..times {
        yield_now().await;
    }
}

#[perfmark(instructions)]
async fn marked_suspended(times: u64) {
    suspended(times).await;
}

async fn unmarked_suspended(times: u64) {
    suspended(times).await;
}

macro_rules! awaiting {
    ($($name:ident: $future:expr,)+) => { $(
        #[perfmark(instructions)]
        async fn $name() {
            $future.await;
        }
    )+ };
}
awaiting! {
    polled_short: in_polls(&SHORT),
    polled_long: in_polls(&LONG),
    awaits_few_marked: marked_suspended(SUSPENSIONS[0]),
    awaits_many_marked: marked_suspended(SUSPENSIONS[1]),
    awaits_few_unmarked: unmarked_suspended(SUSPENSIONS[0]),
    awaits_many_unmarked: unmarked_suspended(SUSPENSIONS[1]),
}

/// More calls inside one another than perfmark can record.
const DEEP: u64 = 3_000;
const RECORDED: u64 = 1_170;

#[perfmark(instructions)]
fn marked_deep(depth: u64) {
    if depth > 0 {
        marked_deep(depth - 1);
        black_box(depth);
    }
}

/// Executes a loop of known events.
#[cfg(target_arch = "x86_64")]
fn accesses(turns: u64) {
    let mut memory = 0_u64;
    // SAFETY: it accesses `memory` and the stack.
    unsafe {
        std::arch::asm!(
            "2: mov {x}, [{memory}]",
            "mov [{memory}], {x}",
            "lock add qword ptr [{memory}], 1",
            "push {x}",
            "pop {x}",
            "cmp {x}, [{memory}]",
            "call 4f",
            // Not taken.
            "jz 3f",
            "jz 3f",
            "jmp 3f",
            "3: dec {turns}",
            "jnz 2b",
            "jmp 5f",
            "4: test {turns}, {turns}",
            "rep ret",
            "5:",
            memory = in(reg) &raw mut memory,
            turns = inout(reg) turns => _,
            x = out(reg) _,
        );
    }
}
/// The events of one turn.
#[cfg(target_arch = "x86_64")]
const PER_TURN: [(&str, u64); 4] =
    [("instructions", 14), ("branches", 6), ("L1-dcache-loads", 5), ("L1-dcache-stores", 4)];

#[cfg(target_arch = "aarch64")]
fn accesses(turns: u64) {
    let mut memory = 0_u64;
    // SAFETY: it accesses `memory` only.
    unsafe {
        std::arch::asm!(
            "2: ldr {x}, [{memory}]",
            "ldr {x}, [{memory}]",
            "str {x}, [{memory}]",
            "bl 4f",
            // Not taken.
            "cbz {turns}, 3f",
            "tbnz {turns}, #63, 3f",
            "b 3f",
            "3: subs {turns}, {turns}, #1",
            "b.ne 2b",
            "b 5f",
            "4: ret",
            "5:",
            memory = in(reg) &raw mut memory,
            turns = inout(reg) turns => _,
            x = out(reg) _,
            out("x30") _,
        );
    }
}
#[cfg(target_arch = "aarch64")]
const PER_TURN: [(&str, u64); 4] =
    [("instructions", 10), ("branches", 6), ("L1-dcache-loads", 2), ("L1-dcache-stores", 1)];

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn accesses(turns: u64) {
    known_loop(turns);
}
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const PER_TURN: [(&str, u64); 4] =
    [("instructions", 2), ("branches", 1), ("L1-dcache-loads", 0), ("L1-dcache-stores", 0)];

/// Moves bytes by one string instruction.
#[cfg(target_arch = "x86_64")]
fn move_bytes(count: u64) {
    let (from, mut to) = ([1_u8; 1_000], [0_u8; 1_000]);
    assert!(count <= MANY);
    // SAFETY: both have `MANY` bytes.
    unsafe {
        std::arch::asm!(
            "rep movsb",
            inout("rcx") count => _,
            inout("rsi") from.as_ptr() => _,
            inout("rdi") to.as_mut_ptr() => _,
        );
    }
    assert_eq!(to.into_iter().map(u64::from).sum::<u64>(), count);
}

/// There is no such instruction, but a loop that executes one for each element.
#[cfg(not(target_arch = "x86_64"))]
fn move_bytes(count: u64) {
    known_loop(count / 2);
}

/// How many turns the loop of a signal handler makes.
static TURNS: AtomicU64 = AtomicU64::new(0);

#[cfg(not(target_arch = "x86_64"))]
extern "C" fn handle(_signal: libc::c_int) {
    in_handler();
}

/// Aligns the stack, because QEMU 7.2 does not.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
extern "C" fn handle(_signal: libc::c_int) {
    extern "C" fn aligned() {
        in_handler();
    }
    std::arch::naked_asm!("push rbp", "mov rbp, rsp", "and rsp, -16", "call {}", "leave", "ret", sym aligned)
}

fn interrupt(turns: u64) {
    TURNS.store(turns, Relaxed);
    // SAFETY: the handler is installed.
    unsafe { libc::raise(libc::SIGUSR1) };
}

/// In a debug build.
const SETUP_AT_MOST: u64 = 10_000;

/// What `measure` counts in a loop.
fn measured(turns: u64) -> u64 {
    let measured = perfmark::measure(&["instructions"], || known_loop(turns)).expect("counted");
    measured.instructions().expect("exact")
}

/// What `measure` counts at the first call of a mark on a thread, beyond a later call.
fn setup_in_measured() -> u64 {
    let count = || perfmark::measure(&["instructions"], in_test).expect("counted").instructions().expect("exact");
    let [first, second, third] = [count(), count(), count()];
    assert_eq!(second, third);
    first - second
}

pub(super) fn run(scenario: &str) -> ExitCode {
    let setups = [setup_in_measured(), thread::spawn(setup_in_measured).join().expect("ended")];
    assert!(setups.iter().all(|setup| *setup < SETUP_AT_MOST), "{setups:?} instructions of perfmark's setup");
    let call_loops = || (0..5).for_each(|_| LOOPS.iter().for_each(|(_, _, call)| call()));
    call_loops();
    assert_eq!(measured(100_000) - measured(1_000), 2 * 99_000);
    for _ in 0..4 {
        block_on(polled_short());
        block_on(polled_long());
        block_on(awaits_few_marked());
        block_on(awaits_many_marked());
        block_on(awaits_few_unmarked());
        block_on(awaits_many_unmarked());
    }
    // The first call of `inner` is inside one of `caller_of_long`.
    for caller in [caller_of_long, caller_of_short, caller_of_unmarked] {
        (0..4).for_each(|_| caller());
    }
    (0..100).for_each(|_| thinned());
    marked_deep(DEEP);
    match scenario {
        "accesses" => {
            let all = [around_long, around_short];
            (0..4).for_each(|_| all.iter().for_each(|call| call()));
            // A thread that starts a thread.
            let of_thread = move || thread::spawn(move || all.iter().for_each(|call| call())).join();
            thread::spawn(of_thread).join().expect("ended").expect("ended");
        }
        "string instructions" => (0..3).for_each(|_| [moves_few, moves_many].iter().for_each(|call| call())),
        "signals" => {
            // SAFETY: the handler calls a mark, which any handler may.
            unsafe { libc::signal(libc::SIGUSR1, handle as extern "C" fn(libc::c_int) as libc::sighandler_t) };
            (0..3).for_each(|_| [interrupted_short, interrupted_long].iter().for_each(|call| call()));
        }
        "threads and processes" => {
            (0..3).for_each(|_| thread::spawn(call_loops).join().expect("ended"));
            let threads = [(); 2].map(|()| thread::spawn(call_loops));
            for thread in threads {
                thread.join().expect("ended");
            }
            // SAFETY: this is the only thread, and the numbers are of this process and its child.
            let child = unsafe { libc::fork() };
            thread::spawn(call_loops).join().expect("ended");
            if child != 0 {
                // SAFETY: as above.
                unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
            }
        }
        "sigint" | "sigill" | "sigsegv" => {
            let signals = [("sigint", libc::SIGINT), ("sigill", libc::SIGILL), ("sigsegv", libc::SIGSEGV)];
            let signal = signals.into_iter().find(|(name, _)| *name == scenario).map(|(_, signal)| signal);
            // SAFETY: rust's handler of SIGSEGV gives way to the default, and the signal ends this process.
            unsafe {
                libc::signal(libc::SIGSEGV, libc::SIG_DFL);
                libc::raise(signal.expect("known"));
            }
        }
        "starts a program" => {
            let mut program = Command::new(env::current_exe().expect("known"));
            let status = program.env(SCENARIO, "calls").status().expect("started");
            assert!(status.success(), "{status}");
        }
        _ => {}
    }
    ExitCode::SUCCESS
}

/// The report of a scenario in the emulator.
fn emulated(test: &str, scenario: &str) -> Snapshot {
    let folder = Folder::new(&format!("cli-emulated-{test}"));
    let scenario = format!("emulated: {scenario}");
    let mut command = running(&folder, &["--emulate", "--format", "json"], &scenario);
    // It has no effect.
    let output = command.env("PERFMARK_BUDGET", "1%").output().expect("started");
    assert_code(&output, 0);
    let printed = text(&output.stderr);
    serde_json::from_str(&printed[printed.find('{').expect("JSON")..]).expect("a report")
}

fn mark<'a>(report: &'a Snapshot, name: &str) -> &'a Mark {
    report.marks.iter().find(|mark| mark.name == name).expect("marked")
}

fn instructions(mark: &Mark) -> &Values {
    values(mark, "instructions")
}

fn values<'a>(mark: &'a Mark, event: &str) -> &'a Values {
    mark.event(event).expect("counted")
}

fn least(values: &Values) -> u64 {
    values.min.expect("counted")
}

fn self_sum(values: &Values) -> i64 {
    values.self_sum.expect("complete")
}

/// Checks that the calls of each loop differ from those of the others by what the loops execute. A mark's first call on
/// a thread, which sets up what the others need, counts a few instructions more.
fn check_loops(report: &Snapshot, calls: u64) {
    const MORE_AT_MOST: u64 = 10;
    let (first, turns_of_first, _) = LOOPS[0];
    let (around, sum_around) = {
        let first = instructions(mark(report, first));
        (least(first) - 2 * turns_of_first, first.sum - (calls * 2 * turns_of_first).cast_signed())
    };
    assert!(around < 100, "{around} instructions around a loop");
    for (name, turns, _) in LOOPS {
        let mark = mark(report, name);
        let counted = instructions(mark);
        assert_eq!((mark.calls, counted.measured), (calls, calls), "{name}");
        assert_eq!(least(counted), 2 * turns + around, "{name}");
        assert!(counted.max <= Some(least(counted) + MORE_AT_MOST), "{name}: {:?}", counted.max);
        assert_eq!(counted.sum, (calls * 2 * turns).cast_signed() + sum_around, "{name}");
    }
}

fn loops_are_counted_to_the_last_instruction() {
    let report = emulated("loops", "loops");
    check_loops(&report, 5);
    let thinned = mark(&report, "thinned");
    assert_eq!((thinned.calls, instructions(thinned).measured, thinned.skipped), (100, 100, 0));
    let event = report.events.iter().find(|event| event.name == "instructions").expect("counted");
    assert_eq!(event.read, Read::Emulated);
    let reason = event.reason.as_deref().unwrap_or_default();
    assert!(reason.starts_with("counted by QEMU ") && reason.ends_with(|last: char| last.is_ascii_digit()), "{reason}");
}

fn callers_include_nothing_of_perfmark() {
    let report = emulated("callers", "loops");
    let of = |name| instructions(mark(&report, name));
    let executed = |turns: [u64; 6]| turns.iter().map(|turns| 2 * turns).sum::<u64>();
    let more = executed(LONG) - executed(SHORT);
    let [short, long, unmarked] = ["caller_of_short", "caller_of_long", "caller_of_unmarked"].map(of);
    assert_eq!(least(long) - least(short), more, "calls inside");
    assert_eq!(least(of("polled_long")) - least(of("polled_short")), more, "polls");
    // The compiler generates other code for a marked function than for an unmarked one.
    let apart = least(short).abs_diff(least(unmarked));
    assert!(apart < 6 * 10, "{apart} instructions in six calls");
}

/// How many instructions of the probe a caller may include or lack for each poll inside, in a debug build.
const A_POLL: u64 = 20;

fn callers_include_nothing_of_the_polls_inside() {
    let report = emulated("polls", "loops");
    let of = |name: &str| least(instructions(mark(&report, name)));
    let [few, many] = ["few", "many"].map(|times| {
        let [marked, unmarked] = ["marked", "unmarked"].map(|call| of(&format!("awaits_{times}_{call}")));
        println!("{times} polls inside: {marked} instructions where they are marked, {unmarked} where they are not");
        marked.cast_signed() - unmarked.cast_signed()
    });
    let polls = SUSPENSIONS[1] - SUSPENSIONS[0];
    assert!(many.abs_diff(few) <= polls * A_POLL, "{many} instructions, not {few}, in {polls} more polls");
    assert!(self_sum(instructions(mark(&report, "awaits_many_marked"))) > 0);
}

fn too_deep_calls_take_nothing_from_the_others() {
    let report = emulated("deep", "loops");
    let deep = instructions(mark(&report, "marked_deep"));
    assert_eq!((deep.measured, deep.unmeasured), (RECORDED, DEEP + 1 - RECORDED));
    let (outermost, innermost) = (deep.max.expect("counted"), least(deep));
    // The innermost recorded call includes the others, and what perfmark adds to each of them.
    assert!(innermost > 5 * deep.unmeasured, "{innermost} instructions in {} calls", deep.unmeasured);
    let each = (outermost - innermost) / (RECORDED - 1);
    assert!((5..50).contains(&each), "{each} instructions in each recorded call: {innermost} to {outermost}");
}

fn branches_loads_and_stores_are_exact() {
    let report = emulated("accesses", "accesses");
    for (event, per_turn) in PER_TURN {
        let of = |name| values(mark(&report, name), event);
        // The last three calls are on another thread, when the emulator translates atomic instructions in another way.
        let long = of("long_accesses");
        assert_eq!(long.measured, 3 * 5);
        assert!(long.max.expect("counted") - least(long) < 100, "{event}: {long:?}");
        assert_eq!(least(of("long_accesses")) - least(of("short_accesses")), per_turn * (MANY - FEW), "{event}");
        assert_eq!(least(of("around_long")) - least(of("around_short")), 3 * per_turn * (MANY - FEW), "{event}");
    }
}

fn threads_and_processes_count_for_themselves() {
    // Those of the main thread, five others, and both processes after the fork.
    check_loops(&emulated("threads", "threads and processes"), 5 * (1 + 5 + 2));
}

fn two_runs_give_the_same_report() {
    let marks = || emulated("twice", "threads and processes").marks;
    assert_eq!(marks(), marks());
}

/// Whether tests that build programs run.
fn is_full() -> bool {
    let is_full = env::var_os("PERFMARK_TEST_FULL").is_some();
    if !is_full {
        println!("skipped: it builds a program; PERFMARK_TEST_FULL=1 runs it");
    }
    is_full
}

fn build(folder: &Path, arguments: &[&str], flags: &str) {
    let mut command = Command::new(env!("CARGO"));
    command.args(["build", "-q", "--offline"]).args(arguments).current_dir(folder);
    let output = command.env("CARGO_TARGET_DIR", target()).env("RUSTFLAGS", flags).output().expect("started");
    assert_code(&output, 0);
}

/// A folder for such builds, apart from other ones with other flags.
fn target() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("emulated")
}

/// The report of a program in the emulator.
fn emulated_program(program: &Path, arguments: &[&str]) -> Snapshot {
    let file = Folder::new(&format!("cli-emulated-{}", program.file_name().expect("named").display()));
    let report = file.0.join("report.json");
    let mut command = perfmark(&["run", "--emulate", "--format", "json", "--output"]);
    command.arg(&report).arg("--").arg(program).args(arguments);
    assert_code(&command.env("PERFMARK_CALL_GRAPH", "on").output().expect("started"), 0);
    serde_json::from_slice(&fs::read(report).expect("written")).expect("a report")
}

fn two_runs_of_hot_functions_count_the_same() {
    if !is_full() {
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    build(&root, &["-p", "examples", "--example", "hot_functions"], "");
    let (program, input) = (target().join("debug/examples/hot_functions"), root.join("perfmark-macros/src"));
    let run = || {
        let mut report = emulated_program(&program, &[input.to_str().expect("UTF-8")]);
        assert_eq!(report.threads, 3);
        report.marks.sort_by(|a, b| a.name.cmp(&b.name));
        report
    };
    let (report, other) = (run(), run());
    assert_eq!(report.marks, other.marks);
    assert_eq!(report.events, other.events);
    // What each path counts inside the marks that it calls, and in itself, is all that it counts.
    let counts = |node: &Node| {
        let counted = node.event("instructions");
        counted.map_or((0, 0), |counted| (counted.sum, counted.self_sum.expect("complete")))
    };
    for (n, node) in report.call_graph.iter().enumerate() {
        let inside = report.call_graph.iter().filter(|inner| inner.parent == Some(n));
        let (all, own) = counts(node);
        assert_eq!(all, own + inside.map(|inner| counts(inner).0).sum::<i64>(), "{node:?}");
    }
    assert!(report.call_graph.iter().any(|node| node.parent.is_some()));
}

fn a_string_instruction_counts_each_element() {
    let report = emulated("string", "string instructions");
    let [few, many] = ["moves_few", "moves_many"].map(|name| least(instructions(mark(&report, name))));
    assert_eq!(many - few, MANY - FEW);
}

fn a_signal_handler_counts() {
    let report = emulated("signals", "signals");
    let of = |name| instructions(mark(&report, name));
    assert_eq!(of("in_handler").measured, 6);
    let [short, long] = ["interrupted_short", "interrupted_long"].map(of);
    assert_eq!(least(long) - least(short), 2 * (MANY - FEW));
    // It is not part of their self.
    let inside = short.sum + long.sum - self_sum(short) - self_sum(long);
    assert_eq!(inside, of("in_handler").sum);
}

fn programs_may_be_static() {
    if !is_full() {
        return;
    }
    let folder = Folder::new("cli-emulated-static");
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    fs::copy(format!("{root}/Cargo.lock"), folder.0.join("Cargo.lock")).expect("copied");
    let package = "[package]\nname = \"small\"\nversion = \"0.0.0\"\nedition = \"2024\"\n[workspace]\n[dependencies]\n";
    let [marks, counters] =
        ["perfmark", "perfmark-rdpmc"].map(|name| format!("{name} = {{ path = '{root}/{name}' }}\n"));
    folder.file("Cargo.toml", format!("{package}{marks}{counters}"));
    let function =
        |name, turns| format!("#[perfmark::perfmark(instructions)] fn {name}() {{ known_loop({turns}); }}\n");
    let main = "fn main() { (0..3).for_each(|_| { few(); many() }) }\n";
    let functions = [function("few", FEW), function("many", MANY)].concat();
    folder.file("src/main.rs", format!("use perfmark_rdpmc::known_loop;\n{functions}{main}"));
    // So that Cargo builds macros without these flags.
    let machine = format!("{}-unknown-linux-gnu", env::consts::ARCH);
    for flags in [
        "-C target-feature=+crt-static",
        "-C target-feature=+crt-static -C relocation-model=static",
        "-C relocation-model=static",
    ] {
        build(&folder.0, &["--target", &machine], flags);
        let report = emulated_program(&target().join(&machine).join("debug/small"), &[]);
        let [few, many] = ["few", "many"].map(|name| least(instructions(mark(&report, name))));
        assert_eq!(many - few, 2 * (MANY - FEW), "{flags}");
    }
}

fn a_started_program_says_why() {
    let folder = Folder::new("cli-emulated-start");
    let mut command = running(&folder, &["--emulate", "--each"], "emulated: starts a program");
    let output = command.output().expect("started");
    assert_code(&output, 0);
    let why = "no plugin of perfmark counts in this process";
    assert_contains(text(&output.stderr), &["emulated: instructions — counted by QEMU", why]);
}

fn a_plugin_of_another_version_is_named() {
    let (folder, compiler) = (Folder::new("cli-emulated-layout"), Folder::new("cli-emulated-layout-cc"));
    let path = env::var("PATH").expect("set");
    let change = "for source; do :; done\nsed -i 's/LAYOUT = 1/LAYOUT = 2/' \"$source\"";
    compiler.executable("cc", &format!("#!/bin/sh\n{change}\nPATH='{path}' exec cc \"$@\"\n"));
    let mut command = running(&folder, &["--emulate", "--filter", "*=instructions"], "calls");
    let output = command.env("PATH", format!("{}:{path}", compiler.0.display())).output().expect("started");
    assert_code(&output, 0);
    assert_contains(text(&output.stderr), &["install the perfmark-cli of the program's version"]);
}

fn time_is_not_recorded() {
    let folder = Folder::new("cli-emulated-time");
    let said = |arguments: &[&str], events: &str| {
        let mut command = running(&folder, &[&["--emulate"], arguments].concat(), "calls");
        let output = command.env("PERFMARK_EVENTS", events).output().expect("started");
        assert_code(&output, 0);
        text(&output.stderr).to_owned()
    };
    let why =
        ["instructions by mark self", "not available: time — an emulator's time says nothing about the processor"];
    assert_contains(&said(&[], "time,instructions"), &why);
    let instead = "note: marks whose events are all unavailable record instructions instead";
    assert_contains(&said(&["--filter", "*=time"], "time,instructions"), &[why[0], why[1], instead]);
    // No counter may be opened.
    assert_contains(&said(&[], "time"), &["emulated: time — measured in QEMU"]);
}

fn a_signal_that_ends_it_is_named() {
    let folder = Folder::new("cli-emulated-end");
    for (scenario, signal, why) in [
        ("sigint", libc::SIGINT, "signal 2 ended it; set PERFMARK_DUMP_INTERVAL=1"),
        (
            "sigsegv",
            libc::SIGSEGV,
            "signal 11 (SIGSEGV) ended it; QEMU 7.2 calls signal handlers with an unaligned stack",
        ),
        ("sigill", libc::SIGILL, "signal 4 (SIGILL) ended it; the emulated processor may lack an instruction"),
    ] {
        let output = running(&folder, &["--emulate"], &format!("emulated: {scenario}")).output().expect("started");
        assert_code(&output, 128 + signal);
        assert_contains(text(&output.stderr), &[why]);
    }
}

fn a_signal_before_the_program_leaves_no_directory() {
    let (folder, compiler) = (Folder::new("cli-emulated-signal"), Folder::new("cli-emulated-cc"));
    let path = env::var("PATH").expect("set");
    for (name, number) in [("TERM", libc::SIGTERM), ("INT", libc::SIGINT)] {
        compiler.executable("cc", &format!("#!/bin/sh\nkill -{name} $PPID\nPATH='{path}' exec cc \"$@\"\n"));
        let mut command = running(&folder, &["--emulate"], "waits");
        let output = command.env("PATH", format!("{}:{path}", compiler.0.display())).output().expect("started");
        assert_code(&output, 128 + number);
        assert!(is_empty(&folder.0), "{name}");
    }
}

fn a_program_that_cannot_be_emulated_is_refused() {
    let folder = Folder::new("cli-emulated-refused");
    let file = |name: &str, text: &str| folder.executable(name, text);
    let refused = |path: &str, program: &str, status: i32, parts: &[&str]| {
        let output = perfmark(&["run", "--emulate", "--", program]).env("PATH", path).output().expect("started");
        assert_eq!(output.status.code(), Some(status), "{}", ending(&output));
        assert_contains(text(&output.stderr), parts);
    };
    let emulator = format!("qemu-{}", env::consts::ARCH);
    let path = env::var("PATH").expect("set");
    let install = "on Debian 12, `apt install qemu-user`; packages of other distributions may have no plugins";
    refused("", &this_program(), 125, &[&format!("--emulate: {emulator}: not found in PATH; "), install]);
    refused("", "/no/such/program", 127, &["No such file"]);
    refused(&path, "no-such-program", 127, &["perfmark: no-such-program: not found in PATH"]);
    folder.file(&emulator, "not executable");
    refused(folder.0.to_str().expect("UTF-8"), &this_program(), 125, &["not found in PATH"]);
    refused(&path, &file("script", "#!/bin/sh\n"), 126, &["not an ELF program"]);
    file(&emulator, "#!/bin/sh\necho \"$0: version 7.2.0\"\necho 'unknown option' >&2\n");
    let path = format!("{}:{path}", folder.0.display());
    refused(&path, &this_program(), 125, &["(QEMU 7.2.0) does not load perfmark's plugin", "unknown option", install]);
}
