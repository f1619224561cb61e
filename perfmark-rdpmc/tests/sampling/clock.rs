//! Samples of the CPU's clock by a user without permissions.

use perfmark_rdpmc::clock::ticks;
use perfmark_rdpmc::sample::{Body, Clock, Content, Mode, Ring, Sampler};
use perfmark_rdpmc::{Attr, Software, known_loop};

use super::faults::{faults, touch};
use super::process::{now, switches};
use super::{for_each_record, for_each_sample, gettid, open};

const PERIOD: u64 = 1_000_000;

/// The number of new samples, each of this thread in user mode.
fn drained(ring: &Ring) -> u64 {
    let mut samples = 0;
    for_each_record(ring, |record| match record.body {
        Body::Sample(sample) => {
            let thread = record.origin.thread.expect("requested");
            assert_eq!((thread.pid, thread.tid), (std::process::id(), gettid()));
            assert_eq!((record.mode, sample.period), (Mode::User, Some(PERIOD)));
            samples += 1;
        }
        Body::Throttle(_) | Body::Unthrottle(_) => {}
        other => panic!("{other:?}"),
    });
    samples
}

/// The kernel samples at the ticks of a timer that runs while the thread is on a CPU (`perf_swevent_hrtimer` in
/// `kernel/events/core.c`, linux 6.18). How many there are depends on the machine: a tick in kernel mode is no sample,
/// and a late tick replaces those after it. There is never more than one for each period, except after a
/// switch, which does not wait for the rest of a period whose tick is late.
pub(super) fn a_millisecond() {
    const SAMPLES: u64 = 100;
    let content = Content::IP | Content::THREAD | Content::PERIOD;
    let ring = open(&Sampler::new(Attr::new(Software::TaskClock).disabled(true)).period(PERIOD).content(content));
    let (before, mut samples) = (switches(), 0);
    ring.enable().expect("allowed");
    while samples < SAMPLES {
        let _ = known_loop(400_000);
        samples += drained(&ring);
    }
    ring.disable().expect("allowed");
    samples += drained(&ring);
    let (count, switches) = (ring.count().expect("readable"), switches() - before);
    println!("{samples} samples, {switches} switches: {count:?}");
    // One more, because the timer and the count use different clocks.
    assert!(samples <= count.value / PERIOD + switches + 1, "{samples} samples, {switches} switches: {count:?}");
    assert_eq!(count.lost.unwrap_or(0), 0);
}

pub(super) fn the_times_of_samples_are_of_the_clock_that_was_chosen() {
    for (clock, id) in [
        (Clock::Realtime, libc::CLOCK_REALTIME),
        (Clock::Monotonic, libc::CLOCK_MONOTONIC),
        (Clock::MonotonicRaw, libc::CLOCK_MONOTONIC_RAW),
        (Clock::Boottime, libc::CLOCK_BOOTTIME),
        (Clock::Tai, libc::CLOCK_TAI),
    ] {
        let ring = open(&faults().content(Content::TIME).clock(clock));
        let before = now(id);
        let touched = touch(1);
        let after = now(id);
        let mut found = false;
        for_each_sample(&ring, |sample, origin| {
            if sample.address == Some(touched[0]) {
                let time = origin.time.expect("requested");
                assert!((before..=after).contains(&time), "{clock:?}: {time}, not from {before} to {after}");
                found = true;
            }
        });
        assert!(found, "{clock:?}");
    }
}

pub(super) fn the_times_of_samples_are_between_the_ticks_around_them() {
    let ring = open(&faults().content(Content::TIME));
    let Some(clock) = ring.kernel_clock() else {
        return println!("skipped: this kernel's clock is not the tick counter (cap_user_time_zero is 0)");
    };
    for _ in 0..100 {
        let before = ticks();
        let touched = touch(1);
        let after = ticks();
        let mut times = Vec::new();
        for_each_sample(&ring, |sample, origin| {
            times.extend(origin.time.filter(|_| sample.address == Some(touched[0])));
        });
        let [time] = times[..] else { panic!("{times:?}") };
        // The kernel rounds down in two steps.
        assert!(
            clock.nanoseconds(before) <= time + 1 && time <= clock.nanoseconds(after) + 1,
            "{before} {time} {after}"
        );
        assert!(before <= clock.ticks(time) + 1 && clock.ticks(time) <= after + 1, "{before} {time} {after}");
    }
}
