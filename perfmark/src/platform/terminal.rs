//! The process's stdout and stderr, to which perfmark writes messages and reports.
//!
//! They are used only as long as they are what the program was started with: a daemon that closes stderr and opens its
//! own file gets the number for it. Writing bypasses the locks of the standard library's handles, which a thread that
//! still runs may hold while the process ends. There may be no reader: a write to a pipe or a terminal has a time
//! limit.
#![allow(unsafe_code, reason = "writing to descriptors that are not ours, and signal masks")]

#[cfg(unix)]
use std::fs::File;
use std::io;
#[cfg(not(unix))]
use std::io::Write as _;
#[cfg(unix)]
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::sync::OnceLock;
#[cfg(unix)]
use std::sync::atomic::AtomicU32;
#[cfg(unix)]
use std::sync::atomic::Ordering::Relaxed;
#[cfg(unix)]
use std::time::{Duration, Instant};

use super::descriptors::FileId;
#[cfg(unix)]
use super::descriptors::{poll, stat};
use super::thread_id::process_id;

pub(crate) const STDOUT: i32 = 1;
pub(crate) const STDERR: i32 = 2;

/// What stdout and stderr were when the program started.
static AT_START: OnceLock<[FileId; 2]> = OnceLock::new();
/// What another descriptor was that a setting names, as in `/dev/fd/9`.
static NAMED: OnceLock<(i32, FileId)> = OnceLock::new();

/// Remembers what stdout and stderr are.
pub(crate) fn remember() {
    AT_START.get_or_init(|| [STDOUT, STDERR].map(FileId::of));
}

/// Remembers what the descriptor is that a setting names, if it names one.
pub(crate) fn remember_named(path: &Path) {
    if let Some(fd) = descriptor(path) {
        _ = NAMED.set((fd, FileId::of(fd)));
    }
}

/// The number in a path of this process's descriptors, such as `/proc/self/fd/9`.
fn descriptor(path: &Path) -> Option<i32> {
    let own = format!("/proc/{}", process_id());
    let is_own = ["/dev/fd", "/proc/self", "/proc/thread-self", &own].iter().any(|start| path.starts_with(start));
    path.file_name().filter(|_| is_own)?.to_str()?.parse().ok()
}

/// Whether this is still the file of the descriptor when the program started, as far as that is known.
fn is_unchanged(fd: i32, now: FileId) -> bool {
    remember();
    let before = match (fd, AT_START.get(), NAMED.get()) {
        (STDOUT | STDERR, Some(known), _) => known[usize::from(fd == STDERR)],
        (_, _, Some((named, before))) if *named == fd => *before,
        _ => return true,
    };
    before.is_still(now)
}

/// Writes one line on stderr.
pub(crate) fn say(message: &str) {
    write_all(STDERR, &format!("perfmark: {message}\n"));
}

/// Columns of a report that does not go to a terminal.
pub(crate) const DEFAULT_WIDTH: usize = 100;

/// How long a process waits for the readers of its stdout and stderr, in all until something was written completely;
/// and for each file that it writes in place.
#[cfg(unix)]
const TIMEOUT_MS: u32 = 5_000;

/// Milliseconds that this process has waited for readers of stdout and stderr.
#[cfg(unix)]
static WAITED_MS: AtomicU32 = AtomicU32::new(0);

/// Writes to a descriptor. The program need not know about a closed or broken one.
pub(crate) fn write_all(fd: i32, text: &str) {
    _ = write_own(fd, text);
}

/// Writes a report to a descriptor, and reports how much was not written because nobody read it. A report that cannot
/// be written on stdout goes to stderr, unless the reader of stdout has ended.
pub(crate) fn print_report(fd: i32, text: &str) {
    let Err(Unwritten { left, why }) = write_own(fd, text) else { return };
    match why.kind() {
        io::ErrorKind::NotFound if fd == STDOUT => say(
            "stdout is another file than when the program started, so it gets no report; set PERFMARK_OUTPUT to a file",
        ),
        io::ErrorKind::WouldBlock => {
            // Its last line may be cut.
            let start = if fd == STDERR && left < text.len() { "\n" } else { "" };
            let (all, why) = (text.len(), "the reader did not read them in time; set PERFMARK_OUTPUT to a file");
            let message = format!("{start}perfmark: {left} of {all} bytes of the report were not written: {why}\n");
            write_all(STDERR, &message);
        }
        io::ErrorKind::BrokenPipe => {}
        _ if fd == STDOUT => {
            say(&format!("PERFMARK_OUTPUT=-: {why}; the report follows"));
            print_report(STDERR, text);
        }
        _ => {}
    }
}

/// What was not written, and why.
struct Unwritten {
    left: usize,
    why: io::Error,
}

