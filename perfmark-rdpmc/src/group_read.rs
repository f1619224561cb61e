//! Software events, each with its own counter, that are all read by one `read(2)`.
//!
//! They form a group that further events join when they are requested. Membership does not change when such an event is
//! counted: it needs no hardware counter, so neither it nor the group ever waits for one (`perf_sw_context`,
//! `include/linux/sched.h`, linux 6.12). Hardware events are not grouped like this, because a group of them is on the
//! PMU as a unit or not at all.

use crate::attr::Attr;
use crate::counter::Counter;
use crate::error::Error;
use crate::event::Kind;
use crate::machine::Machine;
use crate::open;
use crate::pmu_event::PmuEvent;
use crate::reading::{Delta, Reading};
use crate::region::Region;
use crate::source::Refusal;
use crate::sys::{self, FORMAT_GROUP, TYPE_SOFTWARE, TYPE_TRACEPOINT};
use crate::target::Target;

/// The result of one `read(2)`: the values of the counters of a group.
#[derive(Debug)]
pub struct GroupRead {
    /// The number of values, the times, then each value with its event's id.
    numbers: [u64; NUMBERS],
    /// The reading of the counter whose descriptor was read.
    read: Result<Reading, Refusal>,
}

const NUMBERS: usize = 3 + 2 * GroupRead::MOST;

impl GroupRead {
    /// The most counters in a group.
    pub const MOST: usize = 16;

    /// Begins a region of a counter of the group.
    #[inline]
    #[must_use]
    pub fn begin(&self, counter: &Counter) -> Region {
        self.reading(counter).map_or_else(|_| Region::default(), Region::from_reading)
    }

    /// What a counter of the group counted in a region that [`begin`](Self::begin) began.
    #[inline]
    #[must_use]
    pub fn end(&self, counter: &Counter, region: &Region) -> Delta {
        match (self.reading(counter), counter.pmu_event().memory().beginning(region)) {
            (Ok(end), Some(beginning)) => end.since(&beginning),
            _ => Delta::Unmeasured,
        }
    }

    #[inline]
    fn reading(&self, counter: &Counter) -> Result<Reading, Refusal> {
        let pmu_event = counter.pmu_event();
        counter.counting_losses(self.read.and_then(|Reading { enabled, running, resets, .. }| {
            let count = usize::try_from(self.numbers[0]).unwrap_or(Self::MOST);
            let mut values = self.numbers[3..].chunks_exact(2).take(count);
            match values.find(|value| pmu_event.has_id(value[1])) {
                Some(value) => {
                    let own = pmu_event.reading(value[0], enabled, running);
                    Ok(Reading { resets: own.resets.wrapping_add(resets), ..own })
                }
                // The event left the group, because the program closed its descriptor or the leader's.
                None => Err(pmu_event.source().give_up()),
            }
        }))
    }
}

#[doc(hidden)]
impl Counter {
    /// Whether an event that is counted like this may be in a group that others join.
    #[must_use]
    pub fn is_groupable(attr: &Attr) -> bool {
        let is_software = match attr.event().kind() {
            Kind::Software(_) | Kind::Tracepoint { .. } | Kind::Breakpoint(_) => true,
            Kind::Numbered { kind, .. } => matches!(*kind, TYPE_SOFTWARE | TYPE_TRACEPOINT),
            Kind::Pmu { pmu, .. } => ["software", "tracepoint", "kprobe", "uprobe"].contains(&pmu.as_str()),
            _ => false,
        };
        is_software && !(attr.is_for_leaders() || attr.inherits() || attr.is_disabled() || attr.samples())
    }

    /// Opens a counter in the group of `leader`, and starts it. [`read_group`](Self::read_group) reads by this counter,
    /// the second of the group. The first one may stay alone and is then read by itself, which is cheaper by nearly
    /// half.
    ///
    /// Both events are [groupable](Self::is_groupable), and `leader` was opened on this thread.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open). If the group could not be restarted, its leader [gives up its
    /// descriptor](Self::give_up).
    pub fn open_reader(attr: &Attr, leader: &Self) -> Result<Self, Error> {
        let reader = join(attr, leader, FORMAT_GROUP)?;
        let read = reader.read_group();
        read.reading(leader).and(read.reading(&reader)).map_err(|refusal| reader.explain(refusal))?;
        Ok(reader)
    }

    /// Opens a counter in the group of `leader` and `reader`, and starts it. The group has at most
    /// [`MOST`](GroupRead::MOST) counters.
    ///
    /// # Errors
    ///
    /// As [`open_reader`](Self::open_reader).
    pub fn open_member(attr: &Attr, leader: &Self, reader: &Self) -> Result<Self, Error> {
        let member = join(attr, leader, 0)?;
        reader.read_group().reading(&member).map_err(|refusal| member.explain(refusal))?;
        Ok(member)
    }

    /// Reads all counters of the group in which this one is the [reader](Self::open_reader).
    #[inline]
    #[must_use]
    pub fn read_group(&self) -> GroupRead {
        let mut numbers = [0; NUMBERS];
        let read = self.pmu_event().group_read(&mut numbers, None);
        GroupRead { numbers, read }
    }

    /// As [`read_group`](Self::read_group), to [begin](GroupRead::begin) regions.
    #[inline]
    #[must_use]
    pub fn read_group_to_begin(&self) -> GroupRead {
        let mut numbers = [0; NUMBERS];
        let read = self.pmu_event().to_begin(|now| self.pmu_event().group_read(&mut numbers, now));
        GroupRead { numbers, read }
    }

    /// Gives the descriptor up: it is never used again.
    pub fn give_up(&self) {
        self.source().give_up();
    }
}

/// Opens an event in the leader's group. `format` is added to the event's read format.
fn join(attr: &Attr, leader: &Counter, format: u64) -> Result<Counter, Error> {
    let fd = leader.source().fd().map_err(|refusal| leader.explain(refusal))?;
    // An event of another software PMU that joins a running group does not count until the next thread switch (seen in
    // linux 6.18). The group is therefore stopped while the event is opened.
    if !leader.source().descriptor().is_identified() {
        return Err(no_ids(attr));
    }
    leader.disable()?;
    let opened = open::open_member(attr, &Target::this_thread(), &Machine::here(), None, &mut |raw, target| {
        let mut raw = raw.clone();
        raw.read_format |= format;
        sys::open(&raw, target, Some(fd))
    });
    if let Err(error) = leader.enable() {
        leader.give_up();
        return Err(error);
    }
    let opened = opened?;
    let pmu_event = PmuEvent::new(opened.fd, attr.maps(&opened.encoding));
    if !pmu_event.source().descriptor().is_identified() {
        return Err(no_ids(attr));
    }
    Ok(Counter::from_pmu_event(if format == 0 { pmu_event } else { pmu_event.reading_group() }, attr.clone()))
}

fn no_ids(attr: &Attr) -> Error {
    Error::refused(attr.to_string(), "the kernel does not return the ids of events, which groups require")
}
