//! Values of an event, by any of the event's names. Without `record`, there is no grammar of names: `_` may only stand
//! for `-`.

use crate::snapshot::{Mark, Node, NodeValues, Values};

/// The one of `all` that is of this event, by any name of the event. `event_of` returns the name that reports have.
pub(crate) fn find_event<'a, T>(all: &'a [T], event_of: impl Fn(&T) -> &str, name: &str) -> Option<&'a T> {
    #[cfg(feature = "record")]
    let name =
        crate::settings::event_spec::EventSpec::valid(name).map_or_else(|| name.to_owned(), |event| event.to_string());
    #[cfg(not(feature = "record"))]
    let name = if all.iter().any(|one| event_of(one) == name) { name.to_owned() } else { name.replace('_', "-") };
    all.iter().find(|one| event_of(one) == name)
}

impl Mark {
    /// The values of that event, by any of its names: `page-faults` or `page_faults`. `None` if the mark did not record
    /// it. Without the feature `record`, the name is that of the report, perhaps with `_` for `-`.
    #[must_use]
    pub fn event(&self, name: &str) -> Option<&Values> {
        find_event(&self.values, |values| &values.event, name)
    }
}

impl Node {
    /// The values of that event, by any of its names, as [`Mark::event`].
    #[must_use]
    pub fn event(&self, name: &str) -> Option<&NodeValues> {
        find_event(&self.values, |values| &values.event, name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_any_name_of_their_event() {
        let of = |event: &str| Values { event: event.into(), ..Values::default() };
        let values = ["time", "off_cpu", "page-faults", "cycles", "no event, but a text"].map(of).into();
        let mark = Mark { values, ..Mark::default() };
        for (name, event) in [
            ("page_faults", "page-faults"),
            ("page-faults", "page-faults"),
            #[cfg(feature = "record")]
            ("faults", "page-faults"),
            #[cfg(feature = "record")]
            ("cpu_cycles", "cycles"),
            #[cfg(feature = "record")]
            ("off-cpu", "off_cpu"),
            ("off_cpu", "off_cpu"),
            ("time", "time"),
            ("no event, but a text", "no event, but a text"),
        ] {
            assert_eq!(mark.event(name).map(|values| &*values.event), Some(event));
        }
        assert!(mark.event("instructions").is_none() && mark.event("cycles:k").is_none());
    }
}
