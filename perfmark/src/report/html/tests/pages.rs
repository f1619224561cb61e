//! Snapshots for tests in a browser: with few marks and with many, with and without a call graph, and invalid ones.
//!
//! Their values come from trees of calls, so that totals, self and distributions agree as in a real program.

use std::collections::BTreeMap;
use std::path::Path;

use super::sampled::{with_samples, write_sources};
use super::tree::{Tree, mark};
use crate::report::tests::sample::{self, event};
use crate::snapshot::{Event, Mark, Node, NodeValues, Overhead, Read, Snapshot, Unit, Values};

/// Names that a browser might interpret.
pub(super) const HOSTILE: [&str; 10] = [
    "<img src=x onerror=document.title='broken'>",
    "</script><script>document.title='broken'</script>",
    "<!--<script>",
    "</ScRiPt x>",
    "\u{2028}\u{2029}]]>",
    "&lt;b&gt;&amp;",
    "\"'`><svg onload=document.title='broken'>",
    "__proto__",
    "constructor",
    "{{words}}{{snapshot}}",
];

/// All snapshots, by file name.
pub(super) fn all() -> Vec<(&'static str, Snapshot)> {
    let without_graph = |snapshot: &Snapshot| Snapshot { call_graph: Vec::new(), ..snapshot.clone() };
    let (one, thirty, many) = (one(), thirty(), many(10_000, 20_000));
    let nasty = sample::nasty();
    vec![
        ("one-plain", without_graph(&one)),
        ("one", one),
        ("thirty-plain", without_graph(&thirty)),
        ("thirty", thirty),
        ("many-plain", without_graph(&many)),
        ("many", many),
        ("hostile", hostile()),
        ("large", large()),
        ("empty", sample::snapshot(&[], &[])),
        ("never", nasty[1].clone()),
        ("bare", nasty[2].clone()),
        ("typical", sample::typical()),
        ("time-only", sample::time_only()),
        ("unfinished", unfinished(&["time"])),
        ("unfinished-events", unfinished(&["time", "page-faults"])),
        ("unmeasured", unmeasured()),
        ("impossible", impossible()),
        ("nasty-counts", nasty[3].clone()),
        ("nasty-times", nasty[5].clone()),
        ("seeded", nasty[nasty.len() - 1].clone()),
    ]
}

/// Snapshots with samples, whose source files are written into a directory; those of 300 marks have none.
pub(super) fn sampled(folder: &Path) -> Vec<(&'static str, Snapshot)> {
    let written = |name: &str, snapshot: Snapshot, more: &[&str]| {
        let root = folder.join(name);
        write_sources(&snapshot, &root, more);
        with_samples(snapshot, &root)
    };
    let thirty = written("word-search", thirty(), &[]);
    let mut unnamed = Snapshot { call_graph: Vec::new(), ..thirty.clone() };
    unnamed.samples.truncate(1);
    for samples in &mut unnamed.samples {
        samples.set_names::<crate::Frame>(&BTreeMap::new());
    }
    let mut strange = hostile();
    for (mark, name) in strange.marks.iter_mut().zip(HOSTILE) {
        mark.path = name.to_owned();
        mark.file = "src/main.rs".to_owned();
    }
    vec![
        ("sampled-one", written("checksum", one(), &[])),
        ("sampled-300", with_samples(many(300, 600), Path::new("/home/user/engine"))),
        ("sampled-hostile", written("strange", strange, &HOSTILE)),
        ("sampled-unnamed", unnamed),
        ("sampled-thirty", thirty),
        ("sampled", sample::sampled()),
        ("sampled-probe", sample::sampled_in_probe()),
        ("sampled-wild", sample::nasty().pop().expect("samples without their marks")),
    ]
}

fn one() -> Snapshot {
    let mut tree = Tree::new(1);
    let root = tree.call(None, "checksum::crc32", 2_000_000.0, 412.0, 0.12);
    tree.nodes[root].ipc = 3.4;
    Snapshot { program: "checksum".to_owned(), threads: 1, wall_ns: 1_020_000_000, ..tree.snapshot(&[]) }
}

