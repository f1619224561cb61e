//! What a forked child inherits of its parent's counters, and must not keep.
//!
//! The child has copies of the descriptors, but they act on the *parent's* events: as long as the child holds them, an event that the
//! parent closed stays on the parent's PMU. The pages are not copied at all, so that the child would die on its first look at one. So the
//! child, first of all, closes the descriptors and puts an empty page where each page was. Its counters then say that they are gone.
//!
//! A descriptor is opened and noted, or struck out and closed, with the list's lock held, which a fork waits for: none is missed. And a number
//! is closed only if it still is the [event's](super::identity): someone else may have closed it, and the number be
//! another file's by now.
//!
//! The handlers are registered before `main`, so that those of a program run before them in the parent, and after them in the child. Handlers
//! registered even earlier, by libraries loaded before this code, run in between, while the forking thread holds the lock with all signals
//! blocked. They may open, drop and [`read`](crate::Counter::read) counters all the same: that thread does not take the lock again, and a number
//! that a fork wipes tells that the counters are the parent's. Where one of them opens a counter in the child, the parent's are left behind then
//! and there. Two things such a handler must not do: in the child, begin or end regions or call `read_user`, which have no instruction to spare
//! for a look at that number, and die where the page is not mapped; and wait for another thread that opens or drops a counter, which waits for
//! the lock.
//!
//! `pthread_atfork(3)` knows `fork` only; a child made by a bare `clone` must not touch its parent's counters, nor may one of `vfork`.
#![allow(unsafe_code, reason = "pthread_atfork, a mutex, signal masks, closing, and mapping where pages were")]

use std::cell::{Cell, UnsafeCell};
use std::io;
use std::os::fd::RawFd;
use std::ptr::{self, NonNull};
use std::sync::Once;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicPtr, AtomicU32};

use super::MmapPage;
use super::identity::Identity;

/// An event's descriptor, closed when dropped.
#[derive(Debug)]
pub(crate) struct Descriptor {
    fd: RawFd,
    identity: Identity,
    _noted: Noted,
}

/// An event's metadata page, mapped read-only; unmapped when dropped.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<MmapPage>,
    _noted: Noted,
}

/// What a child must not keep.
#[derive(Clone, Copy, Debug)]
enum Held {
    Nothing,
    Descriptor(RawFd, Identity),
    /// Its address and length.
    Page(*mut libc::c_void, usize),
}

/// One of the list, which is threaded through these: nothing is allocated or freed with the lock held, as an allocator may have counters, too.
#[derive(Debug)]
struct Node {
    held: Held,
    previous: *mut Node,
    next: *mut Node,
}

/// A node in the list of the process that made it, and what it holds: both end when dropped.
#[derive(Debug)]
struct Noted {
    node: NonNull<Node>,
    generation: u32,
}

/// The process's open descriptors and pages, and what is kept between the two sides of a fork.
struct List {
    first: *mut Node,
    /// The process whose list it is.
    generation: u32,
    /// Whether memory was asked for that a fork wipes.
    has_asked: bool,
    /// Of the thread that forks.
    mask: Option<libc::sigset_t>,
}

/// The handler before a fork takes the lock and the ones after it release it, which no guard of the standard library can do. It is held with
/// all signals blocked, so that nothing else runs in the middle on the thread that holds it.
struct Locked {
    mutex: UnsafeCell<libc::pthread_mutex_t>,
    list: UnsafeCell<List>,
}

// SAFETY: `mutex` is for all threads, and `list` is touched by the one that holds it alone.
unsafe impl Sync for Locked {}

static LIST: Locked = Locked {
    mutex: UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER),
    list: UnsafeCell::new(List { first: ptr::null_mut(), generation: FIRST, has_asked: false, mask: None }),
};

thread_local! {
    /// How many forks the thread is in the middle of, more than one if a handler forks. If any, it has the lock.
    static FORKS: Cell<u32> = const { Cell::new(0) };
}

