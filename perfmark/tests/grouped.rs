//! Software events and tracepoints are read together. Their values are the same as when each is read alone, also while
//! more events join the group.

#[path = "../../perfmark-rdpmc/tests/memory/mod.rs"]
mod memory;
#[path = "../../perfmark-rdpmc/tests/seccomp/mod.rs"]
mod seccomp;

use std::thread;

use memory::faults;
use perfmark::{Values, perfmark, snapshot};
use perfmark_rdpmc::{Attr, Counter, Software};

const PAGES: usize = 3;
const THREADS: u64 = 20;
/// Calls of each function on each thread.
const CALLS: u64 = 50;

#[perfmark(page_faults)]
fn alone() {
    faults(PAGES);
    two();
    faults(PAGES);
}

#[perfmark(page_faults, task_clock)]
fn two() {
    faults(PAGES);
    seven();
    alone_inside();
}

#[perfmark(page_faults, task_clock, minor_faults, major_faults, cpu_clock, alignment_faults, emulation_faults)]
fn seven() {
    faults(PAGES);
}

#[perfmark(minor_faults)]
fn alone_inside() {
    faults(PAGES);
}

fn values(name: &str, event: &str) -> Values {
    let mark = snapshot().marks.into_iter().find(|mark| mark.name == name).unwrap_or_else(|| panic!("no {name}"));
    mark.event(event).cloned().unwrap_or_else(|| panic!("{name} has no {event}"))
}

#[test]
fn page_faults_are_exact_however_many_events_are_read_together() {
    if let Err(why) = Counter::open(&Attr::new(Software::PageFaults)) {
        return println!("skipped: {why}");
    }
    for _ in 0..THREADS {
        // On each thread, all events join the group while calls are open.
        thread::spawn(|| (0..CALLS).for_each(|_| alone())).join().expect("does not panic");
    }
    if !cfg!(feature = "record") {
        return assert_eq!(snapshot().marks, []);
    }
    let calls = THREADS * CALLS;
    for (name, event, times) in [
        ("alone", "page-faults", 5),
        ("two", "page-faults", 3),
        ("seven", "page-faults", 1),
        ("seven", "minor-faults", 1),
        ("alone_inside", "minor-faults", 1),
    ] {
        let values = values(name, event);
        println!("{name} {event} {:?} to {:?}, sum {}", values.min, values.max, values.sum);
        assert_eq!((values.measured, values.unmeasured), (calls, 0), "{name}");
        let pages = times * PAGES as u64;
        assert_eq!(values.min, Some(pages), "{name} {event}");
        // The stack may grow, and the first call inside adds a page or two.
        let most = i128::from(calls * pages + 5 * THREADS);
        assert!(i128::from(values.sum) <= most, "{name} {event}: {} of {}", values.sum, calls * pages);
    }
    for (name, event) in [("two", "task-clock"), ("seven", "task-clock"), ("seven", "cpu-clock")] {
        let values = values(name, event);
        assert_eq!((values.measured, values.unmeasured), (calls, 0), "{name}");
        assert!(values.min > Some(100), "{name} {event}: {:?}", values.min);
    }
}

#[perfmark(page_faults)]
fn alone_without_ioctl() {
    faults(PAGES);
}

#[perfmark(page_faults, cpu_clock)]
fn two_without_ioctl() {
    faults(PAGES);
}

#[test]
fn events_that_cannot_join_a_group_are_measured_alone() {
    if let Err(why) = Counter::open(&Attr::new(Software::PageFaults)) {
        return println!("skipped: {why}");
    }
    let calls = || {
        seccomp::refuse(&[libc::SYS_ioctl], libc::EPERM)?;
        (0..CALLS).for_each(|_| alone_without_ioctl());
        (0..CALLS).for_each(|_| two_without_ioctl());
        (0..CALLS).for_each(|_| alone_without_ioctl());
        Ok::<_, std::io::Error>(())
    };
    if let Err(why) = thread::spawn(calls).join().expect("does not panic") {
        return println!("skipped: no filter can be installed here: {why}");
    }
    if !cfg!(feature = "record") {
        return;
    }
    for (name, event, calls) in [
        ("alone_without_ioctl", "page-faults", 2 * CALLS),
        ("two_without_ioctl", "page-faults", CALLS),
        ("two_without_ioctl", "cpu-clock", CALLS),
    ] {
        let values = values(name, event);
        assert_eq!((values.measured, values.unmeasured), (calls, 0), "{name}: {event}");
    }
}
