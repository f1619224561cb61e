//! One event, opened on one thread.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use crate::attr::Attr;
use crate::error::Error;
use crate::event::Event;
use crate::kinds::OtherKinds;
use crate::machine::Machine;
use crate::open;
use crate::pmu_event::PmuEvent;
use crate::read::NoUserRead;
use crate::reading::{Delta, Reading};
use crate::region::Region;
use crate::source::{Refusal, Source};
use crate::sys;
use crate::target::Target;

/// One event, counted on the thread that opened it, from when it was opened.
///
/// It belongs to that thread: a processor can only read its own counters, so the type is not `Send`.
///
/// ```compile_fail
/// fn sent<T: Send>() {}
/// sent::<perfmark_rdpmc::Counter>();
/// ```
///
/// It owns a descriptor and a mapped page. The page counts against the locked memory that `kernel.perf_event_mlock_kb`
/// and `RLIMIT_MEMLOCK` allow. If none is left, the counter reads by `read(2)`. If the program closes the descriptor
/// and another file gets its number, the counter detects that before it uses the number, and never uses it again:
/// readings by `read(2)` are errors, and user-space readings continue.
///
/// On a machine with several kinds of core (performance and efficiency cores, big.LITTLE), an event that does not name
/// one kind is opened on the PMU of each, and the counts are added. The counter continues when its thread moves between
/// them. Its regions then use full readings at start and end. On several Arm PMUs, generic cache events require linux
/// 6.6; events that the PMUs list, such as `l1d_cache_refill`, do not.
///
/// In a forked child, reading a counter of the parent is an error. The parent's counters continue.
#[derive(Debug)]
pub struct Counter {
    pmu_event: PmuEvent,
    /// The event on the other kinds of core, if there are any.
    other_kinds: Option<Box<OtherKinds>>,
    /// The event and how it is counted.
    attr: Attr,
    /// Who is notified when it gives up its descriptor, and whether that has happened.
    losses: Option<(Arc<AtomicU64>, Cell<bool>)>,
}

impl Counter {
    /// Opens a counter for the calling thread and starts it.
    ///
    /// # Errors
    ///
    /// If the kernel refuses. The error has the errno, the likely cause on this machine, and the remedy.
    pub fn open(attr: &Attr) -> Result<Self, Error> {
        let machine = Machine::here();
        let opened =
            open::open_each(attr, &Target::this_thread(), &machine, &mut |raw, target| sys::open(raw, target, None))?;
        let mut pmu_events = opened.into_iter().map(|opened| {
            let page = attr.maps(&opened.encoding);
            let cpus = opened.encoding.pmu.map(|pmu| machine.cpus(&pmu)).unwrap_or_default();
            (PmuEvent::new(opened.fd, page), cpus)
        });
        let Some((pmu_event, cpus)) = pmu_events.next() else {
            return Err(Error::refused(attr.to_string(), "no PMU of this machine counts it"));
        };
        let other_kinds = OtherKinds::new(&pmu_event, cpus, pmu_events.collect());
        Ok(Self { pmu_event, other_kinds, attr: attr.clone(), losses: None })
    }

    pub(crate) fn from_pmu_event(pmu_event: PmuEvent, attr: Attr) -> Self {
        Self { pmu_event, other_kinds: None, attr, losses: None }
    }

    /// The event on its only PMU, or on that of the first kind of core.
    pub(crate) fn pmu_event(&self) -> &PmuEvent {
        &self.pmu_event
    }

    /// The descriptor of that.
    pub(crate) fn source(&self) -> &Source {
        self.pmu_event.source()
    }

    /// Call it after the event was started or stopped.
    pub(crate) fn measure_clock_offsets(&self) {
        if let Some(others) = &self.other_kinds {
            others.measure_clock_offsets(&self.pmu_event);
        }
    }

    pub(crate) fn pmu_events(&self) -> impl Iterator<Item = &PmuEvent> {
        std::iter::once(&self.pmu_event).chain(self.other_kinds.iter().flat_map(|others| others.pmu_events()))
    }

    /// Turns user-space reads off: every reading uses `read(2)` from now on.
    #[doc(hidden)]
    pub fn read_by_kernel_only(&mut self) {
        self.pmu_event.give_up_page("user-space reads were turned off");
        if let Some(others) = &mut self.other_kinds {
            others.give_up_pages("user-space reads were turned off");
        }
    }

    /// Adds one to `losses` when the counter gives up its descriptor, because another file may have its number (see
    /// [the limits](crate#known-limits)). The end of a region does not give that reason.
    #[doc(hidden)]
    pub fn count_loss_in(&mut self, losses: Arc<AtomicU64>) {
        self.losses = Some((losses, Cell::new(false)));
    }

