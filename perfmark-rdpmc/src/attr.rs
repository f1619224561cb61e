//! How an event is to be counted.

use std::fmt;

use crate::error::Error;
use crate::event::{CountedBy, Encoding, Event, Modifier, Modifiers};
use crate::machine::Machine;
use crate::sys::{
    FLAG_DISABLED, FLAG_ENABLE_ON_EXEC, FLAG_EXCLUDE_GUEST, FLAG_EXCLUDE_HOST, FLAG_EXCLUDE_HV, FLAG_EXCLUDE_IDLE,
    FLAG_EXCLUDE_KERNEL, FLAG_EXCLUDE_USER, FLAG_EXCLUSIVE, FLAG_INHERIT, FLAG_PINNED, FORMAT_ID,
    FORMAT_TOTAL_TIME_ENABLED, FORMAT_TOTAL_TIME_RUNNING, PRECISE_IP_SHIFT, PerfEventAttr,
};

mod refusal;

use refusal::Asked;

/// An event and how it is to be counted: by default in user mode only, from the moment it is opened, with the widest counters there are, and
/// for the thread that opens it alone. The modifiers in the event's text are where it starts from.
///
/// ```
/// use perfmark_rdpmc::{Attr, Event, Hardware};
///
/// let whole = Attr::new(Hardware::Cycles).kernel(true);
/// assert_eq!(whole.event().to_string(), "cycles");
/// assert_eq!(Attr::new("cycles:k".parse::<Event>()?).pinned(true).to_string(), "cycles:kD");
/// # Ok::<(), perfmark_rdpmc::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Attr {
    event: Event,
    /// Bits of `struct perf_event_attr`.
    flags: u64,
    wide: bool,
    user_reads: bool,
    fields: Vec<(Field, u64)>,
}

/// Fields of `struct perf_event_attr` (`include/uapi/linux/perf_event.h`, linux 6.12) that only samples and other rare uses need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Field {
    /// Events between two samples, or samples a second if the flag `freq` is set.
    SamplePeriod,
    /// What a sample holds (`PERF_SAMPLE_*`).
    SampleType,
    /// The bit field behind `read_format`, from `disabled` on. What this crate sets itself stays set.
    Flags,
    /// Samples, or bytes, after which the descriptor is ready.
    WakeupEvents,
    /// Replaces the event's `config`.
    Config,
    /// Replaces the event's `config1`.
    Config1,
    /// Replaces the event's `config2`.
    Config2,
    /// Replaces the event's `config3`.
    Config3,
    /// Which branches are recorded (`PERF_SAMPLE_BRANCH_*`).
    BranchSampleType,
    /// Handed to the handler of the signal that `sigtrap` asks for.
    SigData,
}

/// The modes that modifiers name, and what leaves each out.
const MODES: [(Modifier, u64); 3] = [
    (Modifier::User, FLAG_EXCLUDE_USER),
    (Modifier::Kernel, FLAG_EXCLUDE_KERNEL),
    (Modifier::Hypervisor, FLAG_EXCLUDE_HV),
];
const MACHINES: [(Modifier, u64); 2] = [(Modifier::Host, FLAG_EXCLUDE_HOST), (Modifier::Guest, FLAG_EXCLUDE_GUEST)];
/// Modifiers that set a flag.
const FLAGS: [(Modifier, u64); 3] =
    [(Modifier::NotIdle, FLAG_EXCLUDE_IDLE), (Modifier::Pinned, FLAG_PINNED), (Modifier::Exclusive, FLAG_EXCLUSIVE)];

impl Attr {
    /// Counts `event` in the modes that its modifiers name, in user mode if they name none.
    #[must_use]
    pub fn new(event: impl Into<Event>) -> Self {
        let event = event.into();
        let asked = event.modifiers();
        let mut flags = 0;
        let mut leave_out = |choices: &[(Modifier, u64)]| {
            let unnamed = choices.iter().filter(|(modifier, _)| !asked.contains(*modifier));
            flags |= unnamed.fold(0, |flags, (_, flag)| flags | flag);
        };
        if asked.name_modes() {
            leave_out(&MODES);
        } else {
            leave_out(&MODES[1..]);
        }
        if asked.contains(Modifier::Host) || asked.contains(Modifier::Guest) {
            leave_out(&MACHINES);
        }
        flags |=
            FLAGS.iter().filter(|(modifier, _)| asked.contains(*modifier)).fold(0, |flags, (_, flag)| flags | flag);
        Self { event, flags, wide: true, user_reads: true, fields: Vec::new() }
    }

    fn flag(mut self, flag: u64, on: bool) -> Self {
        self.flags = if on { self.flags | flag } else { self.flags & !flag };
        self
    }

    /// Whether to count what the kernel and a hypervisor do for this thread, too. Needs rights where
    /// `kernel.perf_event_paranoid` is 2 or more.
    #[must_use]
    pub fn kernel(self, kernel: bool) -> Self {
        self.flag(FLAG_EXCLUDE_KERNEL | FLAG_EXCLUDE_HV, !kernel)
    }

