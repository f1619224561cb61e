//! What is sampled, and what the kernel writes to the ring.

use super::parameters::{AuxAction, Clock, default_period};
use super::record::Layout;
use crate::attr::{Attr, Field};
use crate::event::Event;
use crate::flags::{Branches, Content, ReadFormat, Records};
use crate::sys::{
    COUNT_SW_BPF_OUTPUT, COUNT_SW_DUMMY, FLAG_AUX_OUTPUT, FLAG_EXCLUDE_CALLCHAIN_KERNEL, FLAG_EXCLUDE_CALLCHAIN_USER,
    FLAG_FREQ, FLAG_INHERIT, FLAG_INHERIT_THREAD, FLAG_REMOVE_ON_EXEC, FLAG_SAMPLE_ID_ALL, FLAG_SIGTRAP,
    FLAG_USE_CLOCKID, FLAG_WATERMARK, FLAG_WRITE_BACKWARD, FORMAT_GROUP, TYPE_SOFTWARE,
};
use crate::target::Target;

/// An event that is sampled, what its samples contain, and which other records are written.
///
/// ```
/// use perfmark_rdpmc::sample::{Content, Sampler};
/// use perfmark_rdpmc::{Attr, Software};
///
/// let sampler = Sampler::new(Attr::new(Software::TaskClock)).period(999_983).content(Content::IP | Content::TIME);
/// match sampler.open() {
///     Ok(ring) => println!("samples go to a ring of {} bytes", ring.bytes()),
///     Err(why) => eprintln!("{why}"),
/// }
/// ```
///
/// [`Attr`] says how the event is counted: in which modes, pinned, precise, inherited. Values are not checked before
/// [`open`](Self::open), which returns the kernel's error with its likely cause.
#[derive(Clone, Debug)]
pub struct Sampler {
    pub(super) attr: Attr,
    /// Events whose counts are in each sample as well.
    pub(super) members: Vec<Attr>,
    pub(super) target: Target,
    pub(super) read_format: ReadFormat,
    pub(super) pages: usize,
    pub(super) aux_pages: usize,
    pub(super) is_aux_overwritten: bool,
    pub(super) signal: Option<i32>,
}

impl Sampler {
    /// Samples `attr` on the calling thread. Without [`period`](Self::period) and [`frequency`](Self::frequency), the
    /// period is a prime: for clocks about 1 ms, for cycles, instructions and raw events about a million, for other
    /// hardware events about 10,000; other events are sampled at every occurrence. A prime is not in step with a
    /// program's loops.
    #[must_use]
    pub fn new(attr: impl Into<Attr>) -> Self {
        let attr = attr.into();
        if attr.set(Field::SamplePeriod).is_some() {
            return Self::of(attr);
        }
        let period = default_period(attr.event());
        Self::of(attr.field(Field::SamplePeriod, period))
    }

    /// Takes no samples: the ring contains only [other records](Self::records). Requires no PMU and no permission.
    #[must_use]
    pub fn dummy() -> Self {
        Self::of(Attr::new(Event::numbered(TYPE_SOFTWARE, COUNT_SW_DUMMY)))
    }

