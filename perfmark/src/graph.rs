//! Who was called under whom on one thread: written by it alone, readable by all.
#![allow(unsafe_code, reason = "nodes are found by pointers that live as long as the thread's memory")]

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io;
use std::iter;
use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::arena::Arena;
use crate::events::EventId;
use crate::histogram::add;
use crate::mark::Mark;
use crate::per_process;
use crate::sync::{AtomicPtr, AtomicU64};
use crate::tree::Tree;

/// Nodes that a thread has, at most: 1.5 MiB of them with four events each.
const NODES: usize = 8_192;
/// Nodes of all threads together, at most.
const MERGED: usize = 2 * NODES;
/// Places where nodes are looked for: a power of two, twice as many as there are nodes.
const PLACES: usize = 2 * NODES;
/// A mark's calls under one caller. It lies in the thread's arena, and its events' sums behind it.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Node {
    calls: AtomicU64,
    /// One for each event, behind the node.
    sums: *const Sums,
    events: usize,
    /// Null where no mark is around.
    caller: *const Node,
    /// The node made before this one.
    before: *const Node,
    /// What the thread knows the mark by.
    key: *const (),
    mark: *const Mark,
}

/// One event's sums over a node's calls.
#[repr(C)]
struct Sums {
    /// They wrap, as what is less than nothing is added, too.
    net: AtomicU64,
    inside: AtomicU64,
    /// Calls that are not in the sums.
    unmeasured: AtomicU64,
    event: AtomicU64,
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
    #[inline]
    pub(crate) fn add_cost(&self, n: usize, net: u64, inside: u64) {
        if let Some(sums) = self.sums().get(n) {
            add(&sums.net, net);
            add(&sums.inside, inside);
        }
    }

    /// The same for the first events, of which it has so many.
    ///
    /// # Safety
    ///
    /// The node was made for a mark of `N` events or more, or is [nowhere](Graph::nowhere).
    #[inline]
    pub(crate) unsafe fn add_costs<const N: usize, const IS_LEAF: bool>(&self, net: &[u64; N], inside: &[u64; N]) {
        // SAFETY: this function's contract.
        let sums = unsafe { &*self.sums.cast::<[Sums; N]>() };
        for n in 0..N {
            add(&sums[n].net, net[n]);
            if !IS_LEAF {
                add(&sums[n].inside, inside[n]);
            }
        }
    }

    /// Notes that a call is not in the sums of the event at that place.
    pub(crate) fn add_unmeasured(&self, n: usize) {
        if let Some(sums) = self.sums().get(n) {
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
    /// The newest, which names the one before.
    newest: AtomicPtr<Node>,
    count: Cell<usize>,
    tables: NonNull<Tables>,
}

/// What the thread itself looks into. Zeroes are empty; what is not used takes no memory.
#[repr(C)]
struct Tables {
    /// Stands in for the nodes that there is no room for, and for those under them.
    nowhere: Node,
    sums: [Sums; MANY],
    /// Nodes, each at the first free place from the one that its caller and its mark give.
    known: [Cell<*const Node>; PLACES],
}

// SAFETY: nodes are written before they are published, and then in numbers only; of the rest, the owning thread alone
// takes notice.
unsafe impl Sync for Graph {}
// SAFETY: the same.
unsafe impl Send for Graph {}

impl std::fmt::Debug for Graph {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Graph").field("nodes", &self.count).finish_non_exhaustive()
    }
}

impl Graph {
    /// None where the kernel has no memory.
    pub(crate) fn new() -> io::Result<Self> {
        let tables = per_process::map(size_of::<Tables>())?.cast::<Tables>();
        // SAFETY: just mapped, and aligned as a page is; zeroes are tables.
        unsafe {
            let sums = (&raw const (*tables.as_ptr()).sums).cast();
            let nowhere = &raw mut (*tables.as_ptr()).nowhere;
            ((*nowhere).sums, (*nowhere).events) = (sums, MANY);
        }
        Ok(Self { newest: AtomicPtr::new(ptr::null_mut()), count: Cell::new(0), tables })
    }

    fn tables(&self) -> &Tables {
        // SAFETY: mapped as long as this lives, aligned as a page is; zeroes are tables.
        unsafe { self.tables.as_ref() }
    }

    /// Takes the calls that are in no node.
    pub(crate) fn nowhere(&self) -> *const Node {
        &raw const self.tables().nowhere
    }

    /// Notes a call that is in no node.
    pub(crate) fn lose(&self) {
        self.tables().nowhere.add_call();
    }

