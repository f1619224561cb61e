//! What the attribute's expansion becomes in a build that records.

pub use crate::__perfmark_static as static_mark;
pub use crate::recording::recorder::ended;

/// The statement at the beginning of a region, of a function whose result cannot be stored in a variable (`impl
/// Trait`), and of a function that never returns.
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
