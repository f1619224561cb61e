//! Marks, and single pieces of work, that count on a real PMU. They run where user space may read one.

#[path = "../../perfmark-rdpmc/tests/support/mod.rs"]
mod support;

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::{ptr, thread};

use perfmark::{Read, Values, measure, perfmark, snapshot};
use perfmark_rdpmc::{
    Attr, Counter, Delta, Hardware, Software, disable_all_of_thread, enable_all_of_thread, known_loop,
};
use support::{named, tests};

fn main() {
    if cfg!(debug_assertions) {
        eprintln!("values that depend on the compiler's optimization are not checked: this build has none");
    }
    support::run(
        vec![
            named(promise_1_kernel_events_that_other_code_stopped_are_unmeasured),
            named(what_cannot_be_counted_is_refused_and_the_work_does_not_run),
        ],
        tests![
            promise_1_counters_that_other_code_stopped_are_unmeasured,
            a_marked_loop_counts_its_length_and_a_constant,
            a_marked_loop_is_exact_across_counter_overflows,
            promise_2_a_marked_loop_counts_its_own_instructions_only,
            promise_2_a_callers_value_excludes_its_callees_probes,
            promise_2_a_callers_value_excludes_probes_with_other_events,
            promise_2_a_callers_value_excludes_probes_of_inlined_callees,
            skipped_calls_and_their_callers_are_estimated_as_in_bursts,
            callers_of_skipped_calls_have_the_same_value_as_callers_of_measured_ones,
            the_self_of_a_call_is_the_same_whether_calls_inside_its_callees_are_measured_or_skipped,
            a_call_and_its_caller_show_the_same_however_it_ends,
            promise_1_a_caller_is_measured_however_often_its_thread_waited,
            promise_1_a_caller_is_measured_whatever_marks_are_first_called_inside_it,
            promise_3_a_call_that_waits_adds_little_to_the_calls_around_it,
            promise_3_a_tree_of_marked_calls_counts_like_an_unmarked_one,
            the_order_in_which_events_are_named_changes_no_value,
            every_event_of_a_mark_is_read_in_user_space,
            a_loop_counts_its_instructions_beside_any_other_events,
        ],
    );
}

/// How far a value may be off if the kernel touched the counter during the call. Some processors count one instruction
/// per interrupt.
const DISTURBED: u64 = 240;

/// How much the end of a call in which the thread waited adds to a call around it, measured on arm64.
const END_OF_WAITING: u64 = 660;

fn instructions(name: &str) -> Values {
    let mark = snapshot().marks.into_iter().find(|mark| mark.name == name);
    mark.and_then(|mark| mark.event("instructions").cloned()).unwrap_or_else(|| panic!("{name}: not recorded"))
}

#[perfmark(instructions)]
fn looped(turns: u64) -> u64 {
    known_loop(turns)
}

fn a_marked_loop_counts_its_length_and_a_constant() {
    // Its page shows whether the kernel touched this thread's counters during a call.
    let witness = Counter::open(&Attr::new(Hardware::Instructions)).expect("there is a PMU");
    let mut before = 0;
    let mut constants = BTreeMap::new();
    for turns in [1, 10, 1_000, 10_000].into_iter().cycle().take(1_000) {
        let lock = witness.page_lock();
        let length = looped(turns).cast_signed();
        let undisturbed = witness.page_lock() == lock;
        let values = instructions("looped");
        *constants.entry((undisturbed, values.sum - before - length)).or_insert(0) += 1;
        before = values.sum;
    }
    let values = instructions("looped");
    assert_eq!((values.measured, values.unmeasured), (1_000, 0));
    let quiet: Vec<_> = constants.iter().filter(|((undisturbed, _), _)| *undisturbed).collect();
    let &[(&(_, constant), &calls)] = quiet.as_slice() else { panic!("expected one constant: {constants:?}") };
    assert!(calls > 500, "{constants:?}");
    assert!(constants.keys().all(|(_, other)| other.abs_diff(constant) <= DISTURBED), "{constants:?}");
    assert_eq!(values.min.map(u64::cast_signed), Some(2 + constant));
    println!("a marked loop of N instructions shows N + {constant}; calls by (undisturbed, constant): {constants:?}");
}

