//! The comparison for a pull request: a summary line, what changed, and the rest folded.

use super::compare::{Comparison, Pair};
use super::gate::GateResult;
use super::rows::{HEADER, Row, columns, lines, remarks, rows, summary};
use perfmark::text::{counted, escape_markdown, sentence_in_markdown};
use std::fmt::Write as _;

/// The size limit of lists, in bytes. A comment on GitHub has 65,536 characters; the rest is for the text around the
/// lists.
const ROOM: usize = 64_000;

pub(crate) fn render(comparison: &Comparison, gates: &[GateResult]) -> String {
    let failures = gates.iter().flat_map(|gate| &gate.failures).map(|failure| bullet(&failure.to_string()));
    let undecided = gates.iter().filter_map(|gate| gate.undecided.as_deref()).map(bullet);
    // The most important lists get room first.
    let mut room = ROOM;
    let failures = List::of(failures, &mut room);
    let undecided = List::of(undecided, &mut room);
    let columns = columns(comparison);
    let table_rows = |pair| table_rows(pair, comparison, &columns);
    let changed = List::of(comparison.changed().map(table_rows), &mut room);
    let remarks = List::of(remarks(comparison, gates).iter().map(|line| bullet(line)), &mut room);
    let (with_row, count) = comparison.unchanged();
    let unchanged = List::of(with_row.map(table_rows), &mut room);
    let unchanged = List { count, left_out: comparison.left_out(), ..unchanged };
    let with_lines_only = List::of(comparison.with_lines_only().map(table_rows), &mut room);

    let sign = match gates {
        [] => "",
        _ if failures.count > 0 => "❌ ",
        _ if undecided.count > 0 => "⚠️ ",
        _ => "✅ ",
    };
    let mut out = format!("{sign}**perfmark**: {}\n\n", summary(comparison, gates));
    failures.write(&mut out, "");
    undecided.write(&mut out, "");
    changed.write(&mut out, &header(&columns));
    unchanged.write_folded(&mut out, &header(&columns), ["mark", ": no change found"]);
    with_lines_only.write_folded(&mut out, &header(&columns), ["mark", ": only lines compared"]);
    remarks.write_folded(&mut out, "", ["remark", ""]);
    out.truncate(out.trim_end().len());
    out + "\n"
}

fn header(columns: &[usize]) -> String {
    let heads: Vec<&str> = columns.iter().map(|&column| HEADER[column]).collect();
    let numbers = "--:|".repeat(columns.len() - 1);
    format!("| mark | {} |\n|---|---|{numbers}\n", heads.join(" | "))
}

/// The items that fit, and the number of all items.
struct List {
    text: String,
    count: usize,
    more: usize,
    /// How many items were not asked for.
    left_out: Option<String>,
}

impl List {
    fn of(items: impl Iterator<Item = String>, room: &mut usize) -> Self {
        let mut list = Self { text: String::new(), count: 0, more: 0, left_out: None };
        for item in items {
            list.count += 1;
            match room.checked_sub(item.len()) {
                Some(left) => {
                    *room = left;
                    list.text += &item;
                }
                None => list.more += 1,
            }
        }
        list
    }

    fn write(&self, out: &mut String, header: &str) {
        if !self.text.is_empty() {
            out.extend([header, &self.text, "\n"]);
        }
        if self.more > 0 {
            _ = writeln!(out, "… and {} more that do not fit here; `--format json` has all.\n", self.more);
        }
        if let Some(left_out) = &self.left_out {
            _ = writeln!(out, "… {left_out}.\n");
        }
    }

    fn write_folded(&self, out: &mut String, header: &str, [noun, what]: [&str; 2]) {
        if self.count > 0 {
            _ = writeln!(out, "<details><summary>{}{what}</summary>\n", counted(self.count as u64, noun));
            self.write(out, header);
            *out += "</details>\n\n";
        }
    }
}

fn bullet(line: &str) -> String {
    format!("- {}\n", sentence_in_markdown(line))
}

/// A mark's events, and its lines of source that changed, one row each.
fn table_rows(pair: &Pair, comparison: &Comparison, columns: &[usize]) -> String {
    let mut out = String::new();
    let line =
        |[place, base, head]: [String; 3]| -> Row { [place, base, head, String::new(), String::new(), String::new()] };
    for row in rows(pair, comparison).into_iter().chain(lines(pair).map(line)) {
        _ = write!(out, "| {} ", escape_markdown(&pair.label));
        for &column in columns {
            _ = write!(out, "| {} ", escape_markdown(&row[column]));
        }
        out += "|\n";
    }
    out
}
