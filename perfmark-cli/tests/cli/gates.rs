//! Gates of `perfmark diff`.

use perfmark::{Read, Unit};

use super::command::{assert_contains, stderr, stdout};
use super::sample::{Folder, mark, report, snapshot, values};

pub(super) const TESTS: &[(&str, fn())] = &[
    ("one_percent_more_instructions_fail_the_gate_and_name_the_function", one_percent_more_fails_the_gate),
    ("a_gate_takes_any_name_of_an_event", a_gate_takes_any_name_of_an_event),
    ("a_rise_from_zero_fails_the_gate", a_rise_from_zero_fails_the_gate),
    ("comparing_equal_runs_passes_20_times_of_20", comparing_equal_runs_passes_20_times_of_20),
    ("a_gate_that_judges_nothing_fails", a_gate_that_judges_nothing_fails),
    ("a_side_with_too_few_measured_calls_fails_the_gate", a_side_with_too_few_measured_calls_fails_the_gate),
    ("a_coverage_gate_names_each_mark_below_it", a_coverage_gate_names_each_mark_below_it),
];

/// What `perfmark diff` prints of both files with that gate.
#[track_caller]
fn judged(base: &str, head: &str, gate: &str, status: i32) -> String {
    stdout(&["diff", base, head, "--fail-on", gate], status)
}

fn one_percent_more_fails_the_gate() {
    let folder = Folder::new("cli-gate");
    let base = folder.report("base.json", &report(&[("parse", 100_000), ("print", 50_000), ("main", 20_000_000)]));
    let head = folder.report("head.json", &report(&[("parse", 101_000), ("print", 50_000), ("main", 20_000_000)]));
    let printed = judged(&base, &head, "instructions:0.5%", 1);
    assert_contains(
        &printed,
        &[
            "1 of 3 marks changed; 1 of 1 gate failed",
            "✗ parse: instructions per call rose by 1.0 % (gate instructions:0.5%): 100,000 → 101,000 (src/main.rs:3)",
            "parse instructions (mean) 100,000 101,000 +1.0 % +1,000",
            "print instructions (mean) 50,000 50,000 =",
            "gate instructions:0.5%: 3 marks judged",
            "print instructions (mean) 50,000 50,000 = = ≥ 0.1 %",
        ],
    );
    assert_eq!(printed.matches('✗').count(), 1);
    judged(&base, &head, "instructions:1%", 0);
    stdout(&["diff", &base, &head, "--fail-on", "instructions:0.5%", "--marks", "app::print"], 0);
    judged(&head, &base, "instructions:0%", 0);
    stdout(&["diff", &base, &head], 0);
    let unknown = stderr(&["diff", &base, &head, "--fail-on", "branch_misses:1"], 2);
    let why = "--fail-on branch_misses:1%: no report has the event; the reports have instructions, time";
    assert_contains(&unknown, &[why]);
    for wrong in ["instructions", "instructions:", ":1%", "instructions:-1%", "instructions:x%", "instructions:NaN"] {
        assert_contains(&stderr(&["diff", &base, &head, "--fail-on", wrong], 2), &["expected EVENT:PERCENT%"]);
    }
}

fn a_gate_takes_any_name_of_an_event() {
    let folder = Folder::new("cli-names");
    let run = |calls| {
        let names = ["off_cpu", "branch-misses", "branches", "page-faults", "cpu/event=0xc2,umask=0x1/"];
        let mut run = snapshot(vec![mark("wait", names.map(|event| values(event, calls)).to_vec())]);
        let about = |name: &str| {
            let mut event = run.events[0].clone();
            (event.name, event.unit) = (name.into(), Unit::Count);
            event
        };
        run.events = names.map(about).to_vec();
        run
    };
    let base = folder.report("base.json", &run(&[100; 20]));
    let head = folder.report("head.json", &run(&[200; 20]));
    let aliases = ["branch-instructions", "branch_instructions", "faults", "cpu/event=0xc2,umask=1/"];
    for event in ["off_cpu", "off-cpu", "branch-misses", "branch_misses"].into_iter().chain(aliases) {
        let gate = format!("{event}:5%");
        let printed = stdout(&["diff", &base, &head, "--allow-few-runs", "--fail-on", &gate], 1);
        assert_contains(&printed, &["1 mark judged"]);
    }
    let unknown = stderr(&["diff", &base, &head, "--fail-on", "cpu-cycles:1%"], 2);
    assert_contains(&unknown, &["--fail-on cpu-cycles:1%: no report has the event"]);
}

