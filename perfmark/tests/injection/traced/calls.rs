//! The system calls: which of them are the host's, and what the kernel may answer to perfmark's. A seccomp filter
//! reports those to a tracer (`seccomp(2)`).

use std::io;

use libc::c_long;

/// What happens to a call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Answer {
    /// It is not made, and returns this error.
    Fails(i32),
    /// It is made, and returns this error all the same.
    FailsLate(i32),
    /// It is not made, and returns 0: the end of a file.
    Nothing,
    /// It is made with half the length.
    Half,
}

use Answer::{Fails, FailsLate, Half, Nothing};

/// A kind of system calls.
pub(crate) struct Call {
    pub(crate) name: &'static str,
    number: c_long,
    only: Only,
    /// Whether the call is the host's where the host creates threads.
    of_threads: bool,
    /// Empty for calls of the host, and for calls that cannot fail.
    pub(crate) answers: &'static [Answer],
}

/// Which calls of that number, by the lower half of an argument.
#[derive(Clone, Copy)]
enum Only {
    All,
    Is(u32, u32),
    HasBit(u32, u32),
    AtLeast(u32, u32),
}

use Only::{All, AtLeast, HasBit, Is};

const fn call(name: &'static str, number: c_long, only: Only, answers: &'static [Answer]) -> Call {
    Call { name, number, only, of_threads: false, answers }
}

macro_rules! calls {
    ($(
        $(#[$when:meta])?
        $call:ident $($name:literal)? $(if $only:expr)? => [$($answer:expr),*] $($kind:ident)?
    ),* $(,)?) => {
        &[$($(#[$when])? calls!(@kind $($kind)? call(
            calls!(@name $call $($name)?),
            libc::$call,
            calls!(@only $($only)?),
            &[$($answer),*],
        ))),*]
    };
    (@kind $call:expr) => { $call };
    (@kind of_threads $call:expr) => { Call { of_threads: true, ..$call } };
    (@name $call:ident) => { stringify!($call) };
    (@name $call:ident $name:literal) => { $name };
    (@only) => { All };
    (@only $only:expr) => { $only };
}

/// perfmark moves the descriptors of events to this number or above.
const HIGH: u32 = 512;
const MAP_STACK: u32 = libc::MAP_STACK.cast_unsigned();
const CLONE_THREAD: u32 = libc::CLONE_THREAD.cast_unsigned();
const MADV_DONTNEED: u32 = libc::MADV_DONTNEED.cast_unsigned();
const SIG_BLOCK: u32 = libc::SIG_BLOCK.cast_unsigned();
/// `PERF_EVENT_IOC_ID`, as in the kernel's header.
const EVENT_ID: u32 = 0x8008_2407;
const F_GETFL: u32 = libc::F_GETFL.cast_unsigned();

