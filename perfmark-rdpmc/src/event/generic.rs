//! The kernel's generic events: hardware events, which each processor's PMU encodes in its own way, and software
//! events.

macro_rules! events {
    (
        $(#[$meta:meta])* $kind:ident:
        $($(#[$doc:meta])* $variant:ident = $id:literal, $($name:literal)|+;)+
    ) => {
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
                self.names()[0]
            }

            /// Parses the name that perf shows, or another one that it accepts.
            pub(super) fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|event| event.names().contains(&name))
            }

            /// All names that perf accepts, first the one that it shows.
            #[must_use]
            pub fn names(self) -> &'static [&'static str] {
                match self { $(Self::$variant => &[$($name),+],)+ }
            }
        }
    };
}

events! {
    /// The kernel's generic hardware events (`enum perf_hw_id`). What each one counts exactly depends on the processor.
    Hardware:
    /// Core cycles, at the current frequency of the core.
    Cycles = 0, "cycles" | "cpu-cycles";
    /// Instructions retired.
    Instructions = 1, "instructions";
    /// Accesses to the last-level cache, usually.
    CacheReferences = 2, "cache-references";
    /// Misses of the last-level cache, usually.
    CacheMisses = 3, "cache-misses";
    /// Branches retired.
    Branches = 4, "branches" | "branch-instructions";
    /// Mispredicted branches.
    BranchMisses = 5, "branch-misses";
    /// Bus cycles.
    BusCycles = 6, "bus-cycles";
    /// Cycles in which the front end delivered nothing.
    StalledCyclesFrontend = 7, "stalled-cycles-frontend" | "idle-cycles-frontend";
    /// Cycles in which the back end accepted nothing.
    StalledCyclesBackend = 8, "stalled-cycles-backend" | "idle-cycles-backend";
    /// Cycles at a fixed frequency.
    RefCycles = 9, "ref-cycles";
}

events! {
    /// The kernel's software events (`enum perf_sw_ids`), except `dummy` and `bpf-output`, which count nothing.
    Software:
    /// Nanoseconds on a CPU, by a timer.
    CpuClock = 0, "cpu-clock";
    /// Nanoseconds on a CPU.
    TaskClock = 1, "task-clock";
    /// Page faults of either kind.
    PageFaults = 2, "page-faults" | "faults";
    /// Switches to another thread; they happen in kernel mode.
    ContextSwitches = 3, "context-switches" | "cs";
    /// Migrations to another CPU; they happen in kernel mode.
    CpuMigrations = 4, "cpu-migrations" | "migrations";
    /// Page faults that required no input/output.
    MinorFaults = 5, "minor-faults";
    /// Page faults that required input/output.
    MajorFaults = 6, "major-faults";
    /// Unaligned accesses that the kernel fixed up.
    AlignmentFaults = 7, "alignment-faults";
    /// Instructions that the kernel emulated.
    EmulationFaults = 8, "emulation-faults";
    /// Switches to another control group; they happen in kernel mode.
    CgroupSwitches = 11, "cgroup-switches";
}

impl Software {
    /// Whether it happens in kernel mode only, so that a count of user mode is always 0. These events are counted with
    /// the registers of the kernel's own code (`perf_sw_event_sched` in `include/linux/perf_event.h`, linux 6.12).
    pub(crate) fn is_kernel_only(id: u64) -> bool {
        [Self::ContextSwitches, Self::CpuMigrations, Self::CgroupSwitches].iter().any(|&event| event as u64 == id)
    }
}
