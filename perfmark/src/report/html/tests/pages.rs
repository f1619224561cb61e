//! Snapshots for tests in a browser: with few marks and with many, with and without a call graph, and invalid ones.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::iter;
use std::path::PathBuf;

use super::super::*;
use super::HOSTILE;
use super::sample::{self, event};
use crate::report::view::View;
use crate::settings::Filter;
use crate::snapshot::{Node, NodeValues, Overhead, Read, Unit, Values};
use crate::text;

/// For `ci/check-html`, which opens the pages in a browser.
#[test]
#[ignore = "writes pages into the directory PERFMARK_PAGES, for ci/check-html"]
fn writes_pages() {
    let folder = PathBuf::from(std::env::var_os("PERFMARK_PAGES").expect("PERFMARK_PAGES"));
    let view = View { top: usize::MAX, details: Some(Filter::default()), ..View::new(130) };
    for (name, snapshot) in sampled() {
        std::fs::write(folder.join(format!("{name}.html")), render(&snapshot, &[], false)).expect("a file");
    }
    for (name, snapshot) in all() {
        std::fs::write(folder.join(format!("{name}.html")), render(&snapshot, &[], false)).expect("a file");
        let table = crate::report::table::render(&snapshot, &view);
        std::fs::write(folder.join(format!("{name}.txt")), table).expect("a file");
    }
    let runs = [("first", sample::typical()), ("second <run>\u{202e}", sample::time_only())];
    let mut both = runs[0].1.clone();
    both.merge(&runs[1].1);
    let runs = runs.map(|(name, run)| (name.to_owned(), Cow::Owned(run)));
    std::fs::write(folder.join("runs.html"), render(&both, &runs, false)).expect("a file");
    let values = (0..64).flat_map(|bit| [1_u64 << bit, (1 << bit) - 1, (1 << bit) + (1 << bit) / 3, u64::MAX >> bit]);
    let tens = (0..20).flat_map(|ten| [1, 2, 5, 995].map(|by| 10_u64.pow(ten).saturating_mul(by)));
    let mut cases = String::new();
    for value in values.chain(tens) {
        for (name, unit) in [("count", Unit::Count), ("ns", Unit::Ns)] {
            let (integer, real) = (quantity::integer(value, unit), quantity::real(value as f64 / 977.0, unit));
            let share = quantity::percent((value >> 1).cast_signed(), u128::from(u64::MAX) / 3);
            let exact = text::exact(value);
            _ = writeln!(cases, "{value}\t{name}\t{integer}\t{real}\t{share}\t{exact}");
        }
    }
    std::fs::write(folder.join("quantities.tsv"), cases).expect("a file");
    let alls = [0, 1, 2, 8, 40, 100, 318, 1_000, 9_999, 123_456_789];
    let parts =
        alls.into_iter().flat_map(|all| [0, 1, all / 8, all / 4, all / 3, all].map(|part| (part.min(all), all)));
    let shares = parts.map(|(part, all)| format!("{part}\t{all}\t{}\n", text::share_of_samples(part, all)));
    std::fs::write(folder.join("shares.tsv"), shares.collect::<String>()).expect("a file");
    let replaced = ('\0'..=char::MAX).filter(|&c| text::sanitize(&c.to_string()) != c.to_string());
    let replaced: Vec<u32> = replaced.map(u32::from).collect();
    std::fs::write(folder.join("replaced.json"), serde_json::to_string(&replaced).expect("JSON")).expect("a file");
}

