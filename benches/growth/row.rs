//! Cases that are measured in turn, and the table of what they cost.

use std::fmt::Write as _;

use benches::table::{median, spread};

/// A row's name, and what takes one sample of it.
pub(crate) type Case<'a> = (String, Box<dyn Fn() -> f64 + 'a>);

/// What a value must not exceed.
#[derive(Clone, Copy)]
pub(crate) enum Goal {
    /// In the row's unit.
    AtMost(f64),
    /// In the row's unit, more than the first row of the same cases.
    More(f64),
    /// As a multiple of the first row of the same cases.
    Times(f64),
}

/// A row of the table.
pub(crate) struct Row {
    what: String,
    unit: &'static str,
    samples: Vec<f64>,
    /// The samples that the first of the cases had in the same rounds; none for the first itself.
    first: Vec<f64>,
    goal: Option<Goal>,
}

impl Row {
    /// A row that is compared with no other.
    pub(crate) fn new(what: String, unit: &'static str, samples: Vec<f64>) -> Self {
        Self { what, unit, samples, first: Vec::new(), goal: None }
    }

    pub(crate) fn goal(self, goal: Goal) -> Self {
        Self { goal: Some(goal), ..self }
    }

    /// The median of what the samples are beside the first row's.
    fn beside_first(&self, compare: fn(f64, f64) -> f64) -> f64 {
        median(
            &self.samples.iter().zip(&self.first).map(|(&sample, &first)| compare(sample, first)).collect::<Vec<_>>(),
        )
    }

    fn ratio(&self) -> f64 {
        self.beside_first(|sample, first| sample / first)
    }

    fn cells(&self) -> [String; 5] {
        let measured = spread(&self.samples).map_or_else(String::new, |[median, low, high]| {
            // So few have no quartiles.
            if self.samples.len() < 4 {
                return digits(median);
            }
            format!("{} ({} to {})", digits(median), digits(low), digits(high))
        });
        let ratio = if self.first.is_empty() { String::new() } else { digits(self.ratio()) };
        [
            self.what.clone(),
            measured,
            self.unit.to_owned(),
            ratio,
            self.goal.map_or_else(String::new, |goal| self.said(goal)),
        ]
    }

    fn said(&self, goal: Goal) -> String {
        let (text, value, limit) = match goal {
            Goal::AtMost(limit) => (format!("at most {limit} {}", self.unit), median(&self.samples), limit),
            Goal::More(limit) => {
                let more = self.beside_first(|sample, first| sample - first);
                (format!("at most {limit} {} more: {}", self.unit, digits(more)), more, limit)
            }
            Goal::Times(limit) => (format!("at most {limit} times"), self.ratio(), limit),
        };
        // What is not a number is not within a limit.
        if value <= limit { text } else { format!("{text}; missed") }
    }
}

/// Runs the cases in turn, so that a change in the machine's speed affects all of them alike.
pub(crate) fn in_turn(rounds: usize, unit: &'static str, cases: Vec<Case<'_>>) -> Vec<Row> {
    let mut samples = vec![Vec::with_capacity(rounds); cases.len()];
    for _ in 0..rounds {
        for ((_, sample), samples) in cases.iter().zip(&mut samples) {
            samples.push(sample());
        }
    }
    let first = samples.first().cloned().unwrap_or_default();
    let rows = cases.into_iter().zip(samples).enumerate().map(|(at, ((what, _), samples))| {
        let first = if at == 0 { Vec::new() } else { first.clone() };
        Row { first, ..Row::new(what, unit, samples) }
    });
    rows.collect()
}

/// Three significant digits, or all digits of a larger number.
fn digits(value: f64) -> String {
    let decimals = match value.abs() {
        100.0.. => 0,
        10.0.. => 1,
        _ => 2,
    };
    format!("{value:.decimals$}")
}

/// A number as a reader has it: 10,000.
pub(crate) fn grouped(number: usize) -> String {
    if number < 1_000 {
        return number.to_string();
    }
    format!("{},{:03}", grouped(number / 1_000), number % 1_000)
}

const HEAD: [&str; 5] = ["", "median (quartiles)", "unit", "ratio to the first", "goal"];

/// Aligned columns.
pub(crate) fn text(rows: &[Row]) -> String {
    let lines: Vec<[String; 5]> = [HEAD.map(str::to_owned)].into_iter().chain(rows.iter().map(Row::cells)).collect();
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let [first, second, third, fourth, _] = std::array::from_fn(width);
    let mut text = String::new();
    for [what, measured, unit, ratio, goal] in &lines {
        let line = format!("{what:<first$}  {measured:>second$}  {unit:<third$}  {ratio:>fourth$}  {goal}");
        _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

/// A table in Markdown.
pub(crate) fn markdown(rows: &[Row]) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let head = line(&HEAD.map(str::to_owned)) + "|---|---|---|---|---|\n";
    rows.iter().fold(head, |table, row| table + &line(&row.cells()))
}
