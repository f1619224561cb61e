//! The time that a thread was not on a CPU, without a system call where there was none.
//!
//! The kernel writes a record of each switch from and to the thread into a ring. It updates the lock of the ring's page
//! when the thread is put on a CPU. While the lock is unchanged, the thread was on its CPU all the time.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::error::Error;
use crate::region::NO_PAGE;
use crate::sample::{Clock, Content, Records, Ring, Sampler};
use crate::sys::MmapPage;

/// Nanoseconds in which a thread was not on a CPU, by the reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OffCpuTime {
    /// The thread waited, for example for a lock, for input, or for a time. It includes the time from the end of the
    /// wait until the thread was put on a CPU.
    pub blocked: u64,
    /// The thread could run, and the kernel ran another one.
    pub preempted: u64,
}

impl OffCpuTime {
    /// Both together.
    #[must_use]
    pub fn total(self) -> u64 {
        self.blocked + self.preempted
    }
}

/// The time that the calling thread was not on a CPU.
///
/// ```
/// use perfmark_rdpmc::OffCpu;
/// use std::time::Duration;
///
/// let off_cpu = match OffCpu::open() {
///     Ok(off_cpu) => off_cpu,
///     Err(why) => return eprintln!("{why}"),
/// };
/// let before = off_cpu.read();
/// std::thread::sleep(Duration::from_millis(5));
/// let time = off_cpu.read().since(&before).expect("there was one switch");
/// assert!(time.blocked >= 5_000_000);
/// ```
///
/// It requires no PMU, and no permission if `kernel.perf_event_paranoid` is 2 or below. Debian's 3 and Ubuntu's 4
/// require `CAP_SYS_ADMIN`. It takes five pages of [locked memory](crate::support::LockedMemory::rings).
/// [`read`](Self::read) takes a few instructions if the thread was not switched since the last time, and makes no
/// system call. Leaving a CPU and returning takes the thread 0.4 µs longer (x86-64 virtual machine, linux 6.18).
///
/// In a forked child, the time no longer grows, and no reading there has a difference to one of the parent's.
#[derive(Debug)]
pub struct OffCpu {
    ring: Ring,
    /// The lock of the ring's page when it was last read.
    seen: Cell<u32>,
    /// All time off the CPU, and its parts: blocked and preempted.
    times: [Cell<u64>; 3],
    /// How often records were lost.
    losses: Cell<u64>,
    /// Whether the last records read showed that others are missing. The kernel reports that loss in its next record.
    is_noticed: Cell<bool>,
    /// It is about the thread that opened it.
    of_thread: PhantomData<*const ()>,
}

/// A thread's time off the CPU at one moment, since [`OffCpu::open`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffCpuReading {
    time: OffCpuTime,
    losses: u64,
}

impl OffCpuReading {
    /// The time off the CPU since an earlier reading of the same [`OffCpu`]. `None` if the kernel had no room for the
    /// records of all switches meanwhile, or if `before` is the later reading.
    #[must_use]
    pub fn since(&self, before: &Self) -> Option<OffCpuTime> {
        let is_complete = self.losses == before.losses;
        Some(OffCpuTime {
            blocked: self.time.blocked.checked_sub(before.time.blocked).filter(|_| is_complete)?,
            preempted: self.time.preempted.checked_sub(before.time.preempted)?,
        })
    }
}

impl OffCpu {
    /// Pages of records: 512 intervals off the CPU between two readings.
    const PAGES: usize = 4;
    /// How often [`read_with`](Self::read_with) reads.
    const TRIES: usize = 10;

    /// Records the context switches of the calling thread from now on. It takes 11 to 24 µs (x86-64 virtual machine,
    /// linux 6.18).
    ///
    /// # Errors
    ///
    /// As [`Sampler::open`]: most likely that locked memory is spent, with the number of rings that fit.
    pub fn open() -> Result<Self, Error> {
        // The clock by which ticks become nanoseconds. Otherwise time off the CPU could exceed `time`: NTP adjusts this
        // clock by up to 500 ppm (`adjtimex(2)`), and not CLOCK_MONOTONIC_RAW.
        let sampler = Sampler::dummy().records(Records::CONTEXT_SWITCH).content(Content::TIME).clock(Clock::Monotonic);
        sampler.pages(Self::PAGES).open_with("record the time off the CPU of fewer threads").map(Self::of)
    }

