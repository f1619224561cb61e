//! Waking one of perfmark's own threads.
#![cfg_attr(unix, allow(unsafe_code, reason = "fcntl"))]

use std::io::{self, PipeReader, PipeWriter, Read as _, Write as _};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use super::descriptors::Kept;
#[cfg(unix)]
use super::descriptors::{AsRawFd as _, poll, readable};

/// The longest time until a thread sees that the program closed perfmark's descriptors, of which poll(2) says nothing;
/// on other systems, that it was woken.
pub(crate) const LOOKS: Duration = Duration::from_millis(if cfg!(unix) { 1_000 } else { 10 });

/// Wakes a thread that waits for it. The kernel measures the time of each wait (`poll(2)`), because the clock of the C
/// library may be replaced by one that stands still.
#[derive(Debug)]
pub(crate) struct Alarm {
    has_rung: AtomicBool,
    reader: Kept<PipeReader>,
    writer: Kept<PipeWriter>,
}

impl Alarm {
    pub(crate) fn new() -> io::Result<Self> {
        let (reader, writer) = io::pipe()?;
        #[cfg(unix)]
        for fd in [reader.as_raw_fd(), writer.as_raw_fd()] {
            // SAFETY: it takes no pointers.
            if unsafe { libc::fcntl(fd, libc::F_SETFL, libc::O_NONBLOCK) } != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(Self { has_rung: AtomicBool::new(false), reader: Kept::new(reader), writer: Kept::new(writer) })
    }

    /// Wakes the thread now, or as soon as it waits.
    pub(crate) fn ring(&self) {
        self.has_rung.store(true, SeqCst);
        // A full pipe wakes it as well.
        #[cfg(unix)]
        let _ = self.writer.get().map(|mut writer| writer.write(&[0]));
    }

    /// Whether it has rung.
    #[cfg(feature = "exporter")]
    pub(crate) fn has_rung(&self) -> bool {
        self.has_rung.load(SeqCst)
    }

    /// The pipe that becomes readable; `None` once the program closed it.
    #[cfg(any(unix, feature = "sampling"))]
    pub(crate) fn pipe(&self) -> Option<&PipeReader> {
        self.reader.get()
    }

    /// Waits until it rings, or for that time.
    pub(crate) fn wait(&self, at_most: Option<Duration>) {
        let mut left = at_most;
        while !self.has_rung.swap(false, SeqCst) {
            if left.is_some_and(|left| left.is_zero()) {
                return;
            }
            let part = left.map_or(LOOKS, |left| left.min(LOOKS));
            if self.sleep(part) {
                left = left.map(|left| left.saturating_sub(part));
            }
        }
    }

    /// Returns whether the time has passed.
    #[cfg(unix)]
    fn sleep(&self, time: Duration) -> bool {
        let pipe = self.pipe();
        let mut entry = pipe.map(|pipe| readable(pipe.as_raw_fd()));
        let has_passed = poll(entry.as_mut_slice(), time) == 0;
        _ = pipe.map(|mut pipe| pipe.read(&mut [0; 64]));
        has_passed
    }

    #[cfg(not(unix))]
    fn sleep(&self, time: Duration) -> bool {
        std::thread::sleep(time);
        true
    }
}