    /// The ring to which a BPF program writes by `bpf_perf_event_output` (event `bpf-output`): each write is a sample
    /// that contains [`raw`](super::Sample::raw) data, followed by up to 7 bytes of padding. Loading a tracing program
    /// requires `CAP_BPF` and `CAP_PERFMON`. Opening the calling thread's ring requires no permission.
    ///
    /// A program finds the ring in a map of type `BPF_MAP_TYPE_PERF_EVENT_ARRAY`, by the number of its CPU. Put the
    /// ring's descriptor there: for a ring of a CPU ([`Target::cpu`]) at that CPU's number, and for a ring of a thread
    /// at each number. The ring of a thread gets what the program writes on that thread
    /// (`__bpf_perf_event_output` in `kernel/trace/bpf_trace.c`, linux 6.12). The map has the ring until the
    /// descriptor of the map is closed.
    ///
    /// ```
    /// # #[cfg(target_os = "linux")] {
    /// use std::os::fd::AsFd as _;
    ///
    /// use perfmark_rdpmc::sample::{Body, Sampler};
    ///
    /// match Sampler::bpf_output().wakeup_events(1).open() {
    ///     Ok(ring) => {
    ///         println!("for bpf(BPF_MAP_UPDATE_ELEM): {:?}", ring.as_fd());
    ///         let mut reader = ring.reader()?;
    ///         while let Some(record) = reader.read() {
    ///             if let Body::Sample(sample) = record.body {
    ///                 println!("the program wrote {:x?}", sample.raw);
    ///             }
    ///         }
    ///     }
    ///     Err(why) => eprintln!("{why}"),
    /// }
    /// # }
    /// # Ok::<(), perfmark_rdpmc::Error>(())
    /// ```
    #[must_use]
    pub fn bpf_output() -> Self {
        Self::new(Attr::new(Event::numbered(TYPE_SOFTWARE, COUNT_SW_BPF_OUTPUT))).content(Content::RAW)
    }

    fn of(attr: Attr) -> Self {
        Self {
            attr: attr.bits(Field::Flags, FLAG_SAMPLE_ID_ALL, true),
            members: Vec::new(),
            target: Target::default(),
            read_format: ReadFormat::ALL.iter().fold(ReadFormat::default(), |all, &one| all | one),
            pages: 8,
            aux_pages: 0,
            is_aux_overwritten: false,
            signal: None,
        }
    }

    /// The event that is sampled.
    #[must_use]
    pub fn event(&self) -> &Event {
        self.attr.event()
    }

    /// The attributes of the event, for a [`Counter`](crate::Counter) that samples as requested here and sends its
    /// samples [to a ring](crate::Counter::set_output). The ring's settings, such as
    /// [`pages`](Self::pages), are not in them, and neither are [`target`](Self::target), [`group`](Self::group),
    /// [`signal`](Self::signal) and [`read_format`](Self::read_format).
    #[must_use]
    pub fn attr(&self) -> &Attr {
        &self.attr
    }

    /// The event's name in errors.
    pub(super) fn name(&self) -> String {
        self.attr.name()
    }

    /// Whether new records overwrite old ones.
    pub(super) fn is_overwritten(&self) -> bool {
        self.attr.has(FLAG_WRITE_BACKWARD)
    }

    fn field(self, field: Field, value: u64) -> Self {
        Self { attr: self.attr.field(field, value), ..self }
    }

    fn bits(self, field: Field, bits: u64, on: bool) -> Self {
        Self { attr: self.attr.bits(field, bits, on), ..self }
    }

    /// The number of events between two samples; for clocks, nanoseconds.
    #[must_use]
    pub fn period(self, events: u64) -> Self {
        self.field(Field::SamplePeriod, events).bits(Field::Flags, FLAG_FREQ, false)
    }

    /// The number of samples a second, at most `kernel.perf_event_max_sample_rate`. The kernel then adjusts the period
    /// all the time; for clocks it is fixed.
    #[must_use]
    pub fn frequency(self, samples: u64) -> Self {
        self.field(Field::SamplePeriod, samples).bits(Field::Flags, FLAG_FREQ, true)
    }

    /// Adds to what each sample contains.
    #[must_use]
    pub fn content(self, content: Content) -> Self {
        self.bits(Field::SampleType, content.bits(), true)
    }

    /// Adds the user-mode registers whose bits are set to each sample; the bits are the processor's
    /// (`asm/perf_regs.h`).
    #[must_use]
    pub fn user_registers(self, mask: u64) -> Self {
        self.content(Content::USER_REGISTERS).field(Field::SampleRegsUser, mask)
    }

    /// Adds registers of the interrupted code to each sample, which may be the kernel's.
    #[must_use]
    pub fn interrupt_registers(self, mask: u64) -> Self {
        self.content(Content::INTERRUPT_REGISTERS).field(Field::SampleRegsIntr, mask)
    }