#[perfmark(page_faults)]
fn one_kernel_event(inside: &dyn Fn()) {
    inside();
}

#[perfmark(page_faults, task_clock, minor_faults)]
fn kernel_events(inside: &dyn Fn()) {
    inside();
}

fn promise_1_kernel_events_that_other_code_stopped_are_unmeasured() {
    match Counter::open(&Attr::new(Software::TaskClock)) {
        Ok(_) => {
            stop_around_calls("one_kernel_event", |inside| one_kernel_event(inside));
            stop_around_calls("kernel_events", |inside| kernel_events(inside));
        }
        Err(why) => println!("skipped: {why}"),
    }
}

#[perfmark(instructions)]
fn instructions_only(inside: &dyn Fn()) {
    inside();
}

#[perfmark(instructions, task_clock)]
fn instructions_and_kernel_event(inside: &dyn Fn()) {
    inside();
}

fn promise_1_counters_that_other_code_stopped_are_unmeasured() {
    stop_around_calls("instructions_only", |inside| instructions_only(inside));
    stop_around_calls("instructions_and_kernel_event", |inside| instructions_and_kernel_event(inside));
}

/// On a thread of its own, makes calls of a mark that are measured, and others, in which all events of the thread are
/// stopped for a while.
fn stop_around_calls(name: &str, call: fn(&dyn Fn())) {
    // Some time, because perfmark does not notice a stop of a few microseconds.
    let stop = || {
        disable_all_of_thread().expect("allowed");
        let _ = known_loop(1_000_000);
    };
    let start = || enable_all_of_thread().expect("allowed");
    let idle = || _ = known_loop(1_000);
    let calls = move || {
        call(&idle);
        // It is stopped throughout, from the middle, until the middle, and while there is a call inside.
        stop();
        call(&idle);
        call(&idle);
        start();
        call(&stop);
        start();
        stop();
        call(&start);
        call(&|| {
            stop();
            call(&idle);
            start();
        });
        call(&idle);
        measure(&["task_clock"], stop).map(|measured| measured.counts[0].count)
    };
    let measured = thread::spawn(calls).join().expect("does not panic");
    assert!(matches!(measured, Ok(None)), "{measured:?}");
    let marks = snapshot().marks;
    let mark = marks.iter().find(|mark| mark.name == name).expect("it was called");
    for values in &mark.values {
        println!("{name} {}: {} measured, {} unmeasured", values.event, values.measured, values.unmeasured);
        assert_eq!((values.measured, values.unmeasured), (2, 6), "{name} {}", values.event);
    }
}

#[perfmark(instructions)]
fn long(turns: u64) -> u64 {
    known_loop(turns)
}

fn a_marked_loop_is_exact_across_counter_overflows() {
    long(1);
    let constant = instructions("long").sum - 2;
    // More than 2^31 instructions: a 32-bit counter overflows, because the kernel sets it to overflow every 2^31.
    let length = long(9 << 27).cast_signed();
    let values = instructions("long");
    let besides = values.sum - 2 - constant - length;
    assert!(besides.abs_diff(constant) <= DISTURBED, "{besides}, not {constant}");
    println!("{} instructions: {} besides the loop's, {constant} in the call before", values.max.unwrap_or(0), besides);
}

/// The same function with and without a mark.
macro_rules! twins {
    ($($marked:ident $unmarked:ident $turns:literal)*) => {
        $(
            #[perfmark(instructions)]
            #[inline(never)]
            fn $marked() {
                let _ = known_loop($turns);
            }

            #[inline(never)]
            fn $unmarked() {
                let _ = known_loop($turns);
            }
        )*
        /// Names, marked functions and unmarked ones.
        const TWINS: &[(&str, fn(), fn())] = &[$((stringify!($marked), $marked, $unmarked)),*];
    };
}
twins! { loop_0 plain_0 0 loop_10 plain_10 5 loop_1000 plain_1000 500 loop_1000000 plain_1000000 500_000 }

