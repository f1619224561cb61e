//! The parts of a snapshot's serialized form that `serde` cannot derive: values keyed by event, and checks.

use std::collections::BTreeSet;

use serde::de::{Deserialize, Deserializer, Error};

use super::limits::{DEEPEST, MAX_SAMPLINGS};
use super::samples::Samples;

/// Checks that buckets are in order, not empty, and have a range.
pub(super) fn buckets<'de, D: Deserializer<'de>, B: From<(u64, u64, u64)>>(
    deserializer: D,
) -> Result<Vec<B>, D::Error> {
    let buckets = Vec::<(u64, u64, u64)>::deserialize(deserializer)?;
    let is_bucket = |&(low, high, count): &(u64, u64, u64)| low <= high && count > 0;
    if let Some(wrong) = buckets.iter().find(|bucket| !is_bucket(bucket)) {
        return Err(D::Error::custom(format_args!(
            "{wrong:?} is not a bucket; expected its lowest value, its highest value and a number of calls"
        )));
    }
    if !buckets.is_sorted_by(|one, next| (one.0, one.1) < (next.0, next.1)) {
        return Err(D::Error::custom("buckets are not in the order of their values"));
    }
    Ok(buckets.into_iter().map(B::from).collect())
}

/// Checks that samples refer to locations, modules and frames that exist.
pub(super) fn samples<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Samples>, D::Error> {
    let samples = Vec::<Samples>::deserialize(deserializer)?;
    if samples.len() > MAX_SAMPLINGS {
        return Err(D::Error::custom(format_args!("the report has more than {MAX_SAMPLINGS} samplings")));
    }
    samples.iter().try_for_each(Samples::check).map_err(D::Error::custom)?;
    Ok(samples)
}

/// Checks that each node comes after its caller, that none occurs twice, and that none is deeper than calls are
/// recorded. The last check bounds the size of reports: each node is written with its stack.
///
/// `caller_and_mark` returns a node's caller and its mark.
pub(super) fn call_graph<'de, D: Deserializer<'de>, N: Deserialize<'de>>(
    deserializer: D,
    caller_and_mark: impl Fn(&N) -> (Option<usize>, usize),
) -> Result<Vec<N>, D::Error> {
    let nodes = Vec::<N>::deserialize(deserializer)?;
    let mut known = BTreeSet::new();
    let mut depths: Vec<usize> = Vec::with_capacity(nodes.len());
    for (index, (parent, mark)) in nodes.iter().map(caller_and_mark).enumerate() {
        if parent.is_some_and(|parent| parent >= index) {
            return Err(D::Error::custom(format_args!("call graph: node {index} comes before its caller")));
        }
        if !known.insert((parent, mark)) {
            return Err(D::Error::custom(format_args!("call graph: node {index} occurs twice")));
        }
        let depth = 1 + parent.map_or(0, |parent| depths[parent]);
        if depth > DEEPEST {
            return Err(D::Error::custom(format_args!(
                "call graph: node {index} has {DEEPEST} nested callers, more than any recorded call"
            )));
        }
        depths.push(depth);
    }
    Ok(nodes)
}

/// Values of events, serialized as a map keyed by event.
pub(super) mod by_event {
    use std::collections::HashSet;
    use std::fmt;
    use std::marker::PhantomData;

    use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
    use serde::ser::{Serialize, Serializer};

    use crate::snapshot::of_event::OfEvent;

    pub(crate) fn serialize<T: OfEvent + Serialize, S: Serializer>(
        values: &[T],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_map(values.iter().map(|values| (values.event(), values)))
    }

    pub(crate) fn deserialize<'de, T: OfEvent + Deserialize<'de>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<T>, D::Error> {
        struct ByEvent<T>(PhantomData<T>);

        impl<'de, T: OfEvent + Deserialize<'de>> Visitor<'de> for ByEvent<T> {
            type Value = Vec<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of events and their values")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Vec<T>, M::Error> {
                let mut all: Vec<T> = Vec::new();
                let mut known = HashSet::new();
                while let Some((event, values)) = map.next_entry::<String, T>()? {
                    if !known.insert(event.clone()) {
                        return Err(M::Error::custom(format_args!("the event {event} occurs twice")));
                    }
                    all.push(values.of(event));
                }
                Ok(all)
            }
        }

        deserializer.deserialize_map(ByEvent(PhantomData))
    }
}
