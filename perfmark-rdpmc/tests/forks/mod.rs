//! The effect of a fork on counters, and of counters on a forked child.

pub(super) mod handlers;

use std::cell::RefCell;
use std::fs;
use std::os::fd::RawFd;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use perfmark_rdpmc::{Attr, Counter, Delta, Error, Event, Group, Hardware, Region, known_loop};

use super::{best_attr, child, open};

/// Forks, and returns whether the child's work succeeded.
fn in_child(work: impl FnOnce() -> bool) -> bool {
    child::in_child(child::fork, work)
}

pub(super) fn fork(attr: &Attr) {
    let Some(counter) = open(attr) else { return };
    let mut region = Region::default();
    counter.begin(&mut region);
    let before = counter.read().expect("readable");
    let _ = known_loop(10_000);
    assert!(in_child(|| {
        let names_fork = |error: &Error| error.to_string().contains("forked");
        let cannot_read = counter.read().is_err_and(|error| names_fork(&error)) && counter.read_user().is_none();
        let knows_why = counter.user_reads().is_err_and(|why| why.contains("forked"));
        let cannot_stop = counter.disable().is_err_and(|error| names_fork(&error));
        // A counter of its own works.
        cannot_read && knows_why && cannot_stop && counter.end(&region) == Delta::Unmeasured && counts(attr)
    }));
    let _ = known_loop(10_000);
    let Delta::Exact(value) = counter.read().expect("readable").since(&before) else {
        panic!("the parent's continues")
    };
    assert!(value >= if attr.event() == &Event::from(Hardware::Instructions) { 40_000 } else { 1 });
    assert!(matches!(counter.end(&region), Delta::Exact(_)));
}

pub(super) fn a_child_keeps_no_counter_of_the_pmu() {
    let open_all = || -> Vec<Counter> {
        (0..6).filter_map(|_| Counter::open(&Attr::new(Hardware::Instructions).pinned(true)).ok()).collect()
    };
    let counters = open_all();
    let on_the_pmu = |counters: &[Counter]| counters.iter().filter(|counter| counter.read().is_ok()).count();
    let fit = on_the_pmu(&counters);
    assert!(fit > 0);
    let (mut wait, mut ready, mut byte) = ([0; 2], [0; 2], [0_u8; 1]);
    // SAFETY: live memory for two descriptors each.
    assert_eq!(unsafe { (libc::pipe(wait.as_mut_ptr()), libc::pipe(ready.as_mut_ptr())) }, (0, 0));
    let child = child::fork();
    if child == 0 {
        // SAFETY: it reports that it runs, waits for the end of the pipe, and ends. Descriptors and memory of its own.
        unsafe {
            libc::close(wait[1]);
            libc::write(ready[1], byte.as_ptr().cast(), 1);
            libc::read(wait[0], byte.as_mut_ptr().cast(), 1);
            libc::_exit(0)
        }
    }
    // SAFETY: live memory for a byte.
    assert_eq!(unsafe { libc::read(ready[0], byte.as_mut_ptr().cast(), 1) }, 1);
    drop(counters);
    // While the child is alive: a pinned event that does not fit is in error state, and cannot be read.
    let again = open_all();
    assert_eq!(on_the_pmu(&again), fit);
    for end in [wait[1], wait[0], ready[0], ready[1]] {
        // SAFETY: the pipes' ends.
        unsafe { libc::close(end) };
    }
    let status = child::ended(child);
    assert!(status.success(), "{status}");
}

