//! The report for a pull request or an issue: a table in GitHub's Markdown, with the legend of the terminal's table
//! below it.

use std::fmt::Write as _;

use super::column::{self, CALLS, Column, RowValues};
use super::hot_lines::{HotLines, Outside, Row};
use super::legend::{self, Legend};
use super::quantity::{ESTIMATE, NEAR, Quantity};
use super::share::Group;
use super::text::{beginning, one_line};
use super::view::View;
use super::{coverage, details, sampling, table, unfinished};
use crate::snapshot::{Snapshot, Values};
use crate::text::{escape_markdown, sanitize, sentence_in_markdown};

/// It has the columns of a table of this width.
const LIKE: usize = 120;

pub(super) fn render(snapshot: &Snapshot, view: &View) -> String {
    let legend = Legend::new(snapshot, view.sort, usize::MAX);
    let Legend { shares, groups, labels, .. } = &legend;
    let mut out = sentence_in_markdown(&legend::head(snapshot, usize::MAX)) + "\n" + &lines("", legend.above());
    out.push('\n');
    if groups.is_empty() {
        out.extend([legend::no_rows(snapshot), "\n\n"]);
        hot_lines(&mut out, &legend, view);
        let sentences = sampling::legend(snapshot).into_iter().chain(legend.rest(view.details.as_ref()));
        return out + &lines("- ", sentences);
    }
    let row = |index: usize, group: &Group<'_>| RowValues::of_mark(&snapshot.marks[index], group.event, shares);
    let all = groups.iter().flat_map(|group| group.marks.iter().map(move |&index| row(index, group)));
    let columns = column::of_marks(&all.collect::<Vec<_>>());
    let columns: Vec<Column> = columns.into_iter().filter(|column| column.is_shown(LIKE)).collect();
    let mut has = [false; 2];
    for group in groups {
        let (shown, rest) = group.marks.split_at(view.rows(group.marks.len()));
        let mut table = |out: &mut String, marks: &[usize]| {
            heads(out, &[&escape_markdown(&table::head(group))], &columns);
            for &index in marks {
                let cells = cells(&columns, &row(index, group), &mut has);
                self::row(out, [code_in_cell(&labels[index])].into_iter().chain(cells));
            }
            out.push('\n');
        };
        if !shown.is_empty() {
            table(&mut out, shown);
        }
        if let Some(summary) = table::rest(group, shares, view) {
            _ = writeln!(out, "<details><summary>{}</summary>\n", escape_markdown(&summary.to_string()));
            table(&mut out, rest);
            out.push_str("</details>\n\n");
        }
    }
    hot_lines(&mut out, &legend, view);
    details(&mut out, &legend, view, &mut has);
    let mut sentences = String::new();
    for &index in groups.iter().flat_map(|group| &group.marks) {
        let (mark, shown) = (&snapshot.marks[index], shares.shown(&snapshot.marks[index]));
        let has_details = view.has_details(mark);
        let sentence =
            if has_details { coverage::sentence(mark, &shown) } else { coverage::without_skipped(mark, &shown) };
        if let Some(sentence) = sentence {
            _ = writeln!(sentences, "- {}: {}", code(&labels[index]), sentence_in_markdown(&sanitize(&sentence)));
        }
    }
    sentences += &lines("- ", legend.skipped());
    let [has_estimates, has_noise] = has;
    let has_column = |head| columns.iter().any(|column| column.head == head);
    let values =
        legend.values(view.sort, has_column, false, |flag| if flag == NEAR { has_noise } else { has_estimates });
    out + &sentences + &lines("- ", values) + &lines("- ", legend.rest(view.details.as_ref()))
}

/// The hottest lines of the marks that have a row, and functions outside of marks.
fn hot_lines(out: &mut String, Legend { snapshot, groups, labels, .. }: &Legend<'_>, view: &View) {
    if snapshot.sampled().is_empty() {
        return;
    }
    let mut hot_lines = HotLines::new(snapshot, view.reads_sources);
    let mut rows = Vec::new();
    for &index in groups.iter().flat_map(|group| &group.marks[..view.rows(group.marks.len())]) {
        rows.extend(hot_lines.of(index, view).into_iter().map(|row| (labels[index].clone(), row)));
    }
    sampled(out, "hottest lines", rows);
    for Outside { sentence, functions } in hot_lines.outside() {
        _ = writeln!(out, "{}\n", sentence_in_markdown(&sentence));
        sampled(out, "function", functions.into_iter().map(|row| (row.function.clone(), row)).collect());
    }
}