/// Instructions of one call, by a counter of this test's own: the least of several tries.
fn count_instructions(call: fn()) -> u64 {
    const CALLS: u64 = 100;
    let witness = Counter::open(&Attr::new(Hardware::Instructions)).expect("there is a PMU");
    let call = black_box(call);
    let tries = (0..5).map(|_| {
        let before = witness.read().expect("readable");
        (0..CALLS).for_each(|_| call());
        match witness.read().expect("readable").since(&before) {
            Delta::Exact(instructions) => instructions,
            other => panic!("{other:?}"),
        }
    });
    tries.min().expect("tried") / CALLS
}

/// How many instructions of the probe a call's value may include or lack.
const NET: u64 = 2;

fn promise_2_a_marked_loop_counts_its_own_instructions_only() {
    let empty = count_instructions(TWINS[0].2);
    for &(name, marked, unmarked) in TWINS {
        let truth = count_instructions(unmarked) - empty;
        (0..100).for_each(|_| marked());
        let shown = instructions(name);
        println!("{name}: {truth} instructions, {:?} shown, {} at most", shown.min, shown.max.unwrap_or(0));
        let least = shown.min.expect("measured");
        if !cfg!(debug_assertions) {
            assert!(least.abs_diff(truth) <= NET, "{name}: {least} for {truth}");
            assert!(shown.p50.is_some_and(|half| half.abs_diff(truth) <= NET + truth / 64), "{name}: {shown:?}");
        }
    }
}

const CHILDREN: u64 = 1_000;

#[perfmark(instructions)]
fn caller_of_marked() {
    (0..CHILDREN).for_each(|_| loop_10());
}

#[perfmark(instructions)]
fn caller_of_unmarked() {
    (0..CHILDREN).for_each(|_| plain_10());
}

fn promise_2_a_callers_value_excludes_its_callees_probes() {
    // Called before, so that the work of its first call is not in the caller's value.
    loop_10();
    (0..5).for_each(|_| caller_of_marked());
    (0..5).for_each(|_| caller_of_unmarked());
    let least = |name| instructions(name).min.expect("measured");
    let (marked, unmarked) = (least("caller_of_marked"), least("caller_of_unmarked"));
    println!("a caller of {CHILDREN}: {marked} instructions with marked callees, {unmarked} with unmarked ones");
    if !cfg!(debug_assertions) {
        assert!(marked.abs_diff(unmarked) <= CHILDREN, "{marked} {unmarked}");
    }
}

#[perfmark(instructions)]
fn caller_of_timed() {
    (0..CHILDREN).for_each(|_| timed());
}

#[perfmark(time, cycles)]
#[inline(never)]
fn timed() {
    let _ = known_loop(5);
}

fn promise_2_a_callers_value_excludes_probes_with_other_events() {
    // On a new thread, which has these two sets of events from the start.
    thread::spawn(|| {
        timed();
        (0..5).for_each(|_| caller_of_timed());
    })
    .join()
    .expect("does not panic");
    let least = |name| instructions(name).min.expect("measured");
    let (timed, unmarked) = (least("caller_of_timed"), least("caller_of_unmarked"));
    println!(
        "a caller of {CHILDREN}: {timed} instructions with callees of other events, {unmarked} with unmarked callees"
    );
    if !cfg!(debug_assertions) {
        assert!(timed.abs_diff(unmarked) <= CHILDREN, "{timed} {unmarked}");
    }
}

#[perfmark(instructions)]
fn caller_of_inlined() {
    (0..CHILDREN).for_each(|n| _ = black_box(inlined(n)));
}

#[perfmark(instructions)]
fn caller_of_plain() {
    (0..CHILDREN).for_each(|n| _ = black_box(plain(n)));
}

#[perfmark(instructions)]
#[allow(clippy::inline_always, reason = "the test needs it inlined")]
#[inline(always)]
fn inlined(n: u64) -> u64 {
    black_box(n * 3)
}

#[allow(clippy::inline_always, reason = "the test needs it inlined")]
#[inline(always)]
fn plain(n: u64) -> u64 {
    black_box(n * 3)
}

#[perfmark(instructions)]
fn with<R>(work: impl FnOnce() -> R) -> R {
    work()
}