    /// The mark's node under that caller, which is null where no mark is around. What the thread knows the mark by is
    /// not null, and the events are the same for the same key.
    pub(crate) fn callee(&self, caller: *const Node, mark: Known<'_>, arena: &Arena) -> *const Node {
        // What is around has no node, and so its callees have none.
        if ptr::eq(caller, self.nowhere()) {
            return caller;
        }
        self.find(caller, mark, arena).unwrap_or_else(|| self.nowhere())
    }

    /// The mark's node under that caller, made where there is none. None where there is no room.
    fn find(&self, caller: *const Node, mark: Known<'_>, arena: &Arena) -> Option<*const Node> {
        let first = place_of(caller, mark.key);
        let mut places = (first..PLACES).chain(0..first).map(|place| &self.tables().known[place]);
        // There always is a free one.
        let place = places.find(|place| {
            // SAFETY: null, or a node of this thread's.
            unsafe { place.get().as_ref() }.is_none_or(|node| node.caller == caller && node.key == mark.key)
        })?;
        if place.get().is_null() {
            place.set(self.make(caller, mark, arena)?);
        }
        Some(place.get())
    }

    fn make(&self, caller: *const Node, mark: Known<'_>, arena: &Arena) -> Option<*const Node> {
        if self.count.get() >= NODES {
            return None;
        }
        let events = mark.events.min(MANY);
        let memory = if events <= FEW {
            arena.take::<{ WORDS_OF_NODE + FEW * WORDS_OF_SUMS }>()?
        } else {
            arena.take::<{ WORDS_OF_NODE + MANY * WORDS_OF_SUMS }>()?
        };
        let node: *mut Node = memory.cast().as_ptr();
        let made = Node {
            caller,
            before: self.newest.load(Relaxed),
            key: mark.key,
            mark: mark.mark,
            sums: memory.as_ptr().wrapping_add(WORDS_OF_NODE).cast(),
            events,
            calls: AtomicU64::new(0),
        };
        // SAFETY: memory that nobody else knows yet, large enough for the node and its sums, which zeroes are.
        unsafe {
            node.write(made);
            for (n, sums) in (*node).sums().iter().enumerate() {
                sums.event.store((mark.event)(n).number(), Relaxed);
            }
        }
        self.count.set(self.count.get() + 1);
        self.newest.store(node, Release);
        Some(node)
    }

    /// Adds what is here to `merged`.
    pub(crate) fn add_to(&self, merged: &mut Merged) {
        merged.lost = merged.lost.wrapping_add(self.tables().nowhere.calls.load(Relaxed));
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
            let caller = places.get(&node.caller).copied();
            let is_under_none = !node.caller.is_null() && caller.is_none();
            let is_full = merged.tree.len() >= MERGED && merged.tree.find(caller, mark.index()).is_none();
            if is_under_none || is_full {
                merged.lost = merged.lost.wrapping_add(node.calls.load(Relaxed));
                continue;
            }
            let (place, figures) = merged.tree.at(caller, mark.index());
            places.insert(node, place);
            let calls = node.calls.load(Relaxed);
            for sums in node.sums() {
                let event = EventId::numbered(sums.event.load(Relaxed));
                let at = figures.events.iter().position(|known| known.event == event).unwrap_or_else(|| {
                    figures.events.push(EventSums { event, measured: 0, net: 0, inside: 0 });
                    figures.events.len() - 1
                });
                let known = &mut figures.events[at];
                known.measured += calls.saturating_sub(sums.unmeasured.load(Relaxed));
                known.net = known.net.wrapping_add(sums.net.load(Relaxed));
                known.inside = known.inside.wrapping_add(sums.inside.load(Relaxed));
            }
            figures.calls += calls;
        }
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, and nobody's any more.
        unsafe { per_process::unmap(self.tables.cast(), size_of::<Tables>()) };
    }
}

/// Where a node is looked for first: by the highest bits of a product, which all of both addresses' bits change.
#[expect(clippy::cast_possible_truncation, reason = "below the number of places")]
fn place_of(caller: *const Node, key: *const ()) -> usize {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let both = (caller.addr() as u64).wrapping_mul(ODD) ^ key.addr() as u64;
    (both.wrapping_mul(ODD) >> (u64::BITS - PLACES.ilog2())) as usize
}

/// A mark as a thread knows it, by that key. The number of events that it records there, and the function that returns
/// each, are used for a new node only.
#[derive(Clone, Copy)]
pub(crate) struct Known<'a> {
    pub(crate) key: *const (),
    pub(crate) mark: &'static Mark,
    pub(crate) events: usize,
    pub(crate) event: &'a dyn Fn(usize) -> EventId,
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
