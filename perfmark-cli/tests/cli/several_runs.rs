//! Several runs on each side, and pairs of runs.

use std::fs;

use super::command::{answer, assert_contains, perfmark, stderr, stdout, this_program};
use super::program::{SCENARIO, assert_code, ending, text};
use super::sample::{Folder, mark, report, snapshot, values};

pub(super) const TESTS: &[(&str, fn())] = &[
    ("a_change_within_the_spread_of_runs_passes_the_gate", a_change_within_the_spread_of_runs_passes_the_gate),
    ("times_are_compared_by_their_distributions", times_are_compared_by_their_distributions),
    ("times_of_one_or_two_runs_are_not_judged", times_of_one_or_two_runs_are_not_judged),
    ("what_depends_on_the_machine_is_judged_in_several_runs_only", what_depends_on_the_machine_needs_several_runs),
    ("pairs_of_runs_are_judged_and_marks_below_the_noise_are_listed", pairs_of_runs_are_judged),
    ("a_mark_that_few_runs_call_does_not_decide_a_gate", a_mark_that_few_runs_call_does_not_decide_a_gate),
    ("run_alternates_two_programs_and_judges_the_pairs", run_alternates_two_programs),
    ("a_program_that_fails_ends_the_comparison", a_program_that_fails_ends_the_comparison),
    ("a_process_that_outlives_a_compared_run_keeps_its_directory", a_process_that_outlives_a_compared_run),
    ("a_compared_run_has_the_name_of_its_own_process", a_compared_run_has_the_name_of_its_own_process),
];

fn a_change_within_the_spread_of_runs_passes_the_gate() {
    let folder = Folder::new("cli-runs");
    let write = |side: &str, all: &[u64]| -> Vec<String> {
        let file = |(n, &each): (usize, &u64)| folder.report(&format!("{side}-{n}"), &report(&[("parse", each)]));
        all.iter().enumerate().map(file).collect()
    };
    let base = write("base", &[100_000, 103_000, 101_000]);
    // A rise by 1 % cannot be seen where runs differ by 3 %.
    for (all, status) in [(&[102_500, 103_500, 104_000], 3), (&[105_000, 105_500, 106_000], 1)] {
        let head = write("head", all);
        let mut arguments = vec!["diff", "--fail-on", "instructions:1%", "--base"];
        arguments.extend(base.iter().map(String::as_str));
        arguments.push("--head");
        arguments.extend(head.iter().map(String::as_str));
        stdout(&arguments, status);
    }
}

fn times_are_compared_by_their_distributions() {
    let folder = Folder::new("cli-times");
    let with = |from: u64, to: u64| {
        let calls: Vec<u64> = (0..100).map(|n| from + (to - from) * n / 99).collect();
        snapshot(vec![mark("parse", vec![values("time", &calls)])])
    };
    let base = folder.report("base", &with(10_000, 14_000));
    for (head, status, expected) in [
        (with(10_500, 14_500), 0, "0 of 1 mark changed"),
        (with(14_000, 18_000), 1, "parse: time per call rose by 33"),
        (with(5_000, 9_000), 0, "1 of 1 mark changed"),
    ] {
        let head = folder.report("head", &head);
        let arguments = ["diff", "--allow-few-runs", &base, &head, "--fail-on", "time:20%"];
        assert_contains(&stdout(&arguments, status), &[expected]);
    }
    let few = folder.report("few", &snapshot(vec![mark("parse", vec![values("time", &[90_000; 3])])]));
    let printed = stdout(&["diff", "--allow-few-runs", &base, &few, "--fail-on", "time:20%"], 3);
    assert_contains(
        &printed,
        &[
            "too few calls",
            "no mark can be judged: parse (3 calls): too few calls; compare three runs per side",
            "different numbers of calls: parse (base 100, head 3)",
        ],
    );
    let finer = stderr(&["diff", "--allow-few-runs", &base, &few, "--fail-on", "time:2%"], 2);
    let why = "--fail-on time:2%: a p50 of time does not show a rise by less than 3.3 %; set that limit";
    assert_contains(&finer, &[why]);
}

