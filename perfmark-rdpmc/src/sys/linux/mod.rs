//! System calls.
//!
//! # Safety
//!
//! Each call passes pointers to live values of the size that it states, and owns what it returns.
#![allow(unsafe_code, reason = "perf_event_open, mmap, munmap and read have no safe form in libc")]

mod identity;
mod wiped;
mod fork;
mod ring;
mod emulated;

use std::ffi::CStr;
use std::io::{self, PipeReader};
use std::os::fd::{AsRawFd, RawFd};
use std::ptr;

use super::abi::{PerfEventAttr, ReadFormat, Ready};
use crate::arch::system_call;
use crate::target::{Target, Whose};
pub(crate) use emulated::EmulatedPage;
pub(crate) use fork::{Descriptor, Mapping, generation, page_size};
use identity::Identity;
pub(crate) use ring::{AuxMapping, RingMapping};

pub(crate) const SUPPORTED: bool = true;

fn errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}

/// `perf_event_open(2)`, close-on-exec, as a member of the leader's group. Returns errno if the kernel refuses.
pub(crate) fn open(attr: &PerfEventAttr, target: &Target, leader: Option<&Descriptor>) -> Result<Descriptor, i32> {
    const PERF_FLAG_PID_CGROUP: libc::c_ulong = 1 << 2;
    const PERF_FLAG_FD_CLOEXEC: libc::c_ulong = 1 << 3;
    let number = |of: u32| libc::c_int::try_from(of).map_err(|_| libc::EINVAL);
    let cpu = target.cpu.map_or(Ok(-1), number)?;
    let (pid, flags) = match &target.whose {
        Whose::Caller => (0, 0),
        // 0 would be the caller.
        Whose::Thread(0) => return Err(libc::ESRCH),
        Whose::Thread(tid) => (number(*tid).map_err(|_| libc::ESRCH)?, 0),
        Whose::Everyone => (-1, 0),
        Whose::Cgroup(_, directory) => (directory.as_raw_fd(), PERF_FLAG_PID_CGROUP),
    };
    let flags = flags | PERF_FLAG_FD_CLOEXEC;
    let group = leader.map_or(-1, Descriptor::number);
    // The kernel writes the size that it supports into a structure that is too large for it.
    let mut attr = attr.clone();
    // All signals are blocked, so no handler interrupts it.
    Descriptor::open(|| {
        // SAFETY: `attr` is a live structure whose `size` field holds its size.
        let fd = unsafe { libc::syscall(libc::SYS_perf_event_open, &raw mut attr, pid, cpu, group, flags) };
        match RawFd::try_from(fd) {
            Ok(fd @ 0..) => {
                let identity = Identity::of_new(fd);
                Ok((move_to_high_number(fd, &identity), identity))
            }
            _ => Err(errno()),
        }
    })
}

/// The size of the kernel's `struct perf_event_attr`, which it returns when it refuses a size (`perf_copy_attr`).
pub(crate) fn attr_size() -> Option<u32> {
    // Smaller than any version of the structure.
    let mut attr = PerfEventAttr { size: 1, ..PerfEventAttr::default() };
    // SAFETY: a live structure, of which the kernel writes the field `size` alone.
    let result = unsafe { libc::syscall(libc::SYS_perf_event_open, &raw mut attr, 0, -1, -1, 0) };
    (result == -1 && errno() == libc::E2BIG && attr.size > 1).then_some(attr.size)
}

/// Moves a descriptor to a high number, away from the low numbers that programs close in a loop and then get again for
/// their own files.
fn move_to_high_number(fd: RawFd, identity: &Identity) -> RawFd {
    /// A descriptor table of this size is small, and few programs ever have that many open.
    const HIGH: u64 = 512;
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is live.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } == 0;
    let lowest = if known { HIGH.min(limit.rlim_cur / 2) } else { 0 };
    // SAFETY: our descriptor.
    match unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, RawFd::try_from(lowest).unwrap_or(0)) } {
        high @ 0.. => {
            if identity.is_of(fd) {
                // SAFETY: our descriptor, which was duplicated.
                unsafe { libc::close(fd) };
            }
            high
        }
        // No high number is free: keeps the low one.
        _ => fd,
    }
}

/// The result of a call that returns -1 if it fails.
fn succeeded(status: libc::c_int) -> Result<(), i32> {
    if status == -1 { Err(errno()) } else { Ok(()) }
}

