//! The registers of a stopped thread: what a system call is made with, and what it returns.

use std::io;

use libc::{c_int, c_uint, pid_t};

/// Panics if the kernel refuses. If the thread was killed meanwhile, the tracer is notified soon.
pub(crate) fn ptrace(request: c_uint, thread: pid_t, address: usize, data: usize) {
    // SAFETY: callers pass numbers, or a live value of the size that the request has.
    if unsafe { libc::ptrace(request, thread, address, data) } < 0 {
        let error = io::Error::last_os_error();
        assert_eq!(error.raw_os_error(), Some(libc::ESRCH), "ptrace: {error}");
    }
}

pub(crate) struct Registers(libc::user_regs_struct);

impl Registers {
    pub(crate) fn of(thread: pid_t) -> Self {
        // SAFETY: they are numbers, for which zeroes are valid.
        let mut registers = Self(unsafe { std::mem::zeroed() });
        set(libc::PTRACE_GETREGSET, thread, libc::NT_PRSTATUS, &mut registers.0);
        registers
    }

    fn put(mut self, thread: pid_t) {
        set(libc::PTRACE_SETREGSET, thread, libc::NT_PRSTATUS, &mut self.0);
    }

    /// The call that is about to be made is skipped, and returns that.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn skip(mut self, thread: pid_t, result: i64) {
        self.0.orig_rax = u64::MAX;
        self.give(thread, result);
    }

    #[cfg(target_arch = "aarch64")]
    pub(crate) fn skip(self, thread: pid_t, result: i64) {
        /// `include/uapi/linux/elf.h`
        const NT_ARM_SYSTEM_CALL: c_int = 0x404;
        set(libc::PTRACE_SETREGSET, thread, NT_ARM_SYSTEM_CALL, &mut -1_i32);
        self.give(thread, result);
    }

    /// The first argument of the call that is about to be made.
    pub(crate) fn first(&self) -> u64 {
        #[cfg(target_arch = "x86_64")]
        return self.0.rdi;
        #[cfg(target_arch = "aarch64")]
        return self.0.regs[0];
    }

    /// The call that was made returns that.
    pub(crate) fn give(mut self, thread: pid_t, result: i64) {
        #[cfg(target_arch = "x86_64")]
        let register = &mut self.0.rax;
        #[cfg(target_arch = "aarch64")]
        let register = &mut self.0.regs[0];
        *register = result.cast_unsigned();
        self.put(thread);
    }

    /// The call that is about to be made is for half as many bytes, but at least one. This is its third argument.
    pub(crate) fn halve(mut self, thread: pid_t) {
        #[cfg(target_arch = "x86_64")]
        let register = &mut self.0.rdx;
        #[cfg(target_arch = "aarch64")]
        let register = &mut self.0.regs[2];
        *register = register.div_ceil(2);
        self.put(thread);
    }
}

fn set<T>(request: c_uint, thread: pid_t, which: c_int, value: &mut T) {
    let mut buffer = libc::iovec { iov_base: std::ptr::from_mut(value).cast(), iov_len: size_of::<T>() };
    ptrace(request, thread, usize::try_from(which).expect("a kind"), (&raw mut buffer).expose_provenance());
}
