//! Snapshots for the tests.

use std::collections::BTreeMap;

use crate::snapshot::samples::PathKey;
use crate::snapshot::{
    Bucket, Event, Frame, Mark, Module, Node, NodeValues, Overhead, Read, Samples, Snapshot, Unit, Values,
};

pub(in crate::report) fn event(name: &str, unit: Unit, read: Read) -> Event {
    Event { name: name.to_owned(), unit, read, reason: None }
}

pub(in crate::report) fn mark(name: &str, calls: u64) -> Mark {
    Mark {
        name: name.to_owned(),
        path: format!("wordcount::{name}"),
        file: "src/main.rs".to_owned(),
        line: 7,
        on: true,
        calls,
        every: 1,
        ..Mark::default()
    }
}

/// Calls of about the same cost, without marked calls inside.
pub(in crate::report) fn values(event: &str, measured: u64, sum: u64) -> Values {
    let mean = sum / measured.max(1);
    let percent = |percent: u64| match measured {
        0 => None,
        1 => Some(sum),
        _ => u64::try_from(u128::from(mean) * u128::from(percent) / 100).ok(),
    };
    let signed = i64::try_from(sum).unwrap_or(i64::MAX);
    Values {
        measured,
        weight: measured,
        sum: signed,
        total: signed,
        self_sum: (measured > 0).then_some(signed),
        min: percent(50),
        max: percent(4_000),
        mean: (measured > 0).then(|| sum as f64 / measured as f64),
        p50: percent(90),
        p90: percent(120),
        p99: percent(200),
        p999: percent(900),
        buckets: vec![(7_000, 7_039, 5).into(), (9_000, 9_063, 1).into()],
        event: event.to_owned(),
        ..Values::default()
    }
}

pub(in crate::report) fn snapshot(events: &[Event], marks: &[Mark]) -> Snapshot {
    Snapshot {
        perfmark: "0.1.0".to_owned(),
        program: "wordcount".to_owned(),
        pid: 4242,
        threads: 4,
        wall_ns: 2_314_000_000,
        events: events.to_vec(),
        marks: marks.to_vec(),
        ..Snapshot::default()
    }
}

fn nested(values: Values, self_sum: i64) -> Values {
    Values { self_sum: Some(self_sum), ..values }
}

/// A program with three marks that were called, one inside another, and two that were not.
pub(in crate::report) fn typical() -> Snapshot {
    let mut events = [
        event("cycles", Unit::Count, Read::User),
        event("instructions", Unit::Count, Read::User),
        event("time", Unit::Ns, Read::Ticks),
        event("page-faults", Unit::Count, Read::Syscall),
        event("cache-misses", Unit::Count, Read::None),
    ];
    events[3].reason = Some("a kernel event without a hardware counter".to_owned());
    events[4].reason = Some("perf_event_open said ENOENT: this PMU has no such event".to_owned());

    let mut parse = mark("parse_line", 4_210_000);
    parse.values = vec![
        values("cycles", 4_210_000, 12_400_000_000),
        values("instructions", 4_210_000, 30_900_000_000),
        values("time", 4_210_000, 3_104_000_000),
    ];
    let mut run = mark("run", 1);
    run.values = vec![
        nested(values("cycles", 1, 18_100_000_000), 5_200_000_000),
        nested(values("instructions", 1, 41_000_000_000), 9_600_000_000),
        nested(values("time", 1, 4_530_000_000), 1_304_000_000),
        values("page-faults", 1, 3_204),
        values("cache-misses", 0, 0),
    ];
    let mut next = mark("next", 1_204);
    next.path = "wordcount::lexer::next".to_owned();
    next.unwound = 2;
    next.values = vec![
        Values { unmeasured: 12, scaled: 30, ..values("cycles", 1_190, 500_000_000) },
        Values { unmeasured: 12, scaled: 30, ..values("instructions", 1_190, 500_400_000) },
        values("time", 1_202, 122_000_000),
    ];
    for mark in [&mut parse, &mut run, &mut next] {
        mark.values.sort_by_key(|values| values.event != "time");
    }
    let mut other = mark("next", 0);
    other.path = "wordcount::Parser::next".to_owned();
    snapshot(&events, &[parse, run, next, other, mark("usage", 0)])
}

