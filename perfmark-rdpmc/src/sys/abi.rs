//! The structures and constants shared with the kernel, laid out as in `include/uapi/linux/perf_event.h` (linux 6.12).

use std::sync::atomic::{AtomicI64, AtomicU16, AtomicU32, AtomicU64};

pub(crate) const TYPE_HARDWARE: u32 = 0;
pub(crate) const TYPE_SOFTWARE: u32 = 1;
pub(crate) const TYPE_TRACEPOINT: u32 = 2;
pub(crate) const TYPE_HW_CACHE: u32 = 3;
pub(crate) const TYPE_RAW: u32 = 4;
pub(crate) const TYPE_BREAKPOINT: u32 = 5;

pub(crate) const COUNT_SW_CPU_CLOCK: u64 = 0;
pub(crate) const COUNT_SW_TASK_CLOCK: u64 = 1;
pub(crate) const COUNT_SW_DUMMY: u64 = 9;
pub(crate) const COUNT_SW_BPF_OUTPUT: u64 = 10;

pub(crate) const FORMAT_TOTAL_TIME_ENABLED: u64 = 1 << 0;
pub(crate) const FORMAT_TOTAL_TIME_RUNNING: u64 = 1 << 1;
pub(crate) const FORMAT_ID: u64 = 1 << 2;
pub(crate) const FORMAT_GROUP: u64 = 1 << 3;
/// Since linux 6.0.
pub(crate) const FORMAT_LOST: u64 = 1 << 4;

/// Requests of `ioctl(2)`: `_IO('$', n)`, `_IOW`, `_IOR` (the pointers' size is in the number).
pub(crate) const IOC_ENABLE: u64 = 0x2400;
pub(crate) const IOC_DISABLE: u64 = 0x2401;
pub(crate) const IOC_REFRESH: u64 = 0x2402;
pub(crate) const IOC_RESET: u64 = 0x2403;
pub(crate) const IOC_PERIOD: u64 = 0x4008_2404;
pub(crate) const IOC_SET_OUTPUT: u64 = 0x2405;
pub(crate) const IOC_SET_FILTER: u64 = 0x4008_2406;
pub(crate) const IOC_ID: u64 = 0x8008_2407;
pub(crate) const IOC_PAUSE_OUTPUT: u64 = 0x4004_2409;
pub(crate) const IOC_MODIFY_ATTRIBUTES: u64 = 0x4008_240b;
/// The argument of the first four that applies them to the entire group.
pub(crate) const IOC_FLAG_GROUP: u64 = 1;

pub(crate) const FLAG_DISABLED: u64 = 1 << 0;
pub(crate) const FLAG_INHERIT: u64 = 1 << 1;
pub(crate) const FLAG_PINNED: u64 = 1 << 2;
pub(crate) const FLAG_EXCLUSIVE: u64 = 1 << 3;
pub(crate) const FLAG_EXCLUDE_USER: u64 = 1 << 4;
pub(crate) const FLAG_EXCLUDE_KERNEL: u64 = 1 << 5;
pub(crate) const FLAG_EXCLUDE_HV: u64 = 1 << 6;
pub(crate) const FLAG_EXCLUDE_IDLE: u64 = 1 << 7;
pub(crate) const FLAG_MMAP: u64 = 1 << 8;
pub(crate) const FLAG_COMM: u64 = 1 << 9;
pub(crate) const FLAG_FREQ: u64 = 1 << 10;
pub(crate) const FLAG_INHERIT_STAT: u64 = 1 << 11;
pub(crate) const FLAG_ENABLE_ON_EXEC: u64 = 1 << 12;
pub(crate) const FLAG_TASK: u64 = 1 << 13;
pub(crate) const FLAG_WATERMARK: u64 = 1 << 14;
/// Two bits, 0 to 3.
pub(crate) const PRECISE_IP_SHIFT: u32 = 15;
pub(crate) const FLAG_MMAP_DATA: u64 = 1 << 17;
pub(crate) const FLAG_SAMPLE_ID_ALL: u64 = 1 << 18;
pub(crate) const FLAG_EXCLUDE_HOST: u64 = 1 << 19;
pub(crate) const FLAG_EXCLUDE_GUEST: u64 = 1 << 20;
pub(crate) const FLAG_EXCLUDE_CALLCHAIN_KERNEL: u64 = 1 << 21;
pub(crate) const FLAG_EXCLUDE_CALLCHAIN_USER: u64 = 1 << 22;
pub(crate) const FLAG_MMAP2: u64 = 1 << 23;
pub(crate) const FLAG_COMM_EXEC: u64 = 1 << 24;
pub(crate) const FLAG_USE_CLOCKID: u64 = 1 << 25;
pub(crate) const FLAG_CONTEXT_SWITCH: u64 = 1 << 26;
pub(crate) const FLAG_WRITE_BACKWARD: u64 = 1 << 27;
pub(crate) const FLAG_NAMESPACES: u64 = 1 << 28;
pub(crate) const FLAG_KSYMBOL: u64 = 1 << 29;
pub(crate) const FLAG_BPF_EVENT: u64 = 1 << 30;
pub(crate) const FLAG_AUX_OUTPUT: u64 = 1 << 31;
pub(crate) const FLAG_CGROUP: u64 = 1 << 32;
pub(crate) const FLAG_TEXT_POKE: u64 = 1 << 33;
pub(crate) const FLAG_BUILD_ID: u64 = 1 << 34;
pub(crate) const FLAG_INHERIT_THREAD: u64 = 1 << 35;
pub(crate) const FLAG_REMOVE_ON_EXEC: u64 = 1 << 36;
pub(crate) const FLAG_SIGTRAP: u64 = 1 << 37;

