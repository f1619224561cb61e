//! Shares of events, and the order of marks by them.
//!
//! Everything measured of an event inside marks is the sum of every mark's self, including that of unwound calls and of
//! calls in flight. So nested marks count once. The cost of other threads' calls in flight, and of calls that were not
//! counted, is unknown, so a mark's total can exceed this sum. A share is relative to the larger of both: no share of
//! an exact total exceeds 100 %.

use std::cmp::Reverse;

use super::quantity::{ESTIMATE, IMPOSSIBLE, Quantity, percent};
use super::ratio;
use super::view::Sort;
use crate::compact::{Collect as _, Map, sort_by, sort_by_key};
use crate::snapshot::{Event, Mark, Read, Snapshot, Unit, Values};

/// The time between the polls of an async call.
const SUSPENDED: &str = "suspended";

/// What the shares of an event are relative to.
#[derive(Clone, Copy, Default)]
pub(super) struct Denominator {
    /// Everything measured of it.
    pub(super) sum: u128,
    /// Whether the self of some mark is unknown. `sum` then adds up totals, and nested marks count more than once.
    pub(super) is_of_totals: bool,
    /// Whether a part of it is an estimate.
    pub(super) is_estimate: bool,
    /// The most that all marks together can have measured, if that is known.
    most: Option<i128>,
    /// Whether `sum` is larger than that, or estimates below zero take more than a tenth from it. No share of it can
    /// then be true.
    pub(super) is_impossible: bool,
}

impl Denominator {
    /// That part of it, flagged if no share of it can be true.
    pub(super) fn share(self, part: i64) -> Quantity {
        percent(part, self.sum).flagged(IMPOSSIBLE, self.is_impossible)
    }
}

/// The events, and what their shares are relative to.
pub(super) struct Shares<'a> {
    snapshot: &'a Snapshot,
    events: Map<&'a str, &'a Event>,
    denominators: Map<&'a str, Denominator>,
}

impl<'a> Shares<'a> {
    pub(super) fn new(snapshot: &'a Snapshot) -> Self {
        let mut measured: Map<&str, Vec<&Values>> = Map::new();
        for values in snapshot.marks.iter().flat_map(|mark| &mark.values).filter(|values| has_cost(values)) {
            measured.get_or_default(&*values.event).push(values);
        }
        // Async calls are suspended together, but each thread runs, or waits, one at a time.
        let all = i128::from(snapshot.wall_ns).saturating_mul(snapshot.threads.max(1).into());
        let is_bounded = |event: &&Event| event.unit == Unit::Ns && event.name != SUSPENDED;
        let bounded = snapshot.events.iter().filter(is_bounded).map(|event| event.name.as_str()).collect_set();
        let most = |event| bounded.contains(event).then_some(all);
        let denominators =
            measured.into_iter().map(|(event, values)| (event, denominator(&values, most(event)))).collect_map();
        let events = snapshot.events.iter().map(|event| (event.name.as_str(), event)).collect_map();
        Self { snapshot, events, denominators }
    }

    /// Whether several events were measured.
    pub(super) fn are_of_several(&self) -> bool {
        self.denominators.len() > 1
    }

    /// What the event's shares are relative to; zero for an event that was never measured.
    pub(super) fn denominator(&self, event: &str) -> Denominator {
        self.denominators.get(event).copied().unwrap_or_default()
    }

    /// Whether self is an estimate: total is, or the costs of some calls inside are. Of calls that did not return, it
    /// is unknown whether there are estimates inside.
    pub(super) fn is_self_estimate(&self, values: &Values) -> bool {
        is_self_estimate(values, self.denominator(&values.event).is_estimate)
    }

    /// Whether these values cannot be true: below zero, which exact ones may be, too, if too much probe overhead was
    /// subtracted; or estimates of more time than the program ran, or with an error that is larger than half of them.
    pub(super) fn is_impossible(&self, values: &Values) -> bool {
        /// A part of everything measured that the table shows as 0.1 %.
        const VISIBLE: i128 = 1_000;
        let Denominator { sum, most, is_impossible, .. } = self.denominator(&values.event);
        let (own, total) = (whole_self(values).unwrap_or(0), whole_total(values));
        // A poll begins before that of a call that it awaits, and ends after it: so its call is suspended for less.
        let may_be_below = values.event == SUSPENDED;
        let is_below = |of: i128| {
            let is_visible = of < 0 && of.unsigned_abs() * VISIBLE.unsigned_abs() > sum;
            is_visible && !may_be_below && !ratio::is_noise(values, of)
        };
        let error = values.relative_error().unwrap_or(0.0);
        let is_above = most.is_some_and(|most| exceeds(own, most, error));
        let has_error = error > 0.5;
        let is_visible = total.saturating_mul(VISIBLE) > i128::try_from(sum).unwrap_or(i128::MAX);
        let is_wrong_estimate = self.is_self_estimate(values) && (is_above || has_error && is_visible);
        is_impossible || is_wrong_estimate || is_below(own) || is_below(total)
    }