/// The generation of the first process.
const FIRST: u32 = 1;

/// Counts forks on the way from the first process to this one, in memory that a fork wipes: 0 until the child has left its parent's counters.
static GENERATION: AtomicPtr<AtomicU32> = AtomicPtr::new((&raw const UNWIPED).cast_mut());

/// Used instead of that memory before the first counter, and if there is none (linux before 4.14). Then only perfmark's
/// fork handler detects a child.
static UNWIPED: AtomicU32 = AtomicU32::new(FIRST);

fn generation_at() -> &'static AtomicU32 {
    // SAFETY: a static, or mapped for ever.
    unsafe { &*GENERATION.load(Acquire) }
}

/// Which process this is, in the line of forks. A counter of another generation is gone.
#[inline]
pub(crate) fn generation() -> u32 {
    generation_at().load(Relaxed)
}

/// Before all other constructors of the program or library that this is part of (the language's own have 0 to 100), and so before their
/// handlers.
#[used]
#[unsafe(link_section = ".init_array.00099")]
static BEFORE_MAIN: extern "C" fn() = {
    extern "C" fn before_main() {
        register();
    }
    before_main
};

/// Registers the handlers, once.
fn register() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: functions without arguments. Where there is no memory for them, forks go unnoticed.
        unsafe { libc::pthread_atfork(Some(before), Some(after_in_parent), Some(after_in_child)) };
    });
}

/// A number that reads as 0 in a forked child.
fn map_wiped() -> Option<&'static AtomicU32> {
    let (length, access) = (size_of::<AtomicU32>(), libc::PROT_READ | libc::PROT_WRITE);
    // SAFETY: a new mapping at an address of the kernel's choice, which nobody unmaps unless it is of no use.
    unsafe {
        let start = libc::mmap(ptr::null_mut(), length, access, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0);
        if start == libc::MAP_FAILED {
            return None;
        }
        if libc::madvise(start, length, libc::MADV_WIPEONFORK) != 0 {
            libc::munmap(start, length);
            return None;
        }
        start.cast::<AtomicU32>().as_ref()
    }
}

/// Blocks all signals of this thread, and gives the mask that was; none where a filter forbids that.
fn block_signals() -> Option<libc::sigset_t> {
    // SAFETY: live sets, which may be zeroes.
    unsafe {
        let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&raw mut all);
        (libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before) == 0).then_some(before)
    }
}

fn unblock_signals(mask: Option<libc::sigset_t>) {
    let Some(mask) = mask else { return };
    // SAFETY: a live set.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const mask, ptr::null_mut()) };
}

/// Of the thread that is in the middle of a fork the lock is already.
fn with<R>(change: impl FnOnce(&mut List) -> R) -> R {
    let mask = block_signals();
    let has_lock = FORKS.get() > 0;
    if !has_lock {
        // SAFETY: a static mutex, which no signal handler of this thread can want now.
        unsafe { libc::pthread_mutex_lock(LIST.mutex.get()) };
    }
    // SAFETY: the lock is held, and this function does not call itself: `change` runs no code of others, and no signal is handled.
    let list = unsafe { &mut *LIST.list.get() };
    if list.generation != generation() {
        list.leave_behind();
    }
    let result = change(list);
    if !has_lock {
        // SAFETY: locked above.
        unsafe { libc::pthread_mutex_unlock(LIST.mutex.get()) };
    }
    unblock_signals(mask);
    result
}

impl List {
    /// Keeps the generation in memory that a fork wipes, from the first counter on: a library that opens none leaves
    /// nothing when it is closed.
    fn wipe_at_forks(&mut self) {
        if std::mem::replace(&mut self.has_asked, true) {
            return;
        }
        if let Some(wiped) = map_wiped() {
            wiped.store(self.generation, Relaxed);
            GENERATION.store(ptr::from_ref(wiped).cast_mut(), Release);
        }
    }

