//! Separate rows for calls that a panic ended, and for calls in flight: their cost is in no distribution.

use crate::snapshot::{Mark, Values};

/// The suffix of such a row's label, its number of calls, and their cost.
pub(super) type Unfinished = (&'static str, u64, Values);

/// The rows of a mark's event that have any cost.
pub(super) fn rows(mark: &Mark, values: &Values) -> impl Iterator<Item = Unfinished> {
    let unwound = (", unwound", mark.unwound.saturating_add(mark.cancelled), values.unwound_total, values.unwound_self);
    let in_flight = (", in flight", mark.in_flight, values.in_flight_total, values.in_flight_self);
    let row = |(what, calls, total, own)| {
        let row = Values { measured: 1, total, self_sum: Some(own), ..Values::default() };
        (total != 0 || own != 0).then(|| (what, calls, Values { event: values.event.clone(), ..row }))
    };
    [unwound, in_flight].into_iter().filter_map(row)
}
