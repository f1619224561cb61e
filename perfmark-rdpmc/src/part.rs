//! One descriptor and its page: an event as one PMU counts it.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::atomic::Ordering::Relaxed;

use crate::arch::Native;
use crate::error::{Error, errno_text};
use crate::read::{self, AskKernel, UserRead};
use crate::reading::{Clock, Reading};
use crate::region::{Memory, Region};
use crate::sys::{self, Descriptor, Mapping, ReadFormat};

/// An event opened on one PMU, for the thread that opened it.
#[derive(Debug)]
pub(crate) struct Part {
    /// First, where a pointer to the part leads.
    memory: Memory<Native>,
    page: Result<Mapping, String>,
    fd: Descriptor,
    /// Whether the descriptor was given up, as its number may be another file's. It stays so.
    is_given_up: Cell<bool>,
    /// The enabled and running time that read(2) gave last. Neither falls.
    times: Cell<(u64, u64)>,
    /// Whether read(2) gives the values of its whole group at once.
    reads_group: bool,
    /// The process that opened it.
    generation: u32,
    this_thread: PhantomData<*const ()>,
}

/// Events in a group, at most.
pub(crate) const GROUP: usize = 64;
/// Numbers that `read(2)` gives for such a group.
pub(crate) const GROUP_NUMBERS: usize = 3 + 2 * GROUP;

/// Why the kernel gives no reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Os(i32),
    /// The end of the file: a pinned event that does not fit.
    Nothing,
    /// The descriptor was closed by someone else, and its number may be another file's.
    Closed,
    /// The descriptor could not be marked as ours, and so is not read; an errno.
    Unmarked(i32),
    /// This process was forked from the one that opened it.
    Forked,
}

impl Refusal {
    /// In words: what was tried on which event.
    pub(crate) fn explain(self, call: &str, event: String) -> Error {
        match self {
            Self::Os(errno) => Error::os(errno, call, event, "the kernel refuses it for the counter that it opened"),
            Self::Nothing => {
                Error::refused(event, "the event is in error state: it was pinned and does not fit the PMU")
            }
            Self::Closed => Error::refused(
                event,
                "its descriptor was closed by something else in this process, and its number may be another file's; \
                 open it anew",
            ),
            Self::Unmarked(errno) => Error::os(
                errno,
                "fcntl(F_SETFL)",
                event,
                "its descriptor, which cannot be told from another file's, is not read; allow fcntl there",
            ),
            Self::Forked => Error::refused(
                event,
                "the counter is gone: this process was forked from the one that opened it, whose counter goes on; open it anew",
            ),
        }
    }
}

impl Part {
    /// Takes the descriptor over, and maps its page unless `maps` tells why not.
    pub(crate) fn new(fd: Descriptor, maps: Result<(), &str>) -> Self {
        let page = maps.map_err(str::to_owned).and_then(|()| {
            Mapping::new(&fd).map_err(|errno| match errno {
                libc::EPERM => {
                    "EPERM: no locked memory left to map the counter's page; raise kernel.perf_event_mlock_kb".into()
                }
                errno => format!("{}: the counter's page could not be mapped", errno_text(errno)),
            })
        });
        let memory = Memory::new(&Native, page.as_ref().ok().map(Mapping::page));
        Self {
            page,
            fd,
            memory,
            is_given_up: Cell::new(false),
            times: Cell::new((0, 0)),
            reads_group: false,
            generation: sys::generation(),
            this_thread: PhantomData,
        }
    }

    pub(crate) fn page(&self) -> Result<&Mapping, &str> {
        self.page.as_ref().map_err(String::as_str)
    }

    pub(crate) fn give_up_page(&mut self, why: &str) {
        self.memory.without_page();
        self.page = Err(why.into());
    }

    /// The page's lock.
    pub(crate) fn lock(&self) -> Option<u32> {
        self.page().ok().map(|mapping| mapping.page().lock.load(Relaxed))
    }

    /// Whether this is the process that opened it. In a forked child the page may not be mapped yet.
    #[inline]
    pub(crate) fn is_here(&self) -> bool {
        self.generation == sys::generation()
    }

    /// The descriptor, for a request that follows at once: its number is the event's just now.
    pub(crate) fn fd(&self) -> Result<&Descriptor, Refusal> {
        let fd = self.kept()?;
        if fd.is_ours() { Ok(fd) } else { Err(self.give_up()) }
    }

    /// The descriptor, while it is this process's and not given up. Its number may be another file's all the same.
    #[inline]
    fn kept(&self) -> Result<&Descriptor, Refusal> {
        if !self.is_here() {
            Err(Refusal::Forked)
        } else if self.is_given_up.get() {
            Err(Refusal::Closed)
        } else {
            Ok(&self.fd)
        }
    }

    /// Never uses the descriptor again.
    #[cold]
    pub(crate) fn give_up(&self) -> Refusal {
        if let Some(errno) = self.fd.why_unmarked() {
            return Refusal::Unmarked(errno);
        }
        self.is_given_up.set(true);
        Refusal::Closed
    }

    #[inline]
    #[allow(unsafe_code, reason = "Part is not Send, which is what read asks for")]
    pub(crate) fn look(&self) -> Result<UserRead, AskKernel> {
        match &self.page {
            // SAFETY: `self` was opened on this thread, and cannot leave it.
            Ok(mapping) => unsafe { read::read(mapping.page(), &Native) },
            Err(_) => Err(AskKernel::NotAllowed),
        }
    }