/// A word search. Each line is a mark under its caller, with its calls per call of the caller, its own nanoseconds,
/// their variation, and instructions per cycle.
const SEARCH: &str = "\
http::serve 48200 4200 0.5 1.1
 http::parse_request 1 1900 0.3 2.4
  http::Header::next 14 62 0.25 3.1
 auth::check 1 800 0.4 1.4
  auth::Session::lookup 0.98 340 0.6 0.7
  auth::verify_signature 0.02 92000 0.05 3.6
 router::dispatch 1 210 0.2 2.0
  api::search 0.7 3100 0.4 1.5
   query::parse 1 2200 0.5 2.2
    query::Lexer::next 9 48 0.2 3.0
    query::Expr::fold 1 190 0.4 2.1
     query::Expr::fold 1.6 150 0.4 2.1
      query::Expr::fold 0.8 120 0.4 2.1
   index::Index::plan 1 5400 0.8 1.2
   index::Index::scan 3.2 9000 0.9 0.9
    index::Postings::decode 40 310 0.3 2.9
     simd::unpack_block 1 118 0.08 3.9
    index::Postings::skip_to 12 95 0.9 0.5
   rank::score 180 140 0.3 1.9
    rank::bm25 1 64 0.1 2.8
    rank::Features::extract 0.25 410 0.7 0.8
   rank::TopK::push 180 22 0.35 2.6
   snippet::highlight 10 6100 0.6 1.6
    text::segment 3 880 0.5 1.8
  api::suggest 0.2 1500 0.4 1.6
   trie::Trie::walk 7 130 0.8 0.6
   rank::TopK::push 7 24 0.35 2.6
  api::store 0.1 9000 0.3 1.3
   query::parse 1 4000 0.5 2.2
   index::Index::insert 1 44000 0.5 1.0
    index::Postings::encode 22 260 0.3 2.7
   wal::append 1 8800 0.4 1.1
    wal::sync 0.125 2100000 0.6 0.4
 json::serialize 1 3400 0.4 2.3
  json::escape 26 41 0.4 3.3
background::compact 12 180000000 0.4 1.2
 index::Index::merge 4 30000000 0.3 1.5
  index::Postings::decode 9000 330 0.3 2.8
   simd::unpack_block 1 118 0.08 3.9
  index::Postings::encode 9000 270 0.3 2.7
";

fn thirty() -> Snapshot {
    let mut tree = Tree::new(30);
    let mut callers: Vec<usize> = Vec::new();
    for line in SEARCH.lines() {
        let depth = line.len() - line.trim_start().len();
        let mut words = line.split_whitespace();
        let name = words.next().expect("a name");
        let [calls, own, spread, ipc] =
            std::array::from_fn(|_| words.next().expect("four numbers").parse().expect("one"));
        callers.truncate(depth);
        let node = tree.call(callers.last().copied(), name, calls, own, spread);
        tree.nodes[node].ipc = ipc;
        callers.push(node);
    }
    let missing = Event {
        reason: Some("perf_event_open said ENOENT: this PMU has no such event".to_owned()),
        ..event("LLC-load-misses", Unit::Count, Read::None)
    };
    let mut snapshot = tree.snapshot(&[missing]);
    snapshot.events.insert(
        3,
        Event {
            reason: Some("a kernel event without a hardware counter".to_owned()),
            ..event("page-faults", Unit::Count, Read::Syscall)
        },
    );
    for mark in &mut snapshot.marks {
        match mark.name.as_str() {
            "push" => {
                mark.every = 64;
                mark.skipped = mark.calls - mark.calls / 64;
                for values in &mut mark.values {
                    values.extrapolated = true;
                }
                mark.values[2].overhead = Overhead { in_call: 12, total: 40, noise: 21 };
            }
            "scan" => {
                for values in &mut mark.values[..2] {
                    values.scaled = 1_204;
                    values.unmeasured = 312;
                }
            }
            "verify_signature" => mark.unwound = 3,
            "serve" => {
                mark.in_flight = 4;
                mark.polls = mark.calls * 3 + 17;
                mark.cancelled = 21;
            }
            "insert" => {
                mark.values.push(Values { event: "page-faults".to_owned(), ..sample::values("", 4_820, 19_200) });
            }
            _ => {}
        }
    }
    for (name, on) in [("admin::reindex", true), ("admin::shutdown", true), ("trace::span", false)] {
        snapshot.marks.push(Mark { on, ..mark(name) });
    }
    snapshot.notes.push("cycles: not counted on 2 threads: no file descriptors were left (EMFILE)".to_owned());
    Snapshot { program: "word-search".to_owned(), threads: 9, wall_ns: 48_310_000_000, ..snapshot }
}

