//! The table's columns: what each shows of a mark's event, and the report width from which it is shown.

use super::histogram::spread;
use super::quantity::{ESTIMATE, NEAR, Quantity, missing, percent, real, sum, whole};
use super::share::Shares;
use crate::snapshot::{Mark, Unit, Values};

/// What a row shows: one event of one mark.
pub(super) struct RowValues<'a> {
    calls: u64,
    /// `None` if nothing was measured.
    pub(super) values: Option<&'a Values>,
    unit: Unit,
    /// What a share is relative to.
    whole: u128,
}

impl<'a> RowValues<'a> {
    pub(super) fn new(mark: &Mark, values: Option<&'a Values>, shares: &Shares<'_>) -> Self {
        Self {
            calls: mark.calls,
            values: values.filter(|values| values.measured > 0),
            unit: values.map_or(Unit::Count, |values| shares.unit(&values.event)),
            whole: values.map_or(0, |values| shares.whole(&values.event).sum),
        }
    }

    /// Sets the number of calls.
    pub(super) fn with_calls(self, calls: u64) -> Self {
        Self { calls, ..self }
    }

    fn of(&self, field: fn(&Values) -> Option<u64>) -> Quantity {
        self.values.and_then(field).map_or_else(missing, |value| whole(value, self.unit))
    }

    /// As [`of`](Self::of), for the cost of one call: flagged if it is no larger than the probe's noise.
    fn call(&self, field: fn(&Values) -> Option<u64>) -> Quantity {
        let value = self.values.and_then(field);
        self.of(field).flagged(NEAR, value.is_some_and(|value| self.is_noise(value as f64)))
    }

    fn is_noise(&self, value: f64) -> bool {
        self.values.is_some_and(|values| values.probe.noise > 0 && value.abs() <= values.probe.noise as f64)
    }

    /// A sum over calls: flagged if it is an estimate, or no larger than the noise of that many calls.
    fn flagged_sum(&self, value: i64, shown: Quantity, is_estimate: bool) -> Quantity {
        let is_noise = self.values.is_some_and(|values| {
            let noise = u128::from(values.probe.noise) * u128::from(values.weight);
            noise > 0 && u128::from(value.unsigned_abs()) <= noise
        });
        shown.flagged(NEAR, is_noise && !is_estimate).flagged(ESTIMATE, is_estimate)
    }

    fn total(&self, show: impl Fn(&Self, i64) -> Quantity) -> Quantity {
        let Some(values) = self.values else { return missing() };
        self.flagged_sum(values.total, show(self, values.total), values.extrapolated)
    }

    fn own(&self, show: impl Fn(&Self, i64) -> Quantity) -> Quantity {
        let Some((values, own)) = self.values.and_then(|values| Some((values, values.self_sum?))) else {
            return missing();
        };
        self.flagged_sum(own, show(self, own), values.extrapolated || values.estimated > 0)
    }

    fn sum(&self, value: i64) -> Quantity {
        sum(value, self.unit)
    }

    fn part(&self, value: i64) -> Quantity {
        percent(value, self.whole)
    }

    /// The self cost per call, over the calls that the sum covers.
    fn own_mean(&self) -> Quantity {
        let Some(mean) = self.values.and_then(Values::self_mean) else { return missing() };
        self.own(|row, _| real(mean, row.unit))
    }

    fn spread(&self) -> Quantity {
        let spread = self.values.and_then(spread);
        spread.map_or_else(missing, |number| Quantity { number, unit: "" })
    }

    fn mean(&self) -> Quantity {
        let mean = self.values.and_then(|values| values.mean);
        mean.map_or_else(missing, |mean| real(mean, self.unit).flagged(NEAR, self.is_noise(mean)))
    }
}

pub(super) struct Column {
    pub(super) head: &'static str,
    /// The width of the narrowest report that has it.
    from: usize,
    /// Whether it is dropped if it leaves marks' names too little room.
    gives_way: bool,
    pub(super) cell: fn(&RowValues<'_>) -> Quantity,
}

impl Column {
    pub(super) fn is_shown(&self, columns: usize) -> bool {
        self.from <= columns
    }

    pub(super) fn gives_way(&self) -> bool {
        self.gives_way
    }
}

pub(super) const CALLS: Column =
    Column { head: "calls", from: 0, gives_way: false, cell: |row| whole(row.calls, Unit::Count) };
pub(super) const SELF: Column =
    Column { head: "self", from: 100, gives_way: false, cell: |row| row.own(RowValues::part) };
/// The histogram's.
pub(super) const SPREAD: &str = "min to max";
pub(super) const COLUMNS: [Column; 13] = [
    Column { head: "total", from: 0, gives_way: false, cell: |row| row.total(RowValues::sum) },
    Column { head: "self total", from: 180, gives_way: true, cell: |row| row.own(RowValues::sum) },
    Column { head: "share", from: 0, gives_way: false, cell: |row| row.total(RowValues::part) },
    SELF,
    Column { head: "mean", from: 0, gives_way: false, cell: |row| row.mean() },
    Column { head: "self mean", from: 180, gives_way: true, cell: |row| row.own_mean() },
    Column { head: "min", from: 140, gives_way: false, cell: |row| row.call(|values| values.min) },
    Column { head: "p50", from: 0, gives_way: false, cell: |row| row.call(|values| values.p50) },
    Column { head: "p90", from: 120, gives_way: false, cell: |row| row.call(|values| values.p90) },
    Column { head: "p99", from: 0, gives_way: false, cell: |row| row.call(|values| values.p99) },
    Column { head: "p99.9", from: 140, gives_way: false, cell: |row| row.call(|values| values.p999) },
    Column { head: "max", from: 0, gives_way: false, cell: |row| row.call(|values| values.max) },
    Column { head: SPREAD, from: 140, gives_way: true, cell: |row| row.spread() },
];
