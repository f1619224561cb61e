//! The format of pprof: a message of `profile.proto`, with the labels `mark` and `path`.
//!
//! The fields and their numbers are those of github.com/google/pprof/blob/main/proto/profile.proto.

use std::collections::BTreeMap;

use perfmark::{Samples, Snapshot};
use prost::Message;

use super::stacks::{OUTSIDE, Stack};

#[derive(Clone, PartialEq, Message)]
struct Profile {
    #[prost(message, repeated, tag = "1")]
    sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    sample: Vec<Sample>,
    #[prost(message, repeated, tag = "3")]
    mapping: Vec<Mapping>,
    #[prost(message, repeated, tag = "4")]
    location: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    function: Vec<Function>,
    #[prost(string, repeated, tag = "6")]
    string_table: Vec<String>,
    #[prost(int64, tag = "10")]
    duration_nanos: i64,
    #[prost(message, optional, tag = "11")]
    period_type: Option<ValueType>,
    #[prost(int64, tag = "12")]
    period: i64,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct ValueType {
    #[prost(int64, tag = "1")]
    kind: i64,
    #[prost(int64, tag = "2")]
    unit: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Sample {
    /// The innermost first.
    #[prost(uint64, repeated, tag = "1")]
    location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    value: Vec<i64>,
    #[prost(message, repeated, tag = "3")]
    label: Vec<Label>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Label {
    #[prost(int64, tag = "1")]
    key: i64,
    #[prost(int64, tag = "2")]
    text: i64,
}

#[derive(Clone, Copy, PartialEq, Message)]
#[allow(clippy::struct_excessive_bools, reason = "the message's fields")]
struct Mapping {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(uint64, tag = "2")]
    memory_start: u64,
    #[prost(uint64, tag = "3")]
    memory_limit: u64,
    #[prost(int64, tag = "5")]
    filename: i64,
    #[prost(int64, tag = "6")]
    build_id: i64,
    #[prost(bool, tag = "7")]
    has_functions: bool,
    #[prost(bool, tag = "8")]
    has_filenames: bool,
    #[prost(bool, tag = "9")]
    has_line_numbers: bool,
    #[prost(bool, tag = "10")]
    has_inline_frames: bool,
}

#[derive(Clone, PartialEq, Message)]
struct Location {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(uint64, tag = "2")]
    mapping_id: u64,
    #[prost(uint64, tag = "3")]
    address: u64,
    /// The innermost first.
    #[prost(message, repeated, tag = "4")]
    line: Vec<Line>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Line {
    #[prost(uint64, tag = "1")]
    function_id: u64,
    #[prost(int64, tag = "2")]
    line: i64,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Function {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "2")]
    name: i64,
    #[prost(int64, tag = "3")]
    system_name: i64,
    #[prost(int64, tag = "4")]
    filename: i64,
}

/// A place in the program: an address with the lines of its functions, or a mark.
type Place = (u64, u64, Vec<(u64, i64)>);

/// Texts, functions and locations, each once and with a number.
#[derive(Default)]
struct Tables {
    texts: BTreeMap<String, i64>,
    functions: BTreeMap<(i64, i64), u64>,
    locations: BTreeMap<Place, u64>,
    profile: Profile,
}

impl Tables {
    fn text(&mut self, text: &str) -> i64 {
        if let Some(&known) = self.texts.get(text) {
            return known;
        }
        let number = i64::try_from(self.profile.string_table.len()).unwrap_or(0);
        self.profile.string_table.push(text.to_owned());
        self.texts.insert(text.to_owned(), number);
        number
    }

    fn value_type(&mut self, kind: &str, unit: &str) -> ValueType {
        ValueType { kind: self.text(kind), unit: self.text(unit) }
    }

    fn function(&mut self, name: &str, file: &str) -> u64 {
        let (name, filename) = (self.text(name), self.text(file));
        let next = self.functions.len() as u64 + 1;
        *self.functions.entry((name, filename)).or_insert_with(|| {
            self.profile.function.push(Function { id: next, name, system_name: name, filename });
            next
        })
    }

