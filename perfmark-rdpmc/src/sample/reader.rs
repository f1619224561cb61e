//! Reads a ring, and waits for records.

use std::io::PipeReader;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU8, AtomicU64};
use std::sync::{MutexGuard, TryLockError};
use std::time::Duration;

use super::record::{Aux, Record};
use super::ring::Ring;
use crate::error::Error;
use crate::source::Refusal;
use crate::sys::{self, Ready};

/// Reads the records that are in a ring at the moment, the oldest first; or the newest first, if the ring is
/// [overwritten](super::Sampler::overwrite). Each record that was read makes room for new ones. An overwritten ring
/// keeps its records instead, and gets no new ones until the reader is dropped.
#[derive(Debug)]
pub struct Reader<'a> {
    ring: &'a Ring,
    record: MutexGuard<'a, Vec<u8>>,
    position: u64,
    end: u64,
}

/// A position as an index into memory whose size is a power of two.
fn index(position: u64, size: usize) -> usize {
    usize::try_from(position & (size as u64 - 1)).unwrap_or(0)
}

impl Ring {
    /// Starts to read what is in the ring now. One reader at a time; it may be on any thread.
    ///
    /// ```
    /// use perfmark_rdpmc::sample::{Body, Content, Sampler};
    /// use perfmark_rdpmc::{Attr, Software};
    ///
    /// if let Ok(ring) = Sampler::new(Attr::new(Software::PageFaults)).content(Content::ADDRESS).open() {
    ///     let memory = vec![1_u8; 1 << 20];
    ///     let mut reader = ring.reader()?;
    ///     while let Some(record) = reader.read() {
    ///         if let Body::Sample(sample) = record.body {
    ///             println!("a page fault at {:x?}", sample.address);
    ///         }
    ///     }
    ///     drop(memory);
    /// }
    /// # Ok::<(), perfmark_rdpmc::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If there is a reader already, or in a forked child.
    pub fn reader(&self) -> Result<Reader<'_>, Error> {
        let refuse = |refusal: Refusal| refusal.explain("ioctl(PAUSE_OUTPUT)", self.name());
        let Some(page) = self.mapping.page() else { return Err(refuse(Refusal::Forked)) };
        let record = match self.record.try_lock() {
            Ok(record) => record,
            // It is the last record only, which the next one replaces.
            Err(TryLockError::Poisoned(record)) => record.into_inner(),
            Err(TryLockError::WouldBlock) => {
                let why = "its ring is being read already; drop that reader first";
                return Err(Error::refused(self.name(), why));
            }
        };
        if self.is_overwritten {
            self.is_read.store(true, SeqCst);
            self.update_pause().map_err(|refusal| {
                self.is_read.store(false, SeqCst);
                refuse(refusal)
            })?;
        }
        let head = page.data_head.load(Acquire);
        let (position, end) = if self.is_overwritten {
            (head, head.wrapping_add(self.bytes() as u64))
        } else {
            (page.data_tail.load(Relaxed), head)
        };
        Ok(Reader { ring: self, record, position, end })
    }
}

impl Reader<'_> {
    /// The next record. `None` after the last one.
    ///
    /// A record that is read is copied, about a nanosecond for 8 bytes.
    pub fn read(&mut self) -> Option<Record<'_>> {
        let data = self.ring.mapping.data()?;
        let size = self.next_size(data)?;
        self.record.clear();
        for offset in (0..size as u64).step_by(8) {
            let at = self.position.wrapping_add(offset);
            let word = data[index(at, self.ring.bytes()) / 8].load(Relaxed);
            self.record.extend_from_slice(&word.to_ne_bytes());
        }
        self.position = self.position.wrapping_add(size as u64);
        if !self.ring.is_overwritten {
            self.ring.mapping.page()?.data_tail.store(self.position, Release);
        }
        self.ring.layout.records(&self.record).next()
    }

    /// The bytes of the next record, if all of it is there.
    fn next_size(&self, data: &[AtomicU64]) -> Option<usize> {
        let rest = usize::try_from(self.end.wrapping_sub(self.position)).ok()?.min(self.ring.bytes());
        if rest < 8 {
            return None;
        }
        let [.., low, high] = data[index(self.position, self.ring.bytes()) / 8].load(Relaxed).to_ne_bytes();
        let size = usize::from(u16::from_ne_bytes([low, high]));
        // What was not written yet is zero, and the oldest record may be overwritten in part.
        (size >= 8 && size.is_multiple_of(8) && size <= rest).then_some(size)
    }

    /// The ring's position after the last record that was read. Compare it with an earlier [`Ring::head`] to know which
    /// records were written before that.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.position
    }

    /// A copy of the entire AUX area, the oldest data first, for an area that is
    /// [overwritten](super::Sampler::aux_overwrite). Stop the event before, so that the hardware does not write
    /// meanwhile. What was never written is 0. Empty without such an area, and in a forked child. Not tested on a PMU
    /// with an AUX area.
    #[must_use]
    pub fn aux_snapshot(&self) -> Vec<u8> {
        let area = self.ring.aux.as_ref().filter(|_| self.ring.is_aux_overwritten);
        // In a forked child, neither the ring nor the area is mapped.
        let (Some(area), Some(_)) = (area, self.ring.mapping.page()) else { return Vec::new() };
        copied(area.data(), self.ring.aux_head(), area.data().len())
    }

    /// A copy of the data in the AUX area that a record describes. Makes room for new data. Not tested on a PMU with an
    /// AUX area.
    #[must_use]
    pub fn aux(&self, aux: &Aux) -> Vec<u8> {
        let (Some(area), Some(page)) = (&self.ring.aux, self.ring.mapping.page()) else { return Vec::new() };
        taken(area.data(), aux, (!self.ring.is_aux_overwritten).then_some(&page.aux_tail))
    }
}

