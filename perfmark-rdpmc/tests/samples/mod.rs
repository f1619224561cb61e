//! Counters that sample, and requests for them. Their samples go to a ring.

use std::os::fd::{AsFd as _, AsRawFd as _};
use std::ptr;

use perfmark_rdpmc::sample::{Body, Ring, Sampler};
use perfmark_rdpmc::{Attr, Counter, Software};

use crate::support::open_if_supported;

#[path = "../memory/mod.rs"]
mod memory;

/// The page faults of each test: few enough for the kernel not to throttle the samples.
const FAULTS: usize = 20;

/// A counter with a sample at every page fault. `None` on a target without counters.
fn faults(disabled: bool) -> Option<Counter> {
    open_if_supported(Sampler::new(Attr::new(Software::MinorFaults).disabled(disabled)).attr())
}

/// The ring that gets the counter's samples from now on.
fn ring_of(counter: &Counter) -> Ring {
    let ring = Sampler::dummy().open().expect("opens");
    counter.set_output(Some(&ring)).expect("allowed");
    // The first reading touches the ring's pages, whose faults are samples as well; the second one reads these.
    (0..2).for_each(|_| _ = samples_of_faults(&ring));
    ring
}

/// The number of samples that are taken while pages are touched.
fn samples_of_faults(ring: &Ring) -> usize {
    memory::faults(FAULTS);
    let (mut reader, mut samples) = (ring.reader().expect("readable"), 0);
    while let Some(record) = reader.read() {
        samples += usize::from(matches!(record.body, Body::Sample(_)));
    }
    samples
}

pub(super) fn paused() {
    let Some(counter) = faults(false) else { return };
    let ring = ring_of(&counter);
    for (pause, samples) in [(true, 0), (false, FAULTS), (true, 0), (false, FAULTS)] {
        counter.pause_output(pause).expect("allowed");
        assert_eq!(samples_of_faults(&ring), samples);
    }
    assert!(counter.read().expect("readable").value >= 4 * FAULTS as u64, "it still counts");
}

pub(super) fn not_suited() {
    let Some(counter) = faults(false) else { return };
    let (length, fd) = (memory::page_size(), counter.as_fd().as_raw_fd());
    // SAFETY: a new mapping at an address of the kernel's choice. It stays mapped.
    let page = unsafe { libc::mmap(ptr::null_mut(), length, libc::PROT_READ, libc::MAP_SHARED, fd, 0) };
    assert_ne!(page, libc::MAP_FAILED);
    let error = counter.set_output(None).expect_err("its page is mapped").to_string();
    assert!(error.contains("failed with EINVAL: the counter's page is mapped"), "{error}");
}

pub(super) fn period_changed() {
    let Some(counter) = faults(false) else { return };
    let ring = ring_of(&counter);
    assert_eq!(samples_of_faults(&ring), FAULTS);
    counter.set_period(5).expect("allowed");
    // The kernel completes the old period first (`perf_swevent_set_period`).
    let _ = samples_of_faults(&ring);
    assert_eq!(samples_of_faults(&ring), FAULTS / 5);
}

pub(super) fn a_few_more() {
    let Some(counter) = faults(true) else { return };
    let ring = ring_of(&counter);
    assert_eq!(samples_of_faults(&ring), 0, "opened stopped");
    for _ in 0..2 {
        counter.refresh(3).expect("allowed");
        assert_eq!(samples_of_faults(&ring), 3, "stopped after three");
    }
}
