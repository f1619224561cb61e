//! A sandbox: the kernel refuses system calls to this thread, and to threads that it starts (`seccomp(2)`).

use std::io;

use libc::c_long;

/// Makes each of `calls` fail with `errno` from now on.
pub(crate) fn refuse(calls: &[c_long], errno: i32) -> io::Result<()> {
    answer_to(calls, libc::SECCOMP_RET_ERRNO | errno.cast_unsigned())
}

/// Sets the kernel's action for each of `calls` to `answer`, one of `SECCOMP_RET_…`.
pub(crate) fn answer_to(calls: &[c_long], answer: u32) -> io::Result<()> {
    /// The offset of the number in `struct seccomp_data`.
    const NUMBER: u32 = 0;
    let statement = |code: u32, k: u32, skipped: u8| libc::sock_filter {
        code: u16::try_from(code).expect("small"),
        jt: 0,
        jf: skipped,
        k,
    };
    let mut filter = vec![statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, NUMBER, 0)];
    for &call in calls {
        let number = u32::try_from(call).expect("a number");
        filter.push(statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, number, 1));
        filter.push(statement(libc::BPF_RET | libc::BPF_K, answer, 0));
    }
    filter.push(statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0));
    let length = u16::try_from(filter.len()).expect("small");
    let program = libc::sock_fprog { len: length, filter: filter.as_mut_ptr() };
    // SAFETY: a live program, which the kernel copies.
    let is_installed = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) == 0
    };
    if is_installed { Ok(()) } else { Err(io::Error::last_os_error()) }
}
