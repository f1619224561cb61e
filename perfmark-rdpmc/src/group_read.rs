//! Events that the kernel alone counts, each with a counter of its own, and all read by one `read(2)`.
//!
//! They form a group that further events join as they are asked for. To be in a group does not change when such an
//! event is counted: it needs no hardware counter, so neither it nor the group ever waits for one (`perf_sw_context`,
//! `include/linux/sched.h`, linux 6.12). Hardware events are not grouped so: a group of these is on the PMU as a unit
//! or not at all.

use crate::attr::Attr;
use crate::counter::Counter;
use crate::error::Error;
use crate::event::Kind;
use crate::machine::Machine;
use crate::open;
use crate::part::{Part, Refusal};
use crate::reading::{Delta, Reading};
use crate::region::Region;
use crate::sys::{self, FORMAT_GROUP, TYPE_SOFTWARE, TYPE_TRACEPOINT};

/// What one `read(2)` gave: the values of the counters that are in a group.
#[derive(Debug)]
pub struct GroupRead {
    /// How many values, the times, then each value and its event's id.
    numbers: [u64; NUMBERS],
    /// That of the counter that was read.
    read: Result<Reading, Refusal>,
}

const NUMBERS: usize = 3 + 2 * GroupRead::MOST;

impl GroupRead {
    /// Counters in such a group, at most.
    pub const MOST: usize = 16;

    /// Begins a region of a counter that is in the group.
    #[inline]
    #[must_use]
    pub fn begin(&self, counter: &Counter) -> Region {
        self.reading(counter).map_or_else(|_| Region::default(), Region::whole)
    }

    /// What a counter that is in the group counted in a region that [`begin`](Self::begin) began.
    #[inline]
    #[must_use]
    pub fn end(&self, counter: &Counter, region: &Region) -> Delta {
        match (self.reading(counter), counter.part().beginning(region)) {
            (Ok(end), Some(beginning)) => end.since(&beginning),
            _ => Delta::Unmeasured,
        }
    }

    #[inline]
    fn reading(&self, counter: &Counter) -> Result<Reading, Refusal> {
        let part = counter.part();
        counter.noted(self.read.and_then(|Reading { enabled, running, .. }| {
            let count = usize::try_from(self.numbers[0]).unwrap_or(Self::MOST);
            let mut values = self.numbers[3..].chunks_exact(2).take(count);
            match values.find(|value| part.has_id(value[1])) {
                Some(value) => Ok(part.reading(value[0], enabled, running)),
                // The event left the group when the program closed its descriptor, or the leader's.
                None => Err(part.give_up()),
            }
        }))
    }
}

#[doc(hidden)]
impl Counter {
    /// Whether an event that is counted so may be in a group that others join.
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

    /// Opens a counter in the group of `leader` and starts it. The group's [`read_group`](Self::read_group) is by this
    /// one, the second of the group, so that the first one, which may stay alone, is read by itself: that is cheaper by
    /// nearly half.
    ///
    /// Both events are [groupable](Self::is_groupable), and `leader` was opened on this thread.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open). If the group could not be started again, its leader is [given up](Self::give_up).
    pub fn open_reader(attr: &Attr, leader: &Self) -> Result<Self, Error> {
        let reader = join(attr, leader, FORMAT_GROUP)?;
        let read = reader.read_group();
        read.reading(leader).and(read.reading(&reader)).map_err(|refusal| reader.explain(refusal))?;
        Ok(reader)
    }

    /// Opens a counter in the group of `leader` and `reader`, and starts it. The group has [`MOST`](GroupRead::MOST)
    /// counters at most.
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
        let read = self.part().group_read(&mut numbers);
        GroupRead { numbers, read }
    }

    /// Never uses the descriptor again.
    pub fn give_up(&self) {
        self.part().give_up();
    }
}

/// Opens an event in the leader's group. `format` is added to its read format.
fn join(attr: &Attr, leader: &Counter, format: u64) -> Result<Counter, Error> {
    let fd = leader.part().fd().map_err(|refusal| leader.explain(refusal))?;
    // An event of another of the kernel's software PMUs that joins a group while that counts does not count before the
    // thread is switched (seen in linux 6.18). So the group is stopped meanwhile.
    if !leader.part().is_identified() {
        return Err(no_ids(attr));
    }
    leader.disable()?;
    let opened = open::open_member(attr, &Machine::here(), None, &mut |raw| {
        let mut raw = raw.clone();
        raw.read_format |= format;
        sys::open_in_group(&raw, Some(fd))
    });
    if let Err(error) = leader.enable() {
        leader.give_up();
        return Err(error);
    }
    let opened = opened?;
    let part = Part::new(opened.fd, attr.maps(&opened.encoding));
    if !part.is_identified() {
        return Err(no_ids(attr));
    }
    Ok(Counter::from_part(if format == 0 { part } else { part.reading_group() }, attr.clone()))
}

fn no_ids(attr: &Attr) -> Error {
    Error::refused(attr.to_string(), "the kernel does not give the ids of events, which groups need")
}