/// `ioctl(2)` with a number.
pub(crate) fn ioctl(fd: &Descriptor, request: u64, argument: u64) -> Result<(), i32> {
    // SAFETY: the requests of `abi` that take a number.
    succeeded(unsafe { libc::ioctl(fd.number(), request as libc::Ioctl, argument) })
}

/// `ioctl(2)` with a pointer to a number, or to the attributes.
pub(crate) fn ioctl_pointer<T>(fd: &Descriptor, request: u64, argument: &mut T) -> Result<(), i32> {
    // SAFETY: the requests of `abi` that take a pointer to a `T`, which is live.
    succeeded(unsafe { libc::ioctl(fd.number(), request as libc::Ioctl, ptr::from_mut(argument)) })
}

/// `ioctl(2)` with a text.
pub(crate) fn ioctl_text(fd: &Descriptor, request: u64, text: &CStr) -> Result<(), i32> {
    // SAFETY: the request of `abi` that takes a pointer to a text, which is live.
    succeeded(unsafe { libc::ioctl(fd.number(), request as libc::Ioctl, text.as_ptr()) })
}

/// `ioctl(2)` with another descriptor, or none.
pub(crate) fn ioctl_descriptor(fd: &Descriptor, request: u64, other: Option<&Descriptor>) -> Result<(), i32> {
    // The kernel compares with minus one as a long (`_perf_ioctl`, kernel/events/core.c).
    let other = other.map_or(-1, |other| libc::c_long::from(other.number()));
    // SAFETY: the request of `abi` that takes a descriptor.
    succeeded(unsafe { libc::ioctl(fd.number(), request as libc::Ioctl, other) })
}

impl Descriptor {
    /// Makes the kernel send `signal` to the thread, or to the calling one, when the descriptor becomes ready
    /// (`fcntl(2)`).
    pub(crate) fn send_signal(&mut self, signal: i32, thread: Option<u32>) -> Result<(), i32> {
        const F_SETOWN_EX: libc::c_int = 15;
        const F_SETSIG: libc::c_int = 10;
        const F_OWNER_TID: libc::c_int = 0;
        // SAFETY: takes nothing.
        let own = || unsafe { libc::syscall(libc::SYS_gettid) };
        let thread = thread.map_or_else(own, libc::c_long::from);
        // `struct f_owner_ex`.
        let owner = [F_OWNER_TID, libc::pid_t::try_from(thread).map_err(|_| libc::EINVAL)?];
        let fd = self.number();
        // SAFETY: a live structure, and a number.
        if unsafe { libc::fcntl(fd, F_SETOWN_EX, owner.as_ptr()) == -1 || libc::fcntl(fd, F_SETSIG, signal) == -1 } {
            return Err(errno());
        }
        self.make_async()
    }
}

/// `poll(2)` until one of the descriptors is ready, has ended or is in error state, or the pipe is. Returns those
/// descriptors; none also if a signal came.
pub(crate) fn poll(fds: &[&Descriptor], pipe: Option<&PipeReader>, milliseconds: i32) -> Result<Vec<Ready>, i32> {
    let entry = |fd: RawFd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let numbers = fds.iter().map(|fd| fd.number()).chain(pipe.map(AsRawFd::as_raw_fd));
    let mut entries: Vec<_> = numbers.map(entry).collect();
    let count = libc::nfds_t::try_from(entries.len()).map_err(|_| libc::EINVAL)?;
    // SAFETY: as many live entries as stated.
    match unsafe { libc::poll(entries.as_mut_ptr(), count, milliseconds) } {
        0.. => {
            let entries = entries[..fds.len()].iter().enumerate();
            Ok(entries.filter_map(|(index, entry)| polled(index, entry.revents)).collect())
        }
        _ if errno() == libc::EINTR => Ok(Vec::new()),
        _ => Err(errno()),
    }
}

/// What `poll(2)` reports for a descriptor, if anything (`perf_poll` in `kernel/events/core.c`, linux 6.15).
fn polled(ring: usize, revents: libc::c_short) -> Option<Ready> {
    let has = |events: libc::c_short| revents & events != 0;
    has(libc::POLLIN | libc::POLLHUP | libc::POLLERR).then(|| Ready {
        ring,
        is_ready: has(libc::POLLIN),
        has_ended: has(libc::POLLHUP),
        has_error: has(libc::POLLERR),
    })
}

