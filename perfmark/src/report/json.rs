//! The report for programs: one JSON document.
//!
//! Its outer two levels are laid out, one event or mark a line, so that `grep`, `diff` and people can work with it; what
//! is within a line is compact, histograms above all.

use crate::snapshot::Snapshot;
use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};
use std::io::{self, Write};

/// The document, ending with a newline.
pub(super) fn render(snapshot: &Snapshot) -> String {
    let mut bytes = Vec::new();
    // Memory takes every write and every key is a string: nothing here can fail.
    let _ = snapshot.serialize(&mut Serializer::with_formatter(&mut bytes, Lines::default()));
    bytes.push(b'\n');
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Levels whose elements get a line each.
const LAID_OUT: usize = 2;

/// Lays out the outer levels, `serde_json`'s compact form within.
#[derive(Default)]
struct Lines {
    depth: usize,
    /// Whether the innermost open level has an element.
    has_element: bool,
}

impl Lines {
    fn open<W: ?Sized + Write>(&mut self, out: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.depth += 1;
        self.has_element = false;
        out.write_all(bracket)
    }

    fn close<W: ?Sized + Write>(&mut self, out: &mut W, bracket: &[u8]) -> io::Result<()> {
        let is_laid_out = self.depth <= LAID_OUT && self.has_element;
        self.depth = self.depth.saturating_sub(1);
        self.has_element = true;
        if is_laid_out {
            self.line(out)?;
        }
        out.write_all(bracket)
    }

    fn element<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.has_element = true;
        if !first {
            out.write_all(b",")?;
        }
        if self.depth <= LAID_OUT { self.line(out) } else { Ok(()) }
    }

    fn line<W: ?Sized + Write>(&self, out: &mut W) -> io::Result<()> {
        out.write_all(b"\n")?;
        (0..self.depth).try_for_each(|_| out.write_all(b"  "))
    }
}

impl Formatter for Lines {
    fn begin_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.open(out, b"[")
    }

    fn end_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.close(out, b"]")
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.element(out, first)
    }

    fn begin_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.open(out, b"{")
    }

    fn end_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.close(out, b"}")
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.element(out, first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        out.write_all(if self.depth <= LAID_OUT { b": " } else { b":" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;
    use serde_json::{Value, json};

    #[test]
    fn the_document_has_the_promised_shape() {
        let snapshot = sample::typical();
        let document: Value = serde_json::from_str(&render(&snapshot)).unwrap();
        assert_eq!(document["schema"], 1);
        assert_eq!(document["program"], "wordcount");
        for key in ["pid", "threads", "wall_ns"] {
            assert!(document[key].is_u64(), "{key}");
        }
        assert_eq!(document["events"][0], json!({"name": "cycles", "unit": "count", "read": "user", "reason": null}));
        assert_eq!(document["events"][2], json!({"name": "time", "unit": "ns", "read": "ticks", "reason": null}));
        assert_eq!(document["events"][3]["read"], "syscall");
        assert_eq!(document["events"][4]["read"], "none");
        assert!(document["events"][4]["reason"].is_string());
        let marks = document["marks"].as_array().unwrap();
        assert_eq!(marks.len(), snapshot.marks.len(), "marks never called are there");
        for key in ["name", "path", "file", "line", "calls", "in_flight", "unwound", "cancelled", "polls", "values"] {
            assert!(marks[0].get(key).is_some(), "{key}");
        }
        let instructions = marks[0]["values"]["instructions"].as_object().unwrap();
        for key in ["measured", "scaled", "unmeasured", "sum", "total", "self", "min", "max", "mean"] {
            assert!(instructions[key].is_number(), "{key}");
        }
        for key in ["p50", "p90", "p99", "p999"] {
            assert!(instructions[key].is_u64(), "{key}");
        }
        assert_eq!(instructions["buckets"][0], json!([7_000, 7_039, 5]));
    }

    #[test]
    fn the_document_says_what_serde_says_of_the_snapshot() {
        for snapshot in sample::nasty() {
            let document: Value = serde_json::from_str(&render(&snapshot)).unwrap();
            let compact: Value = serde_json::from_str(&serde_json::to_string(&snapshot).unwrap()).unwrap();
            assert_eq!(document, compact);
        }
    }

    #[test]
    fn a_mark_is_a_line() {
        let snapshot = sample::typical();
        let document = render(&snapshot);
        let marks = document.lines().filter(|line| line.starts_with(r#"    {"name":"#) && line.contains(r#""file":"#));
        assert_eq!(marks.count(), snapshot.marks.len());
        assert!(document.ends_with("\n}\n"));
        assert!(document.contains("  \"notes\": []\n"), "an empty list takes no line more");
    }
}
