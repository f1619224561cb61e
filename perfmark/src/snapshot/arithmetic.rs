//! The difference of two snapshots, and the sum of several.

use super::data::{Bucket, Event, Mark, Overhead, Read, Snapshot, Values};
use super::quantile::{P50, P90, P99, P999, quantile};
use super::samples::Samples;
use crate::compact::{Collect as _, Map, Set, sort_by};

/// How counts and sums of two snapshots are combined.
#[derive(Clone, Copy)]
pub(super) struct Combine {
    pub(super) counts: fn(u64, u64) -> u64,
    pub(super) sums: fn(i64, i64) -> i64,
}

pub(super) const ADD: Combine = Combine { counts: u64::saturating_add, sums: i64::saturating_add };
pub(super) const SUBTRACT: Combine = Combine { counts: u64::saturating_sub, sums: i64::saturating_sub };

/// Path, name, file and line of a mark.
type Origin<'a> = (&'a str, &'a str, &'a str, u32);

/// The identity of a mark: its origin; the hash of its types if a snapshot has several marks of that origin, because
/// the hash depends on the build; and a number among marks that a macro creates with the same ones.
type Key<'a> = (Origin<'a>, u32, usize);

/// The identities of both snapshots' marks.
fn keys<'a>(both: [&'a [Mark]; 2]) -> [Vec<Key<'a>>; 2] {
    let origin = |mark: &'a Mark| -> Origin<'a> { (&mark.path, &mark.name, &mark.file, mark.line) };
    let mut ambiguous = Set::new();
    for marks in both {
        let mut known = Set::new();
        for origin in marks.iter().map(origin) {
            if !known.insert(origin) {
                ambiguous.insert(origin);
            }
        }
    }
    both.map(|marks| {
        let mut alike = Map::new();
        let key = |mark| {
            let origin = origin(mark);
            let type_hash = if ambiguous.contains(&origin) { mark.type_hash } else { 0 };
            let number = alike.get_or_insert((origin, type_hash), 0_usize);
            *number += 1;
            (origin, type_hash, *number)
        };
        marks.iter().map(key).collect()
    })
}

/// The index of each of `others` in `marks`.
fn indices_in(marks: &[Mark], others: &[Mark]) -> Vec<Option<usize>> {
    let [keys, of_others] = keys([marks, others]);
    let indices: Map<_, usize> = keys.into_iter().zip(0..).collect_map();
    of_others.iter().map(|key| indices.get(key).copied()).collect()
}

