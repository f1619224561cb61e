//! The report for programs: one JSON document.
//!
//! Its outer two levels have one event or mark per line, so that `grep`, `diff` and people can work with it. A line
//! itself is compact, because histograms are large.
//!
//! perfmark does not use `serde_json` for writing. That crate gives every number type one more `PartialEq` in every
//! program that depends on it. Rust then can no longer infer the type in comparisons such as `n == limit.into()` in the
//! user's code, which stops compiling.

use crate::snapshot::samples::possible;
use crate::snapshot::{
    Bucket, Event, Frame, Location, Mark, Module, Node, NodeValues, OfEvent, Overhead, Read, SampleTime, SampledPath,
    SampledStack, Samples, Schema, Snapshot, SourceText, TimedThread, Unit, Values,
};
use std::fmt::Write as _;

/// The document, ending with a newline.
pub(super) fn render(value: &impl Json) -> String {
    let mut out = Writer::default();
    value.write(&mut out);
    out.text.push('\n');
    out.text
}

/// Levels whose elements get a line each.
const LAID_OUT: usize = 2;

/// Writes the outer levels on lines, and the inner ones compactly.
#[derive(Default)]
pub(super) struct Writer {
    text: String,
    depth: usize,
    /// Whether the innermost open level has an element.
    has_element: bool,
}

impl Writer {
    /// Writes the elements between two brackets.
    pub(super) fn level(&mut self, [open, close]: [char; 2], elements: impl FnOnce(&mut Self)) {
        self.open(open);
        elements(self);
        self.close(close);
    }

    fn open(&mut self, bracket: char) {
        self.text.push(bracket);
        self.depth += 1;
        self.has_element = false;
    }

    #[inline(never)]
    fn close(&mut self, bracket: char) {
        let is_laid_out = self.depth <= LAID_OUT && self.has_element;
        self.depth -= 1;
        self.has_element = true;
        if is_laid_out {
            self.line();
        }
        self.text.push(bracket);
    }

    /// Begins an element of a level.
    #[inline(never)]
    fn element(&mut self) {
        if std::mem::replace(&mut self.has_element, true) {
            self.text.push(',');
        }
        if self.depth <= LAID_OUT {
            self.line();
        }
    }

    /// An element of an object.
    pub(super) fn field(&mut self, key: &str, value: &impl Json) {
        self.key(key);
        value.write(self);
    }

    #[inline(never)]
    fn key(&mut self, key: &str) {
        self.element();
        self.string(key);
        self.text.push_str(if self.depth <= LAID_OUT { ": " } else { ":" });
    }

    fn list<T: Json>(&mut self, values: impl IntoIterator<Item = T>) {
        self.level(['[', ']'], |out| {
            for value in values {
                out.element();
                value.write(out);
            }
        });
    }

    #[inline(never)]
    fn string(&mut self, text: &str) {
        self.text.push('"');
        for c in text.chars() {
            match c {
                '"' | '\\' => self.text.extend(['\\', c]),
                '\n' => self.text.push_str("\\n"),
                '\t' => self.text.push_str("\\t"),
                // JSON does not require this, but people may view the report in a terminal.
                _ if c.is_control() => _ = write!(self.text, "\\u{:04x}", u32::from(c)),
                _ => self.text.push(c),
            }
        }
        self.text.push('"');
    }

    fn line(&mut self) {
        self.text.push('\n');
        (0..self.depth).for_each(|_| self.text.push_str("  "));
    }
}

/// A value that can be written as JSON.
pub(super) trait Json {
    fn write(&self, out: &mut Writer);
}

/// Types whose `Display` is valid JSON.
macro_rules! as_displayed {
    ($($type:ty)*) => {
        $(impl Json for $type {
            fn write(&self, out: &mut Writer) {
                _ = write!(out.text, "{self}");
            }
        })*
    };
}
as_displayed! { bool u32 u64 i64 usize }

impl Json for Schema {
    fn write(&self, out: &mut Writer) {
        u32::from(*self).write(out);
    }
}