    /// Self, or total if self is unknown, without its sign, as a part of everything measured of the event.
    pub(super) fn size(&self, values: &Values) -> f64 {
        let own = whole_self(values).unwrap_or_else(|| whole_total(values)).unsigned_abs();
        own as f64 / self.denominator(&values.event).sum.max(1) as f64
    }

    /// The unit of the event's values.
    pub(super) fn unit(&self, event: &str) -> Unit {
        self.events.get(event).map_or(Unit::Count, |known| known.unit)
    }

    /// The mark's values that get a row. An event that is not available on this machine is listed once, in the legend.
    pub(super) fn shown(&self, mark: &'a Mark) -> Vec<&'a Values> {
        let is_lacking =
            |values: &Values| self.events.get(&*values.event).is_some_and(|event| event.read == Read::None);
        mark.values.iter().filter(|values| values.measured > 0 || !is_lacking(values)).collect()
    }

    /// The event that orders the marks.
    pub(super) fn leading(&self) -> Option<&'a str> {
        self.leading_of(&self.called())
    }

    /// The indices of all marks with a call.
    fn called(&self) -> Vec<usize> {
        let marks = self.snapshot.marks.iter().enumerate();
        marks.filter(|(_, mark)| is_called(mark)).map(|(index, _)| index).collect()
    }

    /// The event that most of these marks measured; of several, the one that most of them name first.
    fn leading_of(&self, marks: &[usize]) -> Option<&'a str> {
        let mut measured: Map<&str, (usize, usize)> = Map::new();
        for &index in marks {
            let values = self.snapshot.marks[index].values.iter().filter(|values| has_cost(values));
            for (number, values) in values.enumerate() {
                let (all, first) = measured.get_or_default(&*values.event);
                (*all, *first) = (*all + 1, *first + usize::from(number == 0));
            }
        }
        // The last maximum counts: of equals, the event that the snapshot names first.
        let unknown = measured.iter().map(|(&event, _)| event).filter(|event| !self.events.contains_key(event));
        let known = self.snapshot.events.iter().map(|event| event.name.as_str()).rev();
        unknown
            .chain(known.filter(|event| measured.contains_key(event)))
            .max_by_key(|event| measured.get(event).copied())
    }

    /// All marks with a call, by the event of their row: first those that measured the [`leading`](Self::leading)
    /// event, then, of the others, those that measured the event that leads them, and so on. Marks that measured
    /// nothing are at the end of the first group.
    pub(super) fn groups(&self, sort: Sort) -> Vec<Group<'a>> {
        /// Bounds the work for marks that all have different events.
        const MOST: usize = 16;
        let mut groups: Vec<Group<'a>> = Vec::new();
        let mut left = self.called();
        while groups.len() < MOST {
            let Some(event) = self.leading_of(&left) else { break };
            let has_it = |&index: &usize| cost(&self.snapshot.marks[index], Some(event)).is_some();
            let (marks, others): (Vec<_>, Vec<_>) = left.into_iter().partition(has_it);
            let weigh = |index: usize| (Reverse(self.weight(index, event, sort)), index);
            let mut weighed: Vec<_> = marks.into_iter().map(weigh).collect();
            sort_by(&mut weighed, |one, other| one.0.cmp(&other.0));
            groups.push(Group { event: Some(event), marks: weighed.into_iter().map(|(_, index)| index).collect() });
            left = others;
        }
        sort_by_key(&mut left, |&index| Reverse(self.snapshot.marks[index].calls));
        match groups.first_mut() {
            Some(first) => first.marks.extend(left),
            None if left.is_empty() => {}
            None => groups.push(Group { event: None, marks: left }),
        }
        groups
    }

    /// The indices of all marks in the order of their rows. Those never called are at the end.
    pub(super) fn order(&self, sort: Sort) -> Vec<usize> {
        let called = self.groups(sort).into_iter().flat_map(|group| group.marks);
        let marks = self.snapshot.marks.iter().enumerate();
        let never = marks.filter(|(_, mark)| !is_called(mark)).map(|(index, _)| index);
        called.chain(never).collect()
    }

    fn weight(&self, index: usize, event: &str, sort: Sort) -> (i128, i128, u64) {
        let mark = &self.snapshot.marks[index];
        let Some(values) = cost(mark, Some(event)) else { return (i128::MIN, 0, mark.calls) };
        let total = whole_total(values);
        let own = whole_self(values).unwrap_or(total);
        let of_call = |value: Option<u64>| value.map_or(-1, i128::from);
        let key = match sort {
            Sort::SelfCost => own,
            Sort::Total => total,
            Sort::Calls => mark.calls.into(),
            #[expect(clippy::cast_possible_truncation, reason = "an order, of means with three decimals")]
            Sort::Mean => values.mean.map_or(-1, |mean| (mean * 1e3) as i128),
            Sort::P50 => of_call(values.p50),
            Sort::P99 => of_call(values.p99),
            Sort::Max => of_call(values.max),
        };
        (key, own, mark.calls)
    }

    /// The self of these marks together, of everything measured of that event.
    pub(super) fn own_part(&self, event: Option<&str>, marks: &[usize]) -> Quantity {
        let values = || marks.iter().filter_map(|&index| cost(&self.snapshot.marks[index], event));
        let sum: i128 = values().filter_map(whole_self).sum();
        let all = event.map(|event| self.denominator(event)).unwrap_or_default();
        all.share(saturated(sum))
            .flagged(IMPOSSIBLE, values().any(|values| self.is_impossible(values)))
            .flagged(ESTIMATE, values().any(|values| self.is_self_estimate(values)))
    }
}