/// Names of every length and script, and values that are flagged or missing.
pub(in crate::report) fn flagged() -> Snapshot {
    let mut events = [
        event("cycles", Unit::Count, Read::User),
        event("branches", Unit::Count, Read::User),
        event("branch-misses", Unit::Count, Read::User),
        event("time", Unit::Ns, Read::Ticks),
        event("page-faults", Unit::Count, Read::None),
    ];
    events[4].reason = Some("perf_event_open said EACCES: kernel.perf_event_paranoid is 4".to_owned());
    let hump = |low: u64, calls| Bucket::from((low, low + low / 32, calls));
    let humps = |low: u64| (0..12).map(|at| hump(low << at, [90, 400, 20, 3][at % 4])).collect();
    let mut find = mark(
        "<alloc::collections::btree::map::BTreeMap<alloc::string::String, store::Größe> as store::Lookup>::find",
        52_100,
    );
    find.path = format!("wörterbuch::{}", find.name);
    find.file = "crates/store/src/lookup/größe/btree.rs".to_owned();
    find.line = 1_207;
    find.every = 64;
    find.skipped = 51_286;
    // As if skipped calls cost the same as the others.
    let estimated = |values: Values, total: i64, own: i64| Values {
        extrapolated: true,
        weight: 64 * values.measured,
        total,
        ..nested(values, own)
    };
    find.values = vec![
        estimated(values("cycles", 814, 151_600_000), 9_700_000_000, 4_100_000_000),
        estimated(values("branches", 814, 22_700_000), 1_450_000_000, 610_000_000),
        estimated(values("branch-misses", 814, 333_000), 21_300_000, 9_300_000),
        estimated(values("time", 814, 51_700_000), 3_310_000_000, 1_420_000_000),
    ];
    let mut next = mark("次の要素", 1_204);
    next.path = "wörterbuch::解析器::次の要素".to_owned();
    next.file = "src/解析器.rs".to_owned();
    next.values = vec![
        Values { unmeasured: 12, ..values("cycles", 1_192, 66_000) },
        Values {
            overhead: Overhead { in_call: 51, total: 222, noise: 60 },
            max: Some(91),
            ..values("time", 1_204, 24_100)
        },
        Values { unmeasured: 1_204, ..values("branches", 0, 0) },
    ];
    let mut empty = mark("e\u{301}tat", 7);
    empty.values = vec![values("page-faults", 0, 0)];
    for (index, values) in
        find.values.iter_mut().chain(&mut next.values).enumerate().filter(|(_, values)| values.measured > 0)
    {
        values.buckets = humps(values.min.unwrap_or(0) + index as u64);
    }
    Snapshot { program: "wörterbuch".to_owned(), ..snapshot(&events, &[find, next, empty]) }
}

/// A mark's calls under a caller, of one event.
pub(in crate::report) fn node(parent: Option<usize>, mark: usize, sum: i64, self_sum: Option<i64>) -> Node {
    let values = NodeValues { event: "time".to_owned(), measured: 1, sum, self_sum };
    Node { parent, mark, calls: 1, values: vec![values] }
}

/// The same program with a call graph: `run` calls `parse_line`, which calls `lexer::next`.
pub(in crate::report) fn with_graph() -> Snapshot {
    let call_graph = vec![
        node(None, 1, 4_530_000_000, Some(1_304_000_000)),
        node(Some(0), 0, 3_226_000_000, Some(3_104_000_000)),
        node(Some(1), 2, 122_000_000, None),
    ];
    Snapshot { call_graph, ..typical() }
}