    /// Adds that many bytes of the user-mode stack to each sample: a multiple of 8, at most 65,528. For several events
    /// of the same kind, see [`Content`].
    #[must_use]
    pub fn user_stack(self, bytes: u32) -> Self {
        self.content(Content::USER_STACK).field(Field::SampleStackUser, bytes.into())
    }

    /// Adds the last branches to each sample. Requires a processor that records them; not tested on one.
    #[must_use]
    pub fn branches(self, branches: Branches) -> Self {
        self.content(Content::BRANCHES).bits(Field::BranchSampleType, branches.bits(), true)
    }

    /// Adds that many bytes of the AUX area of the group's leader to each sample. For [members of a
    /// group](Self::group), as the leader has its own trace. Not tested on a PMU with an AUX area.
    #[must_use]
    pub fn aux_samples(self, bytes: u32) -> Self {
        self.content(Content::AUX).field(Field::AuxSampleSize, bytes.into())
    }

    /// The most entries of a call chain, at most `kernel.perf_event_max_stack`. For several events of the same kind,
    /// see [`Content`].
    #[must_use]
    pub fn max_stack(self, entries: u16) -> Self {
        self.field(Field::SampleMaxStack, entries.into())
    }

    /// Whether to leave the kernel's functions out of call chains. For several events of the same kind, see
    /// [`Content`].
    #[must_use]
    pub fn exclude_callchain_kernel(self, exclude: bool) -> Self {
        self.bits(Field::Flags, FLAG_EXCLUDE_CALLCHAIN_KERNEL, exclude)
    }

    /// Whether to leave the program's functions out of call chains. For several events of the same kind, see
    /// [`Content`].
    #[must_use]
    pub fn exclude_callchain_user(self, exclude: bool) -> Self {
        self.bits(Field::Flags, FLAG_EXCLUDE_CALLCHAIN_USER, exclude)
    }

    /// Adds the counts of these events to each sample that [contains counts](Content::READ). They are one group with
    /// the sampled event, which leads it: counted together or not at all. At most 63. Only the sampled event may be
    /// pinned or exclusive, and either all of them inherit, or none does.
    ///
    /// Members that sample themselves write to the ring as well. They are a sampler's [attributes](Self::attr), with
    /// the [content](Content) of the sampled event, but no counts.
    #[must_use]
    pub fn group(self, members: impl IntoIterator<Item = Attr>) -> Self {
        let members: Vec<Attr> = self.members.into_iter().chain(members).collect();
        Self { members, ..self }
    }

    /// What the [counts](Content::READ) in each sample contain; by default everything that there is. `GROUP` in
    /// `format` is ignored: it follows from [`group`](Self::group). Without both times and `ID`,
    /// [`Ring::count`](super::Ring::count) is an error.
    #[must_use]
    pub fn read_format(self, format: ReadFormat) -> Self {
        Self { read_format: format, ..self }
    }

    /// Adds kinds of records to write besides samples.
    #[must_use]
    pub fn records(self, records: Records) -> Self {
        self.bits(Field::Flags, records.bits(), true)
    }

    /// Whether records that are not samples also say when and where they were written, as far as
    /// [`content`](Self::content) requests it. On by default.
    #[must_use]
    pub fn sample_id_all(self, on: bool) -> Self {
        self.bits(Field::Flags, FLAG_SAMPLE_ID_ALL, on)
    }

    /// The number of samples after which the ring becomes [ready](super::wait). By default it is ready when it is half
    /// full.
    #[must_use]
    pub fn wakeup_events(self, samples: u32) -> Self {
        self.field(Field::WakeupEvents, samples.into()).bits(Field::Flags, FLAG_WATERMARK, false)
    }