fn times_of_one_or_two_runs_are_not_judged() {
    let folder = Folder::new("cli-one-run");
    let run = |name: &str, time: u64, instructions: u64| {
        let values = vec![values("instructions", &[instructions; 100]), values("time", &[time; 100])];
        folder.report(name, &snapshot(vec![mark("parse", values)]))
    };
    let (base, head) = (run("base", 1000, 5000), run("head", 2000, 5000));
    let reason = "gate time:5%: cannot judge time with fewer than 3 runs on a side (base 1, head 1)";
    let remedy = "use `perfmark run --times 10 --against BASE -- HEAD`";
    let gate = ["--fail-on", "time:5%"];
    let with = |more: &[&str], status: i32| stdout(&[&["diff", &base, &head], more].concat(), status);
    let printed = with(&gate, 3);
    let parts = ["0 of 1 mark changed; 1 of 1 gate cannot be judged", reason, remedy, "~ +100.0 %"];
    assert_contains(&printed, &parts);
    assert_contains(&with(&[], 0), &["time: not judged, because fewer than 3 runs on a side (base 1, head 1)"]);
    assert_contains(&with(&["--fail-on", "time:5%", "--allow-few-runs"], 1), &["time per call rose by 100.0 %"]);
    // Another gate that fails decides.
    let more = run("more", 2000, 6000);
    let printed = stdout(&["diff", &base, &more, "--fail-on", "time:5%", "--fail-on", "instructions:1%"], 1);
    assert_contains(&printed, &["1 of 2 gates cannot be judged; 1 of 2 gates failed", reason]);
    // A gate that failed is not undecided, too.
    let mark_of = |name: &str, event: &str| mark(name, vec![values(event, &[1000; 100])]);
    let timed = snapshot(vec![mark_of("parse", "time"), mark_of("print", "time")]);
    let counted = snapshot(vec![mark_of("parse", "instructions"), mark_of("print", "time")]);
    let (timed, counted) = (folder.report("timed", &timed), folder.report("counted", &counted));
    let printed = stdout(&["diff", &timed, &counted, "--fail-on", "time:5%"], 1);
    assert_contains(&printed, &["1 not compared; 1 of 1 gate failed", "time: not judged, because fewer than 3 runs"]);
    assert!(!printed.contains("cannot judge "), "{printed}");
    // Every format has the reason.
    let output = answer(&["diff", &base, &head, "--fail-on", "time:5%", "--format", "json"], 3);
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&document["failed"], &document["gates"][0]["failed"]), (&false.into(), &false.into()));
    assert!(document["gates"][0]["cannot_judge"].as_str().expect("a reason").starts_with(reason));
    assert_contains(text(&output.stderr), &[reason]);
    let output = answer(&["diff", &base, &head, "--fail-on", "time:5%", "--format", "markdown"], 3);
    assert!(text(&output.stdout).starts_with("⚠️ **perfmark**: "), "{}", text(&output.stdout));
    assert_contains(text(&output.stdout), &["cannot judge time with fewer than 3 runs"]);
}

fn what_depends_on_the_machine_needs_several_runs() {
    let folder = Folder::new("cli-machine");
    let all = ["page-faults", "minor-faults", "major-faults", "context-switches", "cpu-migrations", "cgroup-switches"];
    for event in all.into_iter().chain(["faults:u", "page_faults"]) {
        let run = |name: String, each: u64| {
            let mut run = snapshot(vec![mark("parse", vec![values(event, &[each; 100])])]);
            run.events[0].name = event.into();
            folder.report(&name, &run)
        };
        let side = |name: &str, runs: &[u64]| -> Vec<String> {
            runs.iter().enumerate().map(|(n, &each)| run(format!("{name}-{n}"), each)).collect()
        };
        let gate = format!("{event}:5%");
        let judged = |options: &[&str], base: &[u64], head: &[u64], status: i32| {
            let (base, head) = (side("base", base), side("head", head));
            let sides = [("--base", &base), ("--head", &head)].into_iter();
            let sides = sides.flat_map(|(side, files)| [side].into_iter().chain(files.iter().map(String::as_str)));
            let sides: Vec<&str> = sides.collect();
            stdout(&[&["diff", "--fail-on", &gate], options, &sides].concat(), status)
        };
        let printed = judged(&[], &[100], &[140], 3);
        let why = format!("cannot judge {event} with fewer than 3 runs on a side (base 1, head 1)");
        let note = format!("{event}: not judged, because fewer than 3 runs on a side (base 1, head 1)");
        assert_contains(&printed, &["0 of 1 mark changed", &why, &note, "(mean) 100 140 ~ +40.0 %"]);
        judged(&["--allow-few-runs"], &[100], &[140], 1);
        judged(&[], &[100, 120, 140], &[110, 130, 150], 3);
        judged(&[], &[100, 100, 101], &[102, 102, 103], 0);
        judged(&[], &[100, 101, 102], &[140, 141, 142], 1);
        let few = judged(&["--paired"], &[100; 7], &[140; 7], 3);
        assert_contains(&few, &[&format!("cannot judge {event} with fewer than 8 pairs of runs (given: 7)")]);
        judged(&["--paired"], &[100; 8], &[140; 8], 1);
        judged(&["--paired"], &[0; 8], &[1; 8], 1);
    }
}

