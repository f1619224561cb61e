//! Events that go on the PMU together or not at all, so that their values may be divided by one another.

use crate::attr::Attr;
use crate::counter::Counter;
use crate::error::Error;
use crate::machine::Machine;
use crate::open;
use crate::part::{GROUP, GROUP_NUMBERS, Part, Refusal};
use crate::read::UserRead;
use crate::reading::{Clock, Delta, Reading};
use crate::sys::{
    self, FLAG_DISABLED, FLAG_ENABLE_ON_EXEC, FORMAT_GROUP, IOC_DISABLE, IOC_ENABLE, IOC_FLAG_GROUP, IOC_RESET,
};

/// Events of the calling thread that are counted as a unit: all at the same times.
///
/// ```
/// use perfmark_rdpmc::{Attr, Delta, Group, Hardware};
///
/// let Ok(group) = Group::open(&[Attr::new(Hardware::Instructions), Attr::new(Hardware::Cycles)]) else { return Ok(()) };
/// let before = group.read()?;
/// let sum: u64 = (0..1000u64).map(std::hint::black_box).sum();
/// if let [Delta::Exact(instructions), Delta::Exact(cycles)] = group.read()?.since(&before)[..] {
///     println!("{:.2} instructions a cycle for {sum}", instructions as f64 / cycles as f64);
/// }
/// # Ok::<(), perfmark_rdpmc::Error>(())
/// ```
///
/// As its counters, it belongs to the thread that opened it, and is not `Send`:
///
/// ```compile_fail
/// fn sent<T: Send>() {}
/// sent::<perfmark_rdpmc::Group>();
/// ```
///
/// A group that opened may still never be on the PMU, if others pinned its counters: then its readings' `running` stands still.
#[derive(Debug)]
pub struct Group {
    /// The first one leads.
    counters: Vec<Counter>,
    ids: Vec<u64>,
}

/// A group's values at one moment, with the times that it was enabled and, of these, on the PMU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupReading {
    /// In the order in which the events were given.
    pub values: Vec<u64>,
    /// Nanoseconds enabled.
    pub enabled: u64,
    /// Nanoseconds enabled and on the PMU.
    pub running: u64,
    /// How often members had been reset, all together.
    resets: u32,
    is_late: bool,
}

impl GroupReading {
    /// What each event counted since `earlier`, a reading of the same group: exact, scaled or unmeasured all alike. If one was reset in between,
    /// all are unmeasured.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Vec<Delta> {
        let one = |reading: &Self, value: u64| {
            let Self { enabled, running, resets, is_late, .. } = *reading;
            Reading { value, enabled, running, resets, is_late, clock: Clock::default() }
        };
        let pairs = self.values.iter().zip(&earlier.values);
        pairs.map(|(&now, &then)| one(self, now).since(&one(earlier, then))).collect()
    }
}

impl Group {
    /// Opens the events as a group that the first one leads, for the calling thread, and starts them, unless the first is
    /// [`disabled`](Attr::disabled).
    ///
    /// # Errors
    ///
    /// As [`Counter::open`]. A group that has more events than the PMU has counters for is refused, and told how many fit.
    pub fn open(attrs: &[Attr]) -> Result<Self, Error> {
        if attrs.len() > GROUP {
            return Err(Error::refused("a group", format!("it has {} events; {GROUP} are the most", attrs.len())));
        }
        if let Some(attr) = attrs.iter().skip(1).find(|attr| attr.is_for_leaders()) {
            return Err(Error::refused(
                attr.to_string(),
                "only the first event of a group, which leads it, may be pinned or exclusive",
            ));
        }
        if let Some(attr) = attrs.iter().find(|attr| attr.inherits() != attrs[0].inherits()) {
            return Err(Error::refused(
                attr.to_string(),
                "all events of a group inherit, or none does: linux refuses a group of both (EINVAL)",
            ));
        }
        let mut counters: Vec<Counter> = Vec::with_capacity(attrs.len());
        let mut ids = Vec::with_capacity(attrs.len());
        let mut pmu = None;
        for attr in attrs {
            let counter =
                open_member(attr, counters.first(), &mut pmu).map_err(|error| too_big(attr, &counters, error))?;
            ids.push(counter.id()?);
            counters.push(counter);
        }
        if counters.is_empty() {
            return Err(Error::refused("a group", "it has no events"));
        }
        let group = Self { counters, ids };
        // It was opened stopped, so that all begin together.
        if !attrs[0].is_disabled() {
            group.enable()?;
        }
        Ok(group)
    }

    /// The counters, in the order given; the first leads.
    #[must_use]
    pub fn counters(&self) -> &[Counter] {
        &self.counters
    }

    /// Reads all in user space if that can be done now, else by one `read(2)`.
    ///
    /// # Errors
    ///
    /// As [`read_syscall`](Self::read_syscall).
    pub fn read(&self) -> Result<GroupReading, Error> {
        let by_user = if self.counters[0].part().is_here() { self.read_user() } else { None };
        by_user.map_or_else(|| self.read_syscall(), Ok)
    }