    /// The number of bytes after which the ring becomes [ready](super::wait).
    #[must_use]
    pub fn wakeup_watermark(self, bytes: u32) -> Self {
        self.field(Field::WakeupEvents, bytes.into()).bits(Field::Flags, FLAG_WATERMARK, true)
    }

    /// The clock of the times in records. For several events of the same kind, see [`Content`].
    #[must_use]
    pub fn clock(self, clock: Clock) -> Self {
        let id = clock.id();
        self.field(Field::ClockId, id.unwrap_or(0)).bits(Field::Flags, FLAG_USE_CLOCKID, id.is_some())
    }

    /// The ring's pages of records: a power of two, 8 by default. One page more describes the ring. All of them count
    /// against the [locked memory](crate::support::LockedMemory::rings) of this user.
    #[must_use]
    pub fn pages(self, pages: usize) -> Self {
        Self { pages, ..self }
    }

    /// Whether new records overwrite old ones; otherwise new ones are lost when the ring is full. The newest record is
    /// then read first. While the ring is read, the kernel writes nothing, and counts that as lost.
    #[must_use]
    pub fn overwrite(self, overwrite: bool) -> Self {
        self.bits(Field::Flags, FLAG_WRITE_BACKWARD, overwrite)
    }

    /// The pages of the AUX area, to which hardware writes a trace: a power of two, or 0 for none. Requires a PMU that
    /// has one (Intel PT, Arm `CoreSight` or SPE); not tested on one.
    #[must_use]
    pub fn aux_pages(self, pages: usize) -> Self {
        Self { aux_pages: pages, ..self }
    }

    /// Whether new trace data overwrites old data in the AUX area, which is then mapped read-only;
    /// [`Reader::aux_snapshot`](super::Reader::aux_snapshot) has the newest. Not tested on a PMU with an AUX area.
    #[must_use]
    pub fn aux_overwrite(self, overwrite: bool) -> Self {
        Self { is_aux_overwritten: overwrite, ..self }
    }

    /// The bytes of trace after which the ring becomes ready.
    #[must_use]
    pub fn aux_watermark(self, bytes: u32) -> Self {
        self.field(Field::AuxWatermark, bytes.into())
    }

    /// Whether samples go to the AUX area of the group's leader. For [members of a group](Self::group).
    #[must_use]
    pub fn aux_output(self, on: bool) -> Self {
        self.bits(Field::Flags, FLAG_AUX_OUTPUT, on)
    }

    /// What the event does to the trace of its group's leader, or a trace to itself at its start.
    #[must_use]
    pub fn aux_action(self, action: AuxAction) -> Self {
        self.field(Field::AuxAction, action as u64)
    }

    /// Samples another thread instead of the calling one, or an entire CPU, or a cgroup. With [`Attr::inherit`], it
    /// must be [on one CPU](Target::on_cpu).
    #[must_use]
    pub fn target(self, target: Target) -> Self {
        Self { target, ..self }
    }

    /// Sends `signal` to the sampled thread for each sample (`fcntl(2)`, `F_SETSIG`). Its handler learns of the ring's
    /// descriptor only. Without a handler, most signals end the process. Signals have the numbers 1 to 64. Refused for
    /// a CPU and for a cgroup, which are no thread.
    #[must_use]
    pub fn signal(self, signal: i32) -> Self {
        Self { signal: Some(signal), ..self }
    }

    /// Sends SIGTRAP to the sampled thread, before its next instruction in user mode, for each sample (linux 5.13). The
    /// handler finds `data` in its `siginfo_t`. Without a handler, the signal ends the process. The event is removed on
    /// exec. Refused for a CPU and for a cgroup, which are no thread.
    #[must_use]
    pub fn sigtrap(self, data: u64) -> Self {
        self.bits(Field::Flags, FLAG_SIGTRAP, true).remove_on_exec(true).field(Field::SigData, data)
    }

    /// Whether an exec removes the event.
    #[must_use]
    pub fn remove_on_exec(self, remove: bool) -> Self {
        self.bits(Field::Flags, FLAG_REMOVE_ON_EXEC, remove)
    }

