//! An event that is sampled, and its ring.

use std::sync::Mutex;
use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64};

use super::record::Layout;
use super::refusal;
use super::sampler::Sampler;
use crate::attr::{Attr, Field};
use crate::error::Error;
use crate::flags::{Content, ReadFormat, Records};
use crate::group;
use crate::machine::Machine;
use crate::open::{self, Opened};
use crate::source::{Count, Refusal, Source};
use crate::sys::{
    self, AuxMapping, Descriptor, FLAG_USE_CLOCKID, FLAG_WRITE_BACKWARD, FORMAT_LOST, IOC_ENABLE, IOC_PAUSE_OUTPUT,
    PerfEventAttr, RingMapping,
};
use crate::target::Target;

/// An event of one target that is sampled, and the ring to which the kernel writes its records.
///
/// Any thread of the process may use it. The kernel writes an overflow's record before the sampled thread continues: if
/// that thread finds [`head`](Self::head) where it was, it has had no sample since. This does not hold for samples
/// that Intel's PEBS collects in a buffer, which may happen to precise samples without call chain and frequency.
///
/// After the sampled thread has ended, the records can still be read. In a forked child there is no ring: `head` and
/// [`lock`](Self::lock) are 0, there are no records, and everything else is an error.
#[derive(Debug)]
pub struct Ring {
    // The order of the fields is the order in which they are dropped.
    pub(super) aux: Option<AuxMapping>,
    pub(crate) mapping: RingMapping,
    /// Keeps the group's other events open. Closing a leader first would turn each of them into a group of its own on
    /// the PMU.
    members: Vec<Source>,
    /// The sampled event, and then the events that were added.
    pub(super) events: Vec<RingEvent>,
    target: Target,
    pub(super) layout: Layout,
    pub(super) is_overwritten: bool,
    pub(super) is_aux_overwritten: bool,
    /// Held while the ring is read: the last record that was read.
    pub(super) record: Mutex<Vec<u8>>,
    /// Whether the program has paused the output.
    pub(super) is_paused: AtomicBool,
    /// Whether the output is paused because an overwritten ring is being read.
    pub(super) is_read: AtomicBool,
}

/// An event whose records are in a ring.
#[derive(Debug)]
pub(super) struct RingEvent {
    /// Without what [`Attr::with_ring`] adds.
    pub(super) attr: Attr,
    /// The event on each kind of core, at least one.
    pub(super) sources: Vec<Source>,
}

/// Bytes of most records. Room for larger ones is allocated when the first one is read.
const RECORD: usize = 256;

impl Sampler {
    /// Opens the event, maps its ring, and starts it, unless [`Attr::disabled`]. Each record from then on is in the
    /// ring or is counted as lost.
    ///
    /// It takes about 15 µs (x86-64 virtual machine, linux 6.18).
    ///
    /// # Errors
    ///
    /// If the kernel refuses. The error has the errno, the likely cause on this machine, and the remedy. If locked
    /// memory is spent, it has the number of rings that fit; if the [group](Self::group) has more events than the PMU
    /// has counters, it has the number of events that fit.
    pub fn open(&self) -> Result<Ring, Error> {
        self.open_with(if self.pages > 1 { "use fewer pages" } else { "open fewer rings" })
    }

    /// As [`open`](Self::open). `need_less` is the remedy if there is no memory left for the ring.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    #[doc(hidden)]
    pub fn open_with(&self, need_less: &str) -> Result<Ring, Error> {
        let events = Events::open(self)?;
        let name = self.name();
        let fd = events.sources[0].fd().map_err(|refusal| refusal.explain("perf_event_open", name.clone()))?;
        let mapping = RingMapping::new(fd, self.pages, !self.is_overwritten())
            .map_err(|errno| Error::os(errno, "mmap", name.clone(), &refusal::mapping(self.pages, errno, need_less)))?;
        let mut ring = Ring {
            aux: self.map_aux(fd, &mapping)?,
            mapping,
            events: vec![RingEvent { attr: self.attr.clone(), sources: events.sources }],
            members: events.members,
            target: self.target.clone(),
            layout: events.layout,
            is_overwritten: self.is_overwritten(),
            is_aux_overwritten: self.is_aux_overwritten,
            record: Mutex::new(Vec::with_capacity(RECORD)),
            is_paused: AtomicBool::new(false),
            is_read: AtomicBool::new(false),
        };
        ring.start(self)?;
        Ok(ring)
    }

