//! The report for people.
//!
//! If marks have several events, a mark is a heading with a row for each event. If all have the same single event, a
//! mark is one row, with its calls in a column. Columns are as wide as their content; the first one is shortened if
//! necessary.

use super::column::{CALLS, COLUMNS, Column, RowValues, SELF, SPREAD};
use super::facts::Facts;
use super::quantity::{ESTIMATE, NEAR, Quantity};
use super::share::Shares;
use super::signs::clean;
use super::style::{Page, Style};
use super::text::{push_left, push_right, shorten, width, wrap};
use super::{coverage, legend, names, unfinished};
use crate::snapshot::{Mark, Snapshot, Values};

/// The least width of a report.
pub(super) const NARROWEST: usize = 80;
/// From this width on, a mark's path and source location are shown beside its name.
const LOCATIONS: usize = 140;

/// The report in at most `columns`.
pub(super) fn render(snapshot: &Snapshot, columns: usize, has_color: bool) -> String {
    let labels = names::labels(&snapshot.marks);
    let shares = Shares::new(snapshot);
    let order = shares.order();
    let mut page = Page::default();
    legend::head(page.plain(), snapshot, columns);
    if order.is_empty() {
        page.plain().push_str(if labels.is_empty() { "the program has no marks\n" } else { "no mark was called\n" });
    } else {
        page.plain().push('\n');
        let marks = order.iter().map(|&index| (&snapshot.marks[index], labels[index].as_str()));
        let table = Table::new(marks, &shares, columns);
        table.paint(&mut page);
        page.plain().push('\n');
        page.styled(Style::Dim, |out| {
            legend::values(out, snapshot, &shares, SELF.is_shown(columns), columns);
            legend::spread(out, table.shown.iter().any(|column| column.head == SPREAD), columns);
            legend::clock(out, table.has_clock, columns);
            legend::estimates(out, table.has(ESTIMATE), columns);
            legend::probes(out, snapshot, table.has(NEAR), columns);
        });
    }
    page.styled(Style::Dim, |out| {
        legend::events(out, snapshot, columns);
        legend::never_called(out, snapshot, &labels, columns);
        legend::call_graph(out, snapshot, columns);
        legend::not_in_graph(out, snapshot, columns);
        legend::notes(out, snapshot, columns);
    });
    page.finish(has_color)
}

enum Line {
    /// A mark, its source location, and at the right the facts about all its events.
    Heading { label: String, locations: [String; 2], facts: String },
    /// An event, or a mark with its single event.
    Row { label: String, cells: Vec<Quantity>, is_measured: bool },
    /// A sentence about the mark above, and whether it reports missing values.
    Note { text: String, is_lacking: bool },
}

struct Table {
    head: String,
    shown: Vec<Column>,
    lines: Vec<Line>,
    columns: usize,
    /// Whether a clock rate is shown for some mark.
    has_clock: bool,
}

/// Between columns.
const GAP: usize = 2;
/// Columns of a long name that are shown before columns that only wide reports have.
const NAME: usize = 40;

