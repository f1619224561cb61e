//! Settings of the machine that change while the program runs.

use std::fs;
use std::path::Path;
use std::sync::mpsc;
use std::{env, thread};

use crate::limits::reported_once;
use crate::{CALLS, on_threads, work};

pub(crate) const MAY_CHANGE: &str = "PERFMARK_TEST_MAY_CHANGE_SYSCTLS";

const PARANOID: &str = "/proc/sys/kernel/perf_event_paranoid";

const ROOT: libc::uid_t = 0;
pub(crate) const NOBODY: libc::uid_t = 65_534;

/// Whether a user without rights may count its own work.
pub(crate) fn lets_users_count() -> bool {
    content(PARANOID).is_some_and(|level| level.parse::<i32>().is_ok_and(|level| level <= 2))
}

/// Why a test that changes settings cannot run here.
pub(crate) fn missing() -> Option<String> {
    // SAFETY: it takes no arguments.
    if unsafe { libc::geteuid() } != 0 {
        return Some("it takes root to change a machine's settings".into());
    }
    let why = "which lets them do so for a moment, as CI does in the machine with a PMU";
    env::var_os(MAY_CHANGE).is_none().then(|| format!("{MAY_CHANGE} is not set, {why}"))
}

/// The content of a kernel's file, without its newline.
fn content(file: impl AsRef<Path>) -> Option<String> {
    fs::read_to_string(file).ok().map(|text| text.trim_end().to_owned())
}

/// Runs something at that paranoid level.
pub(crate) fn at_level<R>(level: &str, run: impl FnOnce() -> R) -> R {
    let before = content(PARANOID).expect("there");
    fs::write(PARANOID, level).expect("root's");
    let result = run();
    fs::write(PARANOID, before).expect("root's");
    result
}

/// Raises the level for a user without rights. Threads that have counters keep them. Those that start later are
/// refused, if the kernel has that level.
pub(crate) fn paranoid_is_raised() {
    let before = content(PARANOID).expect("there");
    let set_level = |level: &str| fs::write(PARANOID, level).expect("root's");
    let become_user = |user| {
        // SAFETY: all threads change their user; what they do meanwhile does not depend on it.
        assert_eq!(unsafe { libc::seteuid(user) }, 0);
    };
    set_level("2");
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
    set_level("3");
    become_user(NOBODY);
    raised.send(()).expect("it listens");
    earlier.join().expect("does not panic");
    on_threads(4, || (0..CALLS).for_each(work));
    (0..CALLS).for_each(work);
    become_user(ROOT);
    set_level(&before);
    let snapshot = perfmark::snapshot();
    if snapshot.notes.iter().any(|note| note.contains("not counted on")) {
        reported_once("instructions", "perf_event_paranoid");
    }
    let mark = snapshot.marks.iter().find(|mark| mark.name == "work").expect("it was called");
    if let Some(values) = mark.values.iter().find(|values| values.event == "instructions") {
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
