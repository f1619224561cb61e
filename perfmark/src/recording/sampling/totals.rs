//! All samples of one event until now, by the path of marks and the stack.

use std::collections::BTreeMap;

use super::notes::{TOO_DEEP, UNKNOWN};
use super::unwind::Address;
use crate::recording::cells::Node;
use crate::snapshot::tree::Tree;
use crate::snapshot::{Counted, SampleTime, TimedThread};

/// The number of samples with each stack: the executed instruction, then the calls that led to it.
pub(crate) type Stacks = BTreeMap<Vec<Address>, Counted>;

/// The most paths of marks. Beyond them, samples are added to their mark without its callers.
const MOST_PATHS: usize = 1 << 14;
/// The most stacks, with callers and of the executed instruction alone: of all paths, and of a thread whose call is
/// still open. Beyond them, samples are added [without callers](count), and to no known code.
const MOST_STACKS: [usize; 2] = [1 << 12, 1 << 13];
/// The most names of threads. Beyond them, samples outside of marks belong to threads without a name.
const MOST_THREADS: usize = 64;
/// The most samples with times.
const MOST_TIMES: usize = 1 << 17;

/// Adds samples with one stack to those of a call that is still open.
pub(super) fn count_waiting(into: &mut Stacks, stack: Vec<Address>, samples: Counted) {
    let has_room = MOST_STACKS.map(|most| into.len() < most);
    count(into, stack, samples, has_room);
}

/// Adds samples with one stack. If there is no room for another stack with callers, they are added to the executed
/// instruction alone; and if there is none for that, to no known code. Returns the index of the kind of stack that is
/// new, if one is.
fn count(into: &mut Stacks, mut stack: Vec<Address>, samples: Counted, has_room: [bool; 2]) -> Option<usize> {
    let kind = |stack: &[Address]| usize::from(stack.len() < 2);
    if !into.contains_key(&stack) && !has_room[kind(&stack)] {
        stack.truncate(1);
        if !into.contains_key(&stack) && !has_room[1] {
            stack = vec![Address::default()];
        }
    }
    if let Some(known) = into.get_mut(&stack) {
        known.samples += samples.samples;
        known.times.extend(samples.times);
        return None;
    }
    stack.shrink_to_fit();
    let new = kind(&stack);
    into.insert(stack, samples);
    Some(new)
}

/// The samples of all threads.
#[derive(Clone, Debug, Default)]
pub(crate) struct Totals {
    /// By the marks' indices. A mark that calls itself is there once.
    pub(crate) paths: Tree<u32, Stacks>,
    /// The program was in no call of a mark: by the names of threads.
    pub(crate) outside: BTreeMap<Option<String>, Stacks>,
    /// The number of samples whose call is unknown: a thread had more calls with samples than notes, or it was a
    /// call of a hidden mark, by which probe overhead is measured.
    pub(crate) unknown: u64,
    /// The number of samples in calls that got no frame.
    pub(crate) too_deep: u64,
    /// The number of samples in marks whose callers are unknown, because there were too many paths.
    pub(crate) without_callers: u64,
    /// The number of samples for which the kernel had no room.
    pub(crate) lost: u64,
    /// How often the kernel took no samples for a while, because there were too many.
    pub(crate) throttled: u64,
    /// The threads that have samples with times.
    pub(crate) threads: Vec<TimedThread>,
    /// The number of samples with times.
    times: usize,
    /// The number of stacks of each kind.
    stacks: [usize; 2],
}

impl Totals {
    /// So many samples of a thread at one time, which is `None` if times were not asked for. `place` is the thread's
    /// index in `threads`, once it has one.
    pub(super) fn counted(
        &mut self,
        samples: u64,
        time: Option<u64>,
        place: &mut Option<usize>,
        thread: impl FnOnce() -> TimedThread,
    ) -> Counted {
        let mut counted = Counted::from(samples);
        if let Some(time) = time.filter(|_| self.times < MOST_TIMES) {
            let thread = *place.get_or_insert_with(|| {
                self.threads.push(thread());
                self.threads.len() - 1
            });
            counted.times.extend((0..samples).map(|_| SampleTime::from((time, thread))));
            self.times += counted.times.len();
        }
        counted
    }