/// A table of samples. The first of several rows with the same name has it.
fn sampled(out: &mut String, head: &str, rows: Vec<(String, Row)>) {
    /// Columns of source text.
    const TEXT: usize = 100;
    if rows.is_empty() {
        return;
    }
    let has_events = rows.iter().any(|(_, row)| !row.event.is_empty());
    let has_text = rows.iter().any(|(_, row)| !row.text.is_empty());
    let shown = |cells: [&str; 5]| -> Vec<String> {
        let is_shown = [true, true, has_events, true, has_text];
        cells.into_iter().zip(is_shown).filter(|(_, is_shown)| *is_shown).map(|(cell, _)| cell.to_owned()).collect()
    };
    let mut push = |cells: [&str; 5]| row(out, shown(cells).into_iter());
    push([head, "share", "event", "line", "source"]);
    push(["---", "---:", "---", "---", "---"]);
    let mut before = String::new();
    for (name, Row { share, event, place, around, text, .. }) in rows {
        let first = if name == before { String::new() } else { code_in_cell(&name) };
        let text = if text.is_empty() { text } else { code_in_cell(&beginning(&text, TEXT)) };
        push([&first, &escape_markdown(&share), &escape_markdown(&event), &escape_markdown(&(place + &around)), &text]);
        before = name;
    }
    out.push('\n');
}

/// A row for each event of the marks that the view shows in detail.
fn details(out: &mut String, legend: &Legend<'_>, view: &View, has: &mut [bool; 2]) {
    let Legend { snapshot, shares, labels, .. } = legend;
    let marks = details::chosen(legend, view);
    if marks.is_empty() {
        return;
    }
    let first = column::COLUMNS.into_iter().filter(|column| column.head == CALLS);
    let columns: Vec<Column> = first.chain(details::columns().filter(|column| column.is_shown(LIKE))).collect();
    heads(out, &["details", "event"], &columns);
    for index in marks {
        let (mark, name) = (&snapshot.marks[index], code_in_cell(&labels[index]));
        let shown = shares.shown(mark);
        let events = shown.iter().copied().map(Some).chain(shown.is_empty().then_some(None));
        for values in events {
            let cells = cells(&columns, &RowValues::new(mark, values, shares), has);
            let event = values.map_or_else(|| "–".to_owned(), |values: &Values| code_in_cell(&sanitize(&values.event)));
            row(out, [name.clone(), event.clone()].into_iter().chain(cells));
            for (what, calls, values) in values.into_iter().flat_map(|values| unfinished::rows(mark, values, shares)) {
                let of_row = RowValues::new(mark, Some(&values), shares).with_calls(calls);
                let cells = self::cells(&columns, &of_row, has);
                row(out, [name.clone(), format!("{event}{what}")].into_iter().chain(cells));
            }
        }
    }
    out.push('\n');
}

/// The heads of a table: some of text, and those of the columns.
fn heads(out: &mut String, texts: &[&str], columns: &[Column]) {
    let heads = columns.iter().map(|column| column.head);
    row(out, texts.iter().copied().chain(heads).map(str::to_owned));
    let aligned = columns.iter().map(|_| "---:");
    row(out, texts.iter().map(|_| "---").chain(aligned).map(str::to_owned));
}