/// The process's descriptors of perf events.
fn event_descriptors() -> Vec<RawFd> {
    let entries = fs::read_dir("/proc/self/fd").expect("there").flatten();
    let is_event = |path| fs::read_link(path).is_ok_and(|file| file.to_string_lossy().contains("[perf_event]"));
    let numbers = entries.filter(|entry| is_event(entry.path()));
    numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Replaces the file with that number by a pipe's reading end that has one byte to read.
fn put_pipe_at(fd: RawFd) {
    let mut ends = [0; 2];
    // SAFETY: live memory for two descriptors, which are ours. The writing end stays open.
    unsafe {
        assert_eq!(libc::close(fd), 0);
        assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
        assert_eq!(libc::write(ends[1], ends.as_ptr().cast(), 1), 1);
        assert_eq!(libc::dup2(ends[0], fd), fd);
    }
}

fn is_a_pipe(fd: RawFd) -> bool {
    fs::read_link(format!("/proc/self/fd/{fd}")).is_ok_and(|file| file.to_string_lossy().starts_with("pipe:"))
}

/// Does what a program does that closes all descriptors that it does not know, and opens files of its own.
pub(super) fn closed_by_another() {
    let attr = best_attr();
    for noticed in [true, false] {
        let Some(counter) = open(&attr) else { return };
        let [fd] = event_descriptors()[..] else { panic!("one") };
        put_pipe_at(fd);
        if noticed {
            let error = counter.read_syscall().expect_err("it is no event");
            assert!(error.to_string().contains("closed by other code"), "{error}");
        }
        let other = open(&attr).expect("opens");
        assert!(
            in_child(|| is_a_pipe(fd) && event_descriptors().is_empty() && other.read().is_err()),
            "noticed: {noticed}"
        );
        assert!(is_a_pipe(fd) && other.read().is_ok());
        drop(counter);
        assert!(is_a_pipe(fd), "the counter must not close it, noticed: {noticed}");
        drop(other);
        // SAFETY: the pipe's.
        unsafe { libc::close(fd) };
    }
}

/// Where a counter's page is.
fn pages() -> Vec<usize> {
    let maps = fs::read_to_string("/proc/self/maps").expect("there");
    let lines = maps.lines().filter(|line| line.contains("[perf_event]"));
    lines.filter_map(|line| usize::from_str_radix(line.split_once('-')?.0, 16).ok()).collect()
}

pub(super) fn address_used_again() {
    const BYTE: u8 = 0xa5;
    let attr = Attr::new(Hardware::Instructions);
    let use_again = |address: usize| {
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let target = std::ptr::with_exposed_provenance_mut::<libc::c_void>(address);
        // SAFETY: a new mapping where there is none, and a byte in it.
        unsafe {
            let start = libc::mmap(target, 4096, access, kind | libc::MAP_FIXED_NOREPLACE, -1, 0).cast::<u8>();
            assert_eq!(start.addr(), address, "the page's address is free");
            start.write(BYTE);
            start
        }
    };
    let dropped = Counter::open(&attr).expect("there is a PMU");
    let [first] = pages()[..] else { panic!("one") };
    drop(dropped);
    let first = use_again(first);
    let mut without = Counter::open(&attr).expect("there is a PMU");
    let [second] = pages()[..] else { panic!("one") };
    without.read_by_kernel_only();
    let second = use_again(second);
    let alive = Counter::open(&attr).expect("there is a PMU");
    // SAFETY: the byte above, in both processes.
    let intact = || unsafe { first.read_volatile() == BYTE && second.read_volatile() == BYTE };
    assert!(in_child(|| {
        // SAFETY: as above: it can also be written.
        unsafe { first.write_volatile(BYTE) };
        intact() && alive.read().is_err() && alive.read_user().is_none() && without.read().is_err()
    }));
    assert!(intact() && alive.read().is_ok() && without.read().is_ok());
}

/// Forks when its thread ends.
struct AtEnd {
    counter: RefCell<Option<Counter>>,
}

static AT_END: AtomicBool = AtomicBool::new(false);

impl Drop for AtEnd {
    fn drop(&mut self) {
        let Some(counter) = self.counter.take() else { return };
        let child = in_child(|| counter.read().is_err() && event_descriptors().is_empty() && counts(&best_attr()));
        AT_END.store(child && continues(&counter), Relaxed);
    }
}

/// Whether a new counter counts.
fn counts(attr: &Attr) -> bool {
    Counter::open(attr).is_ok_and(|counter| continues(&counter))
}

/// Whether a counter counts.
pub(super) fn continues(counter: &Counter) -> bool {
    let Ok(before) = counter.read() else { return false };
    let _ = known_loop(100_000);
    counter.read().is_ok_and(|after| matches!(after.since(&before), Delta::Exact(100..)))
}

pub(super) fn at_a_threads_end() {
    thread_local!(static AT_THREAD_END: AtEnd = const { AtEnd { counter: RefCell::new(None) } });
    let attr = best_attr();
    let Some(here) = open(&attr) else { return };
    let thread = std::thread::spawn(move || AT_THREAD_END.with(|at_end| *at_end.counter.borrow_mut() = open(&attr)));
    thread.join().expect("does not panic");
    assert!(AT_END.load(Relaxed), "counters fail in the child and continue in the parent");
    assert_eq!(event_descriptors().len(), 1, "the thread's is closed");
    assert!(here.read().is_ok());
}

pub(super) fn beside_openings() {
    static DONE: AtomicBool = AtomicBool::new(false);
    let forks = if crate::support::is_emulated() { 50 } else { 200 };
    let attr = best_attr();
    let Some(counter) = open(&attr) else { return };
    let opens = attr.clone();
    let thread = std::thread::spawn(move || {
        let mut opened = 0;
        while !DONE.load(Relaxed) {
            opened += usize::from(counts(&opens)) + 3 * usize::from(Group::open(&vec![opens.clone(); 3]).is_ok());
        }
        opened
    });
    for n in 0..forks {
        let child = in_child(|| {
            assert_eq!(event_descriptors(), [], "fork {n}: descriptors of the parent");
            counter.read().is_err() && counts(&attr)
        });
        assert!(child, "fork {n}");
    }
    DONE.store(true, Relaxed);
    let opened = thread.join().expect("does not panic");
    println!("{forks} forks beside {opened} counters opened and closed");
    assert!(opened > 0 && counter.read().is_ok());
}
