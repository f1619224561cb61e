//! A sandbox: the kernel refuses system calls to this thread, and to threads that it starts (`seccomp(2)`).
#![allow(dead_code, reason = "each test uses what it needs")]

use std::io;

use libc::c_long;

/// A system call.
#[derive(Clone, Copy)]
pub(crate) struct Call {
    pub(crate) number: c_long,
    /// Restricts it to calls with an argument whose lower half has that value.
    pub(crate) argument: Option<(u32, u32)>,
}

pub(crate) const fn only(number: c_long) -> Call {
    Call { number, argument: None }
}

/// Makes each of `calls` fail with `errno` from now on.
pub(crate) fn refuse(calls: &[c_long], errno: i32) -> io::Result<()> {
    answer_to(calls, libc::SECCOMP_RET_ERRNO | errno.cast_unsigned())
}

/// Sets the kernel's action for each of `calls` to `answer`, one of `SECCOMP_RET_…`.
pub(crate) fn answer_to(calls: &[c_long], answer: u32) -> io::Result<()> {
    let calls: Vec<_> = calls.iter().map(|&number| only(number)).collect();
    install(&program(&calls, answer, libc::SECCOMP_RET_ALLOW), 0)
}

/// A filter that returns `listed` for these calls, and `others` for all others.
pub(crate) fn program(calls: &[Call], listed: u32, others: u32) -> Vec<libc::sock_filter> {
    /// Offsets in `struct seccomp_data`.
    const NUMBER: u32 = 0;
    const ARGUMENTS: u32 = 16;
    let statement =
        |code: u32, k: u32| libc::sock_filter { code: u16::try_from(code).expect("small"), jt: 0, jf: 0, k };
    let load = |at| statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, at);
    let is = |value, skipped_if_not| libc::sock_filter {
        jf: skipped_if_not,
        ..statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, value)
    };
    let mut program = Vec::new();
    for call in calls {
        let number = u32::try_from(call.number).expect("a number");
        program.extend([load(NUMBER), is(number, if call.argument.is_some() { 3 } else { 1 })]);
        if let Some((argument, value)) = call.argument {
            // Little-endian: the lower half is first.
            program.extend([load(ARGUMENTS + 8 * argument), is(value, 1)]);
        }
        program.push(statement(libc::BPF_RET | libc::BPF_K, listed));
    }
    program.push(statement(libc::BPF_RET | libc::BPF_K, others));
    program
}

/// Installs the filter, with these flags. It only calls the kernel, as is required after a fork.
pub(crate) fn install(program: &[libc::sock_filter], flags: libc::c_ulong) -> io::Result<()> {
    let length = u16::try_from(program.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let filter = libc::sock_fprog { len: length, filter: program.as_ptr().cast_mut() };
    // SAFETY: the program is live, has that length and is only read.
    let result = unsafe {
        if libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 {
            return Err(io::Error::last_os_error());
        }
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const filter)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
