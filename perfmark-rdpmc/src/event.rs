//! What can be counted, under perf's names.

use std::fmt;
use std::str::FromStr;

use crate::error::Error;
use crate::sys::{TYPE_HARDWARE, TYPE_RAW, TYPE_SOFTWARE};

/// Something that the processor or the kernel counts.
///
/// Parsed from and written as perf's names (`perf list`): `cycles`, `page-faults`, `r01c2`. An underscore may stand for a
/// hyphen, so that a name can be a Rust identifier.
///
/// ```
/// use perfmark_rdpmc::{Event, Hardware};
///
/// let event: Event = "branch_misses".parse()?;
/// assert_eq!(event, Event::Hardware(Hardware::BranchMisses));
/// assert_eq!(event.to_string(), "branch-misses");
/// # Ok::<(), perfmark_rdpmc::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Event {
    /// One of the kernel's generic hardware events.
    Hardware(Hardware),
    /// Something that the kernel counts.
    Software(Software),
    /// A number from the processor's manual: on x86 the unit mask and event select (`r01c2`), on arm64 the event.
    Raw(u64),
}

macro_rules! events {
    ($(#[$meta:meta])* $kind:ident: $($(#[$doc:meta])* $variant:ident = $id:literal, $name:literal $(| $alias:literal)*;)+) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $kind {
            $($(#[$doc])* $variant = $id,)+
        }

        impl $kind {
            /// All of them, in the order of the kernel's numbers.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// The name that perf shows.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            fn from_name(name: &str) -> Option<Self> {
                match name { $($name $(| $alias)* => Some(Self::$variant),)+ _ => None }
            }
        }
    };
}

events! {
    /// The kernel's generic hardware events (`enum perf_hw_id`). What each counts exactly is the processor's affair.
    Hardware:
    /// Core cycles, at whatever frequency the core runs.
    Cycles = 0, "cycles" | "cpu-cycles";
    /// Instructions retired.
    Instructions = 1, "instructions";
    /// Accesses of the last-level cache, usually.
    CacheReferences = 2, "cache-references";
    /// Misses of the last-level cache, usually.
    CacheMisses = 3, "cache-misses";
    /// Branches retired.
    Branches = 4, "branches" | "branch-instructions";
    /// Branches predicted wrongly.
    BranchMisses = 5, "branch-misses";
    /// Cycles of the bus.
    BusCycles = 6, "bus-cycles";
    /// Cycles in which the front end gave nothing.
    StalledCyclesFrontend = 7, "stalled-cycles-frontend" | "idle-cycles-frontend";
    /// Cycles in which the back end took nothing.
    StalledCyclesBackend = 8, "stalled-cycles-backend" | "idle-cycles-backend";
    /// Cycles at a fixed frequency.
    RefCycles = 9, "ref-cycles";
}

events! {
    /// What the kernel counts itself (`enum perf_sw_ids`), but for `dummy` and `bpf-output`, which count nothing.
    Software:
    /// Nanoseconds on a CPU, by a timer.
    CpuClock = 0, "cpu-clock";
    /// Nanoseconds on a CPU.
    TaskClock = 1, "task-clock";
    /// Page faults of either kind.
    PageFaults = 2, "page-faults" | "faults";
    /// Switches to another thread; they happen in the kernel's part.
    ContextSwitches = 3, "context-switches" | "cs";
    /// Moves to another CPU; they happen in the kernel's part.
    CpuMigrations = 4, "cpu-migrations" | "migrations";
    /// Page faults that needed no input.
    MinorFaults = 5, "minor-faults";
    /// Page faults that needed input.
    MajorFaults = 6, "major-faults";
    /// Unaligned accesses that the kernel mended.
    AlignmentFaults = 7, "alignment-faults";
    /// Instructions that the kernel emulated.
    EmulationFaults = 8, "emulation-faults";
    /// Switches to another control group; they happen in the kernel's part.
    CgroupSwitches = 11, "cgroup-switches";
}

impl Event {
    /// The `type` and `config` of `struct perf_event_attr`.
    pub(crate) fn encoding(self) -> (u32, u64) {
        match self {
            Self::Hardware(event) => (TYPE_HARDWARE, event as u64),
            Self::Software(event) => (TYPE_SOFTWARE, event as u64),
            Self::Raw(config) => (TYPE_RAW, config),
        }
    }

    /// Whether a hardware counter counts it, which a thread may read without the kernel.
    #[must_use]
    pub fn is_hardware(self) -> bool {
        !matches!(self, Self::Software(_))
    }

    /// Whether its values are nanoseconds.
    #[must_use]
    pub fn is_time(self) -> bool {
        matches!(self, Self::Software(Software::CpuClock | Software::TaskClock))
    }

    /// Whether it happens in the kernel's part alone, so that counting user mode only gives nothing, ever.
    pub(crate) fn is_kernel_only(self) -> bool {
        matches!(self, Self::Software(Software::ContextSwitches | Software::CpuMigrations | Software::CgroupSwitches))
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hardware(event) => f.write_str(event.name()),
            Self::Software(event) => f.write_str(event.name()),
            Self::Raw(config) => write!(f, "r{config:x}"),
        }
    }
}

impl FromStr for Event {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        let perf = name.replace('_', "-");
        if let Some(event) = Hardware::from_name(&perf) {
            return Ok(Self::Hardware(event));
        }
        if let Some(event) = Software::from_name(&perf) {
            return Ok(Self::Software(event));
        }
        let hex = perf.strip_prefix('r').filter(|hex| !hex.is_empty() && hex.bytes().all(|b| b.is_ascii_hexdigit()));
        if let Some(config) = hex.and_then(|hex| u64::from_str_radix(hex, 16).ok()) {
            return Ok(Self::Raw(config));
        }
        let names = |names: &[&str]| names.join(", ");
        let hardware: Vec<_> = Hardware::ALL.iter().map(|event| event.name()).collect();
        let software: Vec<_> = Software::ALL.iter().map(|event| event.name()).collect();
        Err(Error::name(
            format!("event {name:?}"),
            format!(
                "no such event; there are {}, {}, and raw ones as r1c2 (hexadecimal)",
                names(&hardware),
                names(&software)
            ),
        ))
    }
}

impl From<Hardware> for Event {
    fn from(event: Hardware) -> Self {
        Self::Hardware(event)
    }
}

impl From<Software> for Event {
    fn from(event: Software) -> Self {
        Self::Software(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_reads_back_as_its_event() {
        let all = Hardware::ALL.iter().map(|&event| Event::from(event));
        let all = all.chain(Software::ALL.iter().map(|&event| event.into()));
        for event in all.chain([Event::Raw(0), Event::Raw(0x1c2), Event::Raw(u64::MAX)]) {
            assert_eq!(event.to_string().parse(), Ok(event));
            assert_eq!(event.to_string().replace('-', "_").parse(), Ok(event));
        }
    }

    #[test]
    fn the_numbers_are_the_kernels() {
        assert_eq!(Event::from(Hardware::RefCycles).encoding(), (0, 9));
        assert_eq!(Event::from(Software::EmulationFaults).encoding(), (1, 8));
        assert_eq!("rff01".parse::<Event>().map(Event::encoding), Ok((4, 0xff01)));
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_valid_ones() {
        for wrong in ["", "r", "cycle", "r12345678901234567", "r-1", "rxyz", "Cycles", "cycles "] {
            let error = wrong.parse::<Event>().expect_err(wrong);
            assert!(error.is_unknown_name());
            assert!(error.to_string().contains("instructions, cache-references"), "{error}");
        }
    }
}
