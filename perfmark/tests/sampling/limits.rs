//! What sampling must not do: lose samples in silence, or disturb system calls.
#![allow(unsafe_code, reason = "system calls that are not repeated")]

use std::fs::File;
use std::io::{PipeReader, Read, Write, pipe};
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, FromRawFd};
use std::{io, thread};

use perfmark::{Report, Sampling, Stacks, perfmark};
use perfmark_rdpmc::{Attr, Counter, Hardware};

use crate::loops::spin_seven;
use crate::memory::faults;
use crate::passed_alone;
use crate::sampled::{sampled, until_sampled};

#[test]
fn a_rate_that_cannot_be_kept_is_refused() {
    if passed_alone() {
        return;
    }
    let refused = |sampling: Sampling| sampling.start().err().map(|why| why.to_string());
    for sampling in [Sampling::new().frequency(0), Sampling::new().event("page_faults").period(0)] {
        assert!(refused(sampling).is_some_and(|why| why.starts_with("0 takes no samples; use ")));
    }
    // Without a PMU, this is a period of a clock.
    if refused(Sampling::new().event("cycles").period(1_000_003)).is_some() {
        let why = refused(Sampling::new().period(20_011)).expect("refused");
        assert!(why.contains("less than 50,000 ns apart; use `cpu-clock"), "{why}");
    }
}

#[test]
fn a_thread_whose_event_does_not_fit_the_pmu_is_reported_and_its_other_event_is_sampled() {
    if passed_alone() {
        return;
    }
    let pinned = Attr::new(Hardware::Cycles).pinned(true).wide(false);
    // More than a PMU has counters.
    let counters: Vec<_> = (0..64).map_while(|_| Counter::open(&pinned).ok()).collect();
    if counters.is_empty() {
        return println!("skipped: no PMU");
    }
    let sampling = Sampling::new().and("page_faults").period(1).stacks(Stacks::Off);
    let Some(sampled) = sampled(sampling, || until_sampled(|| fault(1))) else { return };
    drop(counters);
    let report = Report::new(&sampled.0).to_string().replace(['\n', ' '], "");
    assert!(report.contains("1threadcouldnotbesampled:cycles") && report.contains("inerrorstate"), "{report}");
}

#[perfmark(time)]
#[inline(never)]
fn fault(pages: usize) {
    faults(pages);
}

#[test]
fn samples_that_fit_in_a_ring_are_not_lost_however_late_it_is_read() {
    // Of 16 bytes each. A ring has at least a page.
    const PAGES: usize = 200;
    if passed_alone() {
        return;
    }
    let sampling = Sampling::new().event("page_faults").period(1).stacks(Stacks::Off);
    let work = || {
        until_sampled(|| fault(1));
        fault(PAGES);
    };
    let Some(sampled) = sampled(sampling, work) else { return };
    let found = sampled.samples();
    let in_mark = found.of_mark(Some(sampled.mark("fault")));
    println!("{} samples, {in_mark} in the mark, {} lost", found.taken(), found.lost);
    assert!(found.lost == 0 && in_mark > PAGES as u64);
}

#[test]
fn samples_for_which_a_ring_had_no_room_are_counted_and_flag_the_shares() {
    const PAGES: usize = 40_000;
    // A sample of each fault, faster than a ring can be read.
    if passed_alone() {
        return;
    }
    let sampling = Sampling::new().event("page_faults").period(1).stacks(Stacks::Bytes(8_192));
    let work = || {
        until_sampled(|| fault(1));
        fault(PAGES);
    };
    let Some(sampled) = sampled(sampling, work) else { return };
    let found = sampled.samples();
    println!("{} samples, {} lost", found.taken(), found.lost);
    assert!(found.taken() + found.lost >= PAGES as u64);
    assert!(found.is_biased());
    let report = Report::new(&sampled.0).to_string();
    assert!(report.contains(" samples were lost (") && report.contains('≈'), "{report}");
}

#[perfmark(time)]
fn left(path: u32, depth: u32, innermost: &dyn Fn()) {
    descend(path, depth - 1, innermost);
}

#[perfmark(time)]
fn right(path: u32, depth: u32, innermost: &dyn Fn()) {
    descend(path, depth - 1, innermost);
}

/// Calls one of two marks at each level, as the bits of `path` say.
fn descend(path: u32, depth: u32, innermost: &dyn Fn()) {
    match depth {
        0 => innermost(),
        _ if path >> (depth % 8) & 1 == 0 => left(path, depth, innermost),
        _ => right(path, depth, innermost),
    }
}

#[perfmark(time)]
fn early() {
    faults(1);
}

#[perfmark(time)]
fn late() {
    faults(1);
}

#[test]
fn samples_keep_their_mark_when_a_thread_has_too_many_paths() {
    const DEPTH: u32 = 1_000;
    if passed_alone() {
        return;
    }
    let sampling = Sampling::new().event("page_faults").period(1).stacks(Stacks::Off);
    let work = || {
        until_sampled(|| faults(1));
        (0..8).for_each(|path| descend(path, DEPTH, &early));
        (8..12).for_each(|path| descend(path, DEPTH, &late));
    };
    let Some(sampled) = sampled(sampling, work) else { return };
    let [in_early, in_late] = ["early", "late"].map(|mark| sampled.samples().of_mark(Some(sampled.mark(mark))));
    println!("{in_early} and {in_late} samples; notes: {:?}", sampled.0.notes);
    // The code of the marks causes faults, too, when it is first executed.
    assert!(in_early >= 8 && in_late >= 4);
    assert!(sampled.0.notes.iter().any(|note| note.contains("paths of marks")));
}

/// Reads a byte once: an error if a signal interrupts it.
#[perfmark(time)]
fn read_once(pipe: &PipeReader) -> io::Result<usize> {
    // SAFETY: the pipe is open, and the file does not close it.
    let mut file = ManuallyDrop::new(unsafe { File::from_raw_fd(pipe.as_raw_fd()) });
    file.read(&mut [0])
}

#[test]
fn blocking_system_calls_are_not_interrupted() {
    const CALLS: usize = 2_000;
    if passed_alone() {
        return;
    }
    let work = || {
        let (input, mut output) = pipe().expect("a pipe");
        thread::scope(|scope| {
            let thread = scope.spawn(move || {
                for _ in 0..CALLS {
                    spin_seven(900);
                    output.write_all(&[1]).expect("written");
                }
            });
            let interrupted = (0..CALLS).filter(|_| read_once(&input).is_err()).count();
            assert_eq!(interrupted, 0);
            thread.join().expect("no panic");
        });
    };
    sampled(Sampling::new().frequency(4_000), work);
}

#[perfmark(time)]
fn too_deep(pages: usize) {
    faults(pages);
}

#[test]
fn samples_in_calls_that_are_too_deep_belong_to_no_other_call() {
    const DEPTH: u32 = 1_500;
    const PAGES: usize = 1_000;
    if passed_alone() {
        return;
    }
    let sampling = Sampling::new().event("page_faults").period(1).stacks(Stacks::Off);
    let work = || {
        until_sampled(|| faults(1));
        // All of these are in one mark.
        descend(0, DEPTH, &|| too_deep(PAGES));
    };
    let Some(sampled) = sampled(sampling, work) else { return };
    let found = sampled.samples();
    let around = found.of_mark(Some(sampled.mark("left")));
    println!("{} samples in calls that are too deep, {around} in those around, {} lost", found.too_deep, found.lost);
    // The stack's own pages are new, too.
    assert!(around < PAGES as u64 / 2);
    assert!(found.too_deep + found.lost >= PAGES as u64);
}
