//! The report for people: one row a mark, with the values of one event.
//!
//! Most reports have one event that all marks recorded. Marks without it are in a table of their own below.

use super::column::{self, RowValues};
use super::grid::{Grid, Line, Rest};
use super::hot_lines::{HotLines, Outside};
use super::legend::{self, Legend};
use super::share::{Group, Shares};
use super::style::{Page, Style};
use super::text::wrap;
use super::view::View;
use super::{details, sampling};
use crate::snapshot::Snapshot;
use crate::text::sanitize;

pub(super) fn render(snapshot: &Snapshot, view: &View) -> String {
    let columns = view.width();
    let legend = Legend::new(snapshot, view.sort, columns);
    let mut page = Page::default();
    let wrapped = |out: &mut String, sentences: Vec<String>| {
        for sentence in &sentences {
            wrap(out, sentence, 0, columns);
        }
    };
    page.plain().extend([&legend::head(snapshot, columns), "\n"]);
    wrapped(page.plain(), legend.above());
    if legend.groups.is_empty() {
        page.plain().extend([legend::no_rows(snapshot), "\n"]);
        if !snapshot.sampled().is_empty() {
            of_marks(&legend, view).paint(&mut page);
            page.styled(Style::Dim, |out| wrapped(out, sampling::legend(snapshot).into_iter().collect()));
        }
    } else {
        page.plain().push('\n');
        let table = of_marks(&legend, view);
        table.paint(&mut page);
        let detailed = details::of_marks(&legend, view);
        if let Some((detailed, _)) = &detailed {
            page.plain().push('\n');
            detailed.paint(&mut page);
        }
        page.plain().push('\n');
        let grids = || [Some(&table), detailed.as_ref().map(|(grid, _)| grid)].into_iter().flatten();
        let has_column = |head| grids().any(|grid| grid.has_column(head));
        let has = |flag| grids().any(|grid| grid.has(flag));
        let has_clock = detailed.as_ref().is_some_and(|(_, has_clock)| *has_clock);
        page.styled(Style::Dim, |out| wrapped(out, legend.values(view.sort, has_column, has_clock, has)));
        if detailed.is_none() {
            page.styled(Style::Red, |out| {
                wrapped(out, legend.unmeasured().into_iter().chain(legend.with_other_events()).collect());
            });
            page.styled(Style::Dim, |out| wrapped(out, legend.unfinished().chain(legend.details()).collect()));
        }
    }
    page.styled(Style::Dim, |out| wrapped(out, legend.rest(view.details.as_ref())));
    page.finish(view.has_color)
}

/// The head of the first column.
pub(super) fn head(group: &Group<'_>) -> String {
    group.event.map_or_else(|| "mark".to_owned(), |event| format!("{} by mark", sanitize(event)))
}

/// The marks of a group that have no row, if there are any.
pub(super) fn rest(group: &Group<'_>, shares: &Shares<'_>, view: &View) -> Option<Rest> {
    let rest = &group.marks[view.rows(group.marks.len())..];
    (!rest.is_empty()).then(|| Rest { marks: rest.len(), own: shares.own_part(group.event, rest) })
}

