//! What the attribute's expansion becomes in a build that does not record.

/// Nothing, in a build that does not record.
#[doc(hidden)]
#[macro_export]
macro_rules! __perfmark_defaults {
    ($($defaults:tt)*) => {};
}

/// The same: nothing, in a build that does not record.
#[doc(hidden)]
#[macro_export]
macro_rules! __perfmark_mark {
    ($($mark:tt)*) => {
        _ = $crate::private::nothing();
    };
}

/// The replacement for a call in a build that does not record.
#[doc(hidden)]
#[macro_export]
macro_rules! __perfmark_begun {
    ($($mark:tt)*) => {
        ()
    };
}

/// Nothing, in a build that does not record.
#[inline(always)]
#[allow(clippy::inline_always, reason = "so that it is gone in every build")]
pub fn ended((): ()) {}

/// The replacement for a guard in a build that does not record.
#[doc(hidden)]
#[macro_export]
macro_rules! __perfmark_guard {
    ($($mark:tt)*) => {
        $crate::private::nothing()
    };
}

/// A future, as it is, in a build that does not record.
#[doc(hidden)]
#[macro_export]
macro_rules! __perfmark_polled {
    ({ $($mark:tt)* } $future:expr) => {
        // `match` instead of a plain block, for which lints would suggest an async function.
        match () {
            () => $future,
        }
    };
}

/// The replacement for a guard in a build that does not record. Like a guard, it is created and dropped, and stays on
/// its thread. So code that compiles without recording also compiles with it.
#[derive(Debug)]
pub struct Nothing(core::marker::PhantomData<*mut ()>);

impl Drop for Nothing {
    #[inline(always)]
    fn drop(&mut self) {}
}

/// Deliberately not a constant function.
#[inline(always)]
#[allow(clippy::inline_always, reason = "so that it is gone in every build")]
#[must_use]
pub fn nothing() -> Nothing {
    Nothing(core::marker::PhantomData)
}
