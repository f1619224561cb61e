//! What a forked child inherits from its parent's counters, and must not keep.
//!
//! The child has copies of the descriptors, but these refer to the *parent's* events. While the child keeps them, an
//! event that the parent closed stays on the parent's PMU. The pages are not copied at all, so the child would be
//! killed when it first accesses one. Therefore the child first closes the descriptors and maps an empty page in place
//! of each page. Its counters then return errors. The addresses of [rings](super::ring) are in memory that the fork
//! wipes, so the child has none.
//!
//! A descriptor is opened and registered, or unregistered and closed, while the list's lock is held. A fork waits for
//! that lock, so no descriptor is missed. A number is closed only if it still is the [event's](super::identity): the
//! program may have closed it, and another file may have the number by now.
//!
//! The fork handlers are registered before `main`. A program's own handlers therefore run before them in the parent,
//! and after them in the child. Handlers that libraries registered even earlier run in between, while the forking
//! thread holds the lock with signals blocked. They may open, drop and [`read`](crate::Counter::read) counters all
//! the same: that thread does not take the lock again, and a number that a fork wipes shows that the counters are the
//! parent's. If such a handler opens a counter in the child, the parent's are released at that point.
//!
//! Two things such a handler must not do. In the child, it must not begin or end regions or call `read_user`: for speed
//! these do not check that number, and accessing a page that is not mapped kills the process. And it must not wait for
//! another thread that opens or drops a counter, because that thread waits for the lock.
//!
//! `pthread_atfork(3)` covers only `fork`. A child made by a bare `clone` or by `vfork` must not use its parent's
//! counters.
#![allow(unsafe_code, reason = "pthread_atfork, a mutex, signal masks, closing, and mapping over pages")]

use std::cell::{Cell, UnsafeCell};
use std::io;
use std::os::fd::{BorrowedFd, RawFd};
use std::ptr::{self, NonNull};
use std::sync::Once;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicPtr, AtomicU32};

use super::super::MmapPage;
use super::identity::Identity;
use super::wiped::{self, Slot, Slots};

/// An event's descriptor, closed when dropped.
#[derive(Debug)]
pub(crate) struct Descriptor {
    fd: RawFd,
    identity: Identity,
    registration: Registration,
}

/// An event's metadata page, mapped read-only; unmapped when dropped.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<MmapPage>,
    _registration: Registration,
}

/// A resource that a child must not keep.
#[derive(Clone, Copy, Debug)]
pub(super) enum Resource {
    Nothing,
    Descriptor(RawFd, Identity),
    /// A page's address and length.
    Page(*mut libc::c_void, usize),
    /// A ring's address and length, and the slot that contains the address.
    Ring(*mut libc::c_void, usize, Slot),
}

/// A node of an intrusive list. Nothing is allocated or freed while the lock is held, because an allocator may use
/// counters as well.
#[derive(Debug)]
struct Node {
    resource: Resource,
    previous: *mut Node,
    next: *mut Node,
    /// How often a descriptor that was closed was looked for.
    looks: u8,
}

/// Owns a node in the list of the process that created it, and the node's resource. Both are released on drop.
#[derive(Debug)]
pub(super) struct Registration {
    node: NonNull<Node>,
    generation: u32,
}

// SAFETY: the node belongs to the list and its lock, so any thread may register and release it.
unsafe impl Send for Registration {}
// SAFETY: nothing is done with a shared reference.
unsafe impl Sync for Registration {}

/// The process's open descriptors and pages, and the state that is passed from the handler before a fork to those after
/// it.
struct List {
    first: *mut Node,
    /// Descriptors that were closed, linked by `next`. If a thread had left the process's table by
    /// `unshare(CLONE_FILES)`, its copy was closed, and the process's own is still open. Each event has an id, so that
    /// no other one is closed in its place.
    closed: *mut Node,
    /// The generation of the process that owns the list.
    generation: u32,
    /// Whether wipe-on-fork memory was requested for the generation.
    has_requested_wiped_memory: bool,
    slots: Slots,
    /// The signal mask of the thread that forks.
    mask: Option<libc::sigset_t>,
}

