//! Settings of the machine that change while the program runs.

use std::sync::mpsc;
use std::{fs, thread};

use crate::limits::reported_once;
use crate::program::machine::{NOBODY, ParanoidLevel, ROOT, content};
use crate::{CALLS, on_threads, work};

/// Raises the level for a user without rights. Threads that have counters keep them. Those that start later are
/// refused, if the kernel has that level.
pub(crate) fn paranoid_is_raised() {
    let level = ParanoidLevel::new("2");
    let become_user = |user| {
        // SAFETY: all threads change their user; what they do meanwhile does not depend on it.
        assert_eq!(unsafe { libc::seteuid(user) }, 0);
    };
    become_user(NOBODY);
    let (raised, is_raised) = mpsc::channel();
    let (begun, has_begun) = mpsc::channel();
    let earlier = thread::spawn(move || {
        work(1);
        begun.send(()).expect("main listens");
        is_raised.recv().expect("main raises it");
        (0..CALLS).for_each(work);
    });
    has_begun.recv().expect("it begins");
    become_user(ROOT);
    ParanoidLevel::set("3");
    become_user(NOBODY);
    raised.send(()).expect("it listens");
    earlier.join().expect("does not panic");
    on_threads(4, || (0..CALLS).for_each(work));
    (0..CALLS).for_each(work);
    become_user(ROOT);
    drop(level);
    let snapshot = perfmark::snapshot();
    if snapshot.notes.iter().any(|note| note.contains("not counted on")) {
        reported_once("instructions", "perf_event_paranoid");
    }
    let mark = snapshot.marks.iter().find(|mark| mark.name == "work").expect("it was called");
    if let Some(values) = mark.event("instructions") {
        // The main thread's calls, before and here, and those of the earlier thread.
        assert!(values.measured > 3 * CALLS && values.measured + values.unmeasured == mark.calls, "{values:?}");
    }
}

/// Takes a CPU offline and online again, while threads work.
pub(crate) fn a_cpu_goes_offline_and_online() {
    const ONLINE: &str = "/sys/devices/system/cpu/cpu1/online";
    if content(ONLINE).as_deref() != Some("1") {
        println!("skipped: there is no second CPU that can be taken away");
        return;
    }
    for _ in 0..3 {
        for state in ["0", "1"] {
            fs::write(ONLINE, state).expect("root's");
            on_threads(4, || (0..CALLS).for_each(work));
            (0..CALLS).for_each(work);
        }
    }
}