impl Snapshot {
    /// What was recorded between an earlier snapshot of the same process and this one.
    ///
    /// Counts, sums and buckets are exactly the differences. The smallest and the largest call are exact if they are
    /// outside of the earlier range. Else they come from the buckets, within 1/64, as the quantiles do. The number of
    /// calls in flight, threads, events and notes are those of this snapshot. A sample in a call belongs to the span in
    /// which the call ends; the span in which it was taken has it among those in open calls.
    ///
    /// If the other snapshot is not an earlier one of the same process, or [`reset`](crate::reset) was called between
    /// them, nothing is subtracted, and a note says so.
    ///
    /// ```standalone_crate
    /// use perfmark::perfmark;
    ///
    /// #[perfmark(time)]
    /// fn double(n: u64) -> u64 {
    ///     2 * n
    /// }
    ///
    /// double(1);
    /// let before = perfmark::snapshot();
    /// double(2);
    /// double(3);
    /// let between = perfmark::snapshot().since(&before);
    /// # if cfg!(feature = "record") {
    /// assert_eq!(between.marks.iter().find(|mark| mark.name == "double").map(|mark| mark.calls), Some(2));
    /// # }
    /// ```
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut between = self.clone();
        let before = indices_in(&earlier.marks, &self.marks).into_iter().map(|index| Some(&earlier.marks[index?]));
        let pairs: Vec<_> = self.marks.iter().zip(before).collect();
        let is_later = |&(mark, before): &(&Mark, Option<&Mark>)| before.is_none_or(|before| mark.is_later(before));
        let why = if self.pid != earlier.pid {
            let (pid, other) = (self.pid, earlier.pid);
            Some(format!("the other snapshot is of process {other}, and this one of process {pid}"))
        } else if self.resets != earlier.resets {
            Some("`reset` was called between the two snapshots".to_owned())
        } else if self.wall_ns < earlier.wall_ns {
            Some("the other snapshot is later than this one".to_owned())
        } else {
            (!pairs.iter().all(is_later)).then(|| "the other snapshot has calls that this one does not have".to_owned())
        };
        if let Some(why) = why {
            between.notes.push(format!("nothing was subtracted: {why}"));
            return between;
        }
        let indices = indices_in(&self.marks, &earlier.marks);
        between.subtract_graph(&earlier.call_graph, &indices);
        between.call_graph_lacks = self.call_graph_lacks.saturating_sub(earlier.call_graph_lacks);
        // A program may sample an event in several samplings, one after the other. Later ones follow.
        let mut before: Vec<&Samples> = earlier.sampled().iter().collect();
        for samples in &mut between.samples {
            if let Some(n) = before.iter().position(|before| before.is_same_sampling(samples)) {
                *samples = samples.since(before.remove(n), &indices);
            }
        }
        between.wall_ns -= earlier.wall_ns;
        let difference = |now: Option<u64>, before: Option<u64>| Some(now?.saturating_sub(before?));
        between.overhead_ns = self.overhead_ns.map(|now| now.saturating_sub(earlier.overhead_ns.unwrap_or(0)));
        between.cpu_ns = difference(self.cpu_ns, earlier.cpu_ns);
        between.involuntary_switches = difference(self.involuntary_switches, earlier.involuntary_switches);
        between.marks = pairs.into_iter().map(|(mark, before)| mark.since(before)).collect();
        between
    }

    /// Adds what another process recorded, or this one in another span of time.
    ///
    /// No call is lost or invented: counts, sums and buckets are added, and quantiles come from the added buckets. If
    /// one snapshot lacks an event of the other, its calls are unmeasured in that event. If one lacks a call graph, its
    /// calls are counted in [`call_graph_lacks`](Self::call_graph_lacks). Samples are added if the event, its rate,
    /// [`stack_bytes`](Samples::stack_bytes) and [`timestamps`](Samples::timestamps) are the same; otherwise both are
    /// kept.
    ///
    /// Marks of one path, name and location are the same mark. If a snapshot has several of them, their
    /// [`type_hash`](Mark::type_hash) distinguishes them, so those of two builds have separate rows. If each snapshot
    /// has only one, they are combined, even if their types differ and only have the same name.
    ///
    /// Buckets of times depend on each machine's tick counter. If two machines' buckets differ, both are kept and may
    /// overlap; quantiles are then within 1/32. `wall_ns` is the longer one. Program, process and the version of
    /// perfmark are those of the first; if the versions differ, a note says so. `Snapshot::default()` adds nothing.
    ///
    /// ```
    /// let mut all = perfmark::Snapshot::default();
    /// for one in [perfmark::snapshot(), perfmark::snapshot()] {
    ///     all.merge(&one);
    /// }
    /// ```
    pub fn merge(&mut self, other: &Self) {
        if *other == Self::default() {
            return;
        }
        if *self == Self::default() {
            self.clone_from(other);
            return;
        }
        self.threads = self.threads.saturating_add(other.threads);
        self.threads_at_once = self.threads_at_once.max(other.threads_at_once);
        self.wall_ns = self.wall_ns.max(other.wall_ns);
        let sum = |one: Option<u64>, two: Option<u64>| Some(one?.saturating_add(two?));
        self.overhead_ns = sum_of_known(self.overhead_ns, other.overhead_ns);
        self.cpu_ns = sum(self.cpu_ns, other.cpu_ns);
        self.involuntary_switches = sum(self.involuntary_switches, other.involuntary_switches);
        let mut notes = other.notes.clone();
        if self.perfmark != other.perfmark && !self.perfmark.is_empty() && !other.perfmark.is_empty() {
            notes
                .push(format!("perfmark {} recorded some of the values, and {} others", self.perfmark, other.perfmark));
        }
        let indices: Map<String, usize> = self.events.iter().map(|event| event.name.clone()).zip(0..).collect_map();
        for event in &other.events {
            match indices.get(&event.name).map(|&at| &mut self.events[at]) {
                Some(known) => {
                    for (lacks, has) in [(&*known, event), (event, &*known)] {
                        if let (Read::None, Some(why), true) = (lacks.read, &lacks.reason, has.read != Read::None) {
                            notes.push(format!("{}: not counted in some processes: {why}", event.name));
                        }
                    }
                    known.merge(event);
                }
                None => self.events.push(event.clone()),
            }
        }
        let had_calls = |one: &Self| one.marks.iter().map(Mark::countable).fold(0, u64::saturating_add);
        let beside_graph = match (self.call_graph.is_empty(), other.call_graph.is_empty()) {
            (true, false) => had_calls(self),
            (false, true) => had_calls(other),
            _ => 0,
        };
        let mut merged = self.marks.clone();
        for (mark, index) in other.marks.iter().zip(indices_in(&self.marks, &other.marks)) {
            match index {
                Some(index) => merged[index].merge(mark),
                None => merged.push(mark.clone()),
            }
        }
        sort_by(&mut merged, Mark::by_location);
        let graphs = [&*self, other].map(|one| (one.call_graph.clone(), indices_in(&merged, &one.marks)));
        self.marks = merged;
        self.set_graph(&graphs);
        let [(_, own), (_, of_other)] = &graphs;
        self.samples = Samples::merged([(self.sampled(), own), (other.sampled(), of_other)]);
        self.merge_sources(other);
        self.call_graph_lacks =
            self.call_graph_lacks.saturating_add(other.call_graph_lacks).saturating_add(beside_graph);
        let mut known: Set<String> = self.notes.iter().cloned().collect_set();
        self.notes.extend(notes.into_iter().filter(|note| known.insert(note.clone())));
    }
}

