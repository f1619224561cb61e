//! Wakes the collector.

use std::io::{self, PipeReader, PipeWriter, Read as _, Write as _};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::AcqRel;

use crate::platform::descriptors::Kept;

/// The collector waits for rings and for this.
pub(crate) struct WakePipe {
    reader: Kept<PipeReader>,
    writer: Kept<PipeWriter>,
    /// Whether there is a byte in the pipe, or will be.
    is_woken: AtomicBool,
}

impl WakePipe {
    pub(crate) fn new() -> io::Result<Self> {
        let (reader, writer) = io::pipe()?;
        Ok(Self { reader: Kept::new(reader), writer: Kept::new(writer), is_woken: AtomicBool::new(false) })
    }

    /// `None` if the program closed one of its ends, without which it would be ready all the time or never.
    fn ends(&self) -> Option<(&PipeReader, &PipeWriter)> {
        self.reader.get().zip(self.writer.get())
    }

    /// What is ready when the collector is woken.
    pub(crate) fn reader(&self) -> Option<&PipeReader> {
        Some(self.ends()?.0)
    }

    pub(crate) fn wake(&self) {
        // First, because the ends take a system call each.
        if !self.is_woken.swap(true, AcqRel)
            && let Some((_, mut writer)) = self.ends()
        {
            _ = writer.write_all(&[0]);
        }
    }

    /// Whether the collector was woken since the last time.
    pub(crate) fn was_woken(&self) -> bool {
        let was_woken = self.is_woken.swap(false, AcqRel);
        if let Some((mut reader, _)) = self.ends().filter(|_| was_woken) {
            // It is written, or is being written.
            _ = reader.read(&mut [0]);
        }
        was_woken
    }
}
