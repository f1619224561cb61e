//! Which marks of several runs are the same, what they are called, and in which order they are shown.

use std::collections::{BTreeMap, BTreeSet};

use perfmark::{Mark, Snapshot, Sort};

use super::side::Side;

/// The identity of a mark: path; name; the hash of its types if that [name is ambiguous](ambiguous); and among marks
/// with the same ones, in the order of their locations, its number and how many there are. Where that differs, numbers
/// identify no mark.
pub(super) type Key<'a> = (&'a str, &'a str, u32, (usize, usize));

/// The marks of a run.
pub(super) type RunMarks<'a> = BTreeMap<Key<'a>, &'a Mark>;

/// Paths and names.
pub(super) type Names<'a> = BTreeSet<(&'a str, &'a str)>;

/// Paths and names that several types of a generic function have in one of the runs. Only the hashes distinguish these
/// types, and they depend on the build.
pub(super) fn ambiguous(sides: &[Side; 2]) -> Names<'_> {
    let mut ambiguous = Names::new();
    for run in sides.iter().flat_map(|side| &side.runs) {
        let mut hashes = BTreeMap::new();
        for mark in &run.marks {
            let first = *hashes.entry((&mark.path, &mark.name, &mark.file, mark.line)).or_insert(mark.type_hash);
            if first != mark.type_hash {
                ambiguous.insert((&*mark.path, &*mark.name));
            }
        }
    }
    ambiguous
}

pub(super) fn by_key<'a>(run: &'a Snapshot, ambiguous: &Names<'a>) -> RunMarks<'a> {
    keys(run, ambiguous).zip(&run.marks).collect()
}

/// The identities of a run's marks, in their order.
pub(super) fn keys<'a>(run: &'a Snapshot, ambiguous: &Names<'a>) -> impl Iterator<Item = Key<'a>> {
    let all = run.marks.iter().map(|mark| {
        let (path, name) = (&*mark.path, &*mark.name);
        (path, name, if ambiguous.contains(&(path, name)) { mark.type_hash } else { 0 })
    });
    let mut alike: BTreeMap<(&str, &str, u32), (usize, usize)> = BTreeMap::new();
    for one in all.clone() {
        alike.entry(one).or_default().1 += 1;
    }
    all.map(move |one| {
        let numbered = alike.entry(one).or_default();
        numbered.0 += 1;
        (one.0, one.1, one.2, *numbered)
    })
}

/// The paths and names of which each side has marks that the other one lacks.
pub(super) fn split<'a>(runs: &[Vec<RunMarks<'a>>; 2]) -> Names<'a> {
    let [base, head] = [0, 1].map(|side: usize| runs[side].iter().flat_map(BTreeMap::keys).collect::<BTreeSet<_>>());
    let names =
        |keys: BTreeSet<&Key<'a>>| keys.into_iter().map(|&(path, name, ..)| (path, name)).collect::<Names<'a>>();
    &names(&base - &head) & &names(&head - &base)
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