impl Sort {
    /// The order of the rows in a report of that snapshot, as indices of its marks. Marks that were never called are at
    /// the end.
    ///
    /// ```standalone_crate
    /// #[perfmark::perfmark(time)]
    /// fn parse() {}
    /// #[perfmark::perfmark(time)]
    /// fn print() {}
    ///
    /// # fn main() {
    /// print();
    /// let snapshot = perfmark::snapshot();
    /// # if cfg!(feature = "record") {
    /// let first = perfmark::Sort::SelfCost.order(&snapshot)[0];
    /// assert_eq!(snapshot.marks[first].name, "print");
    /// # }
    /// # }
    /// ```
    #[must_use]
    pub fn order(self, snapshot: &Snapshot) -> Vec<usize> {
        Shares::new(&snapshot.for_known_calls()).order(self)
    }
}

/// Marks whose rows show the same event, in the order of their rows.
pub(super) struct Group<'a> {
    /// `None` if no mark measured anything.
    pub(super) event: Option<&'a str>,
    /// Indices in the snapshot.
    pub(super) marks: Vec<usize>,
}

/// The mark's values of that event, if the cost of any call is known.
pub(super) fn cost<'a>(mark: &'a Mark, event: Option<&str>) -> Option<&'a Values> {
    mark.values.iter().find(|values| has_cost(values) && Some(values.event.as_str()) == event)
}

/// Whether any call began.
pub(super) fn is_called(mark: &Mark) -> bool {
    mark.calls > 0 || mark.in_flight > 0
}

/// Whether the cost of any of its calls is known.
pub(super) fn has_cost(values: &Values) -> bool {
    values.measured > 0 || unfinished(values) != (0, 0)
}

/// See [`Shares::is_self_estimate`]. `has_estimates`: whether any value of the event is one.
fn is_self_estimate(values: &Values, has_estimates: bool) -> bool {
    is_estimate(values) || values.estimated > 0 || has_estimates && unfinished(values).1 != 0
}

/// Whether total is an estimate: some calls were not measured, or counted in part.
pub(super) fn is_estimate(values: &Values) -> bool {
    values.extrapolated || values.scaled > 0
}

/// The nearest sum that a row can show.
pub(super) fn saturated(sum: i128) -> i64 {
    i64::try_from(sum).unwrap_or(if sum < 0 { i64::MIN } else { i64::MAX })
}

/// Total and self of calls that a panic ended, or that are in flight.
pub(super) fn unfinished(values: &Values) -> (i128, i128) {
    let sum = |one: i64, other: i64| i128::from(one) + i128::from(other);
    (sum(values.unwound_total, values.in_flight_total), sum(values.unwound_self, values.in_flight_self))
}