/// Marks nested at random, with more nodes than marks.
fn many(marks: usize, more: usize) -> Snapshot {
    const MODULES: [&str; 20] = [
        "alloc", "audio", "cache", "codec", "crypto", "db", "draw", "fs", "gfx", "http", "input", "job", "layout",
        "math", "mesh", "net", "physics", "scene", "script", "text",
    ];
    const PARTS: [&str; 10] =
        ["buffer", "graph", "index", "pool", "queue", "reader", "store", "table", "tree", "writer"];
    const TYPES: [&str; 5] = ["Arena", "Batch<u32>", "Cursor", "Frame<'_>", "Slot"];
    const VERBS: [&str; 10] =
        ["apply", "clear", "decode", "encode", "find", "insert", "merge", "next", "push", "update"];
    let name = |index: usize| {
        let (verb, rest) = (VERBS[index % 10], index / 10);
        let (kind, rest) = (TYPES[rest % 5], rest / 5);
        let (part, module) = (PARTS[rest % 10], MODULES[rest / 10 % 20]);
        format!("{module}::{part}::{kind}::{verb}")
    };
    let mut tree = Tree::new(10_000);
    for at in 0..marks + more {
        let index =
            if at < marks { (at * 7_919) % marks } else { usize::try_from(tree.random.next()).unwrap_or(0) % marks };
        let near = tree.nodes.len().min(400);
        let caller = tree.nodes.len() - near + tree.random.below(near.max(1));
        let caller = if at < 6 { None } else { Some(if tree.nodes[caller].depth > 40 { at % 6 } else { caller }) };
        let (calls, own) = (0.2 + 1.6 * tree.random.part(), (3.0 + 9.0 * tree.random.part()).exp());
        let (calls, spread) = (if caller.is_none() { 4_000.0 * calls } else { calls }, 0.1 + tree.random.part());
        let node = tree.call(caller, &name(index), calls, own, spread);
        tree.nodes[node].ipc = 0.3 + 3.0 * tree.random.part();
    }
    Snapshot { program: "engine".to_owned(), threads: 24, wall_ns: 905_000_000_000, ..tree.snapshot(&[]) }
}

fn hostile() -> Snapshot {
    let mut tree = Tree::new(7);
    let mut caller = None;
    for name in HOSTILE {
        caller = Some(tree.call(caller, name, 3.0, 1_000.0, 0.3));
    }
    let mut snapshot = tree.snapshot(&[]);
    for event in HOSTILE {
        snapshot.events.push(sample::event(event, Unit::Count, Read::User));
        snapshot.marks[0].values.push(sample::values(event, 3, 300));
    }
    for mark in &mut snapshot.marks {
        mark.file = HOSTILE[0].to_owned();
    }
    Snapshot { program: HOSTILE[1].to_owned(), notes: HOSTILE.map(str::to_owned).into(), ..snapshot }
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
    Snapshot { wall_ns: 100_000_000, threads: 1, ..snapshot }
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
            values.buckets = vec![(700, 700, 900)];
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
        buckets: vec![(value - 1, value, 9_007_199_254_740_993)],
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
