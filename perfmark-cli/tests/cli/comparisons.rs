//! `perfmark diff`: what it compares and shows.

use perfmark::text::counted;
use perfmark::{Mark, Read, Report};

use super::command::{answer, assert_contains, document, perfmark, stderr, stdout};
use super::program::{assert_code, text};
use super::sample::{Folder, mark, report, snapshot, values};

pub(super) const TESTS: &[(&str, fn())] = &[
    ("a_caller_is_not_blamed_for_its_callees", a_caller_is_not_blamed_for_its_callees),
    ("the_self_mean_covers_the_same_calls_as_the_self_sum", the_self_mean_covers_the_same_calls_as_the_self_sum),
    ("a_comparison_has_the_names_and_the_order_of_a_report", a_comparison_has_names_and_order_of_a_report),
    ("report_and_diff_have_the_same_quantile", report_and_diff_have_the_same_quantile),
    ("small_means_are_shown", small_means_are_shown),
    ("values_within_noise_are_flagged_and_a_column_without_cells_is_left_out", values_within_noise_are_flagged),
    ("types_of_one_name_are_compared_with_themselves_only", types_of_one_name_are_compared_with_themselves_only),
    ("marks_of_one_name_are_compared_only_if_both_sides_have_as_many", marks_of_one_name_are_compared_only_if_as_many),
    ("marks_that_were_never_called_are_listed_briefly", marks_never_called_are_listed_briefly),
    ("a_mark_that_is_off_is_named", a_mark_that_is_off_is_named),
    ("what_cannot_be_compared_is_reported", what_cannot_be_compared_is_reported),
    ("calls_that_did_not_return_are_not_expected_to_be_measured", calls_that_did_not_return_are_not_expected),
    ("marks_that_are_not_compared_are_not_without_a_change", marks_that_are_not_compared_are_not_without_a_change),
    ("values_of_an_emulator_are_not_compared_with_others", values_of_an_emulator_are_not_compared_with_others),
    ("a_comparison_is_available_as_markdown_and_json", a_comparison_is_available_as_markdown_and_json),
    ("marks_without_a_change_have_as_many_rows_as_a_report", marks_without_a_change_have_as_many_rows_as_a_report),
    ("a_comparison_fits_into_a_comment_failed_gates_first_and_says_how_much_does_not", fits_into_a_comment),
];

fn a_caller_is_not_blamed_for_its_callees() {
    let folder = Folder::new("cli-caller");
    let with = |inner: u64| {
        let mut outer = values("instructions", &[1000 + inner; 100]);
        outer.self_sum = Some(100 * 1000);
        snapshot(vec![mark("outer", vec![outer]), mark("inner", vec![values("instructions", &[inner; 100])])])
    };
    let (base, head) = (folder.report("base", &with(10_000)), folder.report("head", &with(11_000)));
    let printed = stdout(&["diff", &base, &head, "--fail-on", "instructions:1%"], 1);
    let outer = "✗ outer: instructions per call rose by 9.1 %";
    assert_contains(&printed, &[outer, "the change is in marked calls inside it"]);
    let inner = printed.lines().find(|line| line.starts_with("✗ inner")).expect("printed");
    assert!(!inner.contains("marked calls inside"), "{inner}");
}

fn the_self_mean_covers_the_same_calls_as_the_self_sum() {
    let folder = Folder::new("cli-self-mean");
    let mut lacking = report(&[("parse", 1000)]);
    lacking.marks[0].calls = 150;
    let values = &mut lacking.marks[0].values[0];
    // 100 calls were measured and 50 were not. Self includes nothing for the latter.
    (values.unmeasured, values.extrapolated) = (50, true);
    let file = folder.report("lacking.json", &lacking);
    let shown = Report::new(&lacking).width(200).to_string();
    let row = shown.lines().find(|line| line.starts_with("parse")).expect("a row");
    assert_eq!(row.matches(" ≈1,000 ").count(), 1, "{shown}");
    let compared = document(&["diff", &file, &file, "--format", "json"], 0);
    let own = &compared["marks"][0]["events"][0]["self"];
    assert_eq!((&own["base"], &own["head"]), (&1000.0.into(), &1000.0.into()), "{compared}");
}

