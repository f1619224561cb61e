//! What the attribute's expansion names. Not for anyone else, and no part of the versioned interface.

#[cfg(all(feature = "record", not(perfmark_off)))]
pub use crate::__perfmark_static as static_mark;
pub use crate::{
    __perfmark_begun as begun, __perfmark_defaults as defaults, __perfmark_guard as guard, __perfmark_mark as mark,
    __perfmark_polled as polled,
};

/// A value of the type that is wanted, in a branch that never runs.
#[doc(hidden)]
#[must_use]
pub fn never<T>() -> T {
    unreachable!("not called")
}

/// The type itself. Lints of the types of variables do not look into it.
#[doc(hidden)]
pub type Same<T> = T;

/// For the command line: this process leaves no report of its own where `PERFMARK_OUTPUT` says.
#[cfg(feature = "record")]
#[doc(hidden)]
pub fn leave_no_report() {
    crate::exit::leave_none();
}

/// For the command line: replaces a file as a whole, as reports do; `%p` in its name is the process's number, `%u` its token.
///
/// # Errors
///
/// As [`Report::write_to`](crate::Report::write_to).
#[cfg(feature = "record")]
#[doc(hidden)]
pub fn write_file(file: &std::path::Path, text: &str) -> std::io::Result<()> {
    crate::output::write_file(&crate::output::in_this_process(file, false), text)
}

/// For the command line: the columns that a table on this descriptor has.
#[cfg(feature = "record")]
#[doc(hidden)]
#[must_use]
pub fn columns(fd: i32) -> usize {
    crate::terminal::width_of(fd)
}

/// For the command line: whether a table on this descriptor has colours.
#[cfg(feature = "record")]
#[doc(hidden)]
#[must_use]
pub fn has_color(fd: i32) -> bool {
    crate::config::config().may_color && crate::terminal::is_terminal(fd)
}

/// For the command line: what is wrong with a value for `PERFMARK_EVENTS`.
///
/// # Errors
///
/// A sentence.
#[cfg(feature = "record")]
#[doc(hidden)]
pub fn check_events(list: &str) -> Result<(), String> {
    crate::config::check_events(list)
}

#[cfg(feature = "record")]
pub(crate) mod recording {
    pub use inventory;

    pub use crate::defaults::Defaults;
    pub use crate::future::Polled;
    pub use crate::generic::of_types;
    pub use crate::linked::Batch;
    pub use crate::mark::Mark;
    pub use crate::recorder::{Begun, Guard, begin, ended, enter};

    /// The name of the value's type. `type_name_of_val` in the user's crate would be newer than the Rust it may ask for, which lints tell.
    #[inline]
    #[must_use]
    pub fn name_of<T>(_: &T) -> &'static str {
        std::any::type_name::<T>()
    }
}
#[cfg(all(feature = "record", not(perfmark_off)))]
pub use recording::ended;
#[cfg(feature = "record")]
pub use recording::{Batch, Begun, Defaults, Guard, Mark, Polled, begin, enter, inventory, name_of, of_types};

/// The statement at the head of a region, and of a function whose result no variable can have (`impl Trait`), or that
/// never returns.
#[cfg(all(feature = "record", not(perfmark_off)))]
#[doc(hidden)]
#[macro_export]
macro_rules! __perfmark_mark {
    // Most marks are of this form. Without `guard!` in between they are compiled a little faster.
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

/// A mark, and a call of it that begins, for `ended`.
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
        $crate::private::begin($crate::private::of_types(&MARK, $crate::private::name_of(&|| ())))
    }};
}

/// A mark, and a guard for a call of it that begins.
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
        $crate::private::enter($crate::private::of_types(&MARK, $crate::private::name_of(&|| ())))
    }};
}

/// A future whose polls are a call of a mark. It does not see the items that make one.
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
                let __perfmark_of = || $crate::private::of_types(&MARK, $crate::private::name_of(&|| ()));
                $crate::private::Polled::new(__perfmark_of, __perfmark_future)
            }
        }
    };
}

/// The static that is a mark, where it is found before `main`: see `linked`. The user's crate is compiled for the same target as perfmark.
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

/// What a crate's marks record where they do not say.
#[cfg(all(feature = "record", not(perfmark_off)))]
#[doc(hidden)]
#[macro_export]
macro_rules! __perfmark_defaults {
    ([$events:literal] $every:literal $is_fenced:literal) => {
        $crate::private::inventory::submit! {
            $crate::private::Defaults::new(
                (::core::module_path!(), ::core::file!(), ::core::line!()),
                $events,
                $every,
                $is_fenced,
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

/// What stands for a call in a build that does not record.
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

/// What stands for a guard in a build that does not record.
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
        // Not a body that is a block and nothing else, of which lints think that it were better an async function's.
        match () {
            () => $future,
        }
    };
}

/// What stands for a guard where nothing is recorded. It is made and dropped as a guard is, and stays on its thread, so that what compiles here
/// compiles where something is recorded.
#[cfg(any(not(feature = "record"), perfmark_off))]
#[derive(Debug)]
pub struct Nothing(std::marker::PhantomData<*mut ()>);

#[cfg(any(not(feature = "record"), perfmark_off))]
impl Drop for Nothing {
    #[inline(always)]
    fn drop(&mut self) {}
}

/// No constant.
#[cfg(any(not(feature = "record"), perfmark_off))]
#[inline(always)]
#[allow(clippy::inline_always, reason = "so that it is gone in every build")]
#[must_use]
pub fn nothing() -> Nothing {
    Nothing(std::marker::PhantomData)
}
