//! Items for the attribute's expansion. They are not part of the versioned interface.

#[cfg(all(feature = "record", not(perfmark_off)))]
pub use crate::__perfmark_static as static_mark;
pub use crate::{
    __perfmark_begun as begun, __perfmark_defaults as defaults, __perfmark_guard as guard, __perfmark_mark as mark,
    __perfmark_polled as polled,
};

/// A value of any type, in a branch that never runs.
#[doc(hidden)]
#[must_use]
pub fn never<T>() -> T {
    unreachable!("not called")
}

/// The type itself. Lints on the types of variables do not see through it.
#[doc(hidden)]
pub type Same<T> = T;

#[cfg(feature = "record")]
#[doc(hidden)]
pub mod recording {
    pub use inventory;

    pub use crate::recording::Polled;
    pub use crate::recording::mark::Mark;
    pub use crate::recording::mark::defaults::Defaults;
    pub use crate::recording::mark::linked::Batch;
    pub use crate::recording::of_types;
    pub use crate::recording::recorder::{Begun, Guard, begin, ended, enter, seed_draws};
}
#[cfg(all(feature = "record", not(perfmark_off)))]
pub use recording::ended;
#[cfg(feature = "record")]
pub use recording::{Batch, Begun, Defaults, Guard, Mark, Polled, begin, enter, inventory, of_types, seed_draws};

/// The statement at the beginning of a region, of a function whose result cannot be stored in a variable (`impl
/// Trait`), and of a function that never returns.
#[cfg(all(feature = "record", not(perfmark_off)))]
#[doc(hidden)]
#[macro_export]
macro_rules! __perfmark_mark {
    // Most marks have this form. Without the indirection of `guard!` they compile slightly faster.
    ($name:literal [$events:literal] $every:literal $is_fenced:literal) => {
        let _perfmark = {
            $crate::private::static_mark! { $name [$events] $every $is_fenced }
            $crate::private::enter(&MARK)
        };
    };
    ($($mark:tt)*) => {
        let _perfmark = $crate::private::guard! { $($mark)* };
    };
}

/// A mark, and the beginning of a call of it, for `ended`.
#[cfg(all(feature = "record", not(perfmark_off)))]
#[doc(hidden)]
#[macro_export]
macro_rules! __perfmark_begun {
    ($name:literal [$events:literal] $every:literal $is_fenced:literal) => {{
        $crate::private::static_mark! { $name [$events] $every $is_fenced }
        $crate::private::begin(&MARK)
    }};
    ($name:literal [$events:literal] $every:literal $is_fenced:literal generic) => {{
        $crate::private::static_mark! { $name [$events] $every $is_fenced }
        $crate::private::begin($crate::private::of_types(&MARK, &|| ()))
    }};
}

/// A mark, and a guard for a call of it.
#[cfg(all(feature = "record", not(perfmark_off)))]
#[doc(hidden)]
#[macro_export]
macro_rules! __perfmark_guard {
    ($name:literal [$events:literal] $every:literal $is_fenced:literal) => {{
        $crate::private::static_mark! { $name [$events] $every $is_fenced }
        $crate::private::enter(&MARK)
    }};
    ($name:literal [$events:literal] $every:literal $is_fenced:literal generic) => {{
        $crate::private::static_mark! { $name [$events] $every $is_fenced }
        $crate::private::enter($crate::private::of_types(&MARK, &|| ()))
    }};
}

/// A future whose polls are a call of a mark. The future's expression does not see the items that define the mark.
#[cfg(all(feature = "record", not(perfmark_off)))]
#[doc(hidden)]
#[macro_export]
macro_rules! __perfmark_polled {
    ({ $name:literal [$events:literal] $every:literal $is_fenced:literal } $future:expr) => {
        match $future {
            __perfmark_future => {
                $crate::private::static_mark! { $name [$events] $every $is_fenced .polled() }
                $crate::private::Polled::new(|| &MARK, __perfmark_future)
            }
        }
    };
    ({ $name:literal [$events:literal] $every:literal $is_fenced:literal generic } $future:expr) => {
        match $future {
            __perfmark_future => {
                $crate::private::static_mark! { $name [$events] $every $is_fenced .polled() }
                let __perfmark_of = || $crate::private::of_types(&MARK, &|| ());
                $crate::private::Polled::new(__perfmark_of, __perfmark_future)
            }
        }
    };
}