fn a_comparison_has_names_and_order_of_a_report() {
    let folder = Folder::new("cli-order");
    let of = |path: &str, line: u32, each: u64| {
        let (_, name) = path.rsplit_once("::").expect("a path");
        let mut mark = mark(name, vec![values("instructions", &[each; 100])]);
        (mark.path, mark.line) = (path.into(), line);
        mark
    };
    let run = |name: &str, warm: u64, more: Mark| {
        let step = |line, each| of("app::parse::step", line, each);
        let marks = [of("app::Tree::new", 1, 10_000), of("app::Table::new", 2, 30_000), of("app::cold", 3, 100)];
        let steps = [step(5, 20_000), step(6, 40_000)];
        folder.report(
            name,
            &snapshot(marks.into_iter().chain([of("app::warm", 4, warm)]).chain(steps).chain([more]).collect()),
        )
    };
    let base = run("base", 15_000, of("app::gone::new", 7, 99_000));
    let head = run("head", 16_000, of("app::came::new", 7, 5));
    let names = |more: &[&str]| -> Vec<String> {
        let document = document(&[&["diff", "--format", "json", &base, &head], more].concat(), 0);
        let marks = document["marks"].as_array().expect("a list");
        marks.iter().map(|mark| mark["mark"].as_str().expect("a name").to_owned()).collect()
    };
    let expected = [
        // It changed.
        "warm",
        // It is only in the base, where it costs most.
        "gone::new",
        "app::parse::step (src/main.rs:6)",
        "Table::new",
        "app::parse::step (src/main.rs:5)",
        "Tree::new",
        "cold",
        "came::new",
    ];
    assert_eq!(names(&[]), expected);
    for name in expected.iter().filter(|name| !name.ends_with(')')) {
        assert_eq!(names(&["--marks", name]), [*name], "a filter accepts each name");
    }
    let shown = stdout(&["report", &head, "--format", "csv"], 0);
    let labels: Vec<&str> = shown.lines().skip(1).filter_map(|row| row.rsplit(',').next()).collect();
    let unchanged = |name: &&str| !["warm", "gone::new"].contains(name);
    assert!(labels.into_iter().filter(unchanged).eq(expected.into_iter().filter(unchanged)), "{shown}");
}

fn small_means_are_shown() {
    let folder = Folder::new("cli-small-means");
    let run = |name: &str, events: usize| {
        let calls = [vec![1; events], vec![0; 1_000 - events]].concat();
        folder.report(name, &snapshot(vec![mark("parse", vec![values("instructions", &calls)])]))
    };
    let (base, head) = (run("base.json", 1), run("head.json", 4));
    assert_contains(&stdout(&["diff", &base, &head], 0), &["instructions (mean) 0.0010 0.0040 +300.0 % +0.0030"]);
    assert_contains(&stdout(&["diff", &base, &base], 0), &["instructions (mean) 0.0010 0.0010 = ="]);
}

fn values_within_noise_are_flagged() {
    let folder = Folder::new("cli-noise");
    let run = |name: &str, time: u64| {
        let mut short = values("time", &[time; 100]);
        short.overhead.noise = 9;
        folder.report(name, &snapshot(vec![mark("short", vec![short])]))
    };
    let (base, head) = (run("base.json", 9), run("head.json", 10));
    let table = stdout(&["diff", &base, &head], 0);
    let note = "~ before a value: no larger than the variation of the probe overhead";
    assert_contains(&table, &["per call base head change no change found:", "(p50) ~9 ns 10 ns ~ +11.1 %", note]);
    let markdown = stdout(&["diff", "--format", "markdown", &base, &head], 0);
    let heads = "| mark | per call | base | head | change | |---|---|--:|--:|--:|";
    assert_contains(&markdown, &[heads, "| \\~9 ns | 10 ns |"]);
    assert!(!stdout(&["diff", &head, &head], 0).contains(note));
}

fn types_of_one_name_are_compared_with_themselves_only() {
    let folder = Folder::new("cli-types-of-one-name");
    let run = |name: &str, works: &[(u32, u64)]| {
        let mut run = report(&[("parse", 1_000)]);
        run.marks[0].type_hash = works[0].0;
        run.marks.extend(works.iter().map(|&(type_hash, each)| {
            let mut work = mark("work<{closure}>", vec![values("instructions", &[each; 100])]);
            work.type_hash = type_hash;
            work
        }));
        folder.report(name, &run)
    };
    let base = run("base.json", &[(1, 1_000), (2, 5_000)]);
    let same = run("same.json", &[(1, 1_000), (2, 5_500)]);
    let table = stdout(&["diff", &base, &same], 0);
    assert_contains(&table, &["1 of 3 marks changed", "5,000 5,500 +10.0 %"]);
    assert!(!table.contains("another build"), "{table}");
    // The hashes of another build have another order.
    let other = run("other.json", &[(3, 5_000), (4, 1_000)]);
    let table = stdout(&["diff", &base, &other, "--fail-on", "instructions:1%"], 0);
    assert_contains(
        &table,
        &[
            "0 of 1 mark changed, 2 only in base, 2 only in head",
            "not compared: app::work<{closure}>: types of one name cannot be identified in another build",
        ],
    );
}

