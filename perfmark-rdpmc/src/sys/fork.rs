//! What a forked child inherits of its parent's counters, and must not keep.
//!
//! The child has copies of the descriptors, but they act on the *parent's* events: as long as the child holds them, an event that the
//! parent closed stays on the parent's PMU. The pages are not copied at all, so that the child would die on its first look at one. So the
//! child, first of all, closes the descriptors and puts an empty page where each page was. Its counters then say that they are gone.
//!
//! `pthread_atfork(3)` knows `fork` only; a child made by a bare `clone` must not touch its parent's counters, nor may one of `vfork`.
#![allow(unsafe_code, reason = "pthread_atfork, signal masks, and mapping where pages were")]

use std::cell::UnsafeCell;
use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::os::fd::RawFd;
use std::ptr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Arc, Once};

/// An open counter: its descriptor, whether that was closed by someone else, and its page's address and length.
#[derive(Debug)]
struct Open {
    fd: RawFd,
    is_closed: Arc<AtomicBool>,
    page: Option<(usize, usize)>,
}

/// Names a counter in the list; descriptors' numbers are used again.
pub(crate) type Id = u64;

/// The process's open counters, and what is kept between the two sides of a fork.
struct List {
    next: Id,
    open: BTreeMap<Id, Open>,
    /// Of the thread that forks.
    mask: MaybeUninit<libc::sigset_t>,
}

/// A lock that the handler before a fork takes and the ones after it release, which no guard of the standard library can do. It is held with
/// all signals blocked, so that nobody forks in the middle on the thread that holds it.
struct Locked {
    is_held: AtomicBool,
    list: UnsafeCell<List>,
}

// SAFETY: `list` is touched by the holder alone.
unsafe impl Sync for Locked {}

static LIST: Locked = Locked {
    is_held: AtomicBool::new(false),
    list: UnsafeCell::new(List { next: 0, open: BTreeMap::new(), mask: MaybeUninit::uninit() }),
};

/// Counts forks on the way from the first process to this one.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// Which process this is, in the line of forks. A counter of another generation is gone.
#[inline]
pub(crate) fn generation() -> u32 {
    GENERATION.load(Relaxed)
}

/// Blocks all signals of this thread, takes the lock, and gives the mask that was.
fn take() -> MaybeUninit<libc::sigset_t> {
    let mut before = MaybeUninit::uninit();
    // SAFETY: live sets.
    unsafe {
        let mut all = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, before.as_mut_ptr());
    }
    while LIST.is_held.compare_exchange_weak(false, true, Acquire, Relaxed).is_err() {
        std::thread::yield_now();
    }
    before
}

fn release(mask: MaybeUninit<libc::sigset_t>) {
    LIST.is_held.store(false, Release);
    // SAFETY: written by `take`.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, mask.as_ptr(), ptr::null_mut()) };
}

fn with<R>(change: impl FnOnce(&mut List) -> R) -> R {
    let mask = take();
    // SAFETY: the lock is held.
    let result = change(unsafe { &mut *LIST.list.get() });
    release(mask);
    result
}

/// Takes note of a counter that was opened. `is_closed` tells whether someone else closed its descriptor.
pub(crate) fn opened(fd: RawFd, is_closed: Arc<AtomicBool>, page: Option<(usize, usize)>) -> Id {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: functions without arguments. Where there is no memory for them, forks go unnoticed.
        unsafe { libc::pthread_atfork(Some(before), Some(after_in_parent), Some(after_in_child)) };
    });
    with(|list| {
        list.next += 1;
        list.open.insert(list.next, Open { fd, is_closed, page });
        list.next
    })
}

/// Takes note of a counter that gives up its page.
pub(crate) fn without_page(id: Id) {
    with(|list| {
        if let Some(open) = list.open.get_mut(&id) {
            open.page = None;
        }
    });
}

/// Takes note of a counter that is about to be closed.
pub(crate) fn closing(id: Id) {
    drop(with(|list| list.open.remove(&id)));
}

unsafe extern "C" fn before() {
    let mask = take();
    // SAFETY: the lock is held.
    unsafe { (*LIST.list.get()).mask = mask };
}

/// Releases what `before` took.
fn after() {
    // SAFETY: the lock is held since `before`, which wrote the mask.
    let mask = unsafe { (*LIST.list.get()).mask };
    release(mask);
}

unsafe extern "C" fn after_in_parent() {
    after();
}

unsafe extern "C" fn after_in_child() {
    GENERATION.fetch_add(1, Relaxed);
    // SAFETY: the lock is held since `before`, by the thread that this one is the copy of.
    let open = std::mem::take(unsafe { &mut (*LIST.list.get()).open });
    for open in open.values() {
        if let Some((start, length)) = open.page {
            let start = ptr::with_exposed_provenance_mut::<libc::c_void>(start);
            // Zeroes are a page that no one may read a counter by. Not over what an earlier handler put there.
            let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
            // SAFETY: maps where nothing is. A kernel before 4.17, which takes the address for a hint, may map elsewhere.
            unsafe {
                let mapped = libc::mmap(start, length, libc::PROT_READ, kind, -1, 0);
                if mapped != libc::MAP_FAILED && mapped != start {
                    libc::munmap(mapped, length);
                }
            }
        }
        if !open.is_closed.load(Relaxed) {
            // SAFETY: the copy of a descriptor whose owner, knowing its generation, will not use or close it.
            unsafe { libc::close(open.fd) };
        }
    }
    // Not freed: the parent's other threads, which may have been in the allocator, are not here to finish.
    std::mem::forget(open);
    after();
}
