//! Counters of one thread that are read together, at the entry and the exit of a region.
//!
//! It does for several counters what [`region`](crate::region) does for one. The remembered state of all pages is
//! stored side by side, so that few loads are needed. The locks of all pages are checked at once after the reading, by
//! their sum. The first counter's lock is also checked before the reading.
//!
//! On x86-64, and on arm64 with one kind of core, that check is enough for all counters of the set. A thread that may
//! read one of its counters may read any counter number. A number that no longer belongs to the event gives another
//! counter's value, or 0, and the check after the reading detects that. On riscv64 the kernel grants access to each
//! counter separately. On arm64 with several kinds of core, a number may name no counter at all. There a set has one
//! counter.

use std::array;
use std::cell::Cell;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::{AtomicU8, compiler_fence};

use crate::arch::{Native, Processor, ReadPair};
use crate::counter::Counter;
use crate::machine::Machine;
use crate::off_cpu::OffCpu;
use crate::region::{NO_PAGE, NONE};
use crate::sys::MmapPage;

type Pair = <Native as ReadPair>::Pair;
type Single = <Native as Processor>::Counter;

/// The remembered page state of counters that one thread reads together.
///
/// Like a [`Counter`], it belongs to its thread: it is not `Send`.
#[derive(Debug)]
#[repr(C)]
pub struct CounterSet {
    // Side by side, because entry and exit load them in pairs.
    pages: [Cell<*const MmapPage>; Self::MOST],
    /// The sum of all locks.
    sum: Cell<u64>,
    /// The lock of the first page.
    first: Cell<u64>,
    pairs: [Cell<Option<Pair>>; Self::MOST / 2],
    /// Readers of the first and the third counter, for sets with an odd number of counters.
    singles: [Cell<Single>; Self::MOST / 2],
    locks: [Cell<u64>; Self::MOST],
}

impl Default for CounterSet {
    fn default() -> Self {
        Self::new()
    }
}

impl CounterSet {
    /// The most counters that a set can have.
    pub const MOST: usize = 4;

    /// A set that remembers nothing: [`read`](Self::read) returns `None`.
    #[must_use]
    pub fn new() -> Self {
        Self {
            pages: array::from_fn(|_| Cell::new(&raw const NO_PAGE)),
            sum: Cell::new(NONE),
            first: Cell::new(NONE),
            pairs: array::from_fn(|_| Cell::new(None)),
            singles: array::from_fn(|_| Cell::new(Native.counter(0))),
            locks: array::from_fn(|_| Cell::new(NONE)),
        }
    }

