//! File descriptors whose numbers the program may close and use for its own files, as daemons do
//! (`close_range(3, ~0)`): those that it was started with, and those that perfmark keeps open. Events are checked by
//! perfmark-rdpmc.
#![allow(unsafe_code, reason = "getrlimit, fstat, poll, and closing only what is ours")]

#[cfg(any(feature = "exporter", feature = "sampling"))]
use std::mem::ManuallyDrop;
#[cfg(all(unix, any(feature = "exporter", feature = "sampling")))]
pub(crate) use std::os::fd::AsRawFd;
#[cfg(unix)]
use std::time::Duration;

/// On other systems, where numbers are not used again.
#[cfg(all(not(unix), any(feature = "exporter", feature = "sampling")))]
pub(crate) trait AsRawFd {}
#[cfg(all(not(unix), any(feature = "exporter", feature = "sampling")))]
impl<T> AsRawFd for T {}

/// The file behind a descriptor. On Linux, each pipe and socket has its own. Two descriptors of one file have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileId {
    #[cfg(unix)]
    Of(libc::dev_t, libc::ino_t),
    #[cfg(unix)]
    Closed,
    /// The system does not say.
    Unknown,
}

impl FileId {
    #[cfg(unix)]
    pub(crate) fn of(fd: i32) -> Self {
        match stat(fd) {
            Some(stat) => Self::Of(stat.st_dev, stat.st_ino),
            None if std::io::Error::last_os_error().raw_os_error() == Some(libc::EBADF) => Self::Closed,
            None => Self::Unknown,
        }
    }

    #[cfg(not(unix))]
    pub(crate) fn of(_: i32) -> Self {
        Self::Unknown
    }

    /// Whether it is the same file now, as far as that is known. A closed number is no file.
    pub(crate) fn is_still(self, now: Self) -> bool {
        #[cfg(unix)]
        if self == Self::Closed || now == Self::Closed {
            return false;
        }
        self == now || self == Self::Unknown || now == Self::Unknown
    }
}

#[cfg(unix)]
pub(crate) fn stat(fd: i32) -> Option<libc::stat> {
    // SAFETY: a zeroed stat is a valid one, and fstat writes one; a closed descriptor is an error.
    unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        (libc::fstat(fd, &raw mut stat) == 0).then_some(stat)
    }
}

/// A descriptor that perfmark keeps open. Once its number is another file's, it is neither used nor closed.
///
/// Between the check and the use, in a few instructions, another thread may still replace it.
#[cfg(any(feature = "exporter", feature = "sampling"))]
#[derive(Debug)]
pub(crate) struct Kept<T: AsRawFd> {
    file: ManuallyDrop<T>,
    id: FileId,
}

#[cfg(any(feature = "exporter", feature = "sampling"))]
impl<T: AsRawFd> Kept<T> {
    pub(crate) fn new(file: T) -> Self {
        let id = Self::id(&file);
        Self { file: ManuallyDrop::new(file), id }
    }

    #[cfg(unix)]
    fn id(file: &T) -> FileId {
        FileId::of(file.as_raw_fd())
    }

    #[cfg(not(unix))]
    fn id(_: &T) -> FileId {
        FileId::of(0)
    }

    /// `None` once the program closed it.
    pub(crate) fn get(&self) -> Option<&T> {
        self.id.is_still(Self::id(&self.file)).then_some(&*self.file)
    }
}

#[cfg(any(feature = "exporter", feature = "sampling"))]
impl<T: AsRawFd> Drop for Kept<T> {
    fn drop(&mut self) {
        if self.get().is_some() {
            // SAFETY: dropped once, here.
            unsafe { ManuallyDrop::drop(&mut self.file) };
        }
    }
}

/// For `poll`, until something can be read.
#[cfg(all(unix, feature = "exporter"))]
pub(crate) fn readable(fd: i32) -> libc::pollfd {
    libc::pollfd { fd, events: libc::POLLIN, revents: 0 }
}

/// Waits until one is ready, for that time at most. Returns how many are; 0 if the time has passed.
#[cfg(unix)]
pub(crate) fn poll(entries: &mut [libc::pollfd], at_most: Duration) -> i32 {
    // Rounded up.
    let milliseconds = i32::try_from(at_most.as_micros().div_ceil(1_000)).unwrap_or(i32::MAX);
    // SAFETY: as many live entries as stated.
    unsafe { libc::poll(entries.as_mut_ptr(), entries.len() as libc::nfds_t, milliseconds) }
}

/// The most descriptors that the process may have; a guess if it is unknown.
#[cfg(feature = "sampling")]
pub(crate) fn limit() -> usize {
    #[cfg(unix)]
    {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: a live variable, which receives the limits.
        if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } == 0 {
            return usize::try_from(limit.rlim_cur).unwrap_or(usize::MAX);
        }
    }
    1_024
}