/// `struct perf_event_attr` up to `config3` (`PERF_ATTR_SIZE_VER8`, linux 6.3). An older kernel accepts it if the
/// fields that it does not know are zero.
#[derive(Clone, Debug, Default)]
#[repr(C)]
pub(crate) struct PerfEventAttr {
    pub(crate) kind: u32,
    pub(crate) size: u32,
    pub(crate) config: u64,
    pub(crate) sample_period: u64,
    pub(crate) sample_type: u64,
    pub(crate) read_format: u64,
    pub(crate) flags: u64,
    pub(crate) wakeup_events: u32,
    pub(crate) bp_type: u32,
    pub(crate) config1: u64,
    pub(crate) config2: u64,
    pub(crate) branch_sample_type: u64,
    pub(crate) sample_regs_user: u64,
    pub(crate) sample_stack_user: u32,
    pub(crate) clockid: i32,
    pub(crate) sample_regs_intr: u64,
    pub(crate) aux_watermark: u32,
    pub(crate) sample_max_stack: u16,
    pub(crate) reserved_2: u16,
    pub(crate) aux_sample_size: u32,
    pub(crate) aux_action: u32,
    pub(crate) sig_data: u64,
    pub(crate) config3: u64,
}

impl PerfEventAttr {
    /// `PERF_ATTR_SIZE_VER8`.
    pub(crate) const SIZE: u32 = 136;
}

const _: () = assert!(size_of::<PerfEventAttr>() == PerfEventAttr::SIZE as usize);

impl PerfEventAttr {
    /// An event that counts nothing (`PERF_COUNT_SW_DUMMY`, linux 3.12). Whether it opens depends on permissions alone.
    pub(crate) fn dummy(flags: u64) -> Self {
        Self { kind: TYPE_SOFTWARE, size: Self::SIZE, config: COUNT_SW_DUMMY, flags, ..Self::default() }
    }

    /// A generic hardware event in user mode, on [one of several PMUs](config_on_pmu). `flags` are more flags.
    pub(crate) fn in_user_mode(id: u64, pmu: u32, flags: u64) -> Self {
        let (config, flags) = (config_on_pmu(pmu, id), flags | FLAG_EXCLUDE_KERNEL | FLAG_EXCLUDE_HV);
        Self { kind: TYPE_HARDWARE, size: Self::SIZE, config, flags, ..Self::default() }
    }
}

/// The `config` of a generic hardware or cache event for one of several PMUs: the PMU's type is the upper half
/// (`PERF_PMU_TYPE_SHIFT`, linux 5.13). With 0 the kernel chooses the PMU.
pub(crate) fn config_on_pmu(pmu: u32, id: u64) -> u64 {
    u64::from(pmu) << 32 | id
}

/// The type of the PMU in such a `config`.
pub(crate) fn pmu_of_config(config: u64) -> u32 {
    (config >> 32) as u32
}

/// The start of `struct perf_event_mmap_page`. The kernel writes it, also from other CPUs, so every field is an atomic.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct MmapPage {
    pub(crate) version: AtomicU32,
    pub(crate) compat_version: AtomicU32,
    /// The seqlock: odd while the kernel writes, and changed afterwards.
    pub(crate) lock: AtomicU32,
    /// The hardware counter plus 1; 0 means that only read(2) can read the event.
    pub(crate) index: AtomicU32,
    pub(crate) offset: AtomicI64,
    pub(crate) time_enabled: AtomicU64,
    pub(crate) time_running: AtomicU64,
    pub(crate) capabilities: AtomicU64,
    pub(crate) pmc_width: AtomicU16,
    pub(crate) time_shift: AtomicU16,
    pub(crate) time_mult: AtomicU32,
    pub(crate) time_offset: AtomicU64,
    pub(crate) time_zero: AtomicU64,
    pub(crate) size: AtomicU32,
    pub(crate) reserved_1: AtomicU32,
    pub(crate) time_cycles: AtomicU64,
    pub(crate) time_mask: AtomicU64,
}