    fn map_aux(&self, fd: &Descriptor, mapping: &RingMapping) -> Result<Option<AuxMapping>, Error> {
        let Some(page) = mapping.page().filter(|_| self.aux_pages > 0) else { return Ok(None) };
        let bytes = |pages: usize| (pages as u64).saturating_mul(sys::page_size());
        page.aux_offset.store(bytes(1 + self.pages), Relaxed);
        page.aux_size.store(bytes(self.aux_pages), Relaxed);
        AuxMapping::new(fd, page, !self.is_aux_overwritten).map(Some).map_err(|errno| {
            let why = match errno {
                libc::EOPNOTSUPP => "the PMU of this event has no AUX area; only tracing PMUs have one",
                libc::EPERM => "no locked memory is left for the AUX area; use fewer pages, or raise RLIMIT_MEMLOCK",
                _ => "the kernel does not map an AUX area of this size",
            };
            Error::os(errno, "mmap", self.name(), why)
        })
    }
}

/// The events of a sampler, open and stopped. They are dropped in the order of a [`Ring`]'s.
struct Events {
    members: Vec<Source>,
    /// The sampled event on each kind of core, at least one.
    sources: Vec<Source>,
    layout: Layout,
}

impl Events {
    fn open(sampler: &Sampler) -> Result<Self, Error> {
        if let Some(why) = refusal::before_opening(sampler).filter(|_| sys::SUPPORTED) {
            return Err(Error::refused(sampler.name(), why));
        }
        let events: Vec<Attr> = [&sampler.attr].into_iter().chain(&sampler.members).cloned().collect();
        group::check(&events)?;
        let machine = Machine::here();
        let (opened, layout) = open_sampled(sampler, &machine)?;
        let Some(first) = opened.first() else {
            return Err(Error::refused(sampler.name(), "no PMU of this machine counts it"));
        };
        let mut open_event = |raw: &PerfEventAttr, target: &Target| sys::open(raw, target, Some(&first.fd));
        let mut open_member = |n: usize| {
            let (attr, target) = (events[n].clone().user_reads(false), &sampler.target);
            open::open_member(&attr, target, &machine, first.encoding.core_pmu(), &mut open_event)
                .map_err(|error| group::too_big(&attr, target, &events[..n], error))
        };
        let members: Vec<Opened> = (1..events.len()).map(&mut open_member).collect::<Result<_, _>>()?;
        let sources = |opened: Vec<Opened>| opened.into_iter().map(|opened| Source::new(opened.fd)).collect();
        Ok(Self { members: sources(members), sources: sources(opened), layout })
    }
}

/// Opens the sampled event on each kind of core.
fn open_sampled(sampler: &Sampler, machine: &Machine) -> Result<(Vec<Opened>, Layout), Error> {
    let mut layout = sampler.layout();
    loop {
        let attr = sampler.attr.clone().with_ring(layout.read_format).disabled(true);
        let mut open_event = |raw: &PerfEventAttr, target: &Target| sys::open(raw, target, None);
        match open::open_each(&attr, &sampler.target, machine, &mut open_event) {
            // The kernel may be older than 6.0.
            Err(error) if error.errno() == Some(libc::EINVAL) && layout.reads(ReadFormat::LOST) => {
                layout.read_format &= !FORMAT_LOST;
            }
            opened => return opened.map(|opened| (opened, layout)).map_err(|error| error.about(sampler.name())),
        }
    }
}

impl Ring {
    /// Sends the records of the last event, and of its group's members that sample, to the ring, and starts it.
    fn start(&mut self, sampler: &Sampler) -> Result<(), Error> {
        let last = self.events.len() - 1;
        // The first source of all has the ring.
        for source in self.events[last].sources.iter().skip(usize::from(last == 0)) {
            self.receive(source, &sampler.attr)?;
        }
        let of_group = &self.members[self.members.len() - sampler.members.len()..];
        for (attr, source) in sampler.members.iter().zip(of_group).filter(|(attr, _)| attr.samples()) {
            self.check(attr)?;
            self.receive(source, attr)?;
        }
        for source in &mut self.events[last].sources {
            if let Some(signal) = sampler.signal {
                let sent = source.send_signal(signal, sampler.target.tid());
                sent.map_err(|refusal| refusal.explain("fcntl(F_SETSIG)", sampler.name()))?;
            }
            if !sampler.attr.is_disabled() {
                let enabled = source.ioctl(IOC_ENABLE, 0);
                enabled.map_err(|refusal| refusal.explain("ioctl(ENABLE)", sampler.name()))?;
            }
        }
        Ok(())
    }