impl Table {
    fn new<'a>(marks: impl Iterator<Item = (&'a Mark, &'a str)>, shares: &Shares<'a>, columns: usize) -> Self {
        let marks: Vec<_> = marks.map(|(mark, label)| (mark, label, shares.shown(mark))).collect();
        let only = only_event(marks.iter().map(|(.., values)| values.as_slice()));
        let shown = only.map(|_| CALLS).into_iter().chain(COLUMNS).filter(|column| column.is_shown(columns));
        let head = only.map_or_else(|| "mark".to_owned(), |event| format!("{} by mark", clean(event)));
        let facts = Facts::new(marks.iter().map(|(mark, label, _)| (*mark, *label)), columns);
        let has_clock = only.is_none() && facts.has_clock();
        let mut table = Self { head, shown: shown.collect(), lines: Vec::new(), columns, has_clock };
        for (index, (mark, label, values)) in marks.iter().enumerate() {
            let row = |values: Option<&'a Values>| RowValues::new(mark, values, shares);
            let unfinished = |table: &mut Self, label: &str, values: &Values| {
                for (what, calls, values) in unfinished::rows(mark, values) {
                    table.row(format!("{label}{what}"), &RowValues::new(mark, Some(&values), shares).with_calls(calls));
                }
            };
            if only.is_some() {
                table.row((*label).to_owned(), &row(values.first().copied()));
                for values in values {
                    unfinished(&mut table, label, values);
                }
            } else {
                table.lines.push(Line::Heading {
                    label: (*label).to_owned(),
                    locations: locations(mark),
                    facts: facts.of(index),
                });
                for &values in values {
                    let label = format!("  {}", clean(&values.event));
                    table.row(label.clone(), &row(Some(values)));
                    unfinished(&mut table, &label, values);
                }
            }
            let note = |text| Line::Note { text, is_lacking: coverage::is_lacking(mark, values) };
            table.lines.extend(coverage::sentence(mark, values).map(note));
        }
        table.fit();
        table
    }

    fn row(&mut self, label: String, row: &RowValues<'_>) {
        let cells = self.shown.iter().map(|column| (column.cell)(row)).collect();
        self.lines.push(Line::Row { label, cells, is_measured: row.values.is_some() });
    }

    /// Removes columns that leave names too little room, the last first.
    fn fit(&mut self) {
        for index in (0..self.shown.len()).rev() {
            let cells_width = cells_width(&self.layout());
            if self.columns.saturating_sub(cells_width) >= self.needed(cells_width).min(NAME) {
                return;
            }
            if self.shown[index].gives_way() {
                self.shown.remove(index);
                for line in &mut self.lines {
                    if let Line::Row { cells, .. } = line {
                        cells.remove(index);
                    }
                }
            }
        }
    }

    /// Whether some value has this flag.
    fn has(&self, flag: char) -> bool {
        let is_flagged = |cell: &Quantity| cell.number.starts_with(flag);
        self.lines.iter().any(|line| matches!(line, Line::Row { cells, .. } if cells.iter().any(is_flagged)))
    }

    fn paint(&self, page: &mut Page) {
        let layout = self.layout();
        let cells_width = cells_width(&layout);
        let label_width = self.needed(cells_width).min(self.columns.saturating_sub(cells_width));
        page.styled(Style::Bold, |out| {
            push_left(out, &shorten(&self.head, label_width), label_width);
            for (column, width) in self.shown.iter().zip(&layout) {
                push_right(out, column.head, GAP + width.all);
            }
        });
        page.end_line();
        page.plain().push_str(&"─".repeat(label_width + cells_width));
        page.end_line();
        for line in &self.lines {
            match line {
                Line::Heading { label, locations, facts } => {
                    let room = (label_width + cells_width).saturating_sub(GAP + width(facts));
                    self.heading(page, label, locations, room);
                    page.plain().push_str(facts);
                }
                Line::Row { label, cells, is_measured } => {
                    push_left(page.plain(), &shorten(label, label_width), label_width);
                    for (cell, width) in cells.iter().zip(&layout) {
                        width.paint(page, cell, *is_measured);
                    }
                }
                Line::Note { text, is_lacking } => {
                    let style = if *is_lacking { Style::Red } else { Style::Dim };
                    page.styled(style, |out| wrap(out, text, 4, self.columns));
                    continue;
                }
            }
            page.end_line();
        }
    }

    /// The mark's name, and as much of its location as fits.
    fn heading(&self, page: &mut Page, label: &str, locations: &[String; 2], room: usize) {
        let label = shorten(label, room);
        page.styled(Style::Bold, |out| out.push_str(&label));
        let mut left = room - width(&label).min(room);
        let fits = |location: &&String| self.columns >= LOCATIONS && GAP + width(location) <= left;
        if let Some(location) = locations.iter().find(fits) {
            push_right(page.plain(), "", GAP);
            page.styled(Style::Dim, |out| out.push_str(location));
            left -= GAP + width(location);
        }
        push_right(page.plain(), "", left + GAP);
    }

    fn layout(&self) -> Vec<Width> {
        (0..self.shown.len()).map(|index| self.column_width(index)).collect()
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

    /// The width in which every label and heading fits, beside cells of this width.
    fn needed(&self, cells_width: usize) -> usize {
        let needed = self.lines.iter().map(|line| match line {
            Line::Heading { label, facts, .. } => (width(label) + GAP + width(facts)).saturating_sub(cells_width),
            Line::Row { label, .. } => width(label),
            Line::Note { .. } => 0,
        });
        needed.chain([width(&self.head)]).max().unwrap_or(0)
    }
}

