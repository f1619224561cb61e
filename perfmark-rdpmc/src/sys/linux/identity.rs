//! Distinguishes an event's descriptor from another file that has its number.
//!
//! A program may close all descriptors (`close_range(3, ~0)`, as daemons do) and get their numbers for its own files.
//! Reading such a number would take bytes from the program's socket, or block in it; closing it would be as bad. Before
//! each use of a number, a check therefore verifies it without touching the file:
//!
//! - **Flags.** When an event is opened, its file is made appending and non-blocking, which has no effect on an event.
//!   `fcntl(F_GETFL)` then returns read-write, append, non-block, and nothing else. Files that were opened by a path
//!   have `O_LARGEFILE` as well, pipes are not read-write, and programs do not make sockets appending. If a file has
//!   these flags all the same, a read of it does not block.
//! - **Id.** The kernel assigns each event an id that is never reused. Each read(2) returns it with the value, so
//!   another event's value is never taken for this one's. Before a request or a close, `ioctl(PERF_EVENT_IOC_ID)`
//!   returns it, after the flags were checked.
//!
//! Of the checks that work, `F_GETFL` is the cheapest; it costs as much as any system call. Medians of 401 interleaved
//! batches on an x86-64 virtual machine, linux 6.18, in units of one read(2) of a software event (285 ns):
//!
//! | what | cost | why not |
//! |---|---|---|
//! | any system call (`getppid`) | 0.36 | |
//! | `fcntl(F_GETFL)` | 0.37 | |
//! | `PERF_EVENT_IOC_ID` | 0.62 | before a read: twice the cost, and a request on a file that may be another's |
//! | `fstat`, `statx` | 0.66, 0.69 | all eventfd, epoll, timerfd, inotify and perf files share one inode number |
//! | read(2) of 0 bytes: ENOSPC from events alone | 0.56 | blocks on inotify; stops background processes on a tty |
//! | `poll` | 0.67 | shows readiness, not identity |
//! | `preadv2(RWF_NOWAIT)` | - | events refuse it: EOPNOTSUPP |
//! | `io_uring`, registered file, for read(2) | +0.56 | containers forbid it; a ring for each thread |
//!
//! A reading therefore takes two system calls, the check and the read(2). No single call does both:
//!
//! - `pread(2)` would be harmless, as most other files refuse it. But events do so as well: only a file that was opened
//!   by a path may be read at a position (`FMODE_PREAD` in `do_dentry_open`, `fs/open.c`, linux 6.12).
//! - No request returns an event's value, and its page contains the value from when the event was put on its PMU.
//! - Skipping the check for a while after a reading would break the guarantee: a program that closes a number twice,
//!   and accepts a connection in between, needs only a microsecond. The cost of a call would also vary with the
//!   program, so it could not be subtracted.
//!
//! The number of readings can be reduced instead: see [`group_read`](crate::group_read).
//!
//! Between the check and the operation, in a few instructions, another thread may close the number and open another
//! file. Only `io_uring`, which holds the file itself, excludes that. The result of such a read has another id, and is
//! not used as a value.
#![allow(unsafe_code, reason = "fcntl and ioctl have no safe form in libc")]

use std::os::fd::RawFd;

use super::super::IOC_ID;
use crate::arch::system_call;

/// The kernel's id of an event, never reused. `None` from requests on linux before 3.12, or behind a filter.
type EventId = u64;

/// The known properties of an event's file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Identity {
    /// The file's flags; or the errno if they could not be set.
    flags: Result<libc::c_int, i32>,
    id: Option<EventId>,
}

/// Set on each event's file. This combination is practically never used on other files.
const MARK: libc::c_int = libc::O_APPEND | libc::O_NONBLOCK;

impl Identity {
    /// Marks the file of an event that was just opened.
    pub(super) fn of_new(fd: RawFd) -> Self {
        let set = control(fd, libc::F_SETFL, MARK).and_then(|_| control(fd, libc::F_GETFL, 0));
        let flags = set.and_then(|flags| if flags & MARK == MARK { Ok(flags) } else { Err(libc::EOPNOTSUPP) });
        Self { flags, id: event(fd) }
    }

    /// Makes the file send a signal when it becomes ready. Returns its new identity.
    pub(super) fn made_async(&self, fd: RawFd) -> Result<Self, i32> {
        control(fd, libc::F_SETFL, MARK | libc::O_ASYNC)?;
        Ok(Self { flags: control(fd, libc::F_GETFL, 0), ..*self })
    }

    /// Whether reading that number is harmless: the file has the event's flags. One system call, which does not touch
    /// the file.
    #[inline]
    pub(super) fn may_read(&self, fd: RawFd) -> bool {
        matches!((self.flags, control(fd, libc::F_GETFL, 0)), (Ok(ours), Ok(flags)) if ours == flags)
    }

    /// Whether that number is the event's. If a filter prevented marking the file, its id decides; if there is no id,
    /// its flags decide.
    pub(super) fn is_of(&self, fd: RawFd) -> bool {
        let has_flags = self.may_read(fd);
        match self.id {
            Some(id) => (has_flags || self.flags.is_err()) && event(fd) == Some(id),
            None => has_flags,
        }
    }

    /// Whether a read's value is this event's.
    #[inline]
    pub(super) fn is(&self, id: EventId) -> bool {
        self.id.is_none_or(|own| own == id)
    }

    /// Whether the event's id is known.
    pub(super) fn is_known(&self) -> bool {
        self.id.is_some()
    }

    /// Why the file could not be marked, an errno. It is then never read.
    pub(super) fn why_unmarked(&self) -> Option<i32> {
        self.flags.err()
    }
}

/// `fcntl(2)`, without changing `errno`.
#[inline]
fn control(fd: RawFd, request: libc::c_int, argument: libc::c_int) -> Result<libc::c_int, i32> {
    let number = |value: libc::c_int| usize::try_from(value).unwrap_or(usize::MAX);
    // SAFETY: requests whose arguments are numbers.
    let answer = unsafe { system_call(libc::SYS_fcntl, number(fd), number(request), number(argument)) };
    let answer = libc::c_int::try_from(answer).unwrap_or(-libc::EIO);
    if answer < 0 { Err(-answer) } else { Ok(answer) }
}

/// The id of a descriptor's event, if it has one. This changes nothing, so a forked child may call it as well.
fn event(fd: RawFd) -> Option<EventId> {
    let mut event = 0;
    // SAFETY: writes to a live number.
    (unsafe { libc::ioctl(fd, IOC_ID as libc::Ioctl, &raw mut event) } == 0).then_some(event)
}
