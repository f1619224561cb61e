//! Starting, stopping, resetting, and what is for other kinds of event.

mod support;

use perfmark_rdpmc::{
    Attr, Counter, Delta, Hardware, Region, Software, disable_all_of_thread, enable_all_of_thread, known_loop,
};
use support::trial;

fn main() {
    support::run(
        vec![
            trial("a_stopped_counter_stands_still", || stands_still(&Attr::new(Software::TaskClock))),
            trial("a_region_with_a_reset_inside_is_unmeasured", || reset_inside(&Attr::new(Software::TaskClock))),
            trial("all_of_a_thread_can_be_stopped", || all_of_a_thread(&Attr::new(Software::TaskClock))),
            trial("requests_for_sampling_events_are_refused_as_such", requests_for_sampling_events),
            trial("every_event_has_its_own_id", every_event_has_its_own_id),
        ],
        &[
            ("a_stopped_hardware_counter_stands_still", || stands_still(&Attr::new(Hardware::Instructions))),
            ("a_region_with_a_reset_of_a_hardware_counter_is_unmeasured", || {
                reset_inside(&Attr::new(Hardware::Instructions));
            }),
            ("all_hardware_counters_of_a_thread_can_be_stopped", || {
                all_of_a_thread(&Attr::new(Hardware::Instructions));
            }),
        ],
    );
}

/// None on a target without counters.
fn open(attr: &Attr) -> Option<Counter> {
    match Counter::open(attr) {
        Ok(counter) => Some(counter),
        Err(error) if error.is_unsupported() => None,
        Err(error) => panic!("{error}"),
    }
}

fn value(counter: &Counter) -> u64 {
    counter.read().expect("readable").value
}

fn stands_still(attr: &Attr) {
    let Some(counter) = open(&attr.clone().disabled(true)) else { return };
    let counts = || {
        let before = value(&counter);
        let _ = known_loop(100_000);
        value(&counter) > before
    };
    assert!(!counts(), "opened stopped");
    counter.enable().expect("allowed");
    assert!(counts());
    counter.disable().expect("allowed");
    assert!(!counts());
}

fn reset_inside(attr: &Attr) {
    let Some(counter) = open(attr) else { return };
    let _ = known_loop(10_000);
    let mut region = Region::default();
    counter.begin(&mut region);
    counter.reset().expect("allowed");
    // Long enough for the value to be beyond the one that it had.
    let _ = known_loop(10_000_000);
    assert_eq!(counter.end(&region), Delta::Unmeasured);
    counter.begin(&mut region);
    let _ = known_loop(1_000);
    assert!(matches!(counter.end(&region), Delta::Exact(1..)));
}

fn all_of_a_thread(attr: &Attr) {
    let Some(counter) = open(attr) else { return };
    disable_all_of_thread().expect("allowed");
    let before = value(&counter);
    let _ = known_loop(100_000);
    assert_eq!(value(&counter), before);
    enable_all_of_thread().expect("allowed");
    let _ = known_loop(100_000);
    assert!(value(&counter) > before);
}

fn requests_for_sampling_events() {
    let Some(mut counter) = open(&Attr::new(Software::TaskClock)) else { return };
    let other = Attr::new(Software::CpuClock);
    for refused in
        [counter.period(1_000), counter.refresh(1), counter.pause_output(true), counter.modify_attributes(&other)]
    {
        let error = refused.expect_err("it counts");
        assert!(error.errno_name().is_some() && error.reason().contains("ioctl("), "{error}");
        assert!(error.reason().contains("sample"), "{error}");
    }
    assert!(value(&counter) > 0, "and goes on counting");
}

fn every_event_has_its_own_id() {
    let (Some(one), Some(two)) = (open(&Attr::new(Software::TaskClock)), open(&Attr::new(Software::TaskClock))) else {
        return;
    };
    assert_ne!(one.id().expect("told"), two.id().expect("told"));
}
