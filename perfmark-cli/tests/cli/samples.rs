//! Samples: naming them, and the formats of other tools.

use std::fs;

use perfmark::{Samples, Snapshot, SourceText, TimedThread};
use serde_json::Value;

use super::command::{answer, assert_contains, document, stderr, stdout};
use super::program::text;
use super::sample::{Folder, frame, location, module, path, report};

pub(super) const TESTS: &[(&str, fn())] = &[
    ("samples_are_written_as_folded_stacks", samples_are_folded_stacks),
    ("a_stack_that_does_not_reach_its_mark_has_only_the_executed_code", stacks_that_do_not_reach_their_mark),
    ("perfmarks_own_code_is_one_frame_of_a_stack", the_probe_is_one_frame),
    ("samples_are_written_for_the_firefox_profiler", samples_are_written_for_firefox),
    ("samples_with_times_are_a_timeline_for_firefox", samples_with_times_are_a_timeline),
    ("embedded_source_text_is_in_the_page", embedded_source_text_is_in_the_page),
    ("samples_are_written_for_pprof", samples_are_written_for_pprof),
    ("samples_of_several_events_are_kept_apart", several_events_are_kept_apart),
    ("a_report_without_samples_has_no_such_format", a_report_without_samples),
    ("symbols_that_are_missing_are_reported_with_the_reason", missing_symbols_are_reported),
];

/// `run` calls `parse`. Samples are in both, and outside of them.
fn sampled() -> Snapshot {
    let mut snapshot = report(&[("parse", 1_000), ("run", 2_000)]);
    let mut samples = Samples::default();
    (samples.event, samples.frequency) = ("cpu-clock".into(), Some(100));
    samples.modules = vec![module("/no/such/app", Some("6c01ab")), module("/no/such/libc.so.6", None)];
    let frame = |function, line| frame(function, "src/main.rs", line);
    samples.frames = vec![frame("app::parse", 7), frame("core::str::find; x", 99), frame("main", 1)];
    let [inlined, own, main, libc] = [0, 1, 2, 3];
    samples.locations =
        vec![location(0, 16, &[1, 0]), location(0, 32, &[0]), location(0, 48, &[2]), location(1, 0x1c0, &[])];
    samples.paths = vec![
        path(&[], &[(&[main], 2), (&[libc, main], 1)]),
        // The stack does not reach `run`.
        path(&[1], &[(&[libc, main], 2)]),
        // libc was called in line 7.
        path(&[1, 0], &[(&[inlined], 5), (&[own, main], 4), (&[libc, own, main], 1)]),
    ];
    samples.paths[0].thread = Some("worker-*".into());
    snapshot.samples = vec![samples];
    snapshot
}

fn samples_are_folded_stacks() {
    let folder = Folder::new("cli-folded-samples");
    let file = folder.report("a.json", &sampled());
    let stacks = stdout(&["report", "--format", "folded-samples", &file], 0);
    let outside = "outside_marks;thread_worker-*;main 2\noutside_marks;thread_worker-*;main;libc.so.6+0x1c0 1\n";
    let expected = "run;libc.so.6+0x1c0 2\nrun;parse 4\nrun;parse;core::str::find,_x 5\n\
                    run;parse;libc.so.6+0x1c0 1\n";
    assert_eq!(stacks, format!("{outside}{expected}"));
    let only = stdout(&["report", "--format", "folded-samples", "--marks", "parse", &file], 0);
    assert_eq!(only, format!("{outside}parse 4\nparse;core::str::find,_x 5\nparse;libc.so.6+0x1c0 1\n"));
    let mut hostile = sampled();
    hostile.samples[0].frames.iter_mut().for_each(|frame| frame.function = "\u{202e}turned\u{1b}[31m".into());
    let file = folder.report("hostile.json", &hostile);
    for format in ["folded-samples", "firefox", "pprof"] {
        let written = answer(&["report", "--format", format, &file], 0).stdout;
        let has = |text: &str| has_bytes(&written, text.as_bytes());
        assert!(!has("\u{202e}") && !has("\u{1b}") && has("turned"), "{format}");
    }
}

