//! An event set: events that marks of a thread share, and how they are read.
#![allow(unsafe_code, reason = "pointers to data that lives as long as the thread's cells")]

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::ptr;

use perfmark_rdpmc::{Counter, CounterSet, EmulatedCounts, GroupRead, OffCpu, Region, clock};

use super::overhead::{CalibrationCalls, MeasuredOverhead, OverheadKey, ProbeOverhead};
use super::plan::{FAST_EVENTS, Hooks};
use super::stack::{FRAME_EVENTS, FrameRef, LOCKS_SPLIT};
use crate::recording::cells::EventCells;
use crate::recording::mark::{CallMode, Measured};
use crate::recording::reading::Source;
use crate::recording::recorder::event_slots::{EVENT_SLOTS, EventSlot, EventSlots};
use crate::recording::sampling::SampledThread;
use crate::recording::start;
use crate::settings::OffCpuKind;

/// An event set: events that marks of a thread share, and how they are read.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct EventSet {
    /// The counters, as the fast path reads them.
    pub(crate) counters: CounterSet,
    pub(crate) overhead: ProbeOverhead<Cell<u64>>,
    /// The event slots of the set's events. One that reads ticks is first.
    pub(crate) slot_indices: [usize; EVENT_SLOTS],
    slots: [*const EventSlot; EVENT_SLOTS],
    count: usize,
    /// Whether the first event reads ticks.
    has_ticks: bool,
    /// Whether calls have hooks of the fast path.
    pub(crate) is_fast: Cell<bool>,
    pub(crate) mode: CallMode,
    /// The calls that measure the overhead of the set's probe.
    pub(crate) calibration_calls: &'static CalibrationCalls,
    /// The hooks of marks with this set, without options.
    base_hooks: Cell<Hooks>,
    /// The same, or those that first look for samples.
    unfenced_hooks: Cell<Hooks>,
    /// The probe overhead, and what it depends on. `None` before it is measured.
    pub(crate) measured_overhead: RefCell<Option<MeasuredOverhead>>,
    pub(crate) overhead_key: RefCell<Option<OverheadKey>>,
    /// The slot whose counter reads the thread's group, if several events of the set are in the group; else null.
    reader: *const EventSlot,
    /// The indices of the off-CPU events.
    off_cpu: Range<usize>,
    /// The first event that depends on the thread's context switches.
    of_switches: Option<u8>,
    /// An event that an emulator counts.
    emulated: Option<u8>,
    /// Where samples of calls are noted; null if they are not sampled.
    sampled: Cell<*const SampledThread>,
}

impl EventSet {
    /// An event set with these slots. Its marks have `hooks` until others are bound.
    ///
    /// # Safety
    ///
    /// The slots live as long as the set and do not move. BINDING holds for the hooks and all plans with the set.
    pub(crate) unsafe fn new(
        slot_indices: &[usize],
        slots: &EventSlots,
        mode: CallMode,
        calibration_calls: &'static CalibrationCalls,
        hooks: Hooks,
    ) -> Self {
        let if_thinned = calibration_calls.if_thinned.filter(|_| mode.measured == Measured::InBursts);
        let calibration_calls = if_thinned.unwrap_or(calibration_calls);
        let mut set = Self {
            counters: CounterSet::new(),
            overhead: ProbeOverhead::default(),
            slot_indices: [0; EVENT_SLOTS],
            slots: [ptr::null(); EVENT_SLOTS],
            count: slot_indices.len(),
            has_ticks: slot_indices.first().is_some_and(|&n| slots[n].reads_ticks()),
            is_fast: Cell::new(false),
            mode,
            calibration_calls,
            base_hooks: Cell::new(hooks),
            unfenced_hooks: Cell::new(hooks),
            measured_overhead: RefCell::default(),
            overhead_key: RefCell::default(),
            reader: ptr::null(),
            off_cpu: 0..0,
            of_switches: None,
            emulated: None,
            sampled: Cell::new(ptr::null()),
        };
        for (n, &index) in slot_indices.iter().enumerate() {
            (set.slots[n], set.slot_indices[n]) = (&raw const *slots[index], index);
            if slots[index].switches().is_some() {
                set.of_switches = set.of_switches.or(u8::try_from(n).ok());
            }
            if slots[index].emulated().is_some() {
                set.emulated = u8::try_from(n).ok();
            }
            // These are adjacent.
            if slots[index].is_off_cpu() {
                set.off_cpu = if set.off_cpu.is_empty() { n } else { set.off_cpu.start }..n + 1;
            }
        }
        // For a single event, its own reading is cheaper.
        let is_read_together = set.events().filter(|event| event.slot().is_grouped()).count() > 1;
        if let Some(reader) = slots.reader().filter(|_| is_read_together) {
            set.reader = reader;
        }
        set
    }

