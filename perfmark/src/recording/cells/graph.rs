//! The call graph of one thread: written by it alone, readable by all.
#![allow(unsafe_code, reason = "pointers to nodes that live as long as the thread's memory")]

use std::cell::Cell;
use std::io;
use std::iter;
use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::histogram::add;
use crate::compact::{Map, index_or_push};
use crate::platform::arena::Arena;
use crate::platform::per_process;
use crate::platform::sync::{AtomicPtr, AtomicU64};
use crate::recording::events::EventId;
use crate::recording::mark::Mark;
use crate::recording::random::SEED;
use crate::snapshot::tree::Tree;

/// The most nodes of a thread; with four events each they take 1.5 MiB.
const NODES: usize = 8_192;
/// Additional nodes, for marks whose callers have no node.
const NODES_WITHOUT_CALLERS: usize = NODES / 2;
/// The most nodes of all threads together.
const MERGED: usize = 2 * NODES;
/// Slots of the hash table of nodes: a power of two, of which some remain free.
const SLOTS: usize = 2 * NODES;

/// A mark's calls under one caller, in the thread's arena.
#[repr(C)]
pub(crate) struct Node {
    calls: AtomicU64,
    /// Of the first events.
    few: [Sums; FEW],
    /// Of the others, after the node; null if there are none.
    more: *const [Sums; MANY - FEW],
    events: usize,
    /// Null if the call is inside no other mark.
    caller: *const Node,
    /// The node that was created before this one.
    before: *const Node,
    /// The thread's key for the mark.
    key: usize,
    mark: *const Mark,
}

/// One event's sums over a node's calls.
#[derive(Debug, Default)]
#[repr(C)]
struct Sums {
    /// They wrap, because negative costs are added, too.
    net: AtomicU64,
    inside: AtomicU64,
    /// The number of calls that are not in the sums.
    unmeasured: AtomicU64,
    event: AtomicU64,
}

/// Events of a small node, and of a large one.
const FEW: usize = 4;
const MANY: usize = 16;
const WORDS_OF_NODE: usize = size_of::<Node>().div_ceil(size_of::<u64>());
const WORDS_OF_MORE: usize = size_of::<[Sums; MANY - FEW]>() / size_of::<u64>();

impl Node {
    /// The mark, and the node of its caller. `None` for the pseudo-node [`nowhere`](Graph::nowhere).
    #[cfg(feature = "sampling")]
    pub(crate) fn mark_and_caller(&self) -> Option<(&'static Mark, Option<&Self>)> {
        // SAFETY: null, or a static; null, or a node that lives as long as this one.
        unsafe { Some((self.mark.as_ref()?, self.caller.as_ref())) }
    }

    /// The sums of event `n`, if there is room for them.
    fn sums(&self, n: usize) -> Option<&Sums> {
        // SAFETY: null, or after the node in the same memory, which lives as long as the node.
        self.few.get(n).or_else(|| unsafe { self.more.as_ref() }?.get(n - FEW))
    }

    /// Adds the cost of a call, or of a part of one, in event `n`.
    #[inline]
    pub(crate) fn add_cost(&self, n: usize, net: u64, inside: u64) {
        if let Some(sums) = self.sums(n) {
            add(&sums.net, net);
            add(&sums.inside, inside);
        }
    }

    /// Adds the cost of a call in the first `N` events.
    #[inline]
    pub(crate) fn add_costs<const N: usize, const IS_LEAF: bool>(&self, net: &[u64; N], inside: &[u64; N]) {
        const { assert!(N <= FEW) };
        for n in 0..N {
            add(&self.few[n].net, net[n]);
            if !IS_LEAF {
                add(&self.few[n].inside, inside[n]);
            }
        }
    }

    /// Counts a call that is not in the sums of event `n`.
    pub(crate) fn add_unmeasured(&self, n: usize) {
        if let Some(sums) = self.sums(n) {
            add(&sums.unmeasured, 1);
        }
    }

