//! A thread that is sampled: the ring of its samples, and notes of the call that each one belongs to.
//!
//! The kernel writes a sample to the ring before the thread continues. So a thread that finds the ring's head where it
//! was has had no sample since. Entry and exit of calls look at the head. If it has moved, they note its position and
//! the innermost open call: all samples between the last look and this one belong to that call.
#![allow(unsafe_code, reason = "shares the owning thread's part with a reader")]
#![cfg_attr(not(feature = "sampling"), allow(dead_code, reason = "nothing is sampled"))]

use std::cell::Cell;
use std::ptr;
use std::sync::Arc as Shared;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicPtr, AtomicU64};

use perfmark_rdpmc::sample::Ring;

use super::graph::{Graph, Node};
use super::mark_cells::ThreadCells;
use crate::platform::sync::Arc;

/// The most notes that nobody has read. A full ring of one page has fewer samples.
const NOTES: usize = 512;

/// A thread and its ring.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct SampledThread {
    /// The head of the ring, in the ring's page.
    head: *const AtomicU64,
    /// The head at the last look.
    seen: Cell<u64>,
    /// Whether the last note had no room.
    was_full: Cell<bool>,
    /// The paths of marks in notes, if the thread's call graph does not have them.
    paths: Option<Graph>,
    written: AtomicU64,
    read: AtomicU64,
    notes: [Slot; NOTES],
    _ring: Shared<Ring>,
    /// The thread's cells, whose arena has the nodes.
    _cells: Arc<ThreadCells>,
}

#[derive(Debug)]
struct Slot {
    position: AtomicU64,
    node: AtomicPtr<Node>,
}

/// Samples before this position, and after the last note's, belong to a call with this path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Note {
    pub(crate) position: u64,
    /// Null outside of all marks, and [`UNKNOWN`].
    pub(crate) node: *const Node,
}

/// The node of samples whose call is unknown, because a note had no room.
pub(crate) const UNKNOWN: *const Node = ptr::dangling();

// SAFETY: only the owning thread uses the cells and the graph's tables. The rest is atomic or never changes. The ring
// is mapped as long as `_ring` lives.
unsafe impl Sync for SampledThread {}
// SAFETY: the same.
unsafe impl Send for SampledThread {}

impl SampledThread {
    /// The calling thread, whose samples go to this ring. `None` in a forked child, which has no ring.
    pub(crate) fn new(ring: Shared<Ring>, paths: Option<Graph>, cells: Arc<ThreadCells>) -> Option<Self> {
        let head = ring.data_head()?;
        let slot = || Slot { position: AtomicU64::new(0), node: AtomicPtr::new(ptr::null_mut()) };
        let this = Self {
            head,
            seen: Cell::new(0),
            was_full: Cell::new(false),
            paths,
            written: AtomicU64::new(0),
            read: AtomicU64::new(0),
            notes: std::array::from_fn(|_| slot()),
            _ring: ring,
            _cells: cells,
        };
        // Samples until now were taken outside of sampled calls.
        this.note(this.moved().unwrap_or(0), ptr::null());
        Some(this)
    }

    /// The ring's head, if there was a sample since the last look. For the owning thread.
    #[inline]
    pub(crate) fn moved(&self) -> Option<u64> {
        // SAFETY: in the page of `_ring`, which is mapped as long as this lives. The recorder of a forked child, which
        // has no ring, does not refer to this.
        let head = unsafe { &*self.head }.load(Relaxed);
        (head != self.seen.get()).then_some(head)
    }

    /// Notes that the samples before this head belong to a call with this path. For the owning thread.
    pub(crate) fn note(&self, head: u64, node: *const Node) {
        self.seen.set(head);
        let written = self.written.load(Relaxed);
        if written - self.read.load(Acquire) >= NOTES as u64 {
            self.was_full.set(true);
            return;
        }
        let node = if self.was_full.replace(false) { UNKNOWN } else { node };
        let slot = &self.notes[index(written)];
        slot.position.store(head, Relaxed);
        slot.node.store(node.cast_mut(), Relaxed);
        self.written.store(written + 1, Release);
    }

    /// The paths of marks, unless they are in the thread's call graph. For the owning thread.
    pub(crate) fn paths(&self) -> Option<&Graph> {
        self.paths.as_ref()
    }

    /// The notes that were not read yet, the oldest first. One reader at a time.
    pub(crate) fn read_notes(&self) -> impl Iterator<Item = Note> + use<'_> {
        let written = self.written.load(Acquire);
        (self.read.load(Relaxed)..written).map(|n| {
            let slot = &self.notes[index(n)];
            let note = Note { position: slot.position.load(Relaxed), node: slot.node.load(Relaxed) };
            self.read.store(n + 1, Release);
            note
        })
    }
}

#[expect(clippy::cast_possible_truncation, reason = "below the number of notes")]
fn index(note: u64) -> usize {
    (note % NOTES as u64) as usize
}