    /// Reads member by member without a system call. None of the pages changed from the first member to the last, so that all values are
    /// of one stay on the PMU. `None` where a member cannot be read so.
    #[must_use]
    pub fn read_user(&self) -> Option<GroupReading> {
        /// The kernel touches a group's pages one after the other, at most a few times a millisecond.
        const TRIES: usize = 10;
        for _ in 0..TRIES {
            let mut reads = Vec::with_capacity(self.counters.len());
            for counter in &self.counters {
                reads.push(counter.part().look().ok()?);
            }
            let unchanged = |(counter, lock): (&Counter, u32)| counter.page_lock() == Some(lock);
            if self.counters.iter().zip(reads.iter().map(|read| read.lock)).all(unchanged) {
                let &UserRead { enabled, running, is_late, .. } = reads.first()?;
                let values = reads.iter().map(|read| read.value).collect();
                return Some(GroupReading { values, enabled, running, resets: self.resets(), is_late });
            }
        }
        None
    }

    /// Reads all by one `read(2)`.
    ///
    /// # Errors
    ///
    /// Where the kernel refuses to read what it opened: a pinned group that does not fit, or a system call filter; in a forked child.
    pub fn read_syscall(&self) -> Result<GroupReading, Error> {
        let leader = &self.counters[0];
        let mut numbers = [0; GROUP_NUMBERS];
        let Reading { enabled, running, .. } =
            leader.part().group_read(&mut numbers).map_err(|refusal| leader.explain(refusal))?;
        let told = |id: &u64| numbers[3..].chunks_exact(2).find(|pair| pair[1] == *id).map(|pair| pair[0]);
        let values: Option<Vec<u64>> = self.ids.iter().map(told).collect();
        let values = values.ok_or_else(|| leader.explain(Refusal::Closed))?;
        Ok(GroupReading { values, enabled, running, resets: self.resets(), is_late: false })
    }

    fn resets(&self) -> u32 {
        self.counters.iter().fold(0, |sum, counter| sum.wrapping_add(counter.part().resets()))
    }

    /// Lets the whole group count.
    ///
    /// # Errors
    ///
    /// As [`Counter::enable`].
    pub fn enable(&self) -> Result<(), Error> {
        // One by one, the leader last. At one go it is on its PMU first, and members of other PMUs stay off theirs until the thread is switched,
        // while the group's times go on (seen in linux 6.18).
        for member in self.counters.iter().skip(1) {
            request("ioctl(ENABLE)", member, IOC_ENABLE, 0)?;
        }
        request("ioctl(ENABLE)", &self.counters[0], IOC_ENABLE, 0)
    }

    /// Stops the whole group.
    ///
    /// # Errors
    ///
    /// As [`Counter::enable`].
    pub fn disable(&self) -> Result<(), Error> {
        request("ioctl(DISABLE)", &self.counters[0], IOC_DISABLE, IOC_FLAG_GROUP)
    }

    /// Sets all values to 0; the times go on.
    ///
    /// # Errors
    ///
    /// As [`Counter::enable`].
    pub fn reset(&self) -> Result<(), Error> {
        for counter in &self.counters {
            counter.part().forget();
        }
        request("ioctl(RESET)", &self.counters[0], IOC_RESET, IOC_FLAG_GROUP)
    }
}

fn request(call: &str, counter: &Counter, request: u64, argument: u64) -> Result<(), Error> {
    let asked = counter.part().fd().and_then(|fd| sys::ioctl(fd, request, argument).map_err(Refusal::Os));
    asked.map_err(|refusal| refusal.explain(call, counter.event().to_string()))
}

impl Drop for Group {
    fn drop(&mut self) {
        // Members first: a leader that closes makes each member a group of its own on the PMU.
        while self.counters.pop().is_some() {}
    }
}

/// Takes note of the core PMU that the member is on in `pmu`.
fn open_member(attr: &Attr, leader: Option<&Counter>, pmu: &mut Option<String>) -> Result<Counter, Error> {
    let leader_fd = leader.map(|leader| leader.part().fd().map_err(|refusal| leader.explain(refusal))).transpose()?;
    let opened = open::open_member(attr, &Machine::here(), pmu.as_deref(), &mut |raw| {
        let mut raw = raw.clone();
        if leader.is_none() {
            raw.read_format |= FORMAT_GROUP;
            // Stopped until all are there. arm64 checks that a group fits only if it could be started by exec (`validate_event` in
            // drivers/perf/arm_pmu.c, linux 6.1).
            raw.flags |= FLAG_DISABLED | FLAG_ENABLE_ON_EXEC;
        } else {
            // The leader says whether the group is stopped.
            raw.flags &= !(FLAG_DISABLED | FLAG_ENABLE_ON_EXEC);
        }
        sys::open_in_group(&raw, leader_fd)
    })?;
    if let Some(own) = opened.encoding.core_pmu() {
        *pmu = Some(own.into());
    }
    let part = Part::new(opened.fd, attr.maps(&opened.encoding));
    Ok(Counter::from_part(if leader.is_none() { part.reading_group() } else { part }, attr.clone()))
}

/// The kernel says EINVAL of a member for which there is no counter left, and of much else: if the event opens on its own, it was that.
fn too_big(attr: &Attr, members: &[Counter], error: Error) -> Error {
    let fit = members.iter().filter(|member| member.event().is_hardware()).count();
    if fit == 0 || !attr.event().is_hardware() || error.errno() != Some(libc::EINVAL) || Counter::open(attr).is_err() {
        return error;
    }
    let why = format!("the group is too big for this PMU: {fit} fit, with this event it would be one more");
    Error::os(libc::EINVAL, "perf_event_open", attr.to_string(), &why)
}
