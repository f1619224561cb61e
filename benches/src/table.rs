//! Medians and quartiles of samples, and tables as text and as Markdown.

use std::fmt::Write as _;

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

/// The median and the quartiles.
#[must_use]
pub fn cell(samples: &[f64], decimals: usize) -> String {
    let text = |[median, low, high]: [f64; 3]| format!("{median:.decimals$} ({low:.decimals$} to {high:.decimals$})");
    spread(samples).map_or_else(|| "-".to_owned(), text)
}

/// The lines as text with aligned columns. The first line is the head.
#[must_use]
pub fn text<const COLUMNS: usize>(lines: &[[String; COLUMNS]]) -> String {
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; COLUMNS] = std::array::from_fn(width);
    let mut text = String::new();
    for line in lines {
        for (column, (cell, width)) in line.iter().zip(&widths).enumerate() {
            _ = if column == 0 { write!(text, "{cell:<width$}") } else { write!(text, "  {cell:>width$}") };
        }
        text.push('\n');
    }
    text
}

/// The lines in Markdown.
#[must_use]
pub fn markdown<const COLUMNS: usize>(lines: &[[String; COLUMNS]]) -> String {
    let mut lines = lines.iter().map(|cells| format!("| {} |\n", cells.join(" | ")));
    let head = lines.next().unwrap_or_default();
    lines.fold(format!("{head}|{}\n", "---|".repeat(COLUMNS)), |table, line| table + &line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_samples_give_no_narrow_bounds_of_the_median() {
        assert_eq!(confidence(&[]), None);
        assert_eq!(confidence(&[3.0, 1.0, 2.0]), Some([1.0, 3.0]));
        let hundred: Vec<f64> = (0..100).map(f64::from).collect();
        assert_eq!(confidence(&hundred), Some([40.0, 59.0]));
    }
}