/// Of two values that are at least so much.
fn sum_of_known(one: Option<u64>, two: Option<u64>) -> Option<u64> {
    one.map_or(two, |one| Some(one.saturating_add(two.unwrap_or(0))))
}

impl Event {
    /// Keeps the way of reading of the one that was read.
    fn merge(&mut self, other: &Self) {
        if self.read == Read::None || (self.reason.is_none() && other.read != Read::None) {
            self.clone_from(other);
        }
    }
}

impl Mark {
    /// Combines the counts that only grow with another mark's.
    fn combine(&mut self, other: &Self, with: fn(u64, u64) -> u64) {
        for (count, other) in [
            (&mut self.calls, other.calls),
            (&mut self.unwound, other.unwound),
            (&mut self.cancelled, other.cancelled),
            (&mut self.polls, other.polls),
            (&mut self.interrupted, other.interrupted),
            (&mut self.skipped, other.skipped),
        ] {
            *count = with(*count, other);
        }
    }

    fn is_later(&self, earlier: &Self) -> bool {
        let of = |event: &str| self.values.iter().find(|values| values.event == event);
        self.calls >= earlier.calls
            && earlier.values.iter().all(|before| of(&before.event).is_some_and(|now| now.measured >= before.measured))
    }

    pub(crate) fn since(&self, earlier: Option<&Self>) -> Self {
        let mut between = self.clone();
        let Some(earlier) = earlier else { return between };
        between.combine(earlier, u64::saturating_sub);
        between.overhead_ns = self.overhead_ns.map(|now| now.saturating_sub(earlier.overhead_ns.unwrap_or(0)));
        let countable = between.countable();
        for values in &mut between.values {
            if let Some(before) = earlier.values.iter().find(|before| before.event == values.event) {
                *values = values.since(before);
            }
            // If no thread had the event then, calls of that time are among the unmeasured.
            let rest = countable.saturating_sub(values.measured);
            values.lack(values.unmeasured.min(rest), between.skipped);
        }
        between
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        // If one of the two lacks an event, its calls are unmeasured in that event.
        let (uncounted, uncounted_others) = (self.countable(), other.countable());
        let skipped = self.skipped.saturating_add(other.skipped);
        let mut is_merged = vec![false; self.values.len()];
        for (at, values) in other.values.iter().enumerate() {
            let is_it = |known: &Values| known.event == values.event;
            // They are usually in the same order.
            let is_there = self.values.get(at).is_some_and(is_it);
            if let Some(at) = if is_there { Some(at) } else { self.values.iter().position(is_it) } {
                self.values[at].merge(values);
                is_merged[at] = true;
            } else {
                let mut values = values.clone();
                values.lack(values.unmeasured.saturating_add(uncounted), skipped);
                self.values.push(values);
            }
        }
        for (values, _) in self.values.iter_mut().zip(is_merged).filter(|(_, is_merged)| !is_merged) {
            let unmeasured = values.unmeasured.saturating_add(uncounted_others);
            values.lack(unmeasured, skipped);
        }
        self.combine(other, u64::saturating_add);
        self.overhead_ns = sum_of_known(self.overhead_ns, other.overhead_ns);
        self.in_flight = self.in_flight.saturating_add(other.in_flight);
        self.every = self.every.max(other.every);
        self.on |= other.on;
        self.budget_percent = self.budget_percent.into_iter().chain(other.budget_percent).reduce(f64::max);
    }

