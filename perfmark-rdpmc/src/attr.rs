//! How an event is counted.

use std::fmt;

use crate::error::Error;
use crate::event::{CountedBy, Encoding, Event, Kind, Modifier, Modifiers};
use crate::machine::Machine;
use crate::sys::{
    COUNT_SW_BPF_OUTPUT, COUNT_SW_DUMMY, FLAG_DISABLED, FLAG_ENABLE_ON_EXEC, FLAG_EXCLUDE_GUEST, FLAG_EXCLUDE_HOST,
    FLAG_EXCLUDE_HV, FLAG_EXCLUDE_IDLE, FLAG_EXCLUDE_KERNEL, FLAG_EXCLUDE_USER, FLAG_EXCLUSIVE, FLAG_INHERIT,
    FLAG_PINNED, FORMAT_ID, FORMAT_TOTAL_TIME_ENABLED, FORMAT_TOTAL_TIME_RUNNING, PRECISE_IP_SHIFT, PerfEventAttr,
    TYPE_SOFTWARE,
};

mod field;
mod refusal;

pub use field::Field;
use refusal::Requested;

/// An event and how it is counted. By default it is counted in user mode only, from the moment it is opened, with the
/// widest counters available, and only for the thread that opens it. The modifiers in the event's text change these
/// defaults.
///
/// ```
/// use perfmark_rdpmc::{Attr, Event, Hardware};
///
/// let all_modes = Attr::new(Hardware::Cycles).kernel(true);
/// assert_eq!(all_modes.event().to_string(), "cycles");
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
    /// In the order of [`Field`], so that equal requests are equal whatever the order of calls.
    fields: Vec<(Field, u64)>,
    /// What a reading contains (`PERF_FORMAT_*`).
    read_format: u64,
    /// Whether the kernel writes records to a ring.
    has_ring: bool,
}