fn a_rise_from_zero_fails_the_gate() {
    let folder = Folder::new("cli-from-zero");
    let base = folder.report("base.json", &report(&[("parse", 0)]));
    let head = folder.report("head.json", &report(&[("parse", 3)]));
    let printed = judged(&base, &head, "instructions:1%", 1);
    assert_contains(&printed, &["✗ parse: instructions per call rose (gate instructions:1%): 0 → 3 (src/main.rs:3)"]);
    // Which part of nothing would have been found is not known.
    let printed = judged(&base, &base, "instructions:1%", 0);
    assert!(printed.contains("gate instructions:1%: 1 mark judged\n") && !printed.contains("0.0 %"), "{printed}");
}

fn comparing_equal_runs_passes_20_times_of_20() {
    let folder = Folder::new("cli-same");
    // Hash seeds differ from run to run, so some calls take a few instructions more.
    let run = |seed: u64| {
        let varied = |event: &str, least: u64, by: u64, seed: u64| {
            let calls = (0..100).map(|n: u64| least + n.wrapping_mul(seed).wrapping_mul(2_654_435_761) % by);
            values(event, &calls.collect::<Vec<_>>())
        };
        let instructions = varied("instructions", 100_000, 300, seed + 7);
        snapshot(vec![mark("parse", vec![instructions, varied("time", 30_000, 9_000, seed + 3)])])
    };
    for seed in 0..20 {
        let base = folder.report("base.json", &run(seed));
        let head = folder.report("head.json", &run(seed + 100));
        let gates = ["--fail-on", "instructions:1%", "--fail-on", "time:10%", "--allow-few-runs"];
        let printed = stdout(&[&["diff", &base, &head], &gates[..]].concat(), 0);
        assert_contains(&printed, &["0 of 1 mark changed; 2 gates passed"]);
    }
}

fn a_gate_that_judges_nothing_fails() {
    let folder = Folder::new("cli-nothing");
    let mut none = snapshot(vec![mark("parse", vec![values("time", &[1000; 100])])]);
    none.events[0].read = Read::None;
    none.events[0].reason = Some("no PMU here".into());
    let file = folder.report("a", &none);
    let printed = judged(&file, &file, "instructions:1%", 1);
    assert_contains(&printed, &["✗ gate instructions:1%: nothing to judge: no PMU here"]);
}

fn a_side_with_too_few_measured_calls_fails_the_gate() {
    let folder = Folder::new("cli-little");
    let full = folder.report("full", &report(&[("parse", 1000)]));
    let with = |measured: usize, unmeasured: u64, skipped: u64| {
        let mut values = values("instructions", &vec![1000; measured]);
        values.unmeasured = unmeasured;
        let calls = measured as u64 + unmeasured + skipped;
        let mut parse = mark("parse", vec![values]);
        (parse.calls, parse.skipped) = (calls, skipped);
        folder.report(&format!("{measured}-{unmeasured}-{skipped}"), &snapshot(vec![parse]))
    };
    for (few, expected) in [
        (with(1, 1_000_000, 0), "1 of 1,000,001 calls"),
        (with(1, 0, 1_000_000), "1 of 1,000,001 calls"),
        (with(50, 451, 0), "50 of 501 calls"),
    ] {
        for (side, [base, head]) in [("head", [&full, &few]), ("base", [&few, &full])] {
            let why = format!("✗ parse: instructions cannot be judged (gate instructions:1%): {side} measured");
            assert_contains(&judged(base, head, "instructions:1%", 1), &[&why, expected]);
        }
    }
    // A sample that is large enough, and a mark that had no more calls.
    for enough in [with(100, 0, 9_900), with(100, 100, 0), with(3, 0, 0)] {
        judged(&full, &enough, "instructions:1%", 0);
    }
}

