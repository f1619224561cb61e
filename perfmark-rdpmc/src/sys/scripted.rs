//! A kernel that a script drives, for tests that compare every value with a model. Each thread has the events that it
//! opened. They count what the script says.
//!
//! As with the real kernel, each change of an event's state updates its page, under the page's lock.

use std::cell::RefCell;
use std::ffi::CStr;
use std::io::PipeReader;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::atomic::{AtomicU8, AtomicU64};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use super::abi::{
    CAP_BIT0_IS_DEPRECATED, CAP_USER_RDPMC, CAP_USER_TIME, FLAG_CONTEXT_SWITCH, FORMAT_GROUP, FORMAT_ID, FORMAT_LOST,
    IOC_ID, MmapPage, PerfEventAttr, ReadFormat, RingPage, TYPE_HARDWARE, TYPE_SOFTWARE,
};
use crate::arch::scripted::{COST, COUNTERS, TICKS, WIDTH, set_value, value};

pub(crate) const SUPPORTED: bool = true;

/// The bits of a counter.
const MASK: u64 = (1 << WIDTH) - 1;

fn sign_extended(raw: u64) -> u64 {
    let unused = 64 - WIDTH;
    ((raw << unused).cast_signed() >> unused).cast_unsigned()
}

#[derive(Debug)]
pub(crate) struct Descriptor(Arc<Event>);

#[derive(Debug)]
pub(crate) struct Mapping(Arc<Event>);

#[derive(Debug)]
pub(crate) struct RingMapping(Arc<Event>);

#[derive(Debug)]
pub(crate) enum AuxMapping {}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Target {
    pub(crate) thread: Option<u32>,
    pub(crate) cpu: Option<u32>,
}

#[derive(Debug)]
struct Event {
    id: u64,
    attr: PerfEventAttr,
    /// What it is mapped as, whether a ring or not.
    page: RingPage,
    data: OnceLock<Box<[AtomicU64]>>,
    state: Mutex<State>,
    leader: Option<Arc<Event>>,
    members: Mutex<Vec<Weak<Event>>>,
}

/// An event's state at one tick.
#[derive(Clone, Copy, Debug)]
struct State {
    value: u64,
    enabled: u64,
    running: u64,
    tick: u64,
    place: Place,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Software,
    /// Other events use the PMU.
    OffPmu,
    /// A hardware counter, which had that value at the tick.
    Counter(usize, u64),
}

thread_local!(static EVENTS: RefCell<Vec<Weak<Event>>> = const { RefCell::new(Vec::new()) });

/// The events of the calling thread that are open.
fn events() -> Vec<Arc<Event>> {
    EVENTS.with_borrow_mut(|events| {
        events.retain(|event| event.strong_count() > 0);
        events.iter().filter_map(Weak::upgrade).collect()
    })
}