/// The list and its lock. The handler before a fork takes the lock and the ones after it release it, which no guard of
/// the standard library can do. The lock is held with signals blocked, so no other code runs on the thread that holds
/// it, except handlers of [`FAULTS`]. These cannot open or drop counters, which allocates, and so is not safe in a
/// signal handler (`signal-safety(7)`).
struct SharedList {
    mutex: UnsafeCell<libc::pthread_mutex_t>,
    list: UnsafeCell<List>,
}

// SAFETY: `mutex` may be used by all threads, and only the thread that holds it accesses `list`.
unsafe impl Sync for SharedList {}

static LIST: SharedList = SharedList {
    mutex: UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER),
    list: UnsafeCell::new(List {
        first: ptr::null_mut(),
        closed: ptr::null_mut(),
        generation: FIRST_GENERATION,
        has_requested_wiped_memory: false,
        slots: Slots::new(),
        mask: None,
    }),
};

thread_local! {
    /// The number of forks in progress on this thread: more than one if a handler forks. If any, the thread holds the
    /// lock.
    static FORKS: Cell<u32> = const { Cell::new(0) };
}

/// The generation of the first process.
const FIRST_GENERATION: u32 = 1;

/// Counts the forks from the first process to this one, in memory that a fork wipes. It is 0 until the child has
/// released its parent's counters.
static GENERATION: AtomicPtr<AtomicU32> = AtomicPtr::new((&raw const UNWIPED).cast_mut());

/// Used before the first counter, and if wipe-on-fork memory is not available (linux before 4.14). Then only perfmark's
/// fork handler detects a child.
static UNWIPED: AtomicU32 = AtomicU32::new(FIRST_GENERATION);

fn generation_at() -> &'static AtomicU32 {
    // SAFETY: a static, or mapped permanently.
    unsafe { &*GENERATION.load(Acquire) }
}

/// The generation of this process, in the line of forks. A counter of another generation must not be used.
#[inline]
pub(crate) fn generation() -> u32 {
    generation_at().load(Relaxed)
}

/// Runs before all other constructors of the program or library that contains this code (the language runtime's have
/// priorities 0 to 100), and so before their handlers are registered.
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
        // SAFETY: functions without arguments. If there is no memory for them, forks go undetected.
        unsafe { libc::pthread_atfork(Some(before_fork), Some(after_fork_in_parent), Some(after_fork_in_child)) };
    });
}

/// The signals that the kernel forces on a thread, such as SIGSYS for a system call that a filter traps. It ends a
/// process that blocks them. SIGTRAP is not one of them: that of a sampled event waits while it is blocked.
const FAULTS: [libc::c_int; 5] = [libc::SIGSYS, libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL];

/// Blocks the signals of this thread except [`FAULTS`], and returns the previous mask; `None` if a filter forbids that.
#[inline(never)]
fn block_signals() -> Option<libc::sigset_t> {
    // SAFETY: live sets, which may be zeroed.
    unsafe {
        let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&raw mut all);
        for fault in FAULTS {
            libc::sigdelset(&raw mut all, fault);
        }
        (libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, &raw mut before) == 0).then_some(before)
    }
}

fn unblock_signals(mask: Option<libc::sigset_t>) {
    let Some(mask) = mask else { return };
    // SAFETY: a live set.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const mask, ptr::null_mut()) };
}

