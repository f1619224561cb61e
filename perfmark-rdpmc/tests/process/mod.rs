//! This process and its surroundings: CPUs, file, file systems and user.
//!
//! # Safety
//!
//! Each call's pointers point to live values of the stated size. A failing call is reported.
#![allow(dead_code, reason = "each test uses what it needs")]

use std::ffi::CStr;
use std::ptr;

/// The CPUs that this thread may run on.
pub(crate) fn cpus() -> Vec<usize> {
    // SAFETY: a set of CPUs consists of plain numbers, and all zero is the empty set. It is live and as large as
    // stated.
    let set = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        assert_eq!(libc::sched_getaffinity(0, size_of_val(&set), &raw mut set), 0);
        set
    };
    // SAFETY: the number is below the set's size.
    (0..1024).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) }).collect()
}

/// Moves this thread to that CPU.
pub(crate) fn move_to(cpu: usize) {
    move_to_any(&[cpu]);
}

/// Lets this thread run on these CPUs.
pub(crate) fn move_to_any(cpus: &[usize]) {
    // SAFETY: as above; the numbers came from such a set.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        for &cpu in cpus {
            libc::CPU_SET(cpu, &mut set);
        }
        assert_eq!(libc::sched_setaffinity(0, size_of_val(&set), &raw const set), 0);
    }
}

/// The file that contains the code at this address, and the code's offset in it.
pub(crate) fn in_file(code: *const ()) -> Option<(String, u64)> {
    let address = code.addr() as u64;
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    maps.lines().find_map(|line| {
        // 55d0c0a00000-55d0c0a21000 r-xp 00020000 fe:00 1234    /path/of the file
        let mut fields = line.splitn(6, ' ');
        let (low, high) = fields.next()?.split_once('-')?;
        let offset = u64::from_str_radix(fields.nth(1)?, 16).ok()?;
        let path = fields.nth(2)?.trim_start();
        let (low, high) = (u64::from_str_radix(low, 16).ok()?, u64::from_str_radix(high, 16).ok()?);
        (low..high).contains(&address).then(|| (path.to_owned(), address - low + offset))
    })
}

fn check(call: &str, result: libc::c_int) -> Result<(), String> {
    if result == 0 { Ok(()) } else { Err(format!("{call}: {}", std::io::Error::last_os_error())) }
}

/// Mounts tracefs at its usual directory, only for this thread and its children, if it is not mounted.
pub(crate) fn mount_tracefs() -> Result<(), String> {
    if std::path::Path::new("/sys/kernel/tracing/events").exists() {
        return Ok(());
    }
    mount(c"tracefs", c"/sys/kernel/tracing")
}

/// Mounts a kernel's file system, only for this thread and its children.
pub(crate) fn mount(kind: &CStr, directory: &CStr) -> Result<(), String> {
    let (root, none): (&CStr, &CStr) = (c"/", c"none");
    // SAFETY: all texts live. From the first call on, the thread has its own mount namespace.
    unsafe {
        check("unshare", libc::unshare(libc::CLONE_NEWNS))?;
        let private = libc::MS_REC | libc::MS_PRIVATE;
        check("mount", libc::mount(none.as_ptr(), root.as_ptr(), ptr::null(), private, ptr::null()))?;
        check("mount", libc::mount(none.as_ptr(), directory.as_ptr(), kind.as_ptr(), 0, ptr::null()))
    }
}

/// Permanently gives up root's permissions. The program has one thread.
pub(crate) fn become_user(user: libc::uid_t) {
    // SAFETY: the only pointer is to an empty list.
    unsafe {
        check("setgroups", libc::setgroups(0, ptr::null())).expect("root may");
        check("setresgid", libc::setresgid(user, user, user)).expect("root may");
        check("setresuid", libc::setresuid(user, user, user)).expect("root may");
    }
}

/// Returns once that thread of this process waits in that system call, off its CPU.
pub(crate) fn until_blocked(thread: u32, call: libc::c_long) {
    let file = format!("/proc/self/task/{thread}/syscall");
    let reads = || std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{file}: {error}"));
    // The call's number and its arguments, of a thread that is off its CPU and not runnable (`task_current_syscall` in
    // `lib/syscall.c`, linux 6.18); of any other thread, "running".
    while reads().split(' ').next() != Some(&call.to_string()) {}
}

/// This thread's number.
pub(crate) fn gettid() -> u32 {
    // SAFETY: takes nothing.
    u32::try_from(unsafe { libc::syscall(libc::SYS_gettid) }).expect("small")
}

/// The nanoseconds of a clock now: `clock_gettime(2)`.
pub(crate) fn now(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: live memory.
    assert_eq!(unsafe { libc::clock_gettime(clock, &raw mut time) }, 0);
    u64::try_from(time.tv_sec * 1_000_000_000 + time.tv_nsec).expect("positive")
}

/// How often this thread has yielded or lost its CPU, as the kernel accounts for it: getrusage(2).
pub(crate) fn switches() -> u64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: memory for what the kernel writes.
    let result = unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    // SAFETY: written.
    let usage = unsafe { usage.assume_init() };
    u64::try_from(usage.ru_nvcsw + usage.ru_nivcsw).expect("a count")
}