/// Writes to an existing device, pipe or link to a descriptor. A pipe without a reader is an error; it does not wait
/// for one.
#[cfg(unix)]
pub(crate) fn write_in_place(path: &Path, is_link: bool, text: &str) -> io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let follow = if is_link { 0 } else { libc::O_NOFOLLOW };
    let file = std::fs::OpenOptions::new().append(true).custom_flags(libc::O_NONBLOCK | follow).open(path)?;
    let fd = file.as_raw_fd();
    if descriptor(path).is_some_and(|named| is_link && !is_unchanged(named, FileId::of(fd))) {
        return Err(io::Error::other("the descriptor is another file than when the program started"));
    }
    write(fd, Sink::to(fd, None), text.as_bytes(), &AtomicU32::new(0)).map_err(|unwritten| unwritten.why)
}

#[cfg(not(unix))]
pub(crate) fn write_in_place(path: &Path, _: bool, text: &str) -> io::Result<()> {
    std::fs::OpenOptions::new().append(true).open(path)?.write_all(text.as_bytes())
}

fn write_own(fd: i32, text: &str) -> Result<(), Unwritten> {
    if !is_unchanged(fd, FileId::of(fd)) {
        return Err(Unwritten { left: text.len(), why: io::ErrorKind::NotFound.into() });
    }
    write_now(fd, text)
}

#[cfg(unix)]
fn write_now(fd: i32, text: &str) -> Result<(), Unwritten> {
    write(fd, Sink::to(fd, reopened(fd)), text.as_bytes(), &WAITED_MS)
}

#[cfg(not(unix))]
fn write_now(fd: i32, text: &str) -> Result<(), Unwritten> {
    let text = text.as_bytes();
    let written = if fd == STDOUT { io::stdout().write_all(text) } else { io::stderr().write_all(text) };
    written.map_err(|why| Unwritten { left: text.len(), why })
}

/// How to write to a descriptor without blocking.
#[cfg(unix)]
enum Sink {
    /// A file, which needs no reader.
    File,
    Socket,
    /// A pipe or a terminal, and a descriptor of it that does not block, if there is one.
    Pipe(Option<File>),
}

/// Opens a pipe or a terminal again: perfmark may make this descriptor non-blocking, while others share the one that
/// the process was given. `None` if it cannot be opened; a pipe may then still block if another process fills it at the
/// same time.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn reopened(fd: i32) -> Option<File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let stat = stat(fd)?;
    if stat.st_mode & libc::S_IFMT != libc::S_IFIFO && !is_terminal(fd) {
        return None;
    }
    let mut options = File::options();
    options.append(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY);
    let file = options.open(format!("/proc/self/fd/{fd}")).ok()?;
    // What is mounted at /proc may be something else.
    let opened = super::descriptors::stat(file.as_raw_fd())?;
    ((opened.st_dev, opened.st_ino) == (stat.st_dev, stat.st_ino)).then_some(file)
}

#[cfg(all(unix, not(any(target_os = "linux", target_os = "android"))))]
fn reopened(_: i32) -> Option<File> {
    None
}

#[cfg(unix)]
impl Sink {
    fn to(fd: i32, reopened: Option<File>) -> Self {
        match stat(fd).map(|stat| stat.st_mode & libc::S_IFMT) {
            Some(libc::S_IFSOCK) => Self::Socket,
            Some(libc::S_IFIFO) => Self::Pipe(reopened),
            Some(libc::S_IFCHR) if is_terminal(fd) => Self::Pipe(reopened),
            _ => Self::File,
        }
    }

    /// Writes what can be written now, at least one byte; otherwise returns `WouldBlock`.
    fn write(&self, fd: i32, bytes: &[u8]) -> io::Result<usize> {
        /// What a pipe takes at once after poll(2) has said that it is writable (`pipe(7)`): more may block.
        const AT_ONCE: usize = 4096;
        let part = &bytes[..bytes.len().min(AT_ONCE)];
        // SAFETY: live bytes; a closed descriptor is an error.
        let written = unsafe {
            match self {
                Self::File => libc::write(fd, bytes.as_ptr().cast(), bytes.len()),
                Self::Socket => libc::send(fd, part.as_ptr().cast(), part.len(), libc::MSG_DONTWAIT),
                Self::Pipe(Some(own)) => libc::write(own.as_raw_fd(), part.as_ptr().cast(), part.len()),
                Self::Pipe(None) if is_writable(fd) => libc::write(fd, part.as_ptr().cast(), part.len()),
                Self::Pipe(None) => return Err(io::ErrorKind::WouldBlock.into()),
            }
        };
        usize::try_from(written).map(|written| written.min(bytes.len())).map_err(|_| io::Error::last_os_error())
    }
}

/// Whether poll(2) reports that a write would not block, even if it would fail.
#[cfg(unix)]
fn is_writable(fd: i32) -> bool {
    poll(&mut [libc::pollfd { fd, events: libc::POLLOUT, revents: 0 }], Duration::ZERO) > 0
}

