//! Events that are on the PMU together or not at all, so that their values may be divided by one another.

use crate::attr::Attr;
use crate::counter::Counter;
use crate::error::Error;
use crate::machine::Machine;
use crate::open;
use crate::pmu_event::PmuEvent;
use crate::read::UserRead;
use crate::reading::{CoreClock, Delta, Reading};
use crate::source::{GROUP, GROUP_NUMBERS, Refusal};
use crate::sys::{
    self, FLAG_DISABLED, FLAG_ENABLE_ON_EXEC, FLAG_INHERIT, FLAG_REMOVE_ON_EXEC, FORMAT_GROUP, IOC_DISABLE, IOC_ENABLE,
    IOC_FLAG_GROUP, IOC_RESET,
};
use crate::target::Target;

/// Events of the calling thread that are counted as a unit, all during the same time.
///
/// ```
/// use perfmark_rdpmc::{Attr, Delta, Group, Hardware};
///
/// let attrs = [Attr::new(Hardware::Instructions), Attr::new(Hardware::Cycles)];
/// let Ok(group) = Group::open(&attrs) else { return Ok(()) };
/// let before = group.read()?;
/// let sum: u64 = (0..1000u64).map(std::hint::black_box).sum();
/// if let [Delta::Exact(instructions), Delta::Exact(cycles)] = group.read()?.since(&before)[..] {
///     println!("{:.2} instructions per cycle for {sum}", instructions as f64 / cycles as f64);
/// }
/// # Ok::<(), perfmark_rdpmc::Error>(())
/// ```
///
/// If other events used the counters for part of the time, `running` advances less than `enabled` from one reading to
/// the next. [`read_syscall`](Self::read_syscall) returns these times as of now.
///
/// Like its counters, it belongs to the thread that opened it, and is not `Send`:
///
/// ```compile_fail
/// fn sent<T: Send>() {}
/// sent::<perfmark_rdpmc::Group>();
/// ```
///
/// A group that was opened may still never be on the PMU, if pinned events use its counters; or on arm64, if it
/// [inherits](Attr::inherit) and is larger than the PMU. The `running` time of its readings then does not advance.
#[derive(Debug)]
pub struct Group {
    /// The first one is the leader.
    counters: Vec<Counter>,
    ids: Vec<u64>,
}

/// A group's values at one moment, the time for which it was enabled, and the time for which it was on the PMU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct GroupReading {
    /// The values, in the order in which the events were given.
    pub values: Vec<u64>,
    /// Nanoseconds for which the group was enabled. A reading in user space may have the time of the page's last
    /// update: on some machines, such as most virtual ones with x86-64, the page does not help to compute the current
    /// time. [`Group::read_syscall`] has the time of the reading.
    pub enabled: u64,
    /// Nanoseconds for which the group was enabled and on the PMU; of the same moment as `enabled`.
    pub running: u64,
    /// The number of resets of all members.
    pub(crate) resets: u32,
    pub(crate) has_stale_times: bool,
}

impl GroupReading {
    /// What each event counted since `earlier`, a reading of the same group. All are exact, all are scaled, or all are
    /// unmeasured. If one was reset in between, all are unmeasured.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Vec<Delta> {
        let one = |reading: &Self, value: u64| {
            let Self { enabled, running, resets, has_stale_times, .. } = *reading;
            Reading { value, enabled, running, resets, has_stale_times, clock: CoreClock::default() }
        };
        let pairs = self.values.iter().zip(&earlier.values);
        pairs.map(|(&now, &then)| one(self, now).since(&one(earlier, then))).collect()
    }
}

impl Group {
    /// Opens the events as a group for the calling thread, and starts them unless the first is
    /// [`disabled`](Attr::disabled). The first event is the group's leader.
    ///
    /// # Errors
    ///
    /// As [`Counter::open`]. For a group with more events than the PMU has counters, the error says how many fit.
    pub fn open(attrs: &[Attr]) -> Result<Self, Error> {
        check(attrs)?;
        let mut counters: Vec<Counter> = Vec::with_capacity(attrs.len());
        let mut ids = Vec::with_capacity(attrs.len());
        let mut pmu = None;
        for attr in attrs {
            let members = &attrs[..counters.len()];
            let counter = open_member(attr, counters.first(), &mut pmu)
                .map_err(|error| too_big(attr, &Target::this_thread(), members, error))?;
            ids.push(counter.id()?);
            counters.push(counter);
        }
        let group = Self { counters, ids };
        // It was opened stopped, so that all events start together.
        if !attrs[0].is_disabled() {
            group.enable()?;
        }
        Ok(group)
    }