/// All snapshots without samples, by file name.
fn all() -> Vec<(&'static str, Snapshot)> {
    let unsampled = |snapshot: Snapshot| Snapshot { samples: Vec::new(), sources: Vec::new(), ..snapshot };
    let without_graph = |snapshot: &Snapshot| Snapshot { call_graph: Vec::new(), ..snapshot.clone() };
    let [one, thirty, many] = [one(), word_search(), many(10_000)].map(unsampled);
    let nasty = sample::nasty();
    vec![
        ("one-plain", without_graph(&one)),
        ("one", one),
        ("thirty-plain", without_graph(&thirty)),
        ("thirty", thirty),
        ("many-plain", without_graph(&many)),
        ("many", many),
        ("hostile", unsampled(hostile())),
        ("large", large()),
        ("empty", sample::snapshot(&[], &[])),
        ("thinned", thinned()),
        ("flagged", flagged()),
        ("never", nasty[1].clone()),
        ("bare", nasty[2].clone()),
        ("typical", sample::typical()),
        ("time-only", sample::time_only()),
        ("unfinished", unfinished(&["time"])),
        ("unfinished-events", unfinished(&["time", "page-faults"])),
        ("unmeasured", unmeasured()),
        ("impossible", impossible()),
        ("grouped", grouped()),
        ("nasty-counts", nasty[3].clone()),
        ("nasty-times", nasty[5].clone()),
        ("seeded", nasty[nasty.len() - 1].clone()),
    ]
}

/// Snapshots with samples.
fn sampled() -> Vec<(&'static str, Snapshot)> {
    let thirty = word_search();
    let mut unnamed = Snapshot { call_graph: Vec::new(), ..thirty.clone() };
    unnamed.samples.truncate(1);
    for samples in &mut unnamed.samples {
        samples.set_names::<crate::Frame>(&BTreeMap::new());
    }
    vec![
        ("sampled-one", one()),
        ("sampled-300", many(300)),
        ("sampled-hostile", hostile()),
        ("sampled-unnamed", unnamed),
        ("sampled-thirty", thirty),
        ("sampled", sample::sampled()),
        ("sampled-probe", sample::sampled_in_probe()),
        ("sampled-wild", sample::nasty().pop().expect("samples without their marks")),
    ]
}

/// A report with a call graph, samples of two events, and source text. It is edited by hand if the report changes.
fn word_search() -> Snapshot {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../ci/html/word-search.json");
    serde_json::from_str(&std::fs::read_to_string(file).expect("it can be read")).expect("a report")
}

fn one() -> Snapshot {
    let mut snapshot = word_search();
    snapshot.retain(|mark| mark.name == "escape");
    snapshot
}

/// Copies of the word search, each with its own marks.
fn many(marks: usize) -> Snapshot {
    let one = word_search();
    let mut all = Snapshot { marks: Vec::new(), call_graph: Vec::new(), ..one.clone() };
    all.samples.iter_mut().for_each(|samples| samples.paths.retain(|path| path.marks.is_empty()));
    for copy in 0..marks.div_ceil(one.marks.len()) {
        let (first, root) = (all.marks.len(), all.call_graph.len());
        all.marks.extend(one.marks.iter().cloned().map(|mark| Mark {
            path: mark.path.replacen("app::", &format!("app::m{copy}::"), 1),
            file: mark.file.replacen("src/", &format!("src/m{copy}/"), 1),
            ..mark
        }));
        all.call_graph.extend(one.call_graph.iter().cloned().map(|node| Node {
            parent: node.parent.map(|parent| root + parent),
            mark: first + node.mark,
            ..node
        }));
        for (samples, of_one) in all.samples.iter_mut().zip(&one.samples) {
            let mut paths: Vec<_> = of_one.paths.iter().filter(|path| !path.marks.is_empty()).cloned().collect();
            paths.iter_mut().flat_map(|path| &mut path.marks).for_each(|mark| *mark += first);
            samples.paths.extend(paths);
        }
    }
    all
}

/// Marks that call each other, with such names.
fn hostile() -> Snapshot {
    let mut snapshot = word_search();
    for (mark, name) in snapshot.marks.iter_mut().zip(HOSTILE) {
        (mark.name, mark.path, mark.file) = (name.to_owned(), name.to_owned(), format!("{}\u{202e}", HOSTILE[0]));
    }
    for samples in &mut snapshot.samples {
        let threads = samples.paths.iter_mut().filter_map(|path| path.thread.as_mut());
        let modules = samples.modules.iter_mut().map(|module| &mut module.path);
        // Stacks are searched for marked functions by name.
        let callees = samples.frames.iter_mut().filter(|frame| !frame.function.contains("app::"));
        let callees = callees.flat_map(|frame| iter::once(&mut frame.function).chain(&mut frame.file));
        threads.chain(modules).chain(callees).for_each(|text| text.push('\u{202e}'));
    }
    for event in HOSTILE {
        snapshot.events.push(sample::event(event, Unit::Count, Read::User));
        snapshot.marks[0].values.push(sample::values(event, 3, 300));
    }
    Snapshot { program: format!("{}\u{202e}", HOSTILE[1]), notes: HOSTILE.map(str::to_owned).into(), ..snapshot }
}

