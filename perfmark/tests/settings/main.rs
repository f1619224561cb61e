//! Settings of marks that change while the program runs.
#![cfg(feature = "record")]

#[path = "../alone/mod.rs"]
mod alone;
#[path = "../../../perfmark-rdpmc/tests/child/mod.rs"]
mod child;
#[path = "../executor/mod.rs"]
mod executor;
mod many;
mod sessions;

use std::hint::black_box;
use std::pin::pin;
use std::{future, thread};

use alone::passed_in_own_process;
use executor::{once, yield_now};
use perfmark::{Filter, Mark, perfmark, set_filter, snapshot};

fn apply(filter: &str) {
    set_filter(&filter.parse().expect("a filter")).expect("slots for settings");
    assert_eq!(perfmark::filter().to_string(), filter);
}

fn find_mark(name: &str) -> Mark {
    snapshot().marks.into_iter().find(|mark| mark.name == name).expect("it is known")
}

/// Calls of the mark that the event measured, and those that it did not.
fn measured(name: &str, event: &str) -> Option<(u64, u64)> {
    find_mark(name).event(event).map(|values| (values.measured, values.unmeasured))
}

#[perfmark(time)]
fn turned_off() {}

#[test]
fn a_mark_counts_nothing_while_it_is_off_and_continues_when_it_is_on() {
    if passed_in_own_process() {
        return;
    }
    turned_off();
    apply("settings::turned_off=off");
    turned_off();
    assert_eq!((find_mark("turned_off").calls, find_mark("turned_off").on), (1, false));
    // The first call on another thread.
    thread::spawn(turned_off).join().expect("no panic");
    apply("off");
    turned_off();
    assert_eq!(find_mark("turned_off").calls, 1);
    set_filter(&Filter::default()).expect("slots for settings");
    turned_off();
    assert_eq!((find_mark("turned_off").calls, find_mark("turned_off").on), (2, true));
    assert_eq!(measured("turned_off", "time"), Some((2, 0)));
}

#[perfmark(time)]
fn selected() {}

#[perfmark(time)]
fn not_selected() {}

#[test]
fn a_filter_that_turns_on_one_mark_turns_off_all_others() {
    if passed_in_own_process() {
        return;
    }
    apply("*::selected=on");
    selected();
    not_selected();
    assert_eq!((find_mark("selected").calls, find_mark("not_selected").calls), (1, 0));
    let notes = snapshot().notes;
    assert!(!notes.iter().any(|note| note.contains("matches no mark")), "{notes:?}");
    set_filter(&"selectd=on".parse().expect("a filter")).expect("slots for settings");
    assert!(
        snapshot()
            .notes
            .iter()
            .any(|note| note.contains("the filter's `selectd` matches no mark; did you mean `selected`?"))
    );
}

#[perfmark(time, every = 2)]
fn sampled_by_filter() {}

#[test]
fn the_filter_sets_the_share_of_measured_calls() {
    if passed_in_own_process() {
        return;
    }
    let call = |times: u32| (0..times).for_each(|_| sampled_by_filter());
    call(10);
    apply("*::sampled_by_filter=every:5");
    call(10);
    assert_eq!(find_mark("sampled_by_filter").every, 5);
    apply("*::sampled_by_filter=every:1");
    call(10);
    set_filter(&Filter::default()).expect("slots for settings");
    call(10);
    let mark = find_mark("sampled_by_filter");
    assert_eq!((mark.calls, mark.skipped, mark.every), (40, 5 + 8 + 5, 2));
    assert_eq!(measured("sampled_by_filter", "time"), Some((22, 0)));
}

#[perfmark(time)]
fn events_by_filter() {
    black_box(());
}

#[test]
fn the_filter_sets_the_events_and_earlier_values_are_kept() {
    if passed_in_own_process() {
        return;
    }
    events_by_filter();
    apply("*::events_by_filter=page-faults");
    events_by_filter();
    events_by_filter();
    apply("*::events_by_filter=page-faults+time");
    events_by_filter();
    set_filter(&Filter::default()).expect("slots for settings");
    events_by_filter();
    let mark = find_mark("events_by_filter");
    assert_eq!(mark.calls, 5);
    // Only calls that should have been measured count as unmeasured. Where page faults cannot be counted, time replaces
    // them.
    let expected = match measured("events_by_filter", "page-faults") {
        Some(faults) => {
            assert_eq!(faults, (3, 0));
            (3, 0)
        }
        None => (5, 0),
    };
    assert_eq!(measured("events_by_filter", "time"), Some(expected));
}

#[perfmark(time)]
async fn set_while_waiting() {
    for _ in 0..3 {
        yield_now().await;
    }
}

#[test]
fn settings_may_change_between_the_polls_of_an_async_call() {
    if passed_in_own_process() {
        return;
    }
    for filters in [["off", ""], ["*=every:2", "*=page-faults"], ["", "off"], ["off", "off"]] {
        set_filter(&Filter::default()).expect("slots for settings");
        let before = find_mark("set_while_waiting").calls;
        let mut call = pin!(set_while_waiting());
        for filter in ["", filters[0], filters[1]] {
            apply(filter);
            assert!(once(call.as_mut()).is_pending());
        }
        assert!(once(call.as_mut()).is_ready());
        let mark = find_mark("set_while_waiting");
        assert_eq!((mark.calls, mark.in_flight), (before + 1, 0), "{filters:?}");
    }
}

/// Its first poll spins, so that it takes time.
#[perfmark(time, task_clock)]
async fn dropped_after_a_change(waits: bool) {
    (0..1_000).for_each(|n| _ = black_box(n));
    if waits {
        future::pending::<()>().await;
    }
}

fn has_task_clock() -> bool {
    perfmark::measure(&["task-clock"], || ()).is_ok()
}

#[test]
fn a_dropped_call_keeps_its_cost_whatever_settings_its_mark_has_had_since() {
    if passed_in_own_process() {
        return;
    }
    for settings in ["", "=every:1000", "", "=page-faults", "", "=time"] {
        apply("");
        let before = snapshot();
        let mut call = Box::pin(dropped_after_a_change(true));
        assert!(once(call.as_mut()).is_pending());
        apply(&if settings.is_empty() { String::new() } else { format!("settings::dropped_after_a_change{settings}") });
        assert!(once(pin!(dropped_after_a_change(false))).is_ready());
        drop(call);
        let mark = snapshot().since(&before).marks.into_iter().find(|mark| mark.name == "dropped_after_a_change");
        let mark = mark.expect("it was called");
        assert_eq!(mark.cancelled, 1, "{settings}");
        for event in ["time", "task-clock"] {
            let values = mark.event(event);
            // Counters may not be available here.
            let has_it = values.is_some_and(|values| values.unwound_total > 0);
            assert!(has_it || event != "time" && !has_task_clock(), "{settings}: {event}: {values:?}");
        }
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
fn the_filter_distinguishes_the_types_of_a_generic_function() {
    if passed_in_own_process() {
        return;
    }
    apply("*::by_type<u8>=on");
    (0..3).for_each(|_| _ = (generic::<u8>(), generic::<u16>()));
    assert_eq!(find_mark("by_type<u8>").calls, 3);
    set_filter(&Filter::default()).expect("slots for settings");
    (0..3).for_each(|_| _ = (generic::<u8>(), generic::<u16>()));
    assert_eq!((find_mark("by_type<u8>").calls, find_mark("by_type<u16>").calls), (6, 3));
}
