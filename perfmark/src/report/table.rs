//! The report for people.
//!
//! Where the marks have several events, a mark is a heading with a row for each; where all have one and the same, a
//! mark is one row, with its calls in a column. Columns are as wide as their content; the first one gives way.

use super::column::{CALLS, COLUMNS, Column, Figures, SELF};
use super::quantity::{ESTIMATE, NEAR, Quantity, counted};
use super::share::Shares;
use super::text::{clean, push_left, push_right, shorten, width, wrap};
use super::{coverage, legend, names};
use crate::snapshot::{Mark, Snapshot, Values};

/// The least width of a report.
pub(super) const NARROWEST: usize = 80;

/// The report in at most `columns`.
pub(super) fn render(snapshot: &Snapshot, columns: usize) -> String {
    let labels = names::labels(&snapshot.marks);
    let shares = Shares::new(snapshot);
    let order = shares.order();
    let mut out = String::new();
    legend::head(&mut out, snapshot, columns);
    if order.is_empty() {
        out.push_str(if labels.is_empty() { "nothing is marked\n" } else { "no mark was called\n" });
    } else {
        out.push('\n');
        let marks = order.iter().map(|&index| (&snapshot.marks[index], labels[index].as_str()));
        let table = Table::new(marks, &shares, columns);
        table.paint(&mut out);
        out.push('\n');
        legend::figures(&mut out, snapshot, &shares, SELF.is_shown(columns), columns);
        legend::estimates(&mut out, table.has(ESTIMATE), columns);
        legend::probes(&mut out, snapshot, table.has(NEAR), columns);
    }
    legend::events(&mut out, snapshot, columns);
    legend::never_called(&mut out, snapshot, &labels, columns);
    legend::notes(&mut out, snapshot, columns);
    out
}

enum Line {
    /// A mark, and at the right what holds for all its events.
    Heading { label: String, facts: String },
    /// An event, or a mark with its only event.
    Row { label: String, cells: Vec<Quantity> },
    /// A sentence about the mark above.
    Note(String),
}

struct Table {
    head: String,
    shown: Vec<Column>,
    lines: Vec<Line>,
    columns: usize,
}

/// Between columns.
const GAP: usize = 2;

impl Table {
    fn new<'a>(marks: impl Iterator<Item = (&'a Mark, &'a str)>, shares: &Shares<'a>, columns: usize) -> Self {
        let marks: Vec<_> = marks.map(|(mark, label)| (mark, label, shares.shown(mark))).collect();
        let only = only_event(marks.iter().map(|(.., values)| values.as_slice()));
        let shown = only.map(|_| CALLS).into_iter().chain(COLUMNS).filter(|column| column.is_shown(columns));
        let head = only.map_or_else(|| "mark".to_owned(), |event| format!("{} by mark", clean(event)));
        let mut table = Self { head, shown: shown.collect(), lines: Vec::new(), columns };
        let facts_width = marks.iter().map(|(mark, ..)| width(&counted(mark.calls, "call"))).max().unwrap_or(0);
        for (mark, label, values) in &marks {
            let figures = |values: Option<&'a Values>| Figures::new(mark, values, shares);
            if only.is_some() {
                table.row((*label).to_owned(), &figures(values.first().copied()));
            } else {
                let facts = facts(mark, facts_width);
                table.lines.push(Line::Heading { label: (*label).to_owned(), facts });
                for &values in values {
                    table.row(format!("  {}", clean(&values.event)), &figures(Some(values)));
                }
            }
            table.lines.extend(coverage::sentence(mark, values).map(Line::Note));
        }
        table
    }

    fn row(&mut self, label: String, figures: &Figures<'_>) {
        let cells = self.shown.iter().map(|column| (column.cell)(figures)).collect();
        self.lines.push(Line::Row { label, cells });
    }

    /// Whether some value has that sign before it.
    fn has(&self, sign: char) -> bool {
        let is_flagged = |cell: &Quantity| cell.number.starts_with(sign);
        self.lines.iter().any(|line| matches!(line, Line::Row { cells, .. } if cells.iter().any(is_flagged)))
    }

    fn paint(&self, out: &mut String) {
        let layout: Vec<Width> = (0..self.shown.len()).map(|index| self.column_width(index)).collect();
        let cells_width: usize = layout.iter().map(|width| GAP + width.all).sum();
        let label_width = self.label_width(cells_width);

        push_left(out, &shorten(&self.head, label_width), label_width);
        for (column, width) in self.shown.iter().zip(&layout) {
            push_right(out, column.head, GAP + width.all);
        }
        out.push('\n');
        out.push_str(&"─".repeat(label_width + cells_width));
        out.push('\n');
        for line in &self.lines {
            match line {
                Line::Heading { label, facts } => {
                    let room = (label_width + cells_width).saturating_sub(GAP + width(facts));
                    push_left(out, &shorten(label, room), room + GAP);
                    out.push_str(facts);
                }
                Line::Row { label, cells } => {
                    push_left(out, &shorten(label, label_width), label_width);
                    for (cell, width) in cells.iter().zip(&layout) {
                        width.push(out, cell);
                    }
                    out.truncate(out.trim_end_matches(' ').len());
                }
                Line::Note(text) => {
                    wrap(out, text, 4, self.columns);
                    continue;
                }
            }
            out.push('\n');
        }
    }

    fn column_width(&self, index: usize) -> Width {
        let cells = self.lines.iter().filter_map(|line| match line {
            Line::Row { cells, .. } => cells.get(index),
            _ => None,
        });
        let (mut number, mut unit) = (0, 0);
        for cell in cells {
            number = number.max(width(&cell.number));
            unit = unit.max(width(cell.unit));
        }
        let unit = if unit > 0 { unit + 1 } else { 0 };
        let head = self.shown.get(index).map_or(0, |column| column.head.len());
        Width { unit, all: head.max(number + unit) }
    }

    /// Wide enough for every label and heading, if the report is.
    fn label_width(&self, cells_width: usize) -> usize {
        let needed = self.lines.iter().map(|line| match line {
            Line::Heading { label, facts } => (width(label) + GAP + width(facts)).saturating_sub(cells_width),
            Line::Row { label, .. } => width(label),
            Line::Note(_) => 0,
        });
        needed.chain([width(&self.head)]).max().unwrap_or(0).min(self.columns.saturating_sub(cells_width))
    }
}

