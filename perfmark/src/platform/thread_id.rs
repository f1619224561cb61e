//! The kernel's numbers of threads and of the process.
#![allow(unsafe_code, reason = "gettid")]

/// The calling thread's.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) fn thread_id() -> u32 {
    // SAFETY: it has no arguments, and always succeeds.
    unsafe { libc::gettid() }.cast_unsigned()
}

/// On other systems, a number that other threads do not have.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) fn thread_id() -> u32 {
    use std::cell::Cell;
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
    static NUMBERS: AtomicU32 = AtomicU32::new(1);
    thread_local!(static NUMBER: Cell<u32> = const { Cell::new(0) });
    if NUMBER.get() == 0 {
        NUMBER.set(NUMBERS.fetch_add(1, Relaxed));
    }
    NUMBER.get()
}

/// The process's. A browser's module has none, and the standard library panics there.
pub(crate) fn process_id() -> u32 {
    if cfg!(all(target_family = "wasm", target_os = "unknown")) { 0 } else { std::process::id() }
}

/// The name that the kernel has for a thread of this process, of at most 15 bytes. `None` if it has ended, or if
/// `/proc` is not mounted.
pub(crate) fn thread_name(id: u32) -> Option<String> {
    if !cfg!(any(target_os = "linux", target_os = "android")) {
        return None;
    }
    let name = std::fs::read(format!("/proc/self/task/{id}/comm")).ok()?;
    Some(String::from_utf8_lossy(name.trim_ascii_end()).into_owned())
}