/// The same program, sampled: `parse_line` has three lines, one of them in a function that it calls, and an address
/// without a name. Outside of marks, `Words::read` has samples in libc and in two of its own lines.
pub(in crate::report) fn sampled() -> Snapshot {
    let frame = |function: &str, file: &str, line| Frame {
        function: function.to_owned(),
        file: Some(file.to_owned()),
        line: Some(line),
    };
    let frames = [
        frame("wordcount::parse_line", "/home/user/wordcount/src/main.rs", 12),
        frame("core::str::<impl str>::find", "/rustc/1f2/library/core/src/str/mod.rs", 1_402),
        frame("wordcount::parse_line", "/home/user/wordcount/src/main.rs", 14),
        frame("<alloc::string::String as core::clone::Clone>::clone", "/rustc/1f2/library/alloc/src/string.rs", 2_203),
        frame("wordcount::run", "/home/user/wordcount/src/main.rs", 21),
        frame("wordcount::main", "/home/user/wordcount/src/main.rs", 40),
        frame("<wordcount::words::Words>::read", "/home/user/wordcount/src/words.rs", 31),
        frame("<wordcount::words::Words>::read", "/home/user/wordcount/src/words.rs", 35),
        Frame { function: "__memmove_avx_unaligned".to_owned(), file: None, line: None },
    ];
    // Each by the address of its code. Two functions are inlined.
    let named = [(4_096, vec![1, 0]), (4_112, vec![0]), (4_128, vec![2]), (8_192, vec![3]), (4_200, vec![0, 4])];
    let named = named.into_iter().chain([(5_000, vec![5]), (6_000, vec![6]), (6_016, vec![7])]);
    let named = named.map(|(address, at)| ((0, address), at)).chain([((1, 99), vec![8])]);
    let named = named.map(|(address, at)| (address, at.iter().map(|&at: &usize| frames[at].clone()).collect()));
    let in_app = |address, samples| (vec![(0, address)], samples);
    let in_libc = |address, samples| (vec![(1, address)], samples);
    // In libc, called by line 12.
    let called = (vec![(1, 8), (0, 4_112), (0, 5_000)], 20);
    // In libc, called by line 31.
    let read = (vec![(1, 99), (0, 6_000), (0, 5_000)], 35);
    let in_thread = |name: &str| PathKey { thread: Some(name.to_owned()), ..PathKey::from(vec![]) };
    let paths = [
        (in_thread("wordcount"), BTreeMap::from([in_app(5_000, 40), in_libc(77, 12), read])),
        (in_thread("reader-*"), BTreeMap::from([in_app(6_016, 17), in_libc(99, 30)])),
        (vec![1].into(), BTreeMap::from([in_app(4_200, 3), in_app(5_000, 30)])),
        (
            vec![1, 0].into(),
            BTreeMap::from([
                in_app(4_096, 100),
                called,
                in_app(4_112, 60),
                in_app(4_128, 90),
                in_app(8_192, 30),
                in_app(4_200, 10),
                in_libc(8, 8),
            ]),
        ),
    ];
    let mut samples = Samples {
        event: "cpu-clock".to_owned(),
        frequency: Some(99),
        unattributed: 2,
        stack_bytes: 8192,
        modules: vec![
            Module { path: "/home/user/wordcount/target/release/wordcount".into(), build_id: Some("6c01ab".into()) },
            Module { path: "/usr/lib/libc.so.6".into(), build_id: None },
        ],
        ..Samples::default()
    };
    samples.set_paths(paths);
    samples.set_names(&named.collect());
    Snapshot { samples: vec![samples], ..typical() }
}

/// The same samples, of which 100 in line 12 of `parse_line` are in entry or exit of marks.
pub(in crate::report) fn sampled_in_probe() -> Snapshot {
    let mut snapshot = sampled();
    let inlined = snapshot.samples[0].frames.iter_mut().find(|frame| frame.function.contains("find"));
    let inlined = inlined.expect("a frame");
    inlined.function = "perfmark::recording::recorder::hooks::fast::begin".to_owned();
    inlined.file = Some("/home/user/perfmark/src/recording/recorder/hooks/fast.rs".to_owned());
    snapshot
}

