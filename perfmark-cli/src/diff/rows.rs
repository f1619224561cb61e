//! The common parts of the formats for people: rows of values, and remarks.

use super::compare::{Compared, Comparison, Pair, Presence};
use super::gate::GateResult;
use super::judge::{Verdict, WORTH_REPORTING};
use super::number::{change, grouped, names, percent, quantity};
use super::side::Design;
use perfmark::text::{counted, exact};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// An event's cells: event with statistic, base, head, change, change of self, and the smallest rise that would have
/// been found.
pub(crate) type Row = [String; 6];

pub(crate) const HEADER: [&str; 6] = ["per call", "base", "head", "change", "self", FINDS];
/// The head of the last column.
const FINDS: &str = "finds";

/// A mark's events, one row each.
pub(crate) fn rows(pair: &Pair, comparison: &Comparison) -> Vec<Row> {
    let row = |event: &Compared| -> Row {
        let name = format!("{} ({})", event.event, event.statistic.name());
        let Some(judgement) = event.judgement else {
            return [name, "–".into(), "–".into(), "not compared".into(), String::new(), String::new()];
        };
        let changed = match (judgement.verdict, change(judgement.base, judgement.head)) {
            (Verdict::TooFew(_), _) => "too few calls".into(),
            (Verdict::TooShort, _) => "too short".into(),
            (Verdict::NotInEachPair, _) => "not in each pair".into(),
            (Verdict::TooFewRuns(_), _) if !comparison.has_few_runs() => "too few runs".into(),
            (Verdict::Same | Verdict::TooFewRuns(_), Some(0.0)) => "=".into(),
            (Verdict::Same | Verdict::TooFewRuns(_), None) if judgement.head - judgement.base == 0.0 => "=".into(),
            (Verdict::Same | Verdict::TooFewRuns(_), Some(change)) => format!("~ {}", percent(change)),
            (_, Some(change)) => percent(change),
            (_, None) => "from 0".into(),
        };
        let own = event.own.map_or_else(String::new, |[before, after]| {
            let by = after - before;
            let is_same = by.abs() < 0.005 && by.abs() <= WORTH_REPORTING * before.abs().max(after.abs());
            if is_same { "=".into() } else { format!("{}{}", if by > 0.0 { "+" } else { "" }, grouped(by)) }
        });
        let finds = judgement.least.map_or_else(String::new, |least| format!("≥ {least:.1} %"));
        let value = |side: usize, value: f64| {
            format!("{}{}", if event.is_noise(side) { "~" } else { "" }, quantity(value, event.unit))
        };
        [name, value(0, judgement.base), value(1, judgement.head), changed, own, finds]
    };
    pair.events.iter().map(row).collect()
}

/// The columns: the last two only if some mark has a cell there.
pub(crate) fn columns(comparison: &Comparison) -> Vec<usize> {
    let rows: Vec<Row> = comparison.shown().flat_map(|pair| rows(pair, comparison)).collect();
    (0..HEADER.len()).filter(|&column| column < 4 || rows.iter().any(|row| !row[column].is_empty())).collect()
}

/// The most lines that are shown of a mark.
const MOST_LINES: usize = 3;

/// The lines of a mark that changed most: the place, and the shares of the samples in base and head.
pub(crate) fn lines(pair: &Pair) -> impl Iterator<Item = [String; 3]> {
    let has_one_event = pair.lines.windows(2).all(|lines| lines[0].sampling == lines[1].sampling);
    pair.lines.iter().take(MOST_LINES).map(move |line| {
        let place = if has_one_event { line.place() } else { format!("{} ({})", line.place(), line.sampling) };
        let [base, head] = line.shares();
        [place, base, head]
    })
}

/// The summary line.
pub(crate) fn summary(comparison: &Comparison, gates: &[GateResult]) -> String {
    let compared = comparison.marks.iter().filter(|pair| pair.is_compared()).count();
    let not_compared = comparison.labels(Presence::Both).len() - compared;
    let changed = comparison.changed().count();
    let mut text = format!("{} of {} changed", exact(changed as u64), counted(compared as u64, "mark"));
    let only = |side: usize| comparison.labels(Presence::Only(side)).len();
    for (marks, what) in [(not_compared, "not compared"), (only(0), "only in base"), (only(1), "only in head")] {
        match marks {
            0 => {}
            _ => _ = write!(text, ", {} {what}", exact(marks as u64)),
        }
    }
    let undecided = gates.iter().filter(|gate| gate.undecided.is_some()).count();
    if undecided > 0 {
        _ = write!(text, "; {undecided} of {} cannot be judged", counted(gates.len() as u64, "gate"));
    }
    match gates.iter().filter(|gate| !gate.failures.is_empty()).count() {
        _ if gates.is_empty() => {}
        0 if undecided > 0 => {}
        0 if gates.len() == 1 => text += "; the gate passed",
        0 => _ = write!(text, "; {} gates passed", gates.len()),
        failed => _ = write!(text, "; {failed} of {} failed", counted(gates.len() as u64, "gate")),
    }
    text
}

