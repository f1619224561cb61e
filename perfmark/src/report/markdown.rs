//! The report for a pull request or an issue: a table in GitHub's Markdown, with the legend of the terminal's table
//! below it.

use std::fmt::Write as _;

use super::column::{CALLS, COLUMNS, Column, RowValues};
use super::quantity::{ESTIMATE, NEAR, Quantity};
use super::share::Shares;
use super::signs::{clean, markdown};
use super::text::UNBROKEN;
use super::{coverage, legend, names, unfinished};
use crate::snapshot::{Snapshot, Values};

/// It has the columns of a table of this width.
const LIKE: usize = 120;

pub(super) fn render(snapshot: &Snapshot) -> String {
    let labels = names::labels(&snapshot.marks);
    let shares = Shares::new(snapshot);
    let order = shares.order();
    let mut out = lines("", |out| legend::head(out, snapshot, UNBROKEN));
    out.push('\n');
    if order.is_empty() {
        out.push_str(if labels.is_empty() { "the program has no marks\n\n" } else { "no mark was called\n\n" });
        out.push_str(&below(snapshot, &labels, ""));
        return out;
    }
    let columns: Vec<Column> = [CALLS].into_iter().chain(COLUMNS).filter(|column| column.is_shown(LIKE)).collect();
    row(&mut out, ["mark", "event"].into_iter().chain(columns.iter().map(|column| column.head)).map(str::to_owned));
    row(&mut out, ["---", "---"].into_iter().chain(columns.iter().map(|_| "---:")).map(str::to_owned));
    let mut has = [false; 2];
    let mut sentences = String::new();
    for index in order {
        let (mark, name) = (&snapshot.marks[index], code(&labels[index]));
        let shown = shares.shown(mark);
        let events = shown.iter().copied().map(Some).chain(shown.is_empty().then_some(None));
        for values in events {
            let cells = cells(&columns, &RowValues::new(mark, values, &shares), &mut has);
            let event = values.map_or_else(|| "–".to_owned(), |values: &Values| code(&clean(&values.event)));
            row(&mut out, [name.clone(), event.clone()].into_iter().chain(cells));
            for (what, calls, values) in values.into_iter().flat_map(|values| unfinished::rows(mark, values)) {
                let of_row = RowValues::new(mark, Some(&values), &shares).with_calls(calls);
                let cells = self::cells(&columns, &of_row, &mut has);
                row(&mut out, [name.clone(), format!("{event}{what}")].into_iter().chain(cells));
            }
        }
        if let Some(sentence) = coverage::sentence(mark, &shown) {
            _ = writeln!(sentences, "- {name}: {}", markdown(&clean(&sentence)));
        }
    }
    out.push('\n');
    let [has_estimates, has_noise] = has;
    let legend = lines("- ", |out| {
        legend::values(out, snapshot, &shares, true, UNBROKEN);
        legend::estimates(out, has_estimates, UNBROKEN);
        legend::probes(out, snapshot, has_noise, UNBROKEN);
    });
    out + &sentences + &below(snapshot, &labels, &legend)
}

/// The part below every report.
fn below(snapshot: &Snapshot, labels: &[String], legend: &str) -> String {
    let rest = lines("- ", |out| {
        legend::events(out, snapshot, UNBROKEN);
        legend::never_called(out, snapshot, labels, UNBROKEN);
        legend::call_graph(out, snapshot, UNBROKEN);
        legend::not_in_graph(out, snapshot, UNBROKEN);
        legend::notes(out, snapshot, UNBROKEN);
    });
    format!("{legend}{rest}")
}

fn cells(columns: &[Column], row: &RowValues<'_>, has: &mut [bool; 2]) -> Vec<String> {
    let cell = |column: &Column| {
        let cell: Quantity = (column.cell)(row);
        for (has, flag) in has.iter_mut().zip([ESTIMATE, NEAR]) {
            *has |= cell.number.starts_with(flag);
        }
        markdown(&cell.to_string())
    };
    columns.iter().map(cell).collect()
}

fn row(out: &mut String, cells: impl Iterator<Item = String>) {
    for cell in cells {
        out.push_str("| ");
        out.push_str(&cell);
        out.push(' ');
    }
    out.push_str("|\n");
}

