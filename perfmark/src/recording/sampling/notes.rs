//! A thread that is sampled: the ring of its samples, and notes of the call that each one belongs to.
//!
//! The kernel writes a sample to the ring before the thread continues. So a thread that finds the ring's head where it
//! was has had no sample since. Entry and exit of calls look at the head. If it has moved, they note its position and
//! the innermost open call: all samples between the last look and this one belong to that call.
#![allow(unsafe_code, reason = "shares the owning thread's part with a reader")]

use std::cell::{Cell, OnceCell};
use std::ptr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, fence};
use std::sync::{Arc as Shared, Mutex, OnceLock, PoisonError};

use perfmark_rdpmc::sample::Ring;

use crate::platform::errno::KeepErrno;
use crate::platform::sync::Arc;
use crate::recording::cells::{Graph, Holds, Node, ThreadCells};

/// A thread and its ring.
#[derive(Default)]
pub(crate) struct SampledThread {
    watch: Watch,
    /// Whether the last note had no room.
    was_full: AtomicBool,
    /// The number of the thread's last call at the last note in a call. Sampled calls that were open then keep their
    /// nodes in their frames.
    noted: Cell<u64>,
    /// The number of the innermost open call that is not sampled, because it began before sampling; 0 if there is none.
    older: AtomicU64,
    /// The number of the innermost call with a frame, inside which a call began that got none.
    around_too_deep: Cell<u64>,
    /// Whether sampling has started again since the last note, while calls were open.
    has_restarted: AtomicBool,
    /// 1 if there is a ring.
    has_ring: AtomicU64,
    written: AtomicU64,
    read: AtomicU64,
    /// The ring and the notes about it. Most short threads end before they have one.
    ring: OnceLock<(Shared<Ring>, Box<[Slot]>)>,
    /// The paths of marks in notes, if the thread's call graph does not have them. Created for the first note.
    paths: OnceCell<Option<Graph>>,
    /// The cells of calls that are skipped, which the thread's cells do not have.
    skipped: Mutex<Vec<Shared<dyn Holds>>>,
    /// The cells of a thread that has ended, whose arena has the nodes.
    kept: OnceLock<Arc<ThreadCells>>,
}

/// Looks whether there was a sample: the one of the thread, and a copy in each plan, where it takes the fewest
/// instructions.
#[repr(C)]
pub(crate) struct Watch {
    /// The head of the ring, in the ring's page; or `has_ring`, as long as the thread has not looked since it has a
    /// ring; or a word that never moves. It is next to `seen`, so that one instruction loads both on arm64.
    head: Cell<*const AtomicU64>,
    /// The head at the last look.
    seen: Cell<u64>,
}

impl Default for Watch {
    fn default() -> Self {
        Self::of(None)
    }
}

impl Watch {
    /// For calls that are sampled there, if anywhere.
    pub(crate) fn of(sampled: Option<&SampledThread>) -> Self {
        static NEVER_MOVES: AtomicU64 = AtomicU64::new(0);
        let watch = Self { head: Cell::new(&raw const NEVER_MOVES), seen: Cell::new(0) };
        if let Some(sampled) = sampled {
            watch.update(sampled);
        }
        watch
    }

    /// The ring's head, if there was a sample since the last look. For the owning thread.
    #[inline]
    fn moved(&self) -> Option<u64> {
        // SAFETY: static, in a `SampledThread`, or in the page of its `ring`, which is mapped as long as it lives. The
        // recorder of a forked child, which has no ring, does not refer to this.
        let head = unsafe { &*self.head.get() }.load(Relaxed);
        (head != self.seen.get()).then_some(head)
    }

    /// Whether there was a sample since the last look.
    #[inline]
    pub(crate) fn has_moved(&self) -> bool {
        self.moved().is_some()
    }

    /// Copies that of the thread.
    pub(crate) fn update(&self, sampled: &SampledThread) {
        self.head.set(sampled.watch.head.get());
        self.seen.set(sampled.watch.seen.get());
    }
}

