//! Marks that count on a real PMU: run where there is one that user space may read.

#[path = "../../perfmark-rdpmc/tests/support/mod.rs"]
mod support;

use std::collections::BTreeMap;

use perfmark::{Read, perfmark, snapshot};
use perfmark_rdpmc::{Attr, Counter, Hardware, known_loop};

fn main() {
    support::run(
        vec![],
        &[
            (
                "a_marked_loop_shows_its_length_and_the_same_constant",
                a_marked_loop_shows_its_length_and_the_same_constant,
            ),
            ("a_marked_loop_is_exact_over_counter_overflows", a_marked_loop_is_exact_over_counter_overflows),
            ("every_event_of_a_mark_is_read_in_user_space", every_event_of_a_mark_is_read_in_user_space),
            ("a_caller_holds_its_callees_instructions", a_caller_holds_its_callees_instructions),
            ("threads_that_ended_leave_exact_sums", threads_that_ended_leave_exact_sums),
        ],
    );
}

/// How far a call may be off in which the kernel touched the counter: some processors count an instruction an interrupt.
const DISTURBED: u64 = 100;

fn instructions(name: &str) -> perfmark::Values {
    let mark = snapshot().marks.into_iter().find(|mark| mark.name == name);
    let values = mark.map(|mark| mark.values).unwrap_or_default();
    values.into_iter().find(|values| values.event == "instructions").unwrap_or_else(|| panic!("{name}: not recorded"))
}

#[perfmark(instructions)]
fn looped(turns: u64) -> u64 {
    known_loop(turns)
}

fn a_marked_loop_shows_its_length_and_the_same_constant() {
    // Its page tells whether the kernel touched this thread's counters during a call.
    let witness = Counter::open(&Attr::new(Hardware::Instructions)).expect("there is a PMU");
    let mut before = 0;
    let mut constants = BTreeMap::new();
    for turns in [1, 10, 1_000, 10_000].into_iter().cycle().take(1_000) {
        let lock = witness.page_lock();
        let length = looped(turns);
        let undisturbed = witness.page_lock() == lock;
        let values = instructions("looped");
        *constants.entry((undisturbed, values.sum - before - length)).or_insert(0) += 1;
        before = values.sum;
    }
    let values = instructions("looped");
    assert_eq!((values.measured, values.unmeasured), (1_000, 0));
    let quiet: Vec<_> = constants.iter().filter(|((undisturbed, _), _)| *undisturbed).collect();
    let &[(&(_, constant), &calls)] = quiet.as_slice() else { panic!("one constant only: {constants:?}") };
    assert!(calls > 500, "{constants:?}");
    assert!(constants.keys().all(|(_, other)| other.abs_diff(constant) <= DISTURBED), "{constants:?}");
    assert_eq!(values.min, Some(2 + constant));
    println!("a marked loop of N instructions shows N + {constant}; calls by (undisturbed, constant): {constants:?}");
}

#[perfmark(instructions)]
fn long(turns: u64) -> u64 {
    known_loop(turns)
}

fn a_marked_loop_is_exact_over_counter_overflows() {
    long(1);
    let constant = instructions("long").sum - 2;
    // More than 2^32 instructions: a 32-bit counter, which the kernel lets overflow every 2^31, does so three times.
    let length = long(7 << 29);
    let values = instructions("long");
    let besides = values.sum - 2 - constant - length;
    assert!(besides.abs_diff(constant) <= DISTURBED, "{besides}, not {constant}");
    println!("{} instructions: {} besides the loop's, {constant} in the call before", values.max.unwrap_or(0), besides);
}

#[perfmark]
fn bare() {
    let _ = known_loop(1_000);
}

fn every_event_of_a_mark_is_read_in_user_space() {
    bare();
    let snapshot = snapshot();
    let events: Vec<_> = snapshot.events.iter().map(|event| (event.name.as_str(), event.read)).collect();
    for expected in [("time", Read::Ticks), ("cycles", Read::User), ("instructions", Read::User)] {
        assert!(events.contains(&expected), "{:?}", snapshot.events);
    }
    let mark = snapshot.marks.iter().find(|mark| mark.name == "bare").expect("it was called");
    let counted: Vec<_> = mark.values.iter().map(|values| (values.event.as_str(), values.measured)).collect();
    assert_eq!(counted, [("time", 1), ("cycles", 1), ("instructions", 1)]);
}

#[perfmark(instructions)]
fn parent(children: u64) {
    for _ in 0..children {
        child();
    }
}

#[perfmark(instructions)]
fn child() {
    let _ = known_loop(50_000);
}

fn a_caller_holds_its_callees_instructions() {
    parent(10);
    let (parent, child) = (instructions("parent"), instructions("child"));
    assert_eq!(child.measured, 10);
    assert!(child.sum >= 10 * 100_000 && parent.sum >= child.sum);
    assert_eq!(parent.self_sum, Some(parent.sum - child.sum));
}

#[perfmark(instructions)]
fn in_threads(turns: u64) {
    let _ = known_loop(turns);
}

fn threads_that_ended_leave_exact_sums() {
    let threads: Vec<_> =
        (1..=8).map(|n| std::thread::spawn(move || (0..100).for_each(|_| in_threads(n * 1_000)))).collect();
    for thread in threads {
        thread.join().expect("does not panic");
    }
    let values = instructions("in_threads");
    assert_eq!((values.measured, values.unmeasured), (800, 0));
    let loops = 36 * 100 * 2_000;
    let constant = values.min.expect("measured") - 2_000;
    assert!((values.sum - loops).abs_diff(800 * constant) <= 8 * DISTURBED, "{} of {loops}, {constant}", values.sum);
}