/// Pairs of runs with a mark of 1000 ns, whose head takes `factor` times as long, and one that varies by 20 %.
fn pairs_of_runs(folder: &Folder, pairs: u64, factor: f64) -> Vec<String> {
    let side = |side: &'static str, number: u64, factor: f64| {
        let varied = |size: f64, part: u64, seed: u64| {
            let random = number.wrapping_mul(seed).wrapping_mul(2_654_435_761) % 1000;
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small number")]
            values("time", &[(size * (1.0 + part as f64 / 100.0 * random as f64 / 1000.0)) as u64; 100])
        };
        let seed = if side == "base" { 7919 } else { 104_729 };
        let marks = vec![
            mark("parse", vec![varied(100_000.0 * factor, 1, seed)]),
            mark("noisy", vec![varied(100_000.0, 40, seed + 2)]),
            mark("short", vec![values("time", &[1; 100])]),
        ];
        folder.report(&format!("{side}-{number}"), &snapshot(marks))
    };
    let mut arguments = vec!["diff".to_owned(), "--paired".into(), "--base".into()];
    arguments.extend((1..=pairs).map(|number| side("base", number, 1.0)));
    arguments.push("--head".into());
    arguments.extend((1..=pairs).map(|number| side("head", number, factor)));
    arguments
}

fn pairs_of_runs_are_judged() {
    let folder = Folder::new("cli-pairs");
    let run = |pairs: u64, factor: f64, gate: &str, status: i32| {
        let mut arguments = pairs_of_runs(&folder, pairs, factor);
        arguments.extend(["--fail-on".into(), gate.into()]);
        stdout(&arguments.iter().map(String::as_str).collect::<Vec<_>>(), status)
    };
    let noise = "gate time:2%: not judged: noisy (≥ ";
    let short = "gate time:2%: not judged: short: a call is no longer than the noise of the probe";
    let printed = run(10, 1.05, "time:2%", 1);
    assert_contains(&printed, &["✗ parse: time per call rose by", "time (midmean)", noise, short, "1 mark judged"]);
    let printed = run(10, 1.0, "time:2%", 0);
    assert_contains(&printed, &["0 of 3 marks changed; the gate passed", noise, short, "10 pairs of runs"]);
    assert_contains(&run(10, 1.05, "time:7%", 0), &["1 of 3 marks changed; the gate passed"]);
    let printed = run(7, 1.5, "time:2%", 3);
    let note = "time: not judged, because fewer than 8 pairs of runs (base 7, head 7) do not show how much values vary";
    assert_contains(&printed, &["cannot judge time with fewer than 8 pairs of runs (given: 7)", note]);
    assert!(!printed.contains("randomization test"), "{printed}");
    let mut uneven = pairs_of_runs(&folder, 2, 1.0);
    uneven.pop();
    let why = stderr(&uneven.iter().map(String::as_str).collect::<Vec<_>>(), 2);
    assert_contains(&why, &["--paired: base has 2 runs, and head has 1; give as many files on each side"]);
}