fn cells(columns: &[Column], row: &RowValues<'_>, has: &mut [bool; 2]) -> Vec<String> {
    let cell = |column: &Column| {
        let cell: Quantity = (column.cell)(row);
        for (has, flag) in has.iter_mut().zip([ESTIMATE, NEAR]) {
            *has |= cell.number.starts_with(flag);
        }
        escape_markdown(&cell.to_string())
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

/// Sentences of the legend, each with a prefix.
fn lines(prefix: &str, sentences: impl IntoIterator<Item = String>) -> String {
    let mut out = String::new();
    for sentence in sentences {
        _ = writeln!(out, "{prefix}{}", sentence_in_markdown(&one_line(&sentence)));
    }
    out
}

/// A code span in a table's cell: there, a `|` is escaped before code spans are parsed.
fn code_in_cell(name: &str) -> String {
    code(name).replace('|', "\\|")
}

/// A code span outside of tables. Backticks need a longer fence.
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
    format!("{fence}{gap}{name}{gap}{fence}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::source_lines::tests::Project;
    use crate::report::tests::sample::{self, mark, snapshot, values};

    fn render(snapshot: &Snapshot) -> String {
        super::render(snapshot, &View::new(100))
    }

    #[test]
    fn a_mark_is_a_row_and_sentences_follow() {
        assert_eq!(render(&sample::time_only()), include_str!("tests/tables/time_markdown.txt"));
    }

    #[test]
    fn hottest_lines_and_functions_outside_of_marks_are_tables() {
        let view = View { reads_sources: true, ..View::new(100) };
        let report = super::render(&Project::new("markdown").sampled(), &view);
        let expected = "\
| hottest lines | share | line | source |
| --- | ---: | --- | --- |
| `parse_line` | 60 % ± 3 | src/main.rs:12 | `let words = line.split(\\|c: char\\| \
!c.is_alphanumeric()).filter(\\|word\\| !word.is_empty());` |
|  | 28 % ± 3 | src/main.rs:14 | `*counts.entry(word.to_owned()).or_default() += 1;` |
|  | 9 % ± 2 | library/alloc/src/string.rs:2203 in alloc::string::String::clone |  |
| `run` | 91 % ± 5 | src/main.rs:40 in wordcount::main | `run(&arguments)` |

outside marks: 28 % ± 2 of all samples; consider marking (in and outside marks)

| function | share | line | source |
| --- | ---: | --- | --- |
| `Words::read` | 11 % ± 1 | src/words.rs:31, mostly thread wordcount | `file.read_to_string(&mut self.text)?;` |
| `__memmove_avx_unaligned` | 6 % ± 1 | no known caller to mark, thread reader-\\* |  |

";
        assert!(report.contains(expected), "{report}");
        assert!(report.contains("\n- Lines below a mark: "), "{report}");
        let report = render(&sample::sampled_twice());
        assert!(report.contains("| hottest lines | share | event | line |\n"), "{report}");
        assert!(report.contains("|  | 89 % ± 5 | cache-misses | src/main.rs:14 |\n"), "{report}");
    }

    #[test]
    fn marks_beyond_the_hottest_are_folded() {
        let report = super::render(&sample::typical(), &View { top: 1, ..View::new(100) });
        let (shown, folded) = report.split_once("<details><summary>and 2 more marks, ").expect("folded marks");
        assert!(shown.contains("| `parse\\_line`") || shown.contains("| `parse_line` |"), "{report}");
        assert!(folded.contains("| `run` |") && folded.contains("| `lexer::next` |"), "{report}");
        assert!(folded.contains("|\n\n</details>\n\n- `"), "{report}");
    }

    #[test]
    fn details_have_a_row_for_each_event() {
        let details = Some(crate::settings::Filter::default().on("parse_line"));
        let report = super::render(&sample::typical(), &View { details, ..View::new(100) });
        let rows: Vec<&str> = report.lines().filter(|line| line.starts_with("| `parse_line` | `")).collect();
        assert_eq!(rows.len(), 3, "{report}");
        assert!(
            rows[0].starts_with("| `parse_line` | `time` | 4.21 M | 68.5 % | 68.5 % | 3.10 s | 737 ns |"),
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
        assert_eq!([code("|a|b"), code_in_cell("|a|b")], ["`|a|b`", "`\\|a\\|b`"]);
        assert_eq!(code("a``b`c"), "```a``b`c```");
        assert_eq!(code("`a"), "`` `a ``");
        assert_eq!(code(""), "`  `");
    }

    #[test]
    fn a_bar_in_a_name_is_escaped_in_tables_only() {
        let mut bar = mark("a|b", 3);
        bar.values = vec![Values { unmeasured: 1, ..values("time", 2, 9) }];
        let report = render(&snapshot(&[], &[bar]));
        assert!(report.contains("| `a\\|b` |") && report.contains("- `a|b`: 1 of 3 calls unmeasured\n"), "{report}");
    }

    #[test]
    fn every_row_of_any_snapshot_has_the_same_number_of_cells() {
        for snapshot in sample::nasty() {
            let mut before = 0;
            for line in render(&snapshot).lines() {
                let bars = line.replace("\\|", "").matches('|').count();
                let is_row = line.starts_with('|');
                assert!(!is_row || before == 0 || bars == before, "{line}");
                before = if is_row { bars } else { 0 };
                assert!(!line.contains(char::is_control), "{line:?}");
            }
        }
    }

    #[test]
    fn a_program_that_called_no_mark_has_a_report_without_a_table() {
        let head = "perfmark · wordcount · pid 4242 · ran 2.31 s · 4 threads\n\n";
        let never = snapshot(&[], &[mark("parse", 0)]);
        assert_eq!(render(&never), format!("{head}no mark was called\n\n- never called: parse\n"));
        let outside = render(&sample::sampled_outside(false));
        assert!(outside.contains("\nthe filter turns all marks off\n\noutside marks: 99 % ± 1 of"), "{outside}");
        assert!(
            outside.contains("| `Words::read` | 38 % ") && outside.contains("not shown. 136 samples of"),
            "{outside}"
        );
        let mut bare = mark("bare", 3);
        assert!(render(&snapshot(&[], &[bare.clone()])).contains("| `bare` | – | – | – | 3 | – |"));
        bare.values = vec![values("time", 0, 0)];
        assert!(render(&snapshot(&[], &[bare])).contains("| `bare` | – | – | – | 3 | – |"));
    }
}