/// The first row that fits a call applies. A call that fits no row is perfmark's, and is refused.
pub(crate) const CALLS: &[Call] = calls![
    // What the host writes, and its heap, without whose memory a program ends.
    SYS_writev if Is(0, 1) => [],
    SYS_madvise if Is(2, MADV_DONTNEED) => [],
    SYS_set_robust_list => [],
    SYS_rseq => [],
    SYS_sigaltstack => [],
    // When it creates a thread, the C library does not check whether this worked. This also spares the call for
    // SIGPIPE, which perfmark blocks while it writes.
    SYS_rt_sigprocmask if Is(0, SIG_BLOCK) => [],
    SYS_prctl => [],
    SYS_futex => [],
    SYS_tgkill => [],
    SYS_brk => [],
    SYS_wait4 => [],
    SYS_sched_yield => [],
    SYS_faccessat => [],
    // Calls that cannot fail, and calls that may only have to wait longer.
    SYS_exit => [],
    SYS_exit_group => [],
    SYS_rt_sigreturn => [],
    SYS_getpid => [],
    SYS_getrusage => [Fails(libc::EINVAL)],
    SYS_gettid => [],
    SYS_geteuid => [],
    SYS_clock_gettime => [],
    SYS_restart_syscall => [],
    // Threads and their stacks: the host's, or perfmark's.
    SYS_clone if HasBit(0, CLONE_THREAD) => [Fails(libc::EAGAIN)] of_threads,
    SYS_clone => [],
    SYS_clone3 => [Fails(libc::EAGAIN), Fails(libc::ENOSYS)] of_threads,
    SYS_mmap "mmap of a stack" if HasBit(3, MAP_STACK) => [Fails(libc::ENOMEM)] of_threads,
    SYS_mprotect => [Fails(libc::ENOMEM)] of_threads,
    // perfmark's.
    SYS_perf_event_open => [Fails(libc::EMFILE), Fails(libc::EACCES), Fails(libc::ENOSYS)],
    SYS_ioctl "ioctl(PERF_EVENT_IOC_ID)" if Is(1, EVENT_ID) => [Fails(libc::EPERM)],
    SYS_ioctl => [Fails(libc::EPERM), Fails(libc::EINVAL)],
    SYS_read "read of an event" if AtLeast(0, HIGH) => [Fails(libc::EPERM), Nothing, Fails(libc::EINTR)],
    SYS_read => [Fails(libc::EIO), Fails(libc::EINTR), Half, Nothing],
    SYS_write "write to stderr" if Is(0, 2) => [Fails(libc::EIO), Fails(libc::EINTR), Fails(libc::EAGAIN), Half],
    SYS_write "write to stdout" if Is(0, 1) => [Fails(libc::EIO), Fails(libc::EINTR), Fails(libc::EAGAIN), Half],
    SYS_write => [Fails(libc::ENOSPC), Fails(libc::EINTR), Half, Nothing],
    // Linux closes the descriptor whatever it returns (`close(2)`).
    SYS_close => [FailsLate(libc::EIO), FailsLate(libc::EINTR)],
    // Before each read of an event.
    SYS_fcntl "fcntl(F_GETFL)" if Is(1, F_GETFL) => [Fails(libc::EPERM)],
    SYS_fcntl => [Fails(libc::EMFILE), Fails(libc::EINVAL)],
    SYS_openat => [Fails(libc::EMFILE), Fails(libc::EACCES), Fails(libc::EINTR)],
    SYS_statx => [Fails(libc::EACCES), Fails(libc::ENOSYS)],
    SYS_newfstatat => [Fails(libc::EACCES)],
    SYS_getdents64 => [Fails(libc::EIO), Nothing],
    SYS_lseek => [Fails(libc::EINVAL)],
    SYS_getcwd => [Fails(libc::ENOENT)],
    #[cfg(target_arch = "x86_64")]
    SYS_readlink => [Fails(libc::ENOENT)],
    SYS_readlinkat => [Fails(libc::ENOENT)],
    SYS_fchmod => [Fails(libc::EPERM)],
    #[cfg(target_arch = "x86_64")]
    SYS_rename => [Fails(libc::EACCES), Fails(libc::ENOSPC)],
    SYS_renameat => [Fails(libc::EACCES), Fails(libc::ENOSPC)],
    #[cfg(target_arch = "x86_64")]
    SYS_unlink => [Fails(libc::EACCES)],
    SYS_unlinkat => [Fails(libc::EACCES)],
    #[cfg(target_arch = "x86_64")]
    SYS_poll => [Fails(libc::EINTR), Nothing],
    SYS_ppoll => [Fails(libc::EINTR), Nothing],
    SYS_mmap => [Fails(libc::ENOMEM), Fails(libc::EPERM)],
    SYS_munmap => [Fails(libc::ENOMEM)],
    SYS_madvise => [Fails(libc::EINVAL), Fails(libc::ENOMEM)],
    SYS_getrandom => [Fails(libc::EAGAIN), Fails(libc::ENOSYS)],
    SYS_prlimit64 => [Fails(libc::EPERM)],
    SYS_rt_sigprocmask => [Fails(libc::EPERM)],
    SYS_rt_sigpending => [Fails(libc::EPERM)],
    SYS_rt_sigtimedwait => [Fails(libc::EAGAIN), Fails(libc::EINTR)],
    SYS_rt_sigaction => [Fails(libc::EPERM)],
];

/// Any other call.
pub(crate) const OTHER: Call = call("another", -1, All, &[Fails(libc::EPERM), Fails(libc::ENOSYS)]);

/// The message that the tracer gets for it.
const OTHERS: u16 = u16::MAX;

