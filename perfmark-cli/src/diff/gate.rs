//! Gates: how much more a mark may cost, and how many of its calls must be measured.

use std::fmt::Write as _;
use std::str::FromStr;

use perfmark::text::sanitize;

use super::compare::{Compared, Comparison, Coverage, Pair};
use super::judge::{SEVERAL, Verdict};
use super::number::{change, grouped, percent, quantity};
use super::paired::FEWEST_PAIRS;
use super::side::Design;

/// `instructions:1%`, or `coverage:90%`.
#[derive(Clone, Debug)]
pub(crate) struct Gate {
    pub(crate) event: String,
    pub(crate) percent: f64,
}

/// The result of a gate.
pub(crate) struct GateResult {
    pub(crate) gate: Gate,
    /// The number of marks whose values could be compared.
    pub(crate) compared: usize,
    pub(crate) failures: Vec<Failure>,
    /// Marks that pass because they could not be judged, and why.
    pub(crate) not_judged: Vec<String>,
    /// Why the gate neither passes nor fails, and what to do.
    pub(crate) undecided: Option<String>,
    /// The number of runs of the marks that have too few.
    few_runs: Option<usize>,
}

pub(crate) struct Failure {
    pub(crate) mark: Option<String>,
    pub(crate) text: String,
}

/// In pairs of runs, a mark is judged if a rise by this many percent would have been found, or by the gate's limit if
/// that is larger.
const REQUIRED: f64 = 5.0;
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
    fn is_of_coverage(&self) -> bool {
        self.event == COVERAGE
    }

    /// Judges every mark that has the event. An event that no report has is an error.
    pub(crate) fn judge(&self, comparison: &Comparison) -> Result<GateResult, String> {
        if self.is_of_coverage() {
            return Ok(self.judge_coverage(comparison));
        }
        // Attributes have underscores for hyphens.
        let is_it = |event: &&String| event.replace('_', "-") == self.event.replace('_', "-");
        let Some(event) = comparison.events.keys().find(is_it) else {
            let known: Vec<_> = comparison.events.keys().map(|event| sanitize(event)).collect();
            let known = if known.is_empty() { "no events".into() } else { known.join(", ") };
            return Err(format!("--fail-on {}: no report has the event; the reports have {known}", self.text()));
        };
        Ok(Self { event: event.clone(), ..*self }.judge_event(comparison))
    }

    fn judge_event(&self, comparison: &Comparison) -> GateResult {
        let mut judged = self.result();
        for pair in &comparison.marks {
            if let Some(event) = pair.events.iter().find(|event| event.event == self.event) {
                self.judge_mark(pair, event, &mut judged);
            }
        }
        judged.undecided = self.undecided(comparison, &judged);
        if judged.compared == 0 && judged.failures.is_empty() && judged.undecided.is_none() {
            let reason = comparison.events.get(&self.event).into_iter().flatten().next();
            let few = judged.not_judged.first();
            let why = few.or(reason).map_or("no mark that both sides called records it", |why| why);
            let text = format!("gate {}: nothing to judge: {why}", self.text());
            judged.failures.push(Failure { mark: None, text });
        }
        judged
    }

    fn result(&self) -> GateResult {
        GateResult {
            gate: self.clone(),
            compared: 0,
            failures: Vec::new(),
            not_judged: Vec::new(),
            undecided: None,
            few_runs: None,
        }
    }

    /// Why the gate cannot be judged, although the marks were measured.
    fn undecided(&self, comparison: &Comparison, judged: &GateResult) -> Option<String> {
        let gate = self.text();
        let [base, head] = comparison.runs;
        match (comparison.design, judged.few_runs) {
            (Design::Separate { .. }, Some(_)) => Some(format!(
                "gate {gate}: cannot judge {} with fewer than {SEVERAL} runs on a side (base {base}, head {head}), \
                 because it varies from run to run by more than a change does; use `perfmark run --times 10 --against \
                 BASE -- HEAD`, or compare five runs on each side; --allow-few-runs judges anyway, with false alarms",
                self.event
            )),
            (Design::Paired, Some(pairs)) => Some(format!(
                "gate {gate}: cannot judge {} with fewer than {FEWEST_PAIRS} pairs of runs (given: {pairs}), \
                 because any result may be chance; make 10",
                self.event
            )),
            (Design::Paired, None) if judged.compared == 0 && judged.failures.is_empty() => {
                let why = judged.not_judged.first()?;
                Some(format!("gate {gate}: no mark can be judged: {why}"))
            }
            _ => None,
        }
    }

    /// Judges every mark that the head called: in each event, enough calls must have been measured.
    fn judge_coverage(&self, comparison: &Comparison) -> GateResult {
        let mut judged = self.result();
        for pair in comparison.marks.iter().filter(|pair| !pair.coverage.is_empty()) {
            judged.compared += 1;
            for Coverage { event, measured, expected, reason } in &pair.coverage {
                let share = 100.0 * *measured as f64 / *expected as f64;
                if share >= self.percent {
                    continue;
                }
                let mut text = format!(
                    "{}: {share:.1} % of its calls were measured in head (gate {}): {event} in {} of {} calls",
                    pair.label,
                    self.text(),
                    grouped(*measured as f64),
                    grouped(*expected as f64),
                );
                if let Some(reason) = reason {
                    _ = write!(text, ": {reason}");
                }
                _ = write!(text, " ({})", pair.location);
                judged.failures.push(Failure { mark: Some(pair.label.clone()), text });
            }
        }
        if judged.compared == 0 {
            let text = format!("gate {}: nothing to judge: no call of any mark was measured in head", self.text());
            judged.failures.push(Failure { mark: None, text });
        }
        judged
    }

    fn judge_mark(&self, pair: &Pair, event: &Compared, judged: &mut GateResult) {
        let mut fail = |text: String| judged.failures.push(Failure { mark: Some(pair.label.clone()), text });
        let measured = if event.lack.is_some() { None } else { event.judgement };
        let Some(judgement) = measured else {
            let why = event.lack.clone().unwrap_or_else(|| event.notes.join("; "));
            return fail(format!("{}: {} cannot be judged (gate {}): {why}", pair.label, self.event, self.text()));
        };
        match judgement.verdict {
            Verdict::TooFew(calls) => {
                judged.not_judged.push(format!("{}: too few calls ({calls}); compare three runs per side", pair.label));
                return;
            }
            Verdict::TooFewRuns(runs) => {
                judged.few_runs = Some(runs);
                return;
            }
            Verdict::TooShort => {
                judged.not_judged.push(format!("{}: a call is no longer than the noise of the probe", pair.label));
                return;
            }
            Verdict::Same | Verdict::More | Verdict::Less => {}
        }
        if !judgement.rose || judgement.head <= judgement.base * (1.0 + self.percent / 100.0) {
            let required = self.percent.max(REQUIRED);
            match judgement.least.filter(|&least| least > required && judgement.verdict == Verdict::Same) {
                Some(least) => judged.not_judged.push(format!(
                    "{}: a rise by less than {least:.1} % cannot be distinguished from the noise of these runs; make \
                     more runs, or longer ones",
                    pair.label
                )),
                None => judged.compared += 1,
            }
            return;
        }
        judged.compared += 1;
        let by = change(judgement.base, judgement.head).map_or_else(|| "from 0".into(), percent);
        let mut text = format!(
            "{}: {} per call rose by {} (gate {}): {} → {}",
            pair.label,
            self.event,
            by.trim_start_matches('+'),
            self.text(),
            quantity(judgement.base, event.unit),
            quantity(judgement.head, event.unit),
        );
        if event.is_of_callees() {
            text += "; the change is in marked calls inside it";
        }
        _ = write!(text, " ({})", pair.location);
        judged.failures.push(Failure { mark: Some(pair.label.clone()), text });
    }

    pub(crate) fn text(&self) -> String {
        format!("{}:{}%", self.event, self.percent)
    }
}
