//! Probe overhead: as calibration measures it, and as entry and exit look it up.
//!
//! A probe has two kinds of overhead. A part of it is in the call's own value, because it runs between the two readings
//! of the counters: `in_leaf`, `in_caller`, `in_early`. All of it is in the values of the calls around: the other
//! fields. They are separate for each event slot of the thread, because other marks may count other events.
#![allow(unsafe_code, reason = "all cells are written at once")]

use std::array;
use std::cell::Cell;
use std::ptr;

use super::stack::{FRAME_EVENTS, Frame};
use super::state::Recorder;
use crate::recording::events::EventId;
use crate::recording::mark::{CallMode, Mark};
use crate::recording::reading::ReadMethod;
use crate::recording::recorder::event_slots::{EVENT_SLOTS, EventSlots};

/// The most event slots for which the fast path can add overhead to a frame.
pub(crate) const FAST_EVENT_SLOTS: usize = 2 * FRAME_EVENTS;
/// Most threads have no more event slots than this. `fast::end_special` takes less on them.
pub(crate) const FEW_EVENT_SLOTS: usize = 2;

/// The functions that calibration calls. They are empty, and marked as the attribute's expansion does it, or unmarked.
#[derive(Debug)]
pub(crate) struct CalibrationCalls {
    pub(crate) unmarked: fn(),
    /// With `empty_mark`.
    pub(crate) marked: fn(),
    /// With `skipped_mark`, which is thinned, and whose calls are not made of polls.
    pub(crate) skipped: fn(),
    /// The same without a mark.
    pub(crate) unmarked_skipped: fn(),
    pub(crate) unmarked_caller: fn(),
    /// With `caller_mark`; calls `marked`.
    pub(crate) marked_caller: fn(),
    /// With `caller_mark`; calls `unmarked`.
    pub(crate) marked_caller_of_unmarked: fn(),
    /// Calls a function with a thinned mark, `skipped_mark`.
    pub(crate) unmarked_caller_of_skipped: fn(),
    /// With `caller_mark`; calls the same function.
    pub(crate) marked_caller_of_skipped: fn(),
    /// Calls that are suspended once, and twice, if calls are made of polls.
    pub(crate) unmarked_suspended: [fn(); 2],
    pub(crate) marked_suspended: [fn(); 2],
    /// With `empty_mark` and not made of polls: one call runs to its end, the other is left by `return`.
    pub(crate) completed: fn(),
    pub(crate) returned_early: fn(),
    pub(crate) empty_mark: &'static Mark,
    pub(crate) caller_mark: &'static Mark,
    pub(crate) skipped_mark: &'static Mark,
    /// The calls of marks that are thinned, if their marked functions begin them in another way.
    pub(crate) if_thinned: Option<&'static Self>,
}

/// A number for each event of a set, or for each event slot of a thread. Those beyond are zero.
pub(crate) type Numbers = [u64; EVENT_SLOTS];

/// What calibration measures.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MeasuredOverhead {
    pub(crate) probe: ProbeOverhead<u64>,
    /// The noise of `in_leaf` for each event of the set: in nine cases of ten, an empty call shows at most
    /// this much more.
    pub(crate) noise: Numbers,
    /// What a measured call takes in nanoseconds.
    pub(crate) call_ns: f64,
}

/// The overhead of the probe of one event set, on threads with the same events and settings.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct ProbeOverhead<T> {
    /// Overhead in the value of a leaf call, for each event of the set.
    pub(crate) in_leaf: [T; EVENT_SLOTS],
    /// Overhead of a caller's own probe in its value, for each event of the set.
    pub(crate) in_caller: [T; EVENT_SLOTS],
    /// Overhead of a leaf call in the values of the calls around, for each event slot of the thread.
    pub(crate) total: [T; EVENT_SLOTS],
    /// How much more a caller adds than a leaf call, for each event slot.
    pub(crate) caller_extra: [T; EVENT_SLOTS],
    /// Overhead of a skipped call in the values of the calls around, for each event slot.
    pub(crate) skipped: [T; EVENT_SLOTS],
    /// How much more a call adds if calls inside it were skipped, for each event slot.
    pub(crate) skipped_extra: [T; EVENT_SLOTS],
    /// How much more a leaf call adds that is measured without being recorded, for each event slot.
    pub(crate) unrecorded_extra: [T; EVENT_SLOTS],
    /// How much more a call made of polls adds if it is suspended, for each event slot; and each further time it is.
    /// Meaningless for other calls.
    pub(crate) first_suspend_extra: [T; EVENT_SLOTS],
    pub(crate) suspend_extra: [T; EVENT_SLOTS],
    /// How much more a call adds if `return` or `?` ends it, for each event slot; and in its own value, for each event
    /// of the set. Zero for times.
    pub(crate) early_extra: [T; EVENT_SLOTS],
    pub(crate) in_early: [T; EVENT_SLOTS],
    /// What remains in the value of an open call when the work at the begin or end of a burst was left out, for each
    /// event of the set.
    pub(crate) at_burst_edge: [T; EVENT_SLOTS],
}

