//! Shares of events, and the order of marks by them.
//!
//! Everything measured of an event inside marks is the sum of every mark's self, including that of unwound calls and of
//! calls in flight. So nested marks count once. The cost of other threads' calls in flight, and of calls that were not
//! counted, is unknown, so a mark's total can exceed this sum. A share is relative to the larger of both: no share of
//! an exact total exceeds 100 %.

use crate::snapshot::{Event, Mark, Read, Snapshot, Unit, Values};
use std::collections::BTreeMap;

/// What the shares of an event are relative to.
#[derive(Clone, Copy)]
pub(super) struct Whole {
    /// Everything measured of it.
    pub(super) sum: u128,
    /// Whether the self of some mark is unknown. `sum` then adds up totals, and nested marks count more than once.
    pub(super) is_of_totals: bool,
    /// The number of marks that measured it.
    marks: usize,
}

/// The events, and what their shares are relative to.
pub(super) struct Shares<'a> {
    snapshot: &'a Snapshot,
    events: BTreeMap<&'a str, &'a Event>,
    wholes: BTreeMap<&'a str, Whole>,
}

impl<'a> Shares<'a> {
    pub(super) fn new(snapshot: &'a Snapshot) -> Self {
        let mut measured: BTreeMap<&str, Vec<&Values>> = BTreeMap::new();
        for values in snapshot.marks.iter().flat_map(|mark| &mark.values).filter(|values| has_cost(values)) {
            measured.entry(&values.event).or_default().push(values);
        }
        let wholes = measured.into_iter().map(|(event, values)| (event, whole(&values))).collect();
        let events = snapshot.events.iter().map(|event| (event.name.as_str(), event)).collect();
        Self { snapshot, events, wholes }
    }

    /// What the event's shares are relative to; zero for an event that was never measured.
    pub(super) fn whole(&self, event: &str) -> Whole {
        self.wholes.get(event).copied().unwrap_or(Whole { sum: 0, is_of_totals: false, marks: 0 })
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

    /// The event that orders the marks: the one that most of them measured; among equals `time` first.
    pub(super) fn leading(&self) -> Option<&'a str> {
        let events = self.snapshot.events.iter().map(|event| event.name.as_str()).rev();
        let marks = |event: &&str| self.whole(event).marks;
        events.filter(|event| marks(event) > 0).max_by_key(|event| (marks(event), *event == "time"))
    }

    /// The indices of all marks with a call: the largest share of the leading event first, marks without it last.
    pub(super) fn order(&self) -> Vec<usize> {
        let leading = self.leading();
        let weight = |&index: &usize| {
            let mark = &self.snapshot.marks[index];
            let values = mark.values.iter().find(|values| has_cost(values) && Some(values.event.as_str()) == leading);
            (values.map(|values| i128::from(values.total) + unfinished(values).0), mark.calls)
        };
        let marks = self.snapshot.marks.iter();
        let mut order: Vec<usize> =
            marks.enumerate().filter(|(_, mark)| is_called(mark)).map(|(index, _)| index).collect();
        order.sort_by_cached_key(|index| std::cmp::Reverse(weight(index)));
        order
    }
}

/// Whether any call began.
pub(super) fn is_called(mark: &Mark) -> bool {
    mark.calls > 0 || mark.in_flight > 0
}

/// Whether the cost of any of its calls is known.
fn has_cost(values: &Values) -> bool {
    values.measured > 0 || unfinished(values) != (0, 0)
}

/// Total and self of calls that a panic ended, or that are in flight.
pub(super) fn unfinished(values: &Values) -> (i128, i128) {
    let sum = |one: i64, other: i64| i128::from(one) + i128::from(other);
    (sum(values.unwound_total, values.in_flight_total), sum(values.unwound_self, values.in_flight_self))
}

fn whole(values: &[&Values]) -> Whole {
    let own = |values: &&Values| Some(i128::from(values.self_sum?) + unfinished(values).1);
    let own = values.iter().map(own).sum::<Option<i128>>();
    let totals = values.iter().map(|values| i128::from(values.total) + unfinished(values).0);
    let sum = match own {
        Some(own) => own.max(totals.max().unwrap_or(0)),
        None => totals.sum(),
    };
    Whole { sum: u128::try_from(sum).unwrap_or(0), is_of_totals: own.is_none(), marks: values.len() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample::{event, mark, snapshot, values};

    fn with(total: i64, self_sum: Option<i64>) -> Vec<Values> {
        vec![Values { total, self_sum, ..values("time", 1, 1) }]
    }

    fn sum(values: [(i64, Option<i64>); 2]) -> (u128, bool) {
        let marks = values.map(|(total, own)| Mark { values: with(total, own), ..mark("m", 1) });
        let snapshot = snapshot(&[event("time", Unit::Ns, Read::Ticks)], &marks);
        let whole = Shares::new(&snapshot).whole("time");
        (whole.sum, whole.is_of_totals)
    }

    #[test]
    fn nested_marks_count_once_in_the_whole() {
        assert_eq!(sum([(100, Some(30)), (70, Some(70))]), (100, false));
    }

    #[test]
    fn no_share_exceeds_the_whole_when_unwound_calls_are_missing_from_it() {
        assert_eq!(sum([(100, Some(30)), (10, Some(10))]), (100, false));
    }

    #[test]
    fn without_self_the_whole_is_of_totals() {
        assert_eq!(sum([(100, None), (70, Some(70))]), (170, true));
        assert_eq!(sum([(i64::MAX, None), (i64::MAX, None)]).0, u128::from(i64::MAX.unsigned_abs()) * 2);
    }

    #[test]
    fn marks_are_ordered_by_the_event_that_most_measured_and_those_without_it_are_last() {
        let events = [event("cycles", Unit::Count, Read::User), event("time", Unit::Ns, Read::Ticks)];
        let cycles = |total| vec![values("cycles", 1, total)];
        let mut marks = ["never", "only_time", "small", "large"].map(|name| mark(name, 1));
        marks[0].calls = 0;
        marks[1].values = vec![values("time", 1, 999)];
        marks[2].values = cycles(5);
        marks[3].values = cycles(7);
        let cycles_lead = snapshot(&events, &marks);
        assert_eq!(Shares::new(&cycles_lead).leading(), Some("cycles"));
        assert_eq!(Shares::new(&cycles_lead).order(), [3, 2, 1]);
        marks[2].values.push(values("time", 1, 8));
        let as_many = snapshot(&events, &marks);
        assert_eq!(Shares::new(&as_many).leading(), Some("time"));
        assert_eq!(Shares::new(&as_many).order(), [1, 2, 3]);
    }
}