    /// The counters, in the order given. The first is the leader.
    #[must_use]
    pub fn counters(&self) -> &[Counter] {
        &self.counters
    }

    /// Reads all events in user space if that is possible now, otherwise by one `read(2)`.
    ///
    /// # Errors
    ///
    /// As [`read_syscall`](Self::read_syscall).
    pub fn read(&self) -> Result<GroupReading, Error> {
        let user_reading = if self.counters[0].source().is_this_process() { self.read_user() } else { None };
        user_reading.map_or_else(|| self.read_syscall(), Ok)
    }

    /// Reads each member without a system call. No page changed from the first member to the last, so all values belong
    /// to one stay on the PMU. `None` if a member cannot be read in user space.
    #[must_use]
    pub fn read_user(&self) -> Option<GroupReading> {
        /// The kernel updates a group's pages one after the other, at most a few times per millisecond.
        const TRIES: usize = 10;
        for _ in 0..TRIES {
            let mut reads = Vec::with_capacity(self.counters.len());
            for counter in &self.counters {
                reads.push(counter.pmu_event().read_page().ok()?);
            }
            let unchanged = |(counter, lock): (&Counter, u32)| counter.page_lock() == Some(lock);
            if self.counters.iter().zip(reads.iter().map(|read| read.lock)).all(unchanged) {
                let &UserRead { enabled, running, has_stale_times, .. } = reads.first()?;
                let values = reads.iter().map(|read| read.value).collect();
                return Some(GroupReading { values, enabled, running, resets: self.resets(), has_stale_times });
            }
        }
        None
    }

    /// Reads all events by one `read(2)`.
    ///
    /// # Errors
    ///
    /// If the kernel refuses: the group is pinned and does not fit, a system call filter forbids it, or this is a
    /// forked child.
    pub fn read_syscall(&self) -> Result<GroupReading, Error> {
        let leader = &self.counters[0];
        let mut numbers = [0; GROUP_NUMBERS];
        let Reading { enabled, running, .. } =
            leader.pmu_event().group_read(&mut numbers, None).map_err(|refusal| leader.explain(refusal))?;
        let values = values(&numbers, &self.ids).ok_or_else(|| leader.explain(Refusal::Closed))?;
        Ok(GroupReading { values, enabled, running, resets: self.resets(), has_stale_times: false })
    }

    fn resets(&self) -> u32 {
        self.counters.iter().fold(0, |sum, counter| sum.wrapping_add(counter.pmu_event().memory().resets()))
    }

    /// Starts all events of the group.
    ///
    /// # Errors
    ///
    /// As [`Counter::enable`].
    pub fn enable(&self) -> Result<(), Error> {
        // One event at a time, the leader last. If all are enabled at once, the leader is first on its PMU. Members of
        // other PMUs then stay off theirs until the next thread switch, while the group's times advance (seen in linux
        // 6.18).
        for member in self.counters.iter().skip(1) {
            request("ioctl(ENABLE)", member, IOC_ENABLE, 0)?;
        }
        request("ioctl(ENABLE)", &self.counters[0], IOC_ENABLE, 0)
    }

    /// Stops all events of the group.
    ///
    /// # Errors
    ///
    /// As [`Counter::enable`].
    pub fn disable(&self) -> Result<(), Error> {
        request("ioctl(DISABLE)", &self.counters[0], IOC_DISABLE, IOC_FLAG_GROUP)
    }

    /// Sets all values to 0. The times continue. If the events [inherit](Attr::inherit), what ended children have added
    /// stays in the values.
    ///
    /// # Errors
    ///
    /// As [`Counter::enable`].
    pub fn reset(&self) -> Result<(), Error> {
        for counter in &self.counters {
            counter.pmu_event().memory().forget();
        }
        request("ioctl(RESET)", &self.counters[0], IOC_RESET, IOC_FLAG_GROUP)
    }
}

