//! Events of a thread, as QEMU's user-mode emulator counts them.

use std::array;
use std::hint::black_box;
use std::marker::PhantomData;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use crate::arch::known_loop;
use crate::error::{Error, exhausted};
use crate::event::{Cache, CacheEvent, CacheOp, CacheResult, Event, Hardware, Kind, Modifier, Modifiers};
use crate::sys::{EMULATED_EVENTS, EmulatedPage};

/// An event that the calling thread causes in user mode, in QEMU's user-mode emulator. It requires no PMU and no
/// permission.
///
/// `perfmark run --emulate` starts a program in the emulator, with a plugin that counts. Counts are exact: they include
/// each instruction of the thread, and a difference of two readings by the same code is the same in each run. A reading
/// takes one load. These events are counted:
///
/// - `instructions`: one with a `rep` prefix counts once for each element and once more, unlike on a PMU.
/// - `branches`: jumps, taken or not, calls and returns.
/// - `L1-dcache-loads` and `L1-dcache-stores`: the emulator's accesses to memory. An access of more than 8 bytes may
///   count once for each 8 bytes, which depends on QEMU's version; an atomic one counts as a load and a store.
///
/// From a process's first counter of branches on, the emulator takes more time for each branch; of loads or stores, for
/// each access.
///
/// ```
/// use perfmark_rdpmc::{EmulatedCounter, Hardware, known_loop};
///
/// match EmulatedCounter::open(&Hardware::Instructions.into()) {
///     Ok(counter) => {
///         let before = counter.count();
///         let executed = known_loop(1_000);
///         println!("{executed} instructions and a few more: {}", counter.count() - before);
///     }
///     // This is not a program in the emulator.
///     Err(why) => eprintln!("{why}"),
/// }
/// ```
///
/// It belongs to the thread that opened it, so it is not `Send`. In a forked child, its count is 0: open another one.
#[derive(Debug)]
pub struct EmulatedCounter {
    page: EmulatedPage,
    /// Its index in the page.
    event: usize,
    this_thread: PhantomData<*const ()>,
}

// The indices of events, as in the plugin.
const INSTRUCTIONS: usize = 0;
const BRANCHES: usize = 1;
const LOADS: usize = 2;
const STORES: usize = 3;

/// The index of an event that the emulator counts.
fn index(event: &Event) -> Option<usize> {
    let accesses = |op| CacheEvent::new(Cache::L1Data, op, CacheResult::Access);
    let modifiers = event.modifiers();
    let is_of_user = modifiers.is_empty() || modifiers == Modifiers::default().with(Modifier::User);
    match event.kind() {
        _ if !is_of_user => None,
        Kind::Hardware(Hardware::Instructions) => Some(INSTRUCTIONS),
        Kind::Hardware(Hardware::Branches) => Some(BRANCHES),
        Kind::Cache(cache) if Some(*cache) == accesses(CacheOp::Read) => Some(LOADS),
        Kind::Cache(cache) if Some(*cache) == accesses(CacheOp::Write) => Some(STORES),
        _ => None,
    }
}

impl EmulatedCounter {
    /// Whether the emulator counts the event: instructions, branches, `L1-dcache-loads` and `L1-dcache-stores`, in user
    /// mode.
    #[must_use]
    pub fn is_counted(event: &Event) -> bool {
        index(event).is_some()
    }