impl Json for f64 {
    fn write(&self, out: &mut Writer) {
        if self.is_finite() {
            _ = write!(out.text, "{self:?}");
        } else {
            out.text.push_str("null");
        }
    }
}

impl Json for str {
    fn write(&self, out: &mut Writer) {
        out.string(self);
    }
}

impl Json for String {
    fn write(&self, out: &mut Writer) {
        out.string(self);
    }
}

impl<T: Json> Json for Option<T> {
    fn write(&self, out: &mut Writer) {
        match self {
            Some(value) => value.write(out),
            None => out.text.push_str("null"),
        }
    }
}

impl<T: Json + ?Sized> Json for &T {
    fn write(&self, out: &mut Writer) {
        (*self).write(out);
    }
}

impl<T: Json> Json for [T] {
    fn write(&self, out: &mut Writer) {
        out.list(self);
    }
}

impl<T: Json> Json for Vec<T> {
    fn write(&self, out: &mut Writer) {
        self.as_slice().write(out);
    }
}

impl Json for SampleTime {
    fn write(&self, out: &mut Writer) {
        out.list([self.ns, self.thread as u64]);
    }
}

impl Json for Bucket {
    fn write(&self, out: &mut Writer) {
        out.list([self.low, self.high, self.calls]);
    }
}

/// Fields under their own names, or under others.
macro_rules! objects {
    ($($type:ty { $($field:ident $(as $key:literal)? $(by $form:ident)?),* })*) => {
        $(impl Json for $type {
            fn write(&self, out: &mut Writer) {
                out.level(['{', '}'], |out| {
                    $(out.field([$($key,)? stringify!($field)][0], &$($form)?(&self.$field));)*
                });
            }
        })*
    };
}
#[cfg(feature = "html")]
pub(super) use objects;

objects! {
    Snapshot {
        schema, perfmark, program, pid, threads, threads_at_once, wall_ns, cpu_ns, involuntary_switches, overhead_ns,
        resets, events, marks, call_graph, call_graph_lacks, samples by possible, sources by possible, notes
    }
    Event { name, unit, read, reason }
    Mark {
        name, path, file, line, type_hash, on, calls, in_flight, unwound, cancelled, polls, interrupted, every,
        budget_percent, skipped, overhead_ns, values by ByEvent
    }
    Values {
        measured, weight, scaled, unmeasured, imputed, sum, total, missing_outermost, extrapolated, estimated,
        self_sum as "self", unwound_total, unwound_self, in_flight_total, in_flight_self, min, max, mean, p50, p90, p99,
        p999, overhead, buckets
    }
    Overhead { in_call, total, noise }
    Node { parent, mark, calls, values by ByEvent }
    Samples {
        event, period, frequency, lost, throttled, unattributed, in_open_calls, too_deep, threads_without, why_without,
        threads_too_short, removed, user_ns, stack_bytes, timestamps, paths, locations, modules, frames, threads
    }
    SampledPath { marks, thread, samples, stacks }
    SampledStack { locations, samples, times }
    TimedThread { id, name }
    Location { module, address, frames }
    Module { path, build_id }
    Frame { function, file, line }
    SourceText { file, line, lines }
    NodeValues { measured, sum, self_sum as "self" }
}

/// An object, with the events' names as keys.
struct ByEvent<'a, T>(&'a [T]);

impl<T: Json + OfEvent> Json for ByEvent<'_, T> {
    fn write(&self, out: &mut Writer) {
        out.level(['{', '}'], |out| {
            for values in self.0 {
                out.field(values.event(), values);
            }
        });
    }
}

impl Json for Unit {
    fn write(&self, out: &mut Writer) {
        out.string(match self {
            Self::Count => "count",
            Self::Ns => "ns",
        });
    }
}

