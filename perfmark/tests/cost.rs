//! What a mark costs its caller, in instructions, which repeat exactly. arm64 is measured in the emulated machine with
//! a PMU, x86-64 by the emulated counter of `perfmark run --emulate`. It has no counters for marks, so x86-64 covers
//! marks with `time`, and those whose calls are skipped or off. In a release build by the compiler of the recorded
//! costs, a cost that grows by more than 2 % fails.

#[path = "../../perfmark-rdpmc/tests/support/mod.rs"]
mod support;
#[path = "../../perfmark-rdpmc/tests/compiler/mod.rs"]
mod compiler;
mod executor;

use std::alloc::System;
use std::env;
use std::hint::black_box;
use std::process::Command;

use executor::run;
use perfmark::{CountingAllocator, measure, perfmark};
use perfmark_rdpmc::{Attr, Counter, Delta, EmulatedCounter, Hardware};
use support::trial;

#[global_allocator]
static ALLOCATOR: CountingAllocator<System> = CountingAllocator::new(System);

fn main() {
    if let Ok(alone) = env::var(ALONE) {
        if cfg!(target_arch = "aarch64") {
            return println!("{}", direct(&alone));
        }
        let (_, work) = ALONE_IN_PROCESS.iter().find(|(name, _)| *name == alone).expect("a known function");
        return println!("{}", a_call(|| work(black_box(7))));
    }
    let emulated = trial("a_mark_costs_what_it_did_in_the_emulator", a_mark_costs_what_it_did_in_the_emulator);
    support::run(vec![emulated], &[("a_mark_costs_what_it_did", a_mark_costs_what_it_did)]);
}

/// What a call costs that names its function, as most calls do.
fn direct(function: &str) -> u64 {
    match function {
        "off" => a_call(|| off(black_box(7))),
        "off parent" => a_call(|| off_parent(black_box(7))),
        "two" => a_call(|| two(black_box(7))),
        "budget" => {
            // Until the budget has chosen which calls are measured.
            (0..10_000).for_each(|_| _ = two(black_box(7)));
            a_call(|| two(black_box(7)))
        }
        _ => unreachable!("{function}"),
    }
}

/// The name of the function that a process of its own measures.
const ALONE: &str = "PERFMARK_TEST_ALONE";

const ALONE_IN_PROCESS: &[(&str, fn(u64) -> u64)] = &[
    ("unmarked", unmarked),
    ("unmarked parent", unmarked_parent),
    ("unmarked async", poll_unmarked),
    ("time", time),
    ("time parent", time_parent),
    ("time returned", time_returned),
    ("time generic", time_by_types),
    ("time fence", time_fenced),
    ("time async", poll_time),
    ("time skipped", skipped_time),
    ("off", off),
    ("off parent", off_parent),
];

const CALLS: u64 = 1_000;
/// The calls of a mark with `every = 50` in its first 96 bursts and in their gaps: eight bursts of one call, eight of
/// two, and so on, up to eight of 2,048.
const MANY: u64 = 50 * 8 * 4_095;

