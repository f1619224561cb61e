//! What marks are told while the program runs.
#![cfg(feature = "record")]

mod alone;

use std::hint::black_box;
use std::pin::pin;
use std::sync::MutexGuard;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, Waker};
use std::{future, thread};

use perfmark::{Filter, Mark, perfmark, set_filter, snapshot};

/// One test at a time, with no filter in force.
fn alone() -> MutexGuard<'static, ()> {
    let alone = alone::alone();
    set_filter(&Filter::default()).expect("slots for settings");
    alone
}

fn told(filter: &str) {
    set_filter(&filter.parse().expect("a filter")).expect("slots for settings");
    assert_eq!(perfmark::filter().to_string(), filter);
}

fn figures(name: &str) -> Mark {
    snapshot().marks.into_iter().find(|mark| mark.name == name).expect("it is known")
}

/// Of an event of the mark: measured calls, and unmeasured ones.
fn measured(name: &str, event: &str) -> Option<(u64, u64)> {
    let values = figures(name).values.into_iter().find(|values| values.event == event)?;
    Some((values.measured, values.unmeasured))
}

#[perfmark(time)]
fn turned_off() {}

#[test]
fn a_mark_that_is_off_counts_nothing_and_goes_on_when_it_is_on() {
    let _alone = alone();
    turned_off();
    told("settings::turned_off=off");
    turned_off();
    assert_eq!((figures("turned_off").calls, figures("turned_off").on), (1, false));
    // Another thread's first call of it.
    thread::spawn(turned_off).join().expect("no panic");
    told("off");
    turned_off();
    assert_eq!(figures("turned_off").calls, 1);
    set_filter(&Filter::default()).expect("slots for settings");
    turned_off();
    assert_eq!((figures("turned_off").calls, figures("turned_off").on), (2, true));
    assert_eq!(measured("turned_off", "time"), Some((2, 0)));
}

#[perfmark(time)]
fn selected() {}

#[perfmark(time)]
fn not_selected() {}

#[test]
fn who_names_a_mark_hears_of_no_other() {
    let _alone = alone();
    told("*::selected=on");
    selected();
    not_selected();
    assert_eq!((figures("selected").calls, figures("not_selected").calls), (1, 0));
    let told = snapshot().notes;
    assert!(!told.iter().any(|note| note.contains("matches no mark")), "{told:?}");
    set_filter(&"selectd=on".parse().expect("a filter")).expect("slots for settings");
    assert!(snapshot().notes.iter().any(|note| note.contains("the filter's `selectd` matches no mark")));
}

#[perfmark(time)]
fn turns_itself_off() {
    told("off");
    turned_off_inside();
}

#[perfmark(time)]
fn turned_off_inside() {}

#[test]
fn a_call_that_goes_on_ends_as_it_began() {
    let _alone = alone();
    turns_itself_off();
    let mark = figures("turns_itself_off");
    assert_eq!((mark.calls, mark.in_flight, figures("turned_off_inside").calls), (1, 0, 0));
    assert_eq!(measured("turns_itself_off", "time"), Some((1, 0)));
}

#[perfmark(time, every = 2)]
fn told_how_often() {}

#[test]
fn one_call_in_so_many_is_measured_as_the_filter_has_it() {
    let _alone = alone();
    let call = |times: u32| (0..times).for_each(|_| told_how_often());
    call(10);
    told("*::told_how_often=every:5");
    call(10);
    assert_eq!(figures("told_how_often").every, 5);
    told("*::told_how_often=every:1");
    call(10);
    set_filter(&Filter::default()).expect("slots for settings");
    call(10);
    let mark = figures("told_how_often");
    assert_eq!((mark.calls, mark.skipped, mark.every), (40, 5 + 8 + 5, 2));
    assert_eq!(measured("told_how_often", "time"), Some((22, 0)));
}

#[perfmark(time)]
fn told_what() {
    black_box(());
}