    /// Counts from now on, and not the switches since the ring was opened.
    fn of(ring: Ring) -> Self {
        // No lock has this odd value, so the ring is read.
        let seen = Cell::new(u32::MAX);
        let (losses, is_noticed) = (Cell::new(0), Cell::new(false));
        let off_cpu = Self { ring, seen, times: Default::default(), losses, is_noticed, of_thread: PhantomData };
        off_cpu.catch_up();
        Self { times: Default::default(), ..off_cpu }
    }

    /// The time off the CPU until now.
    pub fn read(&self) -> OffCpuReading {
        self.catch_up();
        let [_, blocked, preempted] = self.times.each_ref().map(Cell::get);
        OffCpuReading { time: OffCpuTime { blocked, preempted }, losses: self.losses.get() }
    }

    /// Reads the records since the last time. Returns `false` if the kernel had no room for all of them; the next
    /// records are then complete again. It allocates nothing.
    #[doc(hidden)]
    #[inline]
    pub fn catch_up(&self) -> bool {
        let lock = self.ring.lock();
        lock == self.seen.replace(lock) || self.read_records()
    }

    /// A number that each context switch changes.
    #[doc(hidden)]
    #[must_use]
    pub fn lock(&self) -> u32 {
        self.ring.lock()
    }

    /// Whether the thread was not switched since the last [`catch_up`](Self::catch_up).
    pub(crate) fn is_caught_up(&self) -> bool {
        self.ring.lock() == self.seen.get()
    }

    /// Catches up, then calls `read`. Repeats both if the thread was switched meanwhile, so that all values are of one
    /// moment; a few times at most, because a debugger may stop the thread each time. Calls `before` before the times
    /// change, and `on_loss` if records were lost.
    #[doc(hidden)]
    #[inline]
    pub fn read_with<T>(&self, mut before: impl FnMut(), mut on_loss: impl FnMut(), mut read: impl FnMut() -> T) -> T {
        let mut tries = 1;
        loop {
            if !self.is_caught_up() {
                before();
                if !self.catch_up() {
                    on_loss();
                }
            }
            let (lock, losses, value) = (self.seen.get(), self.losses.get(), read());
            if self.losses.get() != losses {
                on_loss();
            }
            if self.ring.lock() == lock || tries == Self::TRIES {
                return value;
            }
            tries += 1;
        }
    }

    /// The time until the last [`catch_up`](Self::catch_up): all of it, blocked, and preempted.
    #[doc(hidden)]
    #[must_use]
    pub fn times(&self) -> &[Cell<u64>; 3] {
        &self.times
    }

    /// The lock value for which the times are valid, and the page that contains the lock.
    pub(crate) fn remembered(&self) -> (u64, *const MmapPage) {
        let page = self.ring.mapping.page().map_or(&NO_PAGE, |page| &page.start);
        (self.seen.get().into(), page)
    }

    #[cold]
    #[inline(never)]
    fn read_records(&self) -> bool {
        let mapping = &self.ring.mapping;
        let is_complete = if let (Some(page), Some(data)) = (mapping.page(), mapping.data()) {
            let (tail, head) = (page.data_tail.load(Relaxed), page.data_head.load(Acquire));
            let word = |at: u64| data[usize::try_from(at / 8).unwrap_or(0) % data.len()].load(Relaxed);
            let is_complete = self.add(tail, head, mapping.data_bytes() as u64, word);
            page.data_tail.store(head, Release);
            is_complete
        } else {
            // A forked child. No lock has this odd value, so the next call comes here as well.
            self.seen.set(u32::MAX);
            false
        };
        if !is_complete {
            self.losses.set(self.losses.get() + 1);
        }
        is_complete
    }

