//! Who was called under whom on one thread: written by it alone, readable by all.
#![allow(unsafe_code, reason = "nodes are found by pointers that live as long as the thread's memory")]

use std::cell::Cell;
use std::collections::BTreeMap;
use std::iter;
use std::ptr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::arena::Arena;
use crate::events::EventId;
use crate::histogram::add;
use crate::mark::Mark;
use crate::sync::{AtomicPtr, AtomicU64};
use crate::tree::Tree;

/// Nodes that a thread has, at most: 1 MiB of them with four events each.
pub(crate) const NODES: usize = 8_192;
/// Calls open at once whose nodes are known; the recorder has room for no more.
const OPEN: usize = 2_048;

/// A mark's calls under one caller. It lies in the thread's arena, and its events' sums behind it.
#[repr(C)]
pub(crate) struct Node {
    /// Null where no mark is around.
    caller: *const Node,
    /// The node made before this one.
    before: *const Node,
    /// The next one of the same caller, and the first one under this: for the thread itself.
    sibling: Cell<*const Node>,
    callees: Cell<*const Node>,
    /// What the thread knows the mark by.
    key: *const (),
    mark: *const Mark,
    /// One for each event, behind the node.
    sums: *const Sums,
    events: usize,
    calls: AtomicU64,
}

/// One event's sums over a node's calls.
#[repr(C)]
struct Sums {
    event: AtomicU64,
    measured: AtomicU64,
    /// They wrap, as what is less than nothing is added, too.
    net: AtomicU64,
    inside: AtomicU64,
}

const WORDS_OF_NODE: usize = size_of::<Node>().div_ceil(size_of::<u64>());
const WORDS_OF_SUMS: usize = size_of::<Sums>() / size_of::<u64>();
/// Events of a small node, and of a large one.
const FEW: usize = 4;
const MANY: usize = 16;

impl Node {
    fn sums(&self) -> &[Sums] {
        // SAFETY: made with room for so many, all numbers, which live as long as the node.
        unsafe { std::slice::from_raw_parts(self.sums, self.events) }
    }

    /// Adds what one of its calls, or a part of one, cost in the event at that place.
    pub(crate) fn add_cost(&self, n: usize, net: u64, inside: u64) {
        if let Some(sums) = self.sums().get(n) {
            add(&sums.measured, 1);
            add(&sums.net, net);
            add(&sums.inside, inside);
        }
    }

    pub(crate) fn add_call(&self) {
        self.calls.store(self.calls.load(Relaxed) + 1, Release);
    }
}

/// A thread's nodes.
pub(crate) struct Graph {
    /// The newest, which names the one before.
    newest: AtomicPtr<Node>,
    /// Calls that are in no node.
    lost: AtomicU64,
    count: Cell<usize>,
    /// The first one that has no caller.
    roots: Cell<*const Node>,
    /// The open calls' numbers and nodes, the outermost first; and how many there are.
    open: Box<[Cell<(u64, *const Node)>]>,
    depth: Cell<usize>,
}

// SAFETY: nodes are written before they are published, and then in numbers only; of the rest, the owning thread alone takes notice.
unsafe impl Sync for Graph {}
// SAFETY: the same.
unsafe impl Send for Graph {}

impl std::fmt::Debug for Graph {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Graph").field("nodes", &self.count).finish_non_exhaustive()
    }
}

impl Graph {
    pub(crate) fn new() -> Self {
        Self {
            newest: AtomicPtr::new(ptr::null_mut()),
            lost: AtomicU64::new(0),
            count: Cell::new(0),
            roots: Cell::new(ptr::null()),
            open: iter::repeat_n(Cell::new((0, ptr::null())), OPEN).collect(),
            depth: Cell::new(0),
        }
    }

    /// A call begins, with a number above those of all that are open; `around` is the number of the innermost of these.
    /// What the thread knows the mark by is not null, and the events are the same for the same key.
    pub(crate) fn enter(&self, number: u64, around: Option<u64>, mark: Known<'_>, arena: &Arena) {
        self.forget(|open| around.is_none_or(|around| open > around));
        let depth = self.depth.get();
        let caller = match depth.checked_sub(1).map(|at| self.open[at].get()) {
            // What is around has no node, and so its callees have none.
            Some((open, _)) if around != Some(open) => None,
            None if around.is_some() => None,
            Some((_, caller)) => Some(caller),
            None => Some(ptr::null()),
        };
        let node = caller.and_then(|caller| self.callee(caller, mark, arena));
        if let (Some(node), Some(open)) = (node, self.open.get(depth)) {
            open.set((number, node));
            self.depth.set(depth + 1);
        } else {
            self.lose();
        }
    }

    /// A call that is in no node.
    pub(crate) fn lose(&self) {
        add(&self.lost, 1);
    }

