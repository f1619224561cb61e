//! What `perf_event_open(2)`, the kernel's header and its documents describe, and the test of each: `manual.txt`.
//! `cargo test -p perfmark-rdpmc --test manual -- --nocapture` prints it as a table, with the numbers by status.
//!
//! Below a section's heading, a line names the status, file and function of a test. The facts that it tests follow. A
//! fact that cannot be reached through the crate has the reason instead of a test.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;

/// The status of a fact, and what it means.
const STATUSES: &[(&str, &str)] = &[
    ("kernel", "tested on a kernel, without a PMU"),
    ("pmu", "tested on a kernel with a PMU, in the machine of ci/pmu-machine"),
    ("recorded", "tested on recorded files, bytes and errors, or on the request alone"),
    ("refused", "refused by the crate, with the reason; the refusal is tested"),
    ("not-reachable", "cannot be requested through the crate; the reason is given"),
    ("not-seen", "documented only, as no machine here has it"),
];

#[test]
fn each_fact_names_a_test_that_exists() {
    let root = env!("CARGO_MANIFEST_DIR");
    let has_sources = fs::exists(format!("{root}/src/lib.rs")).is_ok_and(|is| is);
    let mut table = String::from("| fact | status | test, or reason |\n|---|---|---|\n");
    let (mut facts, mut counts) = (BTreeSet::new(), BTreeMap::<_, u32>::new());
    let (mut section, mut group) = ("", None);
    for (line, text) in (1..).zip(include_str!("manual.txt").lines()) {
        if let Some(heading) = text.strip_prefix("# ") {
            (section, group) = (heading, None);
            writeln!(table, "| **{heading}** | | |").expect("a text");
        } else if let Some(fact) = text.strip_prefix("  ") {
            let (status, test) = group.unwrap_or_else(|| panic!("line {line}: {fact} has no test"));
            assert!(facts.insert((section, fact)), "line {line}: {fact} is in {section} twice");
            *counts.entry(status).or_default() += 1;
            writeln!(table, "| {fact} | {status} | {test} |").expect("a text");
        } else if let Some((status, test)) = text.split_once(' ') {
            assert!(STATUSES.iter().any(|(known, _)| *known == status), "line {line}: {status} is no status");
            if !status.starts_with("not-") && has_sources {
                let (file, function) = test.split_once(' ').unwrap_or_else(|| panic!("line {line}: {test}"));
                let source = fs::read_to_string(format!("{root}/{file}")).unwrap_or_else(|why| panic!("{file}: {why}"));
                assert!(source.contains(&format!("fn {function}(")), "line {line}: {file} has no {function}");
            }
            group = Some((status, test));
        } else {
            assert_eq!(text, "", "line {line}");
        }
    }
    println!("{table}\n{} facts:", facts.len());
    for (status, meaning) in STATUSES {
        println!("{:4} {status}: {meaning}", counts.get(status).copied().unwrap_or(0));
    }
}