fn promise_2_a_callers_value_excludes_probes_of_inlined_callees() {
    inlined(1);
    (0..5).for_each(|_| caller_of_inlined());
    (0..5).for_each(|_| caller_of_plain());
    let least = |name| instructions(name).min.expect("measured");
    let (marked, unmarked) = (least("caller_of_inlined"), least("caller_of_plain"));
    println!(
        "a caller of {CHILDREN}: {marked} instructions with marked callees inside it, {unmarked} with unmarked ones"
    );
    if !cfg!(debug_assertions) {
        assert!(marked.abs_diff(unmarked) <= 6 * CHILDREN, "{marked} {unmarked}");
    }
    // The first value of a call may be below zero.
    thread::spawn(|| {
        loop_10();
        (0..3).for_each(|n| assert_eq!(with(|| with(|| n)), n));
    })
    .join()
    .expect("does not panic");
    assert_eq!(instructions("with").measured, 6);
}

#[perfmark(instructions)]
fn caller_of_sampled() {
    (0..CHILDREN).for_each(|_| sampled());
}

/// Measures one call in seven. Each contains a call that is always measured.
#[perfmark(instructions, every = 7)]
#[inline(never)]
fn sampled() {
    let _ = known_loop(50);
    inside_of_sampled();
}

#[perfmark(instructions)]
#[inline(never)]
fn inside_of_sampled() {
    let _ = known_loop(500);
}

fn skipped_calls_and_their_callers_are_estimated_as_in_bursts() {
    sampled();
    (0..60).for_each(|_| caller_of_sampled());
    let [caller, sampled, inside] = ["caller_of_sampled", "sampled", "inside_of_sampled"].map(instructions);
    let own = |values: &Values| values.self_sum.expect("recorded");
    // Not the total: how many of the last calls are measured depends on where the last burst is.
    let mean = sampled.sum / sampled.weight.cast_signed();
    println!(
        "60,000 calls: {:.1} instructions a call themselves of 5, {:.1} of 101, {:.1} of 1,001; in all {mean} of 1,102",
        own(&caller) as f64 / 60_000.0,
        own(&sampled) as f64 / 60_001.0,
        own(&inside) as f64 / 60_001.0,
    );
    assert!(sampled.extrapolated && !inside.extrapolated);
    if !cfg!(debug_assertions) {
        let selfs = [(&caller, 7), (&sampled, 105), (&inside, 1_001)].map(|(mark, truth)| (own(mark) / 60_000, truth));
        for (counted, truth) in selfs.into_iter().chain([(mean, 1_106)]) {
            // Estimates. Some instructions of each burst are in the caller's self.
            assert!(counted.abs_diff(truth) <= 4 + truth.unsigned_abs() / 20, "{counted} {truth}");
        }
    }
}

#[perfmark(instructions)]
#[inline(never)]
fn outer_of_skipped(n: u64) -> u64 {
    caller_of_skipped(n) + 1
}

#[perfmark(instructions)]
#[inline(never)]
fn caller_of_skipped(n: u64) -> u64 {
    skipped(n) + 1
}

#[perfmark(instructions, every = 61)]
#[inline(never)]
fn skipped(n: u64) -> u64 {
    black_box(n)
}

#[perfmark(instructions)]
#[inline(never)]
fn outer_of_measured(n: u64) -> u64 {
    caller_of_measured(n) + 1
}

#[perfmark(instructions)]
#[inline(never)]
fn caller_of_measured(n: u64) -> u64 {
    measured(n) + 1
}

#[perfmark(instructions)]
#[inline(never)]
fn measured(n: u64) -> u64 {
    black_box(n)
}

#[perfmark(instructions)]
#[inline(never)]
fn long_of_skipped(calls: u64) {
    (0..calls).for_each(|n| _ = black_box(caller_of_skipped(n)));
}

#[perfmark(instructions)]
#[inline(never)]
fn long_of_measured(calls: u64) {
    (0..calls).for_each(|n| _ = black_box(caller_of_measured(n)));
}