impl State {
    /// The state now. The value is that of a thread of its own.
    fn now(self) -> Self {
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

    fn state(&self) -> State {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_state(&self, state: State) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = state;
    }

    /// Updates the page after a change.
    fn update(&self, state: State) {
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
    fn has_room(&self, words: usize) -> bool {
        let used = self.page.data_head.load(Relaxed) - self.page.data_tail.load(Relaxed);
        self.data.get().is_none_or(|data| used / 8 + (words as u64) < data.len() as u64)
    }

    /// Appends a record to the ring.
    fn write(&self, words: &[u64]) {
        let (Some(data), head) = (self.data.get(), &self.page.data_head) else { return };
        let at = head.load(Relaxed);
        for (n, word) in words.iter().enumerate() {
            data[(at as usize / 8 + n) % data.len()].store(*word, Relaxed);
        }
        head.store(at + 8 * words.len() as u64, Release);
    }

    /// What read(2) returns.
    fn numbers(&self) -> Vec<u64> {
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
fn free_counter(events: &[Arc<Event>]) -> Option<usize> {
    let is_free =
        |n: &usize| !events.iter().any(|event| matches!(event.state().place, Place::Counter(m, _) if m == *n));
    (0..COUNTERS).find(is_free)
}

pub(crate) fn open(attr: &PerfEventAttr) -> Result<Descriptor, i32> {
    open_in_group(attr, None)
}

pub(crate) fn open_in_group(attr: &PerfEventAttr, leader: Option<&Descriptor>) -> Result<Descriptor, i32> {
    static OPENED: AtomicU64 = AtomicU64::new(1);
    if !matches!(attr.kind, TYPE_HARDWARE | TYPE_SOFTWARE) {
        return Err(libc::ENOENT);
    }
    let place = match attr.kind {
        TYPE_HARDWARE => free_counter(&events()).map_or(Place::OffPmu, |n| Place::Counter(n, value(n))),
        _ => Place::Software,
    };
    let state = State { value: 0, enabled: 0, running: 0, tick: TICKS.load(Relaxed), place };
    let leader = leader.map(|leader| Arc::clone(&leader.0));
    let event = Arc::new(Event {
        id: OPENED.fetch_add(1, Relaxed),
        attr: attr.clone(),
        page: RingPage::locked(),
        data: OnceLock::new(),
        state: Mutex::new(state),
        leader,
        members: Mutex::default(),
    });
    event.update(state);
    if let Some(leader) = &event.leader {
        leader.members.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(&event));
    }
    EVENTS.with_borrow_mut(|events| events.push(Arc::downgrade(&event)));
    Ok(Descriptor(event))
}

pub(crate) fn open_on(attr: &PerfEventAttr, on: Target, leader: Option<&Descriptor>) -> Result<Descriptor, i32> {
    if on.thread.is_some() || on.cpu.is_some() { Err(libc::EINVAL) } else { open_in_group(attr, leader) }
}

pub(crate) fn poll(_: &[&Descriptor], _: Option<&PipeReader>, _: i32) -> Result<usize, i32> {
    Ok(0)
}

pub(crate) fn has_hung_up(_: &Descriptor) -> bool {
    false
}

pub(crate) fn cpu() -> Option<u32> {
    Some(0)
}

pub(crate) fn stay_on_cpu() -> Result<(), i32> {
    Ok(())
}

pub(crate) fn page_size() -> u64 {
    4096
}

pub(crate) fn generation() -> u32 {
    1
}

pub(crate) fn read(fd: &Descriptor) -> Result<Option<ReadFormat>, i32> {
    match fd.0.numbers()[..] {
        [value, enabled, running, id] => Ok(Some(ReadFormat { value, enabled, running, id })),
        _ => Err(libc::EINVAL),
    }
}

pub(crate) fn read_numbers(fd: &Descriptor, numbers: &mut [u64]) -> Result<usize, i32> {
    let read = fd.0.numbers();
    numbers.get_mut(..read.len()).ok_or(libc::ENOSPC)?.copy_from_slice(&read);
    Ok(read.len())
}

pub(crate) fn ioctl(_: &Descriptor, _: u64, _: u64) -> Result<(), i32> {
    Ok(())
}

#[allow(unsafe_code, reason = "the argument's type depends on the request")]
pub(crate) fn ioctl_pointer<T>(fd: &Descriptor, request: u64, argument: &mut T) -> Result<(), i32> {
    if request == IOC_ID {
        // SAFETY: this request's argument is a 64-bit number.
        unsafe { std::ptr::from_mut(argument).cast::<u64>().write(fd.0.id) };
    }
    Ok(())
}

pub(crate) fn ioctl_text(_: &Descriptor, _: u64, _: &CStr) -> Result<(), i32> {
    Err(libc::EINVAL)
}

pub(crate) fn ioctl_descriptor(_: &Descriptor, _: u64, _: Option<&Descriptor>) -> Result<(), i32> {
    Ok(())
}

pub(crate) fn enable_all_of_thread(_: bool) -> Result<(), i32> {
    Ok(())
}

impl Descriptor {
    pub(crate) fn is_ours(&self) -> bool {
        true
    }

    pub(crate) fn has_id(&self, id: u64) -> bool {
        self.0.id == id
    }

    pub(crate) fn is_identified(&self) -> bool {
        true
    }

    pub(crate) fn why_unmarked(&self) -> Option<i32> {
        None
    }

    pub(crate) fn send_signal(&mut self, _: i32, _: Option<u32>) -> Result<(), i32> {
        Err(libc::EINVAL)
    }
}

impl Mapping {
    pub(crate) fn new(fd: &Descriptor) -> Result<Self, i32> {
        Ok(Self(Arc::clone(&fd.0)))
    }

    pub(crate) fn page(&self) -> &MmapPage {
        &self.0.page.start
    }
}

impl RingMapping {
    pub(crate) fn new(fd: &Descriptor, pages: usize, _: bool) -> Result<Self, i32> {
        let words = pages * page_size() as usize / size_of::<u64>();
        fd.0.data.get_or_init(|| (0..words).map(|_| AtomicU64::new(0)).collect());
        Ok(Self(Arc::clone(&fd.0)))
    }

    pub(crate) fn page(&self) -> Option<&RingPage> {
        Some(&self.0.page)
    }

    pub(crate) fn data(&self) -> Option<&[AtomicU64]> {
        self.0.data.get().map(|data| &data[..])
    }

    pub(crate) fn data_bytes(&self) -> usize {
        self.data().map_or(0, size_of_val)
    }
}

impl AuxMapping {
    pub(crate) fn new(_: &Descriptor, _: &RingPage) -> Result<Self, i32> {
        Err(libc::EOPNOTSUPP)
    }

    pub(crate) fn data(&self) -> &[AtomicU8] {
        match *self {}
    }
}

/// What a script does to the calling thread.
pub mod script {
    use super::*;

    /// An event, by its number in the kernel's interface.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Kind {
        /// One that a hardware counter counts.
        Hardware(u64),
        /// One that the kernel counts.
        Software(u64),
    }

    fn of(kind: Kind) -> impl Iterator<Item = Arc<Event>> {
        let (kind, config) = match kind {
            Kind::Hardware(config) => (TYPE_HARDWARE, config),
            Kind::Software(config) => (TYPE_SOFTWARE, config),
        };
        events().into_iter().filter(move |event| (event.attr.kind, event.attr.config) == (kind, config))
    }

    /// Each reading of a counter or of the ticks adds that much to it, as the instructions of a probe do.
    pub fn let_readings_count(cost: u64) {
        COST.store(cost, Relaxed);
    }

    /// Nanoseconds pass, on all threads.
    pub fn pass(nanoseconds: u64) {
        TICKS.fetch_add(nanoseconds, Relaxed);
    }

    /// The event occurs on this thread.
    pub fn count(kind: Kind, times: u64) {
        for event in of(kind) {
            let state = event.state();
            match state.place {
                Place::Software => event.set_state(State { value: state.value + times, ..state }),
                Place::OffPmu => {}
                Place::Counter(n, _) => {
                    let sum = value(n) + times;
                    set_value(n, sum & MASK);
                    if sum > MASK {
                        event.update(event.state().now());
                    }
                }
            }
        }
    }

    /// The kernel moves the thread's hardware events to other counters, which then have these values.
    pub fn move_all(by: usize, values: impl Fn(usize) -> u64) {
        let moved: Vec<_> = events().into_iter().map(|event| (event.state().now(), event)).collect();
        for (state, event) in moved {
            if let Place::Counter(n, _) = state.place {
                let n = (n + by) % COUNTERS;
                set_value(n, values(n) & MASK);
                event.update(State { place: Place::Counter(n, value(n)), ..state });
            }
        }
    }

    /// Other events take the counter of this one. Returns whether it had one.
    pub fn take_away(kind: Kind) -> bool {
        let mut has_any = false;
        for event in of(kind) {
            let state = event.state().now();
            if matches!(state.place, Place::Counter(..)) {
                event.update(State { place: Place::OffPmu, ..state });
                has_any = true;
            }
        }
        has_any
    }

    /// The event gets a counter again.
    pub fn give_back(kind: Kind) {
        for event in of(kind) {
            let state = event.state().now();
            if state.place == Place::OffPmu
                && let Some(n) = free_counter(&events())
            {
                event.update(State { place: Place::Counter(n, value(n)), ..state });
            }
        }
    }

    /// The thread is off its CPU for some nanoseconds: another thread is preferred, or it waits. Returns `false`, and
    /// does nothing, if a ring has no room for the records.
    pub fn switch(nanoseconds: u64, is_preempted: bool) -> bool {
        /// `PERF_RECORD_SWITCH` in a record of 16 bytes, and its flags `PERF_RECORD_MISC_SWITCH_OUT` and
        /// `PERF_RECORD_MISC_SWITCH_OUT_PREEMPT`.
        const SWITCH: u64 = 16 << 48 | 14;
        const OUT: u64 = 1 << 13 << 32;
        const PREEMPTED: u64 = 1 << 14 << 32;
        if !events().iter().all(|event| event.has_room(8)) {
            return false;
        }
        let away: Vec<_> = events().into_iter().map(|event| (event.state().now(), event)).collect();
        let out = SWITCH | OUT | if is_preempted { PREEMPTED } else { 0 };
        let (left, back) = (TICKS.load(Relaxed), TICKS.load(Relaxed) + nanoseconds);
        TICKS.store(back, Relaxed);
        for (state, event) in away {
            if event.attr.flags & FLAG_CONTEXT_SWITCH != 0 {
                event.write(&[out, left]);
                event.write(&[SWITCH, back]);
            }
            event.update(State { tick: back, ..state });
        }
        true
    }
}