fn stacks_that_do_not_reach_their_mark() {
    let folder = Folder::new("cli-unnamed-samples");
    let mut snapshot = sampled();
    snapshot.samples[0].locations.iter_mut().for_each(|location| location.frames.clear());
    let file = folder.report("a.json", &snapshot);
    let expected = "outside_marks;thread_worker-*;app+0x30 2\n\
                    outside_marks;thread_worker-*;app+0x30;libc.so.6+0x1c0 1\n\
                    run;libc.so.6+0x1c0 2\nrun;parse;app+0x10 5\nrun;parse;app+0x20 4\nrun;parse;libc.so.6+0x1c0 1\n";
    assert_eq!(stdout(&["report", "--format", "folded-samples", &file], 0), expected);
}

fn the_probe_is_one_frame() {
    let folder = Folder::new("cli-probe-samples");
    let mut snapshot = sampled();
    snapshot.samples[0].frames.push(frame("perfmark::recording::begin", "/home/me/perfmark/src/recording.rs", 4));
    snapshot.samples[0].frames[1].file = Some("/rustc/59807616e1/library/core/src/str.rs".into());
    let glue = "core::ptr::drop_in_place<perfmark::private::Begun>";
    snapshot.samples[0].frames.push(frame(glue, "/rustc/59807616e1/library/core/src/ptr/mod.rs", 5));
    // In the standard library, called by perfmark, which is inlined in line 7 and elsewhere.
    snapshot.samples[0].locations[0].frames = vec![1, 3, 3, 4, 0];
    snapshot.samples[0].locations.push(location(0, 64, &[3, 2]));
    snapshot.samples[0].locations.push(location(0, 80, &[3]));
    snapshot.samples[0].paths[0] = path(&[], &[(&[4, 2], 3)]);
    // `main` is a function that `parse` called, and that called a mark.
    snapshot.samples[0].paths.push(path(&[0], &[(&[5, 2, 1], 7)]));
    let file = folder.report("a.json", &snapshot);
    let expected = "outside_marks;main;main;perfmark's_own_code_at_entry_and_exit 3\n\
                    parse;main;perfmark's_own_code_at_entry_and_exit 7\nrun;libc.so.6+0x1c0 2\n\
                    run;parse 4\nrun;parse;libc.so.6+0x1c0 1\n\
                    run;parse;perfmark's_own_code_at_entry_and_exit 5\n";
    assert_eq!(stdout(&["report", "--format", "folded-samples", &file], 0), expected);
    for format in ["firefox", "pprof"] {
        let written = answer(&["report", "--format", format, &file], 0).stdout;
        let has = |text: &str| has_bytes(&written, text.as_bytes());
        assert!(has("perfmark's own code at entry and exit") && !has("perfmark::recording"), "{format}");
    }
}

fn samples_are_written_for_firefox() {
    let folder = Folder::new("cli-firefox");
    let file = folder.report("a.json", &sampled());
    let output = answer(&["report", "--format", "firefox", &file], 0);
    assert_contains(text(&output.stderr), &["have no times", "PERFMARK_SAMPLE=99,timestamps records a timeline"]);
    let profile: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(profile["meta"]["preprocessedProfileVersion"].as_u64().is_some_and(|version| version >= 50));
    let thread = &profile["threads"][0];
    assert_eq!(thread["name"], "samples of cpu-clock, 100 a second");
    let weights: Vec<u64> =
        thread["samples"]["weight"].as_array().expect("a list").iter().filter_map(Value::as_u64).collect();
    assert_eq!(weights, [2, 1, 2, 5, 4, 1]);
    let intervals = |profile: &Value| {
        let second = profile["threads"][0]["samples"]["timeDeltas"][1].as_f64().expect("a time");
        (profile["meta"]["interval"].as_f64().expect("a time"), second)
    };
    // In milliseconds. The first one stands for two samples.
    assert_eq!(intervals(&profile), (10.0, 20.0));
    let mut by_period = sampled();
    (by_period.samples[0].frequency, by_period.samples[0].period) = (None, Some(5_000_000));
    let by_period = folder.report("b.json", &by_period);
    assert_eq!(intervals(&document(&["report", "--format", "firefox", &by_period], 0)), (5.0, 10.0));
    let all = profile.to_string();
    for label in ["outside marks", "libc.so.6+0x1c0", "core::str::find; x (src/main.rs:99)", "src/main.rs:7", "run"] {
        assert!(all.contains(label), "{label}");
    }
}

