//! What samples contain, which other records are written, and which branches are recorded: sets of the kernel's bits.

use std::fmt;
use std::ops::BitOr;

use crate::sys::{
    FLAG_BPF_EVENT, FLAG_BUILD_ID, FLAG_CGROUP, FLAG_COMM, FLAG_COMM_EXEC, FLAG_CONTEXT_SWITCH, FLAG_INHERIT_STAT,
    FLAG_KSYMBOL, FLAG_MMAP, FLAG_MMAP_DATA, FLAG_MMAP2, FLAG_NAMESPACES, FLAG_TASK, FLAG_TEXT_POKE,
};

macro_rules! bits {
    ($(#[$meta:meta])* $set:ident: $($(#[$doc:meta])* $name:ident = $bits:expr;)+) => {
        $(#[$meta])*
        ///
        /// Sets are combined by `|`.
        #[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
        pub struct $set(u64);

        impl $set {
            $($(#[$doc])* pub const $name: Self = Self($bits);)+

            /// Each of them, in the order of the kernel's bits.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            const NAMES: &[&str] = &[$(stringify!($name)),+];

            /// Whether the set contains all of `other`.
            #[must_use]
            pub fn contains(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }

            /// The set with the kernel's bits.
            #[must_use]
            pub fn from_bits(bits: u64) -> Self {
                Self(bits)
            }

            /// The kernel's bits.
            #[must_use]
            pub fn bits(self) -> u64 {
                self.0
            }

            /// Each one in the set, with its name.
            pub(crate) fn named(self) -> impl Iterator<Item = (Self, &'static str)> {
                Self::ALL.iter().copied().zip(Self::NAMES.iter().copied()).filter(move |(bit, _)| self.contains(*bit))
            }
        }

        impl BitOr for $set {
            type Output = Self;

            fn bitor(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }
        }

        impl fmt::Debug for $set {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}(", stringify!($set))?;
                for (n, (_, name)) in self.named().enumerate() {
                    write!(f, "{}{name}", if n == 0 { "" } else { " | " })?;
                }
                f.write_str(")")
            }
        }
    };
}

bits! {
    /// What a sample contains (`enum perf_event_sample_format`, linux 6.18). What has a parameter is requested by a
    /// method of [`Sampler`](crate::sample::Sampler): registers, the stack, branches, the AUX area.
    ///
    /// If one occurrence is a sample of several software events of the same kind, also with different rings, linux 6.18
    /// writes contents that it prepared for one of them into the samples of all: `ID`, `STREAM_ID` and `IDENTIFIER`,
    /// `TIME` by that event's clock, `CALLCHAIN` with that event's length and modes, and `USER_STACK` of that event's
    /// size. Linux 6.1 does not. Request the same for such events, and distinguish them by their rings.
    Content:
    /// The address of the instruction.
    IP = 1 << 0;
    /// The process and the thread.
    THREAD = 1 << 1;
    /// The time, by the clock that was chosen.
    TIME = 1 << 2;
    /// The address that was accessed, if the event has one: of a page fault, a breakpoint, a load.
    ADDRESS = 1 << 3;
    /// The counts of the event, or of its group.
    READ = 1 << 4;
    /// The call chain, by frame pointers.
    CALLCHAIN = 1 << 5;
    /// The id of the event, or of the group's leader.
    ID = 1 << 6;
    /// The CPU.
    CPU = 1 << 7;
    /// The number of events since the previous sample.
    PERIOD = 1 << 8;
    /// The id of the event itself.
    STREAM_ID = 1 << 9;
    /// Data that the event defines, such as a tracepoint's fields.
    RAW = 1 << 10;
    /// See [`Sampler::branches`](crate::sample::Sampler::branches).
    BRANCHES = 1 << 11;
    /// See [`Sampler::user_registers`](crate::sample::Sampler::user_registers).
    USER_REGISTERS = 1 << 12;
    /// See [`Sampler::user_stack`](crate::sample::Sampler::user_stack).
    USER_STACK = 1 << 13;
    /// The weight that the processor gives the sample, usually a latency.
    WEIGHT = 1 << 14;
    /// Where the data of a load or store came from.
    DATA_SOURCE = 1 << 15;
    /// As `ID`, always in the same place of a record. It does not distinguish several software events of the same kind:
    /// see [`Content`].
    IDENTIFIER = 1 << 16;
    /// Why a hardware transaction aborted.
    TRANSACTION = 1 << 17;
    /// See [`Sampler::interrupt_registers`](crate::sample::Sampler::interrupt_registers).
    INTERRUPT_REGISTERS = 1 << 18;
    /// The physical address that was accessed.
    PHYSICAL_ADDRESS = 1 << 19;
    /// See [`Sampler::aux_samples`](crate::sample::Sampler::aux_samples).
    AUX = 1 << 20;
    /// The id of the control group.
    CGROUP = 1 << 21;
    /// The size of the page that was accessed.
    DATA_PAGE_SIZE = 1 << 22;
    /// The size of the page of the instruction.
    CODE_PAGE_SIZE = 1 << 23;
    /// As `WEIGHT`, in three parts.
    WEIGHT_PARTS = 1 << 24;
}

bits! {
    /// Records that are written besides samples (bits of `struct perf_event_attr`, linux 6.18).
    Records:
    /// Mappings of code.
    MMAP = FLAG_MMAP;
    /// Names of threads.
    COMM = FLAG_COMM;
    /// The counts of threads that inherited the event, when they end.
    READ = FLAG_INHERIT_STAT;
    /// Starts and ends of threads and processes.
    TASK = FLAG_TASK;
    /// Mappings of data.
    MMAP_DATA = FLAG_MMAP_DATA;
    /// Mappings of code with their file, protection and flags.
    MMAP2 = FLAG_MMAP | FLAG_MMAP2;
    /// Names of threads. Those that an exec gave are flagged.
    COMM_EXEC = FLAG_COMM | FLAG_COMM_EXEC;
    /// Switches to and from the thread.
    CONTEXT_SWITCH = FLAG_CONTEXT_SWITCH;
    /// Namespaces of new processes. Requires `CAP_PERFMON`.
    NAMESPACES = FLAG_NAMESPACES;
    /// Symbols that the kernel adds and removes.
    KSYMBOL = FLAG_KSYMBOL;
    /// BPF programs that are loaded and unloaded.
    BPF_EVENT = FLAG_BPF_EVENT;
    /// New control groups.
    CGROUP = FLAG_CGROUP;
    /// Changes of the kernel's code. Requires `CAP_PERFMON` on some kernels.
    TEXT_POKE = FLAG_TEXT_POKE;
    /// As `MMAP2`, with the file's build id instead of its inode.
    BUILD_ID = FLAG_MMAP | FLAG_MMAP2 | FLAG_BUILD_ID;
}

bits! {
    /// The branches that the processor records, and what it records of each (`enum perf_branch_sample_type`, linux
    /// 6.18). Without `USER`, `KERNEL` and `HYPERVISOR`, branches in the modes that the event counts are recorded.
    Branches:
    /// Branches to user mode.
    USER = 1 << 0;
    /// Branches to kernel mode.
    KERNEL = 1 << 1;
    /// Branches to the hypervisor.
    HYPERVISOR = 1 << 2;
    /// Every branch.
    ANY = 1 << 3;
    /// Every call.
    ANY_CALL = 1 << 4;
    /// Every return.
    ANY_RETURN = 1 << 5;
    /// Indirect calls.
    INDIRECT_CALL = 1 << 6;
    /// Aborts of transactions.
    TRANSACTION_ABORT = 1 << 7;
    /// Branches in a transaction.
    IN_TRANSACTION = 1 << 8;
    /// Branches outside of transactions.
    NO_TRANSACTION = 1 << 9;
    /// Conditional branches.
    CONDITIONAL = 1 << 10;
    /// The call stack, by calls and returns.
    CALL_STACK = 1 << 11;
    /// Indirect jumps.
    INDIRECT_JUMP = 1 << 12;
    /// Direct calls.
    CALL = 1 << 13;
    /// Leaves out the flags of each branch.
    NO_FLAGS = 1 << 14;
    /// Leaves out the cycles of each branch.
    NO_CYCLES = 1 << 15;
    /// Also the kind of each branch.
    KIND = 1 << 16;
    /// Also the index of the newest branch in the hardware's list.
    HARDWARE_INDEX = 1 << 17;
    /// Also the privilege level of each branch.
    PRIVILEGE = 1 << 18;
    /// Also the occurrences of other events since the previous branch.
    COUNTERS = 1 << 19;
}

bits! {
    /// What a hardware transaction did when it aborted (`PERF_TXN_*`).
    TransactionFlags:
    /// It was an elided lock.
    ELISION = 1 << 0;
    /// It was a transaction by its own instructions.
    TRANSACTION = 1 << 1;
    /// The instruction caused the abort.
    SYNC = 1 << 2;
    /// The instruction did not cause the abort.
    ASYNC = 1 << 3;
    /// It may succeed when it is tried again.
    RETRY = 1 << 4;
    /// Another CPU accessed the same memory.
    CONFLICT = 1 << 5;
    /// It wrote more than the processor can buffer.
    CAPACITY_WRITE = 1 << 6;
    /// It read more than the processor can buffer.
    CAPACITY_READ = 1 << 7;
}

bits! {
    /// What a reading contains (`enum perf_event_read_format`).
    ReadFormat:
    /// The time for which the event was enabled.
    TOTAL_TIME_ENABLED = 1 << 0;
    /// The time for which the event was enabled and on the PMU.
    TOTAL_TIME_RUNNING = 1 << 1;
    /// The event's id.
    ID = 1 << 2;
    /// The counts of all events of the group.
    GROUP = 1 << 3;
    /// The lost samples (linux 6.0).
    LOST = 1 << 4;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The header's names in the order of their bits; after `=`, the names here where they differ.
    fn check(names: &'static str, bits: impl Iterator<Item = (u64, &'static str)>) {
        let here = |name: &'static str| name.rsplit('=').next().unwrap_or_default();
        let expected: Vec<_> = names.split_whitespace().enumerate().map(|(n, name)| (1_u64 << n, here(name))).collect();
        assert_eq!(bits.collect::<Vec<_>>(), expected);
    }

    macro_rules! bits_of {
        ($set:ident) => {
            $set::ALL.iter().map(|it| it.bits()).zip($set::NAMES.iter().copied())
        };
    }

    #[test]
    fn contents_are_the_headers_bits() {
        check(
            "IP TID=THREAD TIME ADDR=ADDRESS READ CALLCHAIN ID CPU PERIOD STREAM_ID RAW BRANCH_STACK=BRANCHES \
             REGS_USER=USER_REGISTERS STACK_USER=USER_STACK WEIGHT DATA_SRC=DATA_SOURCE IDENTIFIER TRANSACTION \
             REGS_INTR=INTERRUPT_REGISTERS PHYS_ADDR=PHYSICAL_ADDRESS AUX CGROUP DATA_PAGE_SIZE CODE_PAGE_SIZE \
             WEIGHT_STRUCT=WEIGHT_PARTS",
            bits_of!(Content),
        );
    }

    #[test]
    fn branches_are_the_headers_bits() {
        check(
            "USER KERNEL HV=HYPERVISOR ANY ANY_CALL ANY_RETURN IND_CALL=INDIRECT_CALL ABORT_TX=TRANSACTION_ABORT \
             IN_TX=IN_TRANSACTION NO_TX=NO_TRANSACTION COND=CONDITIONAL CALL_STACK IND_JUMP=INDIRECT_JUMP CALL \
             NO_FLAGS NO_CYCLES TYPE_SAVE=KIND HW_INDEX=HARDWARE_INDEX PRIV_SAVE=PRIVILEGE COUNTERS",
            bits_of!(Branches),
        );
        let every_mode = Branches::USER | Branches::KERNEL | Branches::HYPERVISOR;
        assert_eq!(every_mode.bits(), 0b111, "PERF_SAMPLE_BRANCH_PLM_ALL");
    }

    #[test]
    fn aborts_are_the_headers_bits() {
        let names = "ELISION TRANSACTION SYNC ASYNC RETRY CONFLICT CAPACITY_WRITE CAPACITY_READ";
        check(names, bits_of!(TransactionFlags));
    }
}