fn marks_of_one_name_are_compared_only_if_as_many() {
    let folder = Folder::new("cli-marks-of-one-name");
    let run = |name: &str, sorts: &[(u32, u64)]| {
        let mut run = report(&[("parse", 1_000)]);
        run.marks.extend(sorts.iter().map(|&(line, each)| {
            let mut sort = mark("sort", vec![values("instructions", &[each; 100])]);
            sort.line = line;
            sort
        }));
        folder.report(name, &run)
    };
    let base = run("base.json", &[(10, 1_000), (20, 5_000)]);
    // A line that was added above both.
    let moved = run("moved.json", &[(11, 1_000), (21, 5_500)]);
    let table = stdout(&["diff", &base, &moved], 0);
    assert_contains(&table, &["1 of 3 marks changed", "5,000 5,500 +10.0 %"]);
    assert!(!table.contains("not compared"), "{table}");
    let without_first = run("without.json", &[(19, 5_000)]);
    let table = stdout(&["diff", &base, &without_first, "--fail-on", "instructions:1%"], 0);
    let note = "not compared: app::sort: base and head have different numbers of marks of this name";
    assert_contains(&table, &["0 of 1 mark changed, 2 only in base, 1 only in head", note]);
    let without_any = run("without-any.json", &[]);
    let table = stdout(&["diff", &base, &without_any], 0);
    assert_contains(&table, &["0 of 1 mark changed, 2 only in base"]);
    assert!(!table.contains("not compared"), "{table}");
    let table = stdout(&["diff", &base, &without_first, "--marks", "parse"], 0);
    assert!(!table.contains("not compared"), "{table}");
}

fn report_and_diff_have_the_same_quantile() {
    let folder = Folder::new("cli-quantile");
    let calls: Vec<u64> = (0..1001).map(|n: u64| 1_000 + n * n % 70_000).collect();
    let mut one = snapshot(vec![mark("parse", vec![values("time", &calls)])]);
    // Buckets as in a histogram: a quantile is the middle of one.
    let buckets = &mut one.marks[0].values[0].buckets;
    *buckets = buckets
        .chunks(7)
        .map(|part| (part[0].low, part[part.len() - 1].high, part.iter().map(|bucket| bucket.calls).sum()).into())
        .collect();
    let median = one.marks[0].values[0].quantile(0.5);
    one.marks[0].values[0].p50 = median;
    let file = folder.report("a.json", &one);
    let printed = document(&["report", "--format", "json", &file], 0);
    let compared = document(&["diff", "--format", "json", &file, &file], 0);
    let (shown, event) = (&printed["marks"][0]["values"]["time"]["p50"], &compared["marks"][0]["events"][0]);
    assert_eq!(shown.as_u64(), median);
    assert_eq!((event["statistic"].as_str(), event["base"].as_f64()), (Some("p50"), shown.as_f64()));
}

fn values_of_an_emulator_are_not_compared_with_others() {
    let folder = Folder::new("cli-emulator");
    let counts = vec![values("instructions", &[1_000; 20]), values("time", &[1_000; 20])];
    let mut report = snapshot(vec![mark("parse", counts)]);
    let base = folder.report("base", &report);
    for event in &mut report.events {
        (event.read, event.reason) = (Read::Emulated, Some("counted by QEMU 7.2.22".into()));
    }
    let head = folder.report("head", &report);
    for event in ["instructions", "time"] {
        let gate = format!("{event}:5%");
        let printed = stdout(&["diff", &base, &head, "--allow-few-runs", "--fail-on", &gate], 1);
        let why =
            format!("parse: {event} cannot be judged (gate {gate}): not compared: only one of base and head is of");
        assert_contains(&printed, &[&why]);
        stdout(&["diff", &head, &head, "--allow-few-runs", "--fail-on", &gate], 0);
    }
}

