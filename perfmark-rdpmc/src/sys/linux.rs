//! System calls. # Safety: each call passes pointers to live values of the size that it states, and owns what it returns.
#![allow(unsafe_code, reason = "perf_event_open, mmap, munmap and read have no safe form in libc")]

use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::ptr::{self, NonNull};

use super::abi::{MmapPage, PerfEventAttr, ReadFormat};

pub(crate) const SUPPORTED: bool = true;

pub(crate) type Descriptor = OwnedFd;

fn errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}

/// `perf_event_open(2)` for the calling thread on whichever CPU it runs, close-on-exec. Gives errno where the kernel refuses.
pub(crate) fn open(attr: &PerfEventAttr) -> Result<Descriptor, i32> {
    const PERF_FLAG_FD_CLOEXEC: libc::c_ulong = 1 << 3;
    loop {
        // SAFETY: `attr` is a live structure whose `size` field holds its size.
        let fd =
            unsafe { libc::syscall(libc::SYS_perf_event_open, ptr::from_ref(attr), 0, -1, -1, PERF_FLAG_FD_CLOEXEC) };
        if let Ok(fd @ 0..) = i32::try_from(fd) {
            // SAFETY: the kernel just gave this descriptor to us alone.
            return Ok(out_of_the_way(unsafe { OwnedFd::from_raw_fd(fd) }));
        }
        match errno() {
            libc::EINTR => {}
            errno => return Err(errno),
        }
    }
}

/// Moves a descriptor up, out of the low numbers that programs close in a loop and then get anew for files of their own.
fn out_of_the_way(fd: OwnedFd) -> OwnedFd {
    /// A descriptor table of this size is small, and few programs ever have as many open.
    const HIGH: u64 = 512;
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is live.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } == 0;
    let lowest = if known { HIGH.min(limit.rlim_cur / 2) } else { 0 };
    // SAFETY: our descriptor.
    let high = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, i32::try_from(lowest).unwrap_or(0)) };
    // SAFETY: the kernel just gave this descriptor to us alone. Where it had none left up there, the low one does.
    if high >= 0 { unsafe { OwnedFd::from_raw_fd(high) } } else { fd }
}

/// `read(2)`. `Ok(None)` is the end of file that a pinned event in error state gives.
pub(crate) fn read(fd: &Descriptor) -> Result<Option<ReadFormat>, i32> {
    let mut out = ReadFormat::default();
    // SAFETY: the address of this thread's errno, which a mark in the middle of a program must not change.
    let before = unsafe { *libc::__errno_location() };
    loop {
        // SAFETY: `out` is live and as large as stated.
        let n = unsafe { libc::read(fd.as_raw_fd(), ptr::from_mut(&mut out).cast(), size_of::<ReadFormat>()) };
        match usize::try_from(n) {
            Ok(n) if n == size_of::<ReadFormat>() => return Ok(Some(out)),
            Ok(0) => return Ok(None),
            // No event's answer: the descriptor is another file's.
            Ok(_) => return Err(libc::EBADF),
            Err(_) => match errno() {
                libc::EINTR => {}
                errno => {
                    // SAFETY: as above.
                    unsafe { *libc::__errno_location() = before };
                    return Err(errno);
                }
            },
        }
    }
}

/// An event's metadata page, mapped read-only; unmapped when dropped.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<MmapPage>,
    length: usize,
}

impl Mapping {
    pub(crate) fn new(fd: &Descriptor) -> Result<Self, i32> {
        // SAFETY: sysconf has no preconditions.
        let length = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start =
            unsafe { libc::mmap(ptr::null_mut(), length, libc::PROT_READ, libc::MAP_SHARED, fd.as_raw_fd(), 0) };
        match NonNull::new(start.cast::<MmapPage>()) {
            Some(page) if start != libc::MAP_FAILED => Ok(Self { start: page, length }),
            _ => Err(errno()),
        }
    }

    pub(crate) fn page(&self) -> &MmapPage {
        // SAFETY: mapped until drop, at least a page long, and all its fields are atomics of any bit pattern.
        unsafe { self.start.as_ref() }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and no reference into it outlives `self`.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
    }
}