fn a_mark_that_few_runs_call_does_not_decide_a_gate() {
    let folder = Folder::new("cli-rare");
    let run = |options: &[&str], rare_in: [usize; 2], status: i32| {
        let files = [0, 1].map(|side: usize| {
            let file = |number: usize| {
                let steady = mark("steady", vec![values("time", &[1000; 100])]);
                let rare = (number < rare_in[side]).then(|| mark("rare", vec![values("time", &[1000; 100])]));
                folder.report(&format!("{side}-{number}"), &snapshot([steady].into_iter().chain(rare).collect()))
            };
            (0..10).map(file).collect::<Vec<_>>()
        });
        let sides = ["--base", "--head"].into_iter().zip(&files);
        let sides = sides.flat_map(|(side, files)| [side].into_iter().chain(files.iter().map(String::as_str)));
        stdout(&["diff"].into_iter().chain(options.iter().copied()).chain(sides).collect::<Vec<_>>(), status)
    };
    let gate = ["--fail-on", "time:5%"];
    let in_pairs = [&gate[..], &["--paired"]].concat();
    let (passed, judged) = ("0 of 2 marks changed; the gate passed", "gate time:5%: 1 mark judged");
    for rare_in in [[1, 10], [9, 9]] {
        let why = "gate time:5%: not judged: rare: not measured in each pair of runs";
        assert_contains(&run(&in_pairs, rare_in, 0), &[passed, judged, why, "not in each pair"]);
    }
    let why = "gate time:5%: not judged: rare (in 2 runs): measured in too few runs";
    let printed = run(&gate, [10, 2], 0);
    assert_contains(&printed, &[passed, judged, why, "µs too few runs"]);
    assert!(!printed.contains("fewer than 3 runs"), "{printed}");
    let rare = [&gate[..], &["--marks", "rare"]].concat();
    assert_contains(&run(&rare, [10, 2], 3), &["no mark can be judged: rare (in 2 runs): measured in too few runs"]);
}

/// A shell script that executes this program with a scenario, after `first`.
fn script(folder: &Folder, name: &str, first: &str, scenario: &str) -> String {
    folder.executable(name, &format!("#!/bin/sh\n{first}\n{SCENARIO}='{scenario}' exec '{}'\n", this_program()))
}

fn run_alternates_two_programs() {
    let folder = Folder::new("cli-against");
    let log = folder.file("log", "");
    let base = script(&folder, "base", &format!("echo base >>{log}; echo printed"), "calls");
    let head = script(&folder, "head", &format!("echo head $1 >>{log}"), "children of the head");
    let ended = |options: &[&str], status: i32| {
        let arguments = [&["run", "--against", &base], options, &["--", &head, "argument"]].concat();
        let output = perfmark(&arguments).env("TMPDIR", &folder.0).output().expect("started");
        assert_code(&output, status);
        output
    };
    let run = |options: &[&str], status: i32| text(&ended(options, status).stdout).to_owned();
    let printed = run(&["--times", "8", "--format", "json"], 0);
    let document: serde_json::Value = serde_json::from_str(&printed).expect("JSON, and no output of the programs");
    assert_eq!((&document["runs"]["base"], &document["paired"]), (&8.into(), &true.into()));
    let work = document["marks"].as_array().expect("a list").iter().find(|mark| mark["mark"] == "work");
    assert_eq!(work.expect("called")["calls"]["head"], serde_json::json!([3, 3]), "reports of processes are merged");
    let order = fs::read_to_string(&log).expect("written");
    let lines: Vec<&str> = order.lines().collect();
    assert!(lines.len() == 16 && lines.iter().all(|line| ["base", "head argument"].contains(line)), "{order}");
    assert!(lines.chunks(2).all(|pair| pair[0] != pair[1]), "one of each in a pair: {order}");
    // Wrong arguments are reported before the first run, or after the first pair.
    for (options, runs, why) in [
        (&["--times", "7", "--fail-on", "time:5%"][..], 0, "fewer than 8 pairs of runs (given: 7)"),
        (&["--fail-on", "tiem:5%"], 2, "--fail-on tiem:5%: no report has the event; the reports have "),
        (&["--marks", "wrok"], 2, ": no mark matches; did you mean work?"),
    ] {
        fs::write(&log, "").expect("written");
        assert_contains(text(&ended(options, 2).stderr), &[why]);
        assert_eq!(fs::read_to_string(&log).expect("written").lines().count(), runs, "{options:?}");
    }
    let unwritten = ended(&["--times", "1", "-o", "/dev/full"], 125);
    assert_contains(text(&unwritten.stderr), &["writing /dev/full: "]);
    let formats = stderr(&["run", "--against", &base, "--format", "csv", "--", &head], 2);
    assert_contains(&formats, &["--against supports the formats table, markdown and json"]);
    assert_contains(&stderr(&["run", "--times", "3", "--", &head], 2), &["--against"]);
    let report_only = "--each --width=90 --lines=5 --sort=calls --details --symbols --event=cycles --embed-sources";
    for option in report_only.split(' ') {
        let refused = stderr(&["run", "--against", &base, option, "--", &head], 2);
        assert_contains(&refused, &["the argument '--against <BASE>' cannot be used with"]);
    }
    for times in ["0", "99999999999999999"] {
        let refused = stderr(&["run", "--against", &base, "--times", times, "--", &head], 2);
        assert_contains(&refused, &[&format!("invalid value '{times}' for '--times <N>'"), "1..=10000"]);
    }
}

