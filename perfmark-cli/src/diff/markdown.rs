//! The comparison for a pull request: a summary line, what changed, and the rest folded.

use super::compare::{Comparison, Pair};
use super::gate::GateResult;
use super::rows::{Row, lines, remarks, rows, summary};
use perfmark::text::{counted, escape_markdown, sentence_in_markdown};
use std::fmt::Write as _;

/// The size limit of lists, in bytes. A comment on GitHub has 65,536 characters; the rest is for the text around the
/// lists.
const ROOM: usize = 64_000;

pub(crate) fn render(comparison: &Comparison, gates: &[GateResult]) -> String {
    let failures = gates.iter().flat_map(|gate| &gate.failures).map(|failure| bullet(&failure.text));
    let undecided = gates.iter().filter_map(|gate| gate.undecided.as_deref()).map(bullet);
    // The most important lists get room first.
    let mut room = ROOM;
    let failures = List::of(failures, &mut room);
    let undecided = List::of(undecided, &mut room);
    let table_rows = |pair| table_rows(pair, comparison);
    let changed = List::of(comparison.changed().map(table_rows), &mut room);
    let remarks = List::of(remarks(comparison, gates).iter().map(|line| bullet(line)), &mut room);
    let unchanged = List::of(comparison.unchanged().map(table_rows), &mut room);

    let sign = match gates {
        [] => "",
        _ if failures.count > 0 => "❌ ",
        _ if undecided.count > 0 => "⚠️ ",
        _ => "✅ ",
    };
    let mut out = format!("{sign}**perfmark**: {}\n\n", summary(comparison, gates));
    failures.write(&mut out, "");
    undecided.write(&mut out, "");
    changed.write(&mut out, HEADER);
    unchanged.write_folded(&mut out, HEADER, ["mark", ": no change found"]);
    remarks.write_folded(&mut out, "", ["remark", ""]);
    out.truncate(out.trim_end().len());
    out + "\n"
}

const HEADER: &str = "| mark | per call | base | head | change | self | finds |\n|---|---|--:|--:|--:|--:|--:|\n";

/// The items that fit, and the number of all items.
struct List {
    text: String,
    count: usize,
    more: usize,
}

impl List {
    fn of(items: impl Iterator<Item = String>, room: &mut usize) -> Self {
        let mut list = Self { text: String::new(), count: 0, more: 0 };
        for item in items {
            list.count += 1;
            match room.checked_sub(item.len()) {
                Some(left) => {
                    *room = left;
                    list.text += &item;
                }
                None => list.more += 1,
            }
        }
        list
    }

    fn write(&self, out: &mut String, header: &str) {
        if !self.text.is_empty() {
            out.extend([header, &self.text, "\n"]);
        }
        if self.more > 0 {
            _ = writeln!(out, "… and {} more that do not fit here; `--format json` has all.\n", self.more);
        }
    }

    fn write_folded(&self, out: &mut String, header: &str, [noun, what]: [&str; 2]) {
        if self.count > 0 {
            _ = writeln!(out, "<details><summary>{}{what}</summary>\n", counted(self.count as u64, noun));
            self.write(out, header);
            *out += "</details>\n\n";
        }
    }
}

fn bullet(line: &str) -> String {
    format!("- {}\n", sentence_in_markdown(line))
}

