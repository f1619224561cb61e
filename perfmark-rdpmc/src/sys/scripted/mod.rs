//! A kernel that a script drives, for tests that compare every value with a model. Each thread has the events that it
//! opened. They count what the script says.
//!
//! As with the real kernel, each change of an event's state updates its page, under the page's lock.

mod events;
#[path = "../no_emulator.rs"]
mod no_emulator;
pub mod script;

use std::ffi::CStr;
use std::io::PipeReader;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU8, AtomicU64};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

pub(crate) use self::no_emulator::EmulatedPage;
use super::abi::{IOC_ID, MmapPage, PerfEventAttr, ReadFormat, Ready, RingPage, TYPE_HARDWARE, TYPE_SOFTWARE};
use crate::arch::scripted::{TICKS, value};
use crate::target::Target;
use events::{EVENTS, Event, Place, State, events, free_counter};

pub(crate) const SUPPORTED: bool = true;

#[derive(Debug)]
pub(crate) struct Descriptor(Arc<Event>);

#[derive(Debug)]
pub(crate) struct Mapping(Arc<Event>);

#[derive(Debug)]
pub(crate) struct RingMapping(Arc<Event>);

#[derive(Debug)]
pub(crate) enum AuxMapping {}

pub(crate) fn open(attr: &PerfEventAttr, target: &Target, leader: Option<&Descriptor>) -> Result<Descriptor, i32> {
    static OPENED: AtomicU64 = AtomicU64::new(1);
    if !target.is_caller() || target.cpu.is_some() {
        return Err(libc::EINVAL);
    }
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

pub(crate) fn attr_size() -> Option<u32> {
    None
}

pub(crate) fn poll(_: &[&Descriptor], _: Option<&PipeReader>, _: i32) -> Result<Vec<Ready>, i32> {
    Ok(Vec::new())
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
    pub(crate) fn new(_: &Descriptor, _: &RingPage, _: bool) -> Result<Self, i32> {
        Err(libc::EOPNOTSUPP)
    }

    pub(crate) fn data(&self) -> &[AtomicU8] {
        match *self {}
    }
}
