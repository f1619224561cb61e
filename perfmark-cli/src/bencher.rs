//! The Bencher Metric Format: what a call of each mark costs in each event, for `bencher run --adapter json`.

use std::collections::BTreeMap;

use perfmark::{Read, Snapshot, Unit, Values};
use serde_json::{Value, json};

/// `{mark: {event: {value}}}`. The value is the mean per call; of times, the median, in nanoseconds. Values that were
/// not measured are left out, and times of an emulator.
pub(crate) fn render(snapshot: &Snapshot) -> Vec<u8> {
    let metric = |values: &Values| -> Option<(String, Value)> {
        let event = snapshot.events.iter().find(|event| event.name == values.event);
        let is_time = event.is_some_and(|event| event.unit == Unit::Ns);
        if is_time && event.is_some_and(|event| event.read == Read::Emulated) {
            return None;
        }
        let value = if is_time { values.p50.map(|ns| ns as f64) } else { values.mean }?;
        // Bencher has this measure for nanoseconds.
        let measure = if values.event == "time" { "latency" } else { &values.event };
        Some((measure.to_owned(), json!({"value": value})))
    };
    let marks = snapshot.names().into_iter().zip(&snapshot.marks);
    let marks = marks.map(|(name, mark)| (name, mark.values.iter().filter_map(metric).collect()));
    let measured: BTreeMap<String, BTreeMap<String, Value>> =
        marks.filter(|(_, metrics): &(_, BTreeMap<_, _>)| !metrics.is_empty()).collect();
    let mut text = serde_json::to_vec_pretty(&measured).expect("names and numbers");
    text.push(b'\n');
    text
}
