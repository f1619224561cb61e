//! `perfmark diff`: hot lines of two runs.

use perfmark::{Read, Samples, Snapshot};
use serde_json::Value;

use super::command::{assert_contains, stdout};
use super::sample::{Folder, frame, location, module, path, report};

pub(super) const TESTS: &[(&str, fn())] = &[
    ("lines_that_changed_are_shown_below_their_mark", lines_that_changed_are_shown),
    ("a_change_that_may_be_chance_is_not_shown", a_change_that_may_be_chance_is_not_shown),
    ("lines_of_renumbered_closures_are_the_same", lines_of_renumbered_closures_are_the_same),
    ("several_runs_of_a_side_are_one_sample", several_runs_are_one_sample),
    ("lines_that_cannot_be_compared_are_reported_in_one_line", lines_that_cannot_be_compared_are_reported),
];

/// A run with samples at lines of `parse`, which starts in line 3.
fn run(lines: &[(u32, u64)]) -> Snapshot {
    let mut snapshot = report(&[("parse", 1_000), ("print", 2_000)]);
    let mut samples = Samples::default();
    (samples.event, samples.frequency) = ("cpu-clock".into(), Some(99));
    samples.modules = vec![module("/app", None)];
    samples.frames = lines.iter().map(|&(line, _)| frame("app::parse", "/home/src/main.rs", line)).collect();
    samples.locations = (0..lines.len()).map(|at| location(0, at as u64, &[at])).collect();
    let stacks: Vec<([usize; 1], u64)> = lines.iter().enumerate().map(|(at, &(_, count))| ([at], count)).collect();
    let stacks: Vec<(&[usize], u64)> = stacks.iter().map(|(locations, count)| (&locations[..], *count)).collect();
    samples.paths = vec![path(&[0], &stacks)];
    snapshot.samples = vec![samples];
    snapshot
}

/// What `perfmark diff` prints.
fn compared(folder: &Folder, base: &Snapshot, head: &Snapshot, options: &[&str]) -> String {
    let (base, head) = (folder.report("base.json", base), folder.report("head.json", head));
    stdout(&[&["diff", &base, &head], options].concat(), 0)
}

fn lines_that_changed_are_shown() {
    let folder = Folder::new("cli-lines");
    let base = run(&[(12, 600), (14, 280), (20, 100), (21, 20)]);
    // The function moved by 10 lines, and is built in another directory.
    let mut head = run(&[(22, 480), (24, 410), (30, 95), (31, 15)]);
    head.marks[0].line += 10;
    head.samples[0].frames.iter_mut().for_each(|frame| frame.file = Some("/tmp/head/src/main.rs".into()));
    let table = compared(&folder, &base, &head, &[]);
    let rows: Vec<&str> = table.lines().skip_while(|line| *line != "parse").collect();
    assert_eq!(rows[2], "    src/main.rs:24  28 % ± 1 → 41 % ± 2", "{table}");
    assert_eq!(rows[3], "    src/main.rs:22  60 % ± 2 → 48 % ± 2", "{table}");
    assert_eq!(rows[4], "", "{table}");
    assert_contains(&table, &["lines: share of the samples taken directly in the mark, ± its standard error"]);
    let markdown = compared(&folder, &base, &head, &["--format", "markdown"]);
    assert_contains(&markdown, &["| parse | src/main.rs:24 | 28 % ± 1 | 41 % ± 2 | | |"]);
    let json: Value = serde_json::from_str(&compared(&folder, &base, &head, &["--format", "json"])).expect("JSON");
    let [print, parse] = [0, 1].map(|at| json["marks"][at]["lines"].as_array().expect("a list"));
    assert_eq!((parse.len(), print.len()), (2, 0));
    assert_eq!((&parse[0]["line"], &parse[0]["head"]["samples"]), (&24.into(), &410.into()));
    assert_eq!((&parse[0]["file"], &parse[0]["base"]["of"]), (&"src/main.rs".into(), &1000.into()));
    // Values that are not compared.
    head.events[0].read = Read::Emulated;
    let table = compared(&folder, &base, &head, &[]);
    assert_contains(&table, &["only lines compared: parse", "28 % ± 1 → 41 % ± 2"]);
    let markdown = compared(&folder, &base, &head, &["--format", "markdown"]);
    assert_contains(&markdown, &["1 mark: only lines compared", "| parse | src/main.rs:24 | 28 % ± 1 | 41 % ± 2 |"]);
}

