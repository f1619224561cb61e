//! Cases that are measured in turn, and the table of their costs.

use perfmark_rdpmc::clock::ticks;

use crate::table::{self, cell, confidence, median};

/// A row's name, and the function that takes one sample.
pub type Case<'a> = (String, Box<dyn Fn() -> f64 + 'a>);

/// The limit of a value.
#[derive(Clone, Copy, Debug)]
pub enum Goal {
    /// In the row's unit.
    AtMost(f64),
    /// In the row's unit, more than the first row of the same cases.
    More(f64),
    /// As a multiple of the first row of the same cases.
    Times(f64),
}

/// A row of the table.
#[derive(Debug)]
pub struct Row {
    name: String,
    unit: &'static str,
    samples: Vec<f64>,
    /// The samples of the first case in the same rounds. Empty for the first case itself.
    first: Vec<f64>,
    goal: Option<Goal>,
}

impl Row {
    /// A row that is not compared with another.
    #[must_use]
    pub fn new(name: String, unit: &'static str, samples: Vec<f64>) -> Self {
        Self { name, unit, samples, first: Vec::new(), goal: None }
    }

    /// The same row with a limit.
    #[must_use]
    pub fn goal(self, goal: Goal) -> Self {
        Self { goal: Some(goal), ..self }
    }

    /// The comparisons of each sample with that of the first row in the same round.
    fn relative_to_first(&self, compare: fn(f64, f64) -> f64) -> Vec<f64> {
        self.samples.iter().zip(&self.first).map(|(&sample, &first)| compare(sample, first)).collect()
    }

    fn ratios(&self) -> Vec<f64> {
        self.relative_to_first(|sample, first| sample / first)
    }

    /// The median of the ratios, and its bounds with a confidence of 95 %.
    fn ratio_text(&self) -> String {
        let ratios = self.ratios();
        confidence(&ratios).map_or_else(String::new, |[least, most]| {
            let median = median(&ratios);
            let decimals = decimals(median) + 1;
            format!("{median:.decimals$} ({least:.decimals$} to {most:.decimals$})")
        })
    }

    fn cells(&self) -> [String; 5] {
        let median = median(&self.samples);
        // Quartiles require more samples.
        let measured = if self.samples.len() < 4 { digits(median) } else { cell(&self.samples, decimals(median)) };
        [
            self.name.clone(),
            measured,
            self.unit.to_owned(),
            self.ratio_text(),
            self.goal.map_or_else(String::new, |goal| self.goal_text(goal)),
        ]
    }

    fn goal_text(&self, goal: Goal) -> String {
        let (text, value, limit) = match goal {
            Goal::AtMost(limit) => (format!("at most {limit} {}", self.unit), median(&self.samples), limit),
            Goal::More(limit) => {
                let more = median(&self.relative_to_first(|sample, first| sample - first));
                (format!("at most {limit} {} more: {}", self.unit, digits(more)), more, limit)
            }
            Goal::Times(limit) => (format!("at most {limit} times"), median(&self.ratios()), limit),
        };
        // A value that is not a number is not within a limit.
        if value <= limit { text } else { format!("{text}; missed") }
    }
}

/// A case whose samples are the ticks that `work` takes, divided by `count`.
pub fn ticks_case<'a>(name: &str, count: u32, work: impl Fn() + 'a) -> Case<'a> {
    let sample = move || {
        let before = ticks();
        work();
        (ticks() - before) as f64 / f64::from(count)
    };
    (name.to_owned(), Box::new(sample))
}

/// Runs the cases in turn, so that a change in the machine's speed affects all of them alike. The order alternates
/// between rounds, so that none of them always follows the same one.
#[must_use]
pub fn in_turn(rounds: usize, unit: &'static str, cases: Vec<Case<'_>>) -> Vec<Row> {
    let mut samples = vec![Vec::with_capacity(rounds); cases.len()];
    for round in 0..rounds {
        for turn in 0..cases.len() {
            let at = if round % 2 == 0 { turn } else { cases.len() - 1 - turn };
            samples[at].push(cases[at].1());
        }
    }
    let first = samples.first().cloned().unwrap_or_default();
    let rows = cases.into_iter().zip(samples).enumerate().map(|(at, ((name, _), samples))| {
        let first = if at == 0 { Vec::new() } else { first.clone() };
        Row { first, ..Row::new(name, unit, samples) }
    });
    rows.collect()
}

/// Formats a value with three significant digits, or with all digits before the decimal point.
fn digits(value: f64) -> String {
    format!("{value:.*}", decimals(value))
}

fn decimals(value: f64) -> usize {
    match value.abs() {
        100.0.. => 0,
        10.0.. => 1,
        _ => 2,
    }
}

const HEAD: [&str; 5] = ["", "median (quartiles)", "unit", "ratio to the first (95 % confidence)", "goal"];

fn lines(rows: &[Row]) -> Vec<[String; 5]> {
    [HEAD.map(str::to_owned)].into_iter().chain(rows.iter().map(Row::cells)).collect()
}

/// The table as text with aligned columns.
#[must_use]
pub fn text(rows: &[Row]) -> String {
    table::text(&lines(rows))
}

/// The table in Markdown.
#[must_use]
pub fn markdown(rows: &[Row]) -> String {
    table::markdown(&lines(rows))
}