fn marks_never_called_are_listed_briefly() {
    let folder = Folder::new("cli-never-called");
    let mut many = report(&[("parse", 1000)]);
    many.marks.extend((10..31).map(|n| mark(&format!("never_{n}"), Vec::new())));
    let file = folder.report("many.json", &many);
    let printed = stdout(&["diff", &file, &file], 0);
    assert_contains(&printed, &["never called: never_10, never_11", "never_29, and 1 more"]);
    assert!(!printed.contains("never_30"), "{printed}");
}

fn a_mark_that_is_off_is_named() {
    let folder = Folder::new("cli-off");
    let mut off = report(&[("parse", 1000), ("lex", 10)]);
    (off.marks[1].on, off.marks[1].calls) = (false, 0);
    off.marks[1].values.clear();
    let (off, on) =
        (folder.report("off.json", &off), folder.report("on.json", &report(&[("parse", 1000), ("lex", 10)])));
    assert_contains(&stdout(&["diff", &off, &on], 0), &["called in head, turned off in base by the filter: lex"]);
    assert_contains(&stdout(&["diff", &on, &off], 0), &["called in base, turned off in head by the filter: lex"]);
    assert_contains(&stdout(&["diff", "--format", "json", &off, &on], 0), &["\"off in base\""]);
    // Whether it was called is not known.
    let printed = stdout(&["diff", &off, &off], 0);
    assert!(printed.contains("\nturned off by the filter: lex\n") && !printed.contains("never called"), "{printed}");
    assert_contains(&stdout(&["diff", "--format", "json", &off, &off], 0), &["\"off\""]);
}

fn what_cannot_be_compared_is_reported() {
    let folder = Folder::new("cli-printed");
    let base = {
        let mut base =
            report(&[("gone", 10), ("fell silent", 10), ("covered", 10), ("unmeasured", 10), ("sampled", 10)]);
        base.marks.extend(report(&[("limited", 10), ("filtered", 10)]).marks);
        let timed = ["limited in time", "within", "around", "one in 8"];
        base.marks.extend(timed.map(|name| mark(name, vec![values("time", &[10; 100])])));
        let one_in_8 = base.marks.last_mut().expect("one");
        (one_in_8.calls, one_in_8.every, one_in_8.skipped) = (800, 8, 700);
        base.notes.push("the counter \u{1b}[31mlies".into());
        base
    };
    let head = {
        let mut head = report(&[("came", 10), ("covered", 10), ("unmeasured", 10), ("sampled", 10)]);
        head.marks.extend(report(&[("limited", 10), ("filtered", 10)]).marks);
        head.marks.extend(base.marks.iter().filter(|mark| mark.values[0].event == "time").cloned());
        head.marks.push(mark("fell silent", vec![]));
        head.program = "another".into();
        head.events[0].read = Read::Syscall;
        for mark in &mut head.marks {
            match &*mark.name {
                "covered" => (mark.values[0].unmeasured, mark.values[0].scaled) = (25, 10),
                "unmeasured" => {
                    mark.values[0] = values("instructions", &[]);
                    mark.values[0].unmeasured = 100;
                }
                "sampled" => (mark.calls, mark.every, mark.skipped) = (6400, 64, 6300),
                "limited" | "limited in time" => {
                    (mark.calls, mark.budget_percent, mark.skipped) = (5400, Some(2.0), 5300);
                }
                // No call of it was skipped, nor one inside.
                "within" => mark.budget_percent = Some(2.0),
                "around" => (mark.budget_percent, mark.values[0].estimated) = (Some(2.0), 1),
                "filtered" => (mark.calls, mark.skipped) = (4400, 4300),
                _ => {}
            }
        }
        head
    };
    let (base, head) = (folder.report("base", &base), folder.report("head", &head));
    let printed = stdout(&["diff", &base, &head, "--fail-on", "instructions:5%"], 1);
    assert!(!printed.contains("within)"), "{printed}");
    assert_contains(
        &printed,
        &[
            "within time (p50) 10 ns 10 ns =",
            "only in base: gone",
            "only in head: came",
            "called in base, not in head: fell silent",
            "instructions: head: 20.0 % of the calls were not counted (covered)",
            "instructions: head: 10.0 % of the calls were counted in part, and scaled (covered)",
            "✗ unmeasured: instructions cannot be judged (gate instructions:5%): not measured in head: \
             no call was counted",
            "different numbers of calls: sampled (base 100, head 6,400), limited (base 100, head 5,400), filtered",
            "measured calls: sampled (base 100 of 100, head 100 of 6,400), limited",
            "one in 8 (base 100 of 800, head 100 of 800)",
            "instructions: base measured all calls, head one call in 64 (`every`); \
             differences may come from that (sampled)",
            "instructions: base measured all calls, head calls within a budget of 2 %; \
             differences may come from that (limited)",
            "base measured all calls, head calls that a filter did not skip; \
             differences may come from that (filtered)",
            "time: not compared: base measured all calls, head calls within a budget of 2 %; record both with the same \
             settings, or set `PERFMARK_FILTER='*=every:1'` for both (limited in time, around)",
            "time: base and head measured one call in 8 (`every`) (one in 8)",
            "read by user in base, by syscall in head",
            "base is of program app, head of another",
            "base: the counter \u{fffd}[31mlies",
        ],
    );
}

