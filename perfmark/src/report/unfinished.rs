//! Separate rows for calls that a panic ended, and for calls in flight: their cost is in no distribution.

use super::share::{Shares, is_estimate};
use crate::snapshot::{Mark, Values};

/// The suffix of such a row's label, its number of calls if that is known, and their cost.
pub(super) type Unfinished = (&'static str, Option<u64>, Values);

/// The rows of a mark's event that have any cost.
pub(super) fn rows(mark: &Mark, values: &Values, shares: &Shares<'_>) -> impl Iterator<Item = Unfinished> + use<> {
    let ended = mark.unwound.saturating_add(mark.cancelled);
    let unwound = (", unwound", Some(ended), values.unwound_total, values.unwound_self);
    // The cost is that of the reporting thread's calls. Of several, it is unknown how many are that thread's.
    let open = (mark.in_flight == 1).then_some(1);
    let in_flight = (", in flight", open, values.in_flight_total, values.in_flight_self);
    let row = Values {
        event: values.event.clone(),
        measured: 1,
        extrapolated: is_estimate(values),
        estimated: shares.is_self_estimate(values).into(),
        ..Values::default()
    };
    let row = move |(what, calls, total, own)| {
        let values = Values { total, self_sum: Some(own), ..row.clone() };
        (total != 0 || own != 0).then_some((what, calls, values))
    };
    [unwound, in_flight].into_iter().filter_map(row)
}