    /// Binds hooks: those of marks without options, and the same or those that first look for samples.
    ///
    /// # Safety
    ///
    /// BINDING holds for the hooks and all plans with the set.
    pub(crate) unsafe fn bind(&self, base: Hooks, unfenced: Hooks) {
        self.base_hooks.set(base);
        self.unfenced_hooks.set(unfenced);
    }

    /// The hooks of marks with the set, without options.
    #[inline]
    pub(crate) fn base_hooks(&self) -> Hooks {
        self.base_hooks.get()
    }

    /// The same, or those that first look for samples.
    #[inline]
    pub(crate) fn unfenced_hooks(&self) -> Hooks {
        self.unfenced_hooks.get()
    }

    /// Notes samples of the set's calls there.
    ///
    /// # Safety
    ///
    /// It is about this thread, and lives as long as the set.
    pub(crate) unsafe fn sample(&self, sampled: *const SampledThread) {
        self.sampled.set(sampled);
    }

    /// Where samples of calls are noted, if they are.
    #[inline]
    pub(crate) fn sampled(&self) -> Option<&SampledThread> {
        // SAFETY: null, or `sample` requires that it lives as long as the set.
        unsafe { self.sampled.get().as_ref() }
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// The event slots of the set's events.
    pub(crate) fn used_slot_indices(&self) -> &[usize] {
        &self.slot_indices[..self.count]
    }

    /// Whether the set has these slots and calls in this mode.
    pub(crate) fn matches(&self, slot_indices: &[usize], mode: CallMode) -> bool {
        self.mode == mode && self.used_slot_indices() == slot_indices
    }

    pub(crate) fn events(&self) -> impl DoubleEndedIterator<Item = SetEvent<'_>> {
        (0..self.count).map(|n| self.event(n))
    }

    /// The events that have counters, with these.
    pub(crate) fn with_counters(&self) -> impl Iterator<Item = (SetEvent<'_>, &Counter)> {
        self.events().filter_map(|event| Some((event, event.slot().counter()?)))
    }

