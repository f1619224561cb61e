//! What every record says: when and where it was written, and some flags.

use super::bytes::Bytes;
use super::layout::Layout;
use crate::flags::Content;

/// A process and one of its threads. The kernel writes 0 or `u32::MAX` for a thread that has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ThreadId {
    /// The process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
}

impl ThreadId {
    pub(super) fn parse(bytes: &mut Bytes<'_>) -> Option<Self> {
        Some(Self { pid: bytes.u32()?, tid: bytes.u32()? })
    }
}

/// When and where a record was written, as far as [`Sampler::content`](super::super::Sampler::content) requested it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Origin {
    /// The thread.
    pub thread: Option<ThreadId>,
    /// The time in nanoseconds, by the clock that was chosen.
    pub time: Option<u64>,
    /// The event's id, or its group's.
    pub id: Option<u64>,
    /// The event's id.
    pub stream_id: Option<u64>,
    /// The CPU.
    pub cpu: Option<u32>,
}

impl Origin {
    /// Parses the end of a record that is not a sample (`__perf_event__output_id_sample` in `kernel/events/core.c`,
    /// linux 6.12).
    pub(super) fn parse(mut bytes: Bytes<'_>, layout: &Layout) -> Option<Self> {
        if !layout.has_origin {
            return Some(Self::default());
        }
        let origin = Self {
            thread: bytes.given(layout.has(Content::THREAD), ThreadId::parse)?,
            time: bytes.given(layout.has(Content::TIME), Bytes::u64)?,
            id: bytes.given(layout.has(Content::ID), Bytes::u64)?,
            stream_id: bytes.given(layout.has(Content::STREAM_ID), Bytes::u64)?,
            cpu: bytes.given(layout.has(Content::CPU), Self::parse_cpu)?,
        };
        let identifier = bytes.given(layout.has(Content::IDENTIFIER), Bytes::u64)?;
        Some(Self { id: origin.id.or(identifier), ..origin })
    }

    /// The second number is reserved.
    pub(super) fn parse_cpu(bytes: &mut Bytes<'_>) -> Option<u32> {
        let cpu = bytes.u32()?;
        bytes.u32()?;
        Some(cpu)
    }
}

/// The flags of a record (`PERF_RECORD_MISC_*`). Most bits have another meaning in each kind of record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Misc(pub(super) u16);

impl Misc {
    /// `MMAP_DATA`, `COMM_EXEC`, `SWITCH_OUT`.
    pub(super) fn bit_13(self) -> bool {
        self.0 & 1 << 13 != 0
    }

    /// `EXACT_IP`, `SWITCH_OUT_PREEMPT`, `MMAP_BUILD_ID`.
    pub(super) fn bit_14(self) -> bool {
        self.0 & 1 << 14 != 0
    }

    pub(super) fn mode(self) -> Mode {
        match self.0 & 0b111 {
            1 => Mode::Kernel,
            2 => Mode::User,
            3 => Mode::Hypervisor,
            4 => Mode::GuestKernel,
            5 => Mode::GuestUser,
            _ => Mode::Unknown,
        }
    }
}

/// The mode of the processor when a record was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Mode {
    /// Not given: the record does not concern one.
    #[default]
    Unknown,
    /// The kernel.
    Kernel,
    /// A program.
    User,
    /// The hypervisor.
    Hypervisor,
    /// The kernel of a virtual machine.
    GuestKernel,
    /// A program in a virtual machine.
    GuestUser,
}
