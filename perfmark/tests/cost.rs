//! What a mark costs its caller, in instructions, which repeat exactly. arm64 is measured in the emulated machine with
//! a PMU, x86-64 by callgrind. In a release build by the compiler of the recorded costs, a cost that grows by more than
//! 2 % fails.

#[path = "../../perfmark-rdpmc/tests/support/mod.rs"]
mod support;
#[path = "../../perfmark-rdpmc/tests/compiler/mod.rs"]
mod compiler;
mod executor;

use std::env;
use std::hint::black_box;
use std::process::Command;

use executor::run;
use perfmark::perfmark;
use perfmark_rdpmc::{Attr, Counter, Delta, Hardware};
use support::trial;

fn main() {
    match env::var(ALONE).as_deref() {
        Ok("off") => return println!("{}", a_call(|| off(black_box(7)))),
        Ok("off parent") => return println!("{}", a_call(|| off_parent(black_box(7)))),
        Ok("two") => return println!("{}", a_call(|| two(black_box(7)))),
        Ok("budget") => {
            // Until the budget has chosen which calls are measured.
            (0..10_000).for_each(|_| _ = two(black_box(7)));
            return println!("{}", a_call(|| two(black_box(7))));
        }
        _ => {}
    }
    for counted in BY_CALLGRIND {
        for (which, function) in [(MARKED, counted.marked), (UNMARKED, counted.unmarked)] {
            if env::var(ALONE).is_ok_and(|name| name.strip_prefix(which) == Some(counted.name)) {
                return calls_that_callgrind_counts(function);
            }
        }
    }
    let by_callgrind = trial("a_mark_costs_what_it_did_by_callgrind", a_mark_costs_what_it_did_by_callgrind);
    support::run(vec![by_callgrind], &[("a_mark_costs_what_it_did", a_mark_costs_what_it_did)]);
}

/// Set in a process that measures marks with other settings.
const ALONE: &str = "PERFMARK_TEST_ALONE";

/// Prefixes of the names of functions that callgrind counts.
const MARKED: &str = "marked: ";
const UNMARKED: &str = "unmarked: ";

const CALLS: u64 = 1_000;
/// Most of them are on the fast path.
const CALLS_BY_CALLGRIND: usize = 101;

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
    #[perfmark(cycles, instructions, generic)] by_types;
    #[perfmark(cycles, instructions)] off;
    #[perfmark(cycles, instructions, every = 50)] every_50;
    #[perfmark(cycles, instructions, every = 4_000_000_000)] skipped;
    #[perfmark(cycles, instructions, fence)] fenced;
    #[perfmark(time, every = 4_000_000_000)] skipped_time;
    #[perfmark(time, off_cpu)] waiting;
    #[perfmark(on_cpu)] on_cpu;
    #[perfmark(on_cpu, cycles)] on_cpu_and_cycles;
    #[perfmark(time, cycles)] time_and_cycles;
    #[perfmark(cycles, instructions, off_cpu)] two_and_waiting;
    #[perfmark(time, blocked, preempted)] blocked_and_preempted;
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

#[allow(clippy::unused_async, reason = "the twin of a marked one")]
async fn unmarked_polled(n: u64) -> u64 {
    black_box(n)
}

#[inline(never)]
fn poll_marked(n: u64) -> u64 {
    run(polled(n))
}

#[inline(never)]
fn poll_unmarked(n: u64) -> u64 {
    run(unmarked_polled(n))
}

