//! Leaves perfmark's own work inside calls out of their values.

use perfmark_rdpmc::{Delta, Region, clock};

use crate::recording::reading::EventReading;
use crate::recording::recorder::event_slots::{EVENT_SLOTS, EventSlot, EventSlots};
use crate::recording::recorder::thread::{FrameRef, Recorder, detach};
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
    /// The values now. `None` if no call is open, and nothing is learned from bursts.
    pub(crate) fn new(recorder: &Recorder) -> Option<Self> {
        Self::at_end(recorder, None)
    }

    /// The same at the end of a call, whose frame holds what was counted.
    pub(crate) fn at_end(recorder: &Recorder, ended: Option<FrameRef>) -> Option<Self> {
        let slots = recorder.slots()?;
        recorder.stack.innermost().map(drop).or_else(|| recorder.thinning().map(drop))?;
        let (mut begun, mut is_changed) = ([[0; 2]; EVENT_SLOTS], false);
        for (begun, slot) in begun.iter_mut().zip(slots.iter()) {
            if let Some(counter) = user_counter(slot) {
                let mut region = Region::default();
                // Otherwise the work remains in the values.
                if !counter.begin_unchanged(&mut region) && counter.remember_page() {
                    is_changed = true;
                    _ = counter.begin_unchanged(&mut region);
                }
                let [raw, lock, ..] = region.parts();
                *begun = [raw, lock];
            } else if slot.reads_ticks() {
                // In this order, and below in the other: a switch between both readings changes the lock in between.
                let lock = lock_of_switches(slot);
                *begun = [clock::ticks(), lock];
            }
        }
        if is_changed {
            // A counter that remembers its page anew will forget what it knew when these calls began.
            detach(recorder.stack.iter().filter(|frame| Some(*frame) != ended));
        }
        Some(Self(begun))
    }
}

/// In fewer ticks, no other thread has the CPU: it is less than a millisecond with each processor's tick counter.
const SHORT_WORK: u64 = 1 << 12;

/// The most open calls that work is left out of, if their frames do not track overhead.
const DEPTH: usize = 64;

/// Leaves perfmark's own work since `before` out of the open calls: the innermost one counts from a later value on, and
/// for those around it, the work is overhead of the innermost. Without that account, they count from later values on,
/// too. Where a burst begins or ends, the rest of the work for that is left out, too. If no call is open, only the
/// overhead of the thread's calls includes it.
pub(crate) fn exclude_work(before: Option<&Moment>, recorder: &Recorder, is_burst_edge: bool) {
    let (Some(Moment(begun)), Some(slots)) = (before, recorder.slots()) else { return };
    let (mut work, mut may_be_long) = ([0; EVENT_SLOTS], false);
    for ((work, &[raw, lock]), slot) in work.iter_mut().zip(begun).zip(slots.iter()) {
        if let Some(counter) = user_counter(slot) {
            *work = counter.end_unchanged(&Region::from_parts([raw, lock, 0, 0])).unwrap_or(0);
        } else if slot.reads_ticks() {
            let ticks = clock::ticks().saturating_sub(raw);
            *work = if lock_of_switches(slot) == lock { ticks } else { 0 };
            may_be_long |= ticks > SHORT_WORK;
        }
    }
    // What is executed from here on remains in the values of calls.
    if may_be_long && let Some((thinning, _)) = recorder.thinning() {
        thinning.note_work(&work, slots);
    }
    let innermost = recorder.stack.innermost();
    if let Some(innermost) = innermost.filter(|_| is_burst_edge) {
        let set = innermost.plan().set();
        for event in set.events() {
            work[event.slot_index] = work[event.slot_index].wrapping_add(set.overhead.at_burst_edge[event.n].get());
        }
    }
    let tracks_overhead = recorder.tracks_overhead.get();
    for frame in recorder.stack.iter().take(if tracks_overhead { 1 } else { DEPTH }) {
        for event in frame.plan().set().events() {
            let raw = frame.raw(event.n);
            raw.set(raw.get().wrapping_add(work[event.slot_index]));
        }
    }
    let Some(around) = innermost.map(FrameRef::below).or(recorder.stack.sentinel()) else { return };
    for (overhead, work) in around.inner_overhead.iter().zip(work).take_while(|_| tracks_overhead) {
        overhead.set(overhead.get().wrapping_add(work));
    }
}

/// Leaves the time for which other threads had the CPU out of a long call of a thinned mark that ends, and out of such
/// calls around it. It is in the self of the innermost call of another mark. The call's frame holds what was counted.
pub(crate) fn exclude_preemption(ended: FrameRef, recorder: &Recorder) {
    let (plan, Some((thinning, _))) = (ended.plan(), recorder.thinning()) else { return };
    let Some(time) = plan.set().events().find(|event| event.slot().is_ticks()) else { return };
    let (slot, Some((counted, false))) = (time.slot_index, ended.counted(time.n)) else { return };
    if !plan.cells.events[time.n].values.is_long(counted) {
        return;
    }
    let preempted = thinning.preemption.in_call(counted);
    if preempted == 0 {
        return;
    }
    ended.set_counted(time.n, Delta::Exact(counted - preempted));
    let move_to_others = |frame: FrameRef, cost: u64| {
        frame.add_inner_cost(slot, cost);
        frame.add_unthinned(slot, cost);
    };
    // If it does not fit into the call without those inside, it is in one of these, of another mark, which has it.
    let inside = ended.inner_cost[slot].get().wrapping_add(ended.inner_overhead[slot].get());
    let (mut is_in_self, mut is_passed) = (preempted > counted.saturating_sub(inside), false);
    if is_in_self {
        move_to_others(ended, preempted.wrapping_neg());
    }
    let burst = recorder.bursts.complete();
    // It is in the self of one call at most. The next call around that one gets it with the cost of calls inside.
    for frame in recorder.stack.iter().filter(|frame| *frame != ended) {
        let Some(time) = frame.plan().set().events().find(|event| event.slot().is_ticks()) else { continue };
        let is_left_out = frame.plan().leaves_preemption_out();
        if is_left_out {
            frame.raw(time.n).set(frame.raw(time.n).get().wrapping_add(preempted));
        } else if !is_in_self && burst != 0 && frame.burst() == burst {
            // Calls inside that were skipped had their share of such time in gaps, but not in the burst.
            frame.exclude_from_burst(time.n, preempted);
        }
        match (is_left_out, is_passed) {
            (true, true) => move_to_others(frame, preempted.wrapping_neg()),
            (false, false) if is_in_self => move_to_others(frame, preempted),
            _ => {}
        }
        (is_in_self, is_passed) = (is_in_self || !is_left_out, !is_left_out);
    }
}

/// For `on_cpu`, a number that each context switch changes.
fn lock_of_switches(slot: &EventSlot) -> u64 {
    slot.switches().map_or(0, |switches| switches.lock().into())
}

fn user_counter(slot: &EventSlot) -> Option<&perfmark_rdpmc::Counter> {
    slot.counter().filter(|_| !slot.is_read_by_kernel())
}