    #[inline]
    pub(crate) fn add_call(&self) {
        add(&self.calls, 1);
    }
}

/// A thread's nodes.
pub(crate) struct Graph {
    /// The newest node, which points to the one before it.
    newest: AtomicPtr<Node>,
    count: Cell<usize>,
    tables: NonNull<Tables>,
}

/// The tables that only the thread itself reads. Zeroes are an empty table; unused pages take no memory.
#[repr(C)]
struct Tables {
    /// Counts the calls for which there is no node: without room for one, and under such calls.
    nowhere: Node,
    /// The nodes, each in the first free slot, starting from the hash of its caller and its mark.
    known: [Cell<*const Node>; SLOTS],
}

// SAFETY: nodes are written before they are published, and then only their atomic numbers change; only the owning
// thread uses the rest.
unsafe impl Sync for Graph {}
// SAFETY: no node belongs to a thread; whoever owns the graph frees its memory.
unsafe impl Send for Graph {}

impl Graph {
    /// Fails if the kernel has no memory.
    pub(crate) fn new() -> io::Result<Self> {
        let tables = per_process::map(size_of::<Tables>())?.cast();
        Ok(Self { newest: AtomicPtr::new(ptr::null_mut()), count: Cell::new(0), tables })
    }

    fn tables(&self) -> &Tables {
        // SAFETY: mapped as long as this lives and page-aligned; zeroes are valid tables.
        unsafe { self.tables.as_ref() }
    }

    /// The pseudo-node for calls that are in no node.
    pub(crate) fn nowhere(&self) -> *const Node {
        &raw const self.tables().nowhere
    }

    /// Counts a call that is in no node.
    pub(crate) fn lose(&self) {
        self.tables().nowhere.add_call();
    }

    /// The mark's node under that caller, which is null outside of all marks. The key is not 0, and the same key
    /// always has the same events.
    pub(crate) fn callee(&self, caller: *const Node, mark: Known<'_>, arena: &Arena) -> *const Node {
        // The caller has no node, so its callees have none.
        if ptr::eq(caller, self.nowhere()) {
            return caller;
        }
        self.find(caller, mark, arena).unwrap_or_else(|| self.nowhere())
    }

    /// The mark's node for calls whose callers have no node. [`nowhere`](Self::nowhere) if there is no room.
    pub(crate) fn without_callers(&self, mark: Known<'_>, arena: &Arena) -> *const Node {
        self.find(self.nowhere(), mark, arena).unwrap_or_else(|| self.nowhere())
    }

    /// The mark's node under that caller, created if there is none. `None` if there is no room.
    fn find(&self, caller: *const Node, mark: Known<'_>, arena: &Arena) -> Option<*const Node> {
        let first = hash(caller, mark.key);
        let mut slots = (first..SLOTS).chain(0..first).map(|slot| &self.tables().known[slot]);
        // There is always a free slot.
        let slot = slots.find(|slot| {
            // SAFETY: null, or a node of this thread's.
            unsafe { slot.get().as_ref() }.is_none_or(|node| node.caller == caller && node.key == mark.key)
        })?;
        if slot.get().is_null() {
            slot.set(self.make(caller, mark, arena)?);
        }
        Some(slot.get())
    }

