//! Gates: how much dearer a mark may become.

use std::fmt::Write as _;
use std::str::FromStr;

use super::compare::{Compared, Comparison, Pair};
use super::figure::{change, figure, percent};
use super::judge::Verdict;

/// `instructions:1%`.
#[derive(Clone, Debug)]
pub(crate) struct Gate {
    pub(crate) event: String,
    pub(crate) percent: f64,
}

/// A gate that was asked.
pub(crate) struct Judged {
    pub(crate) gate: Gate,
    /// Marks whose figures could be compared.
    pub(crate) compared: usize,
    pub(crate) failures: Vec<Failure>,
    /// Marks that it let pass, and why they could not be judged.
    pub(crate) passed_over: Vec<String>,
}

pub(crate) struct Failure {
    pub(crate) mark: Option<String>,
    pub(crate) text: String,
}

impl FromStr for Gate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "a gate is EVENT:PERCENT%, such as instructions:1% or time:10%".to_owned();
        let (event, limit) = text.rsplit_once(':').ok_or_else(wrong)?;
        let limit = limit.trim().trim_end_matches('%').trim_end().parse::<f64>().map_err(|_| wrong())?;
        if event.trim().is_empty() || !limit.is_finite() || limit < 0.0 {
            return Err(wrong());
        }
        // As attributes may write it.
        let event = if event.contains(['/', ':']) { event.trim().into() } else { event.trim().replace('_', "-") };
        Ok(Self { event, percent: limit })
    }
}

impl Gate {
    /// Judges every mark that has the event. An event that no report names is a mistake.
    pub(crate) fn judge(&self, comparison: &Comparison) -> Result<Judged, String> {
        if !comparison.events.contains_key(&self.event) {
            let known: Vec<_> = comparison.events.keys().map(|event| crate::output::clean(event)).collect();
            let known = if known.is_empty() { "no events".into() } else { known.join(", ") };
            return Err(format!("--fail-on {}: no report has the event; they have {known}", self.text()));
        }
        let mut judged = Judged { gate: self.clone(), compared: 0, failures: Vec::new(), passed_over: Vec::new() };
        for pair in &comparison.marks {
            if let Some(event) = pair.events.iter().find(|event| event.event == self.event) {
                self.judge_mark(pair, event, &mut judged);
            }
        }
        if judged.compared == 0 && judged.failures.is_empty() {
            let reason = comparison.events.get(&self.event).into_iter().flatten().next();
            let few = judged.passed_over.first();
            let why = few.or(reason).map_or("no mark that both sides called records it", |why| why);
            let text = format!("gate {}: nothing to judge: {why}", self.text());
            judged.failures.push(Failure { mark: None, text });
        }
        Ok(judged)
    }

    fn judge_mark(&self, pair: &Pair, event: &Compared, judged: &mut Judged) {
        let mut fail = |text: String| judged.failures.push(Failure { mark: Some(pair.label.clone()), text });
        let Some(judgement) = event.judgement else {
            let why = event.notes.join("; ");
            return fail(format!("{}: {} cannot be judged (gate {}): {why}", pair.label, self.event, self.text()));
        };
        if let Verdict::TooFew(calls) = judgement.verdict {
            judged.passed_over.push(format!("{}: too few calls ({calls}); give three runs a side", pair.label));
            return;
        }
        judged.compared += 1;
        if !judgement.rose || judgement.head <= judgement.base * (1.0 + self.percent / 100.0) {
            return;
        }
        let by = change(judgement.base, judgement.head).map_or_else(|| "from none".into(), percent);
        let mut text = format!(
            "{}: {} a call rose by {} (gate {}): {} → {}",
            pair.label,
            self.event,
            by.trim_start_matches('+'),
            self.text(),
            figure(judgement.base, event.unit),
            figure(judgement.head, event.unit),
        );
        if event.is_of_callees() {
            text += "; not of itself, but of marked calls inside it";
        }
        _ = write!(text, " ({})", pair.place);
        judged.failures.push(Failure { mark: Some(pair.label.clone()), text });
    }

    pub(crate) fn text(&self) -> String {
        format!("{}:{}%", self.event, self.percent)
    }
}
