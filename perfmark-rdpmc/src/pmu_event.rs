//! One event as one PMU counts it: a descriptor and its page.

use std::cell::Cell;
use std::hint::black_box;
use std::marker::PhantomData;
use std::sync::atomic::Ordering::Relaxed;

use crate::arch::{Native, Processor as _};
use crate::error::errno_text;
use crate::read::{self, NoUserRead, UserRead};
use crate::reading::{CoreClock, Reading};
use crate::region::{PageMemory, Region};
use crate::source::{GROUP_NUMBERS, Refusal, Source};
use crate::sys::{self, Descriptor, Mapping, ReadFormat};

/// An event opened on one PMU, for the thread that opened it.
#[derive(Debug)]
pub(crate) struct PmuEvent {
    /// First, so that a pointer to the struct points to it.
    memory: PageMemory<Native>,
    page: Result<Mapping, String>,
    source: Source,
    /// The enabled and running time of the last read(2). Neither ever decreases.
    times: Cell<(u64, u64)>,
    /// Whether other code has stopped the event, if it is to be noticed.
    stop: Option<Stop>,
    /// Whether read(2) returns the values of its entire group.
    reads_group: bool,
    this_thread: PhantomData<*const ()>,
}

/// Whether other code has stopped an event, as `prctl(PR_TASK_PERF_EVENTS_DISABLE)` stops all events of a thread. The
/// event then has no value, but each reading succeeds.
#[derive(Debug)]
struct Stop {
    /// The ticks at the last read(2). Unlike the system's clock, they always take the same instructions.
    read_at: Cell<u64>,
    /// Nanoseconds for each 2^32 ticks.
    scale: u64,
    /// Whether the event was stopped at the last read(2).
    is_stopped: Cell<bool>,
    /// Whether the event was read again after the last read(2), to see whether it is stopped.
    has_looked: Cell<bool>,
}

/// Nanoseconds for which an event may be stopped between two readings without being noticed.
const UNNOTICED: u64 = 2_000;
/// The number of readings without progress after which an event is stopped. They take some 10 µs. The kernel's clock
/// advances each microsecond, or more often, unless it has no counter of the processor's.
const STANDING: usize = 64;