/// A call graph with a mark of which one call in 64 was measured, and its caller.
fn thinned() -> Snapshot {
    let mut thinned = sample::with_graph();
    for values in &mut thinned.marks[0].values {
        (values.measured, values.extrapolated) = (values.weight / 64, true);
    }
    thinned.marks[1].values.iter_mut().for_each(|values| values.estimated = 1);
    thinned
}

/// A call graph with an estimate, and a sum that is not above the noise of its calls.
fn flagged() -> Snapshot {
    let mut call_graph = vec![
        sample::node(None, 0, 3_310_000_000, Some(1_420_000_000)),
        sample::node(Some(0), 1, 24_100, Some(24_100)),
        // Its calls were not measured in this event.
        Node { values: Vec::new(), ..sample::node(None, 2, 0, None) },
        sample::node(Some(2), 0, 1_000_000, Some(1_000_000)),
    ];
    call_graph[1].values[0].measured = 1_204;
    Snapshot { call_graph, ..sample::flagged() }
}

/// A mark that would be an estimate if a call of it had been measured, beside marks whose self is exact.
fn unmeasured() -> Snapshot {
    let returned = |own| Values { self_sum: Some(own), ..sample::values("time", 4, 40_000) };
    let marks = [
        ("skips", Values { extrapolated: true, ..sample::values("time", 0, 0) }),
        ("unwinds", Values { unwound_total: 20_000, unwound_self: 20_000, ..returned(40_000) }),
        ("cancels out", Values { unwound_self: 7_000, in_flight_self: -7_000, ..returned(30_000) }),
        ("has no cost", Values { unwound_self: 7_000, in_flight_self: -7_000, ..sample::values("time", 0, 0) }),
        ("returns", returned(10_000)),
    ];
    let marks = marks.map(|(name, values)| Mark { values: vec![values], ..sample::mark(name, 5) });
    sample::snapshot(&[event("time", Unit::Ns, Read::Ticks)], &marks)
}

/// A mark that measured all calls, beside estimates that are longer than the run.
fn impossible() -> Snapshot {
    let exact = sample::values("time", 8, 250_000_000);
    let estimate = Values { extrapolated: true, ..sample::values("time", 64_000, 1_000_000_000) };
    let marks = [("exact", 8, exact), ("estimated", 64_000, estimate)];
    let marks = marks.map(|(name, calls, values)| Mark { values: vec![values], ..sample::mark(name, calls) });
    let snapshot = sample::snapshot(&[event("time", Unit::Ns, Read::Ticks)], &marks);
    let node = |mark, sum| sample::node(None, mark, sum, Some(sum));
    let call_graph = vec![node(0, 250_000_000), node(1, 1_000_000_000)];
    Snapshot { wall_ns: 100_000_000, threads: 1, call_graph, ..snapshot }
}

/// Marks of which some measured another event than most, some nothing, and some were not called.
fn grouped() -> Snapshot {
    let of = |name: &str, calls: u64, event: &str, sum: u64| Mark {
        values: if sum > 0 { vec![sample::values(event, calls, sum)] } else { Vec::new() },
        ..sample::mark(name, calls)
    };
    let marks = [
        of("few faults", 900, "page-faults", 1_000),
        of("fast", 900, "time", 40_000),
        of("no event", 800, "time", 0),
        of("slow", 90, "time", 90_000),
        of("many faults", 90, "page-faults", 9_000),
        of("other", 90, "time", 70),
        of("never", 0, "time", 0),
        Mark { on: false, ..of("off", 0, "time", 0) },
    ];
    let events = [event("time", Unit::Ns, Read::Ticks), event("page-faults", Unit::Count, Read::Syscall)];
    sample::snapshot(&events, &marks)
}

