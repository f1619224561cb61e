//! Generated programs: what calls what, how often, and at what cost.

use std::collections::BTreeMap;

use crate::report::tests::sample::{self, event};
use crate::snapshot::{Event, Mark, Node, NodeValues, Overhead, Read, Snapshot, Unit, Values};

pub(super) fn mark(path: &str) -> Mark {
    let name = crate::snapshot::path::end(path, 1);
    let file = format!("src/{}.rs", path.split("::").next().unwrap_or("main"));
    Mark {
        path: format!("app::{path}"),
        file,
        line: u32::try_from(path.len() * 17).unwrap_or(0),
        ..sample::mark(name, 0)
    }
}

pub(super) struct Call {
    caller: Option<usize>,
    pub(super) depth: usize,
    mark: usize,
    pub(super) calls: u64,
    /// Nanoseconds of a call, without and with the calls inside.
    own: f64,
    inclusive: f64,
    spread: f64,
    pub(super) ipc: f64,
}

pub(super) struct Tree {
    pub(super) nodes: Vec<Call>,
    marks: Vec<Mark>,
    known: BTreeMap<String, usize>,
    indices: BTreeMap<(Option<usize>, usize), usize>,
    pub(super) random: Random,
}

impl Tree {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            nodes: Vec::new(),
            marks: Vec::new(),
            known: BTreeMap::new(),
            indices: BTreeMap::new(),
            random: Random(seed),
        }
    }

    /// Adds a mark that is called `calls` times in each of its caller's calls.
    pub(super) fn call(&mut self, caller: Option<usize>, path: &str, calls: f64, own: f64, spread: f64) -> usize {
        let marks = &mut self.marks;
        let mark = *self.known.entry(path.to_owned()).or_insert_with(|| {
            marks.push(mark(path));
            marks.len() - 1
        });
        if let Some(&known) = self.indices.get(&(caller, mark)) {
            return known;
        }
        self.indices.insert((caller, mark), self.nodes.len());
        let (above, depth) = caller.map_or((1, 0), |caller| (self.nodes[caller].calls, self.nodes[caller].depth + 1));
        let calls = rounded(above as f64 * calls).max(1);
        self.nodes.push(Call { caller, depth, mark, calls, own, inclusive: own, spread, ipc: 1.0 });
        self.nodes.len() - 1
    }

    /// The snapshot, with time, cycles at 3.1 GHz, and instructions.
    pub(super) fn snapshot(mut self, more: &[Event]) -> Snapshot {
        const EVENTS: [&str; 3] = ["cycles", "instructions", "time"];
        for index in (0..self.nodes.len()).rev() {
            let node = &self.nodes[index];
            let all = node.inclusive * node.calls as f64;
            if let Some(caller) = node.caller {
                let caller = &mut self.nodes[caller];
                caller.inclusive += all / caller.calls as f64;
            }
        }
        let mut of_marks: Vec<Vec<usize>> = vec![Vec::new(); self.marks.len()];
        for (index, node) in self.nodes.iter().enumerate() {
            of_marks[node.mark].push(index);
        }
        let factor = |node: &Call, event: &str| match event {
            "time" => 1.0,
            "cycles" => 3.1,
            _ => 3.1 * node.ipc,
        };
        let mut call_graph = Vec::new();
        for node in &self.nodes {
            let values = EVENTS.map(|event| {
                let of = |ns: f64| rounded(ns * node.calls as f64 * factor(node, event));
                let (sum, own) = (of(node.inclusive).cast_signed(), of(node.own).cast_signed());
                NodeValues { event: event.to_owned(), measured: node.calls, sum, self_sum: Some(own) }
            });
            call_graph.push(Node { parent: node.caller, mark: node.mark, calls: node.calls, values: values.into() });
        }
        for (mark, nodes) in of_marks.iter().enumerate() {
            let calls: u64 = nodes.iter().map(|&node| self.nodes[node].calls).sum();
            self.marks[mark].calls = calls;
            for (at, event) in EVENTS.iter().enumerate() {
                let node_values = |node: usize| &call_graph[node].values[at];
                let is_outermost = |node: &&usize| {
                    let mut above = self.nodes[**node].caller;
                    while let Some(caller) = above.filter(|&caller| self.nodes[caller].mark != mark) {
                        above = self.nodes[caller].caller;
                    }
                    above.is_none()
                };
                let sum: i64 = nodes.iter().map(|&node| node_values(node).sum).sum();
                let mut values = Values {
                    total: nodes.iter().filter(is_outermost).map(|&node| node_values(node).sum).sum(),
                    self_sum: nodes.iter().map(|&node| node_values(node).self_sum).sum(),
                    overhead: Overhead { in_call: 9 + at as u64, total: 31, noise: 3 },
                    ..sample::values(event, calls, sum.cast_unsigned())
                };
                let samples = if self.marks.len() > 1_000 { 40 } else { 3_000 };
                let mut counts = BTreeMap::new();
                let (mut least, mut most) = (u64::MAX, 0);
                for &node in nodes {
                    let node = &self.nodes[node];
                    let share = (node.calls as f64 / calls as f64 * f64::from(samples)).ceil();
                    let draws = rounded(share).clamp(1, node.calls);
                    for draw in 0..draws {
                        let value =
                            rounded(node.inclusive * factor(node, event) * self.random.varied(node.spread)).max(1);
                        let count = node.calls / draws + u64::from(draw < node.calls % draws);
                        (least, most) = (least.min(value), most.max(value));
                        *counts.entry(bucket(value)).or_insert(0) += count;
                    }
                }
                values.buckets = counts.into_iter().map(|((low, high), count)| (low, high, count)).collect();
                (values.min, values.max) = (Some(least), Some(most));
                values.derive();
                self.marks[mark].values.push(values);
            }
        }
        let mut events = vec![
            event("cycles", Unit::Count, Read::User),
            event("instructions", Unit::Count, Read::User),
            event("time", Unit::Ns, Read::Ticks),
        ];
        events.extend_from_slice(more);
        Snapshot { call_graph, ..sample::snapshot(&events, &self.marks) }
    }
}

/// The bucket of a histogram that contains a value.
fn bucket(value: u64) -> (u64, u64) {
    let shift = 58_u32.saturating_sub(value.leading_zeros());
    let low = value >> shift << shift;
    (low, low + ((1 << shift) - 1))
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates, and is not negative")]
pub(super) fn rounded(value: f64) -> u64 {
    value.round() as u64
}

pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Steele's and Vigna's splitmix64.
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    pub(super) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).unwrap_or(0)
    }

    pub(super) fn part(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A log-normal factor with a mean of about 1; in one case of a hundred it is several times as large.
    fn varied(&mut self, spread: f64) -> f64 {
        let normal = (0..12).map(|_| self.part()).sum::<f64>() - 6.0;
        let slow = if self.next().is_multiple_of(100) { 2.0 + 6.0 * self.part() } else { 1.0 };
        (normal * spread - spread * spread / 2.0).exp() * slow / 1.04
    }
}