    /// Whether the records of an event, and no counts, could be read in the ring.
    pub(super) fn check(&self, attr: &Attr) -> Result<(), Error> {
        let layout = Layout::of(attr, self.layout.read_format);
        if layout.has(Content::READ) || attr.has(Records::READ.bits()) {
            let why =
                "the counts in its records could not be read in the ring; leave out Content::READ and Records::READ";
            return Err(Error::refused(attr.name(), why));
        }
        self.check_settings(attr, layout)
    }

    /// Whether an event has the settings that all events of a ring share.
    fn check_settings(&self, attr: &Attr, layout: Layout) -> Result<(), Error> {
        let clock = |attr: &Attr| (attr.has(FLAG_USE_CLOCKID), attr.set(Field::ClockId).unwrap_or(0));
        let why = if layout != self.layout {
            "its records have another layout than the ring's, so they could not be read; request the same content for \
             all events of a ring"
        } else if clock(attr) != clock(self.attr()) {
            "its times are of another clock than the ring's; request the same clock for all events of a ring"
        } else if attr.has(FLAG_WRITE_BACKWARD) != self.is_overwritten {
            "only one of it and the ring is overwritten; request the same for all events of a ring"
        } else {
            return Ok(());
        };
        Err(Error::refused(attr.name(), why))
    }

    /// Sends the records of an event to the ring.
    fn receive(&self, source: &Source, attr: &Attr) -> Result<(), Error> {
        let sent = self.source().fd().and_then(|ring| source.set_output(Some(ring)));
        sent.map_err(|refusal| refusal::output(refusal, attr, true))
    }

    /// Opens another event of the same target, and returns its id. Its records go to this ring as well; with the
    /// [content](Sampler::content) `IDENTIFIER` in all events of the ring, each record has the id of its event.
    /// Settings of the ring, such as [`Sampler::pages`], have no effect. A ring of the calling thread gets an event of
    /// whichever thread calls this; linux refuses one of another thread, unless both are [on one CPU](Target::on_cpu).
    ///
    /// # Errors
    ///
    /// As [`Sampler::open`], and if its records have another [layout](Layout) or clock, if only one of the two is
    /// [overwritten](Sampler::overwrite), or if the sampler has another [target](Sampler::target) than the ring.
    pub fn add(&mut self, sampler: &Sampler) -> Result<u64, Error> {
        if !sampler.target.is_same(&Target::this_thread()) && !sampler.target.is_same(&self.target) {
            let why = "its target is not given as that of the ring's event; leave it out (Sampler::target), or open a \
                       ring for each target";
            return Err(Error::refused(sampler.name(), why));
        }
        let sampler = Sampler { target: self.target.clone(), ..sampler.clone() };
        let events = Events::open(&sampler)?;
        self.check_settings(&sampler.attr, events.layout)?;
        let members = self.members.len();
        self.events.push(RingEvent { attr: sampler.attr.clone(), sources: events.sources });
        self.members.extend(events.members);
        let added = self.events.len() - 1;
        let started = self.start(&sampler).and_then(|()| self.id_of(added));
        if started.is_err() {
            self.members.truncate(members);
            self.events.truncate(added);
        }
        started
    }

    /// The sampled event.
    pub(super) fn attr(&self) -> &Attr {
        &self.events[0].attr
    }

    /// Its descriptor, which has the ring: on several kinds of core, that of the first one.
    pub(crate) fn source(&self) -> &Source {
        &self.events[0].sources[0]
    }

    /// Its name in errors.
    pub(super) fn name(&self) -> String {
        self.attr().name()
    }

    /// Pauses the output or resumes it, after `is_paused` or `is_read` has changed.
    pub(super) fn update_pause(&self) -> Result<(), Refusal> {
        let is_paused = || self.is_paused.load(SeqCst) || self.is_read.load(SeqCst);
        loop {
            let pause = is_paused();
            self.source().ioctl(IOC_PAUSE_OUTPUT, pause.into())?;
            // Another thread may have changed one of them since, and made its request before this one.
            if is_paused() == pause {
                return Ok(());
            }
        }
    }

