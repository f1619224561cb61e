//! The kernel's generic events: those of hardware, which each processor's PMU has under numbers of its own, and those of software.

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

            /// By the name that perf shows or another one that it takes.
            pub(super) fn from_name(name: &str) -> Option<Self> {
                match name { $($name $(| $alias)* => Some(Self::$variant),)+ _ => None }
            }

            /// All the names that perf takes for it, the one that it shows first.
            #[must_use]
            pub fn names(self) -> &'static [&'static str] {
                match self { $(Self::$variant => &[$name $(, $alias)*],)+ }
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

impl Software {
    /// Whether it happens in the kernel's part alone, so that counting user mode only gives nothing, ever. These events are counted with
    /// the registers of the kernel's own code (`perf_sw_event_sched` in `include/linux/perf_event.h`, linux 6.12).
    pub(crate) fn is_kernel_only(id: u64) -> bool {
        [Self::ContextSwitches, Self::CpuMigrations, Self::CgroupSwitches].iter().any(|&event| event as u64 == id)
    }
}
