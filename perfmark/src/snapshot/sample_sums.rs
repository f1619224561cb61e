//! The sum and the difference of samples, and the samples of some marks.

use std::collections::BTreeMap;

use super::arithmetic::{ADD, Combine, SUBTRACT};
use super::samples::{Frame, Module, NamedAddress, SampledPath, Samples};

type Addresses = BTreeMap<(usize, u64), u64>;

/// Samples of several snapshots, with the marks and modules of one of them, or of all.
#[derive(Default)]
struct Sums {
    paths: BTreeMap<Vec<usize>, Addresses>,
    modules: Vec<Module>,
    named: BTreeMap<(usize, u64), Vec<Frame>>,
}

impl Sums {
    /// Adds or subtracts samples. `mark` has the indices of their marks here; samples with a mark that has none are
    /// left out.
    fn combine(&mut self, samples: &Samples, indices: &[Option<usize>], combine: Combine) {
        let modules: Vec<usize> = samples.modules.iter().map(|module| self.module(module)).collect();
        for path in &samples.paths {
            let marks = path.marks.iter().map(|&mark| indices.get(mark).copied().flatten());
            let Some(marks) = marks.collect::<Option<Vec<usize>>>() else { continue };
            let known = self.paths.entry(marks).or_default();
            for one in &path.addresses {
                if let Some(&module) = modules.get(one.module) {
                    let samples = known.entry((module, one.address)).or_default();
                    *samples = (combine.counts)(*samples, one.samples);
                }
            }
        }
        for one in &samples.named {
            let frames: Option<Vec<Frame>> = one.frames.iter().map(|&at| samples.frames.get(at).cloned()).collect();
            if let (Some(&module), Some(frames)) = (modules.get(one.module), frames) {
                self.named.entry((module, one.address)).or_insert(frames);
            }
        }
    }

    fn module(&mut self, module: &Module) -> usize {
        self.modules.iter().position(|known| known == module).unwrap_or_else(|| {
            self.modules.push(module.clone());
            self.modules.len() - 1
        })
    }

    /// The same samples as `of`, with other paths.
    fn into_samples(self, of: &Samples) -> Samples {
        let paths = self.paths.into_iter().filter_map(|(marks, addresses)| SampledPath::new(marks, addresses));
        let mut samples = Samples { paths: paths.collect(), modules: self.modules, ..of.clone() };
        samples.set_names(self.named);
        samples
    }
}

impl Samples {
    /// Replaces the names of addresses. Those of addresses without samples are left out.
    pub(crate) fn set_names(&mut self, mut named: BTreeMap<(usize, u64), Vec<Frame>>) {
        let sampled = self.paths.iter().flat_map(|path| &path.addresses).map(|one| (one.module, one.address));
        let sampled: std::collections::BTreeSet<_> = sampled.collect();
        named.retain(|at, _| sampled.contains(at));
        let mut indices: BTreeMap<Frame, usize> = named.values().flatten().cloned().map(|frame| (frame, 0)).collect();
        indices.values_mut().zip(0..).for_each(|(index, number)| *index = number);
        let one = |((module, address), frames): ((usize, u64), Vec<Frame>)| NamedAddress {
            module,
            address,
            frames: frames.iter().map(|frame| indices[frame]).collect(),
        };
        self.named = named.into_iter().map(one).collect();
        self.frames = indices.into_keys().collect();
    }

    /// What was sampled since an earlier snapshot; `indices` are those that its marks have here.
    pub(super) fn since(&self, earlier: &Self, indices: &[Option<usize>]) -> Self {
        let mut sums = Sums::default();
        sums.combine(self, &every_mark(self), ADD);
        sums.combine(earlier, indices, SUBTRACT);
        let count = |number: fn(&Self) -> u64| number(self).saturating_sub(number(earlier));
        Self {
            lost: count(|samples| samples.lost),
            throttled: count(|samples| samples.throttled),
            unattributed: count(|samples| samples.unattributed),
            ..sums.into_samples(self)
        }
    }

