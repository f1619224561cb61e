//! Many threads and many calls: over time, at once, and where nobody thinks of calls. They run in full where `PERFMARK_TEST_FULL` is set.

use std::sync::Barrier;
use std::{env, fs};

use perfmark::{Snapshot, perfmark};

use crate::ledger::{Of, count, descriptors, ledger};
use crate::{CALLS, machine, on_threads, places, work};

pub(crate) const FULL: &str = "PERFMARK_TEST_FULL";

fn is_full() -> bool {
    env::var_os(FULL).is_some()
}

fn so_many(in_full: u64, in_short: u64) -> u64 {
    if is_full() { in_full } else { in_short }
}

/// Memory in use.
fn resident_kb() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("there");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("told");
    line.trim_end_matches("kB").trim().parse().expect("a number")
}

pub(crate) fn over_time() {
    const AT_ONCE: u64 = 8;
    let threads = so_many(100_000, 4_000);
    let in_waves = |threads| (0..threads / AT_ONCE).for_each(|_| on_threads(AT_ONCE, || work(1)));
    in_waves(threads / 10);
    let before = (descriptors(), resident_kb());
    in_waves(threads - threads / 10);
    let after = (descriptors(), resident_kb());
    println!("{threads} threads: {} kB after a tenth of them, {} kB after all", before.1, after.1);
    assert_eq!(after.0, before.0, "descriptors");
    assert!(after.1 <= before.1 + 2_048, "memory does not grow with threads that ended");
    assert_eq!(perfmark::snapshot().threads, 1 + threads);
}

/// Events of the environment, by which a thousand threads go past a user's limits.
#[perfmark]
fn crowded() {
    let _counted = count(Of::crowded);
}

/// Past the limit of descriptors, as a user without rights where this is root, and so past that of locked memory.
pub(crate) fn at_once() {
    const THREADS: usize = 1_000;
    let limit = libc::rlimit { rlim_cur: 1_024, rlim_max: 1_024 };
    // SAFETY: a live limit; and the program has one thread. Who is no user with rights stays who it is.
    unsafe {
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit), 0);
        if machine::lets_users_count() {
            _ = libc::setuid(machine::NOBODY);
        }
    }
    crowded();
    let barrier: &Barrier = Box::leak(Box::new(Barrier::new(THREADS)));
    on_threads(THREADS as u64, move || {
        (0..CALLS).for_each(|_| crowded());
        barrier.wait();
        crowded();
    });
    let snapshot = perfmark::snapshot();
    let threads = THREADS as u64 + 1;
    assert_eq!(snapshot.threads, threads);
    let mark = snapshot.marks.iter().find(|mark| mark.name == "crowded").expect("it was called");
    assert_eq!(mark.calls, ledger().ended(Of::crowded));
    // A PMU on which the four do not fit at once gives each its turn.
    let take_turns = snapshot.notes.iter().any(|note| note.contains("because other events used the counters"));
    for event in snapshot.events.iter().filter(|event| event.name != "time") {
        let refused = told(&snapshot, &event.name, "not counted");
        let by_kernel = told(&snapshot, &event.name, "read by read(2)");
        println!("{}: read in {:?}, {refused:?}, {by_kernel:?}", event.name, event.read);
        let Some(values) = mark.values.iter().find(|values| values.event == event.name) else { continue };
        let (refused, why) = refused.expect("a thousand threads are too many");
        assert!(why.contains("EMFILE") && why.contains("ulimit -n"), "{why}");
        let others = threads - refused;
        // The main thread made one call.
        let whole = 1 + (others - 1) * (CALLS + 1);
        let is_so = if take_turns { values.measured <= whole } else { values.measured == whole };
        assert!(is_so, "{}: of {whole} calls of those that have it {} measured", event.name, values.measured);
        assert_eq!(values.unmeasured, mark.calls - values.measured, "{}: the others' are told", event.name);
        if let Some((_, why)) = by_kernel {
            assert!(why.contains("EPERM: no locked memory left"), "{why}");
        }
    }
}

/// On how many threads that is so of the event, and why: told once.
fn told(snapshot: &Snapshot, event: &str, what: &str) -> Option<(u64, String)> {
    let begin = format!("{event}: {what} on ");
    let mut notes = snapshot.notes.iter().filter_map(|note| note.strip_prefix(&begin));
    let (threads, why) = notes.next()?.split_once(" thread")?;
    assert_eq!(notes.next(), None, "once");
    Some((threads.parse().expect("a number"), why.into()))
}

pub(crate) fn in_an_allocator() {
    places::allocations(8, so_many(10_000_000, 100_000) / 8);
    tell(Of::allocates);
}

pub(crate) fn in_signal_handlers() {
    let each = so_many(500, 50);
    places::signals(so_many(10_000_000, 50_000) / each, each);
    tell(Of::handles);
}

pub(crate) fn in_thread_locals_destructors() {
    let (threads, calls) = if is_full() { (1_000, 7_000) } else { (80, 400) };
    places::thread_ends(threads, calls);
    tell(Of::work);
}

/// The report has all calls: those that were recorded, and those that could only be counted.
fn tell(of: Of) {
    let (snapshot, made) = (perfmark::snapshot(), ledger().ended(of));
    let mark = snapshot.marks.iter().find(|mark| mark.name == format!("{of:?}")).expect("it was called");
    let time = mark.values.iter().find(|values| values.event == "time").expect("there always is");
    println!(
        "{of:?}: {made} calls, {} told: {} measured, {} not, of which {} interrupted perfmark",
        mark.calls, time.measured, time.unmeasured, mark.interrupted
    );
    assert_eq!((mark.calls, time.measured + time.unmeasured), (made, made));
}
