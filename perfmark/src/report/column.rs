//! The table's columns: what each shows of a mark's event, and the report width from which it is shown.

use super::histogram::spread;
use super::quantity::{ESTIMATE, IMPOSSIBLE, NEAR, Quantity, integer, missing, percent, real, sum};
use super::ratio;
use super::share::{self, Denominator, Shares};
use crate::snapshot::{Mark, Unit, Values};

/// What a row shows: one event of one mark.
pub(super) struct RowValues<'a> {
    mark: &'a Mark,
    /// `None` if their number is unknown.
    calls: Option<u64>,
    /// `None` if nothing was measured.
    pub(super) values: Option<&'a Values>,
    /// Total and self of calls that did not return, if the row includes them.
    unfinished: (i128, i128),
    unit: Unit,
    /// What a share is relative to.
    denominator: Denominator,
    /// Whether total is an estimate.
    is_estimate: bool,
    /// Whether self is one.
    is_self_estimate: bool,
    /// Whether total and self cannot be true.
    is_impossible: bool,
}

impl<'a> RowValues<'a> {
    pub(super) fn new(mark: &'a Mark, values: Option<&'a Values>, shares: &Shares<'_>) -> Self {
        Self {
            mark,
            calls: Some(mark.calls),
            values: values.filter(|values| values.measured > 0),
            unfinished: (0, 0),
            unit: values.map_or(Unit::Count, |values| shares.unit(&values.event)),
            denominator: values.map(|values| shares.denominator(&values.event)).unwrap_or_default(),
            is_estimate: values.is_some_and(share::is_estimate),
            is_self_estimate: values.is_some_and(|values| share::is_estimate(values) || values.estimated > 0),
            is_impossible: values.is_some_and(|values| shares.is_impossible(values)),
        }
    }

    /// The only row of a mark: it includes calls that did not return.
    pub(super) fn of_mark(mark: &'a Mark, event: Option<&str>, shares: &Shares<'_>) -> Self {
        let values = share::cost(mark, event);
        Self {
            unfinished: values.map_or((0, 0), share::unfinished),
            is_self_estimate: values.is_some_and(|values| shares.is_self_estimate(values)),
            ..Self::new(mark, values, shares)
        }
    }

    /// Sets the number of calls, if it is known.
    pub(super) fn with_calls(self, calls: Option<u64>) -> Self {
        Self { calls, ..self }
    }

    fn call(&self, field: fn(&Values) -> Option<u64>) -> Quantity {
        let value = self.values.and_then(|values| Some((values, field(values)?)));
        value.map_or_else(missing, |(values, value)| of_call(values, value as f64, integer(value, self.unit)))
    }

    /// A sum over calls: flagged if it is an estimate, or no larger than the noise of that many calls.
    fn flagged_sum(&self, value: i64, shown: Quantity, is_estimate: bool) -> Quantity {
        let is_noise = self.values.is_some_and(|values| ratio::is_noise(values, value.into()));
        let flag = if self.is_impossible { IMPOSSIBLE } else { ESTIMATE };
        shown.flagged(NEAR, is_noise && !is_estimate).flagged(flag, is_estimate)
    }

    fn total(&self, show: impl Fn(&Self, i64) -> Quantity) -> Quantity {
        let measured = self.values.map(|values| values.total);
        self.finished_and_not(measured, self.unfinished.0, self.is_estimate, show)
    }

    fn own(&self, show: impl Fn(&Self, i64) -> Quantity) -> Quantity {
        match self.values {
            Some(values) if values.self_sum.is_none() => missing(),
            values => {
                let measured = values.and_then(|values| values.self_sum);
                self.finished_and_not(measured, self.unfinished.1, self.is_self_estimate, show)
            }
        }
    }

    /// A sum over the measured calls, if there are any, and over those that did not return.
    fn finished_and_not(
        &self,
        measured: Option<i64>,
        unfinished: i128,
        is_estimate: bool,
        show: impl Fn(&Self, i64) -> Quantity,
    ) -> Quantity {
        if measured.is_none() && self.unfinished == (0, 0) {
            return missing();
        }
        let sum = share::saturated(i128::from(measured.unwrap_or(0)) + unfinished);
        self.flagged_sum(sum, show(self, sum), is_estimate)
    }

    fn sum(&self, value: i64) -> Quantity {
        sum(value, self.unit)
    }

    fn part(&self, value: i64) -> Quantity {
        self.denominator.share(value)
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
        self.values.map_or_else(missing, |values| mean(values, self.unit))
    }

    /// The mean count of another event. The legend names unmeasured calls of the row's event only.
    fn mean_of(&self, event: &str) -> Quantity {
        let is_other = self.values.is_none_or(|values| values.event != event);
        let values = ratio::of_almost_all(self.mark, event).filter(|_| is_other);
        values.map_or_else(missing, |values| mean(values, Unit::Count))
    }

    fn instructions_per_cycle(&self) -> Quantity {
        let number = ratio::instructions_per_cycle(self.mark);
        number.map_or_else(missing, |number| Quantity { number, unit: "" })
    }

    /// The part of the time that was off the CPU.
    fn off_cpu(&self) -> Quantity {
        let of_time = ratio::off_cpu_of_time(self.mark);
        of_time.map_or_else(missing, |(of, to)| percent(of, to.unsigned_abs().into()))
    }
}

/// The cost of one call, flagged if calls were scaled, or if it is no larger than the probe's noise.
fn of_call(values: &Values, value: f64, shown: Quantity) -> Quantity {
    let noise = values.overhead.noise;
    shown.flagged(ESTIMATE, values.scaled > 0).flagged(NEAR, noise > 0 && value.abs() <= noise as f64)
}