/// Calls that a panic or a drop ended are kept apart from the others.
fn calls_that_did_not_return_are_not_expected() {
    let folder = Folder::new("cli-unwound");
    let run = |name: &str, event: Option<&str>, unwound: u64, cancelled: u64| {
        let mut parse = mark("parse", event.map(|event| values(event, &[10; 100])).into_iter().collect());
        (parse.calls, parse.skipped) = (100 + 50 + unwound + cancelled, 50);
        (parse.unwound, parse.cancelled) = (unwound, cancelled);
        let mut run = snapshot(vec![parse]);
        run.events[0].read = if event.is_some() { Read::User } else { Read::None };
        folder.report(name, &run)
    };
    let (base, head) = (run("base", Some("instructions"), 7, 0), run("head", Some("instructions"), 30, 4));
    let printed = stdout(&["diff", &base, &head, "--fail-on", "coverage:100%"], 0);
    assert_contains(&printed, &["measured calls: parse (base 100 of 150, head 100 of 150)"]);
    // A function that always panics costs the same as itself.
    let mut none = report(&[("steady", 10)]);
    none.marks.push(mark("fails", vec![values("instructions", &[])]));
    (none.marks[1].calls, none.marks[1].unwound) = (40, 40);
    let none = folder.report("none", &none);
    let printed = stdout(&["diff", &none, &none, "--fail-on", "instructions:0%"], 0);
    let why = "gate instructions:0%: not judged: fails: a panic or a drop ended each call on a side";
    assert_contains(&printed, &[why, "not measured in head: no call returned (fails)"]);
    let lost = run("lost", None, 30, 4);
    let printed = stdout(&["diff", &base, &lost, "--fail-on", "coverage:1%"], 1);
    assert_contains(&printed, &["instructions in 0 of 100 calls"]);
}

fn marks_that_are_not_compared_are_not_without_a_change() {
    let folder = Folder::new("cli-not-compared");
    let mut run = report(&[("counted", 10)]);
    run.marks.extend(["lex", "parse"].map(|name| mark(name, vec![values("time", &[10; 100])])));
    let base = folder.report("base", &run);
    for timed in &mut run.marks[1..] {
        (timed.calls, timed.budget_percent, timed.skipped) = (5400, Some(2.0), 5300);
    }
    let head = folder.report("head", &run);
    let reason = "not compared: base measured all calls, head calls within a budget of 2 %; record both with the same \
                  settings, or set `PERFMARK_FILTER='*=every:1'` for both";
    let printed = stdout(&["diff", &base, &head], 0);
    assert_contains(
        &printed,
        &["0 of 1 mark changed, 2 not compared", "no change found: counted", &format!("time: {reason} (lex, parse)")],
    );
    assert!(!printed.contains('–'), "{printed}");
    let markdown = stdout(&["diff", &base, &head, "--format", "markdown"], 0);
    assert_contains(&markdown, &["0 of 1 mark changed, 2 not compared", "<summary>1 mark: no change found"]);
    let printed = stdout(&["diff", &base, &head, "--marks", "lex,parse"], 0);
    assert_contains(&printed, &["0 of 0 marks changed, 2 not compared"]);
    assert!(!printed.contains("no change found"), "{printed}");
    let gate = ["--fail-on", "time:5%", "--allow-few-runs"];
    let failed = format!("lex, parse: time cannot be judged (gate time:5%): {reason}");
    assert_contains(&stdout(&[&["diff", &base, &head], &gate[..]].concat(), 1), &[&format!("✗ {failed}")]);
    let output = answer(&[&["diff", &base, &head, "--format", "json"], &gate[..]].concat(), 1);
    assert_contains(text(&output.stderr), &[&format!("perfmark: {failed}")]);
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(document["gates"][0]["failures"][1]["mark"], "parse");
}