/// The samples outside of marks, of a program that called none. `on` is whether its marks are on.
pub(in crate::report) fn sampled_outside(on: bool) -> Snapshot {
    let mut snapshot = sampled();
    snapshot.samples[0].paths.retain(|path| path.marks.is_empty());
    for mark in &mut snapshot.marks {
        (mark.on, mark.calls, mark.in_flight) = (on, 0, 0);
        mark.values.clear();
    }
    snapshot
}

/// The same samples, and others of a second event, all of which are in `parse_line`.
pub(in crate::report) fn sampled_twice() -> Snapshot {
    let mut snapshot = sampled();
    let mut second = snapshot.samples[0].clone();
    let named = second.locations.iter().map(|location| {
        let frames = location.frames.iter().map(|&at| second.frames[at].clone()).collect();
        ((location.module, location.address), frames)
    });
    let named = named.collect();
    (second.event, second.frequency, second.period) = ("cache-misses".to_owned(), None, Some(10_007));
    second.unattributed = 0;
    second.set_paths([(vec![1, 0], BTreeMap::from([(vec![(0, 4_128)], 40), (vec![(1, 8)], 5)]))]);
    second.set_names(&named);
    snapshot.samples.push(second);
    snapshot
}

/// Two marks with `time` alone, on a machine without a PMU.
pub(in crate::report) fn time_only() -> Snapshot {
    let mut events = [
        event("cycles", Unit::Count, Read::None),
        event("instructions", Unit::Count, Read::None),
        event("time", Unit::Ns, Read::Ticks),
    ];
    for event in &mut events[..2] {
        event.reason =
            Some("perf_event_open said ENOENT: no PMU on this machine, as is usual in a virtual one".to_owned());
    }
    let mut marks = [mark("handle_request", 18_200), mark("decode", 72_800), mark("flush", 3)];
    marks[0].values = vec![values("cycles", 0, 0), nested(values("time", 18_200, 5_210_000_000), 3_090_000_000)];
    marks[1].values = vec![values("time", 72_800, 2_120_000_000)];
    marks[2].values = vec![Values { unmeasured: 3, ..values("time", 0, 0) }];
    marks[2].in_flight = 1;
    Snapshot {
        notes: vec!["no requested event can be counted here, so `time` was recorded".to_owned()],
        ..snapshot(&events, &marks)
    }
}

