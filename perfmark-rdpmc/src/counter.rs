//! One event opened on one thread.

use std::cell::Cell;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;

use crate::arch::{Native, Processor as _};
use crate::attr::Attr;
use crate::error::{Error, errno_text};
use crate::event::Event;
use crate::machine::Machine;
use crate::open::{self, Opened};
use crate::read::{self, AskKernel, UserRead};
use crate::reading::{Delta, Reading};
use crate::region::{Memory, Region};
use crate::sys::{self, Descriptor, Mapping};

impl Drop for Counter {
    #[allow(unsafe_code, reason = "a descriptor that someone else closed is not ours to close")]
    fn drop(&mut self) {
        if !self.is_gone.get() {
            // SAFETY: not used after.
            unsafe { ManuallyDrop::drop(&mut self.fd) };
        }
    }
}

/// Why the kernel gives no reading.
enum Refusal {
    Os(i32),
    Nothing,
    Gone,
}

/// One event, counted on the thread that opened it since it was opened.
///
/// It belongs to that thread: a processor reads only its own counters, so the type is not `Send`.
///
/// ```compile_fail
/// fn sent<T: Send>() {}
/// sent::<perfmark_rdpmc::Counter>();
/// ```
///
/// It holds a descriptor and a mapped page, which counts against the locked memory that `kernel.perf_event_mlock_kb` and
/// `RLIMIT_MEMLOCK` allow; where there is none left, the counter reads by `read(2)`.
#[derive(Debug)]
pub struct Counter {
    page: Result<Mapping, String>,
    fd: ManuallyDrop<Descriptor>,
    event: Event,
    memory: Memory<Native>,
    /// Whether something else closed the descriptor.
    is_gone: Cell<bool>,
    this_thread: PhantomData<*const ()>,
}

impl Counter {
    /// Opens a counter for the calling thread and starts it.
    ///
    /// # Errors
    ///
    /// Where the kernel refuses, with its answer, the likely cause on this machine, and the remedy.
    pub fn open(attr: &Attr) -> Result<Self, Error> {
        let Opened { fd, encoding } = open::open(attr)?;
        let page = if encoding.is_user_readable() && attr.asks_user_reads() {
            Mapping::new(&fd).map_err(|errno| match errno {
                libc::EPERM => {
                    "EPERM: no locked memory left to map the counter's page; raise kernel.perf_event_mlock_kb".into()
                }
                errno => format!("{}: the counter's page could not be mapped", errno_text(errno)),
            })
        } else {
            Err("the kernel alone counts it".into())
        };
        Ok(Self {
            page,
            fd: ManuallyDrop::new(fd),
            event: attr.event().clone(),
            memory: Memory::new(&Native),
            is_gone: Cell::new(false),
            this_thread: PhantomData,
        })
    }

    /// Gives up user-space reads of this counter: every reading is by `read(2)` from now on.
    pub fn read_by_kernel_only(&mut self) {
        self.page = Err("user-space reads were given up".into());
    }

    /// What is counted.
    #[must_use]
    pub fn event(&self) -> &Event {
        &self.event
    }

    /// Reads without a system call where the kernel allows it now, else by `read(2)`.
    ///
    /// # Errors
    ///
    /// As [`read_syscall`](Self::read_syscall).
    #[inline]
    pub fn read(&self) -> Result<Reading, Error> {
        match self.user_read() {
            Ok(read) => Ok(read.into()),
            Err(_) => self.read_syscall(),
        }
    }

    /// Reads without a system call. `None` where only the kernel knows: for a software event always, for a hardware event also while
    /// it has no hardware counter. [`user_reads`](Self::user_reads) tells why.
    #[inline]
    #[must_use]
    pub fn read_user(&self) -> Option<Reading> {
        self.user_read().ok().map(Reading::from)
    }

    #[inline]
    #[allow(unsafe_code, reason = "Counter is not Send, which is what read asks for")]
    fn user_read(&self) -> Result<UserRead, AskKernel> {
        match &self.page {
            // SAFETY: `self` was opened on this thread, and cannot leave it.
            Ok(mapping) => unsafe { read::read(mapping.page(), &Native) },
            Err(_) => Err(AskKernel::NotAllowed),
        }
    }

    /// Begins a region. Cheaper than a whole [`read`](Self::read) while the kernel leaves the counter alone.
    ///
    /// ```
    /// use perfmark_rdpmc::{Attr, Counter, Hardware, Region};
    ///
    /// let Ok(counter) = Counter::open(&Attr::new(Hardware::Instructions)) else { return };
    /// let mut region = Region::default();
    /// counter.begin(&mut region);
    /// std::hint::black_box(6 * 7);
    /// println!("{:?}", counter.end(&region));
    /// ```
    #[inline]
    #[allow(unsafe_code, reason = "Counter is not Send, which is what Memory asks for")]
    pub fn begin(&self, region: &mut Region) {
        // SAFETY: `self` was opened on this thread, and cannot leave it.
        while !self.page.as_ref().is_ok_and(|mapping| unsafe { self.memory.begin(mapping.page(), &Native, region) }) {
            // Once the page is remembered the beginning is read above, so that it is followed by the same instructions always.
            if !self.remember(region) {
                return;
            }
        }
    }