struct Slot {
    position: AtomicU64,
    node: AtomicPtr<Node>,
}

/// Samples before this position, and after the last note's, belong to a call with this path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Note {
    pub(crate) position: u64,
    /// Null outside of all marks, [`UNKNOWN`], or [`TOO_DEEP`].
    pub(crate) node: *const Node,
}

/// The node of samples whose call is unknown, because a note had no room.
pub(crate) const UNKNOWN: *const Node = ptr::dangling();
/// The node of samples in calls that got no frame, because the thread has too many open calls.
pub(crate) const TOO_DEEP: *const Node = UNKNOWN.wrapping_add(1);

// SAFETY: only the owning thread uses the cells and the paths. The rest is atomic or set once. The ring is mapped as
// long as `ring` has it.
unsafe impl Sync for SampledThread {}
// SAFETY: its pointers are into itself and into the ring, which `ring` keeps mapped; another thread only drops it.
unsafe impl Send for SampledThread {}

impl SampledThread {
    /// A thread without a ring. `older` is the number of its innermost open call, or 0.
    pub(crate) fn new(older: u64) -> Arc<Self> {
        let this = Arc::new(Self { older: AtomicU64::new(older), ..Self::default() });
        this.watch.head.set(&raw const this.has_ring);
        this
    }

    /// The thread's samples go to this ring from now on, which is still stopped: so the thread looks into the ring
    /// before the first call that begins or ends after a sample. `samples` is the most samples that the ring has room
    /// for. Once; for any thread.
    pub(crate) fn set_ring(&self, ring: &Shared<Ring>, samples: usize) {
        let slot = || Slot { position: AtomicU64::new(0), node: AtomicPtr::new(ptr::null_mut()) };
        // A note is about a sample at least.
        let notes = (0..samples.max(1)).map(|_| slot()).collect();
        if self.ring.set((Shared::clone(ring), notes)).is_ok() {
            self.has_ring.store(1, Release);
        }
    }

    /// The same for a ring that has samples already. They were taken outside of sampled calls: if `is_unknown`, perhaps
    /// in calls that began before sampling. For the owning thread.
    pub(crate) fn take_over(&self, ring: &Shared<Ring>, samples: usize, is_unknown: bool) {
        self.set_ring(ring, samples);
        if let Some(head) = self.moved() {
            let is_unknown = is_unknown || self.older.load(Relaxed) > 0;
            self.note(head, if is_unknown { UNKNOWN } else { ptr::null() });
        }
    }

    /// Whether samples since the last look may be in calls that began before sampling, which do not look when they end.
    /// `innermost` is the number of the innermost open call, or 0, and `unsampled` that of the innermost open call that
    /// is not sampled. For the owning thread.
    pub(crate) fn may_be_in_older(&self, innermost: u64, unsampled: impl FnOnce() -> u64) -> bool {
        let (older, has_restarted) = (self.older.load(Relaxed), self.has_restarted.load(Relaxed));
        if older == 0 && !has_restarted {
            return false;
        }
        // First, so that nobody sees neither.
        self.older.store(unsampled(), Relaxed);
        self.has_restarted.store(false, Release);
        has_restarted || innermost <= older
    }

    /// Sampling starts again, while calls are open on the thread. For any thread.
    pub(crate) fn restart(&self) {
        self.has_restarted.store(true, Relaxed);
    }

    /// Another thread, without open calls, uses this from now on, in which there was no ring.
    pub(crate) fn reuse(&self) {
        self.older.store(0, Relaxed);
        self.has_restarted.store(false, Relaxed);
    }

    /// Whether it is unknown to which call the samples after the last note belong.
    pub(crate) fn is_unknown(&self) -> bool {
        // In this order: `has_restarted` may become `older`.
        let may_be_in_older = self.has_restarted.load(Acquire) || self.older.load(Relaxed) > 0;
        may_be_in_older || self.was_full.load(Relaxed)
    }

    /// Calls that are skipped have these cells.
    pub(crate) fn add_skipped(&self, cells: Shared<dyn Holds>) {
        self.skipped.lock().unwrap_or_else(PoisonError::into_inner).push(cells);
    }

