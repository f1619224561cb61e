//! Memory that a fork wipes, and process-wide state that a forked child creates again.
//!
//! A child of fork(2), or of a clone(2) that runs no handlers, must not use its parent's recorders. The counters' pages
//! are not mapped there, and threads that do not exist in the child may hold locks. With `MADV_WIPEONFORK` (madvise(2),
//! Linux 4.14) the child reads zeroes instead.
#![allow(unsafe_code, reason = "mmap, and a pointer that is published once")]

use std::io;
use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::sync::{Mutex, MutexGuard, PoisonError};

use once_cell::race::OnceRef;

/// The C library calls this function in each child of a later `fork()`, but not in a child of a system call that the
/// program makes by itself. If the C library has no memory for it, the function is not called.
pub(crate) fn in_each_forked_child(call: extern "C" fn()) {
    #[cfg(all(target_os = "linux", not(miri)))]
    // SAFETY: an extern "C" function may be called at any time, and is in the module that registers it, which unloading
    // unregisters.
    unsafe {
        libc::pthread_atfork(None, None, Some(call))
    };
    #[cfg(not(all(target_os = "linux", not(miri))))]
    let _ = call;
}

/// Maps zeroed memory, at least page-aligned, that reads as zeroes again in a forked child.
#[cfg(all(target_os = "linux", not(miri)))]
pub(crate) fn map(length: usize) -> io::Result<NonNull<u8>> {
    const ACCESS: libc::c_int = libc::PROT_READ | libc::PROT_WRITE;
    const KIND: libc::c_int = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new mapping at an address of the kernel's choice.
    let start = unsafe { libc::mmap(ptr::null_mut(), length, ACCESS, KIND, -1, 0) };
    let memory = NonNull::new(start.cast::<u8>()).filter(|_| start != libc::MAP_FAILED);
    let memory = memory.ok_or_else(io::Error::last_os_error)?;
    // SAFETY: the mapping just made.
    if unsafe { libc::madvise(start, length, libc::MADV_WIPEONFORK) } != 0 {
        let error = io::Error::last_os_error();
        // SAFETY: the mapping just made, which nobody else knows.
        unsafe { unmap(memory, length) };
        return Err(error);
    }
    Ok(memory)
}

/// Unmaps memory of [`map`].
///
/// # Safety
///
/// `memory` is a mapping of [`map`] of this length, or whole pages of one. Nobody uses it any more.
#[cfg(all(target_os = "linux", not(miri)))]
pub(crate) unsafe fn unmap(memory: NonNull<u8>, length: usize) {
    // SAFETY: this function's contract.
    unsafe { libc::munmap(memory.as_ptr().cast(), length) };
}

/// Maps the same at a multiple of `alignment`, which is of whole pages.
#[cfg(all(target_os = "linux", not(miri)))]
pub(crate) fn map_aligned(length: usize, alignment: usize) -> io::Result<NonNull<u8>> {
    // A multiple of every page size.
    let length = length.next_multiple_of(1 << 16);
    let memory = map(length + alignment)?;
    let before = memory.align_offset(alignment);
    // SAFETY: within the mapping; nobody uses the parts that are unmapped.
    unsafe {
        let start = memory.add(before);
        if before > 0 {
            unmap(memory, before);
        }
        unmap(start.add(length), alignment - before);
        Ok(start)
    }
}

/// On other systems.
#[cfg(not(all(target_os = "linux", not(miri))))]
pub(crate) fn map_aligned(length: usize, alignment: usize) -> io::Result<NonNull<u8>> {
    let layout = layout(length)?.align_to(alignment).map_err(|_| io::ErrorKind::OutOfMemory)?;
    // SAFETY: callers ask for more than nothing.
    NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) }).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}

