//! One event opened on one thread.

use crate::attr::Attr;
use crate::error::Error;
use crate::event::Event;
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
/// `RLIMIT_MEMLOCK` allow; where there is none left, the counter reads by `read(2)`.
///
/// On a machine with several kinds of core (performance and efficiency cores, big.LITTLE) an event that is not aimed at one kind is opened
/// on the PMU of each, and the counts are added: the counter goes on when its thread moves between them. Such a counter reads by `read(2)`
/// for the kinds of core that the thread is not on.
///
/// In a forked child the counters of the parent are gone: reading them is an error there, and the parent's go on.
#[derive(Debug)]
pub struct Counter {
    part: Part,
    /// The event on other kinds of core.
    others: Box<[Part]>,
    /// How it is counted.
    attr: Attr,
}

impl Counter {
    /// Opens a counter for the calling thread and starts it.
    ///
    /// # Errors
    ///
    /// Where the kernel refuses, with its answer, the likely cause on this machine, and the remedy.
    pub fn open(attr: &Attr) -> Result<Self, Error> {
        let opened = open::open_each(attr, &Machine::here(), &mut sys::open)?;
        let mut parts = opened.into_iter().map(|opened| Part::new(opened.fd, attr.maps(&opened.encoding)));
        let Some(part) = parts.next() else {
            return Err(Error::refused(attr.to_string(), "no PMU of this machine counts it"));
        };
        Ok(Self { part, others: parts.collect(), attr: attr.clone() })
    }

    pub(crate) fn from_part(part: Part, attr: Attr) -> Self {
        Self { part, others: Box::default(), attr }
    }

    /// Where it is one event on one PMU.
    pub(crate) fn part(&self) -> &Part {
        &self.part
    }

    pub(crate) fn parts(&self) -> impl Iterator<Item = &Part> {
        std::iter::once(&self.part).chain(&self.others)
    }

    /// Gives up user-space reads of this counter: every reading is by `read(2)` from now on.
    pub fn read_by_kernel_only(&mut self) {
        self.part.give_up_page("user-space reads were given up");
        for part in &mut self.others {
            part.give_up_page("user-space reads were given up");
        }
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
        self.with_others(self.part.read()?)
    }

    #[inline]
    fn with_others(&self, first: Reading) -> Result<Reading, Refusal> {
        self.others.iter().try_fold(first, |sum, part| Ok(sum.with_other_cores(&part.read()?)))
    }

    /// Reads without a system call. `None` where only the kernel knows: for a software event always, for a hardware event also while
    /// it has no hardware counter. [`user_reads`](Self::user_reads) tells why.
    #[inline]
    #[must_use]
    pub fn read_user(&self) -> Option<Reading> {
        if !self.others.is_empty() {
            // At most one kind of core is the one that the thread is on.
            return None;
        }
        self.part.user_read().ok().map(Reading::from)
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
        while !self.part.begin(region) {
            // Once the page is remembered the beginning is read above, so that it is followed by the same instructions always.
            if !self.remember(region) {
                return;
            }
        }
    }

    /// Ends a region that this counter began, and gives what it counted inside.
    #[inline]
    #[must_use]
    pub fn end(&self, region: &Region) -> Delta {
        match self.part.end(region) {
            Some(value) => Delta::Exact(value),
            None => self.end_after_a_change(region),
        }
    }

    /// Remembers what the page says now, because the kernel touched it since; or begins the region the long way.
    // Not #[cold]: this is the way of every region that read(2) alone can measure.
    #[inline(never)]
    fn remember(&self, region: &mut Region) -> bool {
        let first = match self.part.user_read() {
            Ok(read) if self.others.is_empty() && self.part.remember(&read) => return true,
            Ok(read) => Ok(read.into()),
            Err(_) => self.part.kernel_read(),
        };
        match first.and_then(|first| self.with_others(first)) {
            Ok(reading) => self.part.begin_whole(region, reading),
            Err(_) => *region = Region::default(),
        }
        false
    }

    #[inline(never)]
    fn end_after_a_change(&self, region: &Region) -> Delta {
        let is_kernels = self.part.page().is_err() && self.others.is_empty();
        let end = if is_kernels { self.part.kernel_read() } else { self.reading() };
        match (end, self.part.beginning(region)) {
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
        let first = self.part.kernel_read()?;
        self.others.iter().try_fold(first, |sum, part| Ok(sum.with_other_cores(&part.kernel_read()?)))
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
        if !self.others.is_empty() {
            return Err(
                "the machine has several kinds of core, and a thread can read the one that it is on only".into()
            );
        }
        let why = match (self.part.page(), self.part.user_read()) {
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
                None if self.part.kernel_read().is_ok_and(|reading| reading.running < reading.enabled) => return Ok(()),
                None => "the kernel counts it, but gives user space no counter to read".into(),
            },
            AskKernel::NoTimes | AskKernel::Busy => return Ok(()),
        })
    }

    /// The page's lock, which moves whenever the kernel touches the counter: at a switch to another thread, an overflow, a rotation
    /// among events. If it is the same before and after, the counter ran without a break in between. `None` without a page.
    #[must_use]
    pub fn page_lock(&self) -> Option<u32> {
        let mapping = self.part.page().ok().filter(|_| self.others.is_empty())?;
        Some(mapping.page().lock.load(std::sync::atomic::Ordering::Relaxed))
    }
}