    /// Adds the switches between two positions of a ring with that many bytes, whose words `word` returns. Returns
    /// `false` if some are missing.
    fn add(&self, tail: u64, head: u64, bytes: u64, word: impl Fn(u64) -> u64) -> bool {
        // `PERF_RECORD_LOST`, `PERF_RECORD_SWITCH`, and flags of the latter: `PERF_RECORD_MISC_SWITCH_OUT` and
        // `PERF_RECORD_MISC_SWITCH_OUT_PREEMPT` (`include/uapi/linux/perf_event.h`).
        const LOST: u64 = 2;
        const KIND: u64 = 14;
        const OUT: u64 = 1 << 13;
        const PREEMPTED: u64 = 1 << 14;
        // Header and time. All records of this ring are multiples of it, so none is in two parts.
        const SWITCH: u64 = 16;
        // Without room for one record, the kernel may have dropped the last ones (`__perf_output_begin` in
        // `kernel/events/ring_buffer.c` leaves one byte free).
        let is_full = head.wrapping_sub(tail) >= bytes.saturating_sub(SWITCH);
        let (is_noticed, mut is_complete) = (self.is_noticed.get(), !is_full);
        let (mut at, mut left) = (tail, None);
        while at < head {
            let [kind, misc, size] = [word(at) & 0xffff_ffff, word(at) >> 32 & 0xffff, word(at) >> 48];
            let time = word(at + 8);
            if kind == LOST && at == tail && is_noticed {
                // The loss that was noticed the last time.
            } else if kind != KIND || size != SWITCH {
                // Another loss, or a record that this ring should not contain.
                is_complete = false;
            } else if misc & OUT != 0 {
                left = Some((time, misc & PREEMPTED != 0));
            } else if let Some((since, is_preempted)) = left.take() {
                let away = time.saturating_sub(since);
                for time in [&self.times[0], &self.times[if is_preempted { 2 } else { 1 }]] {
                    time.set(time.get() + away);
                }
            }
            at += size.max(SWITCH);
        }
        // The thread runs now, so the record of its return is there, or lost.
        let is_lost = is_full || left.is_some();
        if head != tail {
            self.is_noticed.set(is_lost);
        }
        is_complete && !is_lost
    }
}