/// Makes memory of [`map`] or [`map_aligned`] read as zeroes again, and returns its pages to the kernel if possible.
///
/// # Safety
///
/// It is the complete mapping, and nobody else uses it.
pub(crate) unsafe fn clear(memory: NonNull<u8>, length: usize) {
    #[cfg(all(target_os = "linux", not(miri)))]
    // SAFETY: this function's contract: a private anonymous mapping reads as zeroes then (madvise(2)).
    if unsafe { libc::madvise(memory.as_ptr().cast(), length, libc::MADV_DONTNEED) } == 0 {
        return;
    }
    // madvise fails for locked memory (mlock(2)).
    // SAFETY: this function's contract.
    unsafe { memory.write_bytes(0, length) };
}

/// On other systems, and in Miri, which has no forks: memory that a child inherits unchanged.
#[cfg(not(all(target_os = "linux", not(miri))))]
pub(crate) fn map(length: usize) -> io::Result<NonNull<u8>> {
    map_aligned(length, 4096)
}

/// Unmaps memory of [`map`].
///
/// # Safety
///
/// `memory` is a mapping of [`map`] of this length, or whole pages of one. Nobody uses it any more.
#[cfg(not(all(target_os = "linux", not(miri))))]
pub(crate) unsafe fn unmap(memory: NonNull<u8>, length: usize) {
    if let Ok(layout) = layout(length) {
        // SAFETY: this function's contract, and the layout of the allocation.
        unsafe { std::alloc::dealloc(memory.as_ptr(), layout) };
    }
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn layout(length: usize) -> io::Result<std::alloc::Layout> {
    std::alloc::Layout::from_size_align(length.max(1), 4096).map_err(|_| io::ErrorKind::OutOfMemory.into())
}

/// A value that each process creates at its first use, including a forked child.
#[derive(Debug)]
pub(crate) struct PerProcess<T: 'static> {
    /// A pointer to `T`, in memory that a fork wipes. No thread waits for another one that maps it: a forked child does
    /// not have that one.
    root: OnceRef<'static, AtomicPtr<T>>,
    /// The same pointer, for leak checkers, which do not read mapped memory.
    seen: AtomicPtr<T>,
}

impl<T: Default + Send> PerProcess<Mutex<T>> {
    /// The process's value, locked. A panic that poisoned it is ignored.
    ///
    /// # Errors
    ///
    /// The kernel has no memory that a fork wipes.
    pub(crate) fn lock(&'static self) -> io::Result<MutexGuard<'static, T>> {
        Ok(self.get()?.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<T: Default + Send + Sync> PerProcess<T> {
    pub(crate) const fn new() -> Self {
        Self { root: OnceRef::new(), seen: AtomicPtr::new(ptr::null_mut()) }
    }

    /// The process's value.
    ///
    /// # Errors
    ///
    /// The kernel has no memory that a fork wipes.
    pub(crate) fn get(&'static self) -> io::Result<&'static T> {
        let slot = self.root.get_or_try_init(|| {
            // Of two threads, the second one leaves a page behind.
            let memory = map(size_of::<AtomicPtr<T>>())?;
            // SAFETY: mapped for ever, aligned, and zeroes are a null pointer.
            io::Result::Ok(unsafe { memory.cast::<AtomicPtr<T>>().as_ref() })
        })?;
        // SAFETY: null, or a leaked box of this process.
        if let Some(value) = unsafe { slot.load(Acquire).as_ref() } {
            return Ok(value);
        }
        let fresh = Box::into_raw(Box::<T>::default());
        match slot.compare_exchange(ptr::null_mut(), fresh, AcqRel, Acquire) {
            Ok(_) => {
                self.seen.store(fresh, Release);
                // SAFETY: leaked here, for the life of the process.
                Ok(unsafe { &*fresh })
            }
            Err(winner) => {
                // SAFETY: `fresh` was not published; the winner was, by another thread.
                unsafe {
                    drop(Box::from_raw(fresh));
                    Ok(&*winner)
                }
            }
        }
    }
}
