//! Events: what they count, their pages and rings.

use std::cell::RefCell;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use crate::arch::scripted::{COUNTERS, TICKS, WIDTH, value};
use crate::sys::abi::{
    CAP_BIT0_IS_DEPRECATED, CAP_USER_RDPMC, CAP_USER_TIME, FORMAT_GROUP, FORMAT_ID, FORMAT_LOST, PerfEventAttr,
    RingPage, TYPE_HARDWARE,
};

/// The bits of a counter.
pub(super) const MASK: u64 = (1 << WIDTH) - 1;

fn sign_extended(raw: u64) -> u64 {
    let unused = 64 - WIDTH;
    ((raw << unused).cast_signed() >> unused).cast_unsigned()
}

#[derive(Debug)]
pub(super) struct Event {
    pub(super) id: u64,
    pub(super) attr: PerfEventAttr,
    /// What it is mapped as, whether a ring or not.
    pub(super) page: RingPage,
    pub(super) data: OnceLock<Box<[AtomicU64]>>,
    pub(super) state: Mutex<State>,
    pub(super) leader: Option<Arc<Event>>,
    pub(super) members: Mutex<Vec<Weak<Event>>>,
}

/// An event's state at one tick.
#[derive(Clone, Copy, Debug)]
pub(super) struct State {
    pub(super) value: u64,
    pub(super) enabled: u64,
    pub(super) running: u64,
    pub(super) tick: u64,
    pub(super) place: Place,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Software,
    /// Other events use the PMU.
    OffPmu,
    /// A hardware counter, which had that value at the tick.
    Counter(usize, u64),
}

thread_local!(pub(super) static EVENTS: RefCell<Vec<Weak<Event>>> = const { RefCell::new(Vec::new()) });

/// The events of the calling thread that are open.
pub(super) fn events() -> Vec<Arc<Event>> {
    EVENTS.with_borrow_mut(|events| {
        events.retain(|event| event.strong_count() > 0);
        events.iter().filter_map(Weak::upgrade).collect()
    })
}

impl State {
    /// The state now. The value is that of a thread of its own.
    pub(super) fn now(self) -> Self {
        let tick = TICKS.load(Relaxed);
        let passed = tick - self.tick;
        let (mut value_now, mut place, mut running) = (self.value, self.place, self.running + passed);
        match self.place {
            Place::Software => {}
            Place::OffPmu => running = self.running,
            Place::Counter(n, before) => {
                value_now = value_now.wrapping_add(value(n).wrapping_sub(before) & MASK);
                place = Place::Counter(n, value(n));
            }
        }
        Self { value: value_now, enabled: self.enabled + passed, running, tick, place }
    }
}

impl Event {
    fn is_hardware(&self) -> bool {
        self.attr.kind == TYPE_HARDWARE
    }

    pub(super) fn state(&self) -> State {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_state(&self, state: State) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = state;
    }

    /// Updates the page after a change.
    pub(super) fn update(&self, state: State) {
        self.set_state(state);
        let page = &self.page.start;
        let lock = page.lock.load(Relaxed) | 1;
        page.lock.store(lock, Relaxed);
        let (index, offset) = match state.place {
            Place::Counter(n, raw) => (n as u32 + 1, state.value.wrapping_sub(sign_extended(raw))),
            Place::Software | Place::OffPmu => (0, state.value),
        };
        page.index.store(index, Relaxed);
        page.offset.store(offset.cast_signed(), Relaxed);
        page.time_enabled.store(state.enabled, Relaxed);
        page.time_running.store(state.running, Relaxed);
        page.pmc_width.store(WIDTH, Relaxed);
        page.time_mult.store(1, Relaxed);
        page.time_offset.store(0_u64.wrapping_sub(state.tick), Relaxed);
        let readable = if self.is_hardware() { CAP_USER_RDPMC } else { 0 };
        page.capabilities.store(CAP_BIT0_IS_DEPRECATED | CAP_USER_TIME | readable, Relaxed);
        page.lock.store(lock + 1, Release);
    }

    /// Whether the ring has room for that many words, and one more.
    pub(super) fn has_room(&self, words: usize) -> bool {
        let used = self.page.data_head.load(Relaxed) - self.page.data_tail.load(Relaxed);
        self.data.get().is_none_or(|data| used / 8 + (words as u64) < data.len() as u64)
    }

    /// Appends a record to the ring.
    pub(super) fn write(&self, words: &[u64]) {
        let (Some(data), head) = (self.data.get(), &self.page.data_head) else { return };
        let at = head.load(Relaxed);
        for (n, word) in words.iter().enumerate() {
            data[(at as usize / 8 + n) % data.len()].store(*word, Relaxed);
        }
        head.store(at + 8 * words.len() as u64, Release);
    }

    /// What read(2) returns.
    pub(super) fn numbers(&self) -> Vec<u64> {
        let format = self.attr.read_format;
        let of = |event: &Self, numbers: &mut Vec<u64>| {
            numbers.push(event.state().now().value);
            numbers.extend((format & FORMAT_ID != 0).then_some(event.id));
            numbers.extend((format & FORMAT_LOST != 0).then_some(0));
        };
        // perfmark takes an event for stopped if its time does not advance from one reading to the next.
        let mut state = self.state().now();
        state.enabled += 1;
        state.running += u64::from(state.place != Place::OffPmu);
        self.set_state(state);
        let times = [state.enabled, state.running];
        if format & FORMAT_GROUP == 0 {
            let mut numbers = Vec::new();
            of(self, &mut numbers);
            numbers.splice(1..1, times);
            return numbers;
        }
        let leader = self.leader.as_deref().unwrap_or(self);
        let members = leader.members.lock().unwrap_or_else(PoisonError::into_inner);
        let members: Vec<Arc<Self>> = members.iter().filter_map(Weak::upgrade).collect();
        let mut numbers = vec![1 + members.len() as u64, times[0], times[1]];
        of(leader, &mut numbers);
        members.iter().for_each(|member| of(member, &mut numbers));
        numbers
    }
}

/// A counter that no event of the calling thread uses.
pub(super) fn free_counter(events: &[Arc<Event>]) -> Option<usize> {
    let is_free =
        |n: &usize| !events.iter().any(|event| matches!(event.state().place, Place::Counter(m, _) if m == *n));
    (0..COUNTERS).find(is_free)
}
