//! A call as the attribute's expansion makes it, and the empty calls for calibration.

use std::mem::ManuallyDrop;
use std::thread;

use super::enter::{enter as enter_at, enter_with_setup, leave, leave_early, needs_setup, note_panic};
use crate::recording::mark::Mark;
use crate::recording::mark::entry;
use crate::recording::recorder::thread::{CalibrationCalls, NO_FRAME, Token, has_frame, memory::FROM_GAP_TO_COUNTS};

/// One call of a mark, which [`ended`] ends. It belongs to the thread that made it, but may end on another thread if
/// the program switches stacks.
///
/// ```compile_fail
/// fn sent<T: Send>() {}
/// sent::<perfmark::private::Begun>();
/// ```
#[derive(Debug)]
pub struct Begun {
    token: Token,
    mark: &'static Mark,
    this_thread: std::marker::PhantomData<*mut ()>,
}

/// One call of a mark, which ends when the guard is dropped.
#[derive(Debug)]
pub struct Guard {
    _call: Begun,
}

impl Begun {
    #[inline]
    fn new(token: Token, mark: &'static Mark) -> Self {
        Self { token, mark, this_thread: std::marker::PhantomData }
    }
}

/// Begins a call. For a mark that is off, this is a load and a branch.
///
/// Builds with debug assertions compile entry and exit once, instead of in each codegen unit of the user's crate.
/// Without optimization, inlined code would not be faster.
#[cfg_attr(debug_assertions, inline(never))]
#[cfg_attr(not(debug_assertions), inline)]
#[must_use]
pub fn begin(mark: &'static Mark) -> Begun {
    let entry = mark.entry();
    // An entry serves as the token of a call without a frame, which avoids a choice between two values.
    if entry::is_off(entry) {
        return Begun::new(entry.cast_unsigned(), mark);
    }
    let token = if entry::is_skipping(entry) {
        // After the entry: if another thread changes both, it is the new slot.
        let slot = mark.slot();
        #[allow(unsafe_code, reason = "finds the thread's counts")]
        // SAFETY: the entry is that of a mark that skips calls, and its slot is below `SLOTS`. Where a count is on, the
        // counts are in a `ThreadMemory`, whose gap begins with its position.
        if unsafe { entry::skip::<FROM_GAP_TO_COUNTS>(entry, slot) } {
            return Begun::new(entry.cast_unsigned(), mark);
        }
        enter_in_slot(slot)
    } else {
        enter_at(entry.cast_unsigned())
    };
    Begun::new(if needs_setup(token) { begin_with_setup(mark) } else { token }, mark)
}

/// Another function, so that skipped calls need not put the entry and the slot into the same register.
#[cold]
#[inline(never)]
fn enter_in_slot(slot: u64) -> Token {
    enter_at(slot)
}

#[cold]
#[inline(never)]
fn begin_with_setup(mark: &'static Mark) -> Token {
    enter_with_setup(mark, &empty_calls::CALIBRATION_CALLS).unwrap_or(NO_FRAME)
}

/// Begins a call that ends when its guard is dropped. If a panic is in progress then, the call must know whether one
/// was in progress when it began.
#[cfg_attr(debug_assertions, inline(never))]
#[cfg_attr(not(debug_assertions), inline)]
#[must_use]
pub fn enter(mark: &'static Mark) -> Guard {
    Guard { _call: if thread::panicking() { begin_panicking(mark) } else { begin(mark) } }
}

#[cold]
fn begin_panicking(mark: &'static Mark) -> Begun {
    let begun = ManuallyDrop::new(begin(mark));
    let token = if has_frame(begun.token) { note_panic(begun.token) } else { NO_FRAME };
    Begun::new(token, mark)
}

/// Ends a call whose body ran to its end.
#[cfg_attr(perfmark_off, allow(unreachable_pub, reason = "only calibration calls it then"))]
#[cfg_attr(debug_assertions, inline(never))]
#[cfg_attr(not(debug_assertions), inline(always))]
#[cfg_attr(not(debug_assertions), allow(clippy::inline_always, reason = "it is part of each marked function"))]
pub fn ended(begun: Begun) {
    // Prevents `Begun::drop`, also if something below unwinds.
    let begun = ManuallyDrop::new(begun);
    if has_frame(begun.token) {
        leave(begun.token, begun.mark);
    }
}

/// Ends a call whose body was left by `return`, `?` or a panic.
impl Drop for Begun {
    #[cfg_attr(debug_assertions, inline(never))]
    #[cfg_attr(not(debug_assertions), inline(always))]
    #[cfg_attr(
        not(debug_assertions),
        allow(clippy::inline_always, reason = "otherwise the token would be in memory, to be passed by reference")
    )]
    fn drop(&mut self) {
        if has_frame(self.token) {
            leave_early(self.token, self.mark);
        }
    }
}

/// A function whose call has this mark, this body and this end.
macro_rules! empty_call {
    ($name:ident, $mark:expr, $body:expr, $end:ident) => {
        #[inline(never)]
        fn $name() {
            let begun = begin($mark);
            $body;
            $end(begun);
        }
    };
}

/// The items of a module of empty calls, whose marks have these indices. No other code refers to the marks, so
/// calibration executes the same instructions as the calls of a program.
macro_rules! empty_calls {
    ($empty:literal, $caller:literal, $skipped:literal, $if_thinned:expr) => {
        static EMPTY: Mark = Mark::hidden($empty);
        static CALLER: Mark = Mark::hidden($caller);
        static SKIPPED: Mark = Mark::hidden($skipped);

        pub(crate) static CALIBRATION_CALLS: CalibrationCalls = CalibrationCalls {
            unmarked,
            marked,
            skipped,
            unmarked_skipped: unmarked,
            unmarked_caller,
            marked_caller,
            marked_caller_of_unmarked: caller_of_unmarked,
            unmarked_caller_of_skipped,
            marked_caller_of_skipped: caller_of_skipped,
            unmarked_suspended: [unmarked; 2],
            marked_suspended: [unmarked; 2],
            completed: marked,
            returned_early,
            empty_mark: &EMPTY,
            caller_mark: &CALLER,
            skipped_mark: &SKIPPED,
            if_thinned: $if_thinned,
        };

        empty_call!(marked, &EMPTY, black_box(()), ended);
        empty_call!(returned_early, &EMPTY, black_box(()), drop);
        empty_call!(skipped, &SKIPPED, black_box(()), ended);
        empty_call!(marked_caller, &CALLER, marked(), ended);
        empty_call!(caller_of_unmarked, &CALLER, unmarked(), ended);
        empty_call!(caller_of_skipped, &CALLER, skipped(), ended);

        #[inline(never)]
        fn unmarked() {
            black_box(());
        }

        #[inline(never)]
        fn unmarked_caller() {
            marked();
            black_box(());
        }

        #[inline(never)]
        fn unmarked_caller_of_skipped() {
            skipped();
            black_box(());
        }
    };
}

mod empty_calls {
    use std::hint::black_box;

    use super::{CalibrationCalls, Mark, begin, empty_thinned_calls, ended};

    empty_calls!(2, 3, 4, Some(&empty_thinned_calls::CALIBRATION_CALLS));
}

/// Those of thinned marks, whose marked functions begin them in another way.
pub(crate) mod empty_thinned_calls {
    use std::hint::black_box;

    use super::{CalibrationCalls, Mark, begin, ended};

    empty_calls!(8, 9, 10, None);
}
