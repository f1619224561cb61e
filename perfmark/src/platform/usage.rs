//! What the kernel knows about the process's and its threads' use of CPUs, and the size of its pages.
#![allow(unsafe_code, reason = "getrusage, clock_gettime and sysconf")]

/// CPU time and context switches of the process.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ProcessUsage {
    /// In user and kernel mode, of all threads, in nanoseconds.
    pub(crate) cpu_ns: u64,
    /// In user mode, as the kernel estimates it from where its timer finds the threads.
    pub(crate) user_ns: u64,
    pub(crate) involuntary_switches: u64,
}

impl ProcessUsage {
    /// The use since an earlier moment.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            cpu_ns: self.cpu_ns.saturating_sub(before.cpu_ns),
            user_ns: self.user_ns.saturating_sub(before.user_ns),
            involuntary_switches: self.involuntary_switches.saturating_sub(before.involuntary_switches),
        }
    }
}

/// What `getrusage(2)` says of the process or the thread.
#[cfg(unix)]
fn usage_of(who: libc::c_int) -> Option<libc::rusage> {
    if cfg!(miri) {
        return None;
    }
    // SAFETY: a zeroed rusage is a valid one, and getrusage writes one.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        (libc::getrusage(who, &raw mut usage) == 0).then_some(usage)
    }
}

/// One system call. `None` if the system has none like it.
#[cfg(unix)]
pub(crate) fn process_usage() -> Option<ProcessUsage> {
    let usage = usage_of(libc::RUSAGE_SELF)?;
    let of = |time: libc::timeval| {
        let microseconds = i128::from(time.tv_sec) * 1_000_000 + i128::from(time.tv_usec);
        u64::try_from(microseconds * 1_000).unwrap_or(0)
    };
    let user_ns = of(usage.ru_utime);
    Some(ProcessUsage {
        cpu_ns: user_ns.saturating_add(of(usage.ru_stime)),
        user_ns,
        involuntary_switches: u64::try_from(usage.ru_nivcsw).unwrap_or(0),
    })
}

/// The CPU time of the calling thread in nanoseconds, by one system call. `None` if the system has none like it.
#[cfg(unix)]
pub(crate) fn thread_cpu_ns() -> Option<u64> {
    nanoseconds(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// How often the calling thread waited by itself (`getrusage(2)`), by one system call. `None` if the system does not
/// count that.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) fn voluntary_switches() -> Option<u64> {
    /// Of linux/resource.h; the crate `libc` does not have it for Android.
    const RUSAGE_THREAD: libc::c_int = 1;
    u64::try_from(usage_of(RUSAGE_THREAD)?.ru_nvcsw).ok()
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) fn voluntary_switches() -> Option<u64> {
    None
}

/// The time of `CLOCK_MONOTONIC` in nanoseconds, which is also that of `Instant`. `None` if it is unknown. Where
/// the kernel maps the code for it (vDSO), it is no system call. A signal handler may call it.
pub(crate) fn monotonic_ns() -> Option<u64> {
    #[cfg(unix)]
    return nanoseconds(libc::CLOCK_MONOTONIC);
    #[cfg(not(unix))]
    None
}

/// How long the machine slept since it started, in nanoseconds, by the difference of two clocks. 0 if it is unknown.
pub(crate) fn asleep_ns() -> u64 {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    return nanoseconds(libc::CLOCK_BOOTTIME).zip(monotonic_ns()).map_or(0, |(all, awake)| all.saturating_sub(awake));
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    0
}

/// The size of the kernel's pages.
#[cfg(feature = "sampling")]
pub(crate) fn page_bytes() -> u64 {
    #[cfg(unix)]
    // SAFETY: it takes no pointer.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    #[cfg(not(unix))]
    let bytes = 4_096;
    u64::try_from(bytes).unwrap_or(4_096)
}

/// The CPU time in user mode of a thread of this process with this number, in nanoseconds. 0 if it is unknown.
#[cfg(all(feature = "sampling", any(target_os = "linux", target_os = "android")))]
pub(crate) fn thread_user_ns(thread: u32) -> u64 {
    /// `CPUCLOCK_VIRT | CPUCLOCK_PERTHREAD_MASK` of linux/posix-timers.h, whose clocks have numbers like this one.
    const USER_OF_THREAD: libc::clockid_t = 1 | 4;
    nanoseconds((!thread.cast_signed() << 3) | USER_OF_THREAD).unwrap_or(0)
}

/// The time of a clock. `None` if it is unknown. A signal handler may call it.
#[cfg(unix)]
fn nanoseconds(clock: libc::clockid_t) -> Option<u64> {
    if cfg!(miri) {
        return None;
    }
    // SAFETY: a zeroed timespec is a valid one, and clock_gettime writes one. An unknown clock is an error.
    let time = unsafe {
        let mut time: libc::timespec = std::mem::zeroed();
        (libc::clock_gettime(clock, &raw mut time) == 0).then_some(time)?
    };
    u64::try_from(i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec)).ok()
}

#[cfg(all(feature = "sampling", not(any(target_os = "linux", target_os = "android"))))]
pub(crate) fn thread_user_ns(_: u32) -> u64 {
    0
}

#[cfg(not(unix))]
pub(crate) fn thread_cpu_ns() -> Option<u64> {
    None
}

#[cfg(not(unix))]
pub(crate) fn process_usage() -> Option<ProcessUsage> {
    None
}
