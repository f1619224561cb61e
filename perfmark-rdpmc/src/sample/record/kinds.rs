//! Records that are not samples.

use super::bytes::{Bytes, Words};
use super::layout::Layout;
use super::origin::{Misc, ThreadId};
use super::values::Values;

/// A new mapping of a file or of memory.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Mmap<'a> {
    /// The thread that mapped it.
    pub thread: ThreadId,
    /// Its first address.
    pub address: u64,
    /// Its length in bytes.
    pub length: u64,
    /// Where it starts in the file, in bytes.
    pub offset: u64,
    /// Whether its code cannot be executed.
    pub is_data: bool,
    /// What a `MMAP2` record adds.
    pub more: Option<Mmap2<'a>>,
    /// The file's path, or a name such as `[vdso]` or `//anon`.
    pub path: &'a [u8],
}

/// What a `MMAP2` record adds.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Mmap2<'a> {
    /// The file.
    pub file: MappedFile<'a>,
    /// Its protection, as in `mmap(2)`.
    pub protection: u32,
    /// Its flags, as in `mmap(2)`.
    pub flags: u32,
}

/// Identifies a mapped file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MappedFile<'a> {
    /// By its inode.
    Inode {
        /// The device's major number.
        major: u32,
        /// The device's minor number.
        minor: u32,
        /// The inode's number.
        inode: u64,
        /// The generation of that number.
        generation: u64,
    },
    /// By the id that the linker wrote into it.
    BuildId(&'a [u8]),
}

impl<'a> Mmap<'a> {
    pub(super) fn parse(mut bytes: Bytes<'a>, misc: Misc, is_mmap2: bool) -> Option<Self> {
        let thread = ThreadId::parse(&mut bytes)?;
        let (address, length, offset) = (bytes.u64()?, bytes.u64()?, bytes.u64()?);
        let more = bytes.given(is_mmap2, |bytes| Mmap2::parse(bytes, misc))?;
        let is_data = misc.bit_13();
        Some(Self { thread, address, length, offset, is_data, more, path: bytes.text() })
    }
}

impl<'a> Mmap2<'a> {
    fn parse(bytes: &mut Bytes<'a>, misc: Misc) -> Option<Self> {
        let mut file = Bytes(bytes.take(24)?);
        let file = if misc.bit_14() {
            let size = file.u32()?.to_ne_bytes()[0];
            MappedFile::BuildId(file.take(size.into())?)
        } else {
            let (major, minor) = (file.u32()?, file.u32()?);
            MappedFile::Inode { major, minor, inode: file.u64()?, generation: file.u64()? }
        };
        Some(Self { file, protection: bytes.u32()?, flags: bytes.u32()? })
    }
}

/// A new name of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Comm<'a> {
    /// The thread.
    pub thread: ThreadId,
    /// Whether an exec gave the name.
    pub is_exec: bool,
    /// The name.
    pub name: &'a [u8],
}

impl<'a> Comm<'a> {
    pub(super) fn parse(mut bytes: Bytes<'a>, misc: Misc) -> Option<Self> {
        let thread = ThreadId::parse(&mut bytes)?;
        Some(Self { thread, is_exec: misc.bit_13(), name: bytes.text() })
    }
}

/// A thread that starts or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Task {
    /// The thread.
    pub thread: ThreadId,
    /// The one that created it.
    pub parent: ThreadId,
    /// When, in nanoseconds.
    pub time: u64,
}

impl Task {
    pub(super) fn parse(mut bytes: Bytes<'_>) -> Option<Self> {
        let [processes, threads] = [ThreadId::parse(&mut bytes)?, ThreadId::parse(&mut bytes)?];
        // The two processes come first, and then the two threads.
        let thread = ThreadId { pid: processes.pid, tid: threads.pid };
        let parent = ThreadId { pid: processes.tid, tid: threads.tid };
        Some(Self { thread, parent, time: bytes.u64()? })
    }
}

/// The kernel stops taking samples of an event, or starts again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Throttle {
    /// When, in nanoseconds.
    pub time: u64,
    /// The event's id, or its group's.
    pub id: u64,
    /// The event's id.
    pub stream_id: u64,
}

impl Throttle {
    pub(super) fn parse(mut bytes: Bytes<'_>) -> Option<Self> {
        Some(Self { time: bytes.u64()?, id: bytes.u64()?, stream_id: bytes.u64()? })
    }
}

