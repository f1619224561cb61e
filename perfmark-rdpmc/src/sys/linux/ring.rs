//! Rings: the memory to which the kernel writes an event's records.
//!
//! A ring is not mapped in a child, so a child that looked at it would be killed. Its address is therefore only in
//! memory that a fork wipes.
#![allow(unsafe_code, reason = "mmap, and references into what it maps")]

use std::ptr;
use std::slice;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU8, AtomicU64};

use super::super::RingPage;
use super::fork::{self, Descriptor, Registration, Resource, page_size};
use super::wiped::Slot;

/// An event's ring, unmapped when dropped.
#[derive(Debug)]
pub(crate) struct RingMapping {
    slot: Slot,
    page_bytes: usize,
    data_bytes: usize,
    _registration: Registration,
}

/// An event's AUX area, unmapped when dropped.
#[derive(Debug)]
pub(crate) struct AuxMapping {
    start: ptr::NonNull<AtomicU8>,
    length: usize,
    _registration: Registration,
}

// SAFETY: the memory contains atomics only, which any thread may read.
unsafe impl Send for AuxMapping {}
// SAFETY: the memory contains atomics only, which any thread may read.
unsafe impl Sync for AuxMapping {}

impl RingMapping {
    /// Maps a ring with that many pages of data. If it is not writable, the kernel overwrites old records.
    pub(crate) fn new(fd: &Descriptor, pages: usize, is_writable: bool) -> Result<Self, i32> {
        let page_bytes = usize::try_from(page_size()).map_err(|_| libc::EINVAL)?;
        let length = pages.checked_add(1).and_then(|pages| pages.checked_mul(page_bytes)).ok_or(libc::ENOMEM)?;
        let slot = fork::slot()?;
        let registered = Registration::new(|| {
            let start = fd.map(length, 0, is_writable)?;
            slot.store(start, Relaxed);
            Ok((Resource::Ring(start, length, slot), ()))
        });
        let (registration, ()) = registered.inspect_err(|_| fork::give_back(slot))?;
        Ok(Self { slot, page_bytes, data_bytes: length - page_bytes, _registration: registration })
    }

    /// The ring's first page. `None` in a forked child.
    #[inline]
    pub(crate) fn page(&self) -> Option<&RingPage> {
        // SAFETY: mapped until drop if it is not null, larger than a `RingPage`, and all its fields are atomics or
        // never change.
        unsafe { self.slot.load(Relaxed).cast::<RingPage>().as_ref() }
    }

    /// The records. `None` in a forked child.
    pub(crate) fn data(&self) -> Option<&[AtomicU64]> {
        let page = self.slot.load(Relaxed);
        if page.is_null() {
            return None;
        }
        // SAFETY: the data follows the first page, and is mapped until drop.
        unsafe {
            let start = page.byte_add(self.page_bytes).cast::<AtomicU64>();
            Some(slice::from_raw_parts(start, self.data_bytes / size_of::<AtomicU64>()))
        }
    }

    /// Bytes of data.
    pub(crate) fn data_bytes(&self) -> usize {
        self.data_bytes
    }
}

impl AuxMapping {
    /// Maps an event's AUX area, whose offset and size its page has.
    /// If it is not writable, the hardware overwrites old data.
    pub(crate) fn new(fd: &Descriptor, page: &RingPage, is_writable: bool) -> Result<Self, i32> {
        let length = usize::try_from(page.aux_size.load(Relaxed)).map_err(|_| libc::EINVAL)?;
        let (registration, start) = Registration::new(|| {
            let start = fd.map(length, page.aux_offset.load(Relaxed), is_writable)?;
            Ok((Resource::Page(start, length), ptr::NonNull::new(start.cast()).ok_or(libc::EIO)?))
        })?;
        Ok(Self { start, length, _registration: registration })
    }

    /// What the hardware wrote.
    pub(crate) fn data(&self) -> &[AtomicU8] {
        // SAFETY: mapped until drop. In a forked child an empty mapping is in its place.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}
