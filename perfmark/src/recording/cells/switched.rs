//! Calls that end on another thread than they began on, in programs that switch stacks (coroutines).
//!
//! The thread that ends such a call must not touch the frames of the thread that began it, whose memory may be gone.
//! Both threads use this part of the first thread's cells, which the registry keeps as long as that thread lives:
//!
//! - When a call ends on another thread, its number is recorded here. If its own thread has abandoned the call before,
//!   or has ended, the call was counted there.
//! - When a thread abandons calls, because a call below them ended, it counts those that are not recorded here. It then
//!   stores which ones are still on its stack.
//!
//! Both hold the same lock, so that each call is counted once. The owner takes the lock while its recorder is in use,
//! and other threads during perfmark's own work. So a signal handler never waits for the code that it interrupted.
#![allow(unsafe_code, reason = "pointers to numbers that live as long as the thread's cells")]

use std::ptr::NonNull;
use std::slice;
use std::sync::PoisonError;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use crate::platform::arena::Arena;
use crate::platform::sync::{AtomicBool, AtomicU64, Mutex, MutexGuard};

/// The range of numbers for the calls of one thread; it begins at a multiple of this.
pub(crate) const CALLS: u64 = 1 << 40;
/// How many ranges there are. After so many threads, ranges repeat.
pub(crate) const RANGES: u64 = 1 << 20;

/// An upper bound on the number of calls that a thread's stack has room for.
pub(crate) const ROOM: usize = 2_048;

/// The calls of one thread that ended on others.
pub(crate) struct Switched {
    /// The number before the thread's first call.
    first: u64,
    /// Whether frames of such calls are on the thread's stack.
    has_ended: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
pub(crate) struct State {
    /// Calls up to this number are on the thread's stack only if `open` has them.
    looked_at: u64,
    /// [`ROOM`] numbers in the thread's arena, and how many of them are in use.
    open: Option<NonNull<AtomicU64>>,
    count: usize,
    ended: Vec<Ended>,
}

/// A call whose frame is on its thread's stack.
struct Ended {
    number: u64,
    /// The number of its mark's calls that are recorded here. `None` for a skipped call.
    of_mark: Option<NonNull<AtomicU64>>,
}

impl Switched {
    /// For a thread whose calls have the numbers after `first`.
    pub(crate) fn new(first: u64) -> Self {
        Self { first, has_ended: AtomicBool::new(false), state: Mutex::default() }
    }

    /// Whether the number is in the thread's range.
    pub(crate) fn is_its(&self, number: u64) -> bool {
        number.wrapping_sub(self.first) < CALLS
    }

    /// Whether frames of calls that ended elsewhere are on the thread's stack.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended.load(Relaxed)
    }

    /// Whether no call ended elsewhere so far: nothing in the thread's arena is then used for such calls.
    pub(crate) fn is_unused(&self) -> bool {
        let state = self.lock();
        state.open.is_none() && state.ended.is_empty()
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that a call ends on another thread. `false` if the call was counted before: its own thread has abandoned
    /// it, or it is a skipped one.
    ///
    /// `of_mark` finds what counts these calls of its mark, which lives as long as `self`; `None` for a skipped call.
    /// While it looks, the thread removes no frame.
    pub(crate) fn end<'a>(&self, number: u64, of_mark: Option<impl FnOnce() -> Option<&'a AtomicU64>>) -> bool {
        let mut state = self.lock();
        let is_open = number > state.looked_at || state.open().iter().any(|open| open.load(Relaxed) == number);
        let is_skipped = of_mark.is_none();
        let of_mark = of_mark.filter(|_| is_open).and_then(|of_mark| of_mark());
        if of_mark.is_some() || is_open && is_skipped {
            of_mark.inspect(|of_mark| _ = of_mark.fetch_add(1, Relaxed));
            state.ended.push(Ended { number, of_mark: of_mark.map(NonNull::from) });
            self.has_ended.store(true, SeqCst);
        }
        of_mark.is_some()
    }

    /// Forgets all calls, after the thread has checked all of its frames.
    pub(crate) fn forget(&self, state: &mut State) {
        while let Some(ended) = state.ended.pop() {
            ended.forget();
        }
        self.has_ended.store(false, SeqCst);
    }
}

impl State {
    /// Whether the call with that number, whose frame its thread removes, ended on another thread and was counted
    /// there.
    pub(crate) fn take(&mut self, number: u64) -> bool {
        let at = self.ended.iter().position(|ended| ended.number == number);
        at.map(|at| self.ended.swap_remove(at).forget()).is_some()
    }

    /// Stores which calls up to that number are on the thread's stack.
    pub(crate) fn keep(&mut self, looked_at: u64, on_stack: impl Iterator<Item = u64>, arena: &Arena) {
        (self.looked_at, self.count) = (looked_at, 0);
        // Without memory they are treated as abandoned: they stay in flight.
        self.open = self.open.or_else(|| arena.take::<ROOM>());
        let Some(open) = self.open else { return };
        // SAFETY: `ROOM` numbers, which live as long as the thread's arena.
        let open = unsafe { slice::from_raw_parts(open.as_ptr(), ROOM) };
        for (open, number) in open.iter().zip(on_stack) {
            open.store(number, Relaxed);
            self.count += 1;
        }
    }

    fn open(&self) -> &[AtomicU64] {
        // SAFETY: `count` numbers were written, in the thread's arena, which lives as long as `self`.
        self.open.map_or(&[], |open| unsafe { slice::from_raw_parts(open.as_ptr(), self.count) })
    }
}

impl Ended {
    fn forget(self) {
        if let Some(of_mark) = self.of_mark {
            // SAFETY: it lives as long as the thread's cells, of which this is a part.
            unsafe { of_mark.as_ref() }.fetch_sub(1, Relaxed);
        }
    }
}