    /// Whether a value that was read together with this id is this event's.
    #[inline]
    pub(crate) fn has_id(&self, id: u64) -> bool {
        self.fd.has_id(id)
    }

    /// As a reading of this event.
    #[inline]
    pub(crate) fn reading(&self, value: u64, enabled: u64, running: u64) -> Reading {
        Reading { value, enabled, running, resets: self.memory.resets(), is_late: false, clock: Clock::default() }
    }

    /// `read(2)` in the middle of a program: allocates nothing.
    #[inline]
    pub(crate) fn kernel_read(&self) -> Result<Reading, Refusal> {
        let fd = self.kept()?;
        if self.reads_group {
            return self.group_read(&mut [0; GROUP_NUMBERS]);
        }
        let before = self.times.get();
        match sys::read(fd) {
            Ok(Some(ReadFormat { value, enabled, running, id })) if self.is_own(id, before, (enabled, running)) => {
                Ok(self.reading(value, enabled, running))
            }
            Ok(Some(_)) => Err(self.give_up()),
            Ok(None) => Err(Refusal::Nothing),
            Err(errno) => Err(self.refused(errno)),
        }
    }

    /// `read(2)` that gives a whole group: number, enabled, running, and a value and an id for each
    /// (`perf_event_open(2)`, "Reading results"). There is room for `N` numbers, [`3 + 2`](GROUP_NUMBERS) for each event.
    #[inline(never)]
    pub(crate) fn group_read<const N: usize>(&self, numbers: &mut [u64; N]) -> Result<Reading, Refusal> {
        let before = self.times.get();
        let count = match sys::read_numbers(self.kept()?, numbers) {
            Ok(0) => return Err(Refusal::Nothing),
            Ok(count) => count,
            Err(errno) => return Err(self.refused(errno)),
        };
        let (enabled, running) = (numbers[1], numbers[2]);
        let values = numbers[..count].get(3..).unwrap_or_default();
        match values.chunks_exact(2).find(|value| self.has_id(value[1])) {
            Some(&[value, id]) if self.is_own(id, before, (enabled, running)) => {
                Ok(self.reading(value, enabled, running))
            }
            _ => Err(self.give_up()),
        }
    }

    /// Whether what read(2) gave is this event's: by its id, and because an event runs while it is enabled, and its
    /// times do not fall. That no event is enabled for longer than it exists is not asked: a look at the clock costs
    /// more than all of this, and the id leaves no doubt. `before` are the times as they were before the read, which a
    /// signal handler that reads, too, may have interrupted.
    #[inline]
    fn is_own(&self, id: u64, before: (u64, u64), (enabled, running): (u64, u64)) -> bool {
        self.times.set((enabled, running));
        self.fd.has_id(id) && running <= enabled && before.0 <= enabled && before.1 <= running
    }

    #[cold]
    fn refused(&self, errno: i32) -> Refusal {
        match errno {
            // No space: an event with a longer format than ours.
            libc::EBADF | libc::ENOSPC => self.give_up(),
            errno => Refusal::Os(errno),
        }
    }

    /// Makes it one whose descriptor gives the numbers of its whole group.
    pub(crate) fn reading_group(self) -> Self {
        Self { reads_group: true, ..self }
    }

    /// Whether its event can be told from others in a group.
    pub(crate) fn is_identified(&self) -> bool {
        self.fd.is_identified()
    }

    /// Reads in user space.
    #[inline]
    pub(crate) fn user_read(&self) -> Result<Reading, AskKernel> {
        self.look().map(|read| Reading { resets: self.memory.resets(), ..read.into() })
    }

    /// How often it was set to 0.
    pub(crate) fn resets(&self) -> u32 {
        self.memory.resets()
    }

    /// Begins a region if the page still says what is remembered.
    #[inline]
    #[allow(unsafe_code, reason = "Part is not Send, which is what Memory asks for")]
    pub(crate) fn begin(&self, region: &mut Region) -> bool {
        // SAFETY: `self` was opened on this thread, and cannot leave it; its page is mapped as long as it lives.
        unsafe { self.memory.begin(&Native, region) }
    }

    /// What was counted in a region in which the page did not change.
    #[inline]
    #[allow(unsafe_code, reason = "as in begin")]
    pub(crate) fn end(&self, region: &Region) -> Option<u64> {
        // SAFETY: as in `begin`.
        unsafe { self.memory.end(&Native, region) }
    }

    /// As [`Memory::remembered`].
    pub(crate) fn remembered(&self) -> Option<(u32, u64, *const sys::MmapPage)> {
        self.memory.remembered()
    }

    /// Remembers what the page says now; false where that does not make the next regions cheap.
    pub(crate) fn remember(&self, read: &UserRead) -> bool {
        self.memory.remember(&Native, read)
    }

    /// Forgets it all: regions begun are unmeasured.
    pub(crate) fn forget(&self) {
        self.memory.forget();
    }

    /// The whole reading at a region's beginning, as far as it is known.
    pub(crate) fn beginning(&self, region: &Region) -> Option<Reading> {
        self.memory.beginning(region)
    }
}
