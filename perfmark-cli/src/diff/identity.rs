//! Which marks of several runs are the same, what they are called, and in which order they are shown.

use std::collections::BTreeMap;

use perfmark::{Mark, Snapshot, Sort};

use super::side::Side;

/// The identity of a mark: path, name, and a number among marks with the same ones, in the order of their locations.
pub(super) type Key<'a> = (&'a str, &'a str, usize);

/// The marks of a run.
pub(super) type RunMarks<'a> = BTreeMap<Key<'a>, &'a Mark>;

pub(super) fn by_key(run: &Snapshot) -> RunMarks<'_> {
    keys(run).zip(&run.marks).collect()
}

/// The identities of a run's marks, in their order.
pub(super) fn keys(run: &Snapshot) -> impl Iterator<Item = Key<'_>> {
    let mut alike: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    run.marks.iter().map(move |mark| {
        let number = alike.entry((&mark.path, &mark.name)).or_default();
        *number += 1;
        (&*mark.path, &*mark.name, *number)
    })
}

/// All marks of these runs, as they are in the newest run that has them, with their names. Names and order are those of
/// a report of these marks: the largest self is first.
pub(super) fn labels<'a>(sides: &[Side; 2], runs: &[Vec<RunMarks<'a>>; 2]) -> Vec<(Key<'a>, &'a Mark, String)> {
    let newest: RunMarks<'a> = runs.iter().flatten().flatten().map(|(&key, &mark)| (key, mark)).collect();
    let without_histograms = |&mark: &&Mark| {
        let mut mark = mark.clone();
        mark.values.iter_mut().for_each(|values| values.buckets = Vec::new());
        mark
    };
    let mut all = Snapshot::default();
    all.marks = newest.values().map(without_histograms).collect();
    all.events = sides.iter().flat_map(|side| &side.runs).rev().flat_map(|run| run.events.clone()).collect();
    let names = all.names();
    let newest: Vec<_> = newest.into_iter().zip(names).collect();
    let order = Sort::SelfCost.order(&all).into_iter();
    order.map(|index| newest[index].clone()).map(|((key, mark), name)| (key, mark, name)).collect()
}
