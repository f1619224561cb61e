//! Samples of the CPU's clock by a user without permissions, and what a ring that is full loses.

use perfmark_rdpmc::sample::{Body, Content, Ring, Sampler};
use perfmark_rdpmc::{Attr, Software, known_loop};

use super::open;

/// Executes user code for that many nanoseconds of CPU time, and hardly ever enters the kernel, where nothing is
/// sampled.
fn compute(nanoseconds: u64) {
    let now = || {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: live memory.
        assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) }, 0);
        u64::try_from(time.tv_sec * 1_000_000_000 + time.tv_nsec).expect("positive")
    };
    let end = now() + nanoseconds;
    while now() < end {
        let _ = known_loop(400_000);
    }
}

/// Samples, and records that were lost.
fn drained(ring: &Ring) -> (u64, u64) {
    let mut reader = ring.reader().unwrap_or_else(|error| panic!("{error}"));
    let (mut samples, mut all_lost) = (0, 0);
    while let Some(record) = reader.read() {
        match record.body {
            Body::Sample(_) => samples += 1,
            Body::Lost { lost, .. } => all_lost += lost,
            Body::Throttle(_) | Body::Unthrottle(_) => {}
            other => panic!("{other:?}"),
        }
    }
    (samples, all_lost)
}

pub(super) fn a_millisecond() {
    /// A tick that the hypervisor delays takes the place of those after it.
    const TRIES: usize = 10;
    let every = Sampler::new(Attr::new(Software::TaskClock).disabled(true)).period(1_000_000).content(Content::IP);
    let is_right = (0..TRIES).any(|_| {
        let ring = open(&every);
        ring.enable().unwrap_or_else(|error| panic!("{error}"));
        compute(300_000_000);
        ring.disable().unwrap_or_else(|error| panic!("{error}"));
        let (samples, lost) = drained(&ring);
        let count = ring.count().unwrap_or_else(|error| panic!("{error}"));
        println!("{samples} samples, {lost} lost: {count:?}");
        assert_eq!((lost, count.lost.unwrap_or(0)), (0, 0));
        (295..=305).contains(&samples)
    });
    assert!(is_right, "not 300 samples in any of {TRIES} times 300 ms");
}

pub(super) fn a_stalled_reader() {
    const MORE: u32 = 10;
    let every = Sampler::new(Attr::new(Software::TaskClock)).period(10_000).content(Content::IP).pages(1);
    let ring = open(&every);
    compute(100_000_000);
    ring.disable().unwrap_or_else(|error| panic!("{error}"));
    let (first, lost) = drained(&ring);
    assert_eq!((first, lost), (ring.bytes() as u64 / 16 - 1, 0), "the loss is reported once there is room");
    ring.refresh(MORE).unwrap_or_else(|error| panic!("{error}"));
    compute(10_000_000);
    let (samples, lost) = drained(&ring);
    let count = ring.count().unwrap_or_else(|error| panic!("{error}"));
    println!("{first} samples, {samples} more, {lost} lost: {count:?}");
    assert_eq!(samples, u64::from(MORE));
    match count.lost {
        Some(counted) => assert_eq!(lost, counted),
        None => println!("linux before 6.0 does not count lost records"),
    }
    assert!(lost > 1_000, "{lost}");
}
