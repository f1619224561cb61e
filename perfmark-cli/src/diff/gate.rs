//! Gates: how much more a mark may cost, and how many of its calls must be measured.

use std::collections::BTreeSet;
use std::fmt::{self, Display, Formatter, Write as _};
use std::str::FromStr;

use perfmark::text::counted;

use super::compare::{Compared, Comparison, Coverage, Pair};
use super::judge::{RESOLVED_BY_MEDIANS, SEVERAL, Statistic, Verdict, WORTH_REPORTING};
use super::number::{change, grouped, names, percent, quantity, share};
use super::paired::FEWEST_PAIRS;
use super::side::Design;
use crate::events::depends_on_machine;
use crate::reports::is_same_event;

/// `instructions:1%`, or `coverage:90%`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gate {
    pub(crate) event: String,
    pub(crate) percent: f64,
}

/// The result of a gate.
#[derive(Default)]
pub(crate) struct GateResult {
    pub(crate) gate: Gate,
    /// The number of marks whose values could be compared.
    pub(crate) compared: usize,
    /// The smallest rise that would have been found in each of these that did not change, in percent.
    pub(crate) least: Option<f64>,
    pub(crate) failures: Vec<Reason>,
    /// Marks that pass because they could not be judged.
    pub(crate) not_judged: Vec<Reason>,
    /// Why the gate neither passes nor fails, and what to do.
    pub(crate) undecided: Option<String>,
    /// Whether a mark was not judged because the comparison has too few runs.
    has_few_runs: bool,
}

/// Marks that fail, or are not judged, for the same reason.
pub(crate) struct Reason {
    pub(crate) why: String,
    /// Each mark, and what it has. There are none if the reason is about the whole gate.
    marks: Vec<(String, String)>,
}

impl Reason {
    pub(crate) fn marks(&self) -> impl Iterator<Item = &str> {
        self.marks.iter().map(|(mark, _)| &**mark)
    }

    /// Adds a mark to the reason, which may be among these already.
    fn add(reasons: &mut Vec<Self>, mark: &str, detail: String, why: String) {
        let mark = (mark.to_owned(), detail);
        match reasons.iter_mut().find(|reason| reason.why == why) {
            Some(same) => same.marks.push(mark),
            None => reasons.push(Self { why, marks: vec![mark] }),
        }
    }
}

impl Display for Reason {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if !self.marks.is_empty() {
            write!(f, "{}: ", names(self.marks.iter().map(|(mark, detail)| format!("{mark}{detail}"))))?;
        }
        f.write_str(&self.why)
    }
}

impl GateResult {
    fn fail(&mut self, mark: &str, why: String) {
        self.failures.push(Reason { why, marks: vec![(mark.to_owned(), String::new())] });
    }

    fn not_judged(&mut self, mark: &str, detail: String, why: &str) {
        Reason::add(&mut self.not_judged, mark, detail, why.into());
    }

    /// The marks that were not judged, with the reasons.
    fn all_not_judged(&self) -> Option<String> {
        let all: Vec<String> = self.not_judged.iter().map(Reason::to_string).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }
}

/// A smaller rise of a time may be due to the place of the code in memory alone.
const LAYOUT: f64 = 1.1;
/// The name, in place of an event, for the share of calls that were measured.
const COVERAGE: &str = "coverage";

impl FromStr for Gate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            "expected EVENT:PERCENT%, such as instructions:1% or time:10%, or coverage:PERCENT%, such as coverage:90%"
                .to_owned()
        };
        let (event, limit) = text.rsplit_once(':').ok_or_else(wrong)?;
        let limit = limit.trim().trim_end_matches('%').trim_end().parse::<f64>().map_err(|_| wrong())?;
        if event.trim().is_empty() || !limit.is_finite() || limit < 0.0 {
            return Err(wrong());
        }
        let gate = Self { event: event.trim().into(), percent: limit };
        if gate.is_of_coverage() && limit > 100.0 { Err(wrong()) } else { Ok(gate) }
    }
}

impl Gate {
    pub(crate) fn is_of_coverage(&self) -> bool {
        self.event == COVERAGE
    }

