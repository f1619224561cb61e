//! The comparison for programs.

use perfmark::Unit;
use perfmark::text::share_and_error;
use serde_json::{Value, json};

use super::compare::{Compared, Comparison, Pair, Presence};
use super::gate::{GateResult, Reason};
use super::hot_lines::ChangedLine;
use super::judge::Verdict;
use super::number::change;
use super::side::Design;

pub(crate) fn render(comparison: &Comparison, gates: &[GateResult]) -> String {
    let not_judged = |one: &Reason| json!({"marks": one.marks().collect::<Vec<_>>(), "why": one.why});
    let failures = |one: &Reason| -> Vec<Value> {
        let of_mark = |mark: &str| json!({"mark": mark, "text": format!("{mark}: {}", one.why)});
        let all: Vec<Value> = one.marks().map(of_mark).collect();
        if all.is_empty() { vec![json!({"mark": null, "text": one.why})] } else { all }
    };
    let gate = |judged: &GateResult| {
        json!({
            "event": judged.gate.event,
            "percent": judged.gate.percent,
            "failed": !judged.failures.is_empty(),
            "compared": judged.compared,
            "smallest_rise_percent": judged.least,
            "failures": judged.failures.iter().flat_map(failures).collect::<Vec<_>>(),
            "not_judged": judged.not_judged.iter().map(not_judged).collect::<Vec<_>>(),
            "cannot_judge": judged.undecided,
        })
    };
    let document = json!({
        "base": comparison.files[0],
        "head": comparison.files[1],
        "failed": gates.iter().any(|gate| !gate.failures.is_empty()),
        "gates": gates.iter().map(gate).collect::<Vec<_>>(),
        "marks": comparison.marks.iter().map(mark).collect::<Vec<_>>(),
        "runs": {"base": comparison.runs[0], "head": comparison.runs[1]},
        "paired": comparison.design == Design::Paired,
        "notes": comparison.notes,
    });
    format!("{document:#}\n")
}

fn mark(pair: &Pair) -> Value {
    let presence = match pair.presence {
        Presence::Both => "both",
        Presence::Only(0) => "only in base",
        Presence::Only(_) => "only in head",
        Presence::CalledIn(0) => "called in base only",
        Presence::CalledIn(_) => "called in head only",
        Presence::OffIn(0) => "off in base",
        Presence::OffIn(_) => "off in head",
        Presence::Off => "off",
        Presence::NeverCalled => "never called",
    };
    json!({
        "mark": pair.label,
        "path": pair.path,
        "location": pair.location,
        "presence": presence,
        "changed": pair.has_changed(),
        "calls": {"base": pair.calls[0], "head": pair.calls[1]},
        "events": pair.events.iter().map(event).collect::<Vec<_>>(),
        "lines": pair.lines.iter().map(line).collect::<Vec<_>>(),
    })
}

fn line(line: &ChangedLine) -> Value {
    let [base, head] = line.samples.map(|[at_line, in_mark]| {
        let [share, error] = share_and_error(at_line, in_mark);
        json!({"samples": at_line, "of": in_mark, "share": share, "error": error})
    });
    json!({
        "sampling": line.sampling,
        "function": line.function,
        "file": line.file,
        "line": line.line,
        "is_own": line.is_own,
        "base": base,
        "head": head,
    })
}

fn event(compared: &Compared) -> Value {
    let judgement = compared.judgement;
    let verdict = match compared.verdict() {
        None => "not compared",
        Some(Verdict::Same) => "same",
        Some(Verdict::More) => "more",
        Some(Verdict::Less) => "less",
        Some(Verdict::TooFew(_)) => "too few calls",
        Some(Verdict::TooFewRuns(_)) => "too few runs",
        Some(Verdict::TooShort) => "too short",
        Some(Verdict::NotInEachPair) => "not in each pair",
    };
    json!({
        "event": compared.event,
        "unit": if compared.unit == Unit::Ns { "ns" } else { "count" },
        "statistic": compared.statistic.name(),
        "verdict": verdict,
        "base": judgement.map(|judgement| judgement.base),
        "head": judgement.map(|judgement| judgement.head),
        "change_percent": judgement.and_then(|judgement| change(judgement.base, judgement.head)),
        "margin": judgement.map(|judgement| judgement.margin),
        "smallest_rise_percent": judgement.and_then(|judgement| judgement.least),
        "self": compared.own.map(|[base, head]| json!({"base": base, "head": head})),
        "notes": compared.notes,
    })
}