fn a_change_that_may_be_chance_is_not_shown() {
    let folder = Folder::new("cli-few-samples");
    for (base, head) in [
        // Two standard errors of the difference.
        ([(12, 600), (14, 400)], [(12, 555), (14, 445)]),
        // Few samples.
        ([(12, 8), (14, 2)], [(12, 3), (14, 7)]),
        // More than any error, and less than a point.
        ([(12, 600_000), (14, 400_000)], [(12, 609_000), (14, 391_000)]),
    ] {
        let table = compared(&folder, &run(&base), &run(&head), &[]);
        assert!(!table.contains("lines") && !table.contains("main.rs"), "{table}");
    }
}

fn lines_of_renumbered_closures_are_the_same() {
    let folder = Folder::new("cli-closures");
    let [base, mut head] = [[(12, 600), (14, 400)]; 2].map(|lines| run(&lines));
    head.samples[0].frames[0].function = "app::parse::{closure#1}".into();
    let table = compared(&folder, &base, &head, &[]);
    assert!(!table.contains("main.rs"), "{table}");
    // Lines of other functions.
    let [base, head] = [(base, "app::fold::{closure#0}"), (head, "app::fold<u8>")].map(|(mut side, function)| {
        side.samples[0].frames[0].function = function.into();
        side
    });
    let table = compared(&folder, &base, &head, &[]);
    assert!(!table.contains("main.rs"), "{table}");
}

fn several_runs_are_one_sample() {
    let folder = Folder::new("cli-lines-of-runs");
    let file = |name: &str, run: &Snapshot| folder.report(name, run);
    let base = [1, 2].map(|n| file(&format!("base{n}"), &run(&[(12, 20), (14, 20)])));
    let head = [1, 2, 3].map(|n| file(&format!("head{n}"), &run(&[(12, 2), (14, 38)])));
    let table = stdout(&["diff", "--base", &base[0], &base[1], "--head", &head[0], &head[1], &head[2]], 0);
    assert_contains(&table, &["src/main.rs:14 50 % ± 6 → 95 % ± 2"]);
}

fn lines_that_cannot_be_compared_are_reported() {
    let folder = Folder::new("cli-other-samples");
    let base = run(&[(12, 100)]);
    let changed = |change: fn(&mut Samples)| {
        let mut head = run(&[(14, 100)]);
        change(&mut head.samples[0]);
        head
    };
    let mut without = run(&[]);
    without.samples.clear();
    for (head, why) in [
        (&without, "head has no samples"),
        (
            &changed(|samples| samples.frequency = Some(1_000)),
            "base was sampled by cpu-clock, 99 a second, head by cpu-clock, 1,000 a second",
        ),
        (&changed(|samples| samples.stack_bytes = 512), "head by cpu-clock, 99 a second with 512 bytes of the stack"),
        (
            &changed(|samples| samples.locations[0].frames.clear()),
            "the samples of head have no names; `perfmark report --symbols --format json` names them",
        ),
        (&changed(|samples| samples.lost = 20), "too many samples of head are missing; `perfmark report` says why"),
    ] {
        let table = compared(&folder, &base, head, &[]);
        let notes: Vec<&str> = table.lines().filter(|line| line.contains("hot lines")).collect();
        assert!(notes.len() == 1 && notes[0].starts_with("hot lines are not compared: "), "{table}");
        assert!(notes[0].ends_with(why), "{table}");
        assert!(!table.contains("main.rs"), "{table}");
    }
    let table = compared(&folder, &without, &without, &[]);
    assert!(!table.contains("hot lines"), "{table}");
}
