//! Memory that a fork wipes: it reads as zero in the child, also in the child of a bare `clone(2)`.
#![allow(unsafe_code, reason = "mmap and madvise have no safe form in libc, and nothing else maps such memory")]

use std::io;
use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::Relaxed;

/// Maps zeroed memory that a fork wipes (linux 4.14), permanently. Returns errno if the kernel refuses.
pub(super) fn map(length: usize) -> Result<NonNull<libc::c_void>, i32> {
    let errno = || io::Error::last_os_error().raw_os_error().unwrap_or(libc::ENOMEM);
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping at an address of the kernel's choice. It is unmapped only here, if madvise fails.
    unsafe {
        let start = libc::mmap(ptr::null_mut(), length, access, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0);
        if start == libc::MAP_FAILED {
            return Err(errno());
        }
        if libc::madvise(start, length, libc::MADV_WIPEONFORK) != 0 {
            let errno = errno();
            libc::munmap(start, length);
            return Err(errno);
        }
        NonNull::new(start).ok_or(libc::ENOMEM)
    }
}

/// A pointer that a fork clears.
pub(super) type Slot = &'static AtomicPtr<libc::c_void>;

/// Slots that are not in use. Each contains the address of the next. In a forked child all of them are cleared, so the
/// list has one slot left there: no slot of the parent's is ever used again.
#[derive(Debug)]
pub(super) struct Slots {
    unused: *mut AtomicPtr<libc::c_void>,
}

impl Slots {
    pub(super) const fn new() -> Self {
        Self { unused: ptr::null_mut() }
    }

    /// A slot that contains null.
    pub(super) fn take(&mut self) -> Result<Slot, i32> {
        /// As many as one page has on most machines.
        const AT_ONCE: usize = 512;
        if self.unused.is_null() {
            let first = map(AT_ONCE * size_of::<AtomicPtr<libc::c_void>>())?.cast();
            // SAFETY: inside the new mapping, which is permanent, and an atomic pointer may be zero.
            (0..AT_ONCE).for_each(|n| self.give_back(unsafe { first.add(n).as_ref() }));
        }
        // SAFETY: a slot, as it is not null.
        let slot: Slot = unsafe { &*self.unused };
        self.unused = slot.swap(ptr::null_mut(), Relaxed).cast();
        Ok(slot)
    }

    /// Takes back a slot of this process's.
    pub(super) fn give_back(&mut self, slot: Slot) {
        slot.store(self.unused.cast(), Relaxed);
        self.unused = ptr::from_ref(slot).cast_mut();
    }
}