    fn event(&self, n: usize) -> SetEvent<'_> {
        SetEvent { n, slot_index: self.slot_indices[n], set: self }
    }

    /// Cells for a mark with this set.
    pub(crate) fn new_cells(&self) -> Box<[EventCells]> {
        let cells = |event: SetEvent<'_>| {
            let cells = EventCells::new(event.slot().event);
            // The fast path, which ends a call only if the thread was not switched, adds nothing to them.
            if event.slot().is_off_cpu() { cells.without_zeroes() } else { cells }
        };
        self.events().map(cells).collect()
    }

    /// Whether an event reads ticks. It is the first one.
    pub(crate) fn has_ticks(&self) -> bool {
        self.has_ticks
    }

    /// The ticks now, if an event reads them.
    pub(crate) fn ticks(&self) -> u64 {
        if self.has_ticks { clock::ticks() } else { 0 }
    }

    /// The off-CPU events.
    pub(crate) fn off_cpu_events(&self) -> impl ExactSizeIterator<Item = SetEvent<'_>> {
        self.off_cpu.clone().map(|n| self.event(n))
    }

    /// The thread's context switches, if an event depends on them.
    #[inline]
    pub(crate) fn switches(&self) -> Option<&OffCpu> {
        self.of_switches.and_then(|event| self.find_switches(event.into()))
    }

    #[inline(never)]
    fn find_switches(&self, event: usize) -> Option<&OffCpu> {
        self.event(event).slot().switches()
    }

    /// What an emulator has counted, if it counts an event of the set.
    #[inline]
    pub(crate) fn emulated_counts(&self) -> Option<EmulatedCounts> {
        Some(self.event(self.emulated?.into()).slot().emulated()?.counts())
    }

    /// Leaves perfmark's own work since then out of the open calls, as far as an emulator counts it. That work varies:
    /// for example, a histogram may grow.
    #[inline]
    pub(crate) fn exclude_emulated_since(&self, before: Option<EmulatedCounts>) {
        if let Some((event, before)) = self.emulated.zip(before)
            && let Some(counter) = self.event(event.into()).slot().emulated()
        {
            counter.set_back(&before);
        }
    }

    /// The event of the time between polls, if the set has it.
    pub(crate) fn suspended(&self) -> Option<SetEvent<'_>> {
        self.events().next_back().filter(|event| event.slot().is_suspended())
    }

    /// Replaces the sum of locks in a call's frame by the lock of each counter's page, and stores the times off the
    /// CPU. If the set has remembered other pages since entry, the counters are unmeasured in this call.
    pub(crate) fn split_locks(&self, frame: FrameRef) {
        let locks = frame.locks.replace(LOCKS_SPLIT);
        if locks == LOCKS_SPLIT {
            return;
        }
        let is_known = locks == self.counters.locks();
        for (n, event) in (usize::from(self.has_ticks)..FRAME_EVENTS).enumerate() {
            frame.set_spare(event, if is_known { self.counters.lock(n) } else { Region::NOT_BEGUN });
        }
        if self.of_switches.is_some() {
            self.begin_off_cpu(frame);
        }
    }

    /// Stores the times off the CPU at entry. SWITCHES: those of now.
    #[inline(never)]
    fn begin_off_cpu(&self, frame: FrameRef) {
        self.events().for_each(|event| event.begin_off_cpu(frame));
    }

    /// Whether the set reads events through the thread's group.
    pub(crate) fn has_group(&self) -> bool {
        !self.reader.is_null()
    }

    /// Reads the thread's group. `None` if the set does not use it.
    pub(crate) fn read_group(&self) -> Option<GroupRead> {
        self.reader().map(Counter::read_group)
    }

    /// As [`read_group`](Self::read_group), to begin calls.
    pub(crate) fn read_group_to_begin(&self) -> Option<GroupRead> {
        self.reader().map(Counter::read_group_to_begin)
    }

    fn reader(&self) -> Option<&Counter> {
        // SAFETY: null, or a slot that lives as long as the set, which `new` requires.
        unsafe { self.reader.as_ref() }?.counter()
    }

    /// Lets the fast path read what the counters remember now. Returns `false` if it cannot.
    pub(crate) fn remember_counters(&self) -> bool {
        let counters = self.with_counters().map(|(_, counter)| counter);
        // SAFETY: `new` requires that slots, and so counters and switches, live as long as the set. `count` is at most
        // `FAST_EVENTS`, which is what a `CounterSet` can hold.
        self.count <= FAST_EVENTS && unsafe { self.counters.remember(counters, self.switches()) }
    }
}

/// One event of a set.
#[derive(Clone, Copy)]
pub(crate) struct SetEvent<'a> {
    /// The event's index in the set.
    pub(crate) n: usize,
    /// The event's slot on the thread.
    pub(crate) slot_index: usize,
    pub(crate) set: &'a EventSet,
}

