//! Marked async functions drop their arguments and locals as unmarked ones do: in the same order, at the same time.

#![allow(clippy::needless_pass_by_value, reason = "the functions drop their arguments")]

use std::cell::RefCell;
use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::task::Poll;

use perfmark::perfmark;

use crate::executor::{once, yield_now};

thread_local!(static LOG: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) });

fn log(entry: impl Into<String>) {
    LOG.with_borrow_mut(|log| log.push(entry.into()));
}

/// Logs its drop.
struct Noisy(&'static str);

impl Drop for Noisy {
    fn drop(&mut self) {
        log(self.0);
    }
}

struct Pair {
    left: Noisy,
    right: Noisy,
}

fn pair(left: &'static str, right: &'static str) -> Pair {
    Pair { left: Noisy(left), right: Noisy(right) }
}

/// What a body does after its first half.
#[derive(Clone, Copy, Debug)]
enum Way {
    Ends,
    Waits,
    WaitsForEver,
    Returns,
    Panics,
}

impl Way {
    /// Returns whether the function returns here.
    async fn returns_early(self) -> bool {
        log("half");
        match self {
            Self::Ends => {}
            Self::Waits => yield_now().await,
            Self::WaitsForEver => pending().await,
            Self::Returns => return true,
            Self::Panics => resume_unwind(Box::new("as asked")),
        }
        log("end");
        false
    }
}

twins! {
    use {Noisy, Pair, Way, log};

    pub(super) async fn used(way: Way, a: Noisy, b: Noisy, c: Noisy) {
        let _local = Noisy("local");
        if way.returns_early().await {
            return;
        }
        log(c.0);
        log(a.0);
        log(b.0);
    }

    pub(super) async fn unused(way: Way, _: Noisy, _b: Noisy, mut _c: Noisy, _: Noisy) {
        let _local = Noisy("local");
        if way.returns_early().await {
            return;
        }
        _c = Noisy("again");
    }

    pub(super) async fn destructured(
        way: Way,
        (a, _, _c): (Noisy, Noisy, Noisy),
        Pair { left, .. }: Pair,
        [first, ref second, ..]: [Noisy; 3],
        whole @ Pair { .. }: Pair,
        Pair { right: borrowed, .. }: &Pair,
    ) {
        let local = Noisy("local");
        if way.returns_early().await {
            return;
        }
        log(second.0);
        log(borrowed.0);
        drop(left);
        drop((local, first));
        log(whole.left.0);
        drop(a);
    }

    pub(super) async fn moved(way: Way, a: Noisy, b: Noisy, mut c: Pair) -> Noisy {
        drop(b);
        let local = Noisy("local");
        if way.returns_early().await {
            return a;
        }
        c.left = Noisy("new");
        drop(c.right);
        local
    }

    pub(super) async fn shadowed(way: Way, a: Noisy, b: Noisy) {
        let a = (Noisy("shadow"), a);
        let b = move || log(b.0);
        if way.returns_early().await {
            return;
        }
        b();
        drop(a.1);
    }

    pub(super) async fn by_reference(pair: &Pair, way: Way, _: Noisy, a: Noisy) {
        let _local = Noisy("local");
        if way.returns_early().await {
            return;
        }
        log(pair.right.0);
        log(a.0);
    }

    pub(super) struct Owner(pub(super) Pair);

    impl Owner {
        pub(super) async fn by_value(self, way: Way, a: Noisy, _b: Noisy) {
            let _local = Noisy("local");
            if way.returns_early().await {
                return;
            }
            log(a.0);
            log(self.0.left.0);
        }

        pub(super) async fn in_part(mut self, way: Way, a: Noisy) -> Noisy {
            self.0.right = Noisy("new right");
            let left = self.0.left;
            if way.returns_early().await {
                return a;
            }
            left
        }

        pub(super) async fn unused_self(self, way: Way, _a: Noisy, _: Noisy) {
            way.returns_early().await;
        }

        pub(super) async fn boxed(self: Box<Self>, way: Way, _a: Noisy) {
            let Pair { left, .. } = self.0;
            way.returns_early().await;
            log(left.0);
        }
    }

    pub(super) fn in_a_box(way: Way, a: Noisy, b: Noisy) -> std::pin::Pin<Box<dyn Future<Output = ()>>> {
        let _local = Noisy("before the future");
        Box::pin(async move {
            let _local = Noisy("local");
            log(b.0);
            way.returns_early().await;
            log(a.0);
        })
    }
}

/// Polls a future at most that often, then drops it. Returns the log of what was dropped, and when.
fn drops<F: Future>(make: impl FnOnce() -> F, polls: u32) -> Vec<String> {
    let mut future = Box::pin(make());
    log("made");
    for _ in 0..polls {
        let poll = || once(future.as_mut());
        let result = catch_unwind(AssertUnwindSafe(poll));
        log(match &result {
            Ok(Poll::Ready(_)) => "ready",
            Ok(Poll::Pending) => "pending",
            Err(_) => "panicked",
        });
        if !matches!(result, Ok(Poll::Pending)) {
            break;
        }
    }
    drop(future);
    LOG.take()
}

/// Compares the twins for each way to end, dropped after each number of polls.
macro_rules! same_drops {
    ($($test:ident: $twin:ident, $way:ident => $call:expr;)*) => {
        $(
            #[test]
            fn $test() {
                for $way in [Way::Ends, Way::Waits, Way::WaitsForEver, Way::Returns, Way::Panics] {
                    for polls in 0..3 {
                        let plain = { use plain as $twin; drops(|| $call, polls) };
                        let marked = { use marked as $twin; drops(|| $call, polls) };
                        assert!(plain.len() > 1);
                        assert_eq!(marked, plain, "{:?}, {polls} polls", $way);
                    }
                }
            }
        )*
    };
}

fn leaked() -> &'static Pair {
    Box::leak(Box::new(pair("never", "never, too")))
}