/// A remark about these marks, if there are any.
fn about<S: AsRef<str>>(what: &str, marks: impl IntoIterator<Item = S>) -> Option<String> {
    let mut marks = marks.into_iter().peekable();
    marks.peek()?;
    Some(format!("{what}: {}", names(marks)))
}

/// Remarks on the values, one line each.
pub(crate) fn remarks(comparison: &Comparison, gates: &[GateResult]) -> Vec<String> {
    let mut lines = Vec::new();
    for (presence, what) in [
        (Presence::Only(0), "only in base"),
        (Presence::Only(1), "only in head"),
        (Presence::CalledIn(0), "called in base, not in head"),
        (Presence::CalledIn(1), "called in head, not in base"),
        (Presence::OffIn(0), "called in head, turned off in base by the filter"),
        (Presence::OffIn(1), "called in base, turned off in head by the filter"),
        (Presence::Off, "turned off by the filter"),
        (Presence::NeverCalled, "never called"),
    ] {
        lines.extend(about(what, comparison.labels(presence)));
    }
    let both = comparison.marks.iter().filter(|pair| pair.presence == Presence::Both && pair.events.is_empty());
    lines.extend(about("not compared: neither side measured a call", both.map(|pair| &pair.label)));
    let calls = |[fewest, most]: [u64; 2]| {
        let number = |calls: u64| grouped(calls as f64);
        if fewest == most { number(most) } else { format!("{}–{}", number(fewest), number(most)) }
    };
    let called = comparison.marks.iter().filter(|pair| pair.calls_changed()).map(|pair| {
        let [base, head] = pair.calls.map(calls);
        format!("{} (base {base}, head {head})", pair.label)
    });
    lines.extend(about("different numbers of calls", called));
    let in_part = comparison.marks.iter().filter_map(|pair| {
        let [base, head] = pair.events.iter().find_map(|event| event.in_part.as_ref())?;
        Some(format!("{} (base {base}, head {head})", pair.label))
    });
    lines.extend(about("measured calls", in_part));
    // A note that is the same for many marks is one line.
    let mut notes: Vec<(String, Vec<&str>)> = Vec::new();
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    for pair in &comparison.marks {
        for event in &pair.events {
            for note in &event.notes {
                let note = format!("{}: {note}", event.event);
                let at = *known.entry(note.clone()).or_insert(notes.len());
                if at == notes.len() {
                    notes.push((note, Vec::new()));
                }
                notes[at].1.push(&pair.label);
            }
        }
    }
    lines.extend(notes.into_iter().map(|(note, marks)| format!("{note} ({})", names(&marks))));
    lines.extend(about_runs(comparison));
    if comparison.shown().any(|pair| !pair.lines.is_empty()) {
        let what = "share of the samples taken directly in the mark, ± its standard error";
        lines.push(format!("lines: {what}; the {MOST_LINES} that changed most, by more than 3 standard errors"));
    }
    let events = || comparison.shown().flat_map(|pair| &pair.events);
    if events().any(|event| event.is_noise(0) || event.is_noise(1)) {
        lines.push("~ before a value: no larger than the variation of the probe overhead".into());
    }
    let has_least = |event: &Compared| event.judgement.is_some_and(|judgement| judgement.least.is_some());
    if events().any(has_least) {
        let how_often =
            if comparison.design == Design::Paired { "; of times and cycles, in most such comparisons" } else { "" };
        lines.push(format!("{FINDS}: the smallest rise that would have been found{how_often}"));
    }
    for judged in gates {
        let gate = judged.gate.text();
        let mut line = format!("gate {gate}: {} judged", counted(judged.compared as u64, "mark"));
        if let Some(least) = judged.least {
            _ = write!(line, "; in those that did not change, a rise by {least:.1} % or more would have been found");
        }
        lines.push(line);
        lines.extend(judged.not_judged.iter().map(|marks| format!("gate {gate}: not judged: {marks}")));
    }
    lines.extend(comparison.notes.iter().cloned());
    lines
}

/// What the number and the order of the runs allow to say about values that vary from run to run.
fn about_runs(comparison: &Comparison) -> Option<String> {
    let ([base, head], is_paired) = (comparison.runs, comparison.design == Design::Paired);
    if is_paired && !comparison.has_few_runs() {
        let pairs = counted(base as u64, "pair");
        return Some(format!("{pairs} of runs; times are judged by a randomization test (perfmark run --help)"));
    }
    let events = comparison.marks.iter().flat_map(|pair| &pair.events);
    let of_few = events.filter(|event| matches!(event.verdict(), Some(Verdict::TooFewRuns(_))));
    let of_few: BTreeSet<&str> = of_few.map(|event| &*event.event).collect();
    (comparison.has_few_runs() && !of_few.is_empty()).then(|| {
        format!(
            "{}: not judged, because fewer than {} {} (base {base}, head {head}) do not show how much values vary",
            names(of_few),
            comparison.design.fewest_runs(),
            if is_paired { "pairs of runs" } else { "runs on a side" },
        )
    })
}

/// A short description of a side's files.
pub(crate) fn files(files: &[String]) -> String {
    match files {
        [] => "nothing".into(),
        [one] => one.clone(),
        [first, ..] => format!("{first} and {} more", files.len() - 1),
    }
}
