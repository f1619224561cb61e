//! Samples: naming them, and the formats of other tools.

use std::fs;

use perfmark::{Frame, Module, NamedAddress, SampledAddress, SampledPath, Samples, Snapshot};
use serde_json::Value;

use super::command::{answer, assert_contains, stderr, stdout};
use super::program::text;
use super::sample::{Folder, report};

pub(super) const TESTS: &[(&str, fn())] = &[
    ("samples_are_written_as_folded_stacks", samples_are_folded_stacks),
    ("samples_are_written_for_the_firefox_profiler", samples_are_written_for_firefox),
    ("samples_are_written_for_pprof", samples_are_written_for_pprof),
    ("a_report_without_samples_has_no_such_format", a_report_without_samples),
    ("symbols_that_are_missing_are_reported_with_the_reason", missing_symbols_are_reported),
];

/// `run` calls `parse`. Samples are in both, and outside of them.
fn sampled() -> Snapshot {
    let mut snapshot = report(&[("parse", 1_000), ("run", 2_000)]);
    let frame = |function: &str, line| {
        let mut frame = Frame::default();
        (frame.function, frame.file, frame.line) = (function.into(), Some("src/main.rs".into()), Some(line));
        frame
    };
    let module = |path: &str, id: Option<&str>| {
        let mut module = Module::default();
        (module.path, module.build_id) = (path.into(), id.map(str::to_owned));
        module
    };
    let path = |marks: &[usize], addresses: &[(usize, u64, u64)]| {
        let mut path = SampledPath::default();
        path.marks = marks.to_vec();
        for &(module, address, samples) in addresses {
            let mut one = SampledAddress::default();
            (one.module, one.address, one.samples) = (module, address, samples);
            path.addresses.push(one);
            path.samples += samples;
        }
        path
    };
    let named = |address, frames: &[usize]| {
        let mut named = NamedAddress::default();
        (named.address, named.frames) = (address, frames.to_vec());
        named
    };
    let mut samples = Samples::default();
    (samples.event, samples.frequency) = ("cpu-clock".into(), Some(100));
    samples.modules = vec![module("/no/such/app", Some("6c01ab")), module("/no/such/libc.so.6", None)];
    samples.frames = vec![frame("app::parse", 7), frame("core::str::find; x", 99), frame("main", 1)];
    samples.named = vec![named(16, &[1, 0]), named(32, &[0]), named(48, &[2])];
    samples.paths =
        vec![path(&[], &[(0, 48, 3)]), path(&[1], &[(1, 0x1c0, 2)]), path(&[1, 0], &[(0, 16, 5), (0, 32, 4)])];
    snapshot.samples = Some(samples);
    snapshot
}

fn samples_are_folded_stacks() {
    let folder = Folder::new("cli-folded-samples");
    let file = folder.report("a.json", &sampled());
    let stacks = stdout(&["report", "--format", "folded-samples", &file], 0);
    let expected = "outside_marks;main 3\nrun;libc.so.6+0x1c0 2\nrun;parse 4\nrun;parse;core::str::find,_x 5\n";
    assert_eq!(stacks, expected);
    let only = stdout(&["report", "--format", "folded-samples", "--marks", "parse", &file], 0);
    assert_eq!(only, "outside_marks;main 3\nparse 4\nparse;core::str::find,_x 5\n");
}

fn samples_are_written_for_firefox() {
    let folder = Folder::new("cli-firefox");
    let file = folder.report("a.json", &sampled());
    let profile: Value = serde_json::from_str(&stdout(&["report", "--format", "firefox", &file], 0)).expect("JSON");
    assert!(profile["meta"]["preprocessedProfileVersion"].as_u64().is_some_and(|version| version >= 50));
    let thread = &profile["threads"][0];
    let weights: Vec<u64> =
        thread["samples"]["weight"].as_array().expect("a list").iter().filter_map(Value::as_u64).collect();
    assert_eq!(weights, [3, 2, 5, 4]);
    let all = profile.to_string();
    for label in ["outside marks", "libc.so.6+0x1c0", "core::str::find; x (src/main.rs:99)", "src/main.rs:7", "run"] {
        assert!(all.contains(label), "{label}");
    }
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
    for text in ["cpu", "nanoseconds", "6c01ab", "core::str::find; x", "run;parse", "outside marks"] {
        let text = [&[0x32, u8::try_from(text.len()).expect("short")], text.as_bytes()].concat();
        assert!(profile.windows(text.len()).any(|part| part == text), "{text:?}");
    }
}

fn a_report_without_samples() {
    let folder = Folder::new("cli-unsampled");
    let file = folder.report("a.json", &report(&[("parse", 1_000)]));
    for format in ["folded-samples", "firefox", "pprof"] {
        assert_contains(&stderr(&["report", "--format", format, &file], 2), &["the report has no samples"]);
    }
    let output = answer(&["report", "--symbols", &file], 0);
    assert_contains(text(&output.stderr), &["--symbols: the report has no samples; PERFMARK_SAMPLE=99 takes some"]);
}

fn missing_symbols_are_reported() {
    let folder = Folder::new("cli-no-symbols");
    let mut snapshot = sampled();
    snapshot.samples.as_mut().expect("samples").named.clear();
    let file = folder.report("a.json", &snapshot);
    let other = folder.file("app.debug", "not a program");
    let output = answer(&["report", &format!("--symbols={other}"), &file], 0);
    let why = ["/no/such/app (86 % of the samples): no symbols were found (build id 6c01ab): ", "not an ELF file"];
    assert_contains(text(&output.stderr), &why);
    assert_contains(text(&output.stdout), &["`perfmark report --symbols` names them"]);
    assert_contains(&stderr(&["report", "--symbols=/no/such", &file], 2), &["there is no such file or directory"]);
}
