//! One event opened on one thread.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use crate::attr::Attr;
use crate::error::Error;
use crate::event::Event;
use crate::kinds::Others;
use crate::machine::Machine;
use crate::open;
use crate::part::{Part, Refusal};
use crate::read::AskKernel;
use crate::reading::{Delta, Reading};
use crate::region::Region;
use crate::sys;

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
/// `RLIMIT_MEMLOCK` allow; where there is none left, the counter reads by `read(2)`. If the program closes the
/// descriptor, and its number is another file's by then, the counter notices that before it uses it, and never uses it
/// again: readings by `read(2)` are errors, those in user space go on.
///
/// On a machine with several kinds of core (performance and efficiency cores, big.LITTLE) an event that is not aimed at one kind is opened
/// on the PMU of each, and the counts are added: the counter goes on when its thread moves between them. Its regions are whole readings at
/// either end.
///
/// In a forked child the counters of the parent are gone: reading them is an error there, and the parent's go on.
#[derive(Debug)]
pub struct Counter {
    part: Part,
    /// The event on the other kinds of core, where there are any.
    others: Option<Box<Others>>,
    /// How it is counted.
    attr: Attr,
    /// Who is to know that its descriptor was given up.
    losses: Option<Losses>,
}

#[derive(Debug)]
struct Losses {
    of_all: Arc<AtomicU64>,
    is_counted: Cell<bool>,
}

impl Counter {
    /// Opens a counter for the calling thread and starts it.
    ///
    /// # Errors
    ///
    /// Where the kernel refuses, with its answer, the likely cause on this machine, and the remedy.
    pub fn open(attr: &Attr) -> Result<Self, Error> {
        let machine = Machine::here();
        let opened = open::open_each(attr, &machine, &mut sys::open)?;
        let mut parts = opened.into_iter().map(|opened| {
            let page = attr.maps(&opened.encoding);
            let cpus = opened.encoding.pmu.map(|pmu| machine.cpus(&pmu)).unwrap_or_default();
            (Part::new(opened.fd, page), cpus)
        });
        let Some((part, cpus)) = parts.next() else {
            return Err(Error::refused(attr.to_string(), "no PMU of this machine counts it"));
        };
        let others = Others::new(&part, cpus, parts.collect());
        Ok(Self { part, others, attr: attr.clone(), losses: None })
    }

    pub(crate) fn from_part(part: Part, attr: Attr) -> Self {
        Self { part, others: None, attr, losses: None }
    }

    /// Where it is one event on one PMU.
    pub(crate) fn part(&self) -> &Part {
        &self.part
    }

    /// To be called when it was started or stopped.
    pub(crate) fn note_starts(&self) {
        if let Some(others) = &self.others {
            others.note_starts(&self.part);
        }
    }

    pub(crate) fn parts(&self) -> impl Iterator<Item = &Part> {
        std::iter::once(&self.part).chain(self.others.iter().flat_map(|others| others.parts()))
    }

    /// Gives up user-space reads of this counter: every reading is by `read(2)` from now on.
    pub fn read_by_kernel_only(&mut self) {
        self.part.give_up_page("user-space reads were given up");
        if let Some(others) = &mut self.others {
            others.give_up_pages("user-space reads were given up");
        }
    }

    /// Adds one to `losses` when the counter gives up its descriptor, which then may be another file's (see [the
    /// limits](crate#known-limits)). For those who count regions, whose ends give no reason for what they did not
    /// measure.
    pub fn count_loss_in(&mut self, losses: Arc<AtomicU64>) {
        self.losses = Some(Losses { of_all: losses, is_counted: Cell::new(false) });
    }

    /// What is counted.
    #[must_use]
    pub fn event(&self) -> &Event {
        self.attr.event()
    }

    pub(crate) fn attr(&self) -> &Attr {
        &self.attr
    }

    /// Takes note that the kernel counts otherwise now.
    pub(crate) fn changed_to(&mut self, attr: &Attr) {
        self.attr = attr.clone();
    }

    /// Reads without a system call where the kernel allows it now, else by `read(2)`.
    ///
    /// # Errors
    ///
    /// As [`read_syscall`](Self::read_syscall).
    pub fn read(&self) -> Result<Reading, Error> {
        self.reading().map_err(|refusal| self.explain(refusal))
    }

    fn reading(&self) -> Result<Reading, Refusal> {
        if !self.part.is_here() {
            return Err(Refusal::Forked);
        }
        self.user_reading().map_or_else(|_| self.kernel_reading(), Ok)
    }

    #[inline]
    fn user_reading(&self) -> Result<Reading, AskKernel> {
        match &self.others {
            None => self.part.user_read(),
            Some(others) => others.user_read(&self.part),
        }
    }