    /// The event's name among those of the reports. An event that no report has is an error.
    pub(crate) fn find<'a>(&self, events: &BTreeSet<&'a str>) -> Result<&'a str, String> {
        events.iter().copied().find(|event| is_same_event(event, &self.event)).ok_or_else(|| {
            let known: Vec<_> = events.iter().copied().collect();
            let known = if known.is_empty() { "no events".into() } else { known.join(", ") };
            format!("--fail-on {}: no report has the event; the reports have {known}", self.text())
        })
    }

    /// Judges every mark that has the event. An event that no report has is an error.
    pub(crate) fn judge(&self, comparison: &Comparison) -> Result<GateResult, String> {
        if self.is_of_coverage() {
            return Ok(self.judge_coverage(comparison));
        }
        let event = self.find(&comparison.events.keys().map(|event| &**event).collect())?;
        let gate = Self { event: event.into(), ..*self };
        let mut events = comparison.marks.iter().flat_map(|pair| &pair.events);
        if events.any(|event| event.event == gate.event && event.statistic == Statistic::Median) {
            gate.check_for_medians()?;
        }
        Ok(gate.judge_event(comparison))
    }

    /// A limit that medians do not resolve is an error.
    pub(crate) fn check_for_medians(&self) -> Result<(), String> {
        if self.percent >= RESOLVED_BY_MEDIANS {
            return Ok(());
        }
        Err(format!(
            "--fail-on {}: a p50 of {} does not show a rise by less than {:.1} %; set that limit or a larger one, or \
             use `perfmark run --times 20 --against BASE -- HEAD`",
            self.text(),
            self.event,
            (10.0 * RESOLVED_BY_MEDIANS).ceil() / 10.0
        ))
    }

    fn judge_event(&self, comparison: &Comparison) -> GateResult {
        let mut judged = GateResult { gate: self.clone(), ..GateResult::default() };
        for pair in &comparison.marks {
            if let Some(event) = pair.events.iter().find(|event| event.event == self.event) {
                self.judge_mark(pair, event, comparison.has_few_runs(), &mut judged);
            }
        }
        if !judged.failures.is_empty() {
            return judged;
        }
        judged.undecided = self.undecided(comparison, &judged);
        if judged.compared == 0 && judged.undecided.is_none() {
            let reason = comparison.events.get(&self.event).into_iter().flatten().next();
            let why = reason.map_or("no mark that both sides called records it", |why| why);
            self.nothing_to_judge(comparison, &mut judged, why);
        }
        judged
    }

    /// Fails the gate, except where the change may be what removed all marks of the base.
    fn nothing_to_judge(&self, comparison: &Comparison, judged: &mut GateResult, why: &str) {
        let text = format!("gate {}: nothing to judge: {why}", self.text());
        match comparison.design {
            Design::Commits => judged.undecided = Some(text),
            Design::Separate { .. } | Design::Paired => judged.failures.push(Reason { marks: Vec::new(), why: text }),
        }
    }

    /// Why the gate, which did not fail, cannot be judged, although the marks were measured.
    fn undecided(&self, comparison: &Comparison, judged: &GateResult) -> Option<String> {
        let gate = self.text();
        let [base, head] = comparison.runs;
        let more = match comparison.design {
            Design::Commits => "`--times 5` without a baseline",
            _ => "compare five runs on each side; --allow-few-runs judges anyway, with false alarms",
        };
        match (comparison.design, judged.has_few_runs) {
            (Design::Separate { .. } | Design::Commits, true) => Some(format!(
                "gate {gate}: cannot judge {} with fewer than {SEVERAL} runs on a side (base {base}, head {head}), \
                 because it varies from run to run by more than a change does; use `perfmark run --times 10 --against \
                 BASE -- HEAD`, or {more}",
                self.event
            )),
            (Design::Paired, true) => Some(format!("gate {gate}: {}", self.lacks_pairs(base))),
            (_, false) if judged.compared == 0 => {
                let why = judged.all_not_judged()?;
                Some(format!("gate {gate}: no mark can be judged: {why}"))
            }
            _ => None,
        }
    }

    fn lacks_pairs(&self, pairs: usize) -> String {
        format!(
            "cannot judge {} with fewer than {FEWEST_PAIRS} pairs of runs (given: {pairs}), because any result may be \
             chance; make 20",
            self.event
        )
    }

    /// Too few pairs of runs for an event that varies from run to run are an error, before they are made.
    pub(crate) fn check_pairs(&self, pairs: usize) -> Result<(), String> {
        let is_enough = pairs >= FEWEST_PAIRS || !depends_on_machine(&self.event);
        if is_enough { Ok(()) } else { Err(format!("--fail-on {}: {}", self.text(), self.lacks_pairs(pairs))) }
    }

    /// Judges every mark that the head called: in each event, enough calls must have been measured.
    fn judge_coverage(&self, comparison: &Comparison) -> GateResult {
        let mut judged = GateResult { gate: self.clone(), ..GateResult::default() };
        for pair in comparison.marks.iter().filter(|pair| !pair.coverage.is_empty()) {
            judged.compared += 1;
            for Coverage { event, measured, expected, reason } in &pair.coverage {
                if 100.0 * *measured as f64 / *expected as f64 >= self.percent {
                    continue;
                }
                let mut text = format!(
                    "{} of its calls were measured in head (gate {}): {event} in {} of {} calls",
                    share((*measured).into(), (*expected).into()),
                    self.text(),
                    grouped(*measured as f64),
                    grouped(*expected as f64),
                );
                if let Some(reason) = reason {
                    _ = write!(text, ": {reason}");
                }
                _ = write!(text, " ({})", pair.location);
                judged.fail(&pair.label, text);
            }
        }
        if judged.compared == 0 {
            self.nothing_to_judge(comparison, &mut judged, "no call of any mark was measured in head");
        }
        judged
    }

    fn judge_mark(&self, pair: &Pair, event: &Compared, has_few_runs: bool, judged: &mut GateResult) {
        if let Some(lack) = event.lack.as_ref().filter(|_| event.is_emulated) {
            let why = "calls in programs that an emulated one starts are not counted, nor are calls that are too deep";
            return judged.not_judged(&pair.label, format!(" ({lack})"), why);
        }
        if !pair.has_returned {
            return judged.not_judged(&pair.label, String::new(), "a panic or a drop ended each call on a side");
        }
        let measured = if event.lack.is_some() { None } else { event.judgement };
        let Some(judgement) = measured else {
            let why = event.lack.clone().unwrap_or_else(|| event.notes.join("; "));
            let why = format!("{} cannot be judged (gate {}): {why}", self.event, self.text());
            return Reason::add(&mut judged.failures, &pair.label, String::new(), why);
        };
        let not_judged = match judgement.verdict {
            Verdict::TooFewRuns(_) if has_few_runs => {
                judged.has_few_runs = true;
                return;
            }
            Verdict::TooFew(calls) => {
                Some((format!(" ({})", counted(calls, "call")), "too few calls; compare three runs per side"))
            }
            Verdict::TooFewRuns(runs) => {
                Some((format!(" (in {})", counted(runs as u64, "run")), "measured in too few runs"))
            }
            Verdict::NotInEachPair => Some((String::new(), "not measured in each pair of runs")),
            Verdict::TooShort => Some((String::new(), "a call is no longer than the noise of the probe")),
            Verdict::Same | Verdict::More | Verdict::Less => None,
        };
        if let Some((detail, why)) = not_judged {
            return judged.not_judged(&pair.label, detail, why);
        }
        let least = judgement.least.unwrap_or(0.0);
        if !judgement.rose || judgement.head <= judgement.base * (1.0 + self.percent / 100.0) {
            let is_hidden = least > self.percent.max(100.0 * WORTH_REPORTING) && judgement.verdict != Verdict::Less;
            if is_hidden {
                let why =
                    "only larger rises would have been found; make more runs, or longer ones, or set a larger limit";
                judged.not_judged(&pair.label, format!(" (≥ {least:.1} %)"), why);
            } else {
                judged.compared += 1;
                if judgement.verdict == Verdict::Same && judged.least < judgement.least {
                    judged.least = judgement.least;
                }
            }
            return;
        }
        judged.compared += 1;
        let by = change(judgement.base, judgement.head).map(percent);
        let by = by.map_or_else(String::new, |by| format!(" by {}", by.trim_start_matches('+')));
        let mut text = format!(
            "{} per call rose{by} (gate {}): {} → {}",
            self.event,
            self.text(),
            quantity(judgement.base, event.unit),
            quantity(judgement.head, event.unit),
        );
        if event.is_of_callees() {
            text += "; the change is in marked calls inside it";
        }
        let waits = ["off_cpu", "blocked", "preempted", "suspended"].contains(&&*self.event);
        if event.statistic == Statistic::MidMean && !waits && judgement.head < judgement.base * LAYOUT {
            text += "; if nobody changed the function, the linker may have moved it: compare `instructions`";
        }
        _ = write!(text, " ({})", pair.location);
        judged.fail(&pair.label, text);
    }

    pub(crate) fn text(&self) -> String {
        format!("{}:{}%", self.event, self.percent)
    }
}