macro_rules! functions {
    ($($(#[$mark:meta])? $name:ident;)*) => {
        $(
            $(#[$mark])?
            #[inline(never)]
            fn $name(n: u64) -> u64 {
                black_box(n)
            }
        )*
    };
}

functions! {
    unmarked;
    #[perfmark(time)] time;
    #[perfmark(instructions)] one;
    #[perfmark(cycles, instructions)] two;
    #[perfmark(cycles, instructions, stalled_cycles_frontend, stalled_cycles_backend)] four;
    #[perfmark(time, cycles, instructions, stalled_cycles_frontend, stalled_cycles_backend)] five;
    #[perfmark(time, page_faults, minor_faults, major_faults, task_clock, cpu_clock, alignment_faults)] seven_others;
    #[perfmark(cycles, instructions, generic)] by_types;
    #[perfmark(cycles, instructions)] off;
    #[perfmark(cycles, instructions, every = 50)] every_50;
    #[perfmark(cycles, instructions, every = 4_000_000_000)] skipped;
    #[perfmark(cycles, instructions, fence)] fenced;
    #[perfmark(time, every = 4_000_000_000)] skipped_time;
    #[perfmark(time, generic)] time_by_types;
    #[perfmark(time, fence)] time_fenced;
    #[perfmark(time, off_cpu)] waiting;
    #[perfmark(on_cpu)] on_cpu;
    #[perfmark(on_cpu, cycles)] on_cpu_and_cycles;
    #[perfmark(time, cycles)] time_and_cycles;
    #[perfmark(cycles, instructions, off_cpu)] two_and_waiting;
    #[perfmark(time, blocked, preempted)] blocked_and_preempted;
    #[perfmark(time, allocations, allocated_bytes)] allocates_nothing;
}

#[perfmark(cycles, instructions)]
#[inline(never)]
fn parent(n: u64) -> u64 {
    black_box(two(n))
}

#[perfmark(cycles, instructions)]
#[inline(never)]
fn returned(n: u64) -> u64 {
    if n > 0 {
        return black_box(n);
    }
    0
}

#[perfmark(time)]
#[inline(never)]
fn time_returned(n: u64) -> u64 {
    if n > 0 {
        return black_box(n);
    }
    0
}

#[perfmark(time)]
#[inline(never)]
fn time_parent(n: u64) -> u64 {
    black_box(time(n))
}

#[perfmark(cycles, instructions)]
#[inline(never)]
fn off_parent(n: u64) -> u64 {
    black_box(unmarked(n))
}

#[inline(never)]
fn unmarked_parent(n: u64) -> u64 {
    black_box(unmarked(n))
}

#[perfmark(cycles, instructions)]
async fn polled(n: u64) -> u64 {
    black_box(n)
}

#[perfmark(time)]
async fn time_polled(n: u64) -> u64 {
    black_box(n)
}

#[allow(clippy::unused_async, reason = "the twin of a marked one")]
async fn unmarked_polled(n: u64) -> u64 {
    black_box(n)
}

#[inline(never)]
fn poll_marked(n: u64) -> u64 {
    run(polled(n))
}

#[inline(never)]
fn poll_time(n: u64) -> u64 {
    run(time_polled(n))
}

#[inline(never)]
fn poll_unmarked(n: u64) -> u64 {
    run(unmarked_polled(n))
}

/// User-mode instructions of one call, as its caller sees them: the least of several tries.
fn a_call(work: impl Fn() -> u64) -> u64 {
    let instructions = Attr::new(Hardware::Instructions);
    if let Ok(emulated) = EmulatedCounter::open(instructions.event()) {
        let tries = (0..10).map(|_| {
            let before = emulated.count();
            (0..CALLS).for_each(|_| _ = work());
            emulated.count() - before
        });
        return tries.min().expect("tried") / CALLS;
    }
    let witness = Counter::open(&instructions).expect("there is a PMU");
    let tries = (0..10).map(|_| {
        let before = witness.read().expect("readable");
        for _ in 0..CALLS {
            work();
        }
        match witness.read().expect("readable").since(&before) {
            Delta::Exact(instructions) => instructions,
            other => panic!("{other:?}"),
        }
    });
    tries.min().expect("tried") / CALLS
}

/// The instructions of many calls: those of complete bursts and gaps, if the mark has `every`.
fn many_calls(work: fn(u64) -> u64) -> u64 {
    // It sets up what the others need, and is the first of them.
    work(black_box(7));
    let measured = measure(&["instructions"], || (1..MANY).for_each(|_| _ = work(black_box(7))));
    measured.and_then(|measured| measured.instructions()).expect("there is a PMU")
}

/// What a call costs in a process with this setting.
fn with(variable: &str, value: &str, what: &str) -> u64 {
    cost_in(Command::new(env::current_exe().expect("it runs")), variable, value, what)
}

fn cost_in(mut program: Command, variable: &str, value: &str, what: &str) -> u64 {
    let output = program.env(variable, value).env(ALONE, what).output().expect("it starts");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{variable}={value}: {}: {stderr}", output.status);
    String::from_utf8_lossy(&output.stdout).trim().parse().expect("a number")
}

fn a_mark_costs_what_it_did_in_the_emulator() {
    if !cfg!(target_arch = "x86_64") {
        return println!("skipped: this is not x86-64");
    }
    let program = env::current_exe().expect("it runs");
    // It only starts the emulator, so its profile does not matter.
    let target = program.ancestors().nth(3).expect("cargo's folders");
    let built = ["release", "debug"].map(|profile| target.join(profile).join("perfmark"));
    if let Err(error) = Command::new("qemu-x86_64").arg("--version").output() {
        return println!("skipped: qemu-x86_64: {error} (Debian's package qemu-user has it)");
    }
    let Some(perfmark) = built.iter().find(|perfmark| perfmark.is_file()) else {
        return println!("skipped: no {}, which `cargo build -p perfmark-cli` makes", built[1].display());
    };
    let with = |variable, value, what| {
        let mut command = Command::new(perfmark);
        command.args(["run", "--emulate", "--output", "/dev/null", "--"]).arg(&program);
        // So that marks are as without the emulator, in which none skips calls.
        command.env("QEMU_UNSET_ENV", "PERFMARK_READ");
        cost_in(command, variable, value, what)
    };
    let alone = |what| with("PERFMARK", "", what);
    let (bare, bare_parent) = (alone("unmarked"), alone("unmarked parent"));
    let costs = [
        ("time", alone("time") - bare, 106),
        ("time, parent and child", alone("time parent") - bare_parent, 245),
        ("time, left by `return`", alone("time returned") - bare, 142),
        ("time, generic", alone("time generic") - bare, 125),
        ("time, fence", alone("time fence") - bare, 117),
        ("time, with a call graph", with("PERFMARK_CALL_GRAPH", "on", "time") - bare, 157),
        ("an async call of one poll, time", alone("time async") - alone("unmarked async"), 177),
        ("time, a call that is skipped", alone("time skipped") - bare, 20),
        // Five of them are the mark's. The others save registers, which the unmarked function does not need.
        ("switched off", with("PERFMARK", "off", "off") - bare, 11),
        ("switched off, around a call", with("PERFMARK", "off", "off parent") - bare_parent, 10),
    ];
    report("instructions that a call of a mark adds to its caller, on x86-64", &costs, "rustc 1.95.0 for x86_64");
}

/// Prints what each call cost. Fails where a cost is more than 2 % above `before`, if this is a release build by
/// `compiler`, whose builds these costs were recorded from. Otherwise prints the costs that differ.
fn report(head: &str, costs: &[(&str, u64, u64)], compiler: &str) {
    let lines = costs.iter().map(|(what, cost, _)| format!("{cost:4} {what}\n"));
    println!("{head}:\n{}", lines.collect::<String>());
    let this = format!("rustc {} for {}", compiler::version(), env::consts::ARCH);
    let is_recorded = this == compiler && !cfg!(debug_assertions);
    if !is_recorded {
        println!("not checked: costs were recorded from a release build by {compiler}; this is a build by {this}");
    }
    for (what, cost, before) in costs {
        let change = format!("{what}: {cost} instructions a call, {before} before");
        assert!(!is_recorded || cost * 100 <= before * 102, "{change}");
        if !is_recorded && cost != before {
            println!("{change}");
        }
    }
}

fn a_mark_costs_what_it_did() {
    // Each runs in a new thread, since the first set of events is the thread's own.
    let alone = |work: fn(u64) -> u64| {
        std::thread::spawn(move || a_call(|| work(black_box(7)))).join().expect("does not panic")
    };
    let (bare, bare_parent) = (alone(unmarked), alone(unmarked_parent));
    let beside = |other: fn(u64) -> u64, work: fn(u64) -> u64| {
        let both = move || {
            other(1);
            a_call(|| work(black_box(7)))
        };
        std::thread::spawn(both).join().expect("does not panic")
    };
    let in_bursts = |work: fn(u64) -> u64| std::thread::spawn(move || many_calls(work)).join().expect("does not panic");
    let costs = [
        ("time", alone(time) - bare, 88),
        ("one event", alone(one) - bare, 113),
        ("two events", alone(two) - bare, 140),
        ("two events, left by `return`", alone(returned) - bare, 174),
        ("four events", alone(four) - bare, 208),
        ("five events", alone(five) - bare, 2_035),
        ("parent and child of two events", alone(parent) - bare_parent, 331),
        ("two events, where marks of the thread have others", beside(time, two) - bare, 157),
        ("two events, where the thread has nine", beside(seven_others, two) - bare, 1_181),
        ("two events, where marks of the thread have `every`", beside(skipped, two) - bare, 270),
        ("two events, every = 50: the mean", (in_bursts(every_50) - in_bursts(unmarked)) / MANY, 43),
        ("a call that is skipped", alone(skipped) - bare, 34),
        ("a call that is skipped within a budget", with("PERFMARK_BUDGET", "1e-9%", "budget") - bare, 32),
        ("two events, fence", alone(fenced) - bare, 153),
        ("two events, fence by a filter", with("PERFMARK_FILTER", "cost::two=fence", "two") - bare, 153),
        ("time and off_cpu, on the CPU all the time", alone(waiting) - bare, 100),
        ("on_cpu", alone(on_cpu) - bare, 100),
        ("on_cpu and cycles", alone(on_cpu_and_cycles) - bare, 138),
        ("time and cycles", alone(time_and_cycles) - bare, 138),
        ("two events and off_cpu, on the CPU all the time", alone(two_and_waiting) - bare, 140),
        ("time, blocked and preempted, on the CPU all the time", alone(blocked_and_preempted) - bare, 100),
        ("time, allocations and allocated_bytes", alone(allocates_nothing) - bare, 1_487),
        ("two events, generic", alone(by_types) - bare, 167),
        ("an async call of one poll, two events", alone(poll_marked) - alone(poll_unmarked), 198),
        ("two events, with a call graph", with("PERFMARK_CALL_GRAPH", "on", "two") - bare, 193),
        // An empty function becomes one that saves registers, which takes 3 of the 8.
        ("switched off", with("PERFMARK", "off", "off") - bare, 8),
        ("switched off, around a call", with("PERFMARK", "off", "off parent") - bare_parent, 5),
    ];
    report("instructions that a call of a mark adds to its caller", &costs, "rustc 1.96.0 for aarch64");
}
