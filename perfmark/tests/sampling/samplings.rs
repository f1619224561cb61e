//! Several samplings of one program, one after another, and several events of one.
#![allow(unsafe_code, reason = "limits of the process, pthread keys")]

use std::cell::Cell;
use std::ffi::c_void;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::sync::OnceLock;
use std::{ptr, thread};

use perfmark::{Report, Samples, Sampling, Stacks, perfmark};

use crate::child::{fork, in_child};
use crate::loops::{spin_seven, spin_three};
use crate::memory::faults;
use crate::passed_alone;
use crate::sampled::{sampled, wait_until_sampled};

#[perfmark(time)]
#[inline(never)]
fn again(times: u64) {
    spin_seven(times);
}

#[test]
fn a_thread_is_sampled_again_with_former_settings() {
    if passed_alone() {
        return;
    }
    for frequency in [3_001, 1_009, 3_001] {
        let work = || {
            wait_until_sampled();
            again(900_000);
        };
        let Some(sampled) = sampled(Sampling::new().frequency(frequency), work) else { return };
        assert_eq!(sampled.samples().frequency, Some(frequency));
        let [_, in_loop] = sampled.in_loops(Some("again"));
        println!("{in_loop} samples at {frequency} Hz");
        assert!(in_loop > 0);
    }
}

#[test]
fn samples_have_the_times_and_threads_at_which_they_were_taken() {
    if passed_alone() {
        return;
    }
    let began = perfmark::snapshot().wall_ns;
    let worker = || {
        wait_until_sampled();
        again(2_000_000);
    };
    let work = || {
        let threads = ["first", "second"].map(|name| thread::Builder::new().name(name.into()).spawn(worker));
        for thread in threads {
            thread.expect("started").join().expect("no panic");
        }
    };
    let Some(taken) = sampled(Sampling::new().frequency(3_001).timestamps(true), work) else { return };
    let (ended, samples) = (perfmark::snapshot().wall_ns, taken.samples());
    assert!(samples.timestamps);
    let stacks = || samples.paths.iter().flat_map(|path| &path.stacks);
    assert!(stacks().all(|stack| stack.times.len() as u64 == stack.samples), "each has a time");
    assert!(stacks().flat_map(|stack| &stack.times).all(|time| (began..=ended).contains(&time.ns)), "of the run");
    let of = |name: &str| {
        let (in_loop, mark) = (Some(taken.mark("again")), Some(name));
        let is_its = |thread: usize| samples.threads[thread].name.as_deref() == mark;
        let paths = samples.paths.iter().filter(|path| path.marks.last().copied() == in_loop);
        let times = paths.flat_map(|path| &path.stacks).flat_map(|stack| &stack.times);
        times.filter(|time| is_its(time.thread)).count()
    };
    println!("{} and {} samples in `again`, {:?}", of("first"), of("second"), samples.threads);
    assert!(of("first") > 0 && of("second") > 0);
}

thread_local!(static ROUND: Cell<u32> = const { Cell::new(0) });
static END_KEY: OnceLock<libc::pthread_key_t> = OnceLock::new();

/// The destructor of a pthread key. Computes in its third round: perfmark ends what it does on a thread in the second.
unsafe extern "C" fn compute_at_end(data: *mut c_void) {
    let round = ROUND.replace(ROUND.get() + 1) + 1;
    if round < 3 {
        set_at_end(data);
    } else {
        (0..3).for_each(|_| wait_until_sampled());
    }
}

fn set_at_end(data: *const c_void) {
    let new_key = || {
        let mut key = 0;
        // SAFETY: a live variable, which receives the key.
        assert_eq!(unsafe { libc::pthread_key_create(&raw mut key, Some(compute_at_end)) }, 0);
        key
    };
    // SAFETY: the key was created.
    assert_eq!(unsafe { libc::pthread_setspecific(*END_KEY.get_or_init(new_key), data) }, 0);
}

#[test]
fn a_thread_that_is_ending_keeps_its_ring() {
    if passed_alone() {
        return;
    }
    let worker = || {
        wait_until_sampled();
        again(1);
        set_at_end(ptr::dangling());
    };
    let work = || {
        let thread = thread::Builder::new().name("ending".into()).spawn(worker);
        thread.expect("started").join().expect("no panic");
    };
    let Some(taken) = sampled(Sampling::new().frequency(3_023).timestamps(true), work) else { return };
    let threads = &taken.samples().threads;
    let its = threads.iter().filter(|thread| thread.name.as_deref() == Some("ending"));
    assert_eq!(its.count(), 1, "{threads:?}");
}

#[perfmark(time)]
#[inline(never)]
fn faulting(pages: usize) {
    spin_three(800_000);
    faults(pages);
}

