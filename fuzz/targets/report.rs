//! Writes reports of snapshots with any values and names, and of their differences and sums. These must hold:
//!
//! - The JSON report is equal to the snapshot's serialization by serde. It parses back to the same snapshot, or is
//!   refused.
//! - The table contains no control characters, the rows of Markdown are complete, and each folded stack has a value.

#![no_main]

use libfuzzer_sys::arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use perfmark::{Bucket, Event, Format, Mark, Node, NodeValues, Overhead, Read, Report, Snapshot, Unit, Values};
use serde_json::Value;

fuzz_target!(|data: &[u8]| {
    let mut data = Unstructured::new(data);
    let (Ok(mut one), Ok(two)) = (snapshot(&mut data), snapshot(&mut data)) else { return };
    check(&one);
    check(&two.since(&one));
    one.merge(&two);
    check(&one);
});

fn check(snapshot: &Snapshot) {
    let read = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let document = Report::new(snapshot).format(Format::Json).to_string();
    let by_serde = serde_json::to_string(snapshot).expect("plain data");
    assert_eq!(read(&document), read(&by_serde));
    // Values that no program records may be refused.
    if let Ok(back) = serde_json::from_str::<Snapshot>(&document) {
        assert_eq!(read(&serde_json::to_string(&back).expect("plain data")), read(&by_serde));
    }
    let has_control_character = |text: &str| text.chars().any(|character| character.is_control() && character != '\n');
    assert!(document.ends_with('\n') && !has_control_character(&document));
    for columns in [80, 200] {
        let table = Report::new(snapshot).width(columns).to_string();
        assert!(!has_control_character(&table), "{table:?}");
        Report::new(snapshot).width(columns).color(true).to_string();
    }
    let markdown = Report::new(snapshot).format(Format::Markdown).to_string();
    for table in markdown.split("\n\n") {
        let rows = table.lines().filter(|line| line.starts_with('|'));
        let mut cells = rows.map(|row| row.replace("\\|", "").matches('|').count());
        let head = cells.next();
        assert!(cells.all(|cells| Some(cells) == head), "{table}");
    }
    for line in Report::new(snapshot).format(Format::Folded).to_string().lines() {
        assert!(line.split_once(' ').is_some_and(|(_, value)| value.parse::<u64>().is_ok()), "{line:?}");
    }
}

/// Assigns any values to these fields. The structs are non-exhaustive, so they cannot be written as literals.
macro_rules! fill {
    ($data:ident, $into:ident: $($field:ident)*) => {
        $($into.$field = $data.arbitrary()?;)*
    };
}

fn snapshot(data: &mut Unstructured<'_>) -> Result<Snapshot> {
    let mut snapshot = Snapshot::default();
    fill!(data, snapshot: program pid threads threads_at_once wall_ns cpu_ns involuntary_switches overhead_ns resets);
    snapshot.events = list(data, event)?;
    snapshot.marks = list(data, mark)?;
    snapshot.call_graph = list(data, node)?;
    fill!(data, snapshot: call_graph_lacks notes);
    Ok(snapshot)
}

/// A list of at most three items.
fn list<T>(data: &mut Unstructured<'_>, one: fn(&mut Unstructured<'_>) -> Result<T>) -> Result<Vec<T>> {
    (0..data.int_in_range(0..=3)?).map(|_| one(data)).collect()
}

/// A name. Half of them are from a short list, so that names coincide.
fn name(data: &mut Unstructured<'_>) -> Result<String> {
    let known = ["time", "cycles", "app::f"];
    if data.ratio(1, 2)? { Ok((*data.choose(&known)?).into()) } else { data.arbitrary() }
}

fn event(data: &mut Unstructured<'_>) -> Result<Event> {
    let mut event = Event::default();
    event.name = name(data)?;
    event.unit = *data.choose(&[Unit::Count, Unit::Ns])?;
    event.read = *data.choose(&[Read::User, Read::Syscall, Read::Ticks, Read::Emulated, Read::None])?;
    event.reason = data.arbitrary()?;
    Ok(event)
}

fn mark(data: &mut Unstructured<'_>) -> Result<Mark> {
    let mut mark = Mark::default();
    mark.name = name(data)?;
    mark.path = name(data)?;
    mark.file = name(data)?;
    mark.line = data.arbitrary::<u8>()?.into();
    fill!(data, mark: on calls in_flight unwound cancelled polls interrupted every skipped);
    mark.values = list(data, values)?;
    Ok(mark)
}

/// A node whose parent and mark may be out of range.
fn node(data: &mut Unstructured<'_>) -> Result<Node> {
    let of = |data: &mut Unstructured<'_>| {
        let mut values = NodeValues::default();
        values.event = name(data)?;
        fill!(data, values: measured sum self_sum);
        Ok(values)
    };
    let parent = data.arbitrary::<Option<u8>>()?.map(|parent| usize::from(parent) % 5);
    let mut node = Node::default();
    (node.parent, node.mark, node.calls) = (parent, data.int_in_range(0..=4)?, data.arbitrary()?);
    node.values = list(data, of)?;
    Ok(node)
}

fn values(data: &mut Unstructured<'_>) -> Result<Values> {
    let mut values = Values::default();
    values.event = name(data)?;
    fill!(data, values: measured weight scaled unmeasured imputed sum total missing_outermost extrapolated estimated);
    fill!(data, values: self_sum unwound_total unwound_self in_flight_total in_flight_self);
    fill!(data, values: min max mean p50 p90 p99 p999);
    values.overhead = overhead(data)?;
    values.buckets = list(data, |data| Ok(Bucket::from(data.arbitrary::<(u64, u64, u64)>()?)))?;
    Ok(values)
}

fn overhead(data: &mut Unstructured<'_>) -> Result<Overhead> {
    let mut overhead = Overhead::default();
    fill!(data, overhead: in_call total noise);
    Ok(overhead)
}
