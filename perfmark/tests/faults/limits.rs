//! What a system can refuse: descriptors and system calls. Also, the CPUs to which it moves threads.

use std::fs::File;

use perfmark::{Snapshot, perfmark};

use crate::ledger::{assert_descriptors, descriptors};
use crate::{CALLS, leaves, on_threads, process, seccomp, work};

/// Starts threads in waves, so that counters are opened and closed at the same time.
pub(crate) fn threads_come_and_go() {
    let before = descriptors();
    for _ in 0..8 {
        on_threads(8, || (0..CALLS).for_each(work));
    }
    // Each thread closed its own.
    assert_descriptors(&before);
}

/// Starts without a free descriptor, then with one, and so on. Threads' counters are refused one after the other, and
/// open ones keep counting.
pub(crate) fn no_descriptor_left() {
    const LIMIT: libc::rlim_t = 64;
    let before = descriptors();
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the limits are live.
    unsafe {
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit), 0);
        let lower = libc::rlimit { rlim_cur: LIMIT, ..limit };
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &raw const lower), 0);
    }
    let mut files: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    assert!(!files.is_empty());
    let mut last = perfmark::snapshot();
    for _ in 0..6 {
        on_threads(1, || {
            (0..CALLS).for_each(work);
            (0..CALLS).for_each(|_| late());
        });
        (0..CALLS).for_each(work);
        // Whatever number of descriptors the snapshot needs.
        last = check_calls_since(&last);
        files.pop();
    }
    drop(files);
    // SAFETY: the limit is live.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, 0);
    assert_descriptors(&before);
    reported_once("page-faults", "EMFILE");
}

/// First called when there is no descriptor left.
#[perfmark(time, page_faults)]
fn late() {}

/// Checks that each event measured each call between two snapshots, or reports it as unmeasured. Returns the second.
fn check_calls_since(last: &Snapshot) -> Snapshot {
    let now = perfmark::snapshot();
    for mark in now.since(last).marks {
        for values in &mark.values {
            assert_eq!(
                values.measured + values.unmeasured,
                mark.calls,
                "{} of {}: {values:?}",
                values.event,
                mark.name
            );
        }
    }
    now
}

/// Checks that the report says once why the event was not counted everywhere, if it was counted anywhere.
pub(crate) fn reported_once(event: &str, why: &str) {
    let snapshot = perfmark::snapshot();
    let count = snapshot.notes.iter().filter(|note| note.starts_with(event) && note.contains(why)).count();
    let opened = snapshot.events.iter().any(|known| known.name == event && known.read != perfmark::Read::None);
    assert_eq!(count, usize::from(opened), "{event}: {:?}", snapshot.notes);
}

/// A seccomp filter refuses `perf_event_open(2)`, as containers do.
pub(crate) fn filtered() {
    if let Err(why) = seccomp::refuse(&[libc::SYS_perf_event_open], libc::EPERM) {
        println!("skipped: no filter can be installed here: {why}");
        return;
    }
    on_threads(4, || (0..CALLS).for_each(work));
    (0..CALLS).for_each(work);
    reported_once("page-faults", "EPERM: a seccomp filter");
}

/// Moves from one CPU to the next, also in the middle of calls.
pub(crate) fn moves_between_cpus() {
    let cpus = process::cpus();
    for n in 0_usize..200 {
        process::move_to(cpus[n % cpus.len()]);
        work(1);
        leaves(|| process::move_to(cpus[(n + 1) % cpus.len()]));
    }
    process::move_to_any(&cpus);
}