/// A mark's events, and its lines of source that changed, one row each.
fn table_rows(pair: &Pair, comparison: &Comparison) -> String {
    let mut out = String::new();
    let line =
        |[place, base, head]: [String; 3]| -> Row { [place, base, head, String::new(), String::new(), String::new()] };
    for row in rows(pair, comparison).into_iter().chain(lines(pair).map(line)) {
        _ = write!(out, "| {} ", escape_markdown(&pair.label));
        for cell in &row {
            _ = write!(out, "| {} ", escape_markdown(cell));
        }
        out += "|\n";
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diff::side::{Design, Side};
    use perfmark::Snapshot;
    use serde_json::{Map, Value, json};

    /// A side whose marks' calls all cost the given value.
    fn side(name: &'static str, marks: impl Iterator<Item = (String, u64)>) -> Side {
        let mark = |(name, each): (String, u64)| {
            let zeroes = ["in_flight", "unwound", "cancelled", "polls", "interrupted", "skipped"];
            let mut mark: Map<String, Value> = zeroes.map(|key| (key.to_owned(), json!(0))).into_iter().collect();
            let values = json!({
                "measured": 9, "weight": 9, "scaled": 0, "unmeasured": 0, "imputed": 0, "sum": 9 * each,
                "total": 9 * each, "missing_outermost": 0, "extrapolated": false, "estimated": 0, "self": 9 * each,
                "unwound_total": 0, "unwound_self": 0, "in_flight_total": 0, "in_flight_self": 0, "min": each,
                "max": each, "mean": each as f64,
                "p50": each, "p90": each, "p99": each, "p999": each,
                "overhead": {"in_call": 0, "total": 0, "noise": 0}, "buckets": [[each, each, 9]],
            });
            let known = json!({
                "path": format!("app::{name}"), "name": name, "file": "src/main.rs", "line": 3, "on": true, "calls": 9,
                "every": 1, "values": {"instructions": values},
            });
            mark.extend(known.as_object().cloned().into_iter().flatten());
            Value::Object(mark)
        };
        let run = json!({
            "schema": Snapshot::SCHEMA, "program": "app", "pid": 7, "threads": 1, "wall_ns": 9, "resets": 0,
            "notes": [],
            "events": [{"name": "instructions", "unit": "count", "read": "user", "reason": null}],
            "marks": marks.map(mark).collect::<Vec<_>>(),
        });
        let run = serde_json::from_value(run).expect("a report");
        Side { name, files: vec![name.to_owned()], runs: vec![run] }
    }

    /// More than fit into a comment.
    const MARKS: usize = 2_000;

    /// A comparison of these marks, of which `dearer` cost more.
    fn compared(dearer: usize) -> String {
        let marks = |by: u64| {
            (0..MARKS).map(move |number| (format!("mark_{number}"), if number < dearer { 1_000 + by } else { 1_000 }))
        };
        let comparison = Comparison::of(
            &[side("base", marks(0)), side("head", marks(500))],
            None,
            Design::Separate { allows_few_runs: false },
        );
        let gate = "instructions:1%".parse::<super::super::gate::Gate>().expect("a gate");
        let judged = gate.judge(&comparison).expect("judged");
        render(&comparison, &[judged])
    }

    #[test]
    fn a_comparison_fits_into_a_comment_failed_gates_first_and_says_how_much_does_not() {
        for dearer in [2, 300, MARKS] {
            let text = compared(dearer);
            assert!(text.len() <= 65_536, "{}", text.len());
            let lines = |start: &str| text.lines().filter(|line| line.starts_with(start)).count();
            let (failures, rows) = (lines("- mark"), lines("| mark\\"));
            if dearer == MARKS {
                assert!(failures > 300 && rows < 10, "{failures} failures, {rows} rows");
                assert_eq!(text.lines().nth(failures + 3), Some(&*left_out(dearer - failures)));
            } else {
                assert!(failures == dearer && rows > dearer + 10, "{failures} failures, {rows} rows");
                assert_eq!(text.matches("| +50.0 % |").count(), dearer);
                let others = counted((MARKS - dearer) as u64, "mark");
                assert!(text.contains(&format!("{others}: no change found</summary>")), "{text}");
                assert!(text.contains(&left_out(MARKS - rows)), "{text}");
            }
            if dearer == 2 {
                let start = "❌ **perfmark**: 2 of 2,000 marks changed; 1 of 1 gate failed\n\n\
                             - mark\\_0: instructions per call rose by 50.0 %";
                assert!(text.starts_with(start), "{text}");
            }
        }
    }

    fn left_out(more: usize) -> String {
        format!("… and {more} more that do not fit here; `--format json` has all.")
    }
}
