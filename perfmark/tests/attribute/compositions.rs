//! Marks together with attributes of other crates, in either order. Each attribute works as it does alone. Attributes
//! of benchmark harnesses are tested in the package `benches`.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use perfmark::perfmark;
use tracing::{Event, Metadata, Subscriber, instrument, span};

use crate::marks_of;

/// Counts the spans that are entered.
struct Spans;

static ENTERED: AtomicU64 = AtomicU64::new(0);

impl Subscriber for Spans {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, _: &Event<'_>) {}
    fn enter(&self, _: &span::Id) {
        ENTERED.fetch_add(1, Relaxed);
    }
    fn exit(&self, _: &span::Id) {}
}

#[perfmark(time)]
#[instrument]
fn above(n: u32) -> u32 {
    n + 1
}

#[instrument(level = "info", skip_all, fields(twice = 2 * n))]
#[perfmark(time)]
fn below(n: u32) -> u32 {
    n + 2
}

#[perfmark(time, every = 1)]
#[tracing::instrument(ret, err)]
fn fails_above(text: &str) -> Result<u32, std::num::ParseIntError> {
    let number = text.parse::<u32>()?;
    Ok(number + 1)
}

#[tracing::instrument(ret, err)]
#[perfmark(time)]
fn fails_below(text: &str) -> Result<u32, std::num::ParseIntError> {
    let number = text.parse::<u32>()?;
    Ok(number + 2)
}

#[derive(Debug)]
struct Counter(u32);

impl Counter {
    #[perfmark(time)]
    #[instrument]
    fn above_a_method(&mut self, by: u32) -> &mut u32 {
        self.0 += by;
        &mut self.0
    }

    #[instrument(skip(self))]
    #[perfmark(time)]
    fn below_a_method<T: Into<u32> + std::fmt::Debug>(&self, by: T) -> u32 {
        self.0 + by.into()
    }
}

#[perfmark(time)]
impl Counter {
    #[instrument]
    fn in_an_impl(&self) -> u32 {
        self.0
    }

    /// Has one mark, its own, and not that of the impl as well.
    #[instrument]
    #[perfmark(time, name = "its own")]
    fn with_its_own(&self) -> u32 {
        self.0
    }

    #[instrument]
    #[perfmark(skip)]
    fn left_out(&self) -> u32 {
        self.0
    }
}

#[perfmark(time)]
#[inline(always)]
#[expect(clippy::inline_always, reason = "a test")]
fn always_above(n: u32) -> u32 {
    n + 1
}

#[inline(always)]
#[perfmark(time)]
#[expect(clippy::inline_always, reason = "a test")]
fn always_below(n: u32) -> u32 {
    n + 2
}

#[test]
#[perfmark(time)]
#[instrument]
fn a_test_can_be_marked_and_instrumented() {}

/// Checks the number of calls of each mark.
#[track_caller]
fn assert_calls(expected: &[(&str, u64)]) {
    if !cfg!(feature = "record") {
        return;
    }
    let marks = marks_of(module_path!());
    for &(name, calls) in expected {
        let found: Vec<_> = marks.iter().filter(|mark| mark.name == name).map(|mark| mark.calls).collect();
        assert_eq!(found, [calls], "{name}");
    }
}

#[test]
fn spans_and_calls_are_counted() {
    tracing::subscriber::set_global_default(Spans).expect("the only one");
    assert_eq!((above(1), below(1)), (2, 3));
    assert_eq!((fails_above("1"), fails_below("1")), (Ok(2), Ok(3)));
    assert!(fails_above("x").is_err() && fails_below("x").is_err());
    let mut counter = Counter(1);
    *counter.above_a_method(1) += 1;
    assert_eq!(counter.below_a_method(1_u8), 4);
    assert_eq!([counter.in_an_impl(), counter.with_its_own(), counter.left_out()], [3; 3]);
    assert!(ENTERED.load(Relaxed) >= 11, "each call entered a span");
    assert_calls(&[
        ("above", 1),
        ("below", 1),
        ("fails_above", 2),
        ("fails_below", 2),
        ("above_a_method", 1),
        ("below_a_method", 1),
        ("in_an_impl", 1),
        ("its own", 1),
    ]);
    let marks = marks_of(module_path!());
    assert!(marks.iter().all(|mark| mark.name != "with_its_own" && mark.name != "left_out"), "{marks:?}");
}

#[test]
fn inlined_calls_are_counted() {
    assert_eq!((always_above(1) + always_above(1), always_below(1)), (4, 3));
    assert_calls(&[("always_above", 2), ("always_below", 1)]);
}