    /// Calls that are measured or unmeasured in an event.
    fn countable(&self) -> u64 {
        [self.unwound, self.cancelled, self.skipped].into_iter().fold(self.calls, u64::saturating_sub)
    }
}

impl Values {
    /// Combines the counts and sums that only grow with another's.
    fn combine(&mut self, other: &Self, with: Combine) {
        for (count, other) in [
            (&mut self.measured, other.measured),
            (&mut self.weight, other.weight),
            (&mut self.scaled, other.scaled),
            (&mut self.unmeasured, other.unmeasured),
            (&mut self.imputed, other.imputed),
            (&mut self.missing_outermost, other.missing_outermost),
            (&mut self.estimated, other.estimated),
        ] {
            *count = (with.counts)(*count, other);
        }
        for (sum, other) in [
            (&mut self.sum, other.sum),
            (&mut self.total, other.total),
            (&mut self.unwound_total, other.unwound_total),
            (&mut self.unwound_self, other.unwound_self),
            (&mut self.in_flight_total, other.in_flight_total),
            (&mut self.in_flight_self, other.in_flight_self),
        ] {
            *sum = (with.sums)(*sum, other);
        }
        self.self_sum = self.self_sum.zip(other.self_sum).map(|(own, other)| (with.sums)(own, other));
    }

    fn since(&self, earlier: &Self) -> Self {
        let mut between = self.clone();
        between.combine(earlier, SUBTRACT);
        let before = earlier.buckets.iter().map(|bucket| ((bucket.low, bucket.high), bucket.calls)).collect_map();
        for Bucket { low, high, calls } in &mut between.buckets {
            *calls = calls.saturating_sub(before.get(&(*low, *high)).copied().unwrap_or(0));
        }
        between.buckets.retain(|bucket| bucket.calls > 0);
        let outside = |now: Option<u64>, before: Option<u64>| now.filter(|_| now != before);
        let range = self.min.zip(self.max);
        let within = |value: u64| range.map_or(value, |(min, max)| value.min(max).max(min));
        let (lowest, highest) = (between.buckets.first().copied(), between.buckets.last().copied());
        between.min = lowest.map(|bucket| outside(self.min, earlier.min).unwrap_or_else(|| within(bucket.low)));
        between.max = highest.map(|bucket| outside(self.max, earlier.max).unwrap_or_else(|| within(bucket.high)));
        between.derive();
        between
    }

    /// Sets the number of unmeasured calls, for a mark with `skipped` skipped calls.
    fn lack(&mut self, unmeasured: u64, skipped: u64) {
        self.unmeasured = unmeasured;
        self.missing_outermost = self.missing_outermost.min(unmeasured);
        self.extrapolated = unmeasured > 0 || skipped > 0 || self.weight != self.measured;
    }

    fn merge(&mut self, other: &Self) {
        self.combine(other, ADD);
        self.extrapolated |= other.extrapolated;
        self.min = self.min.into_iter().chain(other.min).min();
        self.max = self.max.into_iter().chain(other.max).max();
        self.overhead = Overhead {
            in_call: self.overhead.in_call.max(other.overhead.in_call),
            total: self.overhead.total.max(other.overhead.total),
            noise: self.overhead.noise.max(other.overhead.noise),
        };
        let mut buckets = Map::new();
        for &Bucket { low, high, calls } in self.buckets.iter().chain(&other.buckets) {
            let known: &mut u64 = buckets.get_or_default((low, high));
            *known = known.saturating_add(calls);
        }
        self.buckets = buckets.into_iter().map(|((low, high), calls)| Bucket { low, high, calls }).collect();
        self.derive();
    }