const _: () = assert!(std::mem::offset_of!(MmapPage, time_mask) == 88);

impl MmapPage {
    /// A page that is permanently locked for writing.
    pub(crate) const fn locked() -> Self {
        Self {
            version: AtomicU32::new(0),
            compat_version: AtomicU32::new(0),
            lock: AtomicU32::new(1),
            index: AtomicU32::new(0),
            offset: AtomicI64::new(0),
            time_enabled: AtomicU64::new(0),
            time_running: AtomicU64::new(0),
            capabilities: AtomicU64::new(0),
            pmc_width: AtomicU16::new(0),
            time_shift: AtomicU16::new(0),
            time_mult: AtomicU32::new(0),
            time_offset: AtomicU64::new(0),
            time_zero: AtomicU64::new(0),
            size: AtomicU32::new(0),
            reserved_1: AtomicU32::new(0),
            time_cycles: AtomicU64::new(0),
            time_mask: AtomicU64::new(0),
        }
    }
}

/// `struct perf_event_mmap_page` up to `aux_size`: the first page of a ring.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct RingPage {
    pub(crate) start: MmapPage,
    hole: [u8; RING_HEAD - size_of::<MmapPage>()],
    /// Where the kernel writes next. Positions only grow; modulo `data_size` they are offsets in the data. In a ring
    /// that is written backward they only fall.
    pub(crate) data_head: AtomicU64,
    /// Up to where user space has read.
    pub(crate) data_tail: AtomicU64,
    pub(crate) data_offset: AtomicU64,
    pub(crate) data_size: AtomicU64,
    pub(crate) aux_head: AtomicU64,
    pub(crate) aux_tail: AtomicU64,
    pub(crate) aux_offset: AtomicU64,
    pub(crate) aux_size: AtomicU64,
}

#[cfg(perfmark_scripted)]
impl RingPage {
    /// An empty ring's page, locked for writing.
    pub(crate) const fn locked() -> Self {
        Self {
            start: MmapPage::locked(),
            hole: [0; RING_HEAD - size_of::<MmapPage>()],
            data_head: AtomicU64::new(0),
            data_tail: AtomicU64::new(0),
            data_offset: AtomicU64::new(0),
            data_size: AtomicU64::new(0),
            aux_head: AtomicU64::new(0),
            aux_tail: AtomicU64::new(0),
            aux_offset: AtomicU64::new(0),
            aux_size: AtomicU64::new(0),
        }
    }
}

const RING_HEAD: usize = 1024;
const _: () = assert!(std::mem::offset_of!(RingPage, data_head) == RING_HEAD && size_of::<RingPage>() == 1088);

/// Set by kernels whose other capability bits are valid (3.12 and later).
pub(crate) const CAP_BIT0_IS_DEPRECATED: u64 = 1 << 1;
pub(crate) const CAP_USER_RDPMC: u64 = 1 << 2;
pub(crate) const CAP_USER_TIME: u64 = 1 << 3;
pub(crate) const CAP_USER_TIME_ZERO: u64 = 1 << 4;
pub(crate) const CAP_USER_TIME_SHORT: u64 = 1 << 5;

/// A ring that [`wait`](crate::sample::wait) found ready, that has ended, or whose event is in error state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ready {
    /// The index of the ring among those that were waited for.
    pub ring: usize,
    /// Whether it has as many new records as [`Sampler::wakeup_events`](crate::sample::Sampler::wakeup_events) or
    /// [`wakeup_watermark`](crate::sample::Sampler::wakeup_watermark) requested (`POLL_IN`). The next wait does not
    /// report them again.
    pub is_ready: bool,
    /// Whether no more records will come, because its thread has ended (`POLL_HUP`). Each further wait reports it
    /// again, at once.
    pub has_ended: bool,
    /// Whether the event is in error state: the kernel cannot count it, as a pinned one for which there is no counter.
    /// Each further wait reports it again, at once. Linux reports it from 6.15 on (`POLL_ERR`).
    pub has_error: bool,
}

/// The result of read(2) for an event with both times and its id in its read format.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct ReadFormat {
    pub(crate) value: u64,
    pub(crate) enabled: u64,
    pub(crate) running: u64,
    pub(crate) id: u64,
}

/// The number of events that `perfmark run --emulate` counts in QEMU's user-mode emulator.
pub(crate) const EMULATED_EVENTS: usize = 4;