    /// Whether threads that the sampled thread creates from now on are sampled as well, but not new processes (linux
    /// 5.13). Requires a [target on one CPU](Target::on_cpu). [`Attr::inherit`] alone is for new processes as well.
    #[must_use]
    pub fn inherit_thread(self, inherit: bool) -> Self {
        // Linux requires both. Those of the field do not change what `Attr::inherit` set.
        self.bits(Field::Flags, FLAG_INHERIT | FLAG_INHERIT_THREAD, inherit)
    }

    /// What the event's records contain, for records that were saved as bytes. Before linux 6.0 readings do not contain
    /// the lost samples, which [`Ring::layout`](super::Ring::layout) takes into account.
    #[must_use]
    pub fn layout(&self) -> Layout {
        let group = if self.members.is_empty() { 0 } else { FORMAT_GROUP };
        Layout::of(&self.attr, self.read_format.bits() & !FORMAT_GROUP | group)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Hardware;
    use crate::machine::Machine;
    use crate::sys::PerfEventAttr;

    /// What the kernel is asked for.
    fn filled(change: impl Fn(Sampler) -> Sampler) -> PerfEventAttr {
        let requests =
            change(Sampler::new(Attr::new(Hardware::Cycles).user_reads(false))).attr.encode(&Machine::fixture("zen"));
        requests.unwrap_or_else(|error| panic!("{error}"))[0].attr()
    }

    #[test]
    fn every_method_sets_its_field() {
        let branches = filled(|sampler| sampler.branches(Branches::ANY | Branches::USER));
        assert_eq!((branches.sample_type, branches.branch_sample_type), (1 << 11, 0b1001));
        let registers = filled(|sampler| sampler.user_registers(0b101).interrupt_registers(0b11));
        assert_eq!((registers.sample_regs_user, registers.sample_regs_intr), (0b101, 0b11));
        assert_eq!(filled(|sampler| sampler.user_stack(64)).sample_stack_user, 64);
        let aux = filled(|sampler| sampler.aux_samples(4_096).aux_watermark(512).aux_output(true));
        assert_eq!((aux.sample_type, aux.aux_sample_size, aux.aux_watermark), (1 << 20, 4_096, 512));
        assert_eq!(aux.flags >> 31 & 1, 1);
        for (action, bits) in [(AuxAction::StartPaused, 1), (AuxAction::Pause, 2), (AuxAction::Resume, 4)] {
            assert_eq!(filled(|sampler| sampler.aux_action(action)).aux_action, bits);
        }
        let removed = filled(|sampler| sampler.sigtrap(7).inherit_thread(true).overwrite(true));
        assert_eq!((removed.sig_data, removed.flags >> 35 & 0b111, removed.flags >> 27 & 1), (7, 0b111, 1));
        let inherited = |attr: Attr, inherit_thread| {
            let flags = Sampler::new(attr).inherit_thread(inherit_thread).attr.flags();
            (flags >> 1 & 1, flags >> 35 & 1)
        };
        let attr = Attr::new(Hardware::Cycles);
        assert_eq!([true, false].map(|thread| inherited(attr.clone(), thread)), [(1, 1), (0, 0)]);
        assert_eq!([true, false].map(|thread| inherited(attr.clone().inherit(true), thread)), [(1, 1), (1, 0)]);
        let taken_back = Sampler::new(attr).inherit_thread(true).inherit_thread(false).attr;
        assert!(!taken_back.inherits());
        assert_eq!(filled(|sampler| sampler.records(Records::TEXT_POKE)).flags >> 33 & 1, 1);
        let frequency = filled(|sampler| sampler.frequency(99).wakeup_watermark(256).max_stack(5));
        assert_eq!((frequency.sample_period, frequency.flags >> 10 & 1, frequency.flags >> 14 & 1), (99, 1, 1));
        assert_eq!((frequency.wakeup_events, frequency.sample_max_stack), (256, 5));
    }
}