#[cfg(all(test, target_os = "linux", not(any(miri, perfmark_unsupported))))]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    const OUT: u64 = IN | 1 << 45;
    const PREEMPTED: u64 = OUT | 1 << 46;
    const IN: u64 = 0x0010_0000_0000_000e;
    /// Header, time, id and number of `PERF_RECORD_LOST`.
    const LOST: [u64; 4] = [0x0020_0000_0000_0002, 9, 0, 3];

    /// Adds a ring of 128 bytes that starts with these words, and returns whether it is complete.
    fn add(off_cpu: &OffCpu, words: &[u64]) -> bool {
        off_cpu.add(0, 8 * words.len() as u64, 128, |at| words[usize::try_from(at / 8).expect("few")])
    }

    /// What such a ring adds, and whether it is complete.
    fn added(words: &[u64]) -> Option<([u64; 3], bool)> {
        let off_cpu = OffCpu::open().inspect_err(|why| println!("skipped: {why}")).ok()?;
        let is_complete = add(&off_cpu, words);
        Some((off_cpu.times.each_ref().map(Cell::get), is_complete))
    }

    #[test]
    fn intervals_are_added_by_their_reason() {
        let Some(added) = added(&[OUT, 100, IN, 107, PREEMPTED, 200, IN, 230, OUT, 300, IN, 301]) else { return };
        assert_eq!(added, ([38, 8, 30], true));
    }

    #[test]
    fn an_incomplete_ring_is_noticed() {
        let mut lost = LOST.to_vec();
        lost.extend([OUT, 20, IN, 21]);
        for (words, why) in [
            (&lost[..], "the kernel reports a loss"),
            (&[OUT, 100], "the return is missing"),
            (&[OUT, 1, IN, 2, OUT, 3, IN, 4, OUT, 5, IN, 6, OUT, 7, IN, 8], "there was no room for more"),
        ] {
            let Some((_, is_complete)) = added(words) else { return };
            assert!(!is_complete, "{why}");
        }
    }

    #[test]
    fn a_loss_that_was_noticed_is_not_noticed_again_when_the_kernel_reports_it() {
        let full = [OUT, 1, IN, 2, OUT, 3, IN, 4, OUT, 5, IN, 6, OUT, 7, IN, 8];
        for (words, why) in [(&full[..], "there was no room for more"), (&[OUT, 100], "the return is missing")] {
            let Ok(off_cpu) = OffCpu::open() else { return println!("skipped: {:?}", OffCpu::open()) };
            let add = |words: &[u64]| add(&off_cpu, words);
            let mut reported = LOST.to_vec();
            reported.extend([OUT, 20, IN, 21]);
            // Between the two, the thread was switched without a record.
            assert_eq!([add(words), add(&[]), add(&reported), add(&reported)], [false, true, true, false], "{why}");
        }
    }

    #[test]
    #[allow(unsafe_code, reason = "forks")]
    fn a_reader_that_a_forking_signal_handler_interrupted_goes_on_in_the_child() {
        let Ok(off_cpu) = OffCpu::open() else { return println!("skipped: {:?}", OffCpu::open()) };
        let (page, data) = (off_cpu.ring.mapping.page().expect("mapped"), off_cpu.ring.mapping.data().expect("mapped"));
        // SAFETY: the child reads and writes memory, and ends. The status is live.
        let status = unsafe {
            let child = libc::fork();
            if child == 0 {
                page.data_tail.store(data[0].load(Relaxed), Release);
                libc::_exit(0);
            }
            let mut status = 1;
            assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
            std::process::ExitStatus::from_raw(status)
        };
        assert!(status.success(), "the child ended: {status}");
        // The fork was between the readings of the tail and of the head.
        assert!(!off_cpu.add(128, 0, 128, |_| 0));
    }

    #[test]
    fn time_off_the_cpu_before_open_returned_is_left_out() {
        let Ok(OffCpu { ring, .. }) = OffCpu::open() else { return println!("skipped: {:?}", OffCpu::open()) };
        let lock = ring.lock();
        while ring.lock() == lock {
            // Gives up the CPU.
            std::thread::sleep(std::time::Duration::from_micros(1));
        }
        let opened_at = ring.head();
        let off_cpu = OffCpu::of(ring);
        let read_to = off_cpu.ring.mapping.page().expect("mapped").data_tail.load(Relaxed);
        assert!(read_to >= opened_at, "read up to {read_to} of {opened_at}");
        assert_eq!(off_cpu.times.each_ref().map(Cell::get), [0; 3]);
    }

    /// What a reading sees of the time off the CPU, if the thread is switched during the first `switched` readings;
    /// and the number of readings.
    fn read_while_switched(off_cpu: &OffCpu, switched: usize) -> (u64, usize) {
        let mut times = 0;
        let read = || {
            times += 1;
            let lock = off_cpu.ring.lock();
            while times <= switched && off_cpu.ring.lock() == lock {
                // Gives up the CPU.
                std::thread::sleep(std::time::Duration::from_micros(1));
            }
            off_cpu.times[0].get()
        };
        let seen = off_cpu.read_with(|| {}, || panic!("nothing is lost"), read);
        (seen, times)
    }

    #[test]
    fn other_events_are_read_at_the_same_moment() {
        let Ok(off_cpu) = OffCpu::open() else { return println!("skipped: {:?}", OffCpu::open()) };
        let (seen, times) = read_while_switched(&off_cpu, 1);
        assert!(times > 1 && seen > 0, "{seen} ns off the CPU, read {times} times");
    }

    #[test]
    fn a_thread_that_is_switched_at_each_reading_goes_on() {
        let Ok(off_cpu) = OffCpu::open() else { return println!("skipped: {:?}", OffCpu::open()) };
        let (_, times) = read_while_switched(&off_cpu, usize::MAX);
        assert_eq!(times, OffCpu::TRIES);
    }

    #[test]
    fn an_interval_that_ends_before_it_begins_has_no_time() {
        let Ok(off_cpu) = OffCpu::open() else { return println!("skipped: {:?}", OffCpu::open()) };
        let before = off_cpu.read();
        assert!(add(&off_cpu, &[OUT, 100, IN, 107]));
        assert_eq!(before.since(&off_cpu.read()), None);
    }
}