/// The static of a mark, placed where it is found before `main`: see `recording::mark::linked`. The user's crate is
/// compiled for the same target as perfmark.
#[cfg(all(feature = "record", not(perfmark_off)))]
#[doc(hidden)]
#[macro_export]
macro_rules! __perfmark_static {
    ($name:literal [$events:literal] $every:literal $is_fenced:literal $($more:tt)*) => {
        enum Here {}
        #[cfg_attr(all(target_os = "linux", not(miri)), used, unsafe(link_section = "perfmark_marks"))]
        static MARK: $crate::private::Mark = $crate::private::Mark::new::<Here>(
            $name,
            (::core::module_path!(), ::core::file!(), ::core::line!()),
            $events,
            $every,
            $is_fenced,
        ) $($more)*;
        #[cfg(not(all(target_os = "linux", not(miri))))]
        $crate::private::inventory::submit! { $crate::private::Batch::of(&MARK) }
    };
}

/// The settings of a crate's marks that do not specify their own.
#[cfg(all(feature = "record", not(perfmark_off)))]
#[doc(hidden)]
#[macro_export]
macro_rules! __perfmark_defaults {
    ([$events:literal] $every:literal $is_fenced:literal $budget:literal) => {
        $crate::private::inventory::submit! {
            $crate::private::Defaults::new(
                (::core::module_path!(), ::core::file!(), ::core::line!()),
                $events,
                $every,
                $is_fenced,
                $budget,
            )
        }
    };
}

/// Nothing, in a build that does not record.
#[cfg(any(not(feature = "record"), perfmark_off))]
#[doc(hidden)]
#[macro_export]
macro_rules! __perfmark_defaults {
    ($($defaults:tt)*) => {};
}

/// The same: nothing, in a build that does not record.
#[cfg(any(not(feature = "record"), perfmark_off))]
#[doc(hidden)]
#[macro_export]
macro_rules! __perfmark_mark {
    ($($mark:tt)*) => {
        _ = $crate::private::nothing();
    };
}

/// The replacement for a call in a build that does not record.
#[cfg(any(not(feature = "record"), perfmark_off))]
#[doc(hidden)]
#[macro_export]
macro_rules! __perfmark_begun {
    ($($mark:tt)*) => {
        ()
    };
}

/// Nothing, in a build that does not record.
#[cfg(any(not(feature = "record"), perfmark_off))]
#[inline(always)]
#[allow(clippy::inline_always, reason = "so that it is gone in every build")]
pub fn ended((): ()) {}

/// The replacement for a guard in a build that does not record.
#[cfg(any(not(feature = "record"), perfmark_off))]
#[doc(hidden)]
#[macro_export]
macro_rules! __perfmark_guard {
    ($($mark:tt)*) => {
        $crate::private::nothing()
    };
}

/// A future, as it is, in a build that does not record.
#[cfg(any(not(feature = "record"), perfmark_off))]
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
#[cfg(any(not(feature = "record"), perfmark_off))]
#[derive(Debug)]
pub struct Nothing(core::marker::PhantomData<*mut ()>);

#[cfg(any(not(feature = "record"), perfmark_off))]
impl Drop for Nothing {
    #[inline(always)]
    fn drop(&mut self) {}
}

/// Deliberately not a constant function.
#[cfg(any(not(feature = "record"), perfmark_off))]
#[inline(always)]
#[allow(clippy::inline_always, reason = "so that it is gone in every build")]
#[must_use]
pub fn nothing() -> Nothing {
    Nothing(core::marker::PhantomData)
}