impl<'a> SetEvent<'a> {
    pub(crate) fn slot(self) -> &'a EventSlot {
        // SAFETY: `EventSet::new` stored a pointer to a slot that lives as long as the set.
        unsafe { &*self.set.slots[self.n] }
    }

    /// Whether the thread's group reads it, together with other events of the set.
    pub(crate) fn is_grouped(self) -> bool {
        self.set.has_group() && self.slot().is_grouped()
    }

    /// Reads the event at entry. Returns `false` if the kernel touched the counter since the last reading.
    pub(crate) fn begin(self, frame: FrameRef) -> bool {
        let Some(counter) = self.slot().counter() else {
            self.begin_without_counter(frame);
            return true;
        };
        let mut region = frame.region(self.n);
        let is_begun = counter.begin_unchanged(&mut region);
        frame.set_region(self.n, region);
        is_begun
    }

    /// What the event counted since entry. `None` if the kernel touched the counter, if ticks ran backwards, or if
    /// records of context switches were lost.
    pub(crate) fn end(self, frame: FrameRef) -> Option<u64> {
        let Some(counter) = self.slot().counter() else { return self.end_without_counter(frame) };
        counter.end_unchanged(&frame.region(self.n))
    }

    // Not inlined, because the slow path reads counters, whose values include its instructions.
    #[inline(never)]
    fn begin_without_counter(self, frame: FrameRef) {
        match &self.slot().source {
            Source::Ticks | Source::OnCpu(_) => frame.raw(self.n).set(clock::ticks()),
            Source::Suspended => frame.set_region(self.n, Region::from_parts([start::ticks(), 0, 0, 0])),
            Source::Emulated(counter) => frame.raw(self.n).set(counter.count()),
            Source::Allocated(count) => frame.raw(self.n).set(count.get()),
            Source::OffCpu { .. } | Source::Counter { .. } => {}
        }
        self.begin_off_cpu(frame);
    }

    /// Stores the time off the CPU at entry, if the event depends on it.
    fn begin_off_cpu(self, frame: FrameRef) {
        let parts = match &self.slot().source {
            Source::OnCpu(switches) => [frame.raw(self.n).get(), 0, OffCpuKind::All.cell(switches).get(), 0],
            Source::OffCpu { switches, kind } => [kind.cell(switches).get(), 0, 0, 0],
            _ => return,
        };
        frame.set_region(self.n, Region::from_parts(parts));
    }

    #[inline(never)]
    fn end_without_counter(self, frame: FrameRef) -> Option<u64> {
        match &self.slot().source {
            Source::Ticks | Source::OnCpu(_) => self.ticks_until(clock::ticks(), frame),
            // A call of one poll. See `poll` for others.
            Source::Suspended => Some(0),
            Source::OffCpu { switches, kind } => {
                let [begun, lock, ..] = frame.region(self.n).parts();
                (lock != Region::NOT_BEGUN).then(|| kind.cell(switches).get() - begun)
            }
            Source::Emulated(counter) => Some(counter.count().wrapping_sub(frame.raw(self.n).get())),
            Source::Allocated(count) => Some(count.get().wrapping_sub(frame.raw(self.n).get())),
            Source::Counter { .. } => None,
        }
    }

    /// What an event that reads ticks counted from entry until `now`.
    pub(crate) fn ticks_until(self, now: u64, frame: FrameRef) -> Option<u64> {
        // Ticks run backwards on CPUs whose tick counters differ. That is no time.
        let ticks = now.checked_sub(frame.raw(self.n).get())?;
        let Source::OnCpu(switches) = &self.slot().source else { return Some(ticks) };
        let [_, lock, off, _] = frame.region(self.n).parts();
        if lock == Region::NOT_BEGUN {
            return None;
        }
        start::on_cpu(ticks, OffCpuKind::All.cell(switches).get() - off)
    }
}
