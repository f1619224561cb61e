//! Numbers for people: three significant digits and a unit.
//!
//! A value is shown in the first unit in which it is, rounded, below the unit's limit. Rounding comes first:
//! 999,499 ns are 999 µs, 999,500 ns are 1.00 ms and never 1000 µs.

use std::fmt;

use crate::snapshot::Unit;
use crate::text::{exact, plural};

/// A number's digits and its unit, apart so that a column can align both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Quantity {
    pub(super) number: String,
    pub(super) unit: &'static str,
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.number)?;
        if self.unit.is_empty() { Ok(()) } else { write!(f, " {}", self.unit) }
    }
}

/// Flags a number that is no larger than the probe's noise.
pub(super) const NEAR: char = '~';
/// Flags a sum that includes estimates for calls that were not measured, and each value of scaled calls.
pub(super) const ESTIMATE: char = '≈';
/// Flags a value that cannot be true, or a share of one.
pub(super) const IMPOSSIBLE: char = '?';

impl Quantity {
    /// Whether nothing was measured.
    pub(super) fn is_missing(&self) -> bool {
        *self == missing()
    }

    /// Whether it has one of these flags.
    pub(super) fn is_flagged(&self) -> bool {
        self.number.starts_with([NEAR, ESTIMATE, IMPOSSIBLE])
    }

    /// With a minus before it, if `is_so`.
    fn negated(mut self, is_so: bool) -> Self {
        if is_so {
            self.number.insert(0, '-');
        }
        self
    }

    /// With that flag before it, if `is_so` and it is a value without a flag.
    pub(super) fn flagged(mut self, flag: char, is_so: bool) -> Self {
        if is_so && !self.is_flagged() && !self.is_missing() {
            self.number.insert(0, flag);
        }
        self
    }
}

/// The cell of a value that was not measured.
#[inline(never)]
pub(super) fn missing() -> Quantity {
    Quantity { number: "–".to_owned(), unit: "" }
}

/// An integer number of occurrences or nanoseconds.
pub(super) fn integer(value: u64, unit: Unit) -> Quantity {
    climb(u128::from(value) * MICRO, unit)
}

/// A sum of occurrences or nanoseconds, which can be negative.
pub(super) fn sum(value: i64, unit: Unit) -> Quantity {
    integer(value.unsigned_abs(), unit).negated(value < 0)
}

/// A mean or a ratio; missing if it is not a number. One below zero that rounds to zero is zero.
pub(super) fn real(value: f64, unit: Unit) -> Quantity {
    /// What rounds to 0.01.
    const SMALLEST: f64 = 0.005;
    if value.is_nan() {
        return missing();
    }
    if value <= -SMALLEST {
        return real(-value, unit).negated(true);
    }
    if value > 0.0 && value < SMALLEST {
        return Quantity { number: "<0.01".to_owned(), unit: ladder(unit)[0].name };
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates, at 0 if negative")]
    let micro = (value * 1e6).round() as u128;
    climb(micro.min(u128::from(u64::MAX) * MICRO), unit)
}

/// `part` of `all` in percent, to one decimal; missing if `all` is 0. One below zero that rounds to zero is zero.
pub(super) fn percent(part: i64, all: u128) -> Quantity {
    let size = u128::from(part.unsigned_abs());
    let Some(tenths) = rounded(size * 1000, all) else { return missing() };
    let number = if tenths == 0 && part > 0 { "<0.1".to_owned() } else { decimal(tenths, 1) };
    Quantity { number, unit: "%" }.negated(part < 0 && tenths > 0)
}

/// A rounded count with its noun: `1 call`, `4.21 M calls`.
pub(super) fn rounded_count(count: u64, noun: &str) -> String {
    format!("{} {}", integer(count, Unit::Count), plural(count, noun))
}

/// Values are handled in millionths, so that means keep their decimals.
const MICRO: u128 = 1_000_000;

/// A unit of `size`, used for values that round to less than `end`; both in the ladder's first unit.
struct Step {
    name: &'static str,
    size: u128,
    end: u128,
}

const fn step(name: &'static str, size: u128, end: u128) -> Step {
    Step { name, size, end }
}

const COUNTS: [Step; 7] = [
    step("", 1, 10_000),
    step("k", 1_000, 1_000_000),
    step("M", 1_000_000, 1_000_000_000),
    step("G", 1_000_000_000, 1_000_000_000_000),
    step("T", 1_000_000_000_000, 1_000_000_000_000_000),
    step("P", 1_000_000_000_000_000, 1_000_000_000_000_000_000),
    step("E", 1_000_000_000_000_000_000, u128::MAX),
];

const SECOND: u128 = 1_000_000_000;
const DAY: u128 = 86_400 * SECOND;

const DURATIONS: [Step; 8] = [
    step("ns", 1, 1_000),
    step("µs", 1_000, 1_000_000),
    step("ms", 1_000_000, SECOND),
    step("s", SECOND, 60 * SECOND),
    step("min", 60 * SECOND, 3_600 * SECOND),
    step("h", 3_600 * SECOND, DAY),
    step("d", DAY, 365 * DAY),
    step("y", 365 * DAY, u128::MAX),
];

fn ladder(unit: Unit) -> &'static [Step] {
    match unit {
        Unit::Count => &COUNTS,
        Unit::Ns => &DURATIONS,
    }
}