    /// The samples of two snapshots; for each, the indices that its marks have in the merged one. If they cannot be
    /// added, those of the first, and a note.
    pub(super) fn merged(parts: [(Option<&Self>, &[Option<usize>]); 2]) -> (Option<Self>, Option<String>) {
        let mut present = parts.into_iter().filter_map(|(samples, indices)| Some((samples?, indices)));
        let Some((one, indices)) = present.next() else { return (None, None) };
        let mut sums = Sums::default();
        sums.combine(one, indices, ADD);
        let Some((other, indices)) = present.next() else { return (Some(sums.into_samples(one)), None) };
        let settings = |samples: &Self| (samples.event.clone(), samples.period, samples.frequency);
        if settings(one) != settings(other) {
            let note =
                format!("samples of {} are left out: they cannot be added to those of {}", other.rate(), one.rate());
            return (Some(sums.into_samples(one)), Some(note));
        }
        sums.combine(other, indices, ADD);
        let count = |number: fn(&Self) -> u64| number(one).saturating_add(number(other));
        let merged = Self {
            lost: count(|samples| samples.lost),
            throttled: count(|samples| samples.throttled),
            unattributed: count(|samples| samples.unattributed),
            threads_without: count(|samples| samples.threads_without),
            ..sums.into_samples(one)
        };
        (Some(merged), None)
    }

    /// Keeps the samples of the marks that have a new index, and those outside of all marks.
    pub(super) fn retain(&mut self, indices: &[Option<usize>]) {
        let index = |mark: usize| indices.get(mark).copied().flatten();
        self.paths.retain(|path| path.marks.last().is_none_or(|&mark| index(mark).is_some()));
        for path in &mut self.paths {
            path.marks.retain(|&mark| index(mark).is_some());
        }
        let mut sums = Sums::default();
        sums.combine(self, indices, ADD);
        *self = sums.into_samples(self);
    }

    /// The event and when it is sampled: `cpu-clock, 99 a second`.
    pub(crate) fn rate(&self) -> String {
        let event = crate::text::sanitize(&self.event);
        match (self.period, self.frequency) {
            (Some(period), _) => format!("{event}, one in {}", crate::text::exact(period)),
            (None, Some(frequency)) => format!("{event}, {} a second", crate::text::exact(frequency)),
            (None, None) => event,
        }
    }
}

