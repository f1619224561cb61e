//! The sum and the difference of samples, and the samples of some marks.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};

use crate::compact::index_or_push;
use crate::snapshot::arithmetic::{ADD, Combine, SUBTRACT};
use crate::snapshot::samples::{
    Counted, Frame, Location, Module, PathKey, SampleTime, SampledPath, Samples, TimedThread,
};

/// A module's index and an address in it.
type Address = (usize, u64);
type Stacks<C> = BTreeMap<Vec<Address>, C>;

/// Samples of several snapshots, with the marks and modules of one of them, or of all.
#[derive(Default)]
struct Sums<'a> {
    paths: BTreeMap<PathKey, Stacks<Counted>>,
    modules: Vec<Module>,
    named: BTreeMap<Address, Vec<&'a Frame>>,
    threads: Vec<TimedThread>,
}

impl<'a> Sums<'a> {
    /// Adds or subtracts samples. `index` returns the index of a mark here; samples with a mark that has none are left
    /// out.
    fn combine(&mut self, samples: &'a Samples, index: &dyn Fn(usize) -> Option<usize>, combine: Combine) {
        let modules: Vec<usize> = samples.modules.iter().map(|module| self.module(module)).collect();
        let address = |location: &Location| Some((*modules.get(location.module)?, location.address));
        let (is_less, other_threads) = ((combine.counts)(0, 1) == 0, self.threads.len());
        if !is_less {
            self.threads.extend(samples.threads.iter().cloned());
        }
        for path in &samples.paths {
            let marks = path.marks.iter().map(|&mark| index(mark));
            let Some(marks) = marks.collect::<Option<Vec<usize>>>() else { continue };
            let known = self.paths.entry(PathKey { marks, thread: path.thread.clone() }).or_default();
            for stack in &path.stacks {
                let addresses = stack.locations.iter().map(|&at| address(samples.locations.get(at)?));
                if let Some(addresses) = addresses.collect() {
                    let count = known.entry(addresses).or_default();
                    count.samples = (combine.counts)(count.samples, stack.samples);
                    if is_less {
                        let known: BTreeSet<_> = stack.times.iter().collect();
                        count.times.retain(|time| !known.contains(time));
                    } else {
                        count.times.extend(
                            stack
                                .times
                                .iter()
                                .map(|&time| SampleTime { thread: time.thread.saturating_add(other_threads), ..time }),
                        );
                    }
                }
            }
        }
        for location in samples.locations.iter().filter(|location| !location.frames.is_empty()) {
            let frames = location.frames.iter().map(|&at| samples.frames.get(at));
            if let (Some(address), Some(frames)) = (address(location), frames.collect()) {
                self.named.entry(address).or_insert(frames);
            }
        }
    }

    fn module(&mut self, module: &Module) -> usize {
        index_or_push(&mut self.modules, |known| known == module, || module.clone())
    }

    /// The same samples as `of`, with other paths.
    fn into_samples(mut self, of: &Samples) -> Samples {
        self.paths.values_mut().for_each(|stacks| stacks.retain(|_, count| count.samples > 0));
        let mut samples = Samples { modules: self.modules, threads: self.threads, ..of.clone() };
        samples.set_paths(self.paths);
        samples.set_names(&self.named);
        samples
    }
}

impl Samples {
    /// Replaces the paths, whose stacks are addresses in modules, and with them the locations, which have no names.
    pub(crate) fn set_paths<C: Into<Counted>>(
        &mut self,
        paths: impl IntoIterator<Item = (impl Into<PathKey>, Stacks<C>)> + Clone,
    ) {
        let stacks = paths.clone().into_iter().flat_map(|(_, stacks)| stacks.into_keys());
        let mut indices: BTreeMap<Address, usize> = stacks.flatten().map(|address| (address, 0)).collect();
        indices.values_mut().zip(0..).for_each(|(index, number)| *index = number);
        let path = |(key, stacks): (_, Stacks<C>)| {
            let stack = |(addresses, count): (Vec<Address>, C)| {
                (addresses.iter().map(|address| indices[address]).collect(), count.into())
            };
            SampledPath::new(Into::into(key), stacks.into_iter().map(stack))
        };
        self.paths = paths.into_iter().filter_map(path).collect();
        let location = |(module, address)| Location { module, address, frames: Vec::new() };
        self.locations = indices.into_keys().map(location).collect();
        self.frames = Vec::new();
    }