fn the_self_of_a_call_is_the_same_whether_calls_inside_its_callees_are_measured_or_skipped() {
    const CALLS: u64 = 61 * 1_000;
    let calls = || {
        long_of_skipped(CALLS);
        long_of_measured(CALLS);
    };
    thread::spawn(calls).join().expect("does not panic");
    let own = |name: &str| instructions(name).self_sum.expect("recorded") as f64 / CALLS as f64;
    let (skipped, measured) = (own("long_of_skipped"), own("long_of_measured"));
    println!(
        "{skipped:.1} instructions of its own a call inside if one in 61 is measured there, {measured:.1} if all are"
    );
    if !cfg!(debug_assertions) {
        // A few instructions of each burst are in its self.
        assert!((skipped - measured).abs() <= 1.0, "{skipped} {measured}");
    }
}

/// A skipped call is still a call: its caller counts as a caller, and pays what that costs.
fn callers_of_skipped_calls_have_the_same_value_as_callers_of_measured_ones() {
    const CALLS: u64 = 61 * 100;
    let calls = || (0..CALLS).for_each(|n| _ = black_box(outer_of_skipped(n) + outer_of_measured(n)));
    thread::spawn(calls).join().expect("does not panic");
    let mean = |name: &str| instructions(name).sum as f64 / CALLS as f64;
    let (skipped, measured) = (mean("outer_of_skipped"), mean("outer_of_measured"));
    println!(
        "{skipped:.1} instructions around calls of which one in 61 is measured, {measured:.1} around measured ones"
    );
    if !cfg!(debug_assertions) {
        // A burst begins and ends in some of the calls, which adds or leaves out a few instructions.
        assert!((skipped - measured).abs() <= 4.0, "{skipped}, not {measured}");
    }
}

#[perfmark(instructions)]
#[inline(never)]
fn ends(turns: u64) -> Option<u64> {
    Some(known_loop(turns))
}

#[perfmark(instructions)]
#[inline(never)]
fn returns(turns: u64) -> Option<u64> {
    return Some(known_loop(turns));
}

#[perfmark(instructions)]
#[inline(never)]
fn questions(turns: Option<u64>) -> Option<u64> {
    let _ = known_loop(turns.unwrap_or(100));
    Some(turns? + 1)
}

#[perfmark(instructions)]
#[inline(never)]
fn hides(turns: u64) -> impl Sized {
    known_loop(turns)
}

#[perfmark(instructions)]
fn caller_of_ended() {
    (0..CHILDREN).for_each(|_| _ = black_box(ends(10)));
}

#[perfmark(instructions)]
fn caller_of_returned() {
    (0..CHILDREN).for_each(|_| _ = black_box(returns(10)));
}

#[perfmark(instructions)]
fn caller_of_questions() {
    (0..CHILDREN).for_each(|_| _ = black_box(questions(Some(10))));
}

#[perfmark(instructions)]
fn caller_of_hidden() {
    (0..CHILDREN).for_each(|_| _ = black_box(hides(10)));
}

fn a_call_and_its_caller_show_the_same_however_it_ends() {
    for _ in 0..100 {
        black_box((ends(100), returns(100), questions(None), hides(100)));
    }
    let least = |name| instructions(name).min.expect("measured");
    let calls = ["ends", "returns", "questions", "hides"].map(least);
    for _ in 0..5 {
        caller_of_ended();
        caller_of_returned();
        caller_of_questions();
        caller_of_hidden();
    }
    let own = |name| instructions(name).self_sum.expect("measured") / (5 * CHILDREN.cast_signed());
    let callers = ["caller_of_ended", "caller_of_returned", "caller_of_questions", "caller_of_hidden"].map(own);
    let ways = ["by its end", "by `return`", "by `?`", "with a guard"];
    for ((way, call), caller) in ways.iter().zip(calls).zip(callers) {
        println!("left {way}: {call} instructions a call, {caller} a call in its caller's self");
    }
    if !cfg!(debug_assertions) {
        // The way out by `?` has some more instructions in the function itself.
        assert!(calls.iter().all(|one| one.abs_diff(calls[0]) <= 4), "{calls:?}");
        // A guard asks at entry whether a panic is in progress: four instructions that stay in the caller.
        assert!(callers[..3].iter().all(|one| one.abs_diff(callers[0]) <= 1), "{callers:?}");
        assert!(callers[3].abs_diff(callers[0]) <= 4, "{callers:?}");
    }
}

