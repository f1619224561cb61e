//! Writes reports of snapshots with any values and names, and of their differences and sums. These must hold:
//!
//! - The JSON report is equal to the snapshot's serialization by serde. It parses back to the same snapshot, or is
//!   refused.
//! - The table contains no control characters, the rows of Markdown are complete, and each folded stack has a value.

#![no_main]

use libfuzzer_sys::arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use perfmark::{Event, Format, Mark, Node, NodeValues, Probe, Read, Report, Snapshot, Unit, Values};
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
    let rows = Report::new(snapshot).format(Format::Markdown).to_string();
    let mut rows = rows.lines().filter(|line| line.starts_with('|'));
    assert!(rows.all(|row| row.replace("\\|", "").matches('|').count() == 12));
    for line in Report::new(snapshot).format(Format::Folded).to_string().lines() {
        assert!(line.split_once(' ').is_some_and(|(_, value)| value.parse::<u64>().is_ok()), "{line:?}");
    }
}

fn snapshot(data: &mut Unstructured<'_>) -> Result<Snapshot> {
    Ok(Snapshot {
        schema: Snapshot::SCHEMA,
        program: data.arbitrary()?,
        pid: data.arbitrary()?,
        threads: data.arbitrary()?,
        wall_ns: data.arbitrary()?,
        resets: data.arbitrary()?,
        events: list(data, event)?,
        marks: list(data, mark)?,
        call_graph: list(data, node)?,
        call_graph_lacks: data.arbitrary()?,
        notes: data.arbitrary()?,
    })
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
    Ok(Event {
        name: name(data)?,
        unit: *data.choose(&[Unit::Count, Unit::Ns])?,
        read: *data.choose(&[Read::User, Read::Syscall, Read::Ticks, Read::None])?,
        reason: data.arbitrary()?,
    })
}

fn mark(data: &mut Unstructured<'_>) -> Result<Mark> {
    Ok(Mark {
        name: name(data)?,
        path: name(data)?,
        file: name(data)?,
        line: data.arbitrary::<u8>()?.into(),
        on: data.arbitrary()?,
        calls: data.arbitrary()?,
        in_flight: data.arbitrary()?,
        unwound: data.arbitrary()?,
        cancelled: data.arbitrary()?,
        polls: data.arbitrary()?,
        interrupted: data.arbitrary()?,
        every: data.arbitrary()?,
        skipped: data.arbitrary()?,
        values: list(data, values)?,
    })
}

/// A node whose parent and mark may be out of range.
fn node(data: &mut Unstructured<'_>) -> Result<Node> {
    let of = |data: &mut Unstructured<'_>| {
        Ok(NodeValues {
            event: name(data)?,
            measured: data.arbitrary()?,
            sum: data.arbitrary()?,
            self_sum: data.arbitrary()?,
        })
    };
    let parent = data.arbitrary::<Option<u8>>()?.map(|parent| usize::from(parent) % 5);
    Ok(Node { parent, mark: data.int_in_range(0..=4)?, calls: data.arbitrary()?, values: list(data, of)? })
}

fn values(data: &mut Unstructured<'_>) -> Result<Values> {
    Ok(Values {
        event: name(data)?,
        measured: data.arbitrary()?,
        weight: data.arbitrary()?,
        scaled: data.arbitrary()?,
        unmeasured: data.arbitrary()?,
        imputed: data.arbitrary()?,
        sum: data.arbitrary()?,
        total: data.arbitrary()?,
        missing_outermost: data.arbitrary()?,
        extrapolated: data.arbitrary()?,
        estimated: data.arbitrary()?,
        self_sum: data.arbitrary()?,
        unwound_total: data.arbitrary()?,
        unwound_self: data.arbitrary()?,
        in_flight_total: data.arbitrary()?,
        in_flight_self: data.arbitrary()?,
        min: data.arbitrary()?,
        max: data.arbitrary()?,
        mean: data.arbitrary()?,
        p50: data.arbitrary()?,
        p90: data.arbitrary()?,
        p99: data.arbitrary()?,
        p999: data.arbitrary()?,
        probe: Probe { own: data.arbitrary()?, whole: data.arbitrary()?, noise: data.arbitrary()? },
        buckets: list(data, |data| data.arbitrary())?,
    })
}