/// All marks under their own indices.
fn every_mark(samples: &Samples) -> Vec<Option<usize>> {
    let marks = samples.paths.iter().flat_map(|path| &path.marks).copied();
    marks.max().map_or_else(Vec::new, |most| (0..=most).map(Some).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::{Mark, SampledAddress, Snapshot};

    const MAIN: usize = 0;

    fn at(address: u64, samples: u64) -> SampledAddress {
        SampledAddress { module: MAIN, address, samples }
    }

    fn path(marks: &[usize], addresses: &[SampledAddress]) -> SampledPath {
        let addresses = addresses.iter().map(|one| ((one.module, one.address), one.samples));
        SampledPath::new(marks.to_vec(), addresses).expect("samples")
    }

    fn snapshot(marks: &[&str], modules: &[&str], paths: &[SampledPath]) -> Snapshot {
        let mark = |name: &&str| Mark { name: (*name).into(), path: (*name).into(), calls: 1, ..Mark::default() };
        let module = |path: &&str| Module { path: (*path).into(), build_id: Some(format!("of {path}")) };
        let frame = |number| Frame { function: format!("f{number}"), file: None, line: Some(number) };
        let samples = Samples {
            event: "cpu-clock".into(),
            frequency: Some(99),
            lost: 2,
            unattributed: 1,
            paths: paths.to_vec(),
            modules: modules.iter().map(module).collect(),
            named: vec![NamedAddress { module: MAIN, address: 16, frames: vec![1, 0] }],
            frames: vec![frame(1), frame(2)],
            ..Samples::default()
        };
        Snapshot {
            schema: Snapshot::SCHEMA,
            marks: marks.iter().map(mark).collect(),
            samples: Some(samples),
            ..Snapshot::default()
        }
    }

    fn one() -> Snapshot {
        let paths = [path(&[], &[at(8, 5)]), path(&[0], &[at(16, 3), at(24, 2)]), path(&[0, 1], &[at(32, 7)])];
        snapshot(&["a", "b"], &["app"], &paths)
    }

    #[test]
    fn merged_samples_are_those_of_both_under_the_merged_marks_and_modules() {
        let other = [path(&[1], &[at(16, 10), SampledAddress { module: 1, ..at(24, 1) }]), path(&[0], &[at(48, 4)])];
        let other = snapshot(&["0", "a"], &["lib", "app"], &other);
        let mut both = one();
        both.merge(&other);
        assert_eq!(both.marks.iter().map(|mark| &*mark.name).collect::<Vec<_>>(), ["0", "a", "b"]);
        let samples = both.samples.clone().expect("samples");
        let lib = |address, samples| SampledAddress { module: 1, address, samples };
        let expected = [
            path(&[], &[at(8, 5)]),
            path(&[0], &[lib(48, 4)]),
            path(&[1], &[lib(16, 10), at(16, 3), at(24, 3)]),
            path(&[1, 2], &[at(32, 7)]),
        ];
        assert_eq!(samples.paths, expected);
        assert_eq!(samples.modules.iter().map(|module| &*module.path).collect::<Vec<_>>(), ["app", "lib"]);
        assert_eq!((samples.lost, samples.unattributed, samples.taken()), (4, 2, 34));
        let named: Vec<_> = samples.named.iter().map(|one| (one.module, one.address)).collect();
        assert_eq!(named, [(0, 16), (1, 16)]);
        assert!(samples.named.iter().all(|one| samples.frames[one.frames[0]].function == "f2"));
    }

    #[test]
    fn the_samples_since_an_earlier_snapshot_are_the_difference() {
        let other = snapshot(&["0", "a"], &["lib", "app"], &[path(&[1], &[at(16, 10)])]);
        let mut both = one();
        both.merge(&other);
        let between = Snapshot { wall_ns: 1, ..both }.since(&one());
        let samples = between.samples.expect("samples");
        assert_eq!(samples.paths, [path(&[1], &[SampledAddress { module: 1, ..at(16, 10) }])]);
        assert_eq!(samples.taken(), 11);
        assert_eq!(samples.named.len(), 1, "other addresses have no samples");
    }

    #[test]
    fn samples_are_kept_if_only_one_snapshot_has_some() {
        let without = Snapshot { samples: None, ..snapshot(&["0"], &[], &[]) };
        for (mut first, second) in [(one(), without.clone()), (without, one())] {
            first.merge(&second);
            let samples = first.samples.expect("samples");
            assert_eq!(samples.paths[2].marks, [1, 2]);
            assert_eq!(samples.taken(), 18);
        }
    }

    #[test]
    fn samples_of_another_event_or_frequency_are_not_added_and_a_note_says_so() {
        let mut other = one();
        other.samples.as_mut().expect("samples").frequency = Some(1_000);
        let mut both = one();
        both.merge(&other);
        assert_eq!(both.samples, one().samples);
        let why = "samples of cpu-clock, 1,000 a second are left out: they cannot be added to those of cpu-clock, \
                   99 a second";
        assert_eq!(both.notes, [why]);
    }

    #[test]
    fn marks_that_are_removed_take_their_samples_with_them_and_not_those_of_marks_inside() {
        let mut without_a = one();
        without_a.retain(|mark| mark.name != "a");
        assert_eq!(without_a.samples.expect("samples").paths, [path(&[], &[at(8, 5)]), path(&[0], &[at(32, 7)])]);
        let mut without_b = one();
        without_b.retain(|mark| mark.name != "b");
        assert_eq!(without_b.samples.expect("samples").paths, one().samples.expect("samples").paths[..2]);
    }
}
