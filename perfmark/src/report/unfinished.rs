//! Separate rows for calls that a panic ended, and for calls in flight: their cost is in no distribution.

use super::share::Shares;
use crate::snapshot::{Mark, Values};

/// The suffix of such a row's label, its number of calls, and their cost.
pub(super) type Unfinished = (&'static str, u64, Values);

/// The rows of a mark's event that have any cost.
pub(super) fn rows(mark: &Mark, values: &Values, shares: &Shares<'_>) -> impl Iterator<Item = Unfinished> + use<> {
    let unwound = (", unwound", mark.unwound.saturating_add(mark.cancelled), values.unwound_total, values.unwound_self);
    let in_flight = (", in flight", mark.in_flight, values.in_flight_total, values.in_flight_self);
    let row = Values {
        event: values.event.clone(),
        measured: 1,
        extrapolated: values.extrapolated,
        estimated: shares.is_self_estimate(values).into(),
        ..Values::default()
    };
    let row = move |(what, calls, total, own)| {
        let values = Values { total, self_sum: Some(own), ..row.clone() };
        (total != 0 || own != 0).then_some((what, calls, values))
    };
    [unwound, in_flight].into_iter().filter_map(row)
}
