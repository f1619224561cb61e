//! All samples until now, as plain data.

use std::collections::BTreeMap;

use super::collector::{self, State};
use super::totals::{Stacks, Totals};
use super::{rings, threads};
use crate::settings::sampling::Rate;
use crate::snapshot::Samples;
use crate::snapshot::samples::PathKey;
use crate::snapshot::tree;

/// The samples that were collected, by sampling and event. `marks` are those of the snapshot.
pub(crate) fn samples(marks: impl Iterator<Item = u32>) -> Vec<Samples> {
    let Some(state) = collector::lock() else { return Vec::new() };
    let indices: BTreeMap<u32, usize> = marks.zip(0..).collect();
    let mut all = Vec::new();
    for (sampling, number) in state.samplings.iter().zip(1_u8..) {
        let open = open(&state, number, sampling.totals.len());
        for (n, (event, totals)) in sampling.samplers.events().zip(&sampling.totals).enumerate() {
            let (period, frequency) = match sampling.settings.events[n].rate {
                Rate::Period(period) => (Some(period), None),
                Rate::Frequency(frequency) => (None, Some(frequency)),
            };
            let mut samples = Samples {
                event: event.to_string(),
                period,
                frequency,
                stack_bytes: rings::stack_bytes(sampling.settings.stacks).into(),
                timestamps: sampling.settings.timestamps,
                threads: totals.threads.clone(),
                lost: totals.lost,
                throttled: totals.throttled,
                unattributed: open[n] + totals.unknown + totals.too_deep,
                in_open_calls: open[n],
                too_deep: totals.too_deep,
                threads_without: sampling.threads_without,
                why_without: sampling.why_refused.clone(),
                user_ns: sampling.user_ns(),
                threads_too_short: sampling.too_short,
                modules: state.code.modules.known().to_vec(),
                ..Samples::default()
            };
            let (paths, hidden) = paths(totals, &indices);
            samples.set_paths(paths);
            samples.unattributed += hidden;
            samples.drop_unused_modules();
            all.push(samples);
        }
    }
    all
}

/// The number of samples of each event in calls that are still open.
fn open(state: &State, sampling: u8, events: usize) -> Vec<u64> {
    let mut open = vec![0; events];
    let Some(registry) = threads::lock() else { return open };
    let of_sampling = |number: &u64| registry.entries.get(number).is_some_and(|entry| entry.sampling == sampling);
    for (_, rest) in state.rests.iter().filter(|(number, _)| of_sampling(number)) {
        for (open, event) in open.iter_mut().zip(&rest.events) {
            *open += event.stacks.values().map(|count| count.samples).sum::<u64>();
        }
    }
    open
}

/// The stacks of each path of marks, those outside of all marks by threads, and the number of samples in marks that no
/// snapshot has: probe overhead is measured by calls of such marks.
fn paths(totals: &Totals, indices: &BTreeMap<u32, usize>) -> (Vec<(PathKey, Stacks)>, u64) {
    let nodes = totals.paths.nodes();
    let marks = |node: &tree::Node<u32, Stacks>| {
        let path = std::iter::successors(Some(node), |node| Some(&nodes[node.above?]));
        let mut marks = path.map(|node| indices.get(&node.key).copied()).collect::<Option<Vec<usize>>>()?;
        marks.reverse();
        Some(marks)
    };
    let outside = totals.outside.iter().map(|(thread, stacks)| (PathKey::outside(thread.clone()), stacks.clone()));
    let (mut paths, mut hidden): (Vec<_>, _) = (outside.collect(), 0);
    for node in nodes {
        match marks(node) {
            Some(marks) => paths.push((marks.into(), node.value.clone())),
            None => hidden += node.value.values().map(|count| count.samples).sum::<u64>(),
        }
    }
    (paths, hidden)
}
