//! Events of this machine, and the command line's own documentation.

use std::env;
use std::fs;

use super::command::{assert_contains, perfmark, stderr, stdout};
use super::program::{self, text};

pub(super) const TESTS: &[(&str, fn())] = &[
    ("doctor_reports_the_findings_of_the_library", doctor_reports_the_findings_of_the_library),
    ("the_guide_shows_the_output_of_doctor", the_guide_shows_the_output_of_doctor),
    ("doctor_reports_a_seccomp_filter_and_the_remedy", doctor_reports_a_seccomp_filter_and_the_remedy),
    ("every_event_is_listed_with_its_availability", every_event_is_listed),
    ("help_breaks_lines_where_they_are_full", help_breaks_lines_where_they_are_full),
    ("completions_and_manual_name_every_command", completions_and_manual_name_every_command),
];

fn doctor_reports_the_findings_of_the_library() {
    let support = perfmark_rdpmc::support();
    let is_counted = support
        .trial
        .as_ref()
        .is_some_and(|trial| trial.instructions.as_ref().is_ok_and(perfmark_rdpmc::support::LoopCheck::passes));
    let printed = stdout(&["doctor"], i32::from(!is_counted));
    let is_measured = |subject| ["read cost", "switch cost", "accuracy"].contains(&subject);
    for finding in support.findings().iter().filter(|finding| !is_measured(finding.subject)) {
        assert_contains(&printed, &[&finding.text.split_whitespace().collect::<Vec<_>>().join(" ")]);
    }
    assert_eq!(printed.contains("switch cost"), support.user_mode(), "{printed}");
}

/// Compares the words; numbers differ. The guide shows a virtual machine without a PMU.
fn the_guide_shows_the_output_of_doctor() {
    let support = perfmark_rdpmc::support();
    if !support.user_mode() || !support.core_pmus.is_empty() || support.virtual_machine.is_none() {
        println!("skipped: this is not a virtual machine without a PMU, in which user mode can be counted");
        return;
    }
    let words = |line: &str| {
        let is_number = |word: &str| word.starts_with(|first: char| first.is_ascii_digit());
        let words = line.split_whitespace().map(|word| if is_number(word) { "N" } else { word });
        words.collect::<Vec<_>>().join(" ")
    };
    let printed = stdout(&["doctor"], 1);
    let printed: Vec<String> = printed.lines().map(words).collect();
    let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../perfmark/src/guide/permissions.md");
    let guide = fs::read_to_string(guide).expect("the guide of the workspace");
    let (_, shown) = guide.split_once("$ perfmark doctor\n").expect("the command");
    let (shown, _) = shown.split_once("```").expect("the end");
    for line in shown.lines().filter(|line| *line != "…") {
        // The kernel, the processor and the level differ.
        let line = words(line).replace("x86_64:", &format!("{}:", env::consts::ARCH));
        assert!(printed.contains(&line) || line.contains("perf_event_paranoid"), "{line}: {printed:#?}");
    }
}

fn doctor_reports_a_seccomp_filter_and_the_remedy() {
    let output = program::scenario("doctor without perf_event_open", &[]);
    program::assert_code(&output, 1);
    assert_contains(
        text(&output.stdout),
        &[
            "nothing can be counted",
            "perf_event_open failed with EPERM: a seccomp filter is installed",
            "seccomp=unconfined",
        ],
    );
}

fn every_event_is_listed() {
    let all = stdout(&["events"], 0);
    for own in ["time", "off_cpu", "blocked", "preempted", "suspended", "allocations", "allocated_bytes"] {
        assert!(all.lines().any(|line| line.split_whitespace().next() == Some(own)), "{own}");
    }
    for name in ["cycles", "page-faults", "L1-dcache-load-misses", "r01c2", "SYSTEM:NAME", "mem:0x1000/8:w"] {
        assert!(all.contains(name), "{name}");
    }
    for line in all.lines().filter(|line| line.starts_with("  ✓")) {
        let name = line.split_whitespace().nth(1).expect("named");
        let event: perfmark_rdpmc::Event = name.parse().expect("as it is listed");
        assert!(perfmark_rdpmc::Counter::open(&perfmark_rdpmc::Attr::new(event)).is_ok(), "{name}");
    }
    let software = stdout(&["events", "sw"], 0);
    assert!(software.contains("minor-faults") && !software.contains("cache"), "{software}");
    let some = stdout(&["events", "L1*MISSES"], 0);
    assert!(some.contains("L1-icache-load-misses") && !some.contains("LLC"), "{some}");
    assert_contains(&stderr(&["events", "nosuch"], 1), &["no event matches nosuch"]);
    assert_contains(&stderr(&["events", "pagefautls"], 1), &["no event matches pagefautls; did you mean page-faults"]);
}

/// A line that goes on in lower case below is full.
fn help_breaks_lines_where_they_are_full() {
    for command in commands() {
        for width in [60, 80, 100] {
            let output = perfmark(&[&command, "--help"]).env("COLUMNS", width.to_string()).output().expect("started");
            let help: Vec<&str> = text(&output.stdout).lines().collect();
            for lines in help.windows(2) {
                let indent = |line: &str| line.len() - line.trim_start().len();
                let next = lines[1].split_whitespace().next().unwrap_or_default();
                let goes_on = next.starts_with(char::is_lowercase) && indent(lines[0]) == indent(lines[1]);
                let length = lines[0].chars().count() + 1 + next.chars().count();
                assert!(!goes_on || lines[0].trim().is_empty() || length > width, "{command} at {width}: {lines:#?}");
            }
        }
    }
}

fn completions_and_manual_name_every_command() {
    let (completions, manual) = (stdout(&["completions", "bash"], 0), stdout(&["man"], 0));
    for command in commands() {
        assert!(completions.contains(&command), "{command}");
        assert!(manual.contains(&format!("perfmark\\-{command}")), "{command}");
        let page = stdout(&["man", &command], 0);
        assert!(page.contains(".SH SYNOPSIS"), "{command}");
        let version = format!(".TH perfmark-{command} 1  \"perfmark {}\"", env!("CARGO_PKG_VERSION"));
        assert!(page.contains(&version), "{page}");
    }
}

/// Every command, as the message about an unknown one lists them.
fn commands() -> Vec<String> {
    let why = stderr(&["man", "nosuch"], 2);
    let (_, names) = why.split_once("unknown command `nosuch`; expected one of ").expect("a list");
    let names: Vec<String> = names.trim_end().split(", ").map(str::to_owned).collect();
    assert!(["report", "gate", "unmark"].iter().all(|name| names.iter().any(|listed| listed == name)), "{names:?}");
    names
}