/// A column's width, and the part of it that units take, the space before them included.
struct Width {
    unit: usize,
    all: usize,
}

impl Width {
    fn push(&self, out: &mut String, cell: &Quantity) {
        push_right(out, &cell.number, GAP + self.all - self.unit);
        let unit = if cell.unit.is_empty() { String::new() } else { format!(" {}", cell.unit) };
        push_left(out, &unit, self.unit);
    }
}

/// The one event that all the marks have, if no mark has more.
fn only_event<'a: 'b, 'b>(mut marks: impl Iterator<Item = &'b [&'a Values]>) -> Option<&'a str> {
    let mut only: Option<&'a str> = None;
    let is_only = marks.all(|values| match *values {
        [] => true,
        [one] => *only.get_or_insert(&one.event) == one.event,
        _ => false,
    });
    only.filter(|_| is_only)
}

/// Calls, and instructions per cycle where both were counted over the same calls.
fn facts(mark: &Mark, calls_width: usize) -> String {
    let find = |event: &str| mark.values.iter().find(|values| values.event == event && values.measured > 0);
    let mut facts = String::new();
    if let (Some(cycles), Some(instructions)) = (find("cycles"), find("instructions"))
        && cycles.measured == instructions.measured
        && cycles.sum > 0
    {
        let ratio = instructions.sum as f64 / cycles.sum as f64;
        facts = format!("{ratio:.2} insn/cycle   ");
    }
    push_right(&mut facts, &counted(mark.calls, "call"), calls_width);
    facts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample::{self, mark, snapshot, values};
    use crate::snapshot::{Probe, Read, Unit};

    #[test]
    fn what_is_no_larger_than_the_noise_is_marked_and_the_probe_is_told() {
        let mut small = mark("small", 10);
        small.values = vec![values("time", 10, 120)];
        small.values[0].probe = Probe { own: 12, whole: 40, noise: 15 };
        small.values[0].max = Some(16);
        let shown = render(&snapshot(&[sample::event("time", Unit::Ns, Read::Ticks)], &[small]), 80);
        let row = shown.lines().find(|line| line.starts_with("small")).expect("a row");
        assert!(row.contains(" ~12 ns ") && row.contains(" ~10 ns ") && row.ends_with(" 16 ns"), "{row}");
        let told = "time 12 ns (from around 40 ns). ~: no\n  more than that varies by.\n";
        assert!(shown.contains(told), "{shown}");
    }

    #[test]
    fn a_mark_of_several_events_is_a_heading_and_a_row_for_each() {
        let expected = "\
perfmark · wordcount · pid 4242 · ran 2.31 s · 4 threads

mark               total    share      mean       p50       p99       max
─────────────────────────────────────────────────────────────────────────
run                                        2.27 insn/cycle         1 call
  cycles         18.1 G   100.0 %   18.1 G    18.1 G    18.1 G    18.1 G
  instructions   41.0 G   100.0 %   41.0 G    41.0 G    41.0 G    41.0 G
  time           4.53 s   100.0 %   4.53 s    4.53 s    4.53 s    4.53 s
  page-faults   3,204     100.0 %  3,204     3,204     3,204     3,204
parse_line                                 2.49 insn/cycle   4.21 M calls
  cycles         12.4 G    68.5 %  2,945     2,650     5,890       118 k
  instructions   30.9 G    75.4 %  7,340     6,605      14.7 k     294 k
  time           3.10 s    68.5 %    737 ns    663 ns   1.47 µs   29.5 µs
lexer::next                                1.00 insn/cycle    1,204 calls
  cycles          500 M     2.8 %    420 k     378 k     840 k    16.8 M
  instructions    500 M     1.2 %    421 k     378 k     841 k    16.8 M
  time            122 ms    2.7 %    101 µs   91.3 µs    203 µs   4.06 ms
    cycles, instructions: 12 of 1,204 calls unmeasured, 30 scaled; 2 calls ended
      by a panic, in no figure

share: of all that was measured in marks, a mark's marked callees included.
  Sorted by share of time. Counts are of user mode only.
read in user space: cycles, instructions
read by read(2): page-faults — only the kernel counts it
read from the tick counter: time
not available: cache-misses — perf_event_open said ENOENT: this PMU has no such
  event
never called: Parser::next, usage
";
        assert_eq!(render(&sample::typical(), 80), expected);
    }

    #[test]
    fn marks_of_one_event_are_rows() {
        let expected = "\
perfmark · wordcount · pid 4242 · ran 2.31 s · 4 threads

time by mark     calls   total    share    self     mean      p50      p99      max
───────────────────────────────────────────────────────────────────────────────────
handle_request  18.2 k  5.21 s  100.0 %  59.3 %   286 µs   258 µs   573 µs  11.5 ms
decode          72.8 k  2.12 s   40.7 %  40.7 %  29.1 µs  26.2 µs  58.2 µs  1.16 ms
flush              3       –        –       –       –        –        –        –
    3 of 3 calls unmeasured; 1 call still running

share: of all that was measured in marks, a mark's marked callees included; self: without them.
  Sorted by share of time.
read from the tick counter: time
not available: cycles, instructions — perf_event_open said ENOENT: no PMU on this machine, as is
  usual in a virtual one
note: nothing asked for can be counted here, so `time` was recorded
";
        assert_eq!(render(&sample::time_only(), 100), expected);
    }

    #[test]
    fn a_wide_report_has_all_the_quantiles() {
        let expected = "\
time by mark     calls   total    share    self     mean      min      p50      p90      p99    p99.9      max
──────────────────────────────────────────────────────────────────────────────────────────────────────────────
handle_request  18.2 k  5.21 s  100.0 %  59.3 %   286 µs   143 µs   258 µs   344 µs   573 µs  2.58 ms  11.5 ms
decode          72.8 k  2.12 s   40.7 %  40.7 %  29.1 µs  14.6 µs  26.2 µs  34.9 µs  58.2 µs   262 µs  1.16 ms
flush              3       –        –       –       –        –        –        –        –        –        –
    3 of 3 calls unmeasured; 1 call still running
";
        let report = render(&sample::time_only(), 140);
        assert!(report.contains(expected), "{report}");
    }

    #[test]
    fn what_was_not_measured_is_never_a_zero() {
        let report = render(&sample::time_only(), 80);
        let flush = report.lines().find(|line| line.starts_with("flush")).unwrap();
        let cells: Vec<&str> = flush.split_whitespace().collect();
        assert_eq!(cells, ["flush", "3", "–", "–", "–", "–", "–", "–"]);
    }

    #[test]
    fn instructions_per_cycle_stand_only_where_both_were_counted_over_the_same_calls() {
        let mut both = mark("both", 2);
        both.values = vec![values("cycles", 2, 100), values("instructions", 2, 249)];
        assert_eq!(facts(&both, 10), "2.49 insn/cycle      2 calls");
        both.values[0].measured = 1;
        assert_eq!(facts(&both, 10), "   2 calls");
        both.values[0] = values("cycles", 2, 0);
        assert_eq!(facts(&both, 10), "   2 calls");
    }

    #[test]
    fn a_program_that_called_no_mark_is_told_in_a_line_or_two() {
        let none = snapshot(&[], &[mark("parse", 0)]);
        let head = "perfmark · wordcount · pid 4242 · ran 2.31 s · 4 threads\n";
        assert_eq!(render(&none, 80), format!("{head}no mark was called\nnever called: parse\n"));
        assert_eq!(render(&snapshot(&[], &[]), 80), format!("{head}nothing is marked\n"));
    }

    #[test]
    fn long_names_give_way_so_that_every_column_stays() {
        let mut long = mark(&"a_rather_long_name_".repeat(9), 1);
        long.values = vec![values("time", 1, 1)];
        let report = render(&snapshot(&[], &[long]), 80);
        let row = report.lines().find(|line| line.contains('…')).unwrap();
        assert_eq!(width(row), 80);
        let cells: Vec<&str> = row.split_whitespace().skip(1).collect();
        assert_eq!(cells, ["1", "1", "100.0", "%", "1", "1", "1", "1"]);
    }

    #[test]
    fn every_line_fits_whatever_the_snapshot_holds() {
        for (index, snapshot) in sample::nasty().iter().enumerate() {
            for columns in [80, 81, 99, 100, 120, 140] {
                for line in render(snapshot, columns).lines() {
                    assert!(width(line) <= columns, "{index} at {columns}: {} of {line}", width(line));
                    assert!(!line.contains(char::is_control), "{line:?}");
                }
            }
        }
    }
}