    /// # Safety
    ///
    /// The node lives and is not in the list.
    unsafe fn insert(&mut self, node: NonNull<Node>) {
        let node = node.as_ptr();
        // SAFETY: all in the list live, and none is touched but with the list.
        unsafe {
            (*node).next = self.first;
            if let Some(next) = self.first.as_mut() {
                next.previous = node;
            }
        }
        self.first = node;
    }

    /// # Safety
    ///
    /// The node is in the list.
    unsafe fn remove(&mut self, node: NonNull<Node>) {
        // SAFETY: as in `insert`.
        unsafe {
            let Node { previous, next, .. } = *node.as_ptr();
            match previous.as_mut() {
                Some(previous) => previous.next = next,
                None => self.first = next,
            }
            if let Some(next) = next.as_mut() {
                next.previous = previous;
            }
        }
    }

    /// In a forked child: ends what its parent's counters left here. The nodes stay with their owners, who, knowing their generation, do
    /// nothing with them.
    #[cold]
    fn leave_behind(&mut self) {
        let mut next = std::mem::replace(&mut self.first, ptr::null_mut());
        // SAFETY: all in the list live, as the parent's did.
        while let Some(node) = unsafe { next.as_ref() } {
            match node.held {
                Held::Page(start, length) => put_empty_page(start, length),
                held => held.end(),
            }
            next = node.next;
        }
        self.generation = self.generation.wrapping_add(1);
        generation_at().store(self.generation, Relaxed);
    }
}

impl Held {
    fn end(self) {
        // SAFETY: ours, and not used after; no reference into a page outlives the mapping.
        unsafe {
            match self {
                // What still is that event's.
                Self::Descriptor(fd, identity) if identity.is_of(fd) => _ = libc::close(fd),
                Self::Page(start, length) => _ = libc::munmap(start, length),
                Self::Descriptor(..) | Self::Nothing => {}
            }
        }
    }
}

/// Zeroes are a page that no one may read a counter by. Not over what an earlier handler put there.
fn put_empty_page(start: *mut libc::c_void, length: usize) {
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    // SAFETY: maps where nothing is. A kernel before 4.17, which takes the address for a hint, may map elsewhere.
    unsafe {
        let mapped = libc::mmap(start, length, libc::PROT_READ, kind, -1, 0);
        if mapped != libc::MAP_FAILED && mapped != start {
            libc::munmap(mapped, length);
        }
    }
}

impl Noted {
    /// Takes note of what `make` opens or maps.
    fn new(make: impl FnOnce() -> Result<Held, i32>) -> Result<Self, i32> {
        let empty = Node { held: Held::Nothing, previous: ptr::null_mut(), next: ptr::null_mut() };
        let node = NonNull::from(Box::leak(Box::new(empty)));
        let noted = with(|list| {
            list.wipe_at_forks();
            let held = make()?;
            // SAFETY: made above.
            unsafe {
                (*node.as_ptr()).held = held;
                list.insert(node);
            }
            Ok(Self { node, generation: list.generation })
        });
        // SAFETY: made above, and in no list.
        noted.inspect_err(|_| unsafe { drop(Box::from_raw(node.as_ptr())) })
    }
}

impl Drop for Noted {
    fn drop(&mut self) {
        if self.generation != generation() {
            // The parent's. Not freed: the list may still have it, before it is left behind.
            return;
        }
        with(|list| {
            // SAFETY: in the list since it was made.
            unsafe {
                list.remove(self.node);
                self.node.as_ref().held.end();
            }
        });
        // SAFETY: made by `new`, and in no list any more.
        unsafe { drop(Box::from_raw(self.node.as_ptr())) };
    }
}

impl Descriptor {
    /// Takes note of what `open` opens, which calls the kernel and nothing else.
    pub(super) fn open(open: impl FnOnce() -> Result<(RawFd, Identity), i32>) -> Result<Self, i32> {
        // Where nothing runs before `main`.
        register();
        let mut opened = None;
        let noted = Noted::new(|| {
            let (fd, identity) = open()?;
            opened = Some((fd, identity));
            Ok(Held::Descriptor(fd, identity))
        })?;
        // It was opened.
        let (fd, identity) = opened.ok_or(libc::EIO)?;
        Ok(Self { fd, identity, _noted: noted })
    }