impl PmuEvent {
    /// Takes ownership of the descriptor, and maps its page unless `maps` is an error.
    pub(crate) fn new(fd: Descriptor, maps: Result<(), &str>) -> Self {
        let page = maps.map_err(str::to_owned).and_then(|()| {
            Mapping::new(&fd).map_err(|errno| match errno {
                libc::EPERM => {
                    "EPERM: no locked memory is left for the counter's page; raise kernel.perf_event_mlock_kb".into()
                }
                errno => format!("{}: the counter's page could not be mapped", errno_text(errno)),
            })
        });
        let memory = PageMemory::new(&Native, page.as_ref().ok().map(Mapping::page));
        Self {
            page,
            source: Source::of_counter(fd),
            memory,
            times: Cell::new((0, 0)),
            stop: None,
            reads_group: false,
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

    /// The descriptor.
    #[inline]
    pub(crate) fn source(&self) -> &Source {
        &self.source
    }

    #[inline]
    #[allow(unsafe_code, reason = "PmuEvent is not Send, which read requires")]
    pub(crate) fn read_page(&self) -> Result<UserRead, NoUserRead> {
        match &self.page {
            // SAFETY: `self` was opened on this thread, and cannot leave it.
            Ok(mapping) => unsafe { read::read(mapping.page(), &Native) },
            Err(_) => Err(NoUserRead::NotAllowed),
        }
    }

    /// Whether a value that was read with this id belongs to this event.
    #[inline]
    pub(crate) fn has_id(&self, id: u64) -> bool {
        self.source.descriptor().has_id(id)
    }

    /// A reading of this event.
    #[inline]
    pub(crate) fn reading(&self, value: u64, enabled: u64, running: u64) -> Reading {
        Reading {
            value,
            enabled,
            running,
            resets: self.memory.resets(),
            has_stale_times: false,
            clock: CoreClock::default(),
        }
    }

    /// Reads by `read(2)`, without an allocation. The ticks are read after it.
    #[inline]
    pub(crate) fn kernel_read(&self) -> Result<Reading, Refusal> {
        self.kernel_read_at(None)
    }

    /// As [`kernel_read`](Self::kernel_read), to begin a region: the ticks are read before it.
    pub(crate) fn kernel_read_to_begin(&self) -> Result<Reading, Refusal> {
        self.to_begin(|now| self.kernel_read_at(now))
    }

    /// Reads last, so that the region does not count the search for a stop.
    pub(crate) fn to_begin(
        &self,
        mut read: impl FnMut(Option<u64>) -> Result<Reading, Refusal>,
    ) -> Result<Reading, Refusal> {
        // A loop that is not unrolled, so that the same instructions follow the last reading each time.
        let mut again = black_box(1);
        loop {
            let reading = read(self.stop.as_ref().map(|_| Native.ticks()));
            let has_looked = self.stop.as_ref().is_some_and(|stop| stop.has_looked.get());
            if !has_looked || again == 0 {
                return reading;
            }
            again -= 1;
        }
    }

    #[inline]
    fn kernel_read_at(&self, now: Option<u64>) -> Result<Reading, Refusal> {
        let fd = self.source.usable_fd()?;
        if self.reads_group {
            return self.group_read(&mut [0; GROUP_NUMBERS], now);
        }
        let before = self.times.get();
        match sys::read(fd) {
            Ok(Some(ReadFormat { value, enabled, running, id })) if self.is_own(id, before, (enabled, running)) => {
                self.notice_stop(before.0, enabled, now)?;
                Ok(self.reading(value, enabled, running))
            }
            Ok(Some(_)) => Err(self.source.give_up()),
            Ok(None) => Err(Refusal::EndOfFile),
            Err(errno) => Err(self.refused(errno)),
        }
    }

    /// Reads an entire group by `read(2)`: the number of values, enabled, running, and a value and an id for each event
    /// (`perf_event_open(2)`, "Reading results"). `N` must be at least 3, plus 2 for each event (see
    /// [`GROUP_NUMBERS`]). `now` is the ticks, if they were read before.
    #[inline(never)]
    pub(crate) fn group_read<const N: usize>(
        &self,
        numbers: &mut [u64; N],
        now: Option<u64>,
    ) -> Result<Reading, Refusal> {
        let before = self.times.get();
        let count = match sys::read_numbers(self.source.usable_fd()?, numbers) {
            Ok(0) => return Err(Refusal::EndOfFile),
            Ok(count) => count,
            Err(errno) => return Err(self.refused(errno)),
        };
        let (enabled, running) = (numbers[1], numbers[2]);
        let values = numbers[..count].get(3..).unwrap_or_default();
        match values.chunks_exact(2).find(|value| self.has_id(value[1])) {
            Some(&[value, id]) if self.is_own(id, before, (enabled, running)) => {
                self.notice_stop(before.0, enabled, now)?;
                Ok(self.reading(value, enabled, running))
            }
            _ => Err(self.source.give_up()),
        }
    }

    /// From now on, a read(2) is refused while other code has stopped the event.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates, and is positive")]
    pub(crate) fn notice_stops(&mut self, nanoseconds_per_tick: f64) {
        self.stop = Some(Stop {
            read_at: Cell::new(Native.ticks()),
            scale: (nanoseconds_per_tick * 2_f64.powi(32)) as u64,
            is_stopped: Cell::new(false),
            has_looked: Cell::new(false),
        });
    }

    /// Looks for a stop if more time has passed since the last read(2) than the event was enabled. Usually its thread
    /// was off the CPU.
    #[inline]
    fn notice_stop(&self, before: u64, enabled: u64, now: Option<u64>) -> Result<(), Refusal> {
        let Some(stop) = &self.stop else { return Ok(()) };
        let now = now.unwrap_or_else(|| Native.ticks());
        // Ticks of another CPU may be behind.
        let passed = now.saturating_sub(stop.read_at.replace(now));
        let passed = (u128::from(passed) * u128::from(stop.scale)) >> 32;
        stop.has_looked.set(false);
        if passed > u128::from(enabled - before + UNNOTICED) || stop.is_stopped.get() {
            self.look_for_stop(stop, before, enabled)?;
        }
        Ok(())
    }

    /// A running event's enabled time increases from each reading to the next.
    #[cold]
    fn look_for_stop(&self, stop: &Stop, before: u64, enabled: u64) -> Result<(), Refusal> {
        let is_still_stopped = stop.is_stopped.get() && enabled == before;
        let is_stopped = is_still_stopped || self.is_stopped_at(enabled);
        stop.is_stopped.set(is_stopped);
        stop.has_looked.set(true);
        if is_stopped {
            // Regions that are open include the stop.
            self.memory.forget();
            return Err(Refusal::Stopped);
        }
        Ok(())
    }

    /// Whether it is stopped, with this enabled time, which then does not increase.
    pub(crate) fn is_stopped_at(&self, enabled: u64) -> bool {
        (0..STANDING).all(|_| self.enabled() == Some(enabled))
    }

    /// The enabled time now.
    fn enabled(&self) -> Option<u64> {
        let fd = self.source.usable_fd().ok()?;
        if self.reads_group {
            let mut numbers = [0; GROUP_NUMBERS];
            return sys::read_numbers(fd, &mut numbers).ok().map(|_| numbers[1]);
        }
        sys::read(fd).ok().flatten().map(|read| read.enabled)
    }

    /// Whether the result of a read(2) is this event's: its id matches, it did not run longer than it was enabled, and
    /// its times did not decrease. It does not check that no event is enabled for longer than it exists: reading the
    /// clock costs more than all of this, and the id is sufficient. `before` are the times before the read; a signal
    /// handler that also reads may have run since.
    #[inline]
    fn is_own(&self, id: u64, before: (u64, u64), (enabled, running): (u64, u64)) -> bool {
        self.times.set((enabled, running));
        self.source.descriptor().has_id(id) && running <= enabled && before.0 <= enabled && before.1 <= running
    }

    #[cold]
    fn refused(&self, errno: i32) -> Refusal {
        match errno {
            // ENOSPC: an event with a longer read format than this crate's.
            libc::EBADF | libc::ENOSPC => self.source.give_up(),
            errno => Refusal::Os(errno),
        }
    }

    /// Makes it an event whose descriptor returns the numbers of its entire group.
    pub(crate) fn reading_group(self) -> Self {
        Self { reads_group: true, ..self }
    }

    /// Reads in user space.
    #[inline]
    pub(crate) fn user_read(&self) -> Result<Reading, NoUserRead> {
        self.read_page().map(|read| Reading { resets: self.memory.resets(), ..read.into() })
    }

    /// Begins a region if the page's lock is the remembered one.
    #[inline]
    #[allow(unsafe_code, reason = "PmuEvent is not Send, which PageMemory requires")]
    pub(crate) fn begin(&self, region: &mut Region) -> bool {
        // SAFETY: `self` was opened on this thread, and cannot leave it; its page is mapped as long as it lives.
        unsafe { self.memory.begin(&Native, region) }
    }

    /// What was counted in a region in which the page did not change.
    #[inline]
    #[allow(unsafe_code, reason = "as in begin")]
    pub(crate) fn end(&self, region: &Region) -> Option<u64> {
        // SAFETY: `self` was opened on this thread, and cannot leave it; its page is mapped as long as it lives.
        unsafe { self.memory.end(&Native, region) }
    }

    /// The remembered contents of its page.
    #[inline]
    pub(crate) fn memory(&self) -> &PageMemory<Native> {
        &self.memory
    }

    /// Remembers the page's contents. Returns `false` if that does not enable the fast path for the next regions.
    pub(crate) fn remember(&self, read: &UserRead) -> bool {
        self.memory.remember(&Native, read)
    }
}