/// Runs `change` with the lock held. A thread that is forking holds it already.
fn with_list<R>(change: impl FnOnce(&mut List) -> R) -> R {
    let mask = block_signals();
    let has_lock = FORKS.get() > 0;
    if !has_lock {
        // SAFETY: a static mutex. The only signal handlers that can run on this thread now are those of faults.
        unsafe { libc::pthread_mutex_lock(LIST.mutex.get()) };
    }
    // SAFETY: the lock is held, and this function does not call itself: `change` runs no foreign code, and handlers of
    // `FAULTS` open and drop no counters.
    let list = unsafe { &mut *LIST.list.get() };
    if list.generation != generation() {
        list.release_inherited();
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
    /// Moves the generation to memory that a fork wipes, when the first counter is opened. A library that opens none
    /// leaves no mapping behind when it is unloaded.
    fn use_wiped_generation(&mut self) {
        if std::mem::replace(&mut self.has_requested_wiped_memory, true) {
            return;
        }
        if let Ok(wiped) = wiped::map(size_of::<AtomicU32>()) {
            let wiped = wiped.cast::<AtomicU32>();
            // SAFETY: mapped permanently.
            unsafe { wiped.as_ref() }.store(self.generation, Relaxed);
            GENERATION.store(wiped.as_ptr(), Release);
        }
    }

    /// # Safety
    ///
    /// The node is live and not in the list.
    unsafe fn insert(&mut self, node: NonNull<Node>) {
        let node = node.as_ptr();
        // SAFETY: all nodes in the list are live, and are accessed only through the list.
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
        // SAFETY: all nodes in the list are live, and are accessed only through the list.
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

    /// Closes some of the descriptors that were closed, but still are open for this thread. Returns the nodes that were
    /// looked for often enough, linked by `next`, which are no longer in a list.
    fn close_again(&mut self) -> *mut Node {
        /// More than are added for each that is opened, so that the list does not grow.
        const AT_ONCE: usize = 2 * LOOKS as usize;
        /// Threads with copies of their own do not see the process's descriptors.
        const LOOKS: u8 = 8;
        let (mut gone, mut kept) = (ptr::null_mut(), ptr::null_mut());
        for _ in 0..AT_ONCE {
            // SAFETY: all nodes in the list are live, and are accessed only through it.
            let Some(node) = (unsafe { self.closed.as_mut() }) else { break };
            self.closed = node.next;
            node.looks += 1;
            // One that was open may be open for other threads, too.
            let stays = node.resource.release(&mut self.slots) || node.looks < LOOKS;
            node.next = std::mem::replace(if stays { &mut kept } else { &mut gone }, node);
        }
        // SAFETY: nodes that were in the list are live, and are accessed only here.
        while let Some(node) = unsafe { kept.as_mut() } {
            kept = node.next;
            self.close_later(node);
        }
        gone
    }

    /// Adds a descriptor to those that were closed.
    fn close_later(&mut self, node: &mut Node) {
        node.next = std::mem::replace(&mut self.closed, node);
    }

    /// In a forked child: releases the resources inherited from the parent's counters. The nodes stay with their
    /// owners, which do nothing with nodes of another generation.
    #[cold]
    fn release_inherited(&mut self) {
        let mut next = std::mem::replace(&mut self.first, ptr::null_mut());
        // SAFETY: all nodes in the list are live, as in the parent.
        while let Some(node) = unsafe { next.as_ref() } {
            match node.resource {
                Resource::Page(start, length) => put_empty_page(start, length, libc::PROT_READ),
                // The fork has cleared its slot. If a signal handler forked, a reader that it interrupted goes on here,
                // and writes how far it has read.
                Resource::Ring(start, length, _) => put_empty_page(start, length, libc::PROT_READ | libc::PROT_WRITE),
                resource => _ = resource.release(&mut self.slots),
            }
            next = node.next;
        }
        next = self.closed;
        // SAFETY: all nodes in the list are live, as in the parent.
        while let Some(node) = unsafe { next.as_ref() } {
            node.resource.release(&mut self.slots);
            next = node.next;
        }
        self.generation = self.generation.wrapping_add(1);
        generation_at().store(self.generation, Relaxed);
    }
}

impl Resource {
    /// Whether there was something to release: a descriptor's number may be another file's, or closed.
    fn release(self, slots: &mut Slots) -> bool {
        // SAFETY: owned by the node, and not used afterwards; no reference into a page outlives the mapping.
        unsafe {
            match self {
                Self::Descriptor(fd, identity) if identity.is_of(fd) => _ = libc::close(fd),
                Self::Page(start, length) => _ = libc::munmap(start, length),
                Self::Ring(start, length, slot) => {
                    libc::munmap(start, length);
                    slots.give_back(slot);
                }
                Self::Descriptor(..) | Self::Nothing => return false,
            }
        }
        true
    }
}

/// Maps a zeroed page, which does not allow reading a counter. It does not replace a mapping that an earlier handler
/// created.
fn put_empty_page(start: *mut libc::c_void, length: usize, access: libc::c_int) {
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    // SAFETY: maps only where nothing is mapped. A kernel before 4.17 treats the address as a hint, and may map
    // elsewhere.
    unsafe {
        let mapped = libc::mmap(start, length, access, kind, -1, 0);
        if mapped != libc::MAP_FAILED && mapped != start {
            libc::munmap(mapped, length);
        }
    }
}

impl Registration {
    /// Registers the resource that `make` opens or maps. Returns what `make` returns beside it.
    pub(super) fn new<T>(make: impl FnOnce() -> Result<(Resource, T), i32>) -> Result<(Self, T), i32> {
        let empty = Node { resource: Resource::Nothing, previous: ptr::null_mut(), next: ptr::null_mut(), looks: 0 };
        let node = NonNull::from(Box::leak(Box::new(empty)));
        let mut gone = ptr::null_mut();
        let registration = with_list(|list| {
            list.use_wiped_generation();
            gone = list.close_again();
            let (resource, other) = make()?;
            // SAFETY: created above.
            unsafe {
                (*node.as_ptr()).resource = resource;
                list.insert(node);
            }
            Ok((Self { node, generation: list.generation }, other))
        });
        while !gone.is_null() {
            // SAFETY: created here earlier, and no longer in a list.
            gone = unsafe { Box::from_raw(gone) }.next;
        }
        // SAFETY: created above, and not in a list.
        registration.inspect_err(|_| unsafe { drop(Box::from_raw(node.as_ptr())) })
    }
}

/// A slot for a ring's address.
pub(super) fn slot() -> Result<Slot, i32> {
    with_list(|list| list.slots.take())
}

/// Takes back a slot of this process's.
pub(super) fn give_back(slot: Slot) {
    with_list(|list| list.slots.give_back(slot));
}

impl Drop for Registration {
    fn drop(&mut self) {
        if self.generation != generation() {
            // The parent's. Not freed: the list may still contain it until it is released there.
            return;
        }
        let is_gone = with_list(|list| {
            // SAFETY: in the list since it was created.
            let node = unsafe {
                list.remove(self.node);
                self.node.as_mut()
            };
            let is_known = matches!(node.resource, Resource::Descriptor(_, identity) if identity.is_known());
            let is_kept = node.resource.release(&mut list.slots) && is_known;
            if is_kept {
                list.close_later(node);
            }
            !is_kept
        });
        if is_gone {
            // SAFETY: created by `new`, and no longer in a list.
            unsafe { drop(Box::from_raw(self.node.as_ptr())) };
        }
    }
}

impl Descriptor {
    /// Registers what `open` opens. `open` must only call the kernel.
    pub(super) fn open(open: impl FnOnce() -> Result<(RawFd, Identity), i32>) -> Result<Self, i32> {
        // For environments in which nothing runs before `main`.
        register();
        let (registration, (fd, identity)) =
            Registration::new(|| open().map(|(fd, identity)| (Resource::Descriptor(fd, identity), (fd, identity))))?;
        Ok(Self { fd, identity, registration })
    }

    /// The number, for a read or a request that immediately follows.
    #[inline]
    pub(super) fn number(&self) -> RawFd {
        self.fd
    }

    /// The descriptor, for a program that uses it itself.
    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: open until `self` is dropped. The number is never -1. A program that closes numbers that it does not
        // own breaks this promise for every descriptor; a forked child must not use it, as its documentation says.
        unsafe { BorrowedFd::borrow_raw(self.fd) }
    }

    /// Maps an event's memory. Returns errno if the kernel refuses.
    pub(super) fn map(&self, length: usize, offset: u64, is_writable: bool) -> Result<*mut libc::c_void, i32> {
        if !self.is_ours() {
            return Err(libc::EBADF);
        }
        let access = libc::PROT_READ | if is_writable { libc::PROT_WRITE } else { 0 };
        let offset = libc::off_t::try_from(offset).map_err(|_| libc::EINVAL)?;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start = unsafe { libc::mmap(ptr::null_mut(), length, access, libc::MAP_SHARED, self.number(), offset) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO));
        }
        Ok(start)
    }

    /// Whether the number may be read at this moment: one system call.
    #[inline]
    pub(super) fn may_be_read(&self) -> bool {
        self.identity.may_read(self.fd)
    }

    /// Whether the number is this event's at this moment: two system calls.
    pub(crate) fn is_ours(&self) -> bool {
        self.identity.is_of(self.fd)
    }

    /// Whether a read that returned this id was one of this event.
    #[inline]
    pub(crate) fn has_id(&self, id: u64) -> bool {
        self.identity.is(id)
    }

    /// Whether the event's id is known, so that its value can be found among a group's.
    pub(crate) fn is_identified(&self) -> bool {
        self.identity.is_known()
    }

    /// Makes it send the signal that was chosen for it when it becomes ready.
    pub(super) fn make_async(&mut self) -> Result<(), i32> {
        self.identity = self.identity.made_async(self.fd)?;
        let resource = Resource::Descriptor(self.fd, self.identity);
        // SAFETY: the node is in the list, whose lock is held.
        with_list(|_| unsafe { (*self.registration.node.as_ptr()).resource = resource });
        Ok(())
    }

    /// Why the descriptor could not be marked as this crate's, an errno. It is then never read.
    pub(crate) fn why_unmarked(&self) -> Option<i32> {
        self.identity.why_unmarked()
    }
}