/// A column's width, and the part of it that units take, including the space before them.
struct Width {
    unit: usize,
    all: usize,
}

impl Width {
    fn paint(&self, page: &mut Page, cell: &Quantity, is_measured: bool) {
        let missing = self.all - self.unit - width(&cell.number).min(self.all - self.unit);
        push_right(page.plain(), "", GAP + missing);
        let number = |out: &mut String| out.push_str(&cell.number);
        match () {
            () if cell.is_flagged() => page.styled(Style::Yellow, number),
            () if !is_measured && cell.is_missing() => page.styled(Style::Red, number),
            () => number(page.plain()),
        }
        let unit = if cell.unit.is_empty() { String::new() } else { format!(" {}", cell.unit) };
        page.styled(Style::Dim, |out| push_left(out, &unit, self.unit));
    }
}

fn cells_width(layout: &[Width]) -> usize {
    layout.iter().map(|width| GAP + width.all).sum()
}

/// The mark's location: its path and its file, or its file alone.
fn locations(mark: &Mark) -> [String; 2] {
    let file = clean(&format!("{}:{}", mark.file, mark.line));
    [format!("{} · {file}", clean(&mark.path)), file]
}

/// The single event of all marks, if no mark has another one.
fn only_event<'a: 'b, 'b>(mut marks: impl Iterator<Item = &'b [&'a Values]>) -> Option<&'a str> {
    let mut only: Option<&'a str> = None;
    let is_only = marks.all(|values| match *values {
        [] => true,
        [one] => *only.get_or_insert(&one.event) == one.event,
        _ => false,
    });
    only.filter(|_| is_only)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample::{self, mark, snapshot, values};
    use crate::snapshot::{Probe, Read, Unit};

    #[test]
    fn values_within_the_noise_are_flagged_and_the_probe_overhead_is_shown() {
        let mut small = mark("small", 10);
        small.values = vec![values("time", 10, 120)];
        small.values[0].probe = Probe { own: 12, whole: 40, noise: 15 };
        small.values[0].max = Some(16);
        let shown = render(&snapshot(&[sample::event("time", Unit::Ns, Read::Ticks)], &[small]), 80, false);
        let row = shown.lines().find(|line| line.starts_with("small")).expect("a row");
        assert!(row.contains(" ~12 ns ") && row.contains(" ~10 ns ") && row.ends_with(" 16 ns"), "{row}");
        let overhead = "probe overhead subtracted per call (from its caller): time 12 ns (40 ns). ~: no\n  \
                        larger than the noise of the probe.\n";
        assert!(shown.contains(overhead), "{shown}");
    }

    #[test]
    fn a_mark_of_several_events_is_a_heading_and_a_row_for_each() {
        let expected = "\
perfmark · wordcount · pid 4242 · ran 2.31 s · 4 threads

mark               total    share      mean       p50       p99       max
─────────────────────────────────────────────────────────────────────────
run                             2.27 insn/cycle   4.00 GHz         1 call
  cycles         18.1 G   100.0 %   18.1 G    18.1 G    18.1 G    18.1 G
  instructions   41.0 G   100.0 %   41.0 G    41.0 G    41.0 G    41.0 G
  time           4.53 s   100.0 %   4.53 s    4.53 s    4.53 s    4.53 s
  page-faults   3,204     100.0 %  3,204     3,204     3,204     3,204
parse_line                      2.49 insn/cycle   3.99 GHz   4.21 M calls
  cycles         12.4 G    68.5 %  2,945     2,650     5,890       118 k
  instructions   30.9 G    75.4 %  7,340     6,605      14.7 k     294 k
  time           3.10 s    68.5 %    737 ns    663 ns   1.47 µs   29.5 µs
lexer::next                     1.00 insn/cycle               1,204 calls
  cycles          500 M     2.8 %    420 k     378 k     840 k    16.8 M
  instructions    500 M     1.2 %    421 k     378 k     841 k    16.8 M
  time            122 ms    2.7 %    101 µs   91.3 µs    203 µs   4.06 ms
    cycles, instructions: 12 of 1,204 calls unmeasured, 30 scaled; 2 calls ended
      by a panic, in no distribution

share: percentage of everything measured in marks, marked callees included.
  Sorted by share of time. Counts are of user mode only.
GHz: user-mode cycles per nanosecond.
read in user space: cycles, instructions
read by read(2): page-faults — only the kernel counts it
read from the tick counter: time
not available: cache-misses — perf_event_open said ENOENT: this PMU has no such
  event
never called: Parser::next, usage
";
        assert_eq!(render(&sample::typical(), 80, false), expected);
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

share: percentage of everything measured in marks, marked callees included; self: without marked
  callees. Sorted by share of time.
read from the tick counter: time
not available: cycles, instructions — perf_event_open said ENOENT: no PMU on this machine, as is
  usual in a virtual one
note: no requested event can be counted here, so `time` was recorded
";
        assert_eq!(render(&sample::time_only(), 100, false), expected);
    }

    #[test]
    fn a_wide_report_has_all_the_quantiles() {
        let expected = include_str!("looks/140_columns.txt");
        let report = render(&sample::time_only(), 140, false);
        assert!(report.contains(expected), "{report}");
    }

    #[test]
    fn an_unmeasured_value_is_never_a_zero() {
        let report = render(&sample::time_only(), 80, false);
        let flush = report.lines().find(|line| line.starts_with("flush")).unwrap();
        let cells: Vec<&str> = flush.split_whitespace().collect();
        assert_eq!(cells, ["flush", "3", "–", "–", "–", "–", "–", "–"]);
    }

    #[test]
    fn a_program_that_called_no_mark_has_a_report_of_two_lines() {
        let none = snapshot(&[], &[mark("parse", 0)]);
        let head = "perfmark · wordcount · pid 4242 · ran 2.31 s · 4 threads\n";
        assert_eq!(render(&none, 80, false), format!("{head}no mark was called\nnever called: parse\n"));
        assert_eq!(render(&snapshot(&[], &[]), 80, false), format!("{head}the program has no marks\n"));
    }

    #[test]
    fn long_names_are_shortened_so_that_every_column_is_shown() {
        let mut long = mark(&"a_rather_long_name_".repeat(9), 1);
        long.values = vec![values("time", 1, 1)];
        let report = render(&snapshot(&[], &[long]), 80, false);
        let row = report.lines().find(|line| line.contains('…')).unwrap();
        assert_eq!(width(row), 80);
        let cells: Vec<&str> = row.split_whitespace().skip(1).collect();
        assert_eq!(cells, ["1", "1", "100.0", "%", "1", "1", "1", "1"]);
    }

    #[test]
    fn every_line_fits_whatever_the_snapshot_holds() {
        for (index, snapshot) in sample::nasty().iter().enumerate() {
            for columns in [80, 99, 100, 120, 140, 200] {
                for line in render(snapshot, columns, false).lines() {
                    assert!(width(line) <= columns, "{index} at {columns}: {} of {line}", width(line));
                    assert!(!line.contains(char::is_control), "{line:?}");
                }
            }
        }
    }
}