    /// Whether to leave out user mode.
    #[must_use]
    pub fn exclude_user(self, exclude: bool) -> Self {
        self.flag(FLAG_EXCLUDE_USER, exclude)
    }

    /// Whether to leave out the kernel. To count it needs rights where `kernel.perf_event_paranoid` is 2 or more.
    #[must_use]
    pub fn exclude_kernel(self, exclude: bool) -> Self {
        self.flag(FLAG_EXCLUDE_KERNEL, exclude)
    }

    /// Whether to leave out the hypervisor, where the processor can tell it apart. x86 and what the kernel counts itself cannot: there a
    /// counter of the hypervisor alone is refused.
    #[must_use]
    pub fn exclude_hv(self, exclude: bool) -> Self {
        self.flag(FLAG_EXCLUDE_HV, exclude)
    }

    /// Whether to leave out the idle task, which no counter of a thread meets.
    #[must_use]
    pub fn exclude_idle(self, exclude: bool) -> Self {
        self.flag(FLAG_EXCLUDE_IDLE, exclude)
    }

    /// Whether to leave out the host, and count virtual machines alone.
    #[must_use]
    pub fn exclude_host(self, exclude: bool) -> Self {
        self.flag(FLAG_EXCLUDE_HOST, exclude)
    }

    /// Whether to leave out virtual machines that this thread runs.
    #[must_use]
    pub fn exclude_guest(self, exclude: bool) -> Self {
        self.flag(FLAG_EXCLUDE_GUEST, exclude)
    }

    /// Whether the event is to be on the PMU whenever its thread runs. If it does not fit, it goes into an error state for good, in which it
    /// cannot be read; it never shares a hardware counter in turns.
    #[must_use]
    pub fn pinned(self, pinned: bool) -> Self {
        self.flag(FLAG_PINNED, pinned)
    }

    /// Whether the event, or the group that it leads, is to be alone on the PMU.
    #[must_use]
    pub fn exclusive(self, exclusive: bool) -> Self {
        self.flag(FLAG_EXCLUSIVE, exclusive)
    }

    /// Whether to begin stopped, until it is enabled.
    #[must_use]
    pub fn disabled(self, disabled: bool) -> Self {
        self.flag(FLAG_DISABLED, disabled)
    }

    /// Whether an `exec` enables it. Descriptors here close on `exec`, so this is for children of this thread that inherit a disabled event.
    #[must_use]
    pub fn enable_on_exec(self, enable: bool) -> Self {
        self.flag(FLAG_ENABLE_ON_EXEC, enable)
    }

    /// Whether threads and processes that this thread makes from now on are counted, too; their counts are added when they end.
    ///
    /// Refused together with [`user_reads`](Self::user_reads), which are on unless turned off: linux does not map the page of an event that
    /// inherits and is not bound to one CPU (EINVAL, `perf_mmap` in `kernel/events/core.c`, linux 6.12), because the page tells of one thread
    /// alone.
    #[must_use]
    pub fn inherit(self, inherit: bool) -> Self {
        self.flag(FLAG_INHERIT, inherit)
    }

    /// Whether to map the event's page, so that hardware counters can be read without the kernel.
    #[must_use]
    pub fn user_reads(self, user_reads: bool) -> Self {
        Self { user_reads, ..self }
    }

    /// How near to the instruction samples are to be, 0 to 3; more counts as 3. Nothing but samples needs it: x86 refuses it for an event
    /// without a [sample period](Field::SamplePeriod) (EINVAL, `x86_pmu_hw_config` in `arch/x86/events/core.c`, linux 6.12).
    #[must_use]
    pub fn precise_ip(mut self, level: u8) -> Self {
        self.flags = self.flags & !(0b11 << PRECISE_IP_SHIFT) | u64::from(level.min(3)) << PRECISE_IP_SHIFT;
        self
    }

    /// Whether to ask for 64-bit counters first (arm64, where each counter has 32 bits unless asked and able to do more). Totals are
    /// exact either way: the kernel takes an interrupt when a narrow counter overflows.
    #[must_use]
    pub fn wide(self, wide: bool) -> Self {
        Self { wide, ..self }
    }

    /// Sets a field for which there is no method. Nothing is checked; the kernel answers.
    #[must_use]
    pub fn field(mut self, field: Field, value: u64) -> Self {
        self.fields.retain(|(other, _)| *other != field);
        self.fields.push((field, value));
        self
    }

    /// What is counted.
    #[must_use]
    pub fn event(&self) -> &Event {
        &self.event
    }

    /// Whether it asks for what only a group's leader may have.
    pub(crate) fn is_for_leaders(&self) -> bool {
        self.flags & (FLAG_PINNED | FLAG_EXCLUSIVE) != 0
    }

