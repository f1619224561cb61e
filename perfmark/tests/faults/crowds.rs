//! Many threads and many calls: over time, at once, and in unexpected contexts. With `PERFMARK_TEST_FULL`, they run at
//! full length, unless they are sampled.

use std::sync::Barrier;
use std::{env, fs};

use perfmark::{Snapshot, perfmark};

use crate::ledger::{Function, assert_descriptors, count, descriptors, ledger};
use crate::program::machine;
use crate::{CALLS, contexts, on_threads, work};

pub(crate) const FULL: &str = "PERFMARK_TEST_FULL";

fn is_sampled() -> bool {
    env::var_os("PERFMARK_SAMPLE").is_some()
}

fn is_full() -> bool {
    env::var_os(FULL).is_some() && !is_sampled()
}

fn full_or_short(in_full: u64, in_short: u64) -> u64 {
    if is_full() { in_full } else { in_short }
}

/// Resident memory.
fn resident_kb() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("there");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("present");
    line.trim_end_matches("kB").trim().parse().expect("a number")
}

pub(crate) fn over_time() {
    const AT_ONCE: u64 = 8;
    // The collector reads the program's unwind tables with the first samples, which may come late. They take 2 MB.
    let (in_short, limit) = if is_sampled() { (16_000, 4_096) } else { (1_600, full_or_short(2_048, 1_024)) };
    let threads = full_or_short(100_000, in_short);
    let in_waves = |threads| (0..threads / AT_ONCE).for_each(|_| on_threads(AT_ONCE, || work(1)));
    in_waves(threads / 10);
    let (files, before) = (descriptors(), resident_kb());
    in_waves(threads - threads / 10);
    assert_descriptors(&files);
    let after = resident_kb();
    println!("{threads} threads: {before} kB after a tenth of them, {after} kB after all");
    assert!(after <= before + limit, "memory does not grow with threads that ended");
    assert_eq!(perfmark::snapshot().threads, 1 + threads);
}

/// Uses events of the environment, with which a thousand threads exceed a user's limits.
#[perfmark]
fn crowded() {
    let _counted = count(Function::crowded);
}

/// Exceeds the limit of descriptors. If this is root, it becomes a user without rights, and so exceeds the limit of
/// locked memory, too.
pub(crate) fn at_once() {
    const THREADS: usize = 1_000;
    let limit = libc::rlimit { rlim_cur: 1_024, rlim_max: 1_024 };
    // SAFETY: the limit is live, and the program has one thread. A process that may not change its user stays as it is.
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
    assert_eq!(mark.calls, ledger().ended(Function::crowded));
    // A PMU on which the four do not fit at once gives each its turn.
    let take_turns = snapshot.notes.iter().any(|note| note.contains("because other events used the counters"));
    for event in snapshot.events.iter().filter(|event| event.name != "time") {
        let refused = note_of(&snapshot, &event.name, "not counted");
        let by_kernel = note_of(&snapshot, &event.name, "read by read(2)");
        println!("{}: read in {:?}, {refused:?}, {by_kernel:?}", event.name, event.read);
        let Some(values) = mark.values.iter().find(|values| values.event == event.name) else { continue };
        let (refused, why) = refused.expect("a thousand threads are too many");
        assert!(why.contains("EMFILE") && why.contains("ulimit -n"), "{why}");
        let others = threads - refused;
        // The main thread made one call.
        let expected = 1 + (others - 1) * (CALLS + 1);
        let is_expected = if take_turns { values.measured <= expected } else { values.measured == expected };
        assert!(
            is_expected,
            "{}: {} of {expected} calls measured on the threads that count it",
            event.name, values.measured
        );
        assert_eq!(values.unmeasured, mark.calls - values.measured, "{}: the others' calls are reported", event.name);
        if let Some((_, why)) = by_kernel {
            assert!(why.contains("EPERM: no locked memory is left"), "{why}");
        }
    }
}

/// The number of threads and the reason in the event's note of this kind. Checks that there is one such note only.
fn note_of(snapshot: &Snapshot, event: &str, what: &str) -> Option<(u64, String)> {
    let begin = format!("{event}: {what} on ");
    let mut notes = snapshot.notes.iter().filter_map(|note| note.strip_prefix(&begin));
    let (threads, why) = notes.next()?.split_once(" thread")?;
    assert_eq!(notes.next(), None, "there is one note only");
    Some((threads.parse().expect("a number"), why.into()))
}

pub(crate) fn in_an_allocator() {
    contexts::allocations(8, full_or_short(10_000_000, 100_000) / 8);
}

pub(crate) fn in_signal_handlers() {
    let each = full_or_short(500, 50);
    contexts::signals(full_or_short(10_000_000, 50_000) / each, each);
}

pub(crate) fn in_thread_locals_destructors() {
    let (threads, calls) = if is_full() { (1_000, 7_000) } else { (80, 400) };
    contexts::thread_ends(threads, calls);
}