    /// Requests the calling thread's counter of an event from the emulator, which counts in user mode only.
    ///
    /// # Errors
    ///
    /// - The emulator does not count this event.
    /// - No plugin of perfmark answers, as outside the emulator, or one of another version.
    /// - It counts a loop of known length wrong.
    /// - The kernel refuses memory for it.
    pub fn open(event: &Event) -> Result<Self, Error> {
        let index = index(event).ok_or_else(|| {
            let why = "the emulator counts only instructions, branches, L1-dcache-loads and L1-dcache-stores, in user \
                       mode";
            Error::refused(event.to_string(), why)
        })?;
        let page = EmulatedPage::request(index.min(LOADS))
            .map_err(|(call, errno)| {
                if errno == libc::EPROTO {
                    let why = "the versions of perfmark in `perfmark run --emulate` and in this program share counts \
                               in different ways; install the perfmark-cli of the program's version";
                    return Error::refused(event.to_string(), why);
                }
                let why = exhausted(errno).unwrap_or(match errno {
                    libc::EFBIG => {
                        "files may not have the 4,096 bytes of the page that the emulator counts in; raise \
                         RLIMIT_FSIZE (`ulimit -f`)"
                    }
                    _ => "the page that the emulator counts in was refused; allow this call",
                });
                Error::os(errno, call, event.to_string(), why)
            })?
            .ok_or_else(|| {
                Error::refused(
                    event.to_string(),
                    "no plugin of perfmark counts in this process, because an emulated program started it or became it \
                     by exec, or because `perfmark run --emulate` did not start it",
                )
            })?;
        let counter = Self { page, event: index, this_thread: PhantomData };
        counter.check().map(|()| counter).map_err(|why| Error::refused(event.to_string(), why))
    }

    /// The thread's counter of instructions, if a counter of this process was open before.
    #[doc(hidden)]
    #[must_use]
    pub fn of_thread() -> Option<Self> {
        let page = EmulatedPage::if_counted()?;
        Some(Self { page, event: INSTRUCTIONS, this_thread: PhantomData })
    }

    /// Checks it against a loop of known length.
    fn check(&self) -> Result<(), String> {
        const TURNS: u64 = 1_000;
        // What is around the loop.
        const MARGIN: u64 = 1_000;
        let before = self.count();
        let (executed, at_most) = match self.event {
            INSTRUCTIONS => (known_loop(TURNS), 2 * TURNS + MARGIN),
            BRANCHES => (known_loop(TURNS) / 2, TURNS + MARGIN),
            // A debug build accesses memory more often.
            _ => {
                let memory = AtomicU64::new(0);
                (0..TURNS).for_each(|_| black_box(&memory).store(black_box(&memory).load(Relaxed), Relaxed));
                (TURNS, u64::MAX)
            }
        };
        let seen = self.count() - before;
        if (executed..at_most).contains(&seen) {
            return Ok(());
        }
        Err(format!("the emulator counted {seen} in a loop of {executed}; use another version"))
    }

    /// The number of events since the counter was opened. It includes all instructions up to the end of the emulator's
    /// block with this reading.
    #[inline]
    #[must_use]
    pub fn count(&self) -> u64 {
        if self.page.is_this_process() { self.page.count(self.event) } else { 0 }
    }

    /// The thread's counts of all events, for `set_back`.
    #[doc(hidden)]
    #[inline]
    #[must_use]
    pub fn counts(&self) -> EmulatedCounts {
        EmulatedCounts(self.page.is_this_process().then(|| array::from_fn(|event| self.page.count(event))))
    }

    /// Sets the thread's counts back to what they were `before`, so that no open region includes what happened since. A
    /// few instructions remain, which are the same each time.
    #[doc(hidden)]
    #[inline]
    pub fn set_back(&self, before: &EmulatedCounts) {
        if let Some(counts) = before.0.filter(|_| self.page.is_this_process()) {
            counts.into_iter().enumerate().for_each(|(event, count)| self.page.set(event, count));
        }
    }

    /// The emulator's name and version, such as `QEMU 7.2.22`.
    #[must_use]
    pub fn emulator(&self) -> String {
        self.page.emulator()
    }
}

/// A thread's counts at one moment; none in a forked child.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct EmulatedCounts(Option<[u64; EMULATED_EVENTS]>);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_an_emulator_the_counter_is_refused_with_the_remedy() {
        match EmulatedCounter::open(&Hardware::Instructions.into()) {
            Err(why) => assert!(why.to_string().contains("perfmark run --emulate"), "{why}"),
            Ok(counter) => assert!(counter.count() > 0),
        }
    }
}