#[cfg(unix)]
fn write(fd: i32, mut sink: Sink, mut bytes: &[u8], waited_ms: &AtomicU32) -> Result<(), Unwritten> {
    let _signals = SuppressedSignals::new();
    while !bytes.is_empty() {
        let written = match sink.write(fd, bytes) {
            Ok(0) => Err(io::ErrorKind::WriteZero.into()),
            written => written,
        };
        match written {
            Ok(written) => bytes = &bytes[written..],
            Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
            Err(why) if why.kind() != io::ErrorKind::WouldBlock => match sink {
                Sink::Pipe(Some(_)) => sink = Sink::Pipe(None),
                _ => return Err(Unwritten { left: bytes.len(), why }),
            },
            Err(why) => {
                let timeout = TIMEOUT_MS.saturating_sub(waited_ms.load(Relaxed));
                if timeout == 0 {
                    return Err(Unwritten { left: bytes.len(), why });
                }
                let start = Instant::now();
                let entry = libc::pollfd { fd, events: libc::POLLOUT, revents: 0 };
                let ready = poll(&mut [entry], Duration::from_millis(timeout.into()));
                // The clock of the C library may stand still, and a signal ends a wait.
                let elapsed = u32::try_from(start.elapsed().as_millis()).unwrap_or(TIMEOUT_MS);
                let waited = if ready == 0 { timeout } else { elapsed };
                // At least 1 ms each time, so that a descriptor that is writable but accepts nothing ends as well.
                waited_ms.fetch_add(waited.clamp(1, TIMEOUT_MS), Relaxed);
            }
        }
    }
    // The reader is alive again.
    waited_ms.store(0, Relaxed);
    Ok(())
}

/// Blocks the signals that writing may raise on this thread, and removes those that it raised. A report without a
/// reader, or one that exceeds the limit on file sizes (`setrlimit(2)`), must not end the program.
pub(crate) struct SuppressedSignals {
    /// The thread's previous mask.
    #[cfg(unix)]
    before: Option<libc::sigset_t>,
    /// Signals that were pending before, and must stay so.
    #[cfg(unix)]
    pending: [bool; RAISED.len()],
}

#[cfg(unix)]
const RAISED: [libc::c_int; 2] = [libc::SIGPIPE, libc::SIGXFSZ];

#[cfg(not(unix))]
impl SuppressedSignals {
    pub(crate) fn new() -> Self {
        Self {}
    }
}

#[cfg(unix)]
impl SuppressedSignals {
    pub(crate) fn new() -> Self {
        let pending = Self::pending();
        // SAFETY: live sets.
        let before = unsafe {
            let mut before: libc::sigset_t = std::mem::zeroed();
            let blocked = libc::pthread_sigmask(libc::SIG_BLOCK, &Self::set(&RAISED), &raw mut before);
            (blocked == 0).then_some(before)
        };
        Self { before, pending }
    }

    fn set(signals: &[libc::c_int]) -> libc::sigset_t {
        // SAFETY: sigemptyset makes any memory a set; these are signals.
        unsafe {
            let mut set = std::mem::zeroed();
            libc::sigemptyset(&raw mut set);
            for &signal in signals {
                libc::sigaddset(&raw mut set, signal);
            }
            set
        }
    }

    fn pending() -> [bool; RAISED.len()] {
        // SAFETY: a live set.
        unsafe {
            let mut pending: libc::sigset_t = std::mem::zeroed();
            libc::sigpending(&raw mut pending);
            RAISED.map(|signal| libc::sigismember(&raw const pending, signal) == 1)
        }
    }
}

#[cfg(unix)]
impl Drop for SuppressedSignals {
    fn drop(&mut self) {
        let Some(before) = self.before else { return };
        for ((signal, now), before) in RAISED.into_iter().zip(Self::pending()).zip(self.pending) {
            if now && !before {
                let mut taken = 0;
                // SAFETY: live memory. Waiting for a pending signal removes it without blocking.
                unsafe { libc::sigwait(&Self::set(&[signal]), &raw mut taken) };
            }
        }
        // SAFETY: the set that was in force.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut()) };
    }
}

/// The columns of the terminal, within the range that a table supports.
pub(crate) fn width_of(fd: i32) -> Option<usize> {
    terminal_columns(fd).map(|columns| columns.clamp(80, 200))
}

/// Whether it is a terminal.
#[cfg(unix)]
pub(crate) fn is_terminal(fd: i32) -> bool {
    // SAFETY: it touches no memory; a closed descriptor is not a terminal.
    unsafe { libc::isatty(fd) == 1 }
}

#[cfg(not(unix))]
pub(crate) fn is_terminal(_: i32) -> bool {
    false
}

#[cfg(unix)]
fn terminal_columns(fd: i32) -> Option<usize> {
    // SAFETY: a zeroed winsize is a valid one, and TIOCGWINSZ writes one.
    let size = unsafe {
        let mut size: libc::winsize = std::mem::zeroed();
        (libc::ioctl(fd, libc::TIOCGWINSZ, &raw mut size) == 0).then_some(size)
    };
    size.map(|size| size.ws_col.into()).filter(|&columns| columns > 0)
}

#[cfg(not(unix))]
fn terminal_columns(_: i32) -> Option<usize> {
    None
}