#[cfg(test)]
impl From<std::fs::File> for Descriptor {
    /// A substitute for an event's descriptor.
    fn from(file: std::fs::File) -> Self {
        use std::os::fd::IntoRawFd as _;
        let fd = file.into_raw_fd();
        Self::open(|| Ok((fd, Identity::of_new(fd)))).expect("it is open")
    }
}

impl Mapping {
    /// Maps an event's page; returns errno if the kernel refuses.
    pub(crate) fn new(fd: &Descriptor) -> Result<Self, i32> {
        let length = usize::try_from(page_size()).unwrap_or(4096);
        let (registration, start) = Registration::new(|| {
            let start = fd.map(length, 0, false)?;
            Ok((Resource::Page(start, length), NonNull::new(start.cast()).ok_or(libc::EIO)?))
        })?;
        Ok(Self { start, _registration: registration })
    }

    pub(crate) fn page(&self) -> &MmapPage {
        // SAFETY: mapped until drop, at least a page long, and all its fields are atomics that allow any bit pattern.
        // In a forked child the empty page is mapped in its place.
        unsafe { self.start.as_ref() }
    }
}

/// The size of a page in bytes.
pub(crate) fn page_size() -> u64 {
    // SAFETY: sysconf has no preconditions.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

unsafe extern "C" fn before_fork() {
    let mask = block_signals();
    if FORKS.replace(FORKS.get() + 1) == 0 {
        // SAFETY: the lock is a live static; then it is held, so nobody else uses the list.
        unsafe {
            libc::pthread_mutex_lock(LIST.mutex.get());
            (*LIST.list.get()).mask = mask;
        }
    }
}

/// Releases the lock that `before_fork` took.
fn after_fork() {
    if FORKS.replace(FORKS.get() - 1) == 1 {
        // SAFETY: `before_fork` took the lock and wrote the mask, on this thread or on the one that it is a copy of.
        let mask = unsafe {
            let mask = (*LIST.list.get()).mask;
            libc::pthread_mutex_unlock(LIST.mutex.get());
            mask
        };
        unblock_signals(mask);
    }
}

unsafe extern "C" fn after_fork_in_parent() {
    after_fork();
}

unsafe extern "C" fn after_fork_in_child() {
    UNWIPED.store(0, Relaxed);
    // Releases the resources inherited from the parent.
    with_list(|_| ());
    after_fork();
}