    fn location(&mut self, mapping_id: u64, address: u64, lines: Vec<(u64, i64)>) -> u64 {
        let next = self.locations.len() as u64 + 1;
        let profile = &mut self.profile;
        *self.locations.entry((mapping_id, address, lines)).or_insert_with_key(|(_, _, lines)| {
            let line = lines.iter().map(|&(function_id, line)| Line { function_id, line }).collect();
            profile.location.push(Location { id: next, mapping_id, address, line });
            next
        })
    }
}

/// The value of a sample in the event's unit, besides 1, with the event's name and unit.
fn period(samples: &Samples) -> Option<(&str, &'static str, i64)> {
    const SECOND: u64 = 1_000_000_000;
    let is_clock = ["cpu-clock", "task-clock"].iter().any(|clock| samples.event.starts_with(clock));
    let period = match (samples.period, samples.frequency) {
        (Some(period), _) => period,
        // Other events are sampled at a frequency by changing periods.
        (None, Some(frequency)) if is_clock => SECOND / frequency.max(1),
        _ => return None,
    };
    let (name, unit) = if is_clock { ("cpu", "nanoseconds") } else { (samples.event.as_str(), "count") };
    Some((name, unit, i64::try_from(period).ok()?))
}

pub(super) fn render(snapshot: &Snapshot, samples: &Samples, stacks: &[Stack<'_>]) -> Vec<u8> {
    let mut tables = Tables::default();
    // The first text is the empty one.
    tables.text("");
    let counts = tables.value_type("samples", "count");
    let period = period(samples);
    let of_event = period.map(|(name, unit, _)| tables.value_type(name, unit));
    tables.profile.sample_type = [Some(counts), of_event].into_iter().flatten().collect();
    tables.profile.period_type = of_event;
    tables.profile.period = period.map_or(0, |(_, _, period)| period);
    tables.profile.duration_nanos = i64::try_from(snapshot.wall_ns).unwrap_or(i64::MAX);
    for (index, module) in samples.modules.iter().enumerate() {
        let (filename, build_id) = (tables.text(&module.path), tables.text(module.build_id.as_deref().unwrap_or("")));
        let in_module = stacks.iter().filter(|stack| stack.module == index);
        let is_named = samples.named.iter().any(|one| one.module == index);
        tables.profile.mapping.push(Mapping {
            id: index as u64 + 1,
            memory_start: 0,
            memory_limit: in_module.map(|stack| stack.address).max().unwrap_or(0).saturating_add(1),
            filename,
            build_id,
            has_functions: is_named,
            has_filenames: is_named,
            has_line_numbers: is_named,
            has_inline_frames: is_named,
        });
    }
    let [key_of_mark, key_of_path] = ["mark", "path"].map(|key| tables.text(key));
    for stack in stacks {
        let mut lines = Vec::new();
        for frame in &stack.all_frames {
            let function = tables.function(&frame.function, frame.file.as_deref().unwrap_or(""));
            lines.push((function, frame.line.map_or(0, i64::from)));
        }
        let mut location_id = vec![tables.location(stack.module as u64 + 1, stack.address, lines)];
        // The marks around that of the address, as callers.
        let callers = stack.marks.len().saturating_sub(1);
        for name in stack.marks[..callers].iter().rev() {
            let function = tables.function(name, "");
            location_id.push(tables.location(0, 0, vec![(function, 0)]));
        }
        let path = if stack.marks.is_empty() { OUTSIDE.to_owned() } else { stack.marks.join(";") };
        let (mark, path) = (tables.text(stack.mark()), tables.text(&path));
        let count = i64::try_from(stack.samples).unwrap_or(i64::MAX);
        let of_event = period.map(|(_, _, period)| count.saturating_mul(period));
        let label = vec![Label { key: key_of_mark, text: mark }, Label { key: key_of_path, text: path }];
        let value = [Some(count), of_event].into_iter().flatten().collect();
        tables.profile.sample.push(Sample { location_id, value, label });
    }
    tables.profile.encode_to_vec()
}
