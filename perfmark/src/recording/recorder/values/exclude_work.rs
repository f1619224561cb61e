//! Leaves perfmark's own work inside calls out of their values.

use perfmark_rdpmc::{Region, clock};

use crate::recording::reading::EventReading;
use crate::recording::recorder::event_slots::{EVENT_SLOTS, EventSlot, EventSlots};
use crate::recording::recorder::thread::Recorder;
use crate::recording::recorder::values::off_cpu::{store_off_cpu, with_off_cpu};

/// The values of a thread's events at one moment.
pub(crate) struct Readings([Option<EventReading>; EVENT_SLOTS]);

impl Readings {
    /// The values now.
    pub(crate) fn new(slots: &EventSlots, recorder: &Recorder) -> Self {
        let mut values = [None; EVENT_SLOTS];
        let mut read = |is_counter: bool| {
            for (value, slot) in values.iter_mut().zip(slots.iter()) {
                // A first call sets an emulated counter back instead.
                if slot.counter().is_some() == is_counter && slot.emulated().is_none() {
                    *value = slot.reading();
                }
            }
        };
        store_off_cpu(&recorder.stack);
        with_off_cpu(slots.switches(), &recorder.stack, || read(false));
        // Counters may take system calls, which are not repeated.
        read(true);
        Self(values)
    }

    /// Leaves perfmark's own work since these readings out of the open calls. Counters of which that is unknown are
    /// unmeasured in these calls.
    pub(crate) fn exclude_work_since(&self, slots: &EventSlots, recorder: &Recorder) {
        let now = Self::new(slots, recorder);
        let mut work = [None; EVENT_SLOTS];
        for ((work, now), before) in work.iter_mut().zip(now.0).zip(self.0).take(slots.len()) {
            *work = now.zip(before).and_then(|(now, before)| now.exactly_since(before));
        }
        for frame in recorder.stack.iter() {
            let set = frame.plan().set();
            for event in set.events() {
                let raw = frame.raw(event.n);
                match work[event.slot_index] {
                    Some(work) => raw.set(raw.get().wrapping_add(work)),
                    None if !event.slot().is_ticks() && event.slot().emulated().is_none() => {
                        set.split_locks(frame);
                        frame.set_region(event.n, Region::default());
                    }
                    None => {}
                }
            }
        }
    }
}

/// The values of a thread's events at the beginning of short work, which needs no system call: of those that user space
/// reads, the first two parts of a [`Region`]. It is on the program's stack.
pub(crate) struct Moment([[u64; 2]; EVENT_SLOTS]);

impl Moment {
    /// The values now. `None` if no call is open, or if the thread has no thinned marks.
    pub(crate) fn new(recorder: &Recorder) -> Option<Self> {
        let (_, slots) = recorder.thinning()?;
        recorder.stack.innermost()?;
        let mut begun = [[0; 2]; EVENT_SLOTS];
        for (begun, slot) in begun.iter_mut().zip(slots.iter()) {
            if let Some(counter) = user_counter(slot) {
                let mut region = Region::default();
                // Otherwise the work remains in the values.
                _ = counter.begin_unchanged(&mut region);
                let [raw, lock, ..] = region.parts();
                *begun = [raw, lock];
            } else if slot.reads_ticks() {
                // In this order, and below in the other: a switch between both readings changes the lock in between.
                let lock = lock_of_switches(slot);
                *begun = [clock::ticks(), lock];
            }
        }
        Some(Self(begun))
    }
}

/// Leaves perfmark's own work since `before` out of the open calls: the innermost one counts from a later value on, and
/// for those around it, the work is overhead of the innermost. Where a burst begins or ends, the rest of the work for
/// that is left out, too.
pub(crate) fn exclude_work(before: Option<&Moment>, recorder: &Recorder, is_burst_edge: bool) {
    let (Some(Moment(begun)), Some((_, slots))) = (before, recorder.thinning()) else { return };
    let mut work = [0; EVENT_SLOTS];
    for ((work, &[raw, lock]), slot) in work.iter_mut().zip(begun).zip(slots.iter()) {
        if let Some(counter) = user_counter(slot) {
            *work = counter.end_unchanged(&Region::from_parts([raw, lock, 0, 0])).unwrap_or(0);
        } else if slot.reads_ticks() {
            let ticks = clock::ticks().saturating_sub(raw);
            *work = if lock_of_switches(slot) == lock { ticks } else { 0 };
        }
    }
    let Some(frame) = recorder.stack.innermost() else { return };
    let set = frame.plan().set();
    for event in set.events() {
        if is_burst_edge {
            work[event.slot_index] = work[event.slot_index].wrapping_add(set.overhead.at_burst_edge[event.n].get());
        }
        let raw = frame.raw(event.n);
        raw.set(raw.get().wrapping_add(work[event.slot_index]));
    }
    for (overhead, work) in frame.below().inner_overhead.iter().zip(work) {
        overhead.set(overhead.get().wrapping_add(work));
    }
}

/// For `on_cpu`, a number that each context switch changes.
fn lock_of_switches(slot: &EventSlot) -> u64 {
    slot.switches().map_or(0, |switches| switches.lock().into())
}

fn user_counter(slot: &EventSlot) -> Option<&perfmark_rdpmc::Counter> {
    slot.counter().filter(|_| !slot.is_read_by_kernel())
}