    /// The mean cost of a call without the marked calls inside it: `self_sum / (weight + imputed)`. An estimate if
    /// [`self_sum`](Self::self_sum) is one. `None` if there are no such calls, or their self is unknown.
    #[must_use]
    pub fn self_mean(&self) -> Option<f64> {
        let calls = u128::from(self.weight) + u128::from(self.imputed);
        (calls > 0).then_some(self.self_sum? as f64 / calls as f64)
    }

    /// The standard error of [`sum`](Self::sum) that results from measuring some calls only, relative to it: the square
    /// root of the sum of `(N - 1) * cost²` over the calls, of which each measured one counts as `N` (D. G. Horvitz and
    /// D. J. Thompson, 1952). A few calls that take much longer than the others make it large. It treats calls as
    /// independent: if those of one [burst](crate::guide::accuracy) are alike, the error is larger. `None` if every
    /// call was measured.
    #[must_use]
    pub fn relative_error(&self) -> Option<f64> {
        if self.weight <= self.measured {
            return None;
        }
        let each = self.weight as f64 / self.measured as f64;
        let middle = |bucket: &Bucket| bucket.low as f64 / 2.0 + bucket.high as f64 / 2.0;
        let costs = || self.buckets.iter().map(|bucket| (middle(bucket), bucket.calls as f64));
        let sum: f64 = costs().map(|(cost, calls)| cost * calls).sum();
        let squares: f64 = costs().map(|(cost, calls)| cost * cost * calls).sum();
        (sum > 0.0).then(|| ((each - 1.0) * squares).sqrt() / sum)
    }

    /// Computes the fields that follow from the others.
    pub(crate) fn derive(&mut self) {
        let (calls, range) = (self.weight, self.min.zip(self.max));
        let quantile = |of| range.map(|range| quantile(self.buckets.iter().copied(), calls, range, of));
        (self.p50, self.p90, self.p99, self.p999) = (quantile(P50), quantile(P90), quantile(P99), quantile(P999));
        self.mean = (calls > 0).then(|| self.sum as f64 / calls as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::{Mark, Snapshot};

    fn of(marks: &[(&str, u32, u64)]) -> Snapshot {
        let mark = |&(name, type_hash, calls): &(&str, u32, u64)| Mark {
            name: name.into(),
            type_hash,
            calls,
            ..Mark::default()
        };
        Snapshot { marks: marks.iter().map(mark).collect(), ..Snapshot::default() }
    }

    fn calls(snapshot: &Snapshot) -> Vec<(&str, u32, u64)> {
        snapshot.marks.iter().map(|mark| (&*mark.name, mark.type_hash, mark.calls)).collect()
    }

    #[test]
    fn types_of_one_name_are_combined_with_themselves() {
        let mut all = of(&[("work", 1, 10), ("work", 3, 30)]);
        all.merge(&of(&[("work", 2, 2), ("work", 3, 3)]));
        assert_eq!(calls(&all), [("work", 1, 10), ("work", 2, 2), ("work", 3, 33)]);
        assert_eq!(calls(&all.since(&of(&[("work", 3, 30)]))), [("work", 1, 10), ("work", 2, 2), ("work", 3, 3)]);
    }

    #[test]
    fn types_of_distinct_names_are_combined_across_builds() {
        let mut all = of(&[("work<u16>", 1, 10), ("work<u8>", 2, 20)]);
        all.merge(&of(&[("work<u8>", 3, 2), ("work<u16>", 4, 1)]));
        assert_eq!(calls(&all), [("work<u16>", 1, 11), ("work<u8>", 2, 22)]);
        assert_eq!(calls(&all.since(&of(&[("work<u8>", 5, 22)]))), [("work<u16>", 1, 11), ("work<u8>", 2, 0)]);
    }

    #[test]
    fn a_mark_that_is_on_in_one_snapshot_is_on_in_their_sum() {
        let (off, mut on) = (of(&[("f", 0, 0)]), of(&[("f", 0, 1)]));
        on.marks[0].on = true;
        for (mut one, other) in [(off.clone(), &on), (on.clone(), &off)] {
            one.merge(other);
            assert!(one.marks[0].on);
        }
    }
}