#[test]
fn events_are_as_the_filter_has_them_and_what_was_recorded_before_stays() {
    let _alone = alone();
    told_what();
    told("*::told_what=page-faults");
    told_what();
    told_what();
    told("*::told_what=page-faults+time");
    told_what();
    set_filter(&Filter::default()).expect("slots for settings");
    told_what();
    let mark = figures("told_what");
    assert_eq!(mark.calls, 5);
    // Unmeasured are only those that should have been measured. Where page faults cannot be counted, time stands in.
    let expected = match measured("told_what", "page-faults") {
        Some(faults) => {
            assert_eq!(faults, (3, 0));
            (3, 0)
        }
        None => (5, 0),
    };
    assert_eq!(measured("told_what", "time"), Some(expected));
}

#[perfmark(time)]
fn called_by_two() {}

#[perfmark(time)]
fn switched_under_two() {}

#[test]
fn no_call_is_lost_or_invented_while_settings_change_under_two_threads() {
    const CALLS: u64 = 20_000;
    let _alone = alone();
    let done = AtomicBool::new(false);
    let filters = [
        "",
        "*::called_by_two=every:3",
        "*::called_by_two=page-faults",
        "*::called_by_two=time+every:7,*::switched_under_two=off",
        "*::switched_under_two=every:2",
    ];
    let filters = filters.map(|filter| filter.parse::<Filter>().expect("a filter"));
    thread::scope(|scope| {
        scope.spawn(|| {
            for filter in filters.iter().cycle().take_while(|_| !done.load(Relaxed)) {
                set_filter(filter).expect("slots for settings");
                _ = snapshot();
            }
        });
        let callers = [(); 2].map(|()| {
            scope.spawn(|| {
                for _ in 0..CALLS {
                    called_by_two();
                    switched_under_two();
                }
            })
        });
        for caller in callers {
            caller.join().expect("no panic");
        }
        done.store(true, Relaxed);
    });
    let (told, switched) = (figures("called_by_two"), figures("switched_under_two"));
    assert_eq!((told.calls, told.in_flight, told.unwound, told.interrupted), (2 * CALLS, 0, 0, 0));
    assert!(switched.calls <= 2 * CALLS && switched.in_flight == 0, "{switched:?}");
    for values in told.values.iter().chain(&switched.values) {
        assert_eq!(values.unmeasured, 0, "{}", values.event);
        assert_eq!(values.buckets.iter().map(|bucket| bucket.2).sum::<u64>(), values.weight);
    }
    let measured: u64 = switched.values.iter().map(|values| values.measured).sum();
    assert_eq!(measured + switched.skipped, switched.calls);
}

#[perfmark(time)]
async fn told_while_it_waits() {
    let mut waits = 4;
    future::poll_fn(move |_| {
        waits -= 1;
        if waits == 0 { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

#[test]
fn an_async_call_is_told_between_its_polls() {
    let _alone = alone();
    for filters in [["off", ""], ["*=every:2", "*=page-faults"], ["", "off"], ["off", "off"]] {
        set_filter(&Filter::default()).expect("slots for settings");
        let before = figures("told_while_it_waits").calls;
        let mut call = pin!(told_while_it_waits());
        let mut context = Context::from_waker(Waker::noop());
        for filter in ["", filters[0], filters[1]] {
            told(filter);
            assert!(call.as_mut().poll(&mut context).is_pending());
        }
        assert!(call.as_mut().poll(&mut context).is_ready());
        let mark = figures("told_while_it_waits");
        assert_eq!((mark.calls, mark.in_flight), (before + 1, 0), "{filters:?}");
    }
}

fn generic<T: Default>() -> T {
    #[perfmark(time, generic)]
    fn by_type<T: Default>() -> T {
        T::default()
    }
    by_type()
}

#[test]
fn the_types_of_a_generic_function_are_told_apart() {
    let _alone = alone();
    told("*::by_type<u8>=on");
    (0..3).for_each(|_| _ = (generic::<u8>(), generic::<u16>()));
    assert_eq!(figures("by_type<u8>").calls, 3);
    set_filter(&Filter::default()).expect("slots for settings");
    (0..3).for_each(|_| _ = (generic::<u8>(), generic::<u16>()));
    assert_eq!((figures("by_type<u8>").calls, figures("by_type<u16>").calls), (6, 3));
}