pub(crate) fn by_message(of: u16) -> &'static Call {
    CALLS.get(usize::from(of)).unwrap_or(&OTHER)
}

impl Call {
    /// Whether it is a read of an event, or the check before each read.
    pub(crate) fn is_read_of_event(&self) -> bool {
        ["read of an event", "fcntl(F_GETFL)"].contains(&self.name)
    }

    /// A filter's verdict for this call. Other calls continue at the next row.
    fn statements(&self, verdict: u32) -> Vec<libc::sock_filter> {
        /// Offsets in `struct seccomp_data`.
        const NUMBER: u32 = 0;
        const ARGUMENTS: u32 = 16;
        const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
        let of_argument = match self.only {
            All => None,
            Is(argument, value) => Some((argument, libc::BPF_JEQ, value)),
            HasBit(argument, bit) => Some((argument, libc::BPF_JSET, bit)),
            AtLeast(argument, value) => Some((argument, libc::BPF_JGE, value)),
        };
        // Built from the end, as a jump states how much it skips.
        let mut statements = vec![statement(libc::BPF_RET | libc::BPF_K, verdict)];
        let mut test = |at: u32, comparison: u32, value: u32| {
            let skipped = u8::try_from(statements.len()).expect("small");
            let jump = statement(libc::BPF_JMP | comparison | libc::BPF_K, value);
            statements.insert(0, libc::sock_filter { jf: skipped, ..jump });
            statements.insert(0, statement(LOAD, at));
        };
        if let Some((argument, comparison, value)) = of_argument {
            // Little-endian: the lower half is first.
            test(ARGUMENTS + 8 * argument, comparison, value);
        }
        test(NUMBER, libc::BPF_JEQ, u32::try_from(self.number).expect("a number"));
        statements
    }
}

/// Which calls are reported to a tracer, beside those that are always perfmark's.
#[derive(Clone, Copy, Default)]
pub(crate) struct Sees {
    /// Reads of events, which are many.
    pub(crate) reads: bool,
    /// Calls that create threads.
    pub(crate) threads: bool,
}

impl Sees {
    /// As the value of a variable, and back.
    pub(crate) fn to_value(self) -> String {
        format!("{} {}", if self.reads { "reads" } else { "" }, if self.threads { "threads" } else { "" })
    }

    pub(crate) fn from_value(value: &str) -> Self {
        Self { reads: value.contains("reads"), threads: value.contains("threads") }
    }

    fn sees(self, call: &Call) -> bool {
        !call.answers.is_empty() && (self.reads || !call.is_read_of_event()) && (self.threads || !call.of_threads)
    }
}

/// From now on, a tracer is notified of this process's calls. Without a tracer, they fail.
pub(crate) fn filter(sees: Sees) -> io::Result<()> {
    install(libc::SECCOMP_RET_TRACE | u32::from(OTHERS), |of, call| {
        if sees.sees(call) { libc::SECCOMP_RET_TRACE | u32::from(of) } else { libc::SECCOMP_RET_ALLOW }
    })
}

/// From now on, these calls of the process fail.
pub(crate) fn forbid(names: &[&str], errno: i32) -> io::Result<()> {
    install(libc::SECCOMP_RET_ALLOW, |_, call| {
        let error = libc::SECCOMP_RET_ERRNO | errno.cast_unsigned();
        if !call.answers.is_empty() && names.contains(&call.name) { error } else { libc::SECCOMP_RET_ALLOW }
    })
}

/// Installs a filter with that verdict for the calls of each row, and with `others` for all others.
fn install(others: u32, verdict: impl Fn(u16, &Call) -> u32) -> io::Result<()> {
    let rows = (0..).zip(CALLS);
    let mut program: Vec<_> = rows.flat_map(|(of, call)| call.statements(verdict(of, call))).collect();
    program.push(statement(libc::BPF_RET | libc::BPF_K, others));
    let length = program.len().try_into().expect("short");
    let filter = libc::sock_fprog { len: length, filter: program.as_mut_ptr() };
    // SAFETY: the program is live and has that length.
    let is_installed = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter) == 0
    };
    if is_installed { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn statement(code: u32, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: u16::try_from(code).expect("small"), jt: 0, jf: 0, k }
}