fn of_marks(Legend { snapshot, shares, groups, labels, .. }: &Legend<'_>, view: &View) -> Grid {
    let row = |index: usize, group: &Group<'_>| RowValues::of_mark(&snapshot.marks[index], group.event, shares);
    let shown = |group: &Group<'_>| group.marks[..view.rows(group.marks.len())].to_vec();
    let rows = groups.iter().flat_map(|group| shown(group).into_iter().map(move |index| row(index, group)));
    let columns = column::of_marks(&rows.collect::<Vec<_>>());
    let mut hot_lines = HotLines::new(snapshot, view.reads_sources);
    let mut lines = Vec::new();
    for group in groups {
        lines.push(Line::Head(head(group)));
        for index in shown(group) {
            let row = row(index, group);
            lines.push(Line::Row {
                label: labels[index].clone(),
                cells: columns.iter().map(|column| (column.cell)(&row)).collect(),
                is_measured: row.values.is_some(),
            });
            lines.push(Line::Sampled(hot_lines.of(index, view)));
        }
        lines.extend(rest(group, shares, view).map(Line::Rest));
    }
    for Outside { sentence, functions } in hot_lines.outside() {
        lines.extend([Line::Note { text: sentence, is_lacking: false }, Line::Sampled(functions)]);
    }
    Grid::new(columns, lines, view)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::source_lines::tests::Project;
    use crate::report::tests::sample::{self, mark, snapshot, values};
    use crate::report::text::width;
    use crate::report::view::Sort;
    use crate::settings::Filter;
    use crate::snapshot::{Read, Unit};

    #[test]
    fn details_have_a_row_for_each_event_of_the_marks_that_are_chosen() {
        let details = Some(Filter::default().on("parse_line").on("run"));
        let report = render(&sample::typical(), &View { details, ..View::new(80) });
        assert_eq!(report, include_str!("tests/tables/details_80.txt"));
    }

    #[test]
    fn a_sampled_mark_has_its_hottest_lines() {
        let project = Project::new("table");
        assert_eq!(render(&project.sampled(), &View::new(80)), include_str!("tests/tables/sampled_80.txt"));
        let report = render(&project.sampled(), &View { reads_sources: true, ..View::new(100) });
        assert!(report.contains(include_str!("tests/tables/sampled_100.txt")), "{report}");
    }

    #[test]
    fn of_several_events_each_line_names_its_own() {
        let report = render(&sample::sampled_twice(), &View::new(100));
        assert!(report.contains(include_str!("tests/tables/sampled_twice.txt")), "{report}");
    }

    #[test]
    fn without_names_there_are_no_lines_and_the_report_says_how_to_name_them() {
        let mut snapshot = sample::sampled();
        for samples in &mut snapshot.samples {
            samples.set_names::<crate::snapshot::Frame>(&std::collections::BTreeMap::new());
            samples.lost = 99;
        }
        let report = render(&snapshot, &View::new(200));
        let note = "\n487 samples of cpu-clock, 99 a second. They are addresses without lines: name them by \
                    `perfmark::symbols::Symbols`";
        assert!(report.contains(note) && !report.contains("main.rs"), "{report}");
        assert!(report.contains("\nnote: 99 samples were lost (16.9 %); shares have the flag ≈"), "{report}");
    }

    #[test]
    fn marks_of_one_event_have_no_columns_of_counters() {
        assert_eq!(render(&sample::time_only(), &View::new(100)), include_str!("tests/tables/time_100.txt"));
    }

    /// Marks `m00` to `m29`, of which `m00` has the largest self.
    fn thirty() -> Snapshot {
        let events =
            [sample::event("time", Unit::Ns, Read::Ticks), sample::event("page-faults", Unit::Count, Read::Syscall)];
        let mut marks: Vec<_> = (0..30).map(|number| mark(&format!("m{number:02}"), 10 + number)).collect();
        for (mark, number) in marks.iter_mut().zip(0..) {
            mark.values = vec![values("time", 10, (30 - number) * 1_000)];
        }
        marks.push(mark("fault", 3));
        marks[30].values = vec![values("page-faults", 3, 12)];
        snapshot(&events, &marks)
    }

    fn names_in(report: &str) -> Vec<&str> {
        report
            .lines()
            .map(|line| line.split(' ').next().unwrap_or_default())
            .filter(|name| name.starts_with('m') && name.len() == 3)
            .collect()
    }

    #[test]
    fn the_hottest_have_rows_and_the_others_are_counted() {
        let rows = |view: &View| names_in(&render(&thirty(), view)).len();
        let view = View::new(80);
        assert_eq!(rows(&view), 20);
        assert!(render(&thirty(), &view).contains("\nand 10 more marks, 11.8 % of self\n"));
        assert_eq!(rows(&View { top: 29, ..view.clone() }), 30, "a row is as short as the line");
        assert_eq!(rows(&View { top: 0, ..view.clone() }), 0);
        assert_eq!(rows(&View { top: usize::MAX, ..view }), 30);
    }

    #[test]
    fn rows_are_in_the_order_that_is_chosen() {
        let first = |sort| names_in(&render(&thirty(), &View { sort, ..View::new(80) }))[0].to_owned();
        assert_eq!([Sort::SelfCost, Sort::Calls, Sort::P99].map(first), ["m00", "m29", "m00"]);
    }

    #[test]
    fn marks_without_the_event_that_orders_the_others_have_a_table_of_their_own() {
        let report = render(&thirty(), &View::new(80));
        assert!(report.contains("\npage-faults by mark  "), "{report}");
        let row = report.lines().find(|line| line.starts_with("fault ")).expect("a row");
        assert!(row.contains(" 100.0 % ") && row.trim_end().ends_with('8'), "{row}");
    }

    #[test]
    fn a_program_that_called_no_mark_has_a_report_of_two_lines() {
        let none = snapshot(&[], &[mark("parse", 0)]);
        let head = "perfmark · wordcount · pid 4242 · ran 2.31 s · 4 threads\n";
        assert_eq!(render(&none, &View::new(80)), format!("{head}no mark was called\nnever called: parse\n"));
        assert_eq!(render(&snapshot(&[], &[]), &View::new(80)), format!("{head}the program has no marks\n"));
    }

    #[test]
    fn samples_outside_of_marks_are_shown_if_no_mark_was_called() {
        let report = render(&sample::sampled_outside(true), &View::new(100));
        assert!(report.contains("\nno mark was called\noutside marks: 99 % ± 1 of all samples; consider"), "{report}");
        assert!(
            report.contains("Words::read") && report.contains("not shown. 136 samples of cpu-clock, 99 a"),
            "{report}"
        );
        let off = render(&sample::sampled_outside(false), &View::new(100));
        assert!(off.contains("\nthe filter turns all marks off\noutside marks: ") && !off.contains("called"), "{off}");
    }

    #[test]
    fn a_functions_name_is_cut_before_the_number_of_its_line() {
        let mut snapshot = sample::sampled();
        let clone = snapshot.samples[0].frames.iter_mut().find(|frame| frame.function.contains("clone"));
        clone.expect("a frame").function = format!("a::{}::end", "very_long_name".repeat(9));
        let table = render(&snapshot, &View::new(100));
        assert!(table.contains("library/alloc/src/string.rs:2203 in a::"), "{table}");
        assert!(table.contains("::end\n"), "{table}");
    }

    #[test]
    fn a_name_is_complete_where_there_is_room() {
        let name = "a_rather_long_name_".repeat(5);
        let mut long = mark(&name, 1);
        long.values = vec![values("time", 1, 1)];
        let long = snapshot(&[], &[long]);
        let unlimited = View { is_limited: false, ..View::new(100) };
        for (view, is_complete) in [(View::new(100), false), (View::new(200), true), (unlimited, true)] {
            let report = render(&long, &view);
            assert_eq!(report.contains(&name), is_complete, "{report}");
            assert!(report.contains("  p50  "), "columns of the default width stay: {report}");
        }
    }

    #[test]
    fn every_line_fits_whatever_the_snapshot_holds() {
        for (index, snapshot) in sample::nasty().iter().enumerate() {
            for columns in [80, 99, 100, 120, 140, 200] {
                for details in [None, Some(Filter::default())] {
                    let text = render(snapshot, &View { details, top: 500, ..View::new(columns) });
                    for line in text.lines() {
                        assert!(width(line) <= columns, "{index} at {columns}: {} of {line}", width(line));
                        assert!(!line.contains(char::is_control), "{line:?}");
                    }
                }
            }
        }
    }
}