/// Snapshots that no program should produce, and that must be rendered nevertheless.
pub(in crate::report) fn nasty() -> Vec<Snapshot> {
    let names = [
        String::new(),
        "n".repeat(500),
        "解析器の次の要素を読む".repeat(9),
        "two\nlines\tand \u{1b}[31m\u{202e}\u{200b}".to_owned(),
        "👩\u{200d}👩\u{200d}👧❤\u{fe0f}".repeat(20),
        "e\u{301}".repeat(300),
        ":::<>>::".to_owned(),
        "same".to_owned(),
        "same".to_owned(),
    ];
    let scales = [0, 1, 9_999, 10_000, 123_456, 61_000_000_000, 4_000_000_000_000, u64::MAX / 41, u64::MAX];
    let mut all = vec![snapshot(&[], &[]), snapshot(&[], &[mark("never", 0)]), snapshot(&[], &[mark("bare", 3)])];
    for (at, unit) in [Unit::Count, Unit::Ns, Unit::Ns].into_iter().enumerate() {
        let mut events: Vec<Event> = names.iter().map(|name| event(name, unit, Read::User)).collect();
        events.push(event("time", Unit::Ns, Read::Ticks));
        events[0].reason = Some("a reason ".repeat(60));
        events[1].read = Read::None;
        events[1].reason = Some("x".repeat(700));
        let mut marks = Vec::new();
        for (index, name) in names.iter().enumerate() {
            let mut one = mark(name, scales[index]);
            one.path = names[names.len() - 1 - index].clone();
            one.unwound = scales[index] / 2;
            one.in_flight = scales[(index + 1) % scales.len()];
            let (event, scales) = if at == 2 { ("time", &scales[index..=index]) } else { (name.as_str(), &scales[..]) };
            for &scale in scales {
                let typical = values(event, scale, u64::MAX - scale);
                one.values.push(Values {
                    unmeasured: scale,
                    self_sum: typical.self_sum.filter(|_| at != 1),
                    p50: Some(scale),
                    mean: Some(scale as f64 / 1e9),
                    ..typical
                });
            }
            marks.push(one);
        }
        marks.extend((0..1_000).map(|index| mark(&format!("never_{index}"), 0)));
        let notes = vec!["note ".repeat(100), "\u{1b}".repeat(300), String::new()];
        all.push(Snapshot {
            program: names.concat(),
            threads: u64::MAX,
            wall_ns: u64::MAX,
            pid: u32::MAX,
            notes,
            ..snapshot(&events, &marks)
        });
    }
    all.extend(seeded());
    let most = [(1, 2, u64::MAX), (3, 4, u64::MAX), (5, 6_000, u64::MAX)].map(Bucket::from).into();
    let many = Values { buckets: most, ..values("time", u64::MAX, u64::MAX) };
    all.push(snapshot(&[event("time", Unit::Ns, Read::Ticks)], &[Mark { values: vec![many], ..mark("many", 1) }]));
    // Invalid callers, invalid marks, a mark under itself, and 2,000 nested calls.
    let mut tangled = time_only();
    tangled.call_graph =
        vec![node(Some(7), 0, 1, None), node(Some(1), 9, i64::MAX, None), node(Some(2), 0, 5, Some(i64::MIN))];
    tangled.call_graph.extend((0..2_000).map(|index| node(Some(index + 2), index % 3, i64::MAX, Some(1))));
    all.push(tangled);
    all.push(with_graph());
    all.extend([sampled(), sampled_twice()]);
    // Samples without marks, modules and frames.
    let mut wild = sampled();
    wild.marks.truncate(1);
    for samples in &mut wild.samples {
        samples.modules.clear();
        samples.frames.truncate(2);
        samples.lost = u64::MAX;
        samples.event = "e\u{1b}\n".repeat(99);
        samples.frames[0].function = "解析器の次の要素を読む::\u{202e}".repeat(30);
        samples.frames[0].file = Some("\u{1b}[31mlong/".repeat(50));
        samples.paths[1].stacks[0].samples = u64::MAX;
        samples.paths[1].samples = u64::MAX;
    }
    all.push(wild);
    all
}

/// Snapshots of random values of every magnitude, the same each time: some, or a few hundred with `PERFMARK_TEST_FULL`.
fn seeded() -> impl Iterator<Item = Snapshot> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut any = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> (state % 64)
    };
    let count = if std::env::var_os("PERFMARK_TEST_FULL").is_some() { 300 } else { 15 };
    (0..count).map(move |_| {
        let events = [event("time", Unit::Ns, Read::Ticks), event("cycles", Unit::Count, Read::User)];
        let count = if any() % 2 == 0 { 1 } else { 2 };
        let mut marks = Vec::new();
        for index in 0..any() % 9 {
            let mut one = mark(&"long_name_".repeat(usize::try_from(any() % 12).unwrap_or(0)), any());
            one.line = u32::try_from(index).unwrap_or(0);
            for event in &events[..count] {
                let [min, p50, p90, p99, p999, max] = std::array::from_fn(|_| (any() % 8 > 0).then(&mut any));
                let mean = Some(any() as f64 / any().max(1) as f64);
                one.values.push(Values {
                    scaled: any() % 2,
                    total: any().cast_signed(),
                    self_sum: (any() % 20 > 0).then(|| any().cast_signed()),
                    min,
                    max,
                    mean,
                    p50,
                    p90,
                    p99,
                    p999,
                    ..values(&event.name, any(), any())
                });
            }
            marks.push(one);
        }
        snapshot(&events, &marks)
    })
}
