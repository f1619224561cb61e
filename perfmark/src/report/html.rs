//! The report for a browser: one self-contained page.
//!
//! It contains the JSON report with the source text around hot lines, which can be extracted and read back, and the
//! text of the table's legend, so that both agree. Only the sum of one event is left out if the reader can choose
//! another. A script displays them: nothing from a snapshot is ever part of the page's markup. The page's security
//! policy does not let it load anything or run another script.

mod samples;

use std::borrow::Cow;

use super::column::{COLUMNS, RowValues, SPREAD};
use super::json::{self, Json, Writer, objects};
use super::legend::{self, Legend};
use super::quantity::{self, ESTIMATE, IMPOSSIBLE, NEAR};
use super::share::{Group, Shares, is_called};
use super::source_text::embed;
use super::text::one_line;
use super::view::Sort;
use super::{coverage, ratio, sampling};
use crate::snapshot::{Mark, Snapshot, StackFrame};
use samples::Sampling;

const PAGE: &str = include_str!("html/page.html");
const STYLE: &str = include_str!("html/style.css");
const SCRIPT: &str = concat!(
    include_str!("html/quantity.js"),
    include_str!("html/data.js"),
    include_str!("html/samples.js"),
    include_str!("html/plot.js"),
    include_str!("html/table.js"),
    include_str!("html/source.js"),
    include_str!("html/detail.js"),
    include_str!("html/trees.js"),
    include_str!("html/flame.js"),
    include_str!("html/page.js"),
);

