//! Medians and quartiles of the samples of all rounds, as text and as Markdown.

use std::fmt::Write as _;

/// One contender's samples. Those that are not a number do not count.
#[derive(Debug)]
pub struct Row {
    /// The contender's name.
    pub name: &'static str,
    /// Costs on one thread, in pairs of tick reads.
    pub alone: Vec<f64>,
    /// Costs on each of two threads, in pairs of tick reads on the same thread and in the same round.
    pub both: Vec<f64>,
    /// Costs on two threads, relative to those on one.
    pub growth: Vec<f64>,
}

impl Row {
    /// A row without samples.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self { name, alone: Vec::new(), both: Vec::new(), growth: Vec::new() }
    }
}

/// The median, and the first and third quartile. `None` if there are no samples.
#[must_use]
pub fn spread(samples: &[f64]) -> Option<[f64; 3]> {
    let mut sorted: Vec<f64> = samples.iter().copied().filter(|sample| sample.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let at = |quarter: usize| Some(*sorted.get(sorted.len().checked_sub(1)? * quarter / 4)?);
    Some([at(2)?, at(1)?, at(3)?])
}

/// The median. Not a number if there are no samples.
#[must_use]
pub fn median(samples: &[f64]) -> f64 {
    spread(samples).map_or(f64::NAN, |[median, ..]| median)
}

/// The bounds of the median with a confidence of 95 %: each sample is above or below it with equal probability. `None`
/// if there are no samples.
#[must_use]
pub fn confidence(samples: &[f64]) -> Option<[f64; 2]> {
    let mut sorted: Vec<f64> = samples.iter().copied().filter(|sample| sample.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len();
    // 1.96 standard deviations of the number of heads.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small number")]
    let off = (0.98 * (count as f64).sqrt()).ceil() as usize;
    let first = (count / 2).saturating_sub(off);
    Some([*sorted.get(first)?, *sorted.get(count - 1 - first)?])
}

fn cell(samples: &[f64]) -> String {
    spread(samples).map_or_else(|| "-".to_owned(), |[median, low, high]| format!("{median:.2} ({low:.2} to {high:.2})"))
}

const HEAD: [&str; 4] = ["", "1 thread", "2 threads at once", "2 threads to 1"];

fn cells(row: &Row) -> [String; 4] {
    [row.name.to_owned(), cell(&row.alone), cell(&row.both), cell(&row.growth)]
}

/// The table as text with aligned columns.
#[must_use]
pub fn text(rows: &[Row]) -> String {
    let lines: Vec<[String; 4]> = [HEAD.map(str::to_owned)].into_iter().chain(rows.iter().map(cells)).collect();
    let width = |column: usize| lines.iter().map(|line| line[column].len()).max().unwrap_or(0);
    let widths = [width(0), width(1), width(2), width(3)];
    let mut text = String::new();
    for [name, alone, both, growth] in &lines {
        let [first, second, third, fourth] = widths;
        _ = writeln!(text, "{name:<first$}  {alone:>second$}  {both:>third$}  {growth:>fourth$}");
    }
    text
}

/// The table in Markdown.
#[must_use]
pub fn markdown(rows: &[Row]) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let head = line(&HEAD.map(str::to_owned)) + "|---|---|---|---|\n";
    rows.iter().fold(head, |table, row| table + &line(&cells(row)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_has_the_median_and_quartiles_of_the_samples() {
        let row = Row { alone: vec![5.0, 1.0, f64::NAN, 3.0, 2.0, 4.0], ..Row::new("a mark") };
        assert_eq!(markdown(&[row]).lines().last(), Some("| a mark | 3.00 (2.00 to 4.00) | - | - |"));
    }

    #[test]
    fn few_samples_give_no_narrow_bounds_of_the_median() {
        assert_eq!(confidence(&[]), None);
        assert_eq!(confidence(&[3.0, 1.0, 2.0]), Some([1.0, 3.0]));
        let hundred: Vec<f64> = (0..100).map(f64::from).collect();
        assert_eq!(confidence(&hundred), Some([40.0, 59.0]));
    }

    #[test]
    fn columns_are_aligned() {
        let rows =
            [Row { alone: vec![100.0], ..Row::new("short") }, Row { alone: vec![1.0], ..Row::new("a longer name") }];
        let ends: Vec<Option<usize>> = text(&rows).lines().skip(1).map(|line| line.find(')')).collect();
        assert!(ends[0].is_some() && ends[0] == ends[1], "{ends:?}");
    }
}
