//! Tests of all formats, and the snapshots that tests of the report share.

pub(super) mod sample;
mod names;
mod tables;

use super::*;
use crate::snapshot::{Event, Mark, Read, Unit, Values};

fn text(snapshot: &Snapshot, format: Format, view: View) -> String {
    Report { view, ..Report::new(snapshot).format(format) }.to_string()
}

#[test]
fn every_listed_format_is_known_in_every_build() {
    for name in Format::NAMES {
        match Format::from_name(name) {
            Ok(format) => assert!(text(&sample::typical(), format, View::new(100)).ends_with('\n')),
            Err(why) => assert!(why.contains("enable its feature"), "{name}: {why}"),
        }
    }
}

/// A budget skips calls of most marks.
#[test]
fn lists_of_marks_do_not_repeat_that_calls_were_skipped() {
    let marks = ["peek", "discard"].map(|name| {
        let values = vec![sample::values("time", 4, 9)];
        Mark { budget_percent: Some(2.0), skipped: 60, values, ..sample::mark(name, 64) }
    });
    let snapshot = sample::snapshot(&[sample::event("time", Unit::Ns, Read::Ticks)], &marks);
    for format in Format::NAMES.iter().filter_map(|name| Format::from_name(name).ok()) {
        let report = text(&snapshot, format, View::new(100));
        assert!(!report.contains("skipped (budget)"), "{report}");
    }
}

#[test]
fn every_format_is_the_same_each_time_and_has_no_invisible_character_whatever_the_snapshot_holds() {
    for name in Format::NAMES {
        let Ok(format) = Format::from_name(name) else { continue };
        for snapshot in sample::nasty() {
            let has_color = format != Format::Table;
            let colored = View { has_color, ..View::new(100) };
            let [one, again] = [View::new(100), colored].map(|view| text(&snapshot, format, view));
            assert_eq!(one, again, "{format:?}: and only a table has colours");
            // JSON, which a page holds, too, has the text as it is.
            if !["json", "html"].contains(&name) {
                assert!(!one.contains(['\u{1b}', '\u{200b}', '\u{200d}', '\u{202e}']), "{format:?}: {one:?}");
            }
        }
    }
}

#[cfg(feature = "html")]
#[test]
fn a_filter_of_marks_applies_to_runs_that_are_added_before_and_after_it() {
    let all = sample::snapshot(&[], &[sample::mark("parse", 1), sample::mark("secret", 1)]);
    let filter = Filter::default().off("*").on("*::parse");
    let report = || Report::new(&all).format(Format::Html);
    for page in [report().run("Monday", &all).marks(&filter), report().marks(&filter).run("Monday", &all)] {
        let page = page.to_string();
        assert!(page.contains("wordcount::parse") && !page.contains("secret"));
    }
}

/// If each event were searched for among all, this would take minutes with `PERFMARK_TEST_FULL`.
#[test]
fn a_mark_of_very_many_events_is_rendered() {
    let mut one = sample::mark("one", 1);
    let mut events = Vec::new();
    let count = if std::env::var_os("PERFMARK_TEST_FULL").is_some() { 20_000 } else { 4_000 };
    for number in 0..count {
        let name = format!("r{number:x}");
        events
            .push(Event { reason: Some(format!("reason {number}")), ..sample::event(&name, Unit::Count, Read::User) });
        one.values.push(Values { unmeasured: number, ..sample::values(&name, 1, 1) });
    }
    let snapshot = sample::snapshot(&events, &[one]);
    for format in ["table", "markdown", "html"].into_iter().filter_map(|name| Format::from_name(name).ok()) {
        let view = View { details: Some(Filter::default()), ..View::new(100) };
        assert!(text(&snapshot, format, view).contains("rf9f"), "{format:?}");
    }
}

#[test]
fn an_unknown_format_is_reported_with_the_known_ones() {
    assert_eq!(
        Format::from_name("xml").unwrap_err(),
        "unknown format `xml`; expected one of table, json, csv, markdown, html, folded, svg, openmetrics"
    );
}
