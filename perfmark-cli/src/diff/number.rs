//! Numbers with enough digits to show a small change.

use std::iter;

use perfmark::{Unit, text};

/// A value in its unit: `2,270.4`, `12.34 µs`.
pub(crate) fn quantity(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Ns => time(value),
        _ => grouped(value),
    }
}

fn time(nanoseconds: f64) -> String {
    let steps = [(1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns")];
    // As it is rounded below: 999.96 µs would be 1000.0 µs.
    let &(size, unit) = steps.iter().find(|(size, _)| nanoseconds >= 0.999_95 * size).unwrap_or(&(1.0, "ns"));
    let value = nanoseconds / size;
    let decimals = match value {
        _ if unit == "ns" && value.fract() == 0.0 => 0,
        100.0.. => 1,
        10.0.. => 2,
        _ => two_digits(value).max(3),
    };
    format!("{value:.decimals$} {unit}")
}

/// The number of decimals that shows two digits of a value.
fn two_digits(value: f64) -> usize {
    iter::successors(Some(value.abs()), |value| Some(10.0 * value)).take_while(|value| *value < 10.0).count()
}

/// A number with commas between thousands, and decimals if they are significant.
pub(crate) fn grouped(value: f64) -> String {
    let decimals = match value.abs() {
        _ if value.fract() == 0.0 => 0,
        10_000.0.. => 0,
        100.0.. => 1,
        _ => two_digits(value).max(2),
    };
    text::grouped(&format!("{value:.decimals$}"))
}

/// A change in percent. `None` if the base is 0.
pub(crate) fn change(base: f64, head: f64) -> Option<f64> {
    (base > 0.0).then(|| 100.0 * (head - base) / base)
}

pub(crate) fn percent(change: f64) -> String {
    match change.abs() {
        0.0 | 0.095.. => format!("{change:+.1} %"),
        0.0005.. => format!("{change:+.3} %"),
        _ => "<0.001 %".into(),
    }
}

/// A part in percent, rounded down: 100 % is all, and no limit that the part misses is shown. 0 % is nothing.
pub(crate) fn share(part: u128, of: u128) -> String {
    match 1000 * part / of.max(1) {
        0 if part > 0 => "<0.1 %".into(),
        tenths => format!("{}.{} %", tenths / 10, tenths % 10),
    }
}

/// Names of marks; if there are very many, only the first. The format JSON has all.
pub(crate) fn names<S: AsRef<str>>(marks: impl IntoIterator<Item = S>) -> String {
    const MOST: usize = 20;
    let mut marks = marks.into_iter();
    let shown: Vec<S> = marks.by_ref().take(MOST).collect();
    let shown = shown.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(", ");
    match marks.count() {
        0 => shown,
        more => format!("{shown}, and {} more", grouped(more as f64)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_changes_are_visible() {
        for (value, unit, text) in [
            (0.0, Unit::Count, "0"),
            (2270.4, Unit::Count, "2,270.4"),
            (1_000_010.3, Unit::Count, "1,000,010"),
            (0.25, Unit::Count, "0.25"),
            (0.001, Unit::Count, "0.0010"),
            (0.0043, Unit::Count, "0.0043"),
            (-0.0043, Unit::Count, "-0.0043"),
            (1e-9, Unit::Count, "0.0000000010"),
            (0.0004, Unit::Ns, "0.00040 ns"),
            (0.5, Unit::Ns, "0.500 ns"),
            (812.0, Unit::Ns, "812 ns"),
            (999.94, Unit::Ns, "999.9 ns"),
            (999.96, Unit::Ns, "1.000 µs"),
            (12_345.0, Unit::Ns, "12.35 µs"),
            (999_940.0, Unit::Ns, "999.9 µs"),
            (999_960.0, Unit::Ns, "1.000 ms"),
            (3_600e9, Unit::Ns, "3600.0 s"),
        ] {
            assert_eq!(quantity(value, unit), text);
        }
        let percents = [1.0, -0.004, 0.0, 250.0, 0.0006, 0.0004, -0.0004].map(percent);
        assert_eq!(percents, ["+1.0 %", "-0.004 %", "+0.0 %", "+250.0 %", "+0.001 %", "<0.001 %", "<0.001 %"]);
    }
}
