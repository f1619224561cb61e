//! The comparison for a pull request: the whole in a line, what changed, the rest folded.

use super::compare::{Comparison, Pair};
use super::gate::Judged;
use super::rows::{remarks, rows, summary};
use crate::output::{counted, markdown};
use std::fmt::Write as _;

pub(crate) fn render(comparison: &Comparison, gates: &[Judged]) -> String {
    let sign = match gates {
        [] => "",
        _ if gates.iter().all(|gate| gate.failures.is_empty()) => "✅ ",
        _ => "❌ ",
    };
    let mut out = format!("{sign}**perfmark**: {}\n\n", summary(comparison, gates));
    for failure in gates.iter().flat_map(|gate| &gate.failures) {
        _ = writeln!(out, "- {}", markdown(&failure.text));
    }
    if gates.iter().any(|gate| !gate.failures.is_empty()) {
        out += "\n";
    }
    let changed: Vec<_> = comparison.changed().collect();
    if !changed.is_empty() {
        table(&mut out, &changed);
    }
    let unchanged: Vec<_> = comparison.unchanged().collect();
    if !unchanged.is_empty() {
        _ = writeln!(out, "<details><summary>{} unchanged</summary>\n", counted(unchanged.len(), "mark"));
        table(&mut out, &unchanged);
        out += "</details>\n\n";
    }
    let remarks = remarks(comparison, gates);
    if !remarks.is_empty() {
        _ = writeln!(out, "<details><summary>{}</summary>\n", counted(remarks.len(), "remark"));
        for line in &remarks {
            _ = writeln!(out, "- {}", markdown(line));
        }
        out += "\n</details>\n";
    }
    out.truncate(out.trim_end().len());
    out + "\n"
}

fn table(out: &mut String, pairs: &[&Pair]) {
    *out += "| mark | a call | base | head | change | self |\n|---|---|--:|--:|--:|--:|\n";
    for pair in pairs {
        for row in rows(pair) {
            _ = write!(out, "| {} ", markdown(&pair.label));
            for cell in &row {
                _ = write!(out, "| {} ", markdown(cell));
            }
            *out += "|\n";
        }
    }
    *out += "\n";
}
