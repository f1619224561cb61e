//! The records that the kernel writes to a ring, and their parser, which works on any bytes.

mod bytes;
mod layout;
mod origin;
mod values;
mod contents;
mod taken;
mod kinds;
#[cfg(test)]
mod tests;

pub use bytes::Words;
pub use contents::{Branch, BranchStack, DataSource, Registers, Stack, Transaction, Weight};
pub use kinds::{
    Aux, BpfEvent, Comm, Ksymbol, MappedFile, Mmap, Mmap2, Namespaces, Read, Switch, Task, TextPoke, Throttle,
};
pub use layout::Layout;
pub use origin::{Mode, Origin, ThreadId};
pub use taken::Sample;
pub use values::{Value, Values};

use bytes::Bytes;
use origin::Misc;

/// A record that the kernel wrote.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Record<'a> {
    /// What it records.
    pub body: Body<'a>,
    /// When and where it was written.
    pub origin: Origin,
    /// The mode of the processor.
    pub mode: Mode,
}

/// What a record records (`enum perf_event_type` in `include/uapi/linux/perf_event.h`, linux 6.18).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
#[expect(clippy::large_enum_variant, reason = "most records are samples, and a box would be an allocation for each")]
pub enum Body<'a> {
    /// `PERF_RECORD_SAMPLE`: a sample.
    Sample(Sample<'a>),
    /// `PERF_RECORD_SWITCH` and `PERF_RECORD_SWITCH_CPU_WIDE`: a switch from or to the thread.
    Switch(Switch),
    /// `PERF_RECORD_LOST`: records for which the ring had no room.
    Lost {
        /// The event's id.
        id: u64,
        /// The number of records.
        lost: u64,
    },
    /// `PERF_RECORD_LOST_SAMPLES`: samples that the hardware dropped.
    LostSamples {
        /// The number of samples.
        lost: u64,
    },
    /// `PERF_RECORD_THROTTLE`: the kernel takes no samples for a while, as there were too many.
    Throttle(Throttle),
    /// `PERF_RECORD_UNTHROTTLE`: it takes samples again.
    Unthrottle(Throttle),
    /// `PERF_RECORD_READ`: the counts of a thread that ended.
    Read(Read<'a>),
    /// `PERF_RECORD_MMAP` and `PERF_RECORD_MMAP2`: a new mapping.
    Mmap(Mmap<'a>),
    /// `PERF_RECORD_COMM`: a new name of a thread.
    Comm(Comm<'a>),
    /// `PERF_RECORD_FORK`: a new thread.
    Fork(Task),
    /// `PERF_RECORD_EXIT`: a thread that ended.
    Exit(Task),
    /// `PERF_RECORD_NAMESPACES`: the namespaces of a thread.
    Namespaces(Namespaces<'a>),
    /// `PERF_RECORD_CGROUP`: a new control group.
    Cgroup {
        /// Its id.
        id: u64,
        /// Its path.
        path: &'a [u8],
    },
    /// `PERF_RECORD_KSYMBOL`: a symbol that the kernel adds or removes.
    Ksymbol(Ksymbol<'a>),
    /// `PERF_RECORD_BPF_EVENT`: a BPF program that is loaded or unloaded.
    BpfEvent(BpfEvent),
    /// `PERF_RECORD_TEXT_POKE`: a change of the kernel's code.
    TextPoke(TextPoke<'a>),
    /// `PERF_RECORD_AUX`: new data in the AUX area.
    Aux(Aux),
    /// `PERF_RECORD_AUX_OUTPUT_HW_ID`: how the data in the AUX area names the event.
    AuxOutputHardwareId {
        /// The name.
        hardware_id: u64,
    },
    /// `PERF_RECORD_ITRACE_START`: a trace of instructions starts.
    TraceStart(ThreadId),
    /// Another kind, or a record that is too short for its kind.
    Unknown {
        /// The kernel's number of the kind.
        kind: u32,
        /// All that follows the header.
        bytes: &'a [u8],
    },
}

/// `struct perf_event_header`.
struct Header {
    kind: u32,
    misc: Misc,
    /// Bytes of the record, the header included.
    size: u16,
}

impl Header {
    const BYTES: u16 = 8;

    fn parse(bytes: &mut Bytes<'_>) -> Option<Self> {
        Some(Self { kind: bytes.u32()?, misc: Misc(bytes.u16()?), size: bytes.u16()? })
    }
}

impl Layout {
    /// The records in `bytes`, up to one that is cut off. It works on any bytes: it neither panics nor reads beyond
    /// them.
    ///
    /// ```
    /// use perfmark_rdpmc::sample::{Body, Sampler};
    ///
    /// // As on a machine whose lowest byte comes first: kind 2, size 24, the event's id, the number of lost records.
    /// let bytes = [[2, 0, 0, 0, 0, 0, 24, 0], [7, 0, 0, 0, 0, 0, 0, 0], [5, 0, 0, 0, 0, 0, 0, 0]].concat();
    /// let layout = Sampler::dummy().layout();
    /// for record in layout.records(&bytes) {
    ///     assert!(matches!(record.body, Body::Lost { id: 7, lost: 5 }) || cfg!(target_endian = "big"));
    /// }
    /// ```
    pub fn records<'a>(&self, bytes: &'a [u8]) -> impl Iterator<Item = Record<'a>> + use<'a> {
        let (layout, mut bytes) = (*self, Bytes(bytes));
        std::iter::from_fn(move || {
            let header = Header::parse(&mut bytes)?;
            let body = bytes.take(header.size.checked_sub(Header::BYTES)?.into())?;
            Some(Record::parse(&header, body, &layout))
        })
    }
}

impl<'a> Record<'a> {
    fn parse(header: &Header, bytes: &'a [u8], layout: &Layout) -> Self {
        let Header { kind, misc, .. } = *header;
        let parsed = Body::parse(kind, misc, bytes, layout);
        let (body, origin) = parsed.unwrap_or((Body::Unknown { kind, bytes }, Origin::default()));
        Self { body, origin, mode: misc.mode() }
    }
}

impl<'a> Body<'a> {
    fn parse(kind: u32, misc: Misc, all: &'a [u8], layout: &Layout) -> Option<(Self, Origin)> {
        if kind == 9 {
            let (sample, origin) = Sample::parse(Bytes(all), layout, misc.bit_14())?;
            return Some((Self::Sample(sample), origin));
        }
        let (own, origin) = all.split_at_checked(all.len().checked_sub(layout.origin_bytes())?)?;
        let mut bytes = Bytes(own);
        let body = match kind {
            1 => Self::Mmap(Mmap::parse(bytes, misc, false)?),
            2 => Self::Lost { id: bytes.u64()?, lost: bytes.u64()? },
            3 => Self::Comm(Comm::parse(bytes, misc)?),
            4 => Self::Exit(Task::parse(bytes)?),
            5 => Self::Throttle(Throttle::parse(bytes)?),
            6 => Self::Unthrottle(Throttle::parse(bytes)?),
            7 => Self::Fork(Task::parse(bytes)?),
            8 => Self::Read(Read::parse(bytes, layout)?),
            10 => Self::Mmap(Mmap::parse(bytes, misc, true)?),
            11 => Self::Aux(Aux::parse(bytes)?),
            12 => Self::TraceStart(ThreadId::parse(&mut bytes)?),
            13 => Self::LostSamples { lost: bytes.u64()? },
            14 => Self::Switch(Switch::parse(bytes, misc, false)?),
            15 => Self::Switch(Switch::parse(bytes, misc, true)?),
            16 => Self::Namespaces(Namespaces::parse(bytes)?),
            17 => Self::Ksymbol(Ksymbol::parse(bytes)?),
            18 => Self::BpfEvent(BpfEvent::parse(bytes)?),
            19 => Self::Cgroup { id: bytes.u64()?, path: bytes.text() },
            20 => Self::TextPoke(TextPoke::parse(bytes)?),
            21 => Self::AuxOutputHardwareId { hardware_id: bytes.u64()? },
            _ => return None,
        };
        Some((body, Origin::parse(Bytes(origin), layout)?))
    }
}
