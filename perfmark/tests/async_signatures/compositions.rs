//! The attribute above and below attributes of other macros: async functions keep their meaning. Where the mark sees
//! the future, a call is the sum of its polls.

use std::cell::Cell;
use std::error::Error;
use std::pin::pin;
use std::rc::Rc;

use async_trait::async_trait;
use perfmark::{Mark, perfmark, snapshot};
use tokio::runtime::Builder;
use tokio::task::yield_now;
use tracing::instrument;

use crate::executor;

fn run<F: Future>(future: F) -> F::Output {
    Builder::new_current_thread().build().expect("a runtime").block_on(future)
}

/// Polls the future once, and drops it.
fn poll_once(future: impl Future) {
    assert!(executor::once(pin!(future)).is_pending(), "it waits");
}

fn find_mark(name: &str) -> Option<Mark> {
    let mark = snapshot().marks.into_iter().find(|mark| mark.name == name);
    assert_eq!(mark.is_some(), cfg!(feature = "record"), "{name}");
    mark
}

/// Checks calls, cancelled calls and polls of a mark.
#[track_caller]
fn assert_counts(name: &str, expected: [u64; 3]) {
    let Some(mark) = find_mark(name) else { return };
    assert_eq!([mark.calls, mark.cancelled, mark.polls], expected, "{name}");
    assert!(mark.values.iter().all(|values| values.measured + mark.cancelled + mark.unwound == mark.calls), "{name}");
}

// Attributes of tokio.

#[perfmark(time, name = "above tokio::main")]
#[tokio::main(flavor = "current_thread")]
async fn above_main(text: &str) -> Result<u32, Box<dyn Error>> {
    yield_now().await;
    let number = text.parse::<u32>()?;
    yield_now().await;
    Ok(number + 1)
}

#[tokio::main(flavor = "current_thread")]
#[perfmark(time, name = "below tokio::main")]
async fn below_main(text: &str) -> Result<u32, Box<dyn Error>> {
    yield_now().await;
    Ok(text.parse::<u32>()? + 1)
}

#[test]
fn a_mark_above_tokio_main_counts_polls_and_one_below_counts_blocking_calls() {
    assert_eq!(above_main("1").ok(), Some(2));
    assert!(above_main("x").is_err());
    assert_counts("above tokio::main", [2, 0, 5]);
    assert_eq!(below_main("1").ok(), Some(2));
    assert!(below_main("x").is_err());
    // The attribute leaves a function that is not async.
    assert_counts("below tokio::main", [2, 0, 0]);
}

#[perfmark(time, name = "above tokio::test")]
#[tokio::test]
async fn above_tokio_test() {
    yield_now().await;
}

#[tokio::test]
#[perfmark(time, name = "below tokio::test")]
async fn below_tokio_test() {
    yield_now().await;
    // The call is still in flight.
    let Some(mark) = find_mark("below tokio::test") else { return };
    assert_eq!((mark.calls, mark.in_flight, mark.polls), (0, 1, 0));
}

#[tokio::test]
async fn calls_inside_an_unmarked_tokio_test_count_polls() {
    assert_eq!(instrumented_below(2, "").await, 2);
    assert_counts("instrument below", [1, 0, 2]);
}

// Attributes of tracing.

#[perfmark(time, name = "instrument below")]
#[instrument]
async fn instrumented_below(n: u32, text: &str) -> u32 {
    yield_now().await;
    n
}

#[instrument(skip(text), fields(length = text.len()), err)]
#[perfmark(time, name = "instrument above")]
async fn instrumented_above(text: String, (one, mut two): (u32, u32)) -> Result<u32, std::num::ParseIntError> {
    yield_now().await;
    two += text.parse::<u32>()?;
    yield_now().await;
    Ok(one + two)
}

struct Table(Vec<u32>);

#[perfmark(time)]
impl Table {
    #[instrument(skip_all)]
    async fn instrumented_in_an_impl<T: Into<u32>>(&mut self, more: T) -> &mut [u32] {
        self.0.push(more.into());
        yield_now().await;
        &mut self.0
    }
}

#[test]
fn marks_above_and_below_instrument_count_polls() {
    let all = ("1".into(), (2, 3));
    assert_eq!(run(instrumented_above(all.0, all.1)), Ok(6));
    assert!(run(instrumented_above("x".into(), all.1)).is_err());
    poll_once(instrumented_above("1".into(), all.1));
    assert_counts("instrument above", [3, 1, 3 + 2 + 1]);
    let mut table = Table(vec![]);
    assert_eq!(run(table.instrumented_in_an_impl(1_u8)), [1]);
    poll_once(table.instrumented_in_an_impl(2_u8));
    assert_counts("instrumented_in_an_impl", [2, 1, 3]);
}