    fn make(&self, caller: *const Node, mark: Known<'_>, arena: &Arena) -> Option<*const Node> {
        let most = if ptr::eq(caller, self.nowhere()) { NODES + NODES_WITHOUT_CALLERS } else { NODES };
        if self.count.get() >= most {
            return None;
        }
        let event_ids = || (0..MANY).map_while(mark.event);
        let events = event_ids().count();
        let memory = if events <= FEW {
            arena.take::<WORDS_OF_NODE>()?
        } else {
            arena.take::<{ WORDS_OF_NODE + WORDS_OF_MORE }>()?
        };
        let more = memory.as_ptr().wrapping_add(WORDS_OF_NODE).cast();
        let made = Node {
            few: Default::default(),
            more: if events <= FEW { ptr::null() } else { more },
            caller,
            before: self.newest.load(Relaxed),
            key: mark.key,
            mark: mark.mark,
            events,
            calls: AtomicU64::new(0),
        };
        let node: NonNull<Node> = memory.cast();
        // SAFETY: memory that nobody else uses yet, large enough for the node and its sums; zeroes are valid sums.
        let node = unsafe {
            node.write(made);
            node.as_ref()
        };
        for (sums, event) in (0..events).filter_map(|n| node.sums(n)).zip(event_ids()) {
            sums.event.store(event.number(), Relaxed);
        }
        self.count.set(self.count.get() + 1);
        self.newest.store(ptr::from_ref(node).cast_mut(), Release);
        Some(node)
    }

    /// Adds this graph to `merged`.
    pub(crate) fn add_to(&self, merged: &mut Merged) {
        merged.lost = merged.lost.wrapping_add(self.tables().nowhere.calls.load(Relaxed));
        // SAFETY: null, or a node that lives as long as the thread's memory, which exists as long as this graph.
        let deref = |node: *const Node| unsafe { node.as_ref() };
        let mut nodes: Vec<&Node> =
            iter::successors(deref(self.newest.load(Acquire)), |node| deref(node.before)).collect();
        // Callers were created first.
        nodes.reverse();
        let mut indices: Map<*const Node, usize> = Map::new();
        // Those without events have samples only, and no callees.
        for node in nodes.into_iter().filter(|node| node.events > 0) {
            // SAFETY: marks are statics.
            let mark = unsafe { &*node.mark };
            let caller = indices.get(&node.caller).copied();
            let has_lost_caller = !node.caller.is_null() && caller.is_none();
            let is_full = merged.tree.len() >= MERGED && merged.tree.find(caller, mark.index()).is_none();
            if has_lost_caller || is_full {
                merged.lost = merged.lost.wrapping_add(node.calls.load(Relaxed));
                continue;
            }
            let (index, totals) = merged.tree.at(caller, mark.index());
            indices.insert(node, index);
            let calls = node.calls.load(Relaxed);
            for sums in (0..node.events).filter_map(|n| node.sums(n)) {
                let event = EventId::numbered(sums.event.load(Relaxed));
                let new = || EventSums { event, measured: 0, net: 0, inside: 0 };
                let at = index_or_push(&mut totals.events, |known| known.event == event, new);
                let known = &mut totals.events[at];
                known.measured += calls.saturating_sub(sums.unmeasured.load(Relaxed));
                known.net = known.net.wrapping_add(sums.net.load(Relaxed));
                known.inside = known.inside.wrapping_add(sums.inside.load(Relaxed));
            }
            totals.calls += calls;
        }
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with this length, and no longer used.
        unsafe { per_process::unmap(self.tables.cast(), size_of::<Tables>()) };
    }
}

/// The slot where the search for a node begins: the highest bits of a product that depends on all bits of both
/// addresses.
#[expect(clippy::cast_possible_truncation, reason = "below the number of slots")]
fn hash(caller: *const Node, key: usize) -> usize {
    let both = (caller.addr() as u64).wrapping_mul(SEED) ^ key as u64;
    (both.wrapping_mul(SEED) >> (u64::BITS - SLOTS.ilog2())) as usize
}

/// A mark with the thread's key for it. The function that returns each event that it records there is used only for a
/// new node.
#[derive(Clone, Copy)]
pub(crate) struct Known<'a> {
    pub(crate) key: usize,
    pub(crate) mark: &'static Mark,
    pub(crate) event: &'a dyn Fn(usize) -> Option<EventId>,
}

/// The merged nodes of several threads.
#[derive(Clone, Debug, Default)]
pub(crate) struct Merged {
    /// By the marks' indices.
    pub(crate) tree: Tree<u32, NodeTotals>,
    pub(crate) lost: u64,
}

/// A node's totals.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeTotals {
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