/// Lines of a legend, each with a prefix.
fn lines(prefix: &str, write: impl FnOnce(&mut String)) -> String {
    let mut plain = String::new();
    write(&mut plain);
    let mut out = String::new();
    for line in plain.lines() {
        _ = writeln!(out, "{prefix}{}", markdown(line));
    }
    out
}

/// A code span, also in a table cell. A `|` is escaped there before code spans are parsed, and backticks need a longer
/// fence.
fn code(name: &str) -> String {
    let mut longest = 0;
    let mut run = 0;
    for c in name.chars() {
        run = if c == '`' { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    let fence = "`".repeat(longest + 1);
    // Markdown removes one space at each end of a code span, unless there is nothing else.
    let is_bare = !name.starts_with([' ', '`']) && !name.ends_with([' ', '`']) && !name.is_empty();
    let gap = if is_bare { "" } else { " " };
    format!("{fence}{gap}{}{gap}{fence}", name.replace('|', "\\|"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample::{self, mark, snapshot, values};

    #[test]
    fn a_mark_and_event_is_a_row_and_sentences_follow() {
        let expected = "\
perfmark · wordcount · pid 4242 · ran 2.31 s · 4 threads

| mark | event | calls | total | share | self | mean | p50 | p90 | p99 | max |
| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
| `handle_request` | `time` | 18.2 k | 5.21 s | 100.0 % | 59.3 % | 286 µs | 258 µs | 344 µs | 573 µs | 11.5 ms |
| `decode` | `time` | 72.8 k | 2.12 s | 40.7 % | 40.7 % | 29.1 µs | 26.2 µs | 34.9 µs | 58.2 µs | 1.16 ms |
| `flush` | `time` | 3 | – | – | – | – | – | – | – | – |

- `flush`: 3 of 3 calls unmeasured; 1 call still running
- share: percentage of everything measured in marks, marked callees included; self: without marked callees. \
  Sorted by share of time.
- read from the tick counter: time
- not available: cycles, instructions — perf\\_event\\_open said ENOENT: no PMU on this machine, \
  as is usual in a virtual one
- note: no requested event can be counted here, so \\`time\\` was recorded
";
        assert_eq!(render(&sample::time_only()), expected);
    }

    #[test]
    fn several_events_are_rows_of_the_same_mark() {
        let report = render(&sample::typical());
        let rows: Vec<&str> = report.lines().filter(|line| line.starts_with("| `parse_line` |")).collect();
        assert_eq!(rows.len(), 3, "{report}");
        assert!(
            rows[2].starts_with("| `parse_line` | `time` | 4.21 M | 3.10 s | 68.5 % | 68.5 % | 737 ns |"),
            "{rows:?}"
        );
        assert!(
            report.contains("- `lexer::next`: cycles, instructions: 12 of 1,204 calls unmeasured, 30 scaled; 2 calls"),
            "{report}"
        );
        assert!(report.ends_with("- never called: Parser::next, usage\n"), "{report}");
    }

    #[test]
    fn names_with_any_characters_are_code_spans() {
        assert_eq!(code("<A as B>::f"), "`<A as B>::f`");
        assert_eq!(code("|a|b"), "`\\|a\\|b`");
        assert_eq!(code("a``b`c"), "```a``b`c```");
        assert_eq!(code("`a"), "`` `a ``");
        assert_eq!(code(""), "`  `");
    }

    #[test]
    fn every_row_of_any_snapshot_has_the_same_number_of_cells() {
        for snapshot in sample::nasty() {
            for line in render(&snapshot).lines().filter(|line| line.starts_with('|')) {
                let bars = line.replace("\\|", "").matches('|').count();
                assert_eq!(bars, 12, "{line}");
                assert!(!line.contains(char::is_control), "{line:?}");
            }
        }
    }

    #[test]
    fn a_program_that_called_no_mark_has_a_report_without_a_table() {
        let head = "perfmark · wordcount · pid 4242 · ran 2.31 s · 4 threads\n\n";
        let never = snapshot(&[], &[mark("parse", 0)]);
        assert_eq!(render(&never), format!("{head}no mark was called\n\n- never called: parse\n"));
        let mut bare = mark("bare", 3);
        assert!(render(&snapshot(&[], &[bare.clone()])).contains("| `bare` | – | 3 | – |"));
        bare.values = vec![values("time", 0, 0)];
        assert!(render(&snapshot(&[], &[bare])).contains("| `bare` | `time` | 3 | – |"));
    }
}
