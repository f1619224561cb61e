//! What a forked child inherits of its parent's counters, and must not keep.
//!
//! The child has copies of the descriptors, but they act on the *parent's* events: as long as the child holds them, an event that the
//! parent closed stays on the parent's PMU. The pages are not copied at all, so that the child would die on its first look at one. So the
//! child, first of all, closes the descriptors and puts an empty page where each page was. Its counters then say that they are gone.
//!
//! `pthread_atfork(3)` knows `fork` only; a child made by a bare `clone` must not touch its parent's counters, nor may one of `vfork`.
#![allow(unsafe_code, reason = "pthread_atfork, and mapping over pages that are not there")]

use std::collections::BTreeMap;
use std::os::fd::RawFd;
use std::ptr;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, MutexGuard, Once, PoisonError, TryLockError};

/// A page's address and length.
type Place = Option<(usize, usize)>;

/// The process's open counters, by descriptor.
static OPEN: Mutex<BTreeMap<RawFd, Place>> = Mutex::new(BTreeMap::new());

/// Counts forks on the way from the first process to this one.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// Which process this is, in the line of forks. A counter of another generation is gone.
#[inline]
pub(crate) fn generation() -> u32 {
    GENERATION.load(Relaxed)
}

fn open() -> MutexGuard<'static, BTreeMap<RawFd, Place>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes note of a counter that was opened.
pub(crate) fn opened(fd: RawFd, page: Place) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: functions without arguments. Where there is no memory for them, forks go unnoticed.
        unsafe { libc::pthread_atfork(Some(before), Some(after_in_parent), Some(after_in_child)) };
    });
    open().insert(fd, page);
}

/// Takes note of a counter that is about to be closed.
pub(crate) fn closing(fd: RawFd) {
    open().remove(&fd);
}

thread_local! {
    /// The list, held by the thread that forks, so that the child finds it whole.
    static HELD: std::cell::RefCell<Option<MutexGuard<'static, BTreeMap<RawFd, Place>>>> =
        const { std::cell::RefCell::new(None) };
}

unsafe extern "C" fn before() {
    /// For another thread to be done with the list; a thread that forks in the middle of it, in a signal handler, never is.
    const PATIENCE: usize = 10_000;
    for _ in 0..PATIENCE {
        let guard = match OPEN.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(guard)) => guard.into_inner(),
            Err(TryLockError::WouldBlock) => {
                std::thread::yield_now();
                continue;
            }
        };
        // A thread whose thread-locals are gone forks without it.
        _ = HELD.try_with(|held| held.replace(Some(guard)));
        return;
    }
}

unsafe extern "C" fn after_in_parent() {
    _ = HELD.try_with(std::cell::RefCell::take);
}

unsafe extern "C" fn after_in_child() {
    GENERATION.fetch_add(1, Relaxed);
    _ = HELD.try_with(|held| {
        let Some(mut open) = held.take() else { return };
        for (fd, page) in std::mem::take(&mut *open) {
            if let Some((start, length)) = page {
                let start = ptr::with_exposed_provenance_mut::<libc::c_void>(start);
                // SAFETY: the parent's page was there and is not copied: nothing is mapped over. Zeroes are a page that no one may
                // read a counter by.
                unsafe {
                    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
                    libc::mmap(start, length, libc::PROT_READ, kind, -1, 0);
                }
            }
            // SAFETY: the copy of a descriptor whose owner, knowing its generation, will not use or close it.
            unsafe { libc::close(fd) };
        }
    });
}
