//! The page in which QEMU's user-mode emulator counts a thread's events.
//!
//! `perfmark run --emulate` loads a plugin into the emulator (`perfmark-cli/src/run/emulator_plugin.c`). It sees each
//! system call of the program. A thread requests its page by a `getpid` with arguments, which the kernel ignores. Every
//! sandbox allows that call, and it is the same on all architectures. The plugin and the thread map the page of the
//! same descriptor, because the emulator and its program are one process.
#![allow(unsafe_code, reason = "memfd_create and mmap have no safe form in libc")]

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _};
use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64};

use super::fork::generation;
use crate::arch::system_call;
use crate::sys::abi::EMULATED_EVENTS;

/// The page, as in the plugin.
#[derive(Debug)]
#[repr(C)]
struct Page {
    /// The plugin's [`LAYOUT`], once it has answered. It is first in all layouts.
    layout: AtomicU64,
    counts: [AtomicU64; EMULATED_EVENTS],
    /// The number of owners of the mapping. While there is one, other requests of the thread return this page.
    owners: AtomicU64,
    /// The address of the thread's page.
    address: AtomicU64,
    /// Which events are needed: those up to this one.
    needed: AtomicU64,
    /// The emulator's name, filled up with zeroes.
    emulator: [AtomicU8; 64],
}

/// An owner of the calling thread's page, which is unmapped when the last one is dropped.
#[derive(Debug)]
pub(crate) struct EmulatedPage {
    page: NonNull<Page>,
    generation: u32,
}

/// The arguments of the request, as in the plugin.
const REQUEST: [usize; 2] = [0x6b72_616d_6672_6570, 0x736e_6f69_7463_7572];
/// The number of this layout of the page. It rises when a field is added, removed or moved.
const LAYOUT: u64 = 1;
const BYTES: u16 = 4096;

/// Whether the plugin has answered in this process.
static HAS_ANSWERED: AtomicBool = AtomicBool::new(false);

fn failed(call: &'static str, error: &io::Error) -> (&'static str, i32) {
    (call, error.raw_os_error().unwrap_or(libc::EIO))
}

impl EmulatedPage {
    /// Requests the calling thread's page. `Ok(None)` if no plugin answers. From the first request on that needs an
    /// event, the emulator counts the events up to this one.
    ///
    /// # Errors
    ///
    /// The system call that failed, and its errno; EPROTO if the plugin's page has another layout.
    pub(crate) fn request(needed: usize) -> Result<Option<Self>, (&'static str, i32)> {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: writes the limit.
        unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) };
        // A file beyond the limit would end the program (SIGXFSZ).
        if limit.rlim_cur < BYTES.into() {
            return Err(("ftruncate", libc::EFBIG));
        }
        // SAFETY: a terminated name.
        let fd = unsafe { libc::memfd_create(c"perfmark".as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return Err(failed("memfd_create", &io::Error::last_os_error()));
        }
        // SAFETY: a new descriptor, which nobody else owns.
        let file = unsafe { File::from_raw_fd(fd) };
        file.set_len(BYTES.into()).map_err(|error| failed("ftruncate", &error))?;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start = unsafe { libc::mmap(ptr::null_mut(), BYTES.into(), access, libc::MAP_SHARED, fd, 0) };
        let page = NonNull::new(start.cast()).filter(|_| start != libc::MAP_FAILED);
        let page = page.ok_or_else(|| failed("mmap", &io::Error::last_os_error()))?;
        let new = Self { page, generation: generation() };
        new.page().owners.store(1, Relaxed);
        new.page().address.store(start.expose_provenance() as u64, Relaxed);
        new.page().needed.store(needed as u64, Relaxed);
        let number = usize::try_from(file.as_raw_fd()).unwrap_or(usize::MAX);
        // SAFETY: the kernel ignores the arguments, and the plugin uses a descriptor that is open.
        unsafe { system_call(libc::SYS_getpid, REQUEST[0], REQUEST[1], number) };
        match new.page().layout.load(Relaxed) {
            0 => return Ok(None),
            LAYOUT => {}
            _ => return Err(("getpid", libc::EPROTO)),
        }
        HAS_ANSWERED.store(true, Relaxed);
        let address = usize::try_from(new.page().address.load(Relaxed)).unwrap_or(0);
        if address == start.addr() {
            return Ok(Some(new));
        }
        let page = NonNull::new(ptr::with_exposed_provenance_mut(address)).ok_or(("getpid", libc::EIO))?;
        let existing = Self { page, generation: generation() };
        // Only this thread changes it.
        existing.page().owners.store(existing.page().owners.load(Relaxed) + 1, Relaxed);
        Ok(Some(existing))
    }

    /// The calling thread's page, if the emulator counts in this process.
    pub(crate) fn if_counted() -> Option<Self> {
        HAS_ANSWERED.load(Relaxed).then(|| Self::request(0).ok().flatten()).flatten()
    }

    #[inline]
    fn page(&self) -> &Page {
        // SAFETY: mapped until its last owner is dropped. A forked child inherits the mapping.
        unsafe { self.page.as_ref() }
    }

    /// Whether this process requested it. In a forked child, it is the parent's.
    #[inline]
    pub(crate) fn is_this_process(&self) -> bool {
        self.generation == generation()
    }

    /// The count of an event.
    #[inline]
    pub(crate) fn count(&self, event: usize) -> u64 {
        self.page().counts[event].load(Relaxed)
    }

    /// Changes the count of an event. The emulator adds to it between two instructions of this thread only.
    #[inline]
    pub(crate) fn set(&self, event: usize, count: u64) {
        self.page().counts[event].store(count, Relaxed);
    }

    /// The emulator's name and version.
    pub(crate) fn emulator(&self) -> String {
        let bytes: Vec<u8> = self.page().emulator.iter().map(|byte| byte.load(Relaxed)).collect();
        String::from_utf8_lossy(&bytes).trim_end_matches('\0').to_owned()
    }
}

impl Drop for EmulatedPage {
    fn drop(&mut self) {
        if !self.is_this_process() {
            return;
        }
        let owners = self.page().owners.load(Relaxed) - 1;
        self.page().owners.store(owners, Relaxed);
        if owners == 0 {
            // SAFETY: mapped by `request`, and this was the last owner.
            unsafe { libc::munmap(self.page.as_ptr().cast(), BYTES.into()) };
        }
    }
}