/// The modes that modifiers name, and the flag that excludes each.
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
    /// Counts `event` in the modes that its modifiers name, or in user mode if they name none.
    #[must_use]
    pub fn new(event: impl Into<Event>) -> Self {
        let event = event.into();
        let modifiers = event.modifiers();
        let mut flags = 0;
        let mut exclude = |choices: &[(Modifier, u64)]| {
            let unnamed = choices.iter().filter(|(modifier, _)| !modifiers.contains(*modifier));
            flags |= unnamed.fold(0, |flags, (_, flag)| flags | flag);
        };
        if modifiers.name_modes() {
            exclude(&MODES);
        } else {
            exclude(&MODES[1..]);
        }
        if modifiers.contains(Modifier::Host) || modifiers.contains(Modifier::Guest) {
            exclude(&MACHINES);
        }
        flags |=
            FLAGS.iter().filter(|(modifier, _)| modifiers.contains(*modifier)).fold(0, |flags, (_, flag)| flags | flag);
        Self {
            event,
            flags,
            wide: true,
            user_reads: true,
            fields: Vec::new(),
            read_format: FORMAT_TOTAL_TIME_ENABLED | FORMAT_TOTAL_TIME_RUNNING | FORMAT_ID,
            has_ring: false,
        }
    }

    fn flag(mut self, flag: u64, on: bool) -> Self {
        self.flags = if on { self.flags | flag } else { self.flags & !flag };
        self
    }

    /// Whether to also count what the kernel and a hypervisor do for this thread. Requires permission where
    /// `kernel.perf_event_paranoid` is 2 or more.
    #[must_use]
    pub fn kernel(self, kernel: bool) -> Self {
        self.flag(FLAG_EXCLUDE_KERNEL | FLAG_EXCLUDE_HV, !kernel)
    }

    /// Whether to exclude user mode. Linux excludes no mode from the counts of its clocks, only from their samples.
    #[must_use]
    pub fn exclude_user(self, exclude: bool) -> Self {
        self.flag(FLAG_EXCLUDE_USER, exclude)
    }

    /// Whether to exclude kernel mode. Counting it requires permission where `kernel.perf_event_paranoid` is 2 or more.
    #[must_use]
    pub fn exclude_kernel(self, exclude: bool) -> Self {
        self.flag(FLAG_EXCLUDE_KERNEL, exclude)
    }

    /// Whether to exclude the hypervisor, where the processor distinguishes it. x86 counters and the kernel's own
    /// events do not; a request to count the hypervisor alone is refused there.
    ///
    /// On arm64 it depends on where linux runs (`Documentation/arch/arm64/perf.rst`, linux 6.12):
    ///
    /// | linux runs | kernel mode is | the hypervisor is |
    /// |---|---|---|
    /// | as its own hypervisor (VHE, the default since Armv8.1) | EL2 and, in guests, EL1 | part of kernel mode |
    /// | beside a hypervisor of its own (`kvm-arm.mode=nvhe`) | EL1 | EL2, which mostly switches to guests and back |
    /// | in a virtual machine | EL1 | not visible |
    ///
    /// In the first and the last case this setting has no effect, and the hypervisor alone is refused.
    #[must_use]
    pub fn exclude_hv(self, exclude: bool) -> Self {
        self.flag(FLAG_EXCLUDE_HV, exclude)
    }

    /// Whether to exclude the idle task. Only counters of entire CPUs ([`Target::cpu`](crate::Target::cpu)) count it.
    /// The PMUs of arm64 cannot exclude it (EOPNOTSUPP).
    #[must_use]
    pub fn exclude_idle(self, exclude: bool) -> Self {
        self.flag(FLAG_EXCLUDE_IDLE, exclude)
    }

    /// Whether to exclude the host, and count only virtual machines. Refused for the kernel's own events, such as page
    /// faults, because linux ignores it for them.
    #[must_use]
    pub fn exclude_host(self, exclude: bool) -> Self {
        self.flag(FLAG_EXCLUDE_HOST, exclude)
    }

    /// Whether to exclude virtual machines that this thread runs. On arm64 hosts without VHE (see
    /// [`exclude_hv`](Self::exclude_hv)), a count that includes the hypervisor then misses what the host does just
    /// before and just after a guest runs (a blackout window; `Documentation/arch/arm64/perf.rst`, "Accuracy", linux
    /// 6.12). Without this setting, virtual machines are excluded nevertheless if the PMU requires it, as Apple's do
    /// before linux 6.15.
    #[must_use]
    pub fn exclude_guest(self, exclude: bool) -> Self {
        self.flag(FLAG_EXCLUDE_GUEST, exclude)
    }

    /// Whether the event must be on the PMU whenever its thread runs. It is never multiplexed. If it does not fit, it
    /// enters an error state, in which it cannot be read, until it is enabled.
    #[must_use]
    pub fn pinned(self, pinned: bool) -> Self {
        self.flag(FLAG_PINNED, pinned)
    }

    /// Whether the event, or the group that it leads, must be alone on the PMU.
    #[must_use]
    pub fn exclusive(self, exclusive: bool) -> Self {
        self.flag(FLAG_EXCLUSIVE, exclusive)
    }

    /// Whether the counter starts stopped, until it is enabled.
    #[must_use]
    pub fn disabled(self, disabled: bool) -> Self {
        self.flag(FLAG_DISABLED, disabled)
    }

    /// Whether an `exec` of the counted process enables it. This crate's descriptors are close-on-exec, so it is for
    /// counters of [another process](crate::Target::thread), and for children that inherit a disabled event.
    #[must_use]
    pub fn enable_on_exec(self, enable: bool) -> Self {
        self.flag(FLAG_ENABLE_ON_EXEC, enable)
    }

    /// Whether threads and processes that this thread creates from now on are counted as well. Each reading includes
    /// them, also while they run.
    ///
    /// Cannot be combined with [`user_reads`](Self::user_reads), which is on by default. Linux does not map the page of
    /// an event that inherits and is not bound to one CPU (EINVAL, `perf_mmap` in `kernel/events/core.c`, linux 6.12),
    /// because the page describes only one thread.
    #[must_use]
    pub fn inherit(self, inherit: bool) -> Self {
        self.flag(FLAG_INHERIT, inherit)
    }

    /// Whether to map the event's page, so that hardware counters can be read without a system call.
    #[must_use]
    pub fn user_reads(self, user_reads: bool) -> Self {
        Self { user_reads, ..self }
    }

    /// How precise sample addresses must be, from 0 to 3; larger values count as 3. Only sampling needs it: x86 refuses
    /// it for a hardware event without a [sample period](Field::SamplePeriod) (EINVAL, `x86_pmu_hw_config` in
    /// `arch/x86/events/core.c`, linux 6.12).
    #[must_use]
    pub fn precise_ip(mut self, level: u8) -> Self {
        self.flags = self.flags & !(0b11 << PRECISE_IP_SHIFT) | u64::from(level.min(3)) << PRECISE_IP_SHIFT;
        self
    }

    /// Whether to request 64-bit counters first. This matters on arm64, where a counter has 32 bits unless more are
    /// requested and available. Totals are exact either way: the kernel handles an interrupt when a narrow counter
    /// overflows. A PMU without interrupts, of which the kernel says at boot that it cannot sample, loses overflows.
    /// Before Armv8.5, only the cycle counter has 64 bits that user space can read. A wide `cycles` waits
    /// while another event uses it, even if other counters are free.
    #[must_use]
    pub fn wide(self, wide: bool) -> Self {
        Self { wide, ..self }
    }

    /// Sets a field for which there is no method. The value is not checked here; the kernel may reject it.
    #[must_use]
    pub fn field(mut self, field: Field, value: u64) -> Self {
        self.fields.retain(|(other, _)| *other != field);
        // Bits that are set and cleared leave nothing behind.
        if value != 0 || !matches!(field, Field::Flags | Field::SampleType) {
            self.fields.push((field, value));
            self.fields.sort_unstable_by_key(|&(field, _)| field as u8);
        }
        self
    }

    /// Sets or clears bits of a field.
    pub(crate) fn bits(self, field: Field, bits: u64, on: bool) -> Self {
        let others = self.set(field).unwrap_or(0) & !bits;
        self.field(field, others | if on { bits } else { 0 })
    }

    /// For an event whose records are read from a ring.
    pub(crate) fn with_ring(self, read_format: u64) -> Self {
        Self { has_ring: true, user_reads: false, read_format, ..self }
    }

    /// The event's name in errors, with its modes.
    pub(crate) fn name(&self) -> String {
        match *self.event.kind() {
            Kind::Numbered { kind: TYPE_SOFTWARE, config: COUNT_SW_DUMMY } => "dummy event".into(),
            Kind::Numbered { kind: TYPE_SOFTWARE, config: COUNT_SW_BPF_OUTPUT } => "bpf-output".into(),
            _ => self.to_string(),
        }
    }

    /// The event.
    #[must_use]
    pub fn event(&self) -> &Event {
        &self.event
    }

    /// All bits of the kernel's structure, also those of [`Field::Flags`].
    pub(crate) fn flags(&self) -> u64 {
        self.flags | self.set(Field::Flags).unwrap_or(0)
    }

    /// Whether it sets one of these bits.
    pub(crate) fn has(&self, flags: u64) -> bool {
        self.flags() & flags != 0
    }

    /// Whether it sets a flag that only a group's leader may have.
    pub(crate) fn is_for_leaders(&self) -> bool {
        self.has(FLAG_PINNED | FLAG_EXCLUSIVE)
    }

    /// Whether it samples.
    pub(crate) fn samples(&self) -> bool {
        self.set(Field::SamplePeriod).unwrap_or(0) != 0
    }

    pub(crate) fn inherits(&self) -> bool {
        self.has(FLAG_INHERIT)
    }

    pub(crate) fn is_disabled(&self) -> bool {
        self.has(FLAG_DISABLED)
    }

    /// Whether `other` differs only in its event, and in whether it starts stopped.
    pub(crate) fn differs_in_event_alone(&self, other: &Self) -> bool {
        // The kernel does not know how the event is read, so those settings are ignored.
        let same = |one: &Self| {
            Self { event: self.event.clone(), wide: true, user_reads: true, ..one.clone() }.disabled(false)
        };
        same(self) == same(other)
    }

    pub(crate) fn counts_kernel(&self) -> bool {
        !self.has(FLAG_EXCLUDE_KERNEL)
    }

    pub(crate) fn asks_wide(&self) -> bool {
        self.wide
    }

    pub(crate) fn asks_user_reads(&self) -> bool {
        self.user_reads
    }

    /// Whether the event's page is mapped; if not, why.
    pub(crate) fn maps(&self, encoding: &Encoding) -> Result<(), &'static str> {
        match encoding.counted_by {
            CountedBy::Kernel => Err("a kernel event without a hardware counter"),
            CountedBy::Topdown => {
                Err("its hardware register holds fractions of slots, which only the kernel converts to counts")
            }
            CountedBy::Core if !self.user_reads => Err("user-space reads were turned off (Attr::user_reads(false))"),
            CountedBy::Core => Ok(()),
        }
    }

    pub(crate) fn set(&self, field: Field) -> Option<u64> {
        self.fields.iter().find(|(other, _)| *other == field).map(|&(_, value)| value)
    }

    /// The requests to the kernel, one for each PMU that counts the event on `machine`; or why it would count nothing.
    pub(crate) fn encode(&self, machine: &Machine) -> Result<Vec<Request>, Error> {
        let encodings = self.event.resolve(machine)?;
        let requested = Requested {
            flags: self.flags(),
            user_reads: self.user_reads,
            samples: self.samples(),
            has_ring: self.has_ring,
        };
        let requests = encodings.into_iter().map(|encoding| match refusal::reason(&requested, &encoding, machine) {
            Some(why) => Err(Error::refused(self.to_string(), why)),
            None => Ok(Request { attr: self.fill(&encoding), encoding }),
        });
        requests.collect()
    }

    fn fill(&self, encoding: &Encoding) -> PerfEventAttr {
        let given = |field, otherwise| self.set(field).unwrap_or(otherwise);
        let given_32 = |field| u32::try_from(given(field, 0)).unwrap_or(u32::MAX);
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
            read_format: self.read_format,
            flags: self.flags(),
            wakeup_events: given_32(Field::WakeupEvents),
            branch_sample_type: given(Field::BranchSampleType, 0),
            sig_data: given(Field::SigData, 0),
            sample_regs_user: given(Field::SampleRegsUser, 0),
            sample_stack_user: given_32(Field::SampleStackUser),
            sample_regs_intr: given(Field::SampleRegsIntr, 0),
            sample_max_stack: u16::try_from(given(Field::SampleMaxStack, 0)).unwrap_or(u16::MAX),
            clockid: i32::try_from(given(Field::ClockId, 0)).unwrap_or(i32::MAX),
            aux_watermark: given_32(Field::AuxWatermark),
            aux_sample_size: given_32(Field::AuxSampleSize),
            aux_action: given_32(Field::AuxAction),
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
    /// The kernel's structure. For a probe whose location is a text, it contains a pointer to that text, and is valid
    /// only while `self` lives.
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
        self.event.write(self.modifiers(), f)
    }
}

impl From<Event> for Attr {
    fn from(event: Event) -> Self {
        Self::new(event)
    }
}

#[cfg(test)]
mod tests;