#[perfmark(instructions)]
fn caller_that_waits(answers: &Receiver<()>, questions: &Sender<()>) {
    for _ in 0..30 {
        questions.send(()).expect("somebody answers");
        answers.recv().expect("an answer");
        loop_10();
    }
}

fn promise_1_a_caller_is_measured_however_often_its_thread_waited() {
    let (questions, inbox) = channel();
    let (outbox, answers) = channel();
    let other = thread::spawn(move || inbox.iter().try_for_each(|()| outbox.send(())));
    (0..3).for_each(|_| caller_that_waits(&answers, &questions));
    drop(questions);
    _ = other.join();
    let caller = instructions("caller_that_waits");
    assert_eq!(
        (caller.measured, caller.scaled, caller.unmeasured),
        (3, 0, 0),
        "each wait lets the kernel touch the counter"
    );
}

/// Waits for a nanosecond, or asks the kernel for an invalid wait, which takes as many instructions.
#[perfmark(instructions)]
fn waits(nanoseconds: i64) {
    let time = libc::timespec { tv_sec: 0, tv_nsec: nanoseconds };
    // SAFETY: the time is live.
    unsafe { libc::nanosleep(&raw const time, ptr::null_mut()) };
}

#[perfmark(instructions)]
fn around_waits(nanoseconds: i64) {
    waits(nanoseconds);
}

#[perfmark(instructions)]
fn around_both(nanoseconds: i64) {
    around_waits(nanoseconds);
}

fn promise_3_a_call_that_waits_adds_little_to_the_calls_around_it() {
    // This thread has marks with other events, and some with `every`.
    waits_add_little();
    thread::spawn(waits_add_little).join().expect("no panic");
}

fn waits_add_little() {
    const MARKS: [&str; 3] = ["waits", "around_waits", "around_both"];
    let sums = || MARKS.map(|mark| instructions(mark).sum);
    around_both(-1);
    let added = |nanoseconds: i64| {
        // Again, because the kernel may touch the counters at any time.
        let each = (0..20).map(|_| {
            let before = sums();
            around_both(nanoseconds);
            let after = sums();
            [0, 1, 2].map(|n| after[n] - before[n])
        });
        each.reduce(|one, other| [0, 1, 2].map(|n| one[n].min(other[n]))).expect("some")
    };
    let (without, with) = (added(-1), added(1));
    println!("{without:?} instructions without a wait, {with:?} with one");
    let checked = if cfg!(target_arch = "aarch64") {
        MARKS.len()
    } else {
        println!("not checked: what a wait adds to the calls around it, whose bound is for arm64");
        1
    };
    for n in 0..checked {
        let most = DISTURBED + END_OF_WAITING * n as u64;
        assert!(with[n].abs_diff(without[n]) <= most, "{}", MARKS[n]);
    }
}

/// Callers in which another mark is called for the first time, so that the probes of their events are measured again.
macro_rules! callers_that_meet {
    ($($caller:ident $met:ident $($event:ident)*;)*) => {
        $(
            #[perfmark($($event),*)]
            fn $caller() {
                $met();
                loop_10();
            }

            #[perfmark($($event,)* every = 3)]
            fn $met() {}
        )*
        const CALLERS_THAT_MEET: &[(&str, fn())] = &[$((stringify!($caller), $caller)),*];
    };
}
callers_that_meet! {
    meets_one met_one instructions;
    meets_another met_another cycles;
    meets_two met_two cycles instructions;
    meets_three met_three cycles instructions branch_instructions;
    meets_others met_others instructions branch_instructions;
    meets_four met_four cycles instructions branch_instructions branch_misses;
}

fn promise_1_a_caller_is_measured_whatever_marks_are_first_called_inside_it() {
    for (name, caller) in CALLERS_THAT_MEET {
        // The first events of its thread are the caller's.
        thread::spawn(caller).join().expect("does not panic");
        let mark = snapshot().marks.into_iter().find(|mark| mark.name == *name).expect("was called");
        for values in mark.values {
            assert_eq!((values.measured, values.unmeasured), (1, 0), "{name}: {}", values.event);
        }
    }
}