/// User-mode instructions of one call, as its caller sees them: the least of several tries.
fn a_call(work: impl Fn() -> u64) -> u64 {
    let witness = Counter::open(&Attr::new(Hardware::Instructions)).expect("there is a PMU");
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

fn with(variable: &str, value: &str, what: &str) -> u64 {
    let program = env::current_exe().expect("it runs");
    let output = Command::new(program).env(variable, value).env(ALONE, what).output().expect("it starts");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{variable}={value}: {}: {stderr}", output.status);
    String::from_utf8_lossy(&output.stdout).trim().parse().expect("a number")
}

/// A mark whose instructions callgrind counts.
struct Counted {
    name: &'static str,
    marked: fn(u64) -> u64,
    unmarked: fn(u64) -> u64,
    /// The value of `PERFMARK`.
    setting: &'static str,
    /// Instructions that a call of the mark cost before, on x86-64.
    before: u64,
}

const BY_CALLGRIND: &[Counted] = &[
    Counted { name: "time", marked: time, unmarked, setting: "", before: 108 },
    Counted {
        name: "time, parent and child",
        marked: time_parent,
        unmarked: unmarked_parent,
        setting: "",
        before: 247,
    },
    Counted { name: "time, a call that is skipped", marked: skipped_time, unmarked, setting: "", before: 22 },
    // Five of them are the mark's. The others save registers, which the unmarked function does not need.
    Counted { name: "switched off", marked: off, unmarked, setting: "off", before: 11 },
    Counted {
        name: "switched off, around a call",
        marked: off_parent,
        unmarked: unmarked_parent,
        setting: "off",
        before: 10,
    },
];

/// Calls the function. Callgrind counts each call.
fn calls_that_callgrind_counts(work: fn(u64) -> u64) {
    #[inline(never)]
    fn call_counted(work: fn(u64) -> u64) {
        black_box(work(black_box(7)));
    }
    (0..CALLS_BY_CALLGRIND).for_each(|_| call_counted(black_box(work)));
}

fn a_mark_costs_what_it_did_by_callgrind() {
    if !cfg!(target_arch = "x86_64") {
        return println!("skipped: this is not x86-64");
    }
    // The median of single calls. `time` comes from the machine's clock, also under callgrind, so some calls take the
    // slow path: those whose value is the smallest or the largest so far, for which the histogram grows.
    let instructions = |counted: &Counted, which: &str| -> Option<u64> {
        let mut callgrind = Command::new("valgrind");
        callgrind.args(["--tool=callgrind", "--toggle-collect=*call_counted", "--dump-after=*call_counted"]);
        callgrind.args(["--callgrind-out-file=/dev/stdout", "--combine-dumps=yes"]);
        callgrind.arg(env::current_exe().expect("it runs")).env("PERFMARK", counted.setting);
        let output = callgrind.env(ALONE, format!("{which}{}", counted.name)).output().ok()?;
        let dumps = String::from_utf8_lossy(&output.stdout);
        let totals = dumps.lines().filter_map(|line| line.strip_prefix("totals: "));
        let mut calls: Vec<u64> = totals.map(|total| total.parse().expect("a number")).collect();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(calls.len() >= CALLS_BY_CALLGRIND, "{}: {stderr}", output.status);
        calls.sort_unstable();
        Some(calls[calls.len() / 2])
    };
    let cost = |counted: &'static Counted| {
        let cost = instructions(counted, MARKED)? - instructions(counted, UNMARKED)?;
        Some((counted.name, cost, counted.before))
    };
    let costs: Option<Vec<_>> = BY_CALLGRIND.iter().map(cost).collect();
    let Some(costs) = costs else { return println!("skipped: valgrind, which counts instructions, cannot be started") };
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
    let beside_another_set = |work: fn(u64) -> u64| {
        let both = move || {
            time(1);
            a_call(|| work(black_box(7)))
        };
        std::thread::spawn(both).join().expect("does not panic")
    };
    let costs = [
        ("time", alone(time) - bare, 88),
        ("one event", alone(one) - bare, 113),
        ("two events", alone(two) - bare, 140),
        ("two events, left by `return`", alone(returned) - bare, 174),
        ("four events", alone(four) - bare, 208),
        ("parent and child of two events", alone(parent) - bare_parent, 331),
        ("two events, where marks of the thread have others", beside_another_set(two) - bare, 157),
        ("two events, every = 50", alone(every_50) - bare, 46),
        ("a call that is skipped", alone(skipped) - bare, 35),
        ("a call that is skipped within a budget", with("PERFMARK_BUDGET", "1e-9%", "budget") - bare, 33),
        ("two events, fence", alone(fenced) - bare, 153),
        ("two events, fence by a filter", with("PERFMARK_FILTER", "cost::two=fence", "two") - bare, 153),
        ("time and off_cpu, on the CPU all the time", alone(waiting) - bare, 100),
        ("on_cpu", alone(on_cpu) - bare, 100),
        ("on_cpu and cycles", alone(on_cpu_and_cycles) - bare, 138),
        ("time and cycles", alone(time_and_cycles) - bare, 138),
        ("two events and off_cpu, on the CPU all the time", alone(two_and_waiting) - bare, 140),
        ("time, blocked and preempted, on the CPU all the time", alone(blocked_and_preempted) - bare, 100),
        ("two events, generic", alone(by_types) - bare, 172),
        ("an async call of one poll, two events", alone(poll_marked) - alone(poll_unmarked), 198),
        ("two events, with a call graph", with("PERFMARK_CALL_GRAPH", "on", "two") - bare, 193),
        // An empty function becomes one that saves registers, which takes 3 of the 8.
        ("switched off", with("PERFMARK", "off", "off") - bare, 8),
        ("switched off, around a call", with("PERFMARK", "off", "off parent") - bare_parent, 5),
    ];
    report("instructions that a call of a mark adds to its caller", &costs, "rustc 1.96.0 for aarch64");
}
