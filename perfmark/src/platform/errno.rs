//! The program's `errno`, which perfmark's own system calls must not change under it.
#![allow(unsafe_code, reason = "errno is a thread's own variable behind a pointer")]

/// Puts `errno` back when dropped.
pub(crate) struct KeepErrno(#[cfg(target_os = "linux")] libc::c_int);

impl KeepErrno {
    pub(crate) fn new() -> Self {
        Self(
            #[cfg(target_os = "linux")]
            // SAFETY: the address of this thread's errno.
            unsafe {
                *libc::__errno_location()
            },
        )
    }
}

#[cfg(target_os = "linux")]
impl Drop for KeepErrno {
    fn drop(&mut self) {
        // SAFETY: the address of this thread's errno.
        unsafe { *libc::__errno_location() = self.0 };
    }
}
