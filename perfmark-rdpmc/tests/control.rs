//! Starting, stopping and resetting counters, and requests for other kinds of event.

#[cfg(target_os = "linux")]
mod samples;
mod support;

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use perfmark_rdpmc::{
    Access, Attr, Breakpoint, Counter, Delta, Error, Hardware, Region, Software, disable_all_of_thread,
    enable_all_of_thread, known_loop,
};
use support::{named, open_if_supported as open, trial};

fn main() {
    support::run(
        vec![
            trial("a_stopped_counter_does_not_count", || does_not_count(&Attr::new(Software::TaskClock))),
            trial("a_region_with_a_reset_inside_is_unmeasured", || reset_inside(&Attr::new(Software::TaskClock))),
            trial("all_of_a_thread_can_be_stopped", || all_of_a_thread(&Attr::new(Software::TaskClock))),
            trial("requests_for_sampling_events_are_refused_with_the_reason", requests_for_sampling_events),
            named(a_breakpoint_can_be_moved_to_another_variable),
            named(every_event_has_its_own_id),
            #[cfg(target_os = "linux")]
            trial("the_output_of_samples_can_be_paused", samples::paused),
            #[cfg(target_os = "linux")]
            trial("a_request_that_does_not_suit_a_sampling_event_says_so", samples::not_suited),
            #[cfg(target_os = "linux")]
            trial("the_sample_period_can_be_changed", samples::period_changed),
            #[cfg(target_os = "linux")]
            trial("a_stopped_event_can_take_a_few_more_samples", samples::a_few_more),
        ],
        &[
            ("a_stopped_hardware_counter_does_not_count", || does_not_count(&Attr::new(Hardware::Instructions))),
            ("a_region_with_a_reset_of_a_hardware_counter_is_unmeasured", || {
                reset_inside(&Attr::new(Hardware::Instructions));
            }),
            ("all_hardware_counters_of_a_thread_can_be_stopped", || {
                all_of_a_thread(&Attr::new(Hardware::Instructions));
            }),
        ],
    );
}

fn value(counter: &Counter) -> u64 {
    counter.read().expect("readable").value
}

fn does_not_count(attr: &Attr) {
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
    // Long enough for the value to exceed the one before the reset.
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
    static VARIABLE: AtomicU64 = AtomicU64::new(0);
    let attr = Attr::new(Software::TaskClock);
    let Some(mut counter) = open(&attr) else { return };
    let breakpoint = Attr::new(Breakpoint::on(&VARIABLE, Access::Write).expect("8 bytes"));
    let refused = [
        ("PERIOD", counter.set_period(1_000)),
        ("REFRESH", counter.refresh(1)),
        ("PAUSE_OUTPUT", counter.pause_output(true)),
    ];
    for (request, refused) in refused {
        let error: Error = refused.expect_err("it does not sample");
        println!("{error}");
        let errno = error.errno_name().expect("the kernel was asked");
        assert!(["EINVAL", "EOPNOTSUPP"].contains(&errno), "{error}");
        let expected = format!(
            "task-clock:u: ioctl({request}) failed with {errno}: the request is for events that sample, and this one \
             takes no samples"
        );
        assert_eq!(error.to_string(), expected);
    }
    let error = counter.refresh(0).expect_err("no limit");
    assert!(error.reason().contains("without a limit if asked for 0 more samples"), "{error}");
    let error = counter.set_output(None).expect_err("it has no samples");
    assert_eq!(error.reason(), "the request is for events that sample, and this one takes no samples");
    let error = counter.modify_attributes(&breakpoint).expect_err("it is not a breakpoint");
    assert_eq!(
        error.reason(),
        "it is not a breakpoint, and only breakpoints can be changed, whether they count or sample"
    );
    assert!(value(&counter) > 0, "and still counts");
}

fn a_breakpoint_can_be_moved_to_another_variable() {
    static VARIABLES: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];
    let on = |n: usize| Attr::new(Breakpoint::on(&VARIABLES[n], Access::Write).expect("8 bytes"));
    let mut counter = match Counter::open(&on(0)) {
        Ok(counter) => counter,
        Err(error) => return println!("skipped: {error}"),
    };
    let written = |counter: &Counter, n: usize, times: u64| {
        let before = value(counter);
        (0..times).for_each(|i| VARIABLES[n].store(std::hint::black_box(i), Relaxed));
        value(counter) - before
    };
    assert_eq!([written(&counter, 0, 7), written(&counter, 1, 9)], [7, 0]);
    counter.modify_attributes(&on(1)).expect("allowed");
    assert_eq!([written(&counter, 0, 1_000), written(&counter, 1, 1_000)], [0, 1_000]);
    let kernels = Breakpoint::at(0xffff_ffff_8100_0000, 8, Access::Write).expect("8 bytes");
    for (attr, why) in [
        (Attr::new(Software::TaskClock), "a breakpoint can only be changed to another breakpoint"),
        (on(0).kernel(true), "this changes its modes or fields"),
        (Attr::new(kernels), "the address is a kernel address"),
    ] {
        let error = counter.modify_attributes(&attr).expect_err("not possible");
        assert!(error.reason().contains(why), "{error}");
        assert_eq!(counter.event(), on(1).event(), "it is unchanged");
    }
    assert_eq!([written(&counter, 0, 5), written(&counter, 1, 3)], [0, 3], "and still counts the same variable");
}

fn every_event_has_its_own_id() {
    let (Some(one), Some(two)) = (open(&Attr::new(Software::TaskClock)), open(&Attr::new(Software::TaskClock))) else {
        return;
    };
    assert_ne!(one.id().expect("known"), two.id().expect("known"));
}
