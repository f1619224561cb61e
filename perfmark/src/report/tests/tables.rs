//! The table at several widths, with names of any length and script, and values that are flagged or missing.

use super::sample::{self, flagged, mark, snapshot, values};
use crate::report::View;
use crate::report::table::render;
use crate::report::text::width;
use crate::settings::Filter;
use crate::snapshot::{Read, Snapshot, Unit};

#[test]
fn the_narrowest_report_shortens_long_names_and_keeps_the_most_important_columns() {
    assert_eq!(render(&flagged(), &View::new(80)), include_str!("tables/80_columns.txt"));
}

#[test]
fn a_report_of_200_columns_has_every_column_and_the_locations_of_marks() {
    let expected = include_str!("tables/200_columns.txt");
    assert_eq!(render(&flagged(), &View { details: Some(Filter::default()), ..View::new(200) }), expected);
}

/// One mark of that name, of one event.
fn named(name: &str) -> Snapshot {
    let mut one = mark(name, 2);
    one.values = vec![values("time", 2, 1_000)];
    snapshot(&[sample::event("time", Unit::Ns, Read::Ticks)], &[one])
}

fn heads(snapshot: &Snapshot, columns: usize) -> String {
    render(snapshot, &View::new(columns))
        .lines()
        .nth(2)
        .expect("heads")
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}

#[test]
fn a_wider_report_never_has_less() {
    for snapshot in [named("short"), named(&"long_".repeat(80)), flagged()] {
        let mut before: Vec<String> = Vec::new();
        for columns in 80..=240 {
            let heads = heads(&snapshot, columns).replace("by mark", "").replace("min to max", "spread");
            let heads = heads.replace("self ", "self_").replace("total sum", "total_sum");
            let now: Vec<String> = heads.split_whitespace().map(str::to_owned).collect();
            assert!(before.iter().all(|head| now.contains(head)), "{before:?}, and at {columns} {now:?}");
            before = now;
        }
    }
}

#[test]
fn names_are_complete_before_columns_that_only_wide_reports_have() {
    assert_eq!(heads(&named("short"), 80), "time by mark self total calls mean p99");
    assert_eq!(heads(&named("short"), 120), "time by mark self total total sum calls mean p50 p99 max");
    let all = "time by mark self total self sum total sum calls mean self mean min p50 p90 p99 p99.9 max min to max";
    assert_eq!(heads(&named("short"), 160), all);
    let long = named(&"a_long_name_".repeat(3));
    assert_eq!(heads(&long, 100), "time by mark self total calls mean p50 p99 max");
    for columns in [100, 160] {
        assert!(render(&long, &View::new(columns)).contains("a_long_name_a_long_name_a_long_name_ "), "{columns}");
    }
}

/// A coloured text without its colours.
fn bare(coloured: &str) -> String {
    let mut parts = coloured.split("\x1b[");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once('m').expect("a sequence ends").1)
}

#[test]
fn colours_change_no_character_of_the_table() {
    for snapshot in sample::nasty().iter().chain([&flagged(), &sample::typical(), &sample::time_only()]) {
        for columns in [80, 140, 200] {
            let view = View { details: Some(Filter::default()), ..View::new(columns) };
            let (plain, coloured) = (render(snapshot, &view), render(snapshot, &View { has_color: true, ..view }));
            assert!(!plain.contains('\u{1b}'), "{plain:?}");
            assert_eq!(bare(&coloured), plain);
            for line in coloured.lines() {
                let ends = line.matches("\u{1b}[0m").count();
                assert_eq!(line.matches('\u{1b}').count(), 2 * ends, "{line:?}");
            }
        }
    }
}

#[test]
fn headings_units_flags_and_missing_values_have_colours() {
    let details = Some(Filter::default());
    let report = render(&flagged(), &View { has_color: true, details, ..View::new(80) });
    for styled in [
        "\u{1b}[1mcycles by mark  ",
        "\u{1b}[1mdetails  ",
        "\u{1b}[1m次の要素\u{1b}[0m  ",
        "\u{1b}[33m≈9.70\u{1b}[0m \u{1b}[2mG",
        "\u{1b}[33m~20.0\u{1b}[0m \u{1b}[2mns\u{1b}[0m",
        " \u{1b}[31m–\u{1b}[0m ",
        "    \u{1b}[31mnothing measured: none of its events is available\u{1b}[0m\n",
        "    \u{1b}[2m51,286 calls skipped (every = 64)\u{1b}[0m\n",
        "\u{1b}[2mread from the processor's tick counter: time\u{1b}[0m\n",
    ] {
        assert!(report.contains(styled), "{styled:?} in {report:?}");
    }
    assert!(report.lines().all(|line| width(&bare(line)) <= 80));
}