    /// From now on, a `read(2)` is an error while other code has stopped the counter, and regions that are open then
    /// are [`Delta::Unmeasured`]. A stop between two readings is not noticed.
    #[doc(hidden)]
    pub fn notice_stops(&mut self, nanoseconds_per_tick: f64) {
        self.pmu_event.notice_stops(nanoseconds_per_tick);
    }

    /// The event.
    #[must_use]
    pub fn event(&self) -> &Event {
        self.attr.event()
    }

    pub(crate) fn attr(&self) -> &Attr {
        &self.attr
    }

    /// Records that the kernel now counts `attr`.
    pub(crate) fn changed_to(&mut self, attr: &Attr) {
        self.attr = attr.clone();
    }

    /// Reads without a system call if that is possible now, otherwise by `read(2)`.
    ///
    /// # Errors
    ///
    /// As [`read_syscall`](Self::read_syscall).
    pub fn read(&self) -> Result<Reading, Error> {
        self.reading().map_err(|refusal| self.explain(refusal))
    }

    fn reading(&self) -> Result<Reading, Refusal> {
        if !self.pmu_event.source().is_this_process() {
            return Err(Refusal::Forked);
        }
        self.user_reading().map_or_else(|_| self.kernel_reading(), Ok)
    }

    #[inline]
    fn user_reading(&self) -> Result<Reading, NoUserRead> {
        match &self.other_kinds {
            None => self.pmu_event.user_read(),
            Some(others) => others.user_read(&self.pmu_event),
        }
    }

    /// Reads without a system call. `None` if only the kernel can read it: always for a software event, and for a
    /// hardware event while it has no hardware counter. [`user_reads`](Self::user_reads) returns the reason.
    #[inline]
    #[must_use]
    pub fn read_user(&self) -> Option<Reading> {
        self.user_reading().ok()
    }

    /// Begins a region. This costs less than a [`read`](Self::read) while the kernel does not change the counter's
    /// page.
    ///
    /// ```
    /// use perfmark_rdpmc::{Attr, Counter, Hardware, Region};
    ///
    /// let Ok(counter) = Counter::open(&Attr::new(Hardware::Instructions)) else { return };
    /// let mut region = Region::default();
    /// for n in 0..100u64 {
    ///     counter.begin(&mut region);
    ///     std::hint::black_box(n.is_power_of_two());
    ///     println!("{n}: {:?}", counter.end(&region));
    /// }
    /// ```
    #[inline]
    pub fn begin(&self, region: &mut Region) {
        if !self.begin_unchanged(region) {
            *region = self.begin_after_a_change();
        }
    }

    /// Begins a region if the kernel has not changed the page since the last one began, always in the same few
    /// instructions. If it returns `false`, call [`begin`](Self::begin), which restores this fast path if possible.
    #[doc(hidden)]
    #[inline]
    #[must_use]
    pub fn begin_unchanged(&self, region: &mut Region) -> bool {
        self.pmu_event.begin(region)
    }

    /// Ends a region that this counter began, and returns what it counted inside. For a region that another counter
    /// began, the result is meaningless ([`Delta::Unmeasured`], or any number for events that user space cannot read),
    /// but safe.
    #[inline]
    #[must_use]
    pub fn end(&self, region: &Region) -> Delta {
        match self.end_unchanged(region) {
            Some(value) => Delta::Exact(value),
            None => self.end_changed(*region),
        }
    }

    /// Ends a region if the kernel did not change the page inside it. If it returns `None`, call [`end`](Self::end).
    #[doc(hidden)]
    #[inline]
    #[must_use]
    pub fn end_unchanged(&self, region: &Region) -> Option<u64> {
        self.pmu_event.end(region)
    }

    /// The remembered page state: the number of the hardware counter, the lock value for which it is valid, and the
    /// page. `None` if there is none, and for an event that is counted on several PMUs.
    pub(crate) fn remembered(&self) -> Option<(u32, u64, *const sys::MmapPage)> {
        if self.other_kinds.is_some() { None } else { self.pmu_event.memory().remembered() }
    }

    /// Remembers the page as it is, so that regions that begin now end unchanged, unless the kernel changes it again.
    /// `false` if that is not possible.
    #[doc(hidden)]
    pub fn remember_page(&self) -> bool {
        self.other_kinds.is_none() && self.pmu_event.read_page().is_ok_and(|read| self.pmu_event.remember(&read))
    }

    /// Makes a region independent of the remembered page states. The counter remembers the last eight, one for each
    /// change of the page after which a region began. For regions that stay open while many others begin inside them.
    #[doc(hidden)]
    pub fn keep(&self, region: &mut Region) {
        if self.other_kinds.is_none()
            && let Some(beginning) = self.pmu_event.memory().beginning(region)
        {
            *region = Region::from_reading(beginning);
        }
    }

