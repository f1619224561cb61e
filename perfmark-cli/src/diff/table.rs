//! The comparison for people.

use std::fmt::Write as _;
use std::iter;

use unicode_width::UnicodeWidthStr;

use super::compare::{Comparison, Pair};
use super::gate::GateResult;
use super::rows::{self, HEADER, Row, files, remarks, summary};

pub(crate) fn render(comparison: &Comparison, gates: &[GateResult]) -> String {
    let [base, head] = &comparison.files;
    let mut out = format!("perfmark diff · {} → {} · {}\n", files(base), files(head), summary(comparison, gates));
    for failure in gates.iter().flat_map(|gate| &gate.failures) {
        _ = writeln!(out, "✗ {failure}");
    }
    for undecided in gates.iter().filter_map(|gate| gate.undecided.as_deref()) {
        _ = writeln!(out, "? {undecided}");
    }
    // `Err` is a row of one cell: a mark's name, or a line of source.
    let of_pair = |pair| of_pair(pair, comparison);
    let mut lines: Vec<Result<Row, String>> = comparison.changed().flat_map(of_pair).collect();
    let title = |what: &str, is_first: bool| Err(format!("{}{what}:", if is_first { "" } else { "\n" }));
    let (unchanged, count) = comparison.unchanged();
    if count > 0 {
        lines.push(title("no change found", lines.is_empty()));
    }
    lines.extend(unchanged.flat_map(of_pair));
    lines.extend(comparison.left_out().map(Err));
    let mut with_lines_only = comparison.with_lines_only().peekable();
    if with_lines_only.peek().is_some() {
        lines.push(title("only lines compared", lines.is_empty()));
    }
    lines.extend(with_lines_only.flat_map(of_pair));
    if !lines.is_empty() {
        out += "\n";
        grid(&mut out, &lines, &rows::columns(comparison));
    }
    let remarks = remarks(comparison, gates);
    if !remarks.is_empty() {
        out += "\n";
        for line in &remarks {
            _ = writeln!(out, "{line}");
        }
    }
    out
}

/// A mark, its events, and its lines of source that changed.
fn of_pair(pair: &Pair, comparison: &Comparison) -> impl Iterator<Item = Result<Row, String>> {
    let line = |[place, base, head]: [String; 3]| Err(format!("    {place}  {base} → {head}"));
    let events = rows::rows(pair, comparison).into_iter().map(Ok);
    iter::once(Err(pair.label.clone())).chain(events).chain(rows::lines(pair).map(line))
}

fn grid(out: &mut String, lines: &[Result<Row, String>], columns: &[usize]) {
    let width = |text: &str| UnicodeWidthStr::width(text);
    let mut widths = HEADER.map(width);
    for row in lines.iter().flatten() {
        for (widest, cell) in widths.iter_mut().zip(row) {
            *widest = width(cell).max(*widest);
        }
    }
    let line = |cells: [&str; 6]| {
        let mut text = String::new();
        for &column in columns {
            let (cell, space) = (cells[column], " ".repeat(widths[column].saturating_sub(width(cells[column]))));
            _ = if column == 0 { write!(text, "  {cell}{space}") } else { write!(text, "  {space}{cell}") };
        }
        text.truncate(text.trim_end().len());
        text
    };
    *out += &line(HEADER);
    for row in lines {
        *out += "\n";
        match row {
            Ok(row) => *out += &line(row.each_ref().map(String::as_str)),
            Err(label) => *out += label,
        }
    }
    *out += "\n";
}
