//! The format of pprof: a message of `profile.proto`, with the labels `mark` and `path`.
//!
//! Each event has columns of values of its own: samples and, where the period is known, the event's unit. A mark is a
//! function of the stack under the name that reports have for it, whether samples are directly in it or in its callees.
//!
//! The fields and their numbers are those of github.com/google/pprof/blob/main/proto/profile.proto.

use std::collections::BTreeMap;

use perfmark::text::sanitize;
use perfmark::{Module, Samples, Snapshot, StackFrame};
use prost::Message;

use super::stacks::{OUTSIDE, Sampled, Stack, is_of_clock};

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
    #[prost(int64, tag = "14")]
    default_sample_type: i64,
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
        self.profile.string_table.push(sanitize(text));
        self.texts.insert(text.to_owned(), number);
        number
    }

    /// The number of the column with that name.
    fn column(&mut self, kind: &str, unit: &str) -> usize {
        let column = ValueType { kind: self.text(kind), unit: self.text(unit) };
        let columns = &mut self.profile.sample_type;
        columns.iter().position(|known| *known == column).unwrap_or_else(|| {
            columns.push(column);
            columns.len() - 1
        })
    }

    /// The numbers of the modules. Samples of several events may have the same ones.
    fn mappings(&mut self, samples: &Samples) -> Vec<u64> {
        // One more than the highest address of each, and whether it has names.
        let mut used = vec![(0, false); samples.modules.len()];
        for location in &samples.locations {
            let (limit, is_named) = &mut used[location.module];
            *limit = location.address.saturating_add(1).max(*limit);
            *is_named |= !location.frames.is_empty();
        }
        samples
            .modules
            .iter()
            .zip(used)
            .map(|(module, (limit, is_named))| self.mapping(module, limit, is_named))
            .collect()
    }

    fn mapping(&mut self, module: &Module, limit: u64, is_named: bool) -> u64 {
        let Module { path, build_id, .. } = module;
        let (filename, build_id) = (self.text(path), self.text(build_id.as_deref().unwrap_or("")));
        let mappings = &mut self.profile.mapping;
        let is_it = |known: &Mapping| (known.filename, known.build_id) == (filename, build_id);
        let at = mappings.iter().position(is_it).unwrap_or_else(|| {
            mappings.push(Mapping { id: mappings.len() as u64 + 1, filename, build_id, ..Mapping::default() });
            mappings.len() - 1
        });
        let mapping = &mut mappings[at];
        mapping.memory_limit = mapping.memory_limit.max(limit.max(1));
        mapping.has_functions |= is_named;
        (mapping.has_filenames, mapping.has_line_numbers) = (mapping.has_functions, mapping.has_functions);
        mapping.has_inline_frames = mapping.has_functions;
        mapping.id
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

    /// The location of what is known by its name only.
    fn in_no_file(&mut self, name: &str) -> u64 {
        let function = self.function(name, "");
        self.location(0, 0, vec![(function, 0)])
    }

    /// Adds a stack, with the numbers of its modules.
    fn stack(&mut self, stack: &Stack<'_>, mappings: &[u64], columns: &Columns) {
        let mut location_id = Vec::new();
        if stack.is_probe {
            location_id.push(self.in_no_file(StackFrame::PROBE));
        }
        let own = stack.own();
        // The functions that are inlined at one instruction are lines of one location.
        for frames in stack.frames.chunk_by(|one, next| one.depth == next.depth) {
            let mut lines = Vec::new();
            for frame in frames.iter().filter_map(|at| at.frame) {
                let is_own = own.is_some_and(|own| std::ptr::eq(own, frame));
                let name = if is_own { stack.mark() } else { &frame.function };
                let function = self.function(name, frame.file.as_deref().unwrap_or(""));
                lines.push((function, frame.line.map_or(0, i64::from)));
            }
            let location = frames[0].location;
            location_id.push(self.location(mappings[location.module], location.address, lines));
        }
        for name in stack.callers() {
            location_id.push(self.in_no_file(name));
        }
        let path = if stack.marks.is_empty() { OUTSIDE.to_owned() } else { path(&stack.marks) };
        let labels = [("mark", Some(stack.mark())), ("path", Some(&*path)), ("thread", stack.thread)];
        let labels = labels.into_iter().filter_map(|(key, text)| Some((key, text?)));
        let label = labels.map(|(key, text)| Label { key: self.text(key), text: self.text(text) }).collect();
        let value = columns.values(stack.samples, self.profile.sample_type.len());
        self.profile.sample.push(Sample { location_id, value, label });
    }
}

/// The names of the marks. Of long paths, the innermost ones, after `…`.
fn path(marks: &[&str]) -> String {
    const LONGEST: usize = 1_000;
    let mut length = 0;
    let shown = marks.iter().rev().take_while(|name| {
        length += name.len() + 1;
        length <= LONGEST
    });
    let hidden = marks.len() - shown.count().clamp(1, marks.len());
    let names = marks[hidden..].join(";");
    if hidden > 0 { format!("…;{names}") } else { names }
}

/// The columns of an event.
struct Columns {
    samples: usize,
    /// The column in the event's unit, and the value of a sample there.
    event: Option<(usize, i64)>,
}

impl Columns {
    /// Adds those that are missing. Columns have the event's name if there are several events.
    fn of(samples: &Samples, is_only: bool, tables: &mut Tables) -> Self {
        const SECOND: u64 = 1_000_000_000;
        let is_clock = is_of_clock(samples);
        let period = match (samples.period, samples.frequency) {
            (Some(period), _) => Some(period),
            // Other events are sampled at a frequency by changing periods.
            (None, Some(frequency)) if is_clock => Some(SECOND / frequency.max(1)),
            _ => None,
        };
        let counts = if is_only { "samples".into() } else { format!("{}_samples", samples.event) };
        let name = if is_clock && is_only { "cpu" } else { &samples.event };
        let unit = if is_clock { "nanoseconds" } else { "count" };
        let samples = tables.column(&counts, "count");
        let period = period.and_then(|period| i64::try_from(period).ok());
        Self { samples, event: period.map(|period| (tables.column(name, unit), period)) }
    }

    fn values(&self, samples: u64, count: usize) -> Vec<i64> {
        let samples = i64::try_from(samples).unwrap_or(i64::MAX);
        let mut values = vec![0; count];
        values[self.samples] = samples;
        if let Some((column, period)) = self.event {
            values[column] = samples.saturating_mul(period);
        }
        values
    }
}

pub(super) fn render(snapshot: &Snapshot, sampled: &[Sampled<'_>]) -> Vec<u8> {
    let mut tables = Tables::default();
    // The first text is the empty one.
    tables.text("");
    let is_only = sampled.windows(2).all(|pair| pair[0].samples.event == pair[1].samples.event);
    let columns: Vec<Columns> = sampled.iter().map(|one| Columns::of(one.samples, is_only, &mut tables)).collect();
    if let Some(first) = columns.first() {
        let shown = first.event.map_or(first.samples, |(column, _)| column);
        tables.profile.default_sample_type = tables.profile.sample_type[shown].kind;
        tables.profile.period_type = first.event.map(|(column, _)| tables.profile.sample_type[column]);
        tables.profile.period = first.event.map_or(0, |(_, period)| period);
    }
    tables.profile.duration_nanos = i64::try_from(snapshot.wall_ns).unwrap_or(i64::MAX);
    for (one, columns) in sampled.iter().zip(&columns) {
        let mappings = tables.mappings(one.samples);
        for stack in one.stacks() {
            tables.stack(&stack, &mappings, columns);
        }
    }
    tables.profile.encode_to_vec()
}