fn a_coverage_gate_names_each_mark_below_it() {
    let folder = Folder::new("cli-coverage");
    let with = |name: &str, unmeasured: u64| {
        let mut values = values("time", &[1000; 100]);
        values.unmeasured = unmeasured;
        mark(name, vec![values])
    };
    let base = folder.report("base", &snapshot(vec![with("parse", 900), with("print", 900)]));
    let new = with("new", 300);
    let mut sampled = with("sampled", 0);
    (sampled.calls, sampled.skipped) = (6400, 6300);
    let head = snapshot(vec![with("parse", 11), with("print", 12), new, sampled, mark("silent", Vec::new())]);
    let head = folder.report("head", &head);
    let printed = judged(&base, &head, "coverage:90%", 1);
    assert_contains(
        &printed,
        &[
            "✗ print: 89.2 % of its calls were measured in head (gate coverage:90%): time in 100 of 112 calls",
            "✗ new: 25.0 % of its calls were measured in head (gate coverage:90%): time in 100 of 400 calls",
            "gate coverage:90%: 4 marks judged",
        ],
    );
    assert_eq!(
        printed.matches('✗').count(),
        2,
        "coverage of the base and calls that `every` skipped do not matter: {printed}"
    );
    judged(&base, &head, "coverage:25%", 0);
    stdout(&["diff", &base, &head, "--fail-on", "coverage:90%", "--marks", "app::parse"], 0);
    // Shares are rounded down: neither 100 % nor the limit is shown for less.
    for (unmeasured, limit, share) in [(1, "100%", "99.9 %"), (11_148, "90%", "89.9 %")] {
        let mut parse = with("parse", unmeasured);
        (parse.values[0].measured, parse.values[0].weight) = (100_000, 100_000);
        let head = folder.report("almost", &snapshot(vec![parse]));
        let printed = judged(&base, &head, &format!("coverage:{limit}"), 1);
        assert_contains(&printed, &[&format!("✗ parse: {share} of its calls were measured in head")]);
        assert_eq!(printed.contains("head: <0.1 % of the calls were not counted"), unmeasured == 1, "{printed}");
    }
    // An event that could be counted in the base but not in the head.
    let lost = {
        let mut lost = snapshot(vec![mark("parse", vec![values("time", &[1000; 100])])]);
        (lost.events[0].read, lost.events[0].reason) = (Read::None, Some("no PMU here".into()));
        folder.report("lost", &lost)
    };
    let both = [values("instructions", &[7; 100]), values("time", &[1000; 100])];
    let full = folder.report("full", &snapshot(vec![mark("parse", both.to_vec())]));
    let printed = judged(&full, &lost, "coverage:1%", 1);
    assert_contains(
        &printed,
        &[
            "✗ parse: 0.0 % of its calls were measured in head (gate coverage:1%): instructions in 0 of 100 calls",
            "no PMU here",
        ],
    );
    judged(&lost, &lost, "coverage:100%", 0);
    let empty = folder.report("empty", &snapshot(vec![mark("parse", Vec::new())]));
    assert_contains(&judged(&full, &empty, "coverage:1%", 1), &["nothing to judge"]);
    for wrong in ["coverage:101%", "coverage:-1%"] {
        assert_contains(&stderr(&["diff", &full, &full, "--fail-on", wrong], 2), &["EVENT:PERCENT%"]);
    }
}