    /// For a read or a request that follows at once.
    #[inline]
    pub(super) fn number(&self) -> RawFd {
        self.fd
    }

    /// Whether the number may be read just now: one system call.
    #[inline]
    pub(super) fn may_be_read(&self) -> bool {
        self.identity.may_read(self.fd)
    }

    /// Whether the number is this event's just now: two system calls.
    pub(crate) fn is_ours(&self) -> bool {
        self.identity.is_of(self.fd)
    }

    /// Whether a read that gave this id was one of this event.
    #[inline]
    pub(crate) fn has_id(&self, id: u64) -> bool {
        self.identity.is(id)
    }

    /// Whether the event's id is known, so that it can be told from others in a group.
    pub(crate) fn is_identified(&self) -> bool {
        self.identity.is_known()
    }

    /// Why the descriptor could not be marked as ours, an errno: then it is never read.
    pub(crate) fn why_unmarked(&self) -> Option<i32> {
        self.identity.why_unmarked()
    }
}

#[cfg(test)]
impl From<std::fs::File> for Descriptor {
    /// Stands in for an event's.
    fn from(file: std::fs::File) -> Self {
        use std::os::fd::IntoRawFd as _;
        let fd = file.into_raw_fd();
        Self::open(|| Ok((fd, Identity::of_new(fd)))).expect("it is open")
    }
}

impl Mapping {
    /// Maps an event's page. Gives errno where the kernel refuses.
    pub(crate) fn new(fd: &Descriptor) -> Result<Self, i32> {
        let length = usize::try_from(page_size()).unwrap_or(4096);
        let mut page = NonNull::dangling();
        let noted = Noted::new(|| {
            if !fd.is_ours() {
                return Err(libc::EBADF);
            }
            // SAFETY: a new mapping at an address of the kernel's choice.
            let start =
                unsafe { libc::mmap(ptr::null_mut(), length, libc::PROT_READ, libc::MAP_SHARED, fd.number(), 0) };
            let mapped = NonNull::new(start.cast::<MmapPage>()).filter(|_| start != libc::MAP_FAILED);
            page = mapped.ok_or_else(|| io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))?;
            Ok(Held::Page(start, length))
        })?;
        Ok(Self { start: page, _noted: noted })
    }

    pub(crate) fn page(&self) -> &MmapPage {
        // SAFETY: mapped until drop, at least a page long, and all its fields are atomics of any bit pattern. In a forked child the empty page
        // that stands in for it.
        unsafe { self.start.as_ref() }
    }
}

/// Bytes in a page.
pub(crate) fn page_size() -> u64 {
    // SAFETY: sysconf has no preconditions.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

unsafe extern "C" fn before() {
    let mask = block_signals();
    if FORKS.replace(FORKS.get() + 1) == 0 {
        // SAFETY: as in `with`; then the lock is held.
        unsafe {
            libc::pthread_mutex_lock(LIST.mutex.get());
            (*LIST.list.get()).mask = mask;
        }
    }
}

/// Releases what `before` took.
fn after() {
    if FORKS.replace(FORKS.get() - 1) == 1 {
        // SAFETY: the lock is held since `before`, which wrote the mask, by this thread or the one that it is the copy of.
        let mask = unsafe {
            let mask = (*LIST.list.get()).mask;
            libc::pthread_mutex_unlock(LIST.mutex.get());
            mask
        };
        unblock_signals(mask);
    }
}

unsafe extern "C" fn after_in_parent() {
    after();
}

unsafe extern "C" fn after_in_child() {
    UNWIPED.store(0, Relaxed);
    // Leaves the parent's behind.
    with(|_| ());
    after();
}