fn a_comparison_is_available_as_markdown_and_json() {
    let folder = Folder::new("cli-forms");
    let base = folder.report("base", &report(&[("parse", 100_000), ("<c>a|b", 50_000)]));
    let head = folder.report("head", &report(&[("parse", 110_000), ("<c>a|b", 50_000)]));
    let output = answer(&["diff", &base, &head, "--fail-on", "instructions:1%", "--format", "markdown"], 1);
    let markdown = text(&output.stdout);
    assert!(markdown.starts_with("❌ **perfmark**: 1 of 2 marks changed; 1 of 1 gate failed\n\n- parse: instructions"));
    assert_contains(
        markdown,
        &[
            "| parse | instructions (mean) | 100,000 | 110,000 | +10.0 % | +10,000 |",
            "<details><summary>1 mark: no change found</summary> | mark |",
            "| &lt;c&gt;a\\|b |",
        ],
    );
    assert_contains(text(&output.stderr), &["perfmark: parse: instructions per call rose by 10.0 %"]);
    let document = document(&["diff", &base, &head, "--fail-on", "instructions:1%", "--format", "json"], 1);
    assert_eq!(document["failed"], true);
    assert_eq!(document["gates"][0]["failures"][0]["mark"], "parse");
    assert_eq!(document["marks"][0]["mark"], "parse");
    assert_eq!(document["marks"][0]["events"][0]["verdict"], "more");
    assert_eq!(document["marks"][0]["events"][0]["change_percent"], 10.0);
}

/// A report of `mark_0` and so on, of which the first ones are dearer.
fn with_dearer(folder: &Folder, marks: usize, dearer: usize) -> String {
    let values = |at: usize| values("instructions", &[if at < dearer { 1_500 } else { 1_000 }; 100]);
    let marks = (0..marks).map(|at| mark(&format!("mark_{at}"), vec![values(at)]));
    folder.report(&format!("{dearer}-dearer"), &snapshot(marks.collect()))
}

fn marks_without_a_change_have_as_many_rows_as_a_report() {
    let folder = Folder::new("cli-top");
    let (base, head) = (with_dearer(&folder, 30, 0), with_dearer(&folder, 30, 2));
    for (format, row) in [("table", "mark_"), ("markdown", "| mark\\_")] {
        let check = |more: &[&str], rows: usize, left_out: &str| {
            let shown = stdout(&[&["diff", &base, &head, "--format", format], more].concat(), 0);
            assert_eq!(shown.lines().filter(|line| line.starts_with(row)).count(), rows, "{shown}");
            assert_contains(&shown, &["2 of 30 marks changed", "no change found", left_out]);
            assert_eq!(shown.contains(" shows all"), !left_out.is_empty(), "{shown}");
        };
        check(&[], 22, "and 8 more marks; `--top all` shows all");
        check(&["--top", "0"], 2, "and 28 more marks; `--top all` shows all");
        check(&["--top", "27"], 29, "and 1 more mark; `--top all` shows all");
        check(&["--top", "all"], 30, "");
    }
    let why = stderr(&["diff", &base, &head, "--format", "json", "--top", "5"], 2);
    assert_contains(&why, &["--top: the format json does not support it; these do: table, markdown"]);
    for (format, status) in [("json", 0), ("table", 2)] {
        let mut command = perfmark(&["diff", &base, &head, "--format", format]);
        assert_code(&command.env("PERFMARK_TOP", "abc").output().expect("started"), status);
    }
    // Marks of rows that are left out explain nothing.
    let none = stdout(&["diff", &base, &base, "--top", "0"], 0);
    assert!(!none.contains("finds"), "{none}");
}

fn fits_into_a_comment() {
    /// More than fit into a comment.
    const MARKS: usize = 2_000;
    let folder = Folder::new("cli-comment");
    let left_out = |more: usize| format!("… and {more} more that do not fit here; `--format json` has all.");
    let base = with_dearer(&folder, MARKS, 0);
    for dearer in [2, 300, MARKS] {
        let gate = ["--fail-on", "instructions:1%", "--format", "markdown", "--top", "all"];
        let text = stdout(&[&["diff", &base, &with_dearer(&folder, MARKS, dearer)], &gate[..]].concat(), 1);
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