fn three() -> [Noisy; 3] {
    ["first", "second", "third"].map(Noisy)
}

same_drops! {
    used_arguments_are_dropped_alike: twin, way => twin::used(way, Noisy("a"), Noisy("b"), Noisy("c"));
    unused_arguments_are_dropped_alike: twin, way => {
        twin::unused(way, Noisy("_"), Noisy("_b"), Noisy("_c"), Noisy("last"))
    };
    destructured_arguments_are_dropped_alike: twin, way => twin::destructured(
        way,
        (Noisy("a"), Noisy("_"), Noisy("_c")),
        pair("left", "right"),
        three(),
        pair("whole left", "whole right"),
        leaked(),
    );
    moved_arguments_are_dropped_alike: twin, way => twin::moved(way, Noisy("a"), Noisy("b"), pair("left", "right"));
    shadowed_arguments_are_dropped_alike: twin, way => twin::shadowed(way, Noisy("a"), Noisy("b"));
    arguments_beside_a_reference_are_dropped_alike: twin, way => {
        twin::by_reference(leaked(), way, Noisy("_"), Noisy("a"))
    };
    methods_by_value_drop_alike: twin, way => twin::Owner(pair("left", "right")).by_value(way, Noisy("a"), Noisy("_b"));
    methods_that_use_a_part_of_self_drop_alike: twin, way => {
        twin::Owner(pair("left", "right")).in_part(way, Noisy("a"))
    };
    methods_that_do_not_use_self_drop_alike: twin, way => {
        twin::Owner(pair("left", "right")).unused_self(way, Noisy("_a"), Noisy("_"))
    };
    methods_of_boxes_drop_alike: twin, way => Box::new(twin::Owner(pair("left", "right"))).boxed(way, Noisy("_a"));
    futures_in_boxes_drop_alike: twin, way => twin::in_a_box(way, Noisy("a"), Noisy("b"));
}