/// Total, with that of calls that a panic ended and of those in flight.
fn whole_total(values: &Values) -> i128 {
    i128::from(values.total) + unfinished(values).0
}

/// Self, with that of calls that a panic ended and of those in flight.
fn whole_self(values: &Values) -> Option<i128> {
    Some(i128::from(values.self_sum?) + unfinished(values).1)
}

/// Whether an estimate with this relative error exceeds `most` by more than three errors, or by more than a tenth.
fn exceeds(estimate: i128, most: i128, error: f64) -> bool {
    estimate as f64 > most as f64 * (1.0 + (3.0 * error).min(0.1))
}

/// Whether the estimated total is longer than `most`. An exact one may be: of a call that began before `since`.
fn is_longer(values: &Values, most: i128) -> bool {
    values.extrapolated && exceeds(values.total.into(), most, values.relative_error().unwrap_or(0.0))
}

fn denominator(values: &[&Values], most: Option<i128>) -> Denominator {
    let own = values.iter().map(|values| whole_self(values)).sum::<Option<i128>>();
    let totals = values.iter().map(|values| whole_total(values));
    let sum = match own {
        Some(own) => own.max(totals.max().unwrap_or(0)),
        None => totals.sum(),
    };
    let is_estimate = values.iter().any(|values| is_estimate(values));
    let error = |values: &&Values| values.relative_error().unwrap_or(0.0) * values.sum as f64;
    let error = values.iter().map(error).map(|error| error * error).sum::<f64>().sqrt();
    let exact = values.iter().filter(|values| !is_self_estimate(values, is_estimate));
    let exact: i128 = exact.filter_map(|values| whole_self(values)).sum();
    let is_sum_longer = own.zip(most).is_some_and(|(own, most)| {
        // Of calls that began before `since`.
        let own = if exact > most { own - exact } else { own };
        own > 0 && exceeds(own, most, error / own as f64)
    });
    let is_any_longer = most.is_some_and(|most| values.iter().any(|values| is_longer(values, most)));
    // What is added up. A part below zero shows that the values do not fit each other.
    let part = |values: &Values| if own.is_some() { whole_self(values) } else { Some(whole_total(values)) };
    let is_beyond_noise = |values: &&Values| !part(values).is_some_and(|part| ratio::is_noise(values, part));
    let below = values.iter().copied().filter(is_beyond_noise).filter_map(part).map(|part| part.min(0));
    let below: i128 = below.sum();
    let is_unfit = below < -(sum.max(0) / 10);
    let is_impossible = is_unfit || is_estimate && is_sum_longer || is_any_longer;
    let sum = u128::try_from(sum).unwrap_or(0);
    Denominator { sum, is_of_totals: own.is_none(), is_estimate, most, is_impossible }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::column::{COLUMNS, RowValues};
    use crate::report::tests::sample::{event, mark, snapshot, values};

    fn with(total: i64, self_sum: Option<i64>) -> Vec<Values> {
        vec![Values { total, self_sum, ..values("time", 1, 1) }]
    }

    fn sum(values: [(i64, Option<i64>); 2]) -> (u128, bool) {
        let marks = values.map(|(total, own)| Mark { values: with(total, own), ..mark("m", 1) });
        let snapshot = snapshot(&[event("time", Unit::Ns, Read::Ticks)], &marks);
        let time = Shares::new(&snapshot).denominator("time");
        (time.sum, time.is_of_totals)
    }

    #[test]
    fn nested_marks_count_once_in_the_denominator() {
        assert_eq!(sum([(100, Some(30)), (70, Some(70))]), (100, false));
    }

    #[test]
    fn no_share_exceeds_100_percent_when_unwound_calls_are_missing_from_the_sum() {
        assert_eq!(sum([(100, Some(30)), (10, Some(10))]), (100, false));
    }

    #[test]
    fn without_self_the_denominator_is_of_totals() {
        assert_eq!(sum([(100, None), (70, Some(70))]), (170, true));
        assert_eq!(sum([(i64::MAX, None), (i64::MAX, None)]).0, u128::from(i64::MAX.unsigned_abs()) * 2);
    }

    #[test]
    fn an_async_call_may_be_suspended_for_less_time_than_the_one_that_it_awaits() {
        let is_impossible = |name: &str| {
            let of = |total, own| Values { self_sum: Some(own), ..values(name, 1, total) };
            let marks = [of(990, -10), of(1_000, 1_000)].map(|values| Mark { values: vec![values], ..mark("f", 1) });
            let snapshot = snapshot(&[event(name, Unit::Ns, Read::Ticks)], &marks);
            Shares::new(&snapshot).is_impossible(&snapshot.marks[0].values[0])
        };
        assert_eq!(["suspended", "time"].map(is_impossible), [false, true]);
    }

    #[test]
    fn values_that_cannot_be_true_are_found() {
        let is_impossible = |name: &str, change: fn(&mut Values)| {
            let estimate = |total, own| Values {
                measured: 1_000,
                extrapolated: true,
                self_sum: Some(own),
                buckets: vec![(10, 15, 64_000).into()],
                ..values(name, 64_000, total)
            };
            let mut values = estimate(1_000_000, 400_000);
            change(&mut values);
            let marks =
                [values, estimate(600_000, 600_000)].map(|values| Mark { values: vec![values], ..mark("m", 1) });
            let events = [event("time", Unit::Ns, Read::Ticks), event("cycles", Unit::Count, Read::User)];
            let snapshot = Snapshot { wall_ns: 5_000_000, threads: 2, ..snapshot(&events, &marks) };
            let shares = Shares::new(&snapshot);
            [0, 1].map(|mark| shares.is_impossible(&snapshot.marks[mark].values[0]))
        };
        assert_eq!(is_impossible("time", |_| ()), [false, false]);
        assert_eq!(is_impossible("time", |values| values.self_sum = Some(-20_000)), [true, false], "below zero");
        assert_eq!(is_impossible("time", |values| values.self_sum = Some(-500)), [false, false], "no visible part");
        assert_eq!(
            is_impossible("time", |values| values.total = 11_000_000),
            [true, true],
            "longer than both threads, and so are all shares"
        );
        assert_eq!(is_impossible("time", |values| values.total = 10_500_000), [false, false], "within its error");
        assert_eq!(is_impossible("cycles", |values| values.total = 11_000_000), [false, false]);
        let above = |values: &mut Values| (values.total, values.self_sum) = (10_900_000, Some(10_900_000));
        assert_eq!(is_impossible("time", above), [true, true], "the sum is longer");
        // Within three errors, but by half.
        let uncertain = |values: &mut Values| {
            values.buckets = vec![(8, 8, 63_360).into(), (2_400, 2_400, 640).into()];
            (values.total, values.self_sum) = (15_000_000, Some(10_000));
        };
        assert_eq!(is_impossible("time", uncertain), [true, true], "longer by more than a tenth");
        let exact = |values: &mut Values| (values.extrapolated, values.self_sum) = (false, Some(-20_000));
        assert_eq!(is_impossible("time", exact), [true, false], "below zero, if it is no estimate, too");
        let open = |values: &mut Values| {
            (values.extrapolated, values.self_sum, values.in_flight_self) = (false, Some(100), -20_000);
        };
        assert_eq!(is_impossible("time", open), [true, false], "a call in flight, with estimates inside");
        let before = |values: &mut Values| {
            (values.extrapolated, values.total, values.self_sum) = (false, 50_000_000, Some(50_000_000));
        };
        assert_eq!(is_impossible("time", before), [false, false], "exact, of a call that began before `since`");
        // One call in 64 took as long as all others together.
        let tail = |values: &mut Values| values.buckets = vec![(8, 8, 63_936).into(), (500_000, 500_000, 64).into()];
        assert_eq!(is_impossible("time", tail), [true, false], "its error is larger than half of it");
    }

    #[test]
    fn shares_of_a_sum_that_is_longer_than_the_run_are_flagged_even_of_exact_marks() {
        let estimate = Values { extrapolated: true, ..values("time", 64_000, 1_000_000_000) };
        let marks =
            [values("time", 8, 250_000_000), estimate].map(|values| Mark { values: vec![values], ..mark("m", 1) });
        let snapshot = snapshot(&[event("time", Unit::Ns, Read::Ticks)], &marks);
        let shares_of = |wall_ns, most_rows: [usize; 1]| {
            let snapshot = Snapshot { wall_ns, threads: 1, ..snapshot.clone() };
            let shares = Shares::new(&snapshot);
            let row = RowValues::of_mark(&snapshot.marks[0], Some("time"), &shares);
            let cells = COLUMNS[..4].iter().map(|column| (column.cell)(&row).to_string());
            (cells.collect::<Vec<_>>(), shares.own_part(Some("time"), &most_rows).to_string())
        };
        let (cells, rest) = shares_of(2_000_000_000, [1]);
        assert_eq!((cells.join(" "), rest.as_str()), ("20.0 % 20.0 % 250 ms 250 ms".to_owned(), "≈80.0 %"));
        let (cells, rest) = shares_of(100_000_000, [0]);
        assert_eq!((cells.join(" "), rest.as_str()), ("?20.0 % ?20.0 % 250 ms 250 ms".to_owned(), "?20.0 %"));
    }

    #[test]
    fn a_sum_is_not_longer_than_the_run_because_of_an_exact_call_before_since_and_an_estimate_below_zero() {
        let exact = Values { self_sum: Some(50_000_000), ..values("time", 1, 50_000_000) };
        let estimate = Values {
            extrapolated: true,
            self_sum: Some(-1_000),
            measured: 1_000,
            buckets: vec![(8, 8, 63_936).into(), (500, 500, 64).into()],
            ..values("time", 64_000, 5_000_000)
        };
        assert!(estimate.relative_error() > Some(0.0));
        assert!(!denominator(&[&exact, &estimate], Some(10_000_000)).is_impossible);
    }

    #[test]
    fn shares_of_a_sum_with_large_values_below_zero_are_flagged() {
        let flags_with = |below: i64, extrapolated| {
            let of_mark =
                |self_sum| Values { self_sum: Some(self_sum), extrapolated, ..values("time", 64_000, 500_000) };
            let marks = [below, 600_000, 500_000].map(|own| Mark { values: vec![of_mark(own)], ..mark("m", 64_000) });
            let snapshot = Snapshot {
                wall_ns: 5_000_000,
                threads: 1,
                ..snapshot(&[event("time", Unit::Ns, Read::Ticks)], &marks)
            };
            let shares = Shares::new(&snapshot);
            let cells = snapshot.marks.iter().map(|mark| {
                let row = RowValues::of_mark(mark, Some("time"), &shares);
                (COLUMNS[0].cell)(&row).number.starts_with(IMPOSSIBLE)
            });
            cells.collect::<Vec<_>>()
        };
        assert_eq!(flags_with(-500_000, true), [true, true, true]);
        assert_eq!(flags_with(-20_000, true), [true, false, false], "it takes less than a tenth from the sum");
        assert_eq!(flags_with(-500_000, false), [true, true, true], "exact values, too");
    }

    fn groups(snapshot: &Snapshot, sort: Sort) -> Vec<(Option<&str>, Vec<usize>)> {
        Shares::new(snapshot).groups(sort).into_iter().map(|group| (group.event, group.marks)).collect()
    }

    #[test]
    fn marks_are_ordered_by_self_of_the_event_that_most_measured_and_those_without_it_follow() {
        let events = [event("time", Unit::Ns, Read::Ticks), event("cycles", Unit::Count, Read::User)];
        let cycles = |total, own| vec![Values { self_sum: Some(own), ..values("cycles", 1, total) }];
        let mut marks = ["never", "only_time", "small", "large", "nothing"].map(|name| mark(name, 1));
        marks[0].calls = 0;
        marks[1].values = vec![values("time", 1, 999)];
        marks[2].values = cycles(9, 5);
        marks[3].values = cycles(8, 7);
        let cycles_lead = snapshot(&events, &marks);
        assert_eq!(groups(&cycles_lead, Sort::SelfCost), [(Some("cycles"), vec![3, 2, 4]), (Some("time"), vec![1])]);
        assert_eq!(groups(&cycles_lead, Sort::Total)[0].1, [2, 3, 4]);
        assert_eq!(Sort::SelfCost.order(&cycles_lead), [3, 2, 4, 1, 0]);
        marks[2].values.push(values("time", 1, 8));
        assert_eq!(Shares::new(&snapshot(&events, &marks)).leading(), Some("cycles"), "most marks name it first");
        marks[3].values.insert(0, values("time", 1, 8));
        assert_eq!(Shares::new(&snapshot(&events, &marks)).leading(), Some("time"));
        let unmeasured = snapshot(&events, &marks[4..]);
        assert_eq!(groups(&unmeasured, Sort::SelfCost), [(None, vec![0])]);
    }
}