macro_rules! tree {
    ($($(#[$mark:meta])? $name:ident)*) => {
        $(
            $(#[$mark])?
            #[inline(never)]
            fn $name(n: u64) -> u64 {
                if black_box(n) < 2 { n } else { $name(n - 1) + $name(n - 2) }
            }
        )*
    };
}
tree! { #[perfmark(instructions)] tree plain_tree }

#[perfmark(instructions)]
fn root_of_marked() {
    assert_eq!(tree(20), 6_765);
}

#[perfmark(instructions)]
fn root_of_unmarked() {
    assert_eq!(plain_tree(20), 6_765);
}

fn promise_3_a_tree_of_marked_calls_counts_like_an_unmarked_one() {
    tree(2);
    root_of_marked();
    root_of_unmarked();
    let (root, calls, plain) = (instructions("root_of_marked"), instructions("tree"), instructions("root_of_unmarked"));
    let parts = root.self_sum.zip(calls.self_sum).map_or(0, |(root, calls)| root + calls);
    println!("a tree of 21,891 calls: {} instructions, {parts} in its parts; {} unmarked", root.sum, plain.sum);
    assert_eq!(calls.measured, 21_891 + 3);
    if !cfg!(debug_assertions) {
        assert!(calls.total <= root.sum + 1_000 && parts.abs_diff(root.sum) <= root.sum.unsigned_abs() / 100);
        // The compiler compiles a marked function differently: it saves registers, and does not turn the second call
        // into a loop. A call inside another call of its mark costs some instructions more than the one by which its
        // probe was measured.
        assert!(root.sum.abs_diff(plain.sum) <= 12 * calls.measured, "{} {}", root.sum, plain.sum);
    }
}

#[perfmark(on_cpu, instructions)]
#[inline(never)]
fn leaf_in_order() {
    let _ = known_loop(10);
}

#[perfmark(on_cpu, instructions)]
#[inline(never)]
fn caller_in_order() {
    (0..10).for_each(|_| leaf_in_order());
}

#[perfmark(instructions, on_cpu)]
#[inline(never)]
fn leaf_in_reverse() {
    let _ = known_loop(10);
}

#[perfmark(instructions, on_cpu)]
#[inline(never)]
fn caller_in_reverse() {
    (0..10).for_each(|_| leaf_in_reverse());
}

/// On each thread, all marks have the same events.
fn the_order_in_which_events_are_named_changes_no_value() {
    let callers: [fn(); 2] = [caller_in_order, caller_in_reverse];
    for caller in callers {
        thread::spawn(move || (0..100).for_each(|_| caller())).join().expect("does not panic");
    }
    // The least, because the kernel's work in a call would be counted, too.
    let [one, other] = ["caller_in_order", "caller_in_reverse"].map(|name| instructions(name).min.expect("measured"));
    println!("a caller of ten leaves: at least {one} and {other} instructions");
    assert!(one.abs_diff(other) <= 3, "{one} {other}");
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

fn what_cannot_be_counted_is_refused_and_the_work_does_not_run() {
    let why = measure(&["no-such-event"], || unreachable!("it does not run")).expect_err("there is none");
    assert!(why.to_string().contains("no-such-event"), "{why}");
    if let Err(why) = measure(&["instructions"], || ()).map_err(|why| why.to_string()) {
        assert!(!why.contains("ENOENT") || why.contains("perfmark run --emulate"), "{why}");
    }
}

fn a_loop_counts_its_instructions_beside_any_other_events() {
    for events in [&["instructions"][..], &["time", "instructions"], &["cycles", "instructions", "time", "page-faults"]]
    {
        for turns in [0, 500, 500_000] {
            // The least of several tries, as a kernel tick may interrupt one.
            let counted = (0..3).map(|_| {
                let measured = measure(events, || {
                    black_box(known_loop(turns));
                });
                measured.expect("there is a PMU").instructions().expect("counted exactly")
            });
            let counted = counted.min().expect("three");
            println!("{events:?}: {counted} instructions of a loop of {}", 2 * turns);
            // The excess is the calls of the work and of the loop. If the kernel can interrupt the loop, it includes
            // the slow path of the reading.
            let more = if turns > 1_000 { 200 } else { 20 };
            assert!((2 * turns..=2 * turns + more).contains(&counted), "{counted} instructions of {}", 2 * turns);
        }
    }
}