    /// The kernel's id of one of the ring's events.
    pub(super) fn id_of(&self, event: usize) -> Result<u64, Error> {
        self.events[event].sources[0].id().map_err(|refusal| refusal.explain("ioctl(ID)", self.name()))
    }

    /// How far the kernel has written: the position after the newest record. It only grows, except in a ring that is
    /// [overwritten](Sampler::overwrite), where it is the position of the newest record, and only falls. Two loads,
    /// the second one from the ring.
    #[inline]
    #[must_use]
    pub fn head(&self) -> u64 {
        self.mapping.page().map_or(0, |page| page.data_head.load(Acquire))
    }

    /// How far the hardware has written into the AUX area, as far as the kernel knows: it updates this when it writes a
    /// record about the area. 0 without an area. Two loads, the second one from the ring.
    #[must_use]
    pub fn aux_head(&self) -> u64 {
        self.mapping.page().map_or(0, |page| page.aux_head.load(Acquire))
    }

    /// The lock of the ring's first page. It changes whenever the kernel updates the page: when the thread is put on a
    /// CPU, when another program opens an event on that CPU, and for hardware events also at an overflow and when
    /// events are multiplexed. So if it has not changed, the thread was not off its CPU. If there are several kinds of
    /// core, it is the lock of a hardware event on the first kind. Two loads, the second one from the ring.
    #[inline]
    #[must_use]
    pub fn lock(&self) -> u32 {
        self.mapping.page().map_or(0, |page| page.start.lock.load(Relaxed))
    }

    /// The word that [`head`](Self::head) loads, which must not be used in a child made by `fork` or `clone(2)`. `None`
    /// in such a child.
    #[doc(hidden)]
    #[must_use]
    pub fn data_head(&self) -> Option<&AtomicU64> {
        Some(&self.mapping.page()?.data_head)
    }

    /// Whether the sampled thread has ended. Another thread may have its number since. An event in error state has not
    /// ended: its thread goes on. It takes one call of `poll(2)`, after which [`wait`](super::wait) reports the ring as
    /// ready only once more samples came. In a forked child, it is false.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        let polled =
            |fd: &Descriptor| sys::poll(&[fd], None, 0).is_ok_and(|ready| ready.iter().any(|one| one.has_ended));
        self.source().fd().is_ok_and(polled)
    }

    /// The number of file descriptors: one for each event, on each kind of core.
    #[must_use]
    pub fn descriptors(&self) -> usize {
        self.sources().count() + self.members.len()
    }

    /// Bytes of records that the ring has room for.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.mapping.data_bytes()
    }

    /// What the ring's records contain.
    #[must_use]
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// The count and the lost records of the sampled event so far, by `read(2)`. The count of a clock includes all
    /// modes: linux takes no samples in those that are excluded, and counts them all the same.
    ///
    /// # Errors
    ///
    /// If the kernel refuses, if a pinned event does not fit the PMU, or in a forked child.
    pub fn count(&self) -> Result<Count, Error> {
        self.count_of(&self.events[0].sources)
    }

    /// The same for the sampled event and then for each event that was [added](Self::add), in their order.
    ///
    /// # Errors
    ///
    /// As [`count`](Self::count).
    pub fn counts(&self) -> Result<Vec<Count>, Error> {
        self.events.iter().map(|event| self.count_of(&event.sources)).collect()
    }

    /// The kernel's ids of the sampled event and then of each event that was [added](Self::add), in their order: one
    /// for each kind of core.
    ///
    /// # Errors
    ///
    /// As [`id`](Self::id).
    pub fn ids(&self) -> Result<Vec<Vec<u64>>, Error> {
        let ids = |event: &RingEvent| event.sources.iter().map(Source::id).collect::<Result<_, _>>();
        let all = self.events.iter().map(ids).collect::<Result<_, _>>();
        all.map_err(|refusal: Refusal| refusal.explain("ioctl(ID)", self.name()))
    }

    /// All events on each kind of core.
    pub(super) fn sources(&self) -> impl Iterator<Item = &Source> {
        self.events.iter().flat_map(|event| &event.sources)
    }

    fn count_of(&self, sources: &[Source]) -> Result<Count, Error> {
        let checked = ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING | ReadFormat::ID;
        if !self.layout.reads(checked) {
            let why = "its readings were requested without both times and the id (Sampler::read_format)";
            return Err(Error::refused(self.name(), why));
        }
        Source::sum(sources, self.layout.read_format).map_err(|refusal| refusal.explain("read", self.name()))
    }
}
