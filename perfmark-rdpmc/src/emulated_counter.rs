//! The instructions of a thread, as QEMU's user-mode emulator counts them.

use std::marker::PhantomData;

use crate::arch::known_loop;
use crate::error::{Error, exhausted};
use crate::event::{Event, Hardware, Modifier, Modifiers};
use crate::sys::EmulatedPage;

/// The instructions in user mode that the calling thread executes in QEMU's user-mode emulator. It requires no PMU and
/// no permission.
///
/// `perfmark run --emulate` starts a program in the emulator, with a plugin that counts. Counts are exact: they include
/// each instruction of the thread, and a difference of two readings by the same code is the same in each run. A string
/// instruction with a `rep` prefix counts once for each element, unlike on a PMU. A reading takes one load.
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
    this_thread: PhantomData<*const ()>,
}

impl EmulatedCounter {
    /// Requests the calling thread's counter of an event from the emulator, which counts `instructions` in user mode
    /// only.
    ///
    /// # Errors
    ///
    /// - The event is another one.
    /// - No plugin of perfmark answers, as outside the emulator.
    /// - It counts a loop of known length wrong.
    /// - The kernel refuses memory for it.
    pub fn open(event: &Event) -> Result<Self, Error> {
        const TURNS: u64 = 1_000;
        // The instructions around the loop.
        const MARGIN: u64 = 1_000;
        let modifiers = event.modifiers();
        let is_of_user = modifiers.is_empty() || modifiers == Modifiers::default().with(Modifier::User);
        if event.kind() != Event::from(Hardware::Instructions).kind() || !is_of_user {
            return Err(Error::refused(event.to_string(), "the emulator counts only instructions, in user mode"));
        }
        let page = EmulatedPage::request()
            .map_err(|(call, errno)| {
                let why =
                    exhausted(errno).unwrap_or("the page that the emulator counts in was refused; allow this call");
                Error::os(errno, call, event.to_string(), why)
            })?
            .ok_or_else(|| {
                Error::refused(
                    event.to_string(),
                    "no plugin of perfmark counts in this process; start it by `perfmark run --emulate` (programs that \
                     an emulated program starts run outside the emulator)",
                )
            })?;
        let counter = Self { page, this_thread: PhantomData };
        let before = counter.count();
        let executed = known_loop(TURNS);
        let seen = counter.count() - before;
        if (executed..executed + MARGIN).contains(&seen) {
            Ok(counter)
        } else {
            let why = format!("the emulator counted {seen} instructions in a loop of {executed}; use another version");
            Err(Error::refused(event.to_string(), why))
        }
    }

    /// The number of instructions that the thread has executed since the counter was opened. It includes all
    /// instructions up to the end of the emulator's block with this reading.
    #[inline]
    #[must_use]
    pub fn count(&self) -> u64 {
        if self.page.is_this_process() { self.page.count() } else { 0 }
    }

    /// The emulator's name and version, such as `QEMU 7.2.22`.
    #[must_use]
    pub fn emulator(&self) -> String {
        self.page.emulator()
    }

    /// Sets the thread's count back to what it was `before`, so that no open region includes the instructions since. A
    /// few instructions remain, which are the same each time. For perfmark's recorder only; not covered by this crate's
    /// stability promise.
    #[doc(hidden)]
    #[inline]
    pub fn set_back(&self, before: u64) {
        if self.page.is_this_process() {
            self.page.set(before);
        }
    }
}

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