    /// Reads without a system call. `None` where only the kernel knows: for a software event always, for a hardware event also while
    /// it has no hardware counter. [`user_reads`](Self::user_reads) tells why.
    #[inline]
    #[must_use]
    pub fn read_user(&self) -> Option<Reading> {
        match &self.others {
            None => self.part.user_read().ok(),
            Some(others) => others.user_read(&self.part).ok(),
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
    pub fn begin(&self, region: &mut Region) {
        if !self.begin_unchanged(region) {
            *region = self.begin_after_a_change();
        }
    }

    /// Begins a region if the kernel did not touch the counter since the last one was begun, by the same few instructions always. If it tells
    /// that it did not, [`begin`](Self::begin) does, and makes the next ones cheap again where that can be.
    #[inline]
    #[must_use]
    pub fn begin_unchanged(&self, region: &mut Region) -> bool {
        self.part.begin(region)
    }

    /// Ends a region that this counter began, and gives what it counted inside. Of a region that another counter began it tells nothing of
    /// meaning ([`Delta::Unmeasured`], or for events that only the kernel knows any number), and does no harm.
    #[inline]
    #[must_use]
    pub fn end(&self, region: &Region) -> Delta {
        match self.end_unchanged(region) {
            Some(value) => Delta::Exact(value),
            None => self.end_after_a_change(*region),
        }
    }

    /// Ends a region if the kernel did not touch the counter inside it. `None`: [`end`](Self::end) tells what was counted.
    #[inline]
    #[must_use]
    pub fn end_unchanged(&self, region: &Region) -> Option<u64> {
        self.part.end(region)
    }

    /// What it remembers of its page: the number of the hardware counter, the value of the page's lock for which that is right,
    /// and the page. `None` if there is nothing, and for an event that is counted on several PMUs.
    pub(crate) fn remembered(&self) -> Option<(u32, u64, *const sys::MmapPage)> {
        if self.others.is_some() { None } else { self.part.remembered() }
    }

    /// Makes a region that was begun here independent of what the counter remembers: it keeps the last eight states of its page, one for each time that
    /// the kernel touched it and a region was begun after. For regions that stay open while many others are begun inside them.
    pub fn keep(&self, region: &mut Region) {
        if self.others.is_none()
            && let Some(beginning) = self.part.beginning(region)
        {
            *region = Region::whole(beginning);
        }
    }

    /// Remembers what the page says now, because the kernel touched it since, and begins the region; the long way where that does not help.
    // Not #[cold]: this is the way of every region that read(2) alone can measure. Regions go in and out by value: one whose address is given
    // away here would be kept in memory on the short way, too.
    #[inline(never)]
    fn begin_after_a_change(&self) -> Region {
        let begun = match (&self.others, self.part.look()) {
            (None, Ok(read)) => {
                let mut region = Region::default();
                if self.part.remember(&read) && self.part.begin(&mut region) {
                    return region;
                }
                self.reading()
            }
            (None, Err(_)) => self.kernel_reading(),
            (Some(_), _) => self.reading(),
        };
        begun.map_or_else(|_| Region::default(), Region::whole)
    }

    #[inline(never)]
    fn end_after_a_change(&self, region: Region) -> Delta {
        let is_kernels = self.part.page().is_err() && self.others.is_none();
        let end = if is_kernels { self.noted(self.part.kernel_read()) } else { self.reading() };
        match (end, self.part.beginning(&region)) {
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
        self.kernel_reading().map_err(|refusal| self.explain(refusal))
    }

    fn kernel_reading(&self) -> Result<Reading, Refusal> {
        self.noted(match &self.others {
            None => self.part.kernel_read(),
            Some(others) => others.kernel_read(&self.part),
        })
    }

    /// Takes note of a loss.
    #[inline]
    pub(crate) fn noted(&self, read: Result<Reading, Refusal>) -> Result<Reading, Refusal> {
        if let (Err(Refusal::Closed), Some(losses)) = (&read, &self.losses)
            && !losses.is_counted.replace(true)
        {
            losses.of_all.fetch_add(1, Relaxed);
        }
        read
    }

    pub(crate) fn explain(&self, refusal: Refusal) -> Error {
        refusal.explain("read", self.event().to_string())
    }

    /// Whether the counter can be read without a system call, as long as it has a hardware counter.
    ///
    /// # Errors
    ///
    /// Why it cannot.
    pub fn user_reads(&self) -> Result<(), String> {
        let part = self.others.as_ref().map_or(&self.part, |others| others.here(&self.part));
        let why = match (part.page(), part.look()) {
            (Err(why), _) => return Err(why.into()),
            (_, Ok(_)) => return Ok(()),
            (_, Err(why)) => why,
        };
        let setting = || Machine::here().forbids_user_reads().map(|forbids| forbids.to_string());
        Err(match why {
            AskKernel::OldKernel => "linux before 3.12 does not tell whether user space may read".into(),
            AskKernel::NotAllowed => setting().unwrap_or_else(|| "the kernel does not let user space read it".into()),
            AskKernel::NoIndex => match setting() {
                Some(setting) => setting,
                // Other events hold the PMU just now: it can when its turn comes.
                None if part.kernel_read().is_ok_and(|reading| reading.running < reading.enabled) => return Ok(()),
                None => "the kernel counts it, but gives user space no counter to read".into(),
            },
            AskKernel::NoTimes | AskKernel::Busy => return Ok(()),
        })
    }

    /// The page's lock, which moves whenever the kernel touches the counter: at a switch to another thread, an overflow, a rotation
    /// among events. If it is the same before and after, the counter ran without a break in between. `None` without a page.
    #[must_use]
    pub fn page_lock(&self) -> Option<u32> {
        self.part.lock().filter(|_| self.others.is_none())
    }
}