    /// Whether several counters can be read together on this machine.
    #[must_use]
    pub fn is_supported() -> bool {
        const UNKNOWN: u8 = 2;
        // Not a lock: a child forked meanwhile would wait for it. Two threads compute the same value.
        static HERE: AtomicU8 = AtomicU8::new(UNKNOWN);
        if !cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
            return false;
        }
        if HERE.load(Relaxed) == UNKNOWN {
            let is_supported = Machine::here().core_pmus().is_ok_and(|pmus| pmus.len() <= 1);
            HERE.store(is_supported.into(), Relaxed);
        }
        HERE.load(Relaxed) == 1
    }

    /// Copies the remembered page state of the counters. Call it after a [`Counter::begin`] of each of them. With
    /// `switches`, the set notices each context switch of the thread: the kernel takes the events' counters away and
    /// gives them others, and changes the locks of their pages each time (`perf_event_update_userpage` in
    /// `kernel/events/core.c`). Without counters, the set remembers the page of the switches.
    ///
    /// Returns `false` if one of the counters remembers nothing, if they cannot be read together, or if the thread was
    /// switched since the last [`OffCpu::catch_up`], which came before the counters began. The set then remembers
    /// nothing.
    ///
    /// # Safety
    ///
    /// The counters and `switches` live until the set is dropped or [`forget`](Self::forget) is called. There are at
    /// most [`MOST`](Self::MOST) counters.
    #[allow(unsafe_code, reason = "keeps pointers to the counters' pages")]
    #[allow(single_use_lifetimes, reason = "anonymous ones in `impl Trait` are not stable")]
    pub unsafe fn remember<'a>(&self, counters: impl Iterator<Item = &'a Counter>, switches: Option<&OffCpu>) -> bool {
        self.forget();
        self.locks.iter().for_each(|lock| lock.set(0));
        let Some((sum, first)) = self.remember_all_but_the_first(counters) else { return false };
        if switches.is_some_and(|switches| !switches.is_caught_up()) {
            return false;
        }
        if let Some((lock, page)) = first.or_else(|| switches.map(OffCpu::remembered)) {
            self.pages[0].set(page);
            self.first.set(lock);
            self.sum.set(if first.is_some() { sum } else { lock });
        } else {
            self.sum.set(0);
        }
        true
    }

    /// The sum of the counters' locks, and the first counter's lock and page.
    #[allow(single_use_lifetimes, reason = "as above")]
    fn remember_all_but_the_first<'a>(
        &self,
        counters: impl Iterator<Item = &'a Counter>,
    ) -> Option<(u64, Option<(u64, *const MmapPage)>)> {
        let (mut numbers, mut count, mut sum, mut first) = ([0; Self::MOST], 0, 0, None);
        for counter in counters {
            let (number, lock, page) = counter.remembered()?;
            if count == 0 {
                first = Some((lock, page));
            } else {
                self.pages[count].set(page);
            }
            self.locks[count].set(lock);
            sum += lock;
            numbers[count] = number;
            count += 1;
        }
        if count > 1 && !Self::is_supported() {
            return None;
        }
        for (n, pair) in self.pairs.iter().enumerate().take(count / 2) {
            pair.set(Some(Native.pair(numbers[2 * n], numbers[2 * n + 1])?));
        }
        if count % 2 == 1 {
            self.singles[count / 2].set(Native.counter(numbers[count - 1]));
        }
        Some((sum, first))
    }

    /// Forgets everything: [`read`](Self::read) then returns `None` for all locks, and accesses no counter's page.
    pub fn forget(&self) {
        self.pages[0].set(&raw const NO_PAGE);
        self.first.set(NONE);
        self.sum.set(NONE);
    }

    /// The sum of the lock values for which the remembered state is valid. Locks never decrease, so the sum is
    /// unchanged only while each of them is.
    #[inline]
    #[must_use]
    pub fn locks(&self) -> u64 {
        self.sum.get()
    }

    /// The lock value for which the remembered state of counter `n` is valid, if there is any. 0 beyond the counters.
    #[must_use]
    pub fn lock(&self, n: usize) -> u64 {
        self.locks[n].get()
    }

    /// Whether the thread was not switched since the set remembered the page of its switches, with the lock `locks`.
    /// For a set without counters.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "as in `read`")]
    #[must_use]
    pub fn is_unswitched(&self, locks: u64) -> bool {
        compiler_fence(Acquire);
        self.lock_of(0) == locks
    }

    #[inline(always)]
    #[allow(unsafe_code, reason = "reads a mapped page")]
    #[allow(clippy::inline_always, reason = "as in `read`")]
    fn lock_of(&self, n: usize) -> u64 {
        // SAFETY: mapped while counters and switches live, which `remember` requires; or `NO_PAGE`, whose lock no set
        // remembers.
        u64::from(unsafe { &*self.pages[n].get() }.lock.load(Relaxed))
    }

    /// The raw values of the set's `K` counters, if the locks of their pages add up to `locks`. The first lock is
    /// checked before the reading, and all of them after it.
    ///
    /// # Safety
    ///
    /// The set has `K` counters. `locks` is the value of [`locks`](Self::locks), now or when the region began.
    #[inline(always)]
    #[allow(unsafe_code, reason = "reads counters")]
    #[allow(clippy::inline_always, reason = "instructions between the program and the readings are measured")]
    #[must_use]
    pub unsafe fn read<const K: usize>(&self, locks: u64) -> Option<[u64; K]> {
        let mut raw = [0; K];
        if K == 0 {
            return Some(raw);
        }
        let pages: [*const MmapPage; K] = array::from_fn(|n| self.pages[n].get());
        let pairs = [self.pairs[0].get(), self.pairs[1].get()];
        // SAFETY: as in `lock_of`.
        let lock_of = |page: *const MmapPage| u64::from(unsafe { &*page }.lock.load(Relaxed));
        if lock_of(pages[0]) != if K == 1 { locks } else { self.first.get() } {
            return None;
        }
        compiler_fence(Acquire);
        // SAFETY: the lock has the value for which the first counter's number is valid, so this thread may read that
        // counter. It may then read the others as well, because the set remembers several only where that holds. In
        // that case it also has its pairs.
        unsafe {
            for n in 0..K / 2 {
                (raw[2 * n], raw[2 * n + 1]) = Native.read_pair(pairs[n].unwrap_unchecked());
            }
            if K % 2 == 1 {
                raw[K - 1] = Native.read(self.singles[K / 2].get());
            }
        }
        compiler_fence(Acquire);
        let sum: u64 = pages.into_iter().map(lock_of).sum();
        if sum == locks { Some(raw) } else { None }
    }
}

#[cfg(all(test, not(perfmark_unsupported)))]
#[allow(unsafe_code, reason = "as in what is tested")]
mod tests {
    use super::*;
    use crate::region::Region;
    use crate::{Attr, Delta, Hardware};

    #[test]
    fn an_empty_set_reads_nothing() {
        let set = CounterSet::new();
        // SAFETY: the set's own locks.
        unsafe {
            assert_eq!(set.read::<1>(set.locks()), None);
            assert_eq!(set.read::<2>(set.locks()), None);
            assert_eq!(set.read::<0>(set.locks()), Some([]));
        }
    }

    #[test]
    fn counters_read_together_count_what_each_counts_alone() {
        let open = |event| Counter::open(&Attr::new(event));
        let (Ok(cycles), Ok(instructions)) = (open(Hardware::Cycles), open(Hardware::Instructions)) else {
            return println!("skipped: this machine has no PMU");
        };
        if cycles.user_reads().is_err() || !CounterSet::is_supported() {
            return println!("skipped: user space may not read these counters together");
        }
        let (set, mut regions) = (CounterSet::new(), [Region::default(); 2]);
        let counters = [&cycles, &instructions];
        // Until the kernel leaves the pages unchanged during a region.
        loop {
            counters.iter().zip(&mut regions).for_each(|(counter, region)| counter.begin(region));
            // SAFETY: the counters outlive the set, which has two.
            let (locks, begun) = unsafe {
                _ = set.remember(counters.into_iter(), None);
                (set.locks(), set.read::<2>(set.locks()))
            };
            let Some(begun) = begun else { continue };
            let region = Region::from_parts([begun[1], set.lock(1), 0, 0]);
            _ = crate::known_loop(1_000);
            // SAFETY: the counters outlive the set, which has two.
            let ended = unsafe { set.read::<2>(locks) };
            if let (Some(ended), Delta::Exact(alone)) = (ended, instructions.end(&region)) {
                let together = ended[1] - begun[1];
                assert!((2_000..2_200).contains(&together) && together <= alone, "{together} {alone}");
                return;
            }
        }
    }
}