    /// Keeps the modules of locations only.
    #[cfg(feature = "sampling")]
    pub(crate) fn drop_unused_modules(&mut self) {
        let used: BTreeSet<usize> = self.locations.iter().map(|location| location.module).collect();
        for location in &mut self.locations {
            location.module = used.range(..location.module).count();
        }
        self.modules = used.iter().filter_map(|&module| self.modules.get(module).cloned()).collect();
    }

    /// Replaces the names of locations.
    pub(crate) fn set_names<F: Borrow<Frame>>(&mut self, named: &BTreeMap<Address, Vec<F>>) {
        let frames = |location: &Location| {
            named.get(&(location.module, location.address)).into_iter().flatten().map(Borrow::<Frame>::borrow)
        };
        let mut indices: BTreeMap<&Frame, usize> = self.locations.iter().flat_map(frames).map(|one| (one, 0)).collect();
        indices.values_mut().zip(0..).for_each(|(index, number)| *index = number);
        for location in &mut self.locations {
            location.frames = frames(location).map(|frame| indices[frame]).collect();
        }
        self.frames = indices.into_keys().cloned().collect();
    }

    /// What was sampled since an earlier snapshot; `indices` are those that its marks have here.
    pub(in crate::snapshot) fn since(&self, earlier: &Self, indices: &[Option<usize>]) -> Self {
        let mut sums = Sums::default();
        sums.combine(self, &Some, ADD);
        sums.combine(earlier, &|mark| at(indices, mark), SUBTRACT);
        let since = sums.into_samples(self).with_counts([self, earlier], u64::saturating_sub);
        // Samples in open calls get a path when their call ends. `threads_without` is not a count, so nothing
        // is subtracted.
        let others = |samples: &Self| samples.unattributed.saturating_sub(samples.in_open_calls);
        let unattributed = others(self).saturating_sub(others(earlier)).saturating_add(since.in_open_calls);
        Self { unattributed, threads_without: self.threads_without, ..since }
    }

    /// The samples of two snapshots; with each, the indices that its marks have in the merged one. Those of the [same
    /// sampling](Self::is_same_sampling) are added.
    pub(in crate::snapshot) fn merged(parts: [(&[Self], &[Option<usize>]); 2]) -> Vec<Self> {
        let mut merged: Vec<Self> = Vec::new();
        for (samples, indices) in parts.iter().flat_map(|(samples, indices)| samples.iter().map(|one| (one, *indices)))
        {
            let mut sums = Sums::default();
            let known = merged.iter().position(|known| known.is_same_sampling(samples));
            if let Some(known) = known.map(|known| &merged[known]) {
                sums.combine(known, &Some, ADD);
            }
            sums.combine(samples, &|mark| at(indices, mark), ADD);
            let sum = sums.into_samples(samples);
            match known {
                Some(known) => {
                    let sum = sum.with_counts([&merged[known], samples], u64::saturating_add);
                    merged[known] = sum;
                }
                None => merged.push(sum),
            }
        }
        merged
    }

    /// Whether the samples of both can be added: of one event, rate and length of stacks, and both with times or
    /// without.
    pub(in crate::snapshot) fn is_same_sampling(&self, other: &Self) -> bool {
        let rate = |samples: &Self| (samples.event.clone(), samples.period, samples.frequency);
        let contents = |samples: &Self| (samples.stack_bytes, samples.timestamps);
        rate(self) == rate(other) && contents(self) == contents(other)
    }

    /// These samples, with the counts of two others combined.
    fn with_counts(self, parts: [&Self; 2], combine: fn(u64, u64) -> u64) -> Self {
        let count = |number: fn(&Self) -> u64| combine(number(parts[0]), number(parts[1]));
        let removed = parts.iter().any(|samples| samples.removed.is_some());
        Self {
            lost: count(|samples| samples.lost),
            throttled: count(|samples| samples.throttled),
            unattributed: count(|samples| samples.unattributed),
            in_open_calls: count(|samples| samples.in_open_calls),
            too_deep: count(|samples| samples.too_deep),
            threads_without: count(|samples| samples.threads_without),
            why_without: parts.iter().find_map(|samples| samples.why_without.clone()),
            threads_too_short: count(|samples| samples.threads_too_short),
            user_ns: count(|samples| samples.user_ns),
            removed: removed.then(|| count(|samples| samples.removed.unwrap_or(0))),
            ..self
        }
    }