    /// Adds samples that belong to a call with this path, of a thread with this name.
    ///
    /// # Safety
    ///
    /// The node is null, [`UNKNOWN`], [`TOO_DEEP`], or a node whose thread's cells exist.
    #[allow(unsafe_code, reason = "nodes are found by pointers")]
    pub(super) unsafe fn add(&mut self, samples: Stacks, node: *const Node, thread: Option<&str>) {
        if samples.is_empty() {
            return;
        }
        let into = if node.is_null() {
            let has_room = self.outside.len() < MOST_THREADS;
            let thread = thread.map(str::to_owned);
            let thread = if has_room || self.outside.contains_key(&thread) { thread } else { None };
            self.outside.entry(thread).or_default()
        } else {
            let taken = samples.values().map(|count| count.samples).sum::<u64>();
            if node == TOO_DEEP {
                self.too_deep += taken;
                return;
            }
            // SAFETY: this function's contract.
            let path = if node == UNKNOWN { None } else { path(unsafe { &*node }) };
            let Some((mut marks, mut is_whole)) = path else {
                self.unknown += taken;
                return;
            };
            is_whole &= self.has_room(&marks);
            if !is_whole {
                self.without_callers += taken;
                marks.truncate(1);
            }
            let above = marks.into_iter().rev().fold(None, |above, mark| Some(self.paths.at(above, mark).0));
            let Some(path) = above else { return };
            self.paths.value_mut(path)
        };
        for (stack, samples) in samples {
            let has_room = [0, 1].map(|kind| self.stacks[kind] < MOST_STACKS[kind]);
            if let Some(new) = count(into, stack, samples, has_room) {
                self.stacks[new] += 1;
            }
        }
    }

    /// Whether there is room for these marks, the innermost one first.
    fn has_room(&self, marks: &[u32]) -> bool {
        let known = |above: Option<Option<usize>>, &mark| self.paths.find(above?, mark).map(Some);
        self.paths.len() + marks.len() <= MOST_PATHS || marks.iter().rev().fold(Some(None), known).is_some()
    }
}

/// The marks of a node's path, the innermost one first, and whether all callers are known. A mark that calls itself is
/// there once. `None` if it contains a hidden mark, or is unknown.
fn path(node: &Node) -> Option<(Vec<u32>, bool)> {
    let (mut marks, mut next) = (Vec::new(), Some(node));
    while let Some(node) = next {
        let Some((mark, caller)) = node.mark_and_caller() else { break };
        if mark.index() == 0 {
            return None;
        }
        if marks.last() != Some(&mark.index()) {
            marks.push(mark.index());
        }
        next = caller;
    }
    (!marks.is_empty()).then_some((marks, next.is_none()))
}

#[cfg(all(test, not(miri)))]
#[allow(unsafe_code, reason = "the null node")]
mod tests {
    use std::ptr;

    use super::*;

    #[test]
    fn samples_of_a_call_that_stays_open_lose_their_callers_before_their_instruction() {
        let mut stacks = Stacks::new();
        for n in 1..=6_000 {
            count_waiting(&mut stacks, vec![(0, n), (0, 7)], 1.into());
        }
        let executed = |stack: &&Vec<Address>| stack[0] != Address::default();
        assert_eq!((stacks.len(), stacks.keys().filter(executed).count()), (6_000, 6_000));
        assert_eq!(stacks.keys().filter(|stack| stack.len() == 2).count(), MOST_STACKS[0]);
    }

    #[test]
    fn samples_outside_of_marks_are_kept_by_the_names_of_few_threads() {
        let mut totals = Totals::default();
        let mut add = |thread: &str| {
            let samples = Stacks::from([(vec![Address::default()], 2.into())]);
            // SAFETY: the node is null.
            unsafe { totals.add(samples, ptr::null(), Some(thread)) };
        };
        (0..1_000).for_each(|n| add(&format!("thread {n}")));
        (0..1_000).for_each(|_| add("thread 0"));
        let of = |thread: Option<&str>| {
            totals.outside[&thread.map(str::to_owned)].values().map(|count| count.samples).sum::<u64>()
        };
        assert_eq!(totals.outside.len(), MOST_THREADS + 1);
        assert_eq!(of(Some("thread 0")), 2 + 2_000);
        assert_eq!(of(None), 2 * (1_000 - MOST_THREADS as u64));
    }
}