#[test]
fn several_events_have_their_own_samples() {
    if passed_alone() {
        return;
    }
    let sampling = Sampling::new().frequency(3_001).and("page_faults").period(7).stacks(Stacks::Off);
    let work = || {
        wait_until_sampled();
        (0..10).for_each(|_| faulting(300));
    };
    let Some(sampled) = sampled(sampling, work) else { return };
    let taken: Vec<_> = sampled.0.samples.iter().filter(|samples| samples.taken() > 0).collect();
    let [time, faults] = taken[..] else { panic!("{taken:?}") };
    assert_eq!((time.frequency, faults.period), (Some(3_001), Some(7)));
    assert!(faults.event.starts_with("page-faults"), "{}", faults.event);
    let mark = Some(sampled.mark("faulting"));
    let lost = time.lost + faults.lost;
    println!("{} and {} samples, {lost} lost", time.of_mark(mark), faults.of_mark(mark));
    // The first period has a random length. Where it ends, one sample may count for none, or for two.
    assert!(time.of_mark(mark) > 0 && faults.of_mark(mark) + lost + 1 >= 10 * 300 / 7);
}

/// Puts the limit of descriptors back when dropped.
struct Limited(libc::rlimit);

impl Limited {
    /// Lets the process open so many more descriptors.
    fn to(left: u64) -> Self {
        let lowest = File::open("/dev/null").expect("opened").as_raw_fd();
        let mut before = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: the limits of this process.
        unsafe {
            libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut before);
            let rlim_cur = left + u64::from(lowest.unsigned_abs());
            libc::setrlimit(libc::RLIMIT_NOFILE, &libc::rlimit { rlim_cur, ..before });
        }
        Self(before)
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        // SAFETY: the limits of this process.
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const self.0) };
    }
}

#[test]
fn a_start_that_failed_can_be_repeated() {
    if passed_alone() {
        return;
    }
    if sampled(Sampling::new().frequency(3_001), || again(1)).is_none() {
        return;
    }
    let sampling = || Sampling::new().frequency(3_019);
    // It needs one for the event, and two for a pipe.
    for left in [0, 1] {
        let limited = Limited::to(left);
        let failed = sampling().start();
        drop(limited);
        let why = failed.expect_err("no descriptor is left");
        println!("{left}: {why}");
        assert!(why.to_string().contains("RLIMIT_NOFILE"));
    }
    let work = || {
        wait_until_sampled();
        again(900_000);
    };
    let sampled = sampled(sampling(), work).expect("as before");
    assert!(sampled.in_loops(Some("again"))[1] > 0);
}

#[test]
fn samplings_that_follow_one_another_leave_neither_threads_nor_descriptors() {
    if passed_alone() {
        return;
    }
    let descriptors = || fs::read_dir("/proc/self/fd").expect("listed").count();
    // Waits until no thread of a sampling is left.
    let sample = || sampled(Sampling::new().frequency(3_001), || again(1));
    if sample().is_none() {
        return;
    }
    let before = descriptors();
    (0..200).for_each(|_| drop(sample().expect("as before")));
    let after = descriptors();
    println!("{before} and {after} descriptors");
    // Other threads of the program may have rings since.
    assert!(after <= before + 16);
}

#[test]
fn a_forked_child_says_that_it_is_not_sampled_and_can_be_sampled() {
    if passed_alone() {
        return;
    }
    let taken = || perfmark::snapshot().samples.iter().map(Samples::taken).sum::<u64>();
    let is_noted =
        || perfmark::snapshot().notes.iter().any(|note| note.contains("forked from another, and is not sampled"));
    let child = || {
        again(100_000);
        let (before, was_noted) = (taken(), is_noted());
        let in_mark = sampled(Sampling::new().frequency(3_001), || {
            wait_until_sampled();
            again(900_000);
        });
        let in_mark = in_mark.map(|sampled| sampled.in_loops(Some("again"))[1] > 0);
        before == 0 && was_noted && in_mark == Some(true) && !is_noted()
    };
    sampled(Sampling::new().frequency(3_001), || {
        wait_until_sampled();
        assert!(in_child(fork, child));
    });
}

#[test]
fn threads_for_which_no_descriptor_is_left_are_reported_with_the_remedy() {
    if passed_alone() {
        return;
    }
    let without = || perfmark::snapshot().samples.iter().map(|samples| samples.threads_without).sum::<u64>();
    let before = without();
    let until_refused = || {
        while without() == before {
            again(1);
        }
    };
    let work = || {
        wait_until_sampled();
        let limited = Limited::to(0);
        thread::scope(|scope| scope.spawn(until_refused).join().expect("no panic"));
        drop(limited);
    };
    // With settings of its own, which no other thread was refused for.
    let Some(sampled) = sampled(Sampling::new().frequency(2_999), work) else { return };
    let report = Report::new(&sampled.0).to_string().replace(['\n', ' '], "");
    assert!(report.contains("couldnotbesampled") && report.contains("`ulimit-n`"), "{report}");
}