/// What the kernel refuses of a group of these events, or ignores.
pub(crate) fn check(attrs: &[Attr]) -> Result<(), Error> {
    if attrs.is_empty() {
        return Err(Error::refused("a group", "it has no events"));
    }
    if attrs.len() > GROUP {
        return Err(Error::refused("a group", format!("it has {} events; at most {GROUP} are supported", attrs.len())));
    }
    if let Some(attr) = attrs.iter().skip(1).find(|attr| attr.is_for_leaders()) {
        return Err(Error::refused(
            attr.to_string(),
            "only the leader, the first event of a group, may be pinned or exclusive",
        ));
    }
    if let Some(attr) = attrs.iter().find(|attr| attr.inherits() != attrs[0].inherits()) {
        return Err(Error::refused(
            attr.to_string(),
            "either all events of a group inherit, or none does: linux refuses a mixed group (EINVAL)",
        ));
    }
    Ok(())
}

/// The values of these events among the numbers that `read(2)` of their group returned. `None` if one is not there.
pub(crate) fn values(numbers: &[u64], ids: &[u64]) -> Option<Vec<u64>> {
    let value = |id: &u64| numbers[3..].chunks_exact(2).find(|pair| pair[1] == *id).map(|pair| pair[0]);
    ids.iter().map(value).collect()
}

fn request(call: &str, counter: &Counter, request: u64, argument: u64) -> Result<(), Error> {
    let asked = counter.source().ioctl(request, argument);
    asked.map_err(|refusal| refusal.explain(call, counter.event().to_string()))
}

impl Drop for Group {
    fn drop(&mut self) {
        // Members first: closing a leader turns each member into a group of its own on the PMU.
        while self.counters.pop().is_some() {}
    }
}

/// Opens a member, and stores its core PMU in `pmu`.
fn open_member(attr: &Attr, leader: Option<&Counter>, pmu: &mut Option<String>) -> Result<Counter, Error> {
    let leader_fd = leader.map(|leader| leader.source().fd().map_err(|refusal| leader.explain(refusal))).transpose()?;
    let opened =
        open::open_member(attr, &Target::this_thread(), &Machine::here(), pmu.as_deref(), &mut |raw, target| {
            let mut raw = raw.clone();
            if leader.is_none() {
                raw.read_format |= FORMAT_GROUP;
                // Stopped until all are open.
                raw.flags |= FLAG_DISABLED;
                // arm64 checks that a group fits only if an exec could start it (`validate_event` in
                // drivers/perf/arm_pmu.c, linux 6.1). No exec does: the descriptor is close-on-exec. But a child that
                // inherits the events has no descriptors.
                if cfg!(target_arch = "aarch64") && raw.flags & (FLAG_INHERIT | FLAG_REMOVE_ON_EXEC) == 0 {
                    raw.flags |= FLAG_ENABLE_ON_EXEC;
                }
            } else {
                // The leader determines whether the group is stopped.
                raw.flags &= !(FLAG_DISABLED | FLAG_ENABLE_ON_EXEC);
            }
            sys::open(&raw, target, leader_fd)
        })?;
    if let Some(own) = opened.encoding.core_pmu() {
        *pmu = Some(own.into());
    }
    let pmu_event = PmuEvent::new(opened.fd, attr.maps(&opened.encoding));
    Ok(Counter::from_pmu_event(if leader.is_none() { pmu_event.reading_group() } else { pmu_event }, attr.clone()))
}

/// The kernel returns EINVAL if no counter is left for a member, and for many other reasons. If the event opens on its
/// own, the group is too big. `members` are those that are open.
pub(crate) fn too_big(attr: &Attr, target: &Target, members: &[Attr], error: Error) -> Error {
    let fit = members.iter().filter(|member| member.event().is_hardware()).count();
    let mut open_alone = |raw: &sys::PerfEventAttr, target: &Target| sys::open(raw, target, None);
    if fit == 0
        || !attr.event().is_hardware()
        || error.errno() != Some(libc::EINVAL)
        || open::open_each(attr, target, &Machine::here(), &mut open_alone).is_err()
    {
        return error;
    }
    let why = format!("the group is too big for this PMU: {fit} hardware events fit, and this is one more");
    Error::os(libc::EINVAL, "perf_event_open", attr.to_string(), &why)
}
