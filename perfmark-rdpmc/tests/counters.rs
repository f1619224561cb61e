//! Counters on a real kernel: software events anywhere, hardware events where there is a PMU.

mod support;

use perfmark_rdpmc::{Attr, Counter, Delta, Event, Hardware, Reading, Software, known_loop};
use support::trial;

fn main() {
    support::run(
        vec![
            trial("a_refusal_tells_event_errno_cause_and_remedy", a_refusal_tells_event_errno_cause_and_remedy),
            trial("an_event_that_would_count_nothing_is_refused", an_event_that_would_count_nothing_is_refused),
            trial("a_software_event_is_read_by_the_kernel", a_software_event_is_read_by_the_kernel),
        ],
        &[
            ("a_loop_of_known_length_is_counted_exactly", a_loop_of_known_length_is_counted_exactly),
            ("user_reads_and_read_2_agree", user_reads_and_read_2_agree),
            (
                "counters_of_every_width_are_exact_over_their_overflows",
                counters_of_every_width_are_exact_over_their_overflows,
            ),
            ("every_thread_counts_its_own", every_thread_counts_its_own),
        ],
    );
}

fn open(attr: &Attr) -> Counter {
    Counter::open(attr).unwrap_or_else(|error| panic!("{error}"))
}

fn read(counter: &Counter) -> Reading {
    counter.read_user().unwrap_or_else(|| panic!("{:?}", counter.user_reads()))
}

fn exact(delta: Delta) -> u64 {
    match delta {
        Delta::Exact(value) => value,
        other => panic!("not exact: {other:?}"),
    }
}

fn a_refusal_tells_event_errno_cause_and_remedy() {
    let Err(error) = Counter::open(&Attr::new(Event::raw(u64::MAX))) else {
        return; // A PMU that takes any number.
    };
    let text = error.to_string();
    assert!(text.starts_with("rffffffffffffffff:u: "), "{text}");
    match error.errno_name() {
        Some(name) => assert!(text.contains(&format!("perf_event_open gave {name}: ")), "{text}"),
        None => assert!(error.is_unsupported() && text.contains("not supported"), "{text}"),
    }
}

fn an_event_that_would_count_nothing_is_refused() {
    for event in [Software::ContextSwitches, Software::CpuMigrations, Software::CgroupSwitches] {
        let error = Counter::open(&Attr::new(event)).expect_err("counts nothing in user mode");
        assert!(error.is_unsupported() || error.reason().contains("kernel"), "{error}");
    }
}

fn a_software_event_is_read_by_the_kernel() {
    let counter = match Counter::open(&Attr::new(Software::TaskClock)) {
        Ok(counter) => counter,
        Err(error) if error.is_unsupported() => return,
        Err(error) => panic!("{error}"),
    };
    assert_eq!(counter.read_user(), None);
    assert!(counter.user_reads().is_err_and(|why| why.contains("kernel")));
    let before = counter.read().expect("readable");
    let _ = known_loop(1_000_000);
    let nanoseconds = exact(counter.read().expect("readable").since(&before));
    assert!(nanoseconds > 0);
}

/// How far a region may be off in which the kernel touched the counter: some processors count an instruction an interrupt.
const DISTURBED: u64 = 100;

/// Counts a loop of known length, and gives what is counted besides: the second half of the one read and the first half of the other.
/// The flag tells whether the kernel left the counter alone.
#[inline(never)]
fn besides(counter: &Counter, turns: u64) -> (u64, bool) {
    let lock = counter.page_lock();
    let before = read(counter);
    let length = known_loop(turns);
    let after = read(counter);
    let undisturbed = counter.page_lock() == lock;
    (exact(after.since(&before)) - length, undisturbed)
}

/// What is counted besides in an undisturbed region.
fn constant(counter: &Counter) -> u64 {
    let mut regions = std::iter::repeat_with(|| besides(counter, 1));
    regions.find(|(_, undisturbed)| *undisturbed).expect("endless").0
}

fn a_loop_of_known_length_is_counted_exactly() {
    let counter = open(&Attr::new(Hardware::Instructions));
    let constant = constant(&counter);
    let mut quiet = 0;
    for turns in 1..=1_000 {
        let (besides, undisturbed) = besides(&counter, turns);
        if undisturbed {
            assert_eq!(besides, constant, "{turns} turns");
            quiet += 1;
        }
        assert!(besides.abs_diff(constant) <= DISTURBED, "{turns} turns: {besides}, not {constant}");
    }
    assert!(quiet > 500, "{quiet} of 1000 regions undisturbed");
}

fn user_reads_and_read_2_agree() {
    let counter = open(&Attr::new(Hardware::Instructions));
    let by_kernel = || counter.read_syscall().expect("readable");
    let empty = by_kernel();
    let empty = exact(by_kernel().since(&empty));
    let outer = by_kernel();
    let (user, _) = besides(&counter, 1_000_000);
    let outer = exact(by_kernel().since(&outer)) - 2_000_000;
    // The reads by the kernel have all of the user reads between them, and their own.
    assert!(outer > user && outer - user <= empty + constant(&counter) + DISTURBED, "{user} {outer} {empty}");
}

fn counters_of_every_width_are_exact_over_their_overflows() {
    for wide in [true, false] {
        let counter = open(&Attr::new(Hardware::Instructions).wide(wide));
        // More than 2^32 instructions: a 32-bit counter, which the kernel lets overflow every 2^31, does so three times.
        let (besides, _) = besides(&counter, 7 << 29);
        let constant = constant(&counter);
        assert!(besides.abs_diff(constant) <= DISTURBED, "wide {wide}: {besides}, not {constant}");
    }
}

fn every_thread_counts_its_own() {
    let threads: Vec<_> = (1..=4)
        .map(|n| {
            std::thread::spawn(move || {
                let counter = open(&Attr::new(Hardware::Instructions));
                let (besides, constant) = (besides(&counter, n * 500_000).0, constant(&counter));
                assert!(besides.abs_diff(constant) <= DISTURBED, "{besides}, not {constant}");
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("counted right");
    }
}