/// `prctl(2)` for all events that this thread opened.
pub(crate) fn enable_all_of_thread(enable: bool) -> Result<(), i32> {
    let option = if enable { libc::PR_TASK_PERF_EVENTS_ENABLE } else { libc::PR_TASK_PERF_EVENTS_DISABLE };
    // SAFETY: takes no pointer.
    succeeded(unsafe { libc::prctl(option) })
}

/// `read(2)` of a group's leader: as many numbers as its format has. `Ok(0)` is the end of file of a group in error
/// state. EBADF if the number may be another file's.
#[inline]
pub(crate) fn read_numbers(fd: &Descriptor, numbers: &mut [u64]) -> Result<usize, i32> {
    // SAFETY: `numbers` is live and as large as stated.
    let bytes = unsafe { read_into(fd, numbers.as_mut_ptr().expose_provenance(), size_of_val(numbers)) }?;
    Ok(bytes / size_of::<u64>())
}

/// `read(2)` of one event. `Ok(None)` is the end of file of a pinned event in error state. EBADF if the number may be
/// another file's.
#[inline]
pub(crate) fn read(fd: &Descriptor) -> Result<Option<ReadFormat>, i32> {
    const FULL: usize = size_of::<ReadFormat>();
    let mut out = ReadFormat::default();
    // SAFETY: `out` is live and as large as stated.
    match unsafe { read_into(fd, (&raw mut out).expose_provenance(), FULL) }? {
        FULL => Ok(Some(out)),
        0 => Ok(None),
        // No event returns this: the descriptor is another file's.
        _ => Err(libc::EBADF),
    }
}

/// `read(2)` after a check that the number is the event's, in few instructions, and without changing the program's
/// `errno`. These are two system calls: no single one does both (see [`identity`]).
///
/// # Safety
///
/// `bytes` bytes can be written at the address `to`.
#[inline]
unsafe fn read_into(fd: &Descriptor, to: usize, bytes: usize) -> Result<usize, i32> {
    const INTERRUPTED: libc::c_long = -(libc::EINTR as libc::c_long);
    loop {
        // Checked each time: a signal handler that interrupts a read may close the number.
        if !fd.may_be_read() {
            return Err(libc::EBADF);
        }
        let number = usize::try_from(fd.number()).unwrap_or(usize::MAX);
        // SAFETY: this function's contract.
        match unsafe { system_call(libc::SYS_read, number, to, bytes) } {
            INTERRUPTED => {}
            answer => return usize::try_from(answer).map_err(|_| i32::try_from(-answer).unwrap_or(libc::EIO)),
        }
    }
}

/// The CPU that the thread was on at the moment of the call.
pub(crate) fn cpu() -> Option<u32> {
    // SAFETY: takes nothing.
    u32::try_from(unsafe { libc::sched_getcpu() }).ok()
}

/// Keeps the calling thread, and those that it starts from now on, on the CPU that it is on.
pub(crate) fn stay_on_cpu() -> Result<(), i32> {
    let cpu = cpu().and_then(|cpu| usize::try_from(cpu).ok()).filter(|&cpu| cpu < CPUS).ok_or(libc::EINVAL)?;
    let mut set = [0_u64; CPUS / 64];
    set[cpu / 64] = 1 << (cpu % 64);
    // SAFETY: a live set of this size.
    succeeded(unsafe { libc::sched_setaffinity(0, size_of_val(&set), set.as_ptr().cast()) })
}

/// The most CPUs of a kernel (`NR_CPUS` in `arch/x86/Kconfig`).
const CPUS: usize = 8_192;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_in_error_state_has_not_ended() {
        let flags = |revents| {
            let polled = polled(3, revents)?;
            Some((polled.ring, polled.is_ready, polled.has_ended, polled.has_error))
        };
        assert_eq!(flags(0), None);
        assert_eq!(flags(libc::POLLIN), Some((3, true, false, false)));
        assert_eq!(flags(libc::POLLIN | libc::POLLHUP), Some((3, true, true, false)));
        assert_eq!(flags(libc::POLLERR), Some((3, false, false, true)));
        assert_eq!(flags(libc::POLLERR | libc::POLLHUP), Some((3, false, true, true)));
    }
}