    /// Remembers the changed page, and begins the region. Uses a full reading if that does not enable the fast path.
    // Not #[cold]: every region that only read(2) can measure runs this. Regions are passed by value: passing an
    // address here would force the caller to keep the region in memory on the fast path as well.
    #[inline(never)]
    fn begin_after_a_change(&self) -> Region {
        let begun = match (&self.other_kinds, self.pmu_event.read_page()) {
            (None, Ok(read)) => {
                let mut region = Region::default();
                if self.pmu_event.remember(&read) && self.pmu_event.begin(&mut region) {
                    return region;
                }
                self.reading()
            }
            (None, Err(_)) => self.counting_losses(self.pmu_event.kernel_read_to_begin()),
            (Some(_), _) => self.reading(),
        };
        begun.map_or_else(|_| Region::default(), Region::from_reading)
    }

    /// Ends a region for which [`end_unchanged`](Self::end_unchanged) returned `None`.
    #[doc(hidden)]
    #[inline(never)]
    #[must_use]
    pub fn end_changed(&self, region: Region) -> Delta {
        let is_read_by_kernel = self.pmu_event.page().is_err() && self.other_kinds.is_none();
        let end = if is_read_by_kernel { self.counting_losses(self.pmu_event.kernel_read()) } else { self.reading() };
        match (end, self.pmu_event.memory().beginning(&region)) {
            (Ok(end), Some(beginning)) => end.since(&beginning),
            _ => Delta::Unmeasured,
        }
    }

    /// Reads by `read(2)`.
    ///
    /// # Errors
    ///
    /// If the kernel refuses: the event is in error state, or a system call filter forbids it.
    pub fn read_syscall(&self) -> Result<Reading, Error> {
        self.kernel_reading().map_err(|refusal| self.explain(refusal))
    }

    fn kernel_reading(&self) -> Result<Reading, Refusal> {
        self.counting_losses(match &self.other_kinds {
            None => self.pmu_event.kernel_read(),
            Some(others) => others.kernel_read(&self.pmu_event),
        })
    }

    /// Counts the loss of the descriptor, once.
    #[inline]
    pub(crate) fn counting_losses(&self, read: Result<Reading, Refusal>) -> Result<Reading, Refusal> {
        if let (Err(Refusal::Closed), Some((losses, is_counted))) = (&read, &self.losses)
            && !is_counted.replace(true)
        {
            losses.fetch_add(1, Relaxed);
        }
        read
    }

    pub(crate) fn explain(&self, refusal: Refusal) -> Error {
        refusal.explain("read", self.event().to_string())
    }

    /// Whether the counter can be read without a system call while it has a hardware counter.
    ///
    /// # Errors
    ///
    /// The reason, if it cannot. This is unknown, and so an error, while the counter is stopped or in error state.
    pub fn user_reads(&self) -> Result<(), String> {
        if !self.pmu_event.source().is_this_process() {
            return Err(self.explain(Refusal::Forked).reason().into());
        }
        let pmu_event = self
            .other_kinds
            .as_ref()
            .map_or(&self.pmu_event, |other_kinds| other_kinds.on_current_kind(&self.pmu_event));
        let why = match (pmu_event.page(), pmu_event.read_page()) {
            (Err(why), _) => return Err(why.into()),
            (_, Ok(_)) => return Ok(()),
            (_, Err(why)) => why,
        };
        let setting = || Machine::here().setting_against_user_reads().map(|blocking| blocking.to_string());
        Err(match why {
            NoUserRead::OldKernel => "linux before 3.12 does not say whether user space may read".into(),
            NoUserRead::NotAllowed => {
                setting().unwrap_or_else(|| "the kernel does not allow user space to read it".into())
            }
            NoUserRead::NoIndex => match (setting(), pmu_event.kernel_read()) {
                (Some(setting), _) => setting,
                (None, Err(refusal)) => self.explain(refusal).reason().into(),
                (None, Ok(reading)) if pmu_event.is_stopped_at(reading.enabled) => {
                    "it is stopped, so it has no counter now; start it first (Counter::enable)".into()
                }
                // Other events use the PMU now: it can be read when its turn comes.
                (None, Ok(reading)) if reading.running < reading.enabled => return Ok(()),
                (None, Ok(_)) => "the kernel counts it, but assigns no counter that user space can read".into(),
            },
            NoUserRead::NoTimes | NoUserRead::Busy => return Ok(()),
        })
    }

    /// The page's lock. It changes whenever the kernel updates the page: at a switch to another thread, at an overflow,
    /// and when events are multiplexed. If it is the same before and after, the counter ran without interruption.
    /// `None` without a page.
    #[must_use]
    pub fn page_lock(&self) -> Option<u32> {
        self.pmu_event.lock().filter(|_| self.other_kinds.is_none())
    }
}
