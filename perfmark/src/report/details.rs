//! The details of marks: each event with its distribution, and the calls that the values leave out.

use super::calls_and_ratios::CallsAndRatios;
use super::column::{CALLS, COLUMNS, Column, RowValues};
use super::grid::{Grid, Line};
use super::legend::Legend;
use super::view::View;
use super::{coverage, unfinished};
use crate::snapshot::Mark;
use crate::text::sanitize;

/// The marks whose details the view shows, in the order of their rows.
pub(super) fn chosen(legend: &Legend<'_>, view: &View) -> Vec<usize> {
    let marks = legend.groups.iter().flat_map(|group| &group.marks).copied();
    marks.filter(|&index| view.has_details(&legend.snapshot.marks[index])).collect()
}

/// A heading for each mark, with a row for each event; and whether a clock rate is shown. `None` without details.
pub(super) fn of_marks(legend: &Legend<'_>, view: &View) -> Option<(Grid, bool)> {
    let Legend { snapshot, shares, labels, .. } = legend;
    let marks = chosen(legend, view);
    let marks: Vec<_> = marks.into_iter().map(|index| (&snapshot.marks[index], labels[index].as_str())).collect();
    let calls_and_ratios = CallsAndRatios::new(marks.iter().copied(), view.width());
    let columns: Vec<Column> = columns().collect();
    let row = |label: String, row: &RowValues<'_>| Line::Row {
        label,
        cells: columns.iter().map(|column| (column.cell)(row)).collect(),
        is_measured: row.values.is_some(),
    };
    let mut lines = vec![Line::Head("details".to_owned())];
    for (number, &(mark, name)) in marks.iter().enumerate() {
        let shown = shares.shown(mark);
        lines.push(Line::Heading {
            label: name.to_owned(),
            locations: locations(mark),
            right: calls_and_ratios.of(number),
        });
        for values in &shown {
            let event = format!("  {}", sanitize(&values.event));
            lines.push(row(event.clone(), &RowValues::new(mark, Some(values), shares)));
            for (what, calls, values) in unfinished::rows(mark, values, shares) {
                let of_calls = RowValues::new(mark, Some(&values), shares).with_calls(calls);
                lines.push(row(format!("{event}{what}"), &of_calls));
            }
        }
        let note = |text| Line::Note { text, is_lacking: coverage::is_lacking(mark, &shown) };
        lines.extend(coverage::sentence(mark, &shown).map(note));
    }
    (lines.len() > 1).then(|| (Grid::new(columns, lines, view), calls_and_ratios.has_clock()))
}

/// The columns of details: sums are always shown, and calls are beside the marks' names.
pub(super) fn columns() -> impl Iterator<Item = Column> {
    let always = |column: Column| match column.head {
        "total sum" | "p50" => Column { from: 0, ..column },
        _ => column,
    };
    COLUMNS.into_iter().filter(|column| column.head != CALLS).map(always)
}

/// The mark's location: its path and its file, or its file alone.
fn locations(mark: &Mark) -> [String; 2] {
    let file = sanitize(&format!("{}:{}", mark.file, mark.line));
    [format!("{} · {file}", sanitize(&mark.path)), file]
}