impl Json for Read {
    fn write(&self, out: &mut Writer) {
        out.string(match self {
            Self::User => "user",
            Self::Syscall => "syscall",
            Self::Ticks => "ticks",
            Self::Emulated => "emulated",
            Self::None => "none",
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::sample;
    use serde_json::{Value, json};

    #[test]
    fn the_document_has_the_promised_shape() {
        let snapshot = sample::typical();
        let document: Value = serde_json::from_str(&render(&snapshot)).unwrap();
        assert_eq!(document["schema"], 2);
        assert_eq!(document["program"], "wordcount");
        assert_eq!(document["events"][0], json!({"name": "cycles", "unit": "count", "read": "user", "reason": null}));
        assert_eq!(document["events"][2], json!({"name": "time", "unit": "ns", "read": "ticks", "reason": null}));
        assert_eq!(document["events"][3]["read"], "syscall");
        assert_eq!(document["events"][4]["read"], "none");
        assert!(document["events"][4]["reason"].is_string());
        let marks = document["marks"].as_array().unwrap();
        assert_eq!(marks.len(), snapshot.marks.len(), "marks never called are there");
        assert_eq!(marks[0]["values"]["instructions"]["buckets"][0], json!([7_000, 7_039, 5]));
    }

    #[cfg(feature = "serde")]
    #[test]
    fn the_document_equals_what_serde_writes() {
        for snapshot in sample::nasty() {
            let document: Value = serde_json::from_str(&render(&snapshot)).unwrap();
            let compact: Value = serde_json::from_str(&serde_json::to_string(&snapshot).unwrap()).unwrap();
            assert_eq!(document, compact);
        }
    }

    #[cfg(feature = "serde")]
    #[test]
    fn a_document_is_read_back_as_the_snapshot() {
        let read = |snapshot: &Snapshot| serde_json::from_str::<Snapshot>(&render(snapshot));
        for snapshot in [sample::typical(), sample::time_only(), sample::with_graph(), sample::sampled()] {
            assert_eq!(read(&snapshot).unwrap(), snapshot);
        }
        let nasty = sample::nasty();
        for snapshot in &nasty {
            match read(snapshot) {
                Ok(read) => assert_eq!(read, *snapshot),
                // These snapshots are made for tables, and are not valid reports.
                Err(why) => assert!(
                    ["bucket", "twice", "call graph", "samples"].iter().any(|part| why.to_string().contains(part)),
                    "{why}"
                ),
            }
        }
    }

    #[cfg(feature = "serde")]
    #[test]
    fn fields_of_later_versions_are_ignored() {
        let snapshot = sample::with_graph();
        let mut document: Value = serde_json::from_str(&render(&snapshot)).unwrap();
        let values = "/marks/0/values/cycles";
        let overhead = format!("{values}/overhead");
        for object in ["", "/events/0", "/marks/0", values, &overhead, "/call_graph/0", "/call_graph/0/values/time"] {
            document.pointer_mut(object).unwrap()["a field of a later version"] = json!([{"of": null}]);
        }
        let read: Snapshot = serde_json::from_value(document).unwrap();
        assert_eq!((read.marks.len(), read.perfmark), (snapshot.marks.len(), snapshot.perfmark));
    }

    /// Checks that the report is refused for that reason if a part of it is replaced.
    #[cfg(feature = "serde")]
    fn assert_refused(snapshot: &Snapshot, from: &str, to: &str, why: &str) {
        let document = render(snapshot);
        assert!(document.contains(from), "{from}");
        let error = serde_json::from_str::<Snapshot>(&document.replacen(from, to, 1)).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }

    #[cfg(feature = "serde")]
    #[test]
    fn a_report_of_another_version_is_refused() {
        for (from, to, why) in [
            ("\"schema\": 2", "\"schema\": 1", "this report has schema 1, but this version of perfmark reads schema 2"),
            ("\"schema\": 2", "\"schema\": 3", "this report has schema 3, but this version of perfmark reads schema 2"),
            ("\"program\"", "\"programme\"", "missing field `program`"),
            ("[7000,7039,5]", "[7040,7039,5]", "(7040, 7039, 5) is not a bucket"),
            ("[7000,7039,5]", "[7000,7039,0]", "(7000, 7039, 0) is not a bucket"),
            ("[7000,7039,5]", "[7000,7039,5],[7000,7039,5]", "not in the order of their values"),
            ("[7000,7039,5]", "[7000,-1,5]", "invalid value: integer `-1`"),
            ("\"instructions\":{", "\"cycles\":{", "the event cycles occurs twice"),
        ] {
            assert_refused(&sample::typical(), from, to, why);
        }
    }

    #[cfg(feature = "serde")]
    #[test]
    fn samples_without_their_location_module_or_frame_are_refused() {
        for (from, to, why) in [
            (r#"{"locations":["#, r#"{"locations":[77,"#, "samples: there is no location 77"),
            (r#"{"module":0,"address":"#, r#"{"module":7,"address":"#, "samples: there is no module 7"),
            (r#""frames":["#, r#""frames":[99,"#, "samples: there is no frame 99"),
            (r#"{"locations":[0]"#, r#"{"locations":[]"#, "samples: a stack has no location"),
        ] {
            assert_refused(&sample::sampled(), from, to, why);
        }
    }

    #[cfg(feature = "serde")]
    #[test]
    fn a_call_graph_is_as_deep_as_calls_are_recorded_and_no_deeper() {
        let chain = |calls: usize| {
            let caller = |index: usize| index.checked_sub(1);
            let call_graph = (0..calls).map(|index| sample::node(caller(index), 0, 1, Some(1))).collect();
            serde_json::from_str::<Snapshot>(&render(&Snapshot { call_graph, ..sample::time_only() }))
        };
        assert_eq!(chain(2_048).unwrap().call_graph.len(), 2_048);
        let error = chain(2_049).unwrap_err().to_string();
        assert!(error.contains("call graph: node 2048 has 2048 nested callers"), "{error}");
    }

    #[test]
    fn the_published_schema_names_every_field_and_no_other() {
        let schema: Value = serde_json::from_str(include_str!("../../schema/report-2.json")).unwrap();
        let samples = sample::sampled().samples;
        let sources = vec![SourceText { file: "a.rs".into(), line: 1, lines: vec!["fn a() {}".into()] }];
        let snapshot = Snapshot { samples, sources, ..sample::with_graph() };
        let document: Value = serde_json::from_str(&render(&snapshot)).unwrap();
        let samples = &document["samples"][0];
        let (mark, node) = (&document["marks"][0], &document["call_graph"][0]);
        let values = &mark["values"]["cycles"];
        for (form, value) in [
            ("", &document),
            ("/$defs/event", &document["events"][0]),
            ("/$defs/mark", mark),
            ("/$defs/values", values),
            ("/$defs/overhead", &values["overhead"]),
            ("/$defs/node", node),
            ("/$defs/node_values", &node["values"]["time"]),
            ("/$defs/source_text", &document["sources"][0]),
            ("/$defs/samples", samples),
            ("/$defs/samples/properties/paths/items", &samples["paths"][0]),
            ("/$defs/samples/properties/paths/items/properties/stacks/items", &samples["paths"][0]["stacks"][0]),
            ("/$defs/samples/properties/locations/items", &samples["locations"][0]),
            ("/$defs/samples/properties/modules/items", &samples["modules"][0]),
            ("/$defs/samples/properties/frames/items", &samples["frames"][0]),
        ] {
            let form = schema.pointer(form).unwrap();
            let required = form["required"].as_array().unwrap().iter().filter_map(Value::as_str);
            let keys = |of: &Value| of.as_object().unwrap().keys().cloned().collect::<std::collections::BTreeSet<_>>();
            assert_eq!(keys(value), keys(&form["properties"]));
            // Fields that were added to this schema are not required.
            let required: Vec<&str> = required.filter(|key| !keys(value).contains(*key)).collect();
            assert_eq!(required, [""; 0]);
        }
    }

    #[test]
    fn a_mark_is_a_line() {
        let snapshot = sample::typical();
        let document = render(&snapshot);
        let marks = document.lines().filter(|line| line.starts_with(r#"    {"name":"#) && line.contains(r#""file":"#));
        assert_eq!(marks.count(), snapshot.marks.len());
        assert!(document.ends_with("\n}\n"));
        assert!(document.contains("  \"notes\": []\n"), "an empty list takes no extra line");
    }
}
