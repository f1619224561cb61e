//! Fields of an event's attributes for which there is no method.

/// Fields of `struct perf_event_attr` (`include/uapi/linux/perf_event.h`, linux 6.12) that only sampling and other rare
/// uses need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Field {
    /// Events between two samples; or samples per second, if the flag `freq` is set.
    SamplePeriod,
    /// What a sample contains (`PERF_SAMPLE_*`).
    SampleType,
    /// The bit field that follows `read_format`, starting with `disabled`. Bits that this crate sets stay set.
    Flags,
    /// The number of samples or bytes after which the descriptor becomes ready.
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
    /// Passed to the handler of the signal that `sigtrap` requests.
    SigData,
    /// The user-mode registers in a sample, one bit each (`asm/perf_regs.h`).
    SampleRegsUser,
    /// The bytes of the user-mode stack in a sample.
    SampleStackUser,
    /// The registers of the interrupted code in a sample.
    SampleRegsIntr,
    /// The most entries of a sample's call chain.
    SampleMaxStack,
    /// The clock of the times in records, if the flag `use_clockid` is set.
    ClockId,
    /// The bytes in the AUX area after which the descriptor becomes ready.
    AuxWatermark,
    /// The bytes of the AUX area in a sample.
    AuxSampleSize,
    /// Whether the event starts, pauses or resumes the tracing of its group's leader (linux 6.13).
    AuxAction,
}