    /// Ends a region that this counter began, and gives what it counted inside.
    #[inline]
    #[must_use]
    #[allow(unsafe_code, reason = "as in begin")]
    pub fn end(&self, region: &Region) -> Delta {
        if let Ok(mapping) = &self.page
            // SAFETY: as in `begin`.
            && let Some(value) = unsafe { self.memory.end(mapping.page(), &Native, region) }
        {
            return Delta::Exact(value);
        }
        self.end_after_a_change(region)
    }

    /// Remembers what the page says now, because the kernel touched it since; or begins the region the long way.
    #[cold]
    #[inline(never)]
    fn remember(&self, region: &mut Region) -> bool {
        let read = self.user_read();
        if read.is_ok_and(|read| self.memory.remember(&Native, &read)) {
            return true;
        }
        match read.map(Reading::from).or_else(|_| self.kernel_read()) {
            Ok(reading) => region.begin_whole(reading),
            Err(_) => *region = Region::default(),
        }
        false
    }

    #[cold]
    #[inline(never)]
    fn end_after_a_change(&self, region: &Region) -> Delta {
        let end = self.user_read().map(Reading::from).or_else(|_| self.kernel_read());
        match (end, self.memory.beginning(region)) {
            (Ok(end), Some(beginning)) => end.since(&beginning),
            _ => Delta::Unmeasured,
        }
    }

    /// Reads by `read(2)`.
    ///
    /// # Errors
    ///
    /// Where the kernel refuses to read what it opened: an event in error state, or a system call filter.
    pub fn read_syscall(&self) -> Result<Reading, Error> {
        self.kernel_read().map_err(|refusal| {
            let event = self.event.to_string();
            match refusal {
                Refusal::Os(errno) => {
                    Error::os(errno, "read", event, "the kernel refuses to read the counter that it opened")
                }
                Refusal::Nothing => {
                    Error::refused(event, "the event is in error state: it was pinned and does not fit the PMU")
                }
                Refusal::Gone => Error::refused(event, "its descriptor was closed by something else in this process"),
            }
        })
    }

    /// `read(2)` in the middle of a program: allocates nothing.
    fn kernel_read(&self) -> Result<Reading, Refusal> {
        if self.is_gone.get() {
            return Err(Refusal::Gone);
        }
        match sys::read(&self.fd) {
            Ok(Some(read)) => Ok(Reading { value: read.value, enabled: read.enabled, running: read.running }),
            Ok(None) => Err(Refusal::Nothing),
            Err(libc::EBADF) => {
                // Someone closed all descriptors; the number may be another file's the next time.
                self.is_gone.set(true);
                Err(Refusal::Gone)
            }
            Err(errno) => Err(Refusal::Os(errno)),
        }
    }

    /// Whether the counter can be read without a system call, as long as it has a hardware counter.
    ///
    /// # Errors
    ///
    /// Why it cannot.
    pub fn user_reads(&self) -> Result<(), String> {
        let why = match (&self.page, self.user_read()) {
            (Err(why), _) => return Err(why.clone()),
            (_, Ok(_)) => return Ok(()),
            (_, Err(why)) => why,
        };
        let setting = || Machine::here().user_reads_forbidden();
        Err(match why {
            AskKernel::OldKernel => "linux before 3.12 does not tell whether user space may read".into(),
            AskKernel::NotAllowed => setting().unwrap_or_else(|| "the kernel does not let user space read it".into()),
            AskKernel::NoIndex => match setting() {
                Some(setting) => setting,
                // Other events hold the PMU just now: it can when its turn comes.
                None if self.kernel_read().is_ok_and(|reading| reading.running < reading.enabled) => return Ok(()),
                None => "the kernel counts it, but gives user space no counter to read".into(),
            },
            AskKernel::NoTimes | AskKernel::Busy => return Ok(()),
        })
    }

    /// The page's lock, which moves whenever the kernel touches the counter: at a switch to another thread, an overflow, a rotation
    /// among events. If it is the same before and after, the counter ran without a break in between. `None` without a page.
    #[must_use]
    pub fn page_lock(&self) -> Option<u32> {
        let mapping = self.page.as_ref().ok()?;
        Some(mapping.page().lock.load(std::sync::atomic::Ordering::Relaxed))
    }

    /// Ticks (of [`clock::ticks`](crate::clock::ticks)) that a user read and a `read(2)` take at best, of a few of each; `None` for
    /// the user read where there is none.
    #[must_use]
    pub fn cost(&self) -> (Option<u64>, u64) {
        let fastest = |read: &dyn Fn() -> bool| {
            let timed = (0..8).map(|_| {
                let start = Native.ticks();
                read().then(|| Native.ticks().saturating_sub(start))
            });
            timed.collect::<Option<Vec<_>>>().and_then(|ticks| ticks.into_iter().min())
        };
        let user = fastest(&|| self.user_read().is_ok());
        (user, fastest(&|| sys::read(&self.fd).is_ok()).unwrap_or(u64::MAX))
    }
}