/// A copy of the part of an AUX area that a record describes. Gives it back to the hardware by `tail`.
fn taken(data: &[AtomicU8], aux: &Aux, tail: Option<&AtomicU64>) -> Vec<u8> {
    let copy = copied(data, aux.offset, usize::try_from(aux.size).unwrap_or(0).min(data.len()));
    if let Some(tail) = tail {
        tail.store(aux.offset.wrapping_add(aux.size), Release);
    }
    copy
}

/// A copy of a part of an area that is written over and over.
fn copied(data: &[AtomicU8], from: u64, size: usize) -> Vec<u8> {
    (0..size).map(|n| data[index(from.wrapping_add(n as u64), data.len())].load(Relaxed)).collect()
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        if self.ring.is_overwritten {
            self.ring.is_read.store(false, SeqCst);
            // In a forked child it fails, and the parent's ring goes on.
            _ = self.ring.update_pause();
        }
    }
}

/// Waits until one of the rings is ready, its thread has ended or its event is in error state, at most for `timeout`;
/// without one, without a limit. Returns these rings; none also if a signal arrived first.
///
/// A ring in error state ends each wait at once. Leave it out of further waits, or pause between them.
///
/// ```
/// use std::time::Duration;
///
/// use perfmark_rdpmc::sample::{self, Sampler};
/// use perfmark_rdpmc::{Attr, Software};
///
/// if let Ok(ring) = Sampler::new(Attr::new(Software::TaskClock)).wakeup_events(1).open() {
///     std::hint::black_box((0..10_000_000_u64).filter(|n| n.is_power_of_two()).count());
///     for ready in sample::wait(&[&ring], Some(Duration::ZERO))? {
///         println!("ring {}: samples {}, ended {}", ready.ring, ready.is_ready, ready.has_ended);
///     }
/// }
/// # Ok::<(), perfmark_rdpmc::Error>(())
/// ```
///
/// In an event loop, wait for the ring's descriptor instead (`AsFd`, and `AsRawFd` for `mio`'s `SourceFd` and tokio's
/// `AsyncFd`). perfmark's example `ring` (`examples/service/ring.rs`) does so with tokio.
///
/// # Errors
///
/// If `poll(2)` fails, or in a forked child.
pub fn wait(rings: &[&Ring], timeout: Option<Duration>) -> Result<Vec<Ready>, Error> {
    poll(rings, None, timeout)
}

/// As [`wait`], but at most until something can be read from `wake`, or until its writer is dropped.
///
/// ```
/// use perfmark_rdpmc::sample;
///
/// let (wake, writer) = std::io::pipe()?;
/// drop(writer);
/// assert!(sample::wait_or_wake(&[], &wake, None).unwrap_or_default().is_empty());
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
///
/// As [`wait`].
pub fn wait_or_wake(rings: &[&Ring], wake: &PipeReader, timeout: Option<Duration>) -> Result<Vec<Ready>, Error> {
    poll(rings, Some(wake), timeout)
}

fn poll(rings: &[&Ring], wake: Option<&PipeReader>, timeout: Option<Duration>) -> Result<Vec<Ready>, Error> {
    let mut fds = Vec::with_capacity(rings.len());
    for ring in rings {
        fds.push(ring.source().fd().map_err(|refusal| refusal.explain("poll", ring.name()))?);
    }
    // Rounded up, so that a wait for less than a millisecond is one.
    let milliseconds = timeout.map_or(-1, |time| i32::try_from(time.as_micros().div_ceil(1_000)).unwrap_or(i32::MAX));
    sys::poll(&fds, wake, milliseconds).map_err(|errno| Error::os(errno, "poll", "rings", "see poll(2)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_begins_with_the_oldest_byte() {
        let data = [4, 5, 2, 3].map(AtomicU8::new);
        assert_eq!(copied(&data, 6, 4), [2, 3, 4, 5], "two bytes of the second round are written");
        assert_eq!(copied(&data, 4, 4), [4, 5, 2, 3]);
    }

    #[test]
    fn what_was_read_of_an_aux_area_makes_room() {
        let (data, tail) = ([4, 5, 2, 3].map(AtomicU8::new), AtomicU64::new(3));
        let aux = Aux { offset: 3, size: 3, flags: 0 };
        assert_eq!(taken(&data, &aux, None), [3, 4, 5]);
        assert_eq!(tail.load(Relaxed), 3, "an area that is overwritten needs no room");
        assert_eq!(taken(&data, &aux, Some(&tail)), [3, 4, 5]);
        assert_eq!(tail.load(Relaxed), 6);
    }
}