/// What probe overhead depends on. Calibration runs once for each key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OverheadKey {
    /// The thread's events, and how they are read.
    pub(crate) events: Vec<(EventId, Option<ReadMethod>)>,
    /// The indices of the set's event slots.
    pub(crate) set: Vec<usize>,
    mode: CallMode,
    /// Whether frames track overhead, and whether marks of the thread are thinned. Both take longer.
    tracks_overhead: bool,
    pub(crate) has_thinned: bool,
}

impl OverheadKey {
    pub(crate) fn of(slots: &EventSlots, set: &[usize], mode: CallMode, recorder: &Recorder) -> Self {
        let events = slots.iter().map(|slot| (slot.event, slot.read_method())).collect();
        let (tracks_overhead, has_thinned) = (recorder.tracks_overhead.get(), recorder.has_thinned.get());
        Self { events, set: set.to_vec(), mode, tracks_overhead, has_thinned }
    }
}

/// The inner calls of a call.
#[derive(Clone, Copy, Default)]
pub(crate) struct InnerCalls {
    pub(crate) calls: u64,
    /// The number of them that had inner calls themselves. Meaningless if the thread tracks overhead.
    pub(crate) callers: u64,
    /// The number of them that `return` or `?` ended.
    pub(crate) early: u64,
}

impl InnerCalls {
    /// The inner calls of a call that ends while `serial` is the number of the call that began last.
    #[inline]
    pub(crate) fn of(frame: &Frame, serial: u64) -> Self {
        Self { calls: serial - frame.number(), callers: frame.inner_callers().get(), early: frame.inner_early.get() }
    }

    #[inline]
    pub(crate) fn is_empty(self) -> bool {
        self.calls == 0
    }
}

/// As entry and exit look it up.
impl ProbeOverhead<Cell<u64>> {
    /// Sets the overhead to what was measured.
    pub(crate) fn set(&self, measured: &ProbeOverhead<u64>) {
        // SAFETY: both types are `repr(C)`, and a cell has the layout of its value, so they have the same layout. Every
        // byte is in a cell, to which there are shared references only, and which this thread alone uses.
        unsafe { ptr::from_ref(self).cast_mut().cast::<ProbeOverhead<u64>>().write(*measured) };
    }

    /// The overhead in a call's value for event `n` of the set, which is in this slot. It is the overhead of the call's
    /// own probe and of the probes of its inner calls.
    #[inline]
    pub(crate) fn of_call(
        &self,
        frame: &Frame,
        n: usize,
        slot: usize,
        inner: InnerCalls,
        tracks_overhead: bool,
    ) -> u64 {
        if inner.is_empty() {
            return self.in_leaf[n].get();
        }
        self.of_caller(frame, n, slot, inner, tracks_overhead)
    }

    /// The same for a call that has inner calls.
    #[inline]
    pub(crate) fn of_caller(
        &self,
        frame: &Frame,
        n: usize,
        slot: usize,
        inner: InnerCalls,
        tracks_overhead: bool,
    ) -> u64 {
        let of_inner =
            if tracks_overhead { frame.inner_overhead[slot].get() } else { self.of_inner_calls(inner, slot) };
        let early = inner.early.wrapping_mul(self.early_extra[slot].get());
        self.in_caller[n].get().wrapping_add(of_inner).wrapping_add(early)
    }

    /// The overhead of inner calls in this slot, if all of them have this event set and none ended early.
    #[inline]
    pub(crate) fn of_inner_calls(&self, InnerCalls { calls, callers, .. }: InnerCalls, slot: usize) -> u64 {
        let extra = callers.wrapping_mul(self.caller_extra[slot].get());
        calls.wrapping_mul(self.total[slot].get()).wrapping_add(extra)
    }

    /// Excludes the overhead of an early exit by `return` or `?` from a call of this set: moves its values at entry.
    /// Counts the exit in the frame around. The set has at most [`FRAME_EVENTS`].
    #[inline]
    pub(crate) fn exclude_early_exit(&self, frame: &Frame, around: &Frame) {
        // All loads come before the first store, so that the compiler can combine them.
        let moved: [u64; FRAME_EVENTS] = array::from_fn(|n| frame.begun[n].get().wrapping_add(self.in_early[n].get()));
        frame.begun.iter().zip(moved).for_each(|(begun, moved)| begun.set(moved));
        around.inner_early.set(around.inner_early.get() + 1);
    }
}