/// The page, ending with a newline. It can show each of the `runs` in place of the snapshot. `reads_sources` adds the
/// text of sampled lines.
pub(super) fn render(snapshot: &Snapshot, runs: &[(String, Cow<'_, Snapshot>)], reads_sources: bool) -> String {
    let mut data = data_of(snapshot, 0, reads_sources);
    for ((_, run), number) in runs.iter().zip(1..) {
        data += &data_of(run, number, reads_sources);
    }
    let names: Vec<&String> = runs.iter().map(|(name, _)| name).collect();
    let names = in_script(&json::render(&names));
    let mut page = String::with_capacity(PAGE.len() + STYLE.len() + SCRIPT.len() + data.len() + names.len());
    let mut rest = PAGE;
    for (placeholder, text) in [("{{style}}", STYLE), ("{{data}}", &data), ("{{runs}}", &names), ("{{script}}", SCRIPT)]
    {
        let (before, after) = rest.split_once(placeholder).unwrap_or((rest, ""));
        page.extend([before, text]);
        rest = after;
    }
    page + rest
}

/// The two scripts of a snapshot, which are data.
fn data_of(snapshot: &Snapshot, number: usize, reads_sources: bool) -> String {
    let mut snapshot = snapshot.for_known_calls();
    if !snapshot.sampled().is_empty() {
        embed(snapshot.to_mut(), reads_sources);
    }
    let data = in_script(&json::render(&*snapshot));
    let words = in_script(&json::render(&Words::new(&snapshot, has_large(&data))));
    let script =
        |id: &str, json: &str| format!("<script type=\"application/json\" id=\"{id}-{number}\">{json}</script>\n");
    script("snapshot", &data) + &script("words", &words)
}

/// Escapes JSON for a `<script>`, so that no text in it can end the script or begin a comment. The escaped characters
/// occur in strings only.
fn in_script(json: &str) -> String {
    let mut text = String::with_capacity(json.len() + json.len() / 64);
    for c in json.chars() {
        match c {
            '<' => text.push_str("\\u003c"),
            '\u{2028}' => text.push_str("\\u2028"),
            '\u{2029}' => text.push_str("\\u2029"),
            _ => text.push(c),
        }
    }
    text
}

/// Whether there may be a number beyond 2^53, which JavaScript would round: one with at least 16 digits.
fn has_large(json: &str) -> bool {
    json.as_bytes()
        .chunk_by(|one, next| one.is_ascii_digit() == next.is_ascii_digit())
        .any(|run| run.len() >= 16 && run[0].is_ascii_digit())
}

/// The page's data besides the snapshot.
struct Words<'a> {
    /// The marks' labels, in their order.
    labels: Vec<String>,
    /// The sentences about calls that the marks' values leave out.
    coverage: Vec<Option<String>>,
    /// Instructions per cycle of each mark.
    ipc: Vec<Option<String>>,
    /// The share of each mark's time that it was off the CPU, in percent.
    off_cpu: Vec<Option<String>>,
    /// The events of each mark whose estimates cannot be true.
    impossible: Vec<Vec<String>>,
    /// What shares are relative to, by event; it may exceed 64 bits.
    denominators: Vec<(&'a str, u128)>,
    /// The events of which no share can be true.
    impossible_sums: Vec<&'a str>,
    /// The tables of the text report.
    groups: Vec<Group<'a>>,
    /// Why the values may mislead.
    warnings: Vec<String>,
    /// How to read the values, and what they leave out.
    legend: Vec<String>,
    samples: Vec<Sampling>,
    /// What samples in perfmark's own code are called.
    probe: &'static str,
    has_large: bool,
    /// The flags before values.
    symbols: Vec<String>,
}

objects! {
    Words<'_> {
        labels, coverage, ipc, off_cpu as "offCpu", impossible, denominators by Denominators,
        impossible_sums as "impossibleSums", groups, warnings, legend, samples, probe,
        has_large as "hasLarge", symbols
    }
    Group<'_> { event, marks }
}

impl<'a> Words<'a> {
    fn new(snapshot: &'a Snapshot, has_large: bool) -> Self {
        let legend = Legend::new(snapshot, Sort::default(), usize::MAX);
        let shares = &legend.shares;
        let denominators =
            || snapshot.events.iter().map(|event| (event.name.as_str(), shares.denominator(&event.name)));
        let coverage = snapshot.marks.iter().map(|mark| {
            let shown = shares.shown(mark);
            if is_called(mark) { coverage::without_skipped(mark, &shown) } else { None }
        });
        Self {
            coverage: coverage.collect(),
            ipc: snapshot.marks.iter().map(ratio::instructions_per_cycle).collect(),
            off_cpu: snapshot.marks.iter().map(off_cpu).collect(),
            impossible: snapshot.marks.iter().map(|mark| impossible(mark, shares)).collect(),
            denominators: denominators().map(|(event, whole)| (event, whole.sum)).collect(),
            impossible_sums: denominators().filter(|(_, sum)| sum.is_impossible).map(|(event, _)| event).collect(),
            warnings: warnings(&legend),
            legend: legend_of(&legend),
            samples: samples::samplings(snapshot),
            probe: StackFrame::PROBE,
            groups: legend.groups,
            labels: legend.labels,
            has_large,
            symbols: [ESTIMATE, NEAR, IMPOSSIBLE].map(String::from).into(),
        }
    }
}

fn off_cpu(mark: &Mark) -> Option<String> {
    let (of, to) = ratio::off_cpu_of_time(mark)?;
    Some(quantity::percent(of, to.unsigned_abs().into()).number)
}

fn impossible(mark: &Mark, shares: &Shares<'_>) -> Vec<String> {
    let values = mark.values.iter().filter(|values| shares.is_impossible(values));
    values.map(|values| values.event.clone()).collect()
}

struct Denominators<'a>(&'a [(&'a str, u128)]);

impl Json for Denominators<'_> {
    fn write(&self, out: &mut Writer) {
        out.level(['{', '}'], |out| {
            for (event, sum) in self.0 {
                out.field(event, &sum.to_string());
            }
        });
    }
}

fn warnings(legend: &Legend<'_>) -> Vec<String> {
    let of_marks =
        [legend.busy(), legend.impossible(), legend.cost()].into_iter().filter(|_| !legend.groups.is_empty());
    of_marks.flatten().map(|sentence| one_line(&sentence)).chain(sampling::biased(legend.snapshot)).collect()
}

/// The legend's sentences.
fn legend_of(legend: &Legend<'_>) -> Vec<String> {
    let Legend { snapshot, shares, .. } = legend;
    let mut sentences = Vec::new();
    if legend.groups.is_empty() {
        sentences.push(legend::no_rows(snapshot).to_owned());
    } else {
        sentences.extend(legend.budget().into_iter().chain(legend.skipped()));
        sentences.extend(shares.leading().map(|_| legend.share(true) + legend.mode()));
        sentences.extend(legend.estimates(has(snapshot, shares, ESTIMATE)));
        sentences.extend(legend.probes(has(snapshot, shares, NEAR)));
    }
    sentences.extend(legend.events(true).into_iter().chain(legend.never_called()));
    sentences.extend(legend.not_in_graph().into_iter().chain(legend.notes(None)));
    sentences.iter().map(|sentence| one_line(sentence)).collect()
}

/// Whether some value has this flag.
fn has(snapshot: &Snapshot, shares: &Shares<'_>, flag: char) -> bool {
    let values = snapshot.marks.iter().flat_map(|mark| mark.values.iter().map(move |values| (mark, values)));
    let mut rows = values.map(|(mark, values)| RowValues::new(mark, Some(values), shares));
    let columns = || COLUMNS.iter().filter(|column| column.head != SPREAD);
    rows.any(|row| columns().any(|column| (column.cell)(&row).number.starts_with(flag)))
}

#[cfg(test)]
mod tests {
    #[cfg(feature = "serde")]
    mod pages;

    use super::*;
    use crate::report::tests::sample;
    use serde_json::Value;

    /// Names that a browser might interpret.
    const HOSTILE: [&str; 10] = [
        "<img src=x onerror=document.title='broken'>",
        "</script><script>document.title='broken'</script>",
        "<!--<script>",
        "</ScRiPt x>",
        "\u{2028}\u{2029}\u{202e}\t]]>",
        "&lt;b&gt;&amp;",
        "\"'`><svg onload=document.title='broken'>",
        "__proto__",
        "constructor",
        "{{words}}{{snapshot}}",
    ];

    /// What the page has of its only snapshot.
    fn script<'a>(page: &'a str, id: &str) -> &'a str {
        of_id(page, &format!("{id}-0"))
    }

    /// The content of the page's script with that id.
    fn of_id<'a>(page: &'a str, id: &str) -> &'a str {
        let begin = format!("<script type=\"application/json\" id=\"{id}\">");
        let (_, rest) = page.split_once(&begin).expect("the script");
        rest.split_once("</script>").expect("its end").0
    }

    fn read(json: &str) -> Value {
        serde_json::from_str(json).expect("JSON")
    }

    /// The page without the data of the snapshot.
    fn frame(page: &str) -> String {
        page.replacen(script(page, "snapshot"), "", 1).replacen(script(page, "words"), "", 1)
    }

    #[test]
    fn the_page_holds_the_json_report_and_the_rest_of_it_is_the_same_for_every_snapshot() {
        let empty = frame(&render(&Snapshot::default(), &[], false));
        for snapshot in sample::nasty() {
            let page = render(&snapshot, &[], false);
            assert_eq!(read(script(&page, "snapshot")), read(&json::render(&snapshot)));
            let words = read(script(&page, "words"));
            for key in ["labels", "coverage", "ipc", "offCpu"] {
                assert_eq!(words[key].as_array().expect("a list").len(), snapshot.marks.len(), "{key}");
            }
            assert_eq!(frame(&page), empty);
        }
    }

    #[test]
    fn a_page_of_several_runs_holds_each_under_its_name() {
        let runs = sample::nasty().into_iter().take(3).map(|run| ("</script>".to_owned(), Cow::Owned(run)));
        let runs: Vec<_> = runs.collect();
        let page = render(&Snapshot::default(), &runs, false);
        for (id, run) in [("snapshot-1", &runs[0].1), ("snapshot-3", &runs[2].1)] {
            assert_eq!(read(of_id(&page, id)), read(&json::render(&**run)), "{id}");
        }
        assert_eq!(of_id(&page, "runs").matches("\\u003c/script>").count(), 3);
    }

    #[test]
    fn no_name_ends_the_data_or_begins_a_comment() {
        let names = HOSTILE;
        let marks: Vec<_> = names.iter().map(|name| sample::mark(name, 1)).collect();
        let mut snapshot = sample::snapshot(&[], &marks);
        snapshot.program = names.concat();
        snapshot.notes = names.map(str::to_owned).into();
        let page = render(&snapshot, &[], false);
        assert_eq!(frame(&page), frame(&render(&Snapshot::default(), &[], false)));
        for id in ["snapshot", "words"] {
            assert!(!script(&page, id).contains(['<', '\u{2028}', '\u{2029}']));
        }
        let snapshot = read(script(&page, "snapshot"));
        let marks = snapshot["marks"].as_array().expect("a list").iter();
        assert!(marks.map(|mark| &mark["name"]).eq(&names), "{snapshot}");
    }

    #[test]
    fn the_legend_agrees_with_the_tables() {
        let words = Words::new(&sample::time_only(), false).legend;
        assert_eq!(
            words[0],
            "self: share of the 5.21 s measured in all marks, without marked callees; total: with them. Other values \
             include marked callees."
        );
        assert!(words[2].starts_with("not available: cycles, instructions — perf_event_open said ENOENT: no PMU"));
        assert_eq!(words[3], "note: no requested event can be counted here, so `time` was recorded");
        assert_eq!(Words::new(&sample::snapshot(&[], &[]), false).legend, ["the program has no marks"]);
        let of_several = &Words::new(&sample::typical(), false).legend[0];
        assert!(of_several.starts_with("self: share of everything measured in marks,"), "{of_several}");
    }

    #[test]
    fn browsers_do_not_restore_choices_when_the_page_is_loaded_again() {
        let fields = || PAGE.split(['<', '>']).filter(|tag| tag.starts_with("input") || tag.starts_with("select"));
        assert_eq!(fields().count(), 7);
        for field in fields() {
            assert!(field.contains(" autocomplete=\"off\""), "{field}");
        }
    }

    #[test]
    fn the_page_names_no_address_and_makes_no_markup_of_text() {
        // `ci/check-html` shows that the digest is this script's: browsers run no other.
        assert!(PAGE.contains("default-src 'none'; script-src 'sha256-"));
        for text in [PAGE, STYLE, &SCRIPT.replace("http://www.w3.org/2000/svg", "")] {
            assert!(!text.contains("http:") && !text.contains("https:") && !text.contains("//www"), "an address");
        }
        for sink in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function("] {
            assert!(!SCRIPT.contains(sink), "{sink}");
        }
        assert!(!SCRIPT.contains("</") && !SCRIPT.contains("<!--"));
    }
}
