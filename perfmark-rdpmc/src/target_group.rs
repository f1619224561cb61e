//! Groups of events of other threads, of entire CPUs and of cgroups.

use crate::attr::Attr;
use crate::error::Error;
use crate::group::{self, GroupReading};
use crate::machine::Machine;
use crate::open;
use crate::source::{NUMBERS, Refusal, Source};
use crate::sys::{self, FLAG_DISABLED, FORMAT_GROUP, IOC_DISABLE, IOC_ENABLE, IOC_FLAG_GROUP};
use crate::target::Target;

/// Events that are counted for a [`Target`] as a unit, all during the same time. As with a
/// [`TargetCounter`](crate::TargetCounter), each reading is a `read(2)`, by any thread.
///
/// ```
/// use perfmark_rdpmc::{Attr, Delta, Software, Target, TargetGroup};
///
/// let attrs = [Attr::new(Software::TaskClock), Attr::new(Software::PageFaults)];
/// match TargetGroup::open(&attrs, &Target::thread(std::process::id())) {
///     Ok(group) => {
///         let before = group.read()?;
///         std::hint::black_box(vec![1_u8; 1 << 20]);
///         if let [Delta::Exact(nanoseconds), Delta::Exact(faults)] = group.read()?.since(&before)[..] {
///             println!("{faults} page faults in {nanoseconds} ns of the main thread");
///         }
///     }
///     Err(why) => eprintln!("{why}"),
/// }
/// # Ok::<(), perfmark_rdpmc::Error>(())
/// ```
///
/// On arm64, a group with more events than the PMU has counters opens and is never counted: the `running` time of its
/// readings does not advance.
#[derive(Debug)]
pub struct TargetGroup {
    /// The first one is the leader.
    sources: Vec<Source>,
    ids: Vec<u64>,
    name: String,
}

impl TargetGroup {
    /// Opens the events as a group for the target, and starts them unless the first is [`disabled`](Attr::disabled).
    /// The first event is the group's leader.
    ///
    /// # Errors
    ///
    /// As [`TargetCounter::open`](crate::TargetCounter::open). On a machine with several kinds of core, each hardware
    /// event must name the same one. For a group with more events than the PMU has counters, the error says how many
    /// fit.
    pub fn open(attrs: &[Attr], target: &Target) -> Result<Self, Error> {
        group::check(attrs)?;
        let machine = Machine::here();
        let (mut sources, mut pmu): (Vec<Source>, Option<String>) = (Vec::with_capacity(attrs.len()), None);
        for attr in attrs {
            let leader = sources.first().map(Source::fd).transpose().map_err(|why| explain(attr, "open", why))?;
            let mut open_event = |raw: &sys::PerfEventAttr, target: &Target| {
                let mut raw = raw.clone();
                // The leader is stopped until all are open, and determines whether the group is.
                match leader {
                    None => (raw.read_format, raw.flags) = (raw.read_format | FORMAT_GROUP, raw.flags | FLAG_DISABLED),
                    Some(_) => raw.flags &= !FLAG_DISABLED,
                }
                sys::open(&raw, target, leader)
            };
            let attr = attr.clone().user_reads(false);
            let opened = open::open_member(&attr, target, &machine, pmu.as_deref(), &mut open_event)
                .map_err(|error| group::too_big(&attr, target, &attrs[..sources.len()], error))?;
            pmu = opened.encoding.core_pmu().map(str::to_owned).or(pmu);
            sources.push(Source::new(opened.fd));
        }
        let ids: Result<Vec<u64>, Refusal> = sources.iter().map(Source::id).collect();
        let ids = ids.map_err(|why| explain(&attrs[0], "ioctl(ID)", why))?;
        let group = Self { sources, ids, name: attrs[0].event().to_string() };
        if !attrs[0].is_disabled() {
            group.enable()?;
        }
        Ok(group)
    }

    /// Reads all events by one `read(2)`.
    ///
    /// # Errors
    ///
    /// If the kernel refuses: a pinned group does not fit the PMU, or a system call filter forbids it.
    pub fn read(&self) -> Result<GroupReading, Error> {
        let mut numbers = [0; NUMBERS];
        let explain = |why: Refusal| why.explain("read", self.name.clone());
        self.sources[0].read_numbers(&mut numbers).map_err(explain)?;
        Ok(GroupReading {
            values: group::values(&numbers, &self.ids).ok_or_else(|| explain(Refusal::Closed))?,
            enabled: numbers[1],
            running: numbers[2],
            resets: 0,
            has_stale_times: false,
        })
    }

    /// Starts all events of the group.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub fn enable(&self) -> Result<(), Error> {
        // The leader last, as in `Group::enable`.
        let members_first = self.sources.iter().skip(1).chain(self.sources.first());
        self.explained("ioctl(ENABLE)", members_first.into_iter().try_for_each(|source| source.ioctl(IOC_ENABLE, 0)))
    }

    /// Stops all events of the group.
    ///
    /// # Errors
    ///
    /// As [`enable`](Self::enable).
    pub fn disable(&self) -> Result<(), Error> {
        self.explained("ioctl(DISABLE)", self.sources[0].ioctl(IOC_DISABLE, IOC_FLAG_GROUP))
    }

    #[cfg(all(unix, not(perfmark_scripted)))]
    pub(crate) fn leader(&self) -> &Source {
        &self.sources[0]
    }

    fn explained(&self, call: &str, requested: Result<(), Refusal>) -> Result<(), Error> {
        requested.map_err(|refusal| refusal.explain(call, self.name.clone()))
    }
}

fn explain(attr: &Attr, call: &str, refusal: Refusal) -> Error {
    refusal.explain(call, attr.event().to_string())
}

impl Drop for TargetGroup {
    fn drop(&mut self) {
        // Members first: closing a leader turns each member into a group of its own on the PMU.
        while self.sources.pop().is_some() {}
    }
}
