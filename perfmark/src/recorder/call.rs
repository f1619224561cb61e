//! A call as the attribute's expansion makes it; and the empty ones by which its probes are measured.

use std::mem::ManuallyDrop;
use std::thread;

use super::calibrate::Kinds;
use super::enter::{enter as enter_at, enter_unusual, is_unusual, leave, leave_early, note_panic};
use super::stack::{NO_FRAME, Token, has_frame};
use crate::mark::{self, Mark};

/// One call of a mark, which [`ended`] ends; it belongs to the thread that made it. Where a program switches stacks it
/// may end on another thread all the same.
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

/// One call of a mark, ended when it is dropped.
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

/// Begins a call. Switched off it is a load and a branch.
///
/// In builds with debug assertions it is compiled once, and not anew in each part of the user's crate, as is a call's
/// end: without optimization it would be no faster there.
#[cfg_attr(debug_assertions, inline(never))]
#[cfg_attr(not(debug_assertions), inline)]
#[must_use]
pub fn begin(mark: &'static Mark) -> Begun {
    let place = mark.slot();
    if mark::is_off(place) {
        // A token as well, so that there is one value less to choose from.
        return Begun::new(place, mark);
    }
    let token = enter_at(place);
    Begun::new(if is_unusual(token) { begin_unusual(mark) } else { token }, mark)
}

#[cold]
#[inline(never)]
fn begin_unusual(mark: &'static Mark) -> Token {
    enter_unusual(mark, &called::KINDS).unwrap_or(NO_FRAME)
}

/// Begins a call that ends when its guard is dropped. If a panic is in progress then, it must be known whether one was
/// when the call began.
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

/// Ends a call whose body came to its end.
#[cfg_attr(perfmark_off, allow(unreachable_pub, reason = "calls by which probes are measured alone end by it then"))]
#[cfg_attr(debug_assertions, inline(never))]
#[cfg_attr(not(debug_assertions), inline(always))]
#[cfg_attr(not(debug_assertions), allow(clippy::inline_always, reason = "it is at the end of each marked function"))]
pub fn ended(begun: Begun) {
    // From here on nothing is left to be dropped, also if something unwound.
    let begun = ManuallyDrop::new(begun);
    if has_frame(begun.token) {
        leave(begun.token, begun.mark);
    }
}

/// The body was left by `return`, `?` or a panic.
impl Drop for Begun {
    #[cfg_attr(debug_assertions, inline(never))]
    #[cfg_attr(not(debug_assertions), inline(always))]
    #[cfg_attr(
        not(debug_assertions),
        allow(clippy::inline_always, reason = "else it would be kept in memory for this")
    )]
    fn drop(&mut self) {
        if has_frame(self.token) {
            leave_early(self.token, self.mark);
        }
    }
}

/// Empty calls. Nothing else names their marks: so these are found by the instructions that find a program's.
mod called {
    use std::hint::black_box;

    use super::{Kinds, Mark, begin, ended};

    static EMPTY: Mark = Mark::hidden(1);
    static CALLER: Mark = Mark::hidden(2);
    static SKIPPED: Mark = Mark::hidden(3);
    static DRAWN: Mark = Mark::hidden(7);

    pub(super) static KINDS: Kinds = Kinds {
        unmarked,
        marked,
        skip,
        draw,
        unmarked_caller,
        marked_caller,
        around_unmarked,
        unmarked_twice: unmarked,
        marked_twice: unmarked,
        empty: &EMPTY,
        caller: &CALLER,
        skipped: &SKIPPED,
        drawn: &DRAWN,
    };

    #[inline(never)]
    fn marked() {
        let begun = begin(&EMPTY);
        black_box(());
        ended(begun);
    }

    #[inline(never)]
    fn skip() {
        let begun = begin(&SKIPPED);
        black_box(());
        ended(begun);
    }

    #[inline(never)]
    fn draw() {
        let begun = begin(&DRAWN);
        black_box(());
        ended(begun);
    }

    #[inline(never)]
    fn unmarked() {
        black_box(());
    }

    #[inline(never)]
    fn marked_caller() {
        let begun = begin(&CALLER);
        marked();
        ended(begun);
    }

    #[inline(never)]
    fn around_unmarked() {
        let begun = begin(&CALLER);
        unmarked();
        ended(begun);
    }

    #[inline(never)]
    fn unmarked_caller() {
        marked();
        black_box(());
    }
}