    /// The node of the open call with that number, which ends; those above it ended without a word.
    pub(crate) fn leave(&self, number: u64) -> Option<&Node> {
        self.forget(|open| open > number);
        let at = self.depth.get().checked_sub(1)?;
        let (open, node) = self.open[at].get();
        if open != number {
            return None;
        }
        self.depth.set(at);
        // SAFETY: a node of this thread's.
        unsafe { node.as_ref() }
    }

    /// Takes the innermost ones off as long as `is_gone` says so.
    fn forget(&self, is_gone: impl Fn(u64) -> bool) {
        while let Some(at) = self.depth.get().checked_sub(1).filter(|&at| is_gone(self.open[at].get().0)) {
            self.depth.set(at);
        }
    }

    /// The mark's node under that caller, made where there is none. None where there is no room.
    fn callee(&self, caller: *const Node, mark: Known<'_>, arena: &Arena) -> Option<*const Node> {
        // SAFETY: null, or nodes of this thread's.
        let deref = |node: *const Node| unsafe { node.as_ref() };
        let list = deref(caller).map_or(&self.roots, |caller| &caller.callees);
        let first = deref(list.get());
        if let Some(known) = iter::successors(first, |node| deref(node.sibling.get())).find(|node| node.key == mark.key)
        {
            return Some(known);
        }
        let node = self.make(caller, mark, arena)?;
        // SAFETY: it was just made.
        unsafe { &*node }.sibling.set(list.replace(node));
        Some(node)
    }

    fn make(&self, caller: *const Node, mark: Known<'_>, arena: &Arena) -> Option<*const Node> {
        if self.count.get() >= NODES {
            return None;
        }
        let events = mark.events.len().min(MANY);
        let memory = if events <= FEW {
            arena.take::<{ WORDS_OF_NODE + FEW * WORDS_OF_SUMS }>()?
        } else {
            arena.take::<{ WORDS_OF_NODE + MANY * WORDS_OF_SUMS }>()?
        };
        let node: *mut Node = memory.cast().as_ptr();
        let made = Node {
            caller,
            before: self.newest.load(Relaxed),
            sibling: Cell::new(ptr::null()),
            callees: Cell::new(ptr::null()),
            key: mark.key,
            mark: mark.mark,
            sums: memory.as_ptr().wrapping_add(WORDS_OF_NODE).cast(),
            events,
            calls: AtomicU64::new(0),
        };
        // SAFETY: memory that nobody else knows yet, large enough for the node and its sums, which zeroes are.
        unsafe {
            node.write(made);
            for (sums, &event) in (*node).sums().iter().zip(mark.events) {
                sums.event.store(event.number(), Relaxed);
            }
        }
        self.count.set(self.count.get() + 1);
        self.newest.store(node, Release);
        Some(node)
    }

    /// Adds what is here to `merged`.
    pub(crate) fn add_to(&self, merged: &mut Merged) {
        merged.lost += self.lost.load(Relaxed);
        // SAFETY: null, or a node that lives as long as the thread's memory, which is there.
        let deref = |node: *const Node| unsafe { node.as_ref() };
        let mut nodes: Vec<&Node> =
            iter::successors(deref(self.newest.load(Acquire)), |node| deref(node.before)).collect();
        // Callers were made before.
        nodes.reverse();
        let mut places: BTreeMap<*const Node, usize> = BTreeMap::new();
        for node in nodes {
            // SAFETY: marks are statics.
            let mark = unsafe { &*node.mark };
            let (place, figures) = merged.tree.at(places.get(&node.caller).copied(), mark.index());
            places.insert(node, place);
            figures.calls += node.calls.load(Acquire);
            for sums in node.sums() {
                let event = EventId::numbered(sums.event.load(Relaxed));
                let at = figures.events.iter().position(|known| known.event == event).unwrap_or_else(|| {
                    figures.events.push(EventSums { event, measured: 0, net: 0, inside: 0 });
                    figures.events.len() - 1
                });
                let known = &mut figures.events[at];
                known.measured += sums.measured.load(Relaxed);
                known.net = known.net.wrapping_add(sums.net.load(Relaxed));
                known.inside = known.inside.wrapping_add(sums.inside.load(Relaxed));
            }
        }
    }
}

/// A mark as a thread knows it, by that key; with the events that it records there.
#[derive(Clone, Copy)]
pub(crate) struct Known<'a> {
    pub(crate) key: *const (),
    pub(crate) mark: &'static Mark,
    pub(crate) events: &'a [EventId],
}

/// Several threads' nodes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Merged {
    /// By the marks' indices.
    pub(crate) tree: Tree<u32, Figures>,
    pub(crate) lost: u64,
}

/// A node's figures.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figures {
    pub(crate) calls: u64,
    pub(crate) events: Vec<EventSums>,
}

#[derive(Clone, Debug)]
pub(crate) struct EventSums {
    pub(crate) event: EventId,
    pub(crate) measured: u64,
    /// They wrap.
    pub(crate) net: u64,
    pub(crate) inside: u64,
}