// Attributes of async_trait.

/// Has marks on single methods.
#[async_trait]
trait Load {
    async fn load(&self, key: &str) -> Option<u32>;

    #[perfmark(time, name = "default method")]
    async fn twice(&self, key: &str) -> Option<u32> {
        Some(self.load(key).await? + self.load(key).await?)
    }
}

#[async_trait]
impl Load for Table {
    #[perfmark(time, name = "method")]
    async fn load(&self, key: &str) -> Option<u32> {
        yield_now().await;
        self.0.get(key.parse::<usize>().ok()?).copied()
    }
}

/// Has one mark on the complete trait or impl, above and below `async_trait`.
#[perfmark(time)]
#[async_trait]
trait Above: Sync {
    async fn of_above(&self) -> u32;

    async fn default_above(&self) -> u32 {
        yield_now().await;
        self.of_above().await
    }
}

#[async_trait]
#[perfmark(time)]
trait Below: Sync {
    async fn of_below(&mut self, by: u32) -> &u32;

    async fn default_below(&self) -> u32 {
        yield_now().await;
        3
    }
}

#[perfmark(time)]
#[async_trait]
impl Above for Table {
    async fn of_above(&self) -> u32 {
        yield_now().await;
        self.0.iter().sum()
    }
}

#[async_trait]
#[perfmark(time)]
impl Below for Table {
    async fn of_below(&mut self, by: u32) -> &u32 {
        self.0.push(by);
        yield_now().await;
        &self.0[0]
    }

    #[perfmark(skip)]
    async fn default_below(&self) -> u32 {
        yield_now().await;
        4
    }
}

/// Uses the trait's default methods.
struct Defaults;

#[async_trait]
impl Below for Defaults {
    async fn of_below(&mut self, _: u32) -> &u32 {
        &0
    }
}

#[async_trait(?Send)]
trait Local {
    #[perfmark(time)]
    async fn local(&self, count: Rc<Cell<u32>>) {
        yield_now().await;
        count.set(count.get() + 1);
    }
}

impl Local for Table {}

#[perfmark(time)]
#[async_trait]
impl Load for Defaults {
    #[instrument(skip(self))]
    async fn load(&self, key: &str) -> Option<u32> {
        yield_now().await;
        key.parse().ok()
    }
}

#[test]
fn marks_on_methods_of_async_trait_count_polls() {
    let table = Table(vec![3, 4]);
    let dynamic: &(dyn Load + Sync) = &table;
    assert_eq!(run(dynamic.twice("1")), Some(8));
    assert_eq!(run(dynamic.twice("x")), None);
    poll_once(dynamic.load("0"));
    poll_once(dynamic.twice("0"));
    assert_counts("method", [5, 2, 8]);
    assert_counts("default method", [3, 1, 6]);
}

#[test]
fn marks_above_and_below_async_trait_count_polls_on_traits_and_impls() {
    let mut table = Table(vec![1, 2]);
    assert_eq!((run(table.of_above()), run(table.default_above())), (3, 3));
    assert_counts("of_above", [2, 0, 4]);
    assert_counts("default_above", [1, 0, 3]);
    poll_once(table.default_above());
    assert_counts("default_above", [2, 1, 4]);
    poll_once(table.of_below(3));
    assert_eq!((*run(table.of_below(4)), table.0.len()), (1, 4));
    assert_counts("of_below", [2, 1, 3]);
    assert_eq!((run(table.default_below()), run(Defaults.default_below())), (4, 3));
    assert_eq!(*run(Defaults.of_below(1)), 0);
    assert_counts("default_below", [1, 0, 2]);
}

#[test]
fn marks_count_polls_of_async_trait_futures_that_are_not_send() {
    let count = Rc::new(Cell::new(0));
    run(Table(vec![]).local(Rc::clone(&count)));
    assert_eq!(count.get(), 1);
    assert_counts("local", [1, 0, 2]);
}

#[test]
fn an_instrumented_method_of_a_marked_async_trait_counts_polls() {
    assert_eq!((run(Defaults.load("7")), run(Defaults.load("x"))), (Some(7), None));
    assert_counts("load", [2, 0, 4]);
}
