//! What a mark costs its caller, in instructions, which repeat exactly in the emulated machine with a PMU. A cost that grows by more than 2 %
//! fails.

#[path = "../../perfmark-rdpmc/tests/support/mod.rs"]
mod support;
mod executor;

use std::env;
use std::fmt::Write as _;
use std::hint::black_box;
use std::process::Command;

use executor::run;
use perfmark::perfmark;
use perfmark_rdpmc::{Attr, Counter, Delta, Hardware};

fn main() {
    match env::var(ALONE).as_deref() {
        Ok("off") => return println!("{}", a_call(|| off(black_box(7)))),
        Ok("graph") => return println!("{}", a_call(|| two(black_box(7)))),
        _ => {}
    }
    support::run(vec![], &[("a_mark_costs_what_it_did", a_mark_costs_what_it_did)]);
}

/// Set in a process that measures marks with other settings.
const ALONE: &str = "PERFMARK_TEST_ALONE";

const CALLS: u64 = 1_000;

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
}

#[perfmark(cycles, instructions, generic)]
#[inline(never)]
fn by_one_of_many<const TYPE: usize>(n: u64) -> u64 {
    black_box(n)
}

/// Calls it for 200 types.
fn all_types() {
    macro_rules! call {
        ($($tens:literal)*) => {
            $(call!($tens: 0 1 2 3 4 5 6 7 8 9);)*
        };
        ($tens:literal: $($ones:literal)*) => {
            $(by_one_of_many::<{ 10 * $tens + $ones }>(7);)*
        };
    }
    call!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19);
}

#[perfmark(cycles, instructions)]
#[inline(never)]
fn parent(n: u64) -> u64 {
    black_box(two(n))
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

/// Instructions in user mode of a call of it, as its caller sees them: the least of a few tries.
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
    String::from_utf8_lossy(&output.stdout).trim().parse().expect("a number")
}

fn a_mark_costs_what_it_did() {
    // Each in a thread of its own, as the first set of events is the thread's own.
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
    let among_types = |work: fn(u64) -> u64| {
        let all = move || {
            all_types();
            a_call(|| work(black_box(7)))
        };
        std::thread::spawn(all).join().expect("does not panic")
    };
    let costs = [
        ("time", alone(time) - bare, 103),
        ("one event", alone(one) - bare, 129),
        ("two events", alone(two) - bare, 172),
        ("four events", alone(four) - bare, 269),
        ("parent and child of two events", alone(parent) - bare_parent, 387),
        ("two events, where marks of the thread have others", beside_another_set(two) - bare, 201),
        ("two events, every = 50", alone(every_50) - bare, 48),
        ("a call that is skipped", alone(skipped) - bare, 42),
        ("two events, fence", alone(fenced) - bare, 184),
        ("two events, generic", alone(by_types) - bare, 193),
        // Some 20 more for each type that has a slot before it, which differs with the addresses of a build.
        ("two events, generic, the first of 200 types", among_types(by_one_of_many::<0>) - bare, 245),
        ("two events, generic, the last of 200 types", among_types(by_one_of_many::<199>) - bare, 245),
        ("an async call of one poll, two events", alone(poll_marked) - alone(poll_unmarked), 386),
        ("two events, with a call graph", with("PERFMARK_CALL_GRAPH", "on", "graph") - bare, 793),
        ("switched off", with("PERFMARK", "off", "off") - bare, 9),
    ];
    let mut told = String::new();
    for (what, cost, _) in costs {
        _ = writeln!(told, "{cost:4} {what}");
    }
    println!("instructions that a call of a mark adds to its caller:\n{told}");
    if cfg!(all(target_arch = "aarch64", not(debug_assertions))) {
        for (what, cost, before) in costs {
            assert!(cost * 100 <= before * 102, "{what}: {cost} instructions a call, {before} before");
        }
    }
}
