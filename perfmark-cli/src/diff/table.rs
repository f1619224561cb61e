//! The comparison for people.

use std::fmt::Write as _;
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
    let mut lines: Vec<Result<Row, String>> = Vec::new();
    for pair in comparison.changed() {
        lines.push(Err(pair.label.clone()));
        lines.extend(below(pair, comparison));
    }
    let title = |what: &str, is_first: bool| Err(format!("{}{what}:", if is_first { "" } else { "\n" }));
    let (unchanged, count) = comparison.unchanged();
    if count > 0 {
        lines.push(title("no change found", lines.is_empty()));
    }
    for pair in unchanged {
        lines.push(Err(pair.label.clone()));
        lines.extend(below(pair, comparison));
    }
    lines.extend(comparison.left_out().map(Err));
    for (at, pair) in comparison.with_lines_only().enumerate() {
        if at == 0 {
            lines.push(title("only lines compared", lines.is_empty()));
        }
        lines.push(Err(pair.label.clone()));
        lines.extend(below(pair, comparison));
    }
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

/// A mark's events, and its lines of source that changed.
fn below(pair: &Pair, comparison: &Comparison) -> impl Iterator<Item = Result<Row, String>> {
    let line = |[place, base, head]: [String; 3]| Err(format!("    {place}  {base} → {head}"));
    rows::rows(pair, comparison).into_iter().map(Ok).chain(rows::lines(pair).map(line))
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
