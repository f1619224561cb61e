//! `defaults!` sets what the marks of a crate record where they do not say it themselves.

#![forbid(unsafe_code)]
#![deny(warnings, clippy::pedantic)]

use std::collections::BTreeMap;
use std::pin::pin;
use std::task::{Context, Waker};

use perfmark::perfmark;

mod settings {
    perfmark::defaults!(page_faults, time, every = 3);
}

#[perfmark]
fn bare() {}

mod deep {
    #[perfmark::perfmark(time)]
    pub(crate) fn its_own_events() {}

    #[perfmark::perfmark(every = 1)]
    pub(crate) fn its_own_share() {}

    #[perfmark::perfmark(time, every = 2)]
    pub(crate) mod marked {
        #[allow(clippy::unused_async, reason = "it has one poll")]
        pub(crate) async fn in_a_marked_module() {}
    }
}

#[test]
fn a_crates_defaults_apply_where_a_mark_sets_nothing() {
    for _ in 0..6 {
        bare();
        deep::its_own_events();
        deep::its_own_share();
        assert!(pin!(deep::marked::in_a_marked_module()).poll(&mut Context::from_waker(Waker::noop())).is_ready());
    }
    if !cfg!(feature = "record") {
        return;
    }
    let snapshot = perfmark::snapshot();
    let events = |mark: &perfmark::Mark| mark.values.iter().map(|values| values.event.clone()).collect::<Vec<_>>();
    let marks: BTreeMap<_, _> =
        snapshot.marks.iter().map(|mark| (&*mark.name, (mark.every, mark.calls, events(mark).join(",")))).collect();
    // Every kernel counts page-faults. Without perf_event_open, only time is recorded.
    let both = if cfg!(target_os = "linux") && !cfg!(perfmark_unsupported) { "page-faults,time" } else { "time" };
    let expected = [
        ("bare", (3, 6, both.to_owned())),
        // All calls of async functions are measured.
        ("in_a_marked_module", (1, 6, "time".to_owned())),
        ("its_own_events", (3, 6, "time".to_owned())),
        ("its_own_share", (1, 6, both.to_owned())),
    ];
    assert_eq!(marks, BTreeMap::from(expected));
    // Of the calls of both marks, one in three is measured.
    assert_eq!(snapshot.marks.iter().map(|mark| mark.skipped).sum::<u64>(), 8);
    assert_eq!(snapshot.notes.iter().filter(|note| note.contains("defaults!")).count(), 0, "{:?}", snapshot.notes);
}
