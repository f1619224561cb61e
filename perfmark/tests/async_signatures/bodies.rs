//! Marked async functions: their bodies, their attributes, and the macros that make them.

use std::future::{Future, ready};
use std::sync::Mutex;

use perfmark::perfmark;

#[perfmark(time)]
pub(crate) async fn closures_and_blocks(n: u32) -> u32 {
    #![allow(clippy::redundant_closure_call, reason = "an inner attribute")]
    const ONE: u32 = 1;
    let add = |by: u32| {
        if by == 0 {
            return n;
        }
        n + by
    };
    let block = async {
        if n == 0 {
            return Err("zero");
        }
        Ok(ready(n).await)
    };
    let moved = async move { ready(n).await };
    add(0) + add(ONE) + block.await.unwrap_or(0) + moved.await + (|| ONE)()
}

#[perfmark(time)]
pub(crate) async fn gives_a_future(n: u32) -> impl Future<Output = u32> {
    async move { ready(n).await }
}

#[perfmark(time)]
#[must_use]
#[inline]
#[doc(hidden)]
#[allow(unused_variables, reason = "a test")]
#[cfg_attr(not(any()), allow(clippy::ptr_arg, reason = "a test"))]
pub(crate) async fn of_many_attributes(unused: &Vec<u32>) -> u32 {
    #[allow(clippy::let_and_return, reason = "on a statement")]
    let one = ready(1).await;
    one
}

/// The line that `Location::caller` gives, and the line inside the body.
#[perfmark(time)]
#[track_caller]
#[allow(ungated_async_fn_track_caller, reason = "it does nothing yet")]
pub(crate) async fn located() -> (u32, u32) {
    ready((std::panic::Location::caller().line(), line!())).await
}

#[perfmark(time)]
#[expect(clippy::unused_async, reason = "a test")]
pub(crate) async fn waits_for_nothing() -> u32 {
    1
}

/// Makes marked async functions.
macro_rules! made {
    (
        $(#[$attribute:meta])*
        $vis:vis $name:ident($arg:ident: $t:ty, $p:pat_param, $q:ident) -> $r:ty, $body:block, $e:expr
    ) => {
        $(#[$attribute])*
        #[perfmark(time)]
        $vis async fn $name($arg: $t, $p: (u32, $t), mut $q: u32) -> $r {
            let inner = $body;
            $q += inner;
            ready(()).await;
            $q + $e
        }

        #[perfmark(time)]
        $vis async fn by_block($arg: $t) -> $r $body
    };
}
made! {
    /// Documented.
    #[inline]
    pub(crate) by_macro(n: u32, (a, _), q) -> u32, { n + 1 }, a + 97
}

/// What the last expression borrows from arguments is released before they are dropped.
#[perfmark(time)]
pub(crate) async fn temporaries(text: Mutex<String>, (number, _): (Mutex<usize>, u32)) -> usize {
    if *number.lock().unwrap() == 0 {
        return text.lock().unwrap().len() + *number.lock().unwrap();
    }
    ready(()).await;
    text.lock().unwrap().len() + *number.lock().unwrap()
}

/// Names that the body gives to its own items, and names of the expansion.
#[perfmark(time)]
#[allow(non_snake_case, unused_variables, reason = "the names are the test")]
pub(crate) async fn names(ITEM: u32, MARK: u32, here: u32, mark: u32, future: u32) -> u32 {
    const ITEM: u32 = 1;
    ready(ITEM + MARK + here + mark + future).await
}