fn samples_with_times_are_a_timeline() {
    let folder = Folder::new("cli-timeline");
    let mut snapshot = sampled();
    let samples = &mut snapshot.samples[0];
    samples.timestamps = true;
    for (id, name) in [(7, Some("worker-1")), (8, None)] {
        let mut thread = TimedThread::default();
        (thread.id, thread.name) = (id, name.map(str::to_owned));
        samples.threads.push(thread);
    }
    // The stacks of one path are not in the order of their times.
    let ([worker, other], ms) = ([0, 1], 1_000_000);
    samples.paths[0].stacks[0].times = vec![(50 * ms, worker).into()];
    samples.paths[1].stacks[0].times = vec![(10 * ms, worker).into(), (90 * ms, worker).into()];
    samples.paths[2].stacks[0].times =
        vec![(30 * ms, worker).into(), (20 * ms, worker).into(), (25 * ms, other).into()];
    let file = folder.report("a.json", &snapshot);
    let output = answer(&["report", "--format", "firefox", &file], 0);
    let lacks =
        "9 of 15 samples of cpu-clock, 100 a second are not on the timeline: perfmark keeps the times of the first";
    assert_contains(text(&output.stderr), &[lacks]);
    let profile: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let [worker, other] = &profile["threads"].as_array().expect("a list")[..] else { panic!("{profile}") };
    assert_eq!([&worker["name"], &worker["tid"], &other["name"]], ["worker-1", "7", "thread"]);
    let times = |samples: &Value| {
        let deltas = samples["timeDeltas"].as_array().expect("a list").iter().filter_map(Value::as_f64);
        let sums = deltas.scan(0.0, |sum, delta| {
            *sum += delta;
            Some(*sum)
        });
        sums.collect::<Vec<_>>()
    };
    assert_eq!(times(&worker["samples"]), [10.0, 20.0, 30.0, 50.0, 90.0]);
    assert_eq!(times(&other["samples"]), [25.0]);
    let markers = |thread: &Value| {
        let markers = &thread["markers"];
        let of = |key: &str, n: usize| markers[key][n].as_f64().expect("a time");
        let name = |n: usize| {
            let at = usize::try_from(markers["name"][n].as_u64().expect("an index")).expect("few");
            let strings = if thread["stringArray"].is_array() {
                &thread["stringArray"]
            } else {
                &profile["shared"]["stringArray"]
            };
            (
                strings[at].as_str().expect("text").to_owned(),
                of("startTime", n),
                of("endTime", n),
                markers["data"][n]["samples"].as_f64().expect("a count"),
            )
        };
        (0..markers["name"].as_array().expect("a list").len()).map(name).collect::<Vec<_>>()
    };
    let marker = |name: &str, start, end, samples| (name.to_owned(), start, end, samples);
    let of_worker = [marker("parse", 20.0, 30.0, 2.0), marker("run", 10.0, 30.0, 3.0), marker("run", 90.0, 90.0, 1.0)];
    assert_eq!(markers(worker), of_worker, "{profile}");
    assert_eq!(markers(other).len(), 2);
}