    /// Whether a skipped call is open. For any thread.
    pub(crate) fn has_open_skipped(&self) -> bool {
        let skipped = self.skipped.lock().unwrap_or_else(PoisonError::into_inner);
        skipped.iter().any(|holder| holder.cells().open.load(Relaxed) > 0)
    }

    /// Whether there was neither a ring nor a note, so that another thread can use this.
    pub(crate) fn is_unused(&self) -> bool {
        self.ring.get().is_none() && self.written.load(Relaxed) == 0
    }

    /// Keeps the cells of the thread, which ends, as long as there may be notes that nobody has read. For the owning
    /// thread.
    pub(crate) fn keep(&self, cells: &Arc<ThreadCells>) {
        if self.written.load(Relaxed) > 0 {
            _ = self.kept.set(Arc::clone(cells));
        }
    }

    /// The ring's head, if there was a sample since the last look. For the owning thread.
    #[inline]
    pub(crate) fn moved(&self) -> Option<u64> {
        self.watch.moved()
    }

    /// Notes that the samples before this head, which [`moved`](Self::moved) returned, belong to a call with this path.
    /// For the owning thread.
    pub(crate) fn note(&self, mut head: u64, node: *const Node) {
        // The ring was set before `has_ring` was.
        fence(Acquire);
        let Some((ring, notes)) = self.ring.get() else { return };
        if ptr::eq(self.watch.head.get(), &raw const self.has_ring)
            && let Some(ring_head) = ring.data_head()
        {
            self.watch.head.set(ring_head);
            head = ring_head.load(Relaxed);
        }
        self.watch.seen.set(head);
        let written = self.written.load(Relaxed);
        if written - self.read.load(Acquire) >= notes.len() as u64 {
            self.was_full.store(true, Relaxed);
            return;
        }
        let node = if self.was_full.load(Relaxed) { UNKNOWN } else { node };
        self.was_full.store(false, Relaxed);
        let slot = &notes[index(written, notes)];
        slot.position.store(head, Relaxed);
        slot.node.store(node.cast_mut(), Relaxed);
        self.written.store(written + 1, Release);
        // Who sees that a call has ended sees its notes.
        fence(Release);
    }

    /// A call begins that gets no frame, inside the call with this number. Its exit leaves no trace, so samples until
    /// that one ends may be in either. For the owning thread.
    pub(crate) fn begin_too_deep(&self, around: u64) {
        self.around_too_deep.set(around);
    }

    /// Whether calls without frames began in the call with this number. For the owning thread.
    pub(crate) fn is_around_too_deep(&self, call: u64) -> bool {
        self.around_too_deep.get() == call
    }

    /// The number of the thread's last call at the last note in a call; from now on, this one. For the owning thread.
    pub(crate) fn replace_noted(&self, serial: u64) -> u64 {
        self.noted.replace(serial)
    }

    /// The paths of marks, for threads without a call graph. `None` if there is no memory. For the owning thread.
    pub(crate) fn paths(&self) -> Option<&Graph> {
        let new = || {
            let _errno = KeepErrno::new();
            Graph::new().ok()
        };
        self.paths.get_or_init(new).as_ref()
    }

    /// The notes that were not read yet, the oldest first. One reader at a time.
    pub(crate) fn read_notes(&self) -> impl Iterator<Item = Note> + use<'_> {
        let written = self.written.load(Acquire);
        let notes = self.ring.get().map_or(&[][..], |(_, notes)| notes);
        (self.read.load(Relaxed)..written).map(move |n| {
            let slot = &notes[index(n, notes)];
            let note = Note { position: slot.position.load(Relaxed), node: slot.node.load(Relaxed) };
            self.read.store(n + 1, Release);
            note
        })
    }
}

#[expect(clippy::cast_possible_truncation, reason = "below the number of notes")]
fn index(note: u64, notes: &[Slot]) -> usize {
    (note % notes.len() as u64) as usize
}
