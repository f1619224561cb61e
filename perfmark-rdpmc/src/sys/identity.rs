//! What tells an event's descriptor from another file that has its number.
//!
//! A program may close all descriptors (`close_range(3, ~0)`, as daemons do) and get their numbers for files of its
//! own. Reading such a number would take bytes from the program's socket, or block in it; closing it would be as bad.
//! So each use of a number is preceded by a proof that does not touch the file:
//!
//! - **Flags.** When an event is opened, its file is made appending and non-blocking, which have no effect on an event.
//!   `fcntl(F_GETFL)` then gives read-write, append, non-block, and nothing else. Files that were opened by a path have
//!   `O_LARGEFILE` as well, pipes are not read-write, and nobody makes a socket append. A file that has these flags all
//!   the same does not block a read.
//! - **Id.** The kernel gives each event a number that is never used again. Each read(2) returns it together with the
//!   value, so that another event's value is never taken for this one's. Before a request or a close,
//!   `ioctl(PERF_EVENT_IOC_ID)` gives it, after the flags.
//!
//! Of the proofs that work, `F_GETFL` is the cheapest; it costs what any system call does. Medians of 401 interleaved
//! batches on an x86-64 virtual machine, linux 6.18, in units of one read(2) of a software event (285 ns):
//!
//! | what | cost | why not |
//! |---|---|---|
//! | any system call (`getppid`) | 0.36 | |
//! | `fcntl(F_GETFL)` | 0.37 | |
//! | `PERF_EVENT_IOC_ID` | 0.62 | before a read: twice the price, and a request to a file that may be another's |
//! | `fstat`, `statx` | 0.66, 0.69 | all eventfd, epoll, timerfd, inotify and perf files share one inode number |
//! | read(2) of 0 bytes: ENOSPC from events alone | 0.56 | blocks on inotify; stops background processes on a tty |
//! | `poll` | 0.67 | tells readiness, not identity |
//! | `preadv2(RWF_NOWAIT)`, `pread` | - | events refuse them: EOPNOTSUPP, ESPIPE |
//! | `io_uring`, registered file, for read(2) | +0.56 | containers forbid it; a ring for each thread |
//!
//! So a reading takes two system calls, the proof and the read(2). No single one does both:
//!
//! - `pread(2)` would be harmless: sockets, pipes, terminals, eventfd, timerfd, signalfd and inotify answer ESPIPE and
//!   lose nothing, and a regular file keeps its position. But events answer ESPIPE as well: only a file that was opened
//!   by a path may be read at a position (`FMODE_PREAD` in `do_dentry_open`, `fs/open.c`, linux 6.12). A test looks
//!   whether that is still so.
//! - No request of an event gives its value, and its page has the value of a moment at which the event went on its PMU.
//! - To leave the proof out for a while after a reading would be no promise: a program that closes a number twice, and
//!   accepts a connection in between, takes a microsecond. And what a call costs would vary with the program, so that
//!   it could not be subtracted.
//!
//! What can be saved is the number of readings: see [`group_read`](crate::group_read).
//!
//! Between the proof and what follows it, a few instructions, another thread may close the number and open another
//! file. Only `io_uring`, which holds the file itself, excludes that. What a read returns then has another id, and is
//! not taken for a value.
#![allow(unsafe_code, reason = "fcntl and ioctl have no safe form in libc")]

use std::os::fd::RawFd;

use super::IOC_ID;
use crate::arch::system_call;

/// The kernel's own name for an event, never used again. Linux before 3.12, or a filter, does not give it to requests.
type EventId = u64;

/// What is known of an event's file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Identity {
    /// The file's flags; or why it could not be given flags of its own, an errno.
    flags: Result<libc::c_int, i32>,
    id: Option<EventId>,
}

/// Set on each event's file. On a file of another kind, the combination is unheard of.
const MARK: libc::c_int = libc::O_APPEND | libc::O_NONBLOCK;

impl Identity {
    /// Marks an event's file that was just opened.
    pub(super) fn of_new(fd: RawFd) -> Self {
        let set = control(fd, libc::F_SETFL, MARK).and_then(|_| control(fd, libc::F_GETFL, 0));
        let flags = set.and_then(|flags| if flags & MARK == MARK { Ok(flags) } else { Err(libc::EOPNOTSUPP) });
        Self { flags, id: event(fd) }
    }

    /// Whether reading that number does no harm: the file there has the event's flags. One system call, which touches
    /// no file.
    #[inline]
    pub(super) fn may_read(&self, fd: RawFd) -> bool {
        matches!((self.flags, control(fd, libc::F_GETFL, 0)), (Ok(ours), Ok(flags)) if ours == flags)
    }

    /// Whether that number is the event's. Where a filter kept the file from being marked, its id decides; where there
    /// is no id, its flags.
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

    /// Why the file could not be marked, an errno: then it is never read.
    pub(super) fn why_unmarked(&self) -> Option<i32> {
        self.flags.err()
    }
}

/// `fcntl(2)`, without a change of `errno`.
#[inline]
fn control(fd: RawFd, request: libc::c_int, argument: libc::c_int) -> Result<libc::c_int, i32> {
    let number = |value: libc::c_int| usize::try_from(value).unwrap_or(usize::MAX);
    // SAFETY: requests that take numbers.
    let answer = unsafe { system_call(libc::SYS_fcntl, number(fd), number(request), number(argument)) };
    let answer = libc::c_int::try_from(answer).unwrap_or(-libc::EIO);
    if answer < 0 { Err(-answer) } else { Ok(answer) }
}

/// The event behind a descriptor, if it is one. It changes nothing, so that a forked child may ask, too.
fn event(fd: RawFd) -> Option<EventId> {
    let mut event = 0;
    // SAFETY: writes a number, which is live.
    (unsafe { libc::ioctl(fd, IOC_ID as libc::Ioctl, &raw mut event) } == 0).then_some(event)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::{AsRawFd as _, FromRawFd as _};

    use super::*;
    use crate::sys::{FLAG_EXCLUDE_HV, FLAG_EXCLUDE_KERNEL, PerfEventAttr};

    /// Were it otherwise, `pread(2)` would be the proof and the reading in one.
    #[test]
    fn events_refuse_to_be_read_at_a_position_as_sockets_do() {
        let attr = PerfEventAttr::dummy(FLAG_EXCLUDE_KERNEL | FLAG_EXCLUDE_HV);
        let (mut pair, mut numbers) = ([-1; 2], [0_u64; 4]);
        // SAFETY: a live structure of the size that it states, live memory of the stated size, and descriptors of this
        // test's own.
        unsafe {
            let event = libc::syscall(libc::SYS_perf_event_open, &raw const attr, 0, -1, -1, 0);
            if event < 0 {
                return println!("skipped: {}", std::io::Error::last_os_error());
            }
            assert_eq!(libc::socketpair(libc::AF_UNIX, libc::SOCK_STREAM, 0, pair.as_mut_ptr()), 0);
            for fd in [RawFd::try_from(event).expect("small"), pair[0], pair[1]] {
                let file = File::from_raw_fd(fd);
                let bytes = libc::pread(file.as_raw_fd(), numbers.as_mut_ptr().cast(), size_of_val(&numbers), 0);
                assert_eq!((bytes, std::io::Error::last_os_error().raw_os_error()), (-1, Some(libc::ESPIPE)));
            }
        }
    }
}
