//! What a forked child inherits of its parent's counters, and must not keep.
//!
//! The child has copies of the descriptors, but they act on the *parent's* events: as long as the child holds them, an event that the
//! parent closed stays on the parent's PMU. The pages are not copied at all, so that the child would die on its first look at one. So the
//! child, first of all, closes the descriptors and puts an empty page where each page was. Its counters then say that they are gone.
//!
//! A descriptor is opened and noted, or struck out and closed, with the list's lock held, which a fork waits for: none is missed. And a number
//! is closed only if it still is the event's, by the id that the kernel gives each event once: someone else may have closed it, and the number
//! be another file's by now.
//!
//! `pthread_atfork(3)` knows `fork` only; a child made by a bare `clone` must not touch its parent's counters, nor may one of `vfork`.
#![allow(unsafe_code, reason = "pthread_atfork, signal masks, closing, and mapping where pages were")]

use std::cell::UnsafeCell;
use std::collections::BTreeMap;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::RawFd;
use std::ptr::{self, NonNull};
use std::sync::Once;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32};

use super::{IOC_ID, MmapPage};

/// An event's descriptor, closed when dropped.
#[derive(Debug)]
pub(crate) struct Descriptor {
    fd: RawFd,
    event: Option<EventId>,
    /// The process that opened it.
    generation: u32,
}

/// The kernel's own name for an event, never used again. Linux before 3.12 does not tell it.
type EventId = u64;

/// The process's open descriptors and pages, and what is kept between the two sides of a fork.
struct List {
    descriptors: BTreeMap<RawFd, Option<EventId>>,
    /// Addresses and lengths.
    pages: BTreeMap<usize, usize>,
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
    list: UnsafeCell::new(List { descriptors: BTreeMap::new(), pages: BTreeMap::new(), mask: MaybeUninit::uninit() }),
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

/// The event behind a descriptor, if it is one. The only request that a child may make: it changes nothing.
fn event(fd: RawFd) -> Option<EventId> {
    let mut event = 0;
    // SAFETY: writes a number, which is live.
    (unsafe { libc::ioctl(fd, IOC_ID as libc::Ioctl, &raw mut event) } == 0).then_some(event)
}

impl Descriptor {
    /// Takes note of what `open` opens.
    pub(super) fn open(open: impl FnOnce() -> Result<RawFd, i32>) -> Result<Self, i32> {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            // SAFETY: functions without arguments. Where there is no memory for them, forks go unnoticed.
            unsafe { libc::pthread_atfork(Some(before), Some(after_in_parent), Some(after_in_child)) };
        });
        with(|list| {
            let fd = open()?;
            let event = event(fd);
            list.descriptors.insert(fd, event);
            Ok(Self { fd, event, generation: generation() })
        })
    }

    #[inline]
    pub(super) fn number(&self) -> RawFd {
        self.fd
    }
}

#[cfg(test)]
impl From<std::fs::File> for Descriptor {
    /// Stands in for an event's.
    fn from(file: std::fs::File) -> Self {
        use std::os::fd::IntoRawFd as _;
        Self::open(|| Ok(file.into_raw_fd())).expect("it is open")
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        if self.generation != generation() {
            // The parent's, closed at the fork.
            return;
        }
        with(|list| {
            // Or another of ours, which got the same number after someone else closed this one.
            if list.descriptors.get(&self.fd) == Some(&self.event) {
                list.descriptors.remove(&self.fd);
                close(self.fd, self.event);
            }
        });
    }
}

/// Closes what still is that event's descriptor.
fn close(fd: RawFd, is: Option<EventId>) {
    if event(fd) == is {
        // SAFETY: ours, and not used after.
        unsafe { libc::close(fd) };
    }
}

/// An event's metadata page, mapped read-only; unmapped when dropped.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<MmapPage>,
    length: usize,
    generation: u32,
}

impl Mapping {
    /// Maps an event's page. Gives errno where the kernel refuses.
    pub(crate) fn new(fd: &Descriptor) -> Result<Self, i32> {
        let length = usize::try_from(super::page_size()).unwrap_or(4096);
        with(|list| {
            // SAFETY: a new mapping at an address of the kernel's choice.
            let start =
                unsafe { libc::mmap(ptr::null_mut(), length, libc::PROT_READ, libc::MAP_SHARED, fd.number(), 0) };
            let page = NonNull::new(start.cast::<MmapPage>()).filter(|_| start != libc::MAP_FAILED);
            let start = page.ok_or_else(|| io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))?;
            list.pages.insert(start.as_ptr().expose_provenance(), length);
            Ok(Self { start, length, generation: generation() })
        })
    }

    pub(crate) fn page(&self) -> &MmapPage {
        // SAFETY: mapped until drop, at least a page long, and all its fields are atomics of any bit pattern. In a forked child the empty page
        // that stands in for it.
        unsafe { self.start.as_ref() }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if self.generation != generation() {
            // The parent's: what is at its address here is not ours to unmap.
            return;
        }
        with(|list| {
            list.pages.remove(&self.start.as_ptr().expose_provenance());
            // SAFETY: the mapping is ours, and no reference into it outlives `self`.
            unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
        });
    }
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
    let list = unsafe { &mut *LIST.list.get() };
    let (descriptors, pages) = (std::mem::take(&mut list.descriptors), std::mem::take(&mut list.pages));
    for (&start, &length) in &pages {
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
    // Copies of descriptors whose owners, knowing their generation, will not use or close them.
    for (&fd, &event) in &descriptors {
        close(fd, event);
    }
    // Not freed: the parent's other threads, which may have been in the allocator, are not here to finish.
    std::mem::forget((descriptors, pages));
    after();
}