    /// Keeps the samples of the marks that have a new index, and those outside of all marks.
    pub(in crate::snapshot) fn retain(&mut self, indices: &[Option<usize>]) {
        let index = |mark: usize| at(indices, mark);
        let before = self.taken_in_all();
        self.paths.retain(|path| path.marks.last().is_none_or(|&mark| index(mark).is_some()));
        if indices.contains(&None) || self.removed.is_some() {
            self.removed = Some(before.saturating_sub(self.taken()));
        }
        for path in &mut self.paths {
            path.marks.retain(|&mark| index(mark).is_some());
        }
        let mut sums = Sums::default();
        sums.combine(self, &index, ADD);
        *self = sums.into_samples(self);
    }

    /// The event and when it is sampled: `cpu-clock, 99 a second`.
    #[must_use]
    pub fn rate(&self) -> String {
        let event = crate::text::sanitize(&self.event);
        match (self.period, self.frequency) {
            (Some(period), _) => format!("{event}, one in {}", crate::text::exact(period)),
            (None, Some(frequency)) => format!("{event}, {} a second", crate::text::exact(frequency)),
            (None, None) => event,
        }
    }
}

/// The index that a mark has now.
fn at(indices: &[Option<usize>], mark: usize) -> Option<usize> {
    indices.get(mark).copied().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::{Mark, Snapshot};

    const APP: usize = 0;
    const LIB: usize = 1;

    /// A path of marks with its stacks, each as its addresses and a number of samples.
    type Path = (Vec<usize>, Vec<(Vec<Address>, u64)>);

    fn path(marks: &[usize], stacks: &[(&[Address], u64)]) -> Path {
        (marks.to_vec(), stacks.iter().map(|(addresses, samples)| (addresses.to_vec(), *samples)).collect())
    }

    fn paths(samples: &Samples) -> Vec<Path> {
        let address = |&at: &usize| (samples.locations[at].module, samples.locations[at].address);
        let stack = |stack: &crate::SampledStack| (stack.locations.iter().map(address).collect(), stack.samples);
        samples.paths.iter().map(|path| (path.marks.clone(), path.stacks.iter().map(stack).collect())).collect()
    }

    fn only(snapshot: &Snapshot) -> &Samples {
        let [samples] = &snapshot.samples[..] else { panic!("{:?}", snapshot.samples) };
        samples
    }

    fn snapshot(marks: &[&str], modules: &[&str], paths: &[Path]) -> Snapshot {
        let mark = |name: &&str| Mark { name: (*name).into(), path: (*name).into(), calls: 1, ..Mark::default() };
        let module = |path: &&str| Module { path: (*path).into(), build_id: Some(format!("of {path}")) };
        let frame = |number| Frame { function: format!("f{number}"), file: None, line: Some(number) };
        let mut samples = Samples {
            event: "cpu-clock".into(),
            frequency: Some(99),
            lost: 2,
            unattributed: 1,
            user_ns: 5,
            modules: modules.iter().map(module).collect(),
            ..Samples::default()
        };
        samples.set_paths(paths.iter().map(|(marks, stacks)| (marks.clone(), stacks.iter().cloned().collect())));
        samples.set_names(&BTreeMap::from([((APP, 16), vec![frame(2), frame(1)])]));
        Snapshot { marks: marks.iter().map(mark).collect(), samples: vec![samples], ..Snapshot::default() }
    }

    fn one() -> Snapshot {
        let paths = [
            path(&[], &[(&[(APP, 8)], 5)]),
            path(&[0], &[(&[(APP, 16)], 3), (&[(APP, 24), (APP, 16)], 2)]),
            path(&[0, 1], &[(&[(APP, 32)], 7)]),
        ];
        snapshot(&["a", "b"], &["app"], &paths)
    }

    #[test]
    fn merged_samples_are_those_of_both_under_the_merged_marks_and_modules() {
        let other = [path(&[1], &[(&[(APP, 16)], 10), (&[(LIB, 24), (LIB, 16)], 1)]), path(&[0], &[(&[(APP, 48)], 4)])];
        let other = snapshot(&["0", "a"], &["lib", "app"], &other);
        let mut both = one();
        both.merge(&other);
        assert_eq!(both.marks.iter().map(|mark| &*mark.name).collect::<Vec<_>>(), ["0", "a", "b"]);
        let samples = only(&both);
        let expected = [
            path(&[], &[(&[(APP, 8)], 5)]),
            path(&[0], &[(&[(LIB, 48)], 4)]),
            path(&[1], &[(&[(LIB, 16)], 10), (&[(APP, 16)], 3), (&[(APP, 24), (APP, 16)], 3)]),
            path(&[1, 2], &[(&[(APP, 32)], 7)]),
        ];
        assert_eq!(paths(samples), expected);
        assert_eq!(samples.modules.iter().map(|module| &*module.path).collect::<Vec<_>>(), ["app", "lib"]);
        assert_eq!((samples.lost, samples.unattributed, samples.user_ns, samples.taken()), (4, 2, 10, 34));
        let named: Vec<_> = samples.locations.iter().filter(|location| !location.frames.is_empty()).collect();
        assert_eq!(named.iter().map(|one| (one.module, one.address)).collect::<Vec<_>>(), [(APP, 16), (LIB, 16)]);
        assert!(named.iter().all(|one| samples.frames[one.frames[0]].function == "f2"));
    }

    #[test]
    fn the_samples_since_an_earlier_snapshot_are_the_difference() {
        let other = snapshot(&["0", "a"], &["lib", "app"], &[path(&[1], &[(&[(APP, 16)], 10)])]);
        let mut both = one();
        both.merge(&other);
        let between = Snapshot { wall_ns: 1, ..both }.since(&one());
        let samples = only(&between);
        assert_eq!(paths(samples), [path(&[1], &[(&[(LIB, 16)], 10)])]);
        assert_eq!(samples.taken(), 11);
        assert_eq!(samples.locations.len(), 1, "other addresses have no samples");
    }

    #[test]
    #[cfg(feature = "record")]
    fn removed_samples_are_counted_so_that_missing_ones_stay_few() {
        let paths = [path(&[0], &[(&[(APP, 16)], 965)]), path(&[1], &[(&[(APP, 32)], 10)])];
        let mut some = snapshot(&["a", "b"], &["app"], &paths);
        let samples = &mut some.samples[0];
        // 1,000 were taken, and 99 a second are expected.
        (samples.lost, samples.unattributed, samples.threads_without) = (25, 25, 1);
        samples.user_ns = 10_000_000_000;
        some.retain(|_| true);
        assert_eq!((only(&some).removed, only(&some).is_biased()), (None, false));
        for _ in 0..2 {
            some.retain(|mark| mark.name == "b");
            assert_eq!((only(&some).removed, only(&some).taken()), (Some(965), 35));
            assert!(!only(&some).is_biased(), "lost, unattributed and missing ones are of 1,000");
        }
        some.samples[0].lost = 55;
        assert!(only(&some).is_lossy());
        let mut both = some.clone();
        both.merge(&some);
        assert_eq!(only(&both).removed, Some(1_930));
    }

    #[test]
    fn several_samplings_of_an_event_are_subtracted_each_from_itself() {
        let with = |times: [u64; 2]| {
            let mut twice = one();
            twice.samples.push(twice.samples[0].clone());
            twice.samples.iter_mut().zip(times).for_each(|(samples, user_ns)| samples.user_ns = user_ns);
            twice
        };
        let between = Snapshot { wall_ns: 1, ..with([5, 9]) }.since(&with([5, 1]));
        assert_eq!(between.samples.iter().map(|samples| samples.user_ns).collect::<Vec<_>>(), [0, 8]);
    }

    #[test]
    fn a_later_sampling_of_the_same_event_has_nothing_to_be_subtracted() {
        let mut twice = one();
        twice.samples.push(twice.samples[0].clone());
        let between = Snapshot { wall_ns: 1, ..twice }.since(&one());
        assert_eq!(between.samples.iter().map(Samples::taken).collect::<Vec<_>>(), [0, 18]);
    }

    #[test]
    fn samples_whose_calls_have_ended_since_hide_no_others_and_threads_without_samples_remain_known() {
        let with = |unattributed, in_open_calls, too_deep| {
            let mut snapshot = one();
            let samples = &mut snapshot.samples[0];
            (samples.unattributed, samples.in_open_calls, samples.too_deep) = (unattributed, in_open_calls, too_deep);
            samples.threads_without = 1;
            snapshot
        };
        for (now, expected) in [((60, 20, 10), (40, 0, 10)), ((130, 110, 0), (30, 10, 0))] {
            let now = Snapshot { wall_ns: 1, ..with(now.0, now.1, now.2) };
            let between = now.since(&with(100, 100, 0));
            let samples = only(&between);
            assert_eq!((samples.unattributed, samples.in_open_calls, samples.too_deep), expected);
            assert_eq!(samples.threads_without, 1);
        }
    }

    #[test]
    fn merged_times_are_those_of_the_threads_of_both_and_the_difference_has_the_later_ones() {
        let with_times = |times: &[(u64, usize)]| {
            let mut timed = one();
            let samples = &mut timed.samples[0];
            samples.timestamps = true;
            samples.threads = [7, 8].map(|id| TimedThread { id, name: None }).into();
            let stack = &mut samples.paths[2].stacks[0];
            stack.samples = times.len() as u64;
            stack.times = times.iter().copied().map(SampleTime::from).collect();
            timed
        };
        let times = |snapshot: &Snapshot| -> Vec<(u64, usize)> {
            let stack = &only(snapshot).paths.last().expect("a path").stacks[0];
            stack.times.iter().copied().map(Into::into).collect()
        };
        let (early, late) = (with_times(&[(10, 0), (11, 1)]), with_times(&[(10, 0), (11, 1), (12, 1)]));
        let mut both = early.clone();
        both.merge(&late);
        assert_eq!(times(&both), [(10, 0), (11, 1), (10, 2), (11, 3), (12, 3)]);
        assert_eq!(only(&both).threads.iter().map(|thread| thread.id).collect::<Vec<_>>(), [7, 8, 7, 8]);
        let between = Snapshot { wall_ns: 1, ..late }.since(&early);
        assert_eq!((times(&between), only(&between).threads.len()), (vec![(12, 1)], 2));
    }

    #[test]
    fn a_mark_that_does_not_exist_takes_no_memory() {
        let mut odd = one();
        odd.samples[0].paths[2].marks = vec![usize::MAX];
        let since = Snapshot { wall_ns: 1, ..odd.clone() }.since(&one());
        assert_eq!(paths(only(&since)), [path(&[usize::MAX], &[(&[(APP, 32)], 7)])]);
        let mut both = one();
        both.merge(&odd);
        assert_eq!(only(&both).paths.len(), 3);
    }

    #[test]
    fn samples_are_kept_if_only_one_snapshot_has_some() {
        let without = Snapshot { samples: Vec::new(), ..snapshot(&["0"], &[], &[]) };
        for (mut first, second) in [(one(), without.clone()), (without, one())] {
            first.merge(&second);
            assert_eq!(only(&first).paths[2].marks, [1, 2]);
            assert_eq!(only(&first).taken(), 18);
        }
    }

    #[test]
    fn samples_of_another_event_or_frequency_are_kept_apart() {
        let mut other = one();
        other.samples[0].frequency = Some(1_000);
        let mut both = one();
        both.merge(&other);
        assert_eq!(both.samples, [one().samples, other.samples.clone()].concat());
        both.merge(&other);
        assert_eq!(both.samples[0], one().samples[0]);
        assert_eq!(both.samples[1].taken(), 36);
        let between = Snapshot { wall_ns: 1, ..both }.since(&other);
        assert_eq!(between.samples.iter().map(Samples::taken).collect::<Vec<_>>(), [18, 18]);
    }

    #[test]
    fn marks_that_are_removed_take_their_samples_with_them_and_not_those_of_marks_inside() {
        let mut without_a = one();
        without_a.retain(|mark| mark.name != "a");
        let expected = [path(&[], &[(&[(APP, 8)], 5)]), path(&[0], &[(&[(APP, 32)], 7)])];
        assert_eq!(paths(only(&without_a)), expected);
        let mut without_b = one();
        without_b.retain(|mark| mark.name != "b");
        assert_eq!(paths(only(&without_b)), paths(only(&one()))[..2]);
    }
}