fn mean(values: &Values, unit: Unit) -> Quantity {
    values.mean.map_or_else(missing, |mean| of_call(values, mean, real(mean, unit)))
}

#[derive(Clone, Copy)]
pub(super) struct Column {
    pub(super) head: &'static str,
    /// The width of the narrowest report that has it. A column that not every report has gives way to marks' names.
    pub(super) from: usize,
    pub(super) cell: fn(&RowValues<'_>) -> Quantity,
}

impl Column {
    pub(super) fn is_shown(&self, columns: usize) -> bool {
        self.from <= columns
    }
}

/// The histogram's.
pub(super) const SPREAD: &str = "min to max";
/// The columns of one event.
pub(super) const COLUMNS: [Column; 14] = [
    Column { head: "self", from: 0, cell: |row| row.own(RowValues::part) },
    Column { head: "total", from: 0, cell: |row| row.total(RowValues::part) },
    Column { head: "self sum", from: 140, cell: |row| row.own(RowValues::sum) },
    Column { head: "total sum", from: 120, cell: |row| row.total(RowValues::sum) },
    Column { head: CALLS, from: 0, cell: |row| row.calls.map_or_else(missing, |calls| integer(calls, Unit::Count)) },
    Column { head: "mean", from: 0, cell: |row| row.mean() },
    Column { head: "self mean", from: 160, cell: |row| row.own_mean() },
    Column { head: "min", from: 140, cell: |row| row.call(|values| values.min) },
    Column { head: "p50", from: 90, cell: |row| row.call(|values| values.p50) },
    Column { head: "p90", from: 140, cell: |row| row.call(|values| values.p90) },
    Column { head: "p99", from: 0, cell: |row| row.call(|values| values.p99) },
    Column { head: "p99.9", from: 140, cell: |row| row.call(|values| values.p999) },
    Column { head: "max", from: 100, cell: |row| row.call(|values| values.max) },
    Column { head: SPREAD, from: 160, cell: |row| row.spread() },
];
/// In details, a mark's calls are beside its name.
pub(super) const CALLS: &str = "calls";
/// The columns of marks that record the events which they need.
pub(super) const OF_OTHER_EVENTS: [Column; 5] = [
    Column { head: OFF_CPU, from: 0, cell: |row| row.off_cpu() },
    Column { head: ALLOCATIONS, from: 0, cell: |row| row.mean_of("allocations") },
    Column { head: BYTES, from: 0, cell: |row| row.mean_of("allocated_bytes") },
    Column { head: INSN, from: 0, cell: |row| row.mean_of(ratio::INSTRUCTIONS) },
    Column { head: IPC, from: 0, cell: |row| row.instructions_per_cycle() },
];
pub(super) const OFF_CPU: &str = "off-CPU";
pub(super) const ALLOCATIONS: &str = "allocs";
pub(super) const BYTES: &str = "bytes";
pub(super) const INSN: &str = "insn";
pub(super) const IPC: &str = "IPC";

/// The columns of a table of these rows, one a mark.
pub(super) fn of_marks(rows: &[RowValues<'_>]) -> Vec<Column> {
    let has_some = |column: &Column| rows.iter().any(|row| !(column.cell)(row).is_missing());
    let mut columns = COLUMNS.to_vec();
    let last = columns.len() - 1;
    columns.splice(last..last, OF_OTHER_EVENTS.into_iter().filter(has_some));
    columns
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::sample::{mark, snapshot, values};

    /// The cell of the column, for a mark of 640 calls whose values of instructions are changed.
    fn cell_of(head: &str, change: fn(&mut Values)) -> String {
        let mut one = mark("f", 640);
        one.values = vec![values("time", 640, 64_000), values("instructions", 640, 6_400)];
        change(&mut one.values[1]);
        let snapshot = snapshot(&[], &[one]);
        let shares = Shares::new(&snapshot);
        let row = RowValues::of_mark(&snapshot.marks[0], Some("time"), &shares);
        let column = OF_OTHER_EVENTS.iter().find(|column| column.head == head).expect("a column");
        (column.cell)(&row).to_string()
    }

    #[test]
    fn instructions_per_call_are_shown_if_almost_all_calls_were_measured() {
        assert_eq!(cell_of(INSN, |_| ()), "10");
        assert_eq!(cell_of(INSN, |values| values.unmeasured = 10), "10");
        assert_eq!(cell_of(INSN, |values| values.unmeasured = 11), "–");
    }

    #[test]
    fn values_of_scaled_calls_are_flagged() {
        let mut one = mark("f", 640);
        one.values = vec![Values { scaled: 1, ..values("cycles", 640, 64_000) }];
        let snapshot = snapshot(&[], &[one]);
        let shares = Shares::new(&snapshot);
        let row = RowValues::of_mark(&snapshot.marks[0], Some("cycles"), &shares);
        for column in COLUMNS.iter().filter(|column| ![CALLS, SPREAD].contains(&column.head)) {
            assert!((column.cell)(&row).number.starts_with(ESTIMATE), "{}", column.head);
        }
        assert!(shares.own_part(Some("cycles"), &[0]).number.starts_with(ESTIMATE));
        assert_eq!(cell_of(INSN, |values| values.scaled = 1), "≈10");
    }

    #[test]
    fn instructions_within_the_noise_are_flagged() {
        assert_eq!(cell_of(INSN, |values| values.overhead.noise = 9), "10");
        assert_eq!(cell_of(INSN, |values| values.overhead.noise = 10), "~10");
    }
}