/// The counts of a thread that inherited the event and ended.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Read<'a> {
    /// The thread.
    pub thread: ThreadId,
    /// Its counts.
    pub values: Values<'a>,
}

impl<'a> Read<'a> {
    pub(super) fn parse(mut bytes: Bytes<'a>, layout: &Layout) -> Option<Self> {
        Some(Self { thread: ThreadId::parse(&mut bytes)?, values: Values::parse(&mut bytes, layout)? })
    }
}

/// New data in the AUX area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Aux {
    /// Its position.
    pub offset: u64,
    /// Its length in bytes.
    pub size: u64,
    /// Whether it was truncated (1), is a snapshot (2), has gaps (4), collided with other data (8); the upper byte is
    /// its format (`PERF_AUX_FLAG_*`).
    pub flags: u64,
}

impl Aux {
    pub(super) fn parse(mut bytes: Bytes<'_>) -> Option<Self> {
        Some(Self { offset: bytes.u64()?, size: bytes.u64()?, flags: bytes.u64()? })
    }
}

/// A switch from or to the thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Switch {
    /// Whether the thread left its CPU; otherwise it was put on one.
    pub is_out: bool,
    /// Whether the thread left although it could have continued: another took its CPU. Otherwise it waited for
    /// something.
    pub is_preempted: bool,
    /// The thread that came next or was before, for an event of a whole CPU.
    pub other: Option<ThreadId>,
}

impl Switch {
    pub(super) fn parse(mut bytes: Bytes<'_>, misc: Misc, has_other: bool) -> Option<Self> {
        let other = bytes.given(has_other, ThreadId::parse)?;
        Some(Self { is_out: misc.bit_13(), is_preempted: misc.bit_14(), other })
    }
}

/// The namespaces of a thread.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Namespaces<'a> {
    /// The thread.
    pub thread: ThreadId,
    links: Words<'a>,
}

impl<'a> Namespaces<'a> {
    pub(super) fn parse(mut bytes: Bytes<'a>) -> Option<Self> {
        let thread = ThreadId::parse(&mut bytes)?;
        let count = bytes.u64()?;
        Some(Self { thread, links: bytes.words(count.checked_mul(2)?)? })
    }

    /// Device and inode of each: network, UTS, IPC, PID, user, mount, cgroup.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> + use<'a> {
        let mut links = self.links.iter();
        std::iter::from_fn(move || Some((links.next()?, links.next()?)))
    }
}

/// A symbol that the kernel adds or removes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ksymbol<'a> {
    /// Its address.
    pub address: u64,
    /// Its length in bytes.
    pub length: u32,
    /// A BPF program (1) or other code (2) (`PERF_RECORD_KSYMBOL_TYPE_*`).
    pub kind: u16,
    /// Whether it is removed (1).
    pub flags: u16,
    /// Its name.
    pub name: &'a [u8],
}

impl<'a> Ksymbol<'a> {
    pub(super) fn parse(mut bytes: Bytes<'a>) -> Option<Self> {
        let (address, length, kind, flags) = (bytes.u64()?, bytes.u32()?, bytes.u16()?, bytes.u16()?);
        Some(Self { address, length, kind, flags, name: bytes.text() })
    }
}

/// A BPF program that is loaded or unloaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BpfEvent {
    /// Loaded (1) or unloaded (2) (`PERF_BPF_EVENT_*`).
    pub kind: u16,
    /// Reserved.
    pub flags: u16,
    /// The program's id.
    pub id: u32,
    /// The program's tag.
    pub tag: [u8; 8],
}

impl BpfEvent {
    pub(super) fn parse(mut bytes: Bytes<'_>) -> Option<Self> {
        let (kind, flags, id) = (bytes.u16()?, bytes.u16()?, bytes.u32()?);
        Some(Self { kind, flags, id, tag: bytes.u64()?.to_ne_bytes() })
    }
}

/// A change of the kernel's code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TextPoke<'a> {
    /// Its address.
    pub address: u64,
    /// The code before.
    pub old: &'a [u8],
    /// The code since.
    pub new: &'a [u8],
}

impl<'a> TextPoke<'a> {
    pub(super) fn parse(mut bytes: Bytes<'a>) -> Option<Self> {
        let (address, old, new) = (bytes.u64()?, bytes.u16()?, bytes.u16()?);
        Some(Self { address, old: bytes.take(old.into())?, new: bytes.take(new.into())? })
    }
}