/// Estimates, values within the noise, values below zero, and calls that a panic ended or that are in flight.
fn unfinished(recorded: &[&str]) -> Snapshot {
    let events = [event("time", Unit::Ns, Read::Ticks), event("page-faults", Unit::Count, Read::Syscall)];
    let of = |name: &str, calls: u64, change: fn(&mut Mark, &mut Values)| {
        let mut mark = sample::mark(name, calls);
        for event in recorded {
            let mut values = sample::values(event, calls, 700 * calls);
            change(&mut mark, &mut values);
            mark.values.push(values);
        }
        mark
    };
    let marks = [
        of("skips", 900, |mark, values| {
            (mark.every, mark.skipped) = (9, 800);
            (values.measured, values.weight, values.extrapolated) = (100, 900, true);
            values.buckets = vec![(700, 700, 900).into()];
        }),
        of("calls what skips", 40, |_, values| {
            (values.estimated, values.self_sum) = (40, Some(-20_000));
        }),
        of("small", 1_000, |_, values| {
            values.overhead = Overhead { in_call: 12, total: 40, noise: 15 };
            (values.total, values.self_sum) = (9_000, Some(-15_000));
            (values.min, values.p50, values.mean) = (Some(3), Some(15), Some(-9.5));
        }),
        of("below zero", 1_000, |_, values| {
            values.overhead = Overhead { in_call: 12, total: 40, noise: 15 };
            (values.total, values.self_sum) = (-16_000, Some(-15_001));
            values.mean = Some(-15.5);
        }),
        of("unwinds", 60, |mark, values| {
            (mark.unwound, mark.cancelled) = (15, 5);
            (values.unwound_total, values.unwound_self) = (52_000, -7);
        }),
        of("only unwinds", 0, |mark, values| {
            (mark.calls, mark.unwound, values.self_sum) = (3, 3, Some(0));
            (values.unwound_total, values.unwound_self) = (400_000, 400_000);
        }),
        of("is scaled", 8, |_, values| values.scaled = 3),
        of("goes on", 7, |mark, values| {
            mark.in_flight = 2;
            (values.in_flight_total, values.in_flight_self) = (123_456, 23_456);
        }),
    ];
    sample::snapshot(&events[..recorded.len()], &marks)
}

/// Values that no float can represent.
fn large() -> Snapshot {
    const MAX: u64 = u64::MAX;
    let events = [event("time", Unit::Ns, Read::Ticks), event("cycles", Unit::Count, Read::User)];
    let values = |event: &str, value: u64| Values {
        unmeasured: MAX - 2,
        max: Some(value),
        min: Some(value - 1),
        p50: Some(value),
        p90: Some(value),
        p99: Some(value),
        p999: Some(value),
        mean: Some(value as f64),
        buckets: vec![(value - 1, value, 9_007_199_254_740_993).into()],
        overhead: Overhead { in_call: value, total: value, noise: 0 },
        ..sample::values(event, 9_007_199_254_740_993, value)
    };
    let mut marks = [sample::mark("12345678901234567890", MAX), sample::mark("odd", 9_007_199_254_740_993)];
    marks[0].values = vec![values("time", MAX), values("cycles", MAX)];
    marks[1].values = vec![values("time", 9_007_199_254_740_993), values("cycles", 9_007_199_254_740_995)];
    marks[1].values[0].self_sum = Some(i64::MIN);
    let node = |parent, mark, sum: i64| Node {
        parent,
        mark,
        calls: MAX,
        values: vec![NodeValues { event: "time".to_owned(), measured: MAX, sum, self_sum: Some(sum / 3) }],
    };
    Snapshot {
        threads: MAX,
        wall_ns: MAX,
        notes: vec!["18446744073709551615, \"18446744073709551615\"".to_owned()],
        call_graph: vec![node(None, 0, i64::MAX), node(Some(0), 1, 9_007_199_254_740_993)],
        ..sample::snapshot(&events, &marks)
    }
}
