//! The calls by which probes are measured: of functions that do nothing, marked as the attribute's expansion does it, and of the same without a mark.

use std::future::poll_fn;
use std::hint::black_box;
use std::mem;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use crate::future::Polled;
use crate::mark::{HIDDEN, Manner, Mark};
use crate::private::recording::{begin, ended};

/// Functions to be called, all made in the same manner, and the marks that they have.
pub(super) struct Kinds {
    pub(super) unmarked: fn(),
    /// Of the mark `empty`.
    pub(super) marked: fn(),
    /// Of the mark `skipped`, whose calls are.
    pub(super) skip: fn(),
    /// Of the mark `drawn`, of which one call in some is measured.
    pub(super) draw: fn(),
    pub(super) unmarked_caller: fn(),
    /// Of the mark `caller`; it calls the marked one.
    pub(super) marked_caller: fn(),
    /// Of the mark `caller`, too; it calls the unmarked one.
    pub(super) around_unmarked: fn(),
    /// Calls that are suspended once, where they can be.
    pub(super) unmarked_twice: fn(),
    pub(super) marked_twice: fn(),
    pub(super) empty: &'static Mark,
    pub(super) caller: &'static Mark,
    pub(super) skipped: &'static Mark,
    pub(super) drawn: &'static Mark,
}

impl Kinds {
    #[inline(never)]
    pub(super) fn of(manner: Manner) -> &'static Self {
        if manner.is_polled { &polled::KINDS } else { &called::KINDS }
    }
}

/// Plain calls. Nothing else names their marks: so these are found by the instructions that find a program's.
mod called {
    use super::{Kinds, Mark, begin, black_box, ended};

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

/// Calls made of polls: of one, which is ready, or of two. Each is awaited by another, as it is in those who see what it costs.
mod polled {
    use super::{Context, HIDDEN, Kinds, Mark, Pin, Poll, Polled, Waker, black_box, mem, pin, poll_fn};

    static EMPTY: Mark = Mark::hidden(4).polled();
    static CALLER: Mark = Mark::hidden(5).polled();
    static SKIPPED: Mark = Mark::hidden(6).polled();
    static DRAWN: Mark = Mark::hidden(HIDDEN).polled();

    pub(super) static KINDS: Kinds = Kinds {
        unmarked: || poll(async { unmarked().await }),
        marked: || poll(async { marked().await }),
        skip: || poll(async { Polled::new(|| &SKIPPED, unmarked()).await }),
        draw: || poll(async { Polled::new(|| &DRAWN, unmarked()).await }),
        unmarked_caller: || poll(async { calls().await }),
        marked_caller: || poll(async { Polled::new(|| &CALLER, calls()).await }),
        around_unmarked: || poll(async { Polled::new(|| &CALLER, around()).await }),
        unmarked_twice: || poll(async { twice().await }),
        marked_twice: || poll(async { Polled::new(|| &EMPTY, twice()).await }),
        empty: &EMPTY,
        caller: &CALLER,
        skipped: &SKIPPED,
        drawn: &DRAWN,
    };

    #[allow(clippy::unused_async, reason = "what it does when polled is nothing")]
    async fn unmarked() {
        black_box(());
    }

    fn marked() -> impl Future<Output = ()> {
        Polled::new(|| &EMPTY, unmarked())
    }

    async fn calls() {
        marked().await;
    }

    async fn around() {
        unmarked().await;
    }

    /// Ready at its second poll.
    async fn twice() {
        let mut is_ready = false;
        poll_fn(|_| if mem::replace(&mut is_ready, true) { Poll::Ready(()) } else { Poll::Pending }).await;
    }

    /// Until it is ready; through a pointer, as whoever runs a program's futures polls them.
    #[inline]
    fn poll(future: impl Future<Output = ()>) {
        let mut future: Pin<&mut dyn Future<Output = ()>> = pin!(future);
        while black_box(&mut future).as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {}
    }
}