    /// Whether it samples.
    pub(crate) fn samples(&self) -> bool {
        self.set(Field::SamplePeriod).unwrap_or(0) != 0
    }

    pub(crate) fn inherits(&self) -> bool {
        self.flags & FLAG_INHERIT != 0
    }

    pub(crate) fn is_disabled(&self) -> bool {
        self.flags & FLAG_DISABLED != 0
    }

    /// Whether all else is the same, but that one may begin stopped.
    pub(crate) fn differs_in_event_alone(&self, other: &Self) -> bool {
        // Neither does the kernel hear of how it is to be read.
        let same = |one: &Self| {
            Self { event: self.event.clone(), wide: true, user_reads: true, ..one.clone() }.disabled(false)
        };
        same(self) == same(other)
    }

    pub(crate) fn counts_kernel(&self) -> bool {
        self.flags & FLAG_EXCLUDE_KERNEL == 0
    }

    pub(crate) fn asks_wide(&self) -> bool {
        self.wide
    }

    pub(crate) fn asks_user_reads(&self) -> bool {
        self.user_reads
    }

    /// Whether the event's page is to be mapped, or why not.
    pub(crate) fn maps(&self, encoding: &Encoding) -> Result<(), &'static str> {
        match encoding.counted_by {
            CountedBy::Kernel => Err("the kernel alone counts it"),
            CountedBy::Topdown => {
                Err("its hardware register holds fractions of slots, which the kernel alone makes counts of")
            }
            CountedBy::Core if !self.user_reads => Err("user-space reads were turned off (Attr::user_reads(false))"),
            CountedBy::Core => Ok(()),
        }
    }

    fn set(&self, field: Field) -> Option<u64> {
        self.fields.iter().find(|(other, _)| *other == field).map(|&(_, value)| value)
    }

    /// What the kernel is asked for, on each PMU that counts the event on `machine`, or why it would count nothing there.
    pub(crate) fn encode(&self, machine: &Machine) -> Result<Vec<Request>, Error> {
        let encodings = self.event.resolve(machine)?;
        let asked = Asked { flags: self.flags, user_reads: self.user_reads, samples: self.samples() };
        let requests = encodings.into_iter().map(|encoding| match refusal::reason(&asked, &encoding, machine) {
            Some(why) => Err(Error::refused(self.to_string(), why)),
            None => Ok(Request { attr: self.fill(&encoding), encoding }),
        });
        requests.collect()
    }

    fn fill(&self, encoding: &Encoding) -> PerfEventAttr {
        let given = |field, otherwise| self.set(field).unwrap_or(otherwise);
        PerfEventAttr {
            kind: encoding.kind,
            size: PerfEventAttr::SIZE,
            config: given(Field::Config, encoding.config),
            config1: given(Field::Config1, encoding.config1),
            config2: given(Field::Config2, encoding.config2),
            config3: given(Field::Config3, encoding.config3),
            bp_type: encoding.bp_type,
            sample_period: given(Field::SamplePeriod, 0),
            sample_type: given(Field::SampleType, 0),
            read_format: FORMAT_TOTAL_TIME_ENABLED | FORMAT_TOTAL_TIME_RUNNING | FORMAT_ID,
            flags: self.flags | given(Field::Flags, 0),
            wakeup_events: u32::try_from(given(Field::WakeupEvents, 0)).unwrap_or(u32::MAX),
            branch_sample_type: given(Field::BranchSampleType, 0),
            sig_data: given(Field::SigData, 0),
            ..PerfEventAttr::default()
        }
    }

    fn modifiers(&self) -> Modifiers {
        let named = |choices: &[(Modifier, u64)]| {
            let all = choices.iter().all(|(_, flag)| self.flags & flag == 0);
            let (flags, choices) = (self.flags, choices.to_vec());
            choices.into_iter().filter(move |(_, flag)| !all && flags & flag == 0).map(|(modifier, _)| modifier)
        };
        let set = FLAGS.iter().filter(|(_, flag)| self.flags & flag != 0).map(|&(modifier, _)| modifier);
        named(&MODES).chain(named(&MACHINES)).chain(set).collect()
    }
}

/// One request to the kernel.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    attr: PerfEventAttr,
    pub(crate) encoding: Encoding,
}

impl Request {
    /// The kernel's structure. Where a probe's place is a text, it holds its address: it is of use as long as `self` lives.
    pub(crate) fn attr(&self) -> PerfEventAttr {
        let mut attr = self.attr.clone();
        if let Some(text) = &self.encoding.text {
            attr.config1 = text.as_ptr().expose_provenance() as u64;
        }
        attr
    }
}

impl fmt::Display for Attr {
    /// As perf writes it: `cycles:u` for user mode only, `cycles` for all modes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.event.shown_with(self.modifiers()))
    }
}

impl From<Event> for Attr {
    fn from(event: Event) -> Self {
        Self::new(event)
    }
}

#[cfg(test)]
mod tests;