fn embedded_source_text_is_in_the_page() {
    let folder = Folder::new("cli-embedded");
    let mut snapshot = sampled();
    let mut text = SourceText::default();
    (text.file, text.line, text.lines) = ("src/main.rs".into(), 7, vec!["    text.find(\"</script>\")".into()]);
    snapshot.sources = vec![text];
    let file = folder.report("a.json", &snapshot);
    let page = stdout(&["report", "--format", "html", &file], 0);
    assert_contains(&page, &[r#"{"file":"src/main.rs","line":7,"lines":[" text.find(\"\u003c/script>\")"]}"#]);
    assert_contains(&stdout(&["report", &file], 0), &["src/main.rs:7 text.find("]);
}

fn samples_are_written_for_pprof() {
    let folder = Folder::new("cli-pprof");
    let file = folder.report("a.json", &sampled());
    let to = folder.0.join("profile.pb");
    answer(&["report", "--format", "pprof", "-o", to.to_str().expect("UTF-8"), &file], 0);
    let profile = fs::read(to).expect("written");
    let in_stdout = answer(&["report", "--format", "pprof", &file], 0).stdout;
    assert_eq!(in_stdout, profile);
    // `go tool pprof` reads one in ci/check-formats.
    for text in ["samples", "cpu", "nanoseconds", "6c01ab", "core::str::find; x", "run;parse", "outside marks"] {
        assert!(has_text(&profile, text), "{text}");
    }
    assert!(has_text(&profile, "thread") && has_text(&profile, "worker-*"));
    assert!(!has_text(&profile, "app::parse"), "a mark's function has the mark's name");
}

/// Whether a profile for pprof has the text in its table of texts.
fn has_text(profile: &[u8], text: &str) -> bool {
    has_bytes(profile, &[&[0x32, u8::try_from(text.len()).expect("short")], text.as_bytes()].concat())
}

fn has_bytes(all: &[u8], some: &[u8]) -> bool {
    all.windows(some.len()).any(|part| part == some)
}

fn several_events_are_kept_apart() {
    let folder = Folder::new("cli-several-events");
    let mut snapshot = sampled();
    let mut faults = snapshot.samples[0].clone();
    (faults.event, faults.frequency, faults.period) = ("page-faults".into(), None, Some(7));
    faults.paths.pop();
    snapshot.samples.push(faults);
    let file = folder.report("a.json", &snapshot);
    let profile = answer(&["report", "--format", "pprof", &file], 0).stdout;
    for text in ["cpu-clock_samples", "cpu-clock", "page-faults_samples", "page-faults"] {
        assert!(has_text(&profile, text), "{text}");
    }
    let profile = document(&["report", "--format", "firefox", &file], 0);
    let threads = profile["threads"].as_array().expect("a list");
    let names: Vec<_> = threads.iter().filter_map(|thread| thread["name"].as_str()).collect();
    assert_eq!(names, ["samples of cpu-clock, 100 a second", "samples of page-faults, one in 7"]);

    let first = answer(&["report", "--format", "folded-samples", &file], 0);
    assert_eq!(text(&first.stdout).lines().count(), 6);
    let which = "the stacks are those of cpu-clock, 100 a second; the report has cpu-clock, 100 a second; page-faults, \
                 one in 7, which --event chooses";
    assert_contains(text(&first.stderr), &[which]);
    let faults = answer(&["report", "--format", "folded-samples", "--event", "faults", &file], 0);
    assert_eq!((text(&faults.stdout).lines().count(), text(&faults.stderr)), (3, ""));
    let only = answer(&["report", "--format", "pprof", "--event", "page-faults", &file], 0).stdout;
    assert!(has_text(&only, "samples") && !has_text(&only, "cpu-clock"));
    let unknown = stderr(&["report", "--format", "firefox", "--event", "cycles", &file], 2);
    assert_contains(&unknown, &["--event cycles: the report has samples of cpu-clock, 100 a second; page-faults"]);
}

fn a_report_without_samples() {
    let folder = Folder::new("cli-unsampled");
    let file = folder.report("a.json", &report(&[("parse", 1_000)]));
    for format in ["folded-samples", "firefox", "pprof"] {
        assert_contains(&stderr(&["report", "--format", format, &file], 2), &["the report has no samples"]);
    }
    let mut others = sampled();
    others.samples[0].paths.drain(..2);
    let others = folder.report("others.json", &others);
    let why = "the chosen marks have no samples; 10 samples are in other marks";
    assert_contains(&stderr(&["report", "--format", "pprof", "--marks", "run", &others], 2), &[why]);
    let output = answer(&["report", "--symbols", &file], 0);
    assert_contains(text(&output.stderr), &["--symbols: the report has no samples; PERFMARK_SAMPLE=99 takes some"]);
}

fn missing_symbols_are_reported() {
    let folder = Folder::new("cli-no-symbols");
    let mut snapshot = sampled();
    snapshot.samples[0].locations.iter_mut().for_each(|location| location.frames.clear());
    let file = folder.report("a.json", &snapshot);
    let other = folder.file("app.debug", "not a program");
    let output = answer(&["report", &format!("--symbols={other}"), &file], 0);
    let why = "/no/such/app (100 % of the samples): no symbols were found (build id 6c01ab): ";
    let why = [why, "not an ELF file", "; the file does not exist here"];
    assert_contains(text(&output.stderr), &why);
    assert_contains(text(&output.stdout), &["They are addresses without lines"]);
    assert_contains(&stderr(&["report", "--symbols=/no/such", &file], 2), &["there is no such file or directory"]);
}