fn climb(micro: u128, unit: Unit) -> Quantity {
    let mut shown = missing();
    for step in ladder(unit) {
        let is_integer = step.size == 1 && micro.is_multiple_of(MICRO);
        let (digits, decimals) = three_digits(micro, step.size * MICRO, is_integer);
        shown = Quantity { number: decimal(digits, decimals), unit: step.name };
        if digits * step.size < step.end.saturating_mul(10_u128.pow(decimals)) {
            break;
        }
    }
    shown
}

/// `value / size` as digits and how many of them are decimals: as many as leave three digits, or none.
fn three_digits(value: u128, size: u128, is_integer: bool) -> (u128, u32) {
    let most = if is_integer { 0 } else { 2 };
    for decimals in (1..=most).rev() {
        let digits = rounded(value * 10_u128.pow(decimals), size).unwrap_or(0);
        if digits < 1000 {
            return (digits, decimals);
        }
    }
    (rounded(value, size).unwrap_or(0), 0)
}

fn rounded(value: u128, size: u128) -> Option<u128> {
    (value + size / 2).checked_div(size)
}

fn decimal(digits: u128, decimals: u32) -> String {
    let one = 10_u128.pow(decimals);
    let integer = exact(u64::try_from(digits / one).unwrap_or(u64::MAX));
    match decimals {
        0 => integer,
        _ => format!("{integer}.{:0places$}", digits % one, places = decimals as usize),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(value: u64) -> String {
        integer(value, Unit::Count).to_string()
    }

    fn time(value: u64) -> String {
        integer(value, Unit::Ns).to_string()
    }

    #[test]
    fn counts_are_integers_to_9999_and_then_three_digits() {
        let shown = [0, 999, 1_000, 9_999, 10_000, 10_050, 999_500, u64::MAX].map(count).join(", ");
        assert_eq!(shown, "0, 999, 1,000, 9,999, 10.0 k, 10.1 k, 1.00 M, 18.4 E");
    }

    #[test]
    fn durations_round_into_the_next_unit() {
        for (value, text) in [
            (0, "0 ns"),
            (85, "85 ns"),
            (999, "999 ns"),
            (1_000, "1.00 µs"),
            (3_100, "3.10 µs"),
            (999_499, "999 µs"),
            (999_500, "1.00 ms"),
            (12_449_999, "12.4 ms"),
            (12_450_000, "12.5 ms"),
            (999_500_000, "1.00 s"),
            (2_310_000_000, "2.31 s"),
            (59_949_999_999, "59.9 s"),
            (59_950_000_000, "1.00 min"),
            (3_596_999_999_999, "59.9 min"),
            (3_597_000_000_000, "1.00 h"),
            (86_219_999_999_999, "23.9 h"),
            (86_220_000_000_000, "1.00 d"),
            (31_492_799_999_999_999, "364 d"),
            (31_492_800_000_000_000, "1.00 y"),
            (u64::MAX, "585 y"),
        ] {
            assert_eq!(time(value), text, "{value}");
        }
    }

    /// The text's value, read back by floats, is within half of its last digit of the value.
    #[test]
    fn the_text_is_the_nearest_over_the_complete_range() {
        let around = (0..64).flat_map(|bit| {
            let power = 1_u64 << bit;
            [power - 1, power, power + power / 3, power + power / 2 + 1, power + (power - 1)]
        });
        let tens = (0..20).flat_map(|ten| {
            let power = 10_u64.pow(ten);
            [power - 1, power, power.saturating_mul(2) - 1, power / 200 * 199, power / 2000 * 1999]
        });
        for value in around.chain(tens) {
            for unit in [Unit::Count, Unit::Ns] {
                let shown = integer(value, unit);
                let step = ladder(unit).iter().find(|step| step.name == shown.unit).unwrap();
                let decimals = shown.number.split_once('.').map_or(0, |(_, decimals)| decimals.len());
                let read: f64 = shown.number.replace(',', "").parse().unwrap();
                let size = step.size as f64;
                let half = 0.5 * 0.1_f64.powi(i32::try_from(decimals).unwrap()) * size;
                let off = (read * size - value as f64).abs();
                assert!(off <= half * (1.0 + 1e-9), "{value} as {shown}");
                assert!(shown.number.len() <= 5, "{value} as {shown}");
                let digits = shown.number.bytes().filter(u8::is_ascii_digit).count();
                assert!(digits == 3 || step.size == 1, "{value} as {shown}");
            }
        }
    }

    #[test]
    fn a_mean_keeps_three_digits_and_is_never_a_false_zero() {
        for (value, text) in [
            (0.0, "0"),
            (1e-12, "<0.01"),
            (0.0049, "<0.01"),
            (0.005, "0.01"),
            (0.25, "0.25"),
            (1.5, "1.50"),
            (2.0, "2"),
            (9.996, "10.0"),
            (99.96, "100"),
            (847.25, "847"),
            (999.5, "1,000"),
            (9_999.4, "9,999"),
            (9_999.5, "10.0 k"),
            (1e300, "18.4 E"),
            (f64::INFINITY, "18.4 E"),
            (f64::NAN, "–"),
            (-1.0, "-1"),
            (-0.25, "-0.25"),
            (-0.005, "-0.01"),
            (-0.0049, "0"),
            (-0.0, "0"),
        ] {
            assert_eq!(real(value, Unit::Count).to_string(), text, "{value}");
        }
        assert_eq!(real(0.001, Unit::Ns).to_string(), "<0.01 ns");
        assert_eq!(real(-0.003, Unit::Ns).to_string(), "0 ns");
        assert_eq!(real(999.6, Unit::Ns).to_string(), "1.00 µs");
    }

    #[test]
    fn a_share_has_one_decimal_and_is_never_a_false_zero() {
        for (part, all, text) in [
            (0, 10, "0.0 %"),
            (1, 1_000_000, "<0.1 %"),
            (1, 3, "33.3 %"),
            (2, 3, "66.7 %"),
            (5, 5, "100.0 %"),
            (i64::MAX, u128::from(u64::MAX), "50.0 %"),
            (-1, 3, "-33.3 %"),
            (-1, 1_000_000, "0.0 %"),
            (i64::MIN, u128::from(u64::MAX), "-50.0 %"),
            (0, 0, "–"),
        ] {
            assert_eq!(percent(part, all).to_string(), text);
        }
    }
}