fn a_program_that_fails_ends_the_comparison() {
    let folder = Folder::new("cli-against-fails");
    let good = script(&folder, "good", "", "calls");
    let bad = script(&folder, "bad", "exit 7", "calls");
    let killed = script(&folder, "killed", "kill -TERM $$", "calls");
    let run = |head: &str, status: i32, why: &str| {
        let output = perfmark(&["run", "--against", &good, "--", head]).env("TMPDIR", &folder.0).output();
        let output = output.expect("started");
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(status), ""), "{}", ending(&output));
        assert_contains(text(&output.stderr), &[&format!("perfmark: head run 1 of 10: {head}: {why}")]);
    };
    run(&bad, 125, "exit status: 7: the program failed; perfmark compares nothing");
    run(&killed, 143, "signal: 15 (SIGTERM); nothing was compared");
    run("/bin/true", 125, "left no report; `perfmark run -- PROGRAM` prints why");
    run("/nowhere/program", 127, "No such file or directory");
    let left = fs::read_dir(&folder.0).expect("there").flatten().filter(|entry| entry.path().is_dir());
    assert_eq!(left.count(), 0);
}

fn a_process_that_outlives_a_compared_run() {
    let folder = Folder::new("cli-against-goes-on");
    let good = script(&folder, "good", "", "calls");
    let parent = script(&folder, "parent", "", "leaves a child running");
    let arguments = ["run", "--against", &good, "--times", "1", "--", &parent];
    let output = perfmark(&arguments).env("TMPDIR", &folder.0).output().expect("started");
    let printed = text(&output.stderr);
    let (_, about) = printed.split_once("still running: ").unwrap_or_else(|| panic!("{}", ending(&output)));
    let (pid, about) = about.split_once(' ').expect("a number");
    let (_, about) = about.split_once(" at exit will be in ").expect("a directory");
    let (directory, _) = about.split_once(", together").expect("a directory");
    // SAFETY: the process is the one that this test's program started.
    unsafe { libc::kill(pid.parse().expect("a number"), libc::SIGKILL) };
    assert_code(&output, 0);
    assert!(fs::exists(directory).expect("known"), "{printed}");
    let left = fs::read_dir(&folder.0).expect("there").flatten().filter(|entry| entry.path().is_dir());
    assert_eq!(left.count(), 1, "that of the other program is removed");
}

fn a_compared_run_has_the_name_of_its_own_process() {
    let folder = Folder::new("cli-against-own");
    let file = |program: &str| {
        let mut run = report(&[("parse", 1_000)]);
        (run.program, run.pid) = (program.into(), 4_242_424);
        folder.report(&format!("{program}.json"), &run)
    };
    let child = file("child");
    // A program whose processes leave these reports.
    let program = |name: &str| {
        let leave = |file: &str, pid: &str| {
            format!("sed s/4242424/{pid}/ {file} >$(echo \"$PERFMARK_OUTPUT\" | sed s/%p/{pid}/)\n")
        };
        let children: String = (1..10).map(|pid| leave(&child, &pid.to_string())).collect();
        script(&folder, &format!("leaves-{name}"), &format!("{children}{}exit", leave(&file(name), "$$")), "")
    };
    let (base, head) = (program("one"), program("two"));
    let printed = stdout(&["run", "--against", &base, "--times", "2", "--", &head], 0);
    assert_contains(&printed, &["base is of program one, head of two"]);
}
