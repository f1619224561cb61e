//! What the attribute's expansion names. Not for anyone else, and no part of the versioned interface.

pub use crate::__perfmark_mark as mark;

#[cfg(feature = "record")]
mod recording {
    pub use inventory;

    use crate::mark;
    pub use crate::mark::{Mark, Registered};
    use crate::recorder::{self, Call};

    /// One call of a mark, ended when dropped; it belongs to the thread that made it.
    ///
    /// ```compile_fail
    /// fn sent<T: Send>() {}
    /// sent::<perfmark::private::Guard>();
    /// ```
    #[derive(Debug)]
    pub struct Guard(Call);

    /// Begins a call. Switched off it is a load and a branch.
    #[inline]
    #[must_use]
    pub fn enter(mark: &'static Mark) -> Guard {
        let place = mark.place();
        if mark::is_off(place) {
            return Guard(Call::NONE);
        }
        let call = recorder::enter(place);
        Guard(if call.is_none() { recorder::enter_unusual(mark) } else { call })
    }

    impl Drop for Guard {
        #[inline]
        fn drop(&mut self) {
            if self.0.is_open() {
                recorder::leave(&self.0);
            }
        }
    }
}
#[cfg(feature = "record")]
pub use recording::{Guard, Mark, Registered, enter, inventory};

/// The statement at the head of a marked function.
#[cfg(feature = "record")]
#[doc(hidden)]
#[macro_export]
macro_rules! __perfmark_mark {
    ($name:literal [$($event:literal),*] $every:literal $is_fenced:literal) => {
        let _perfmark = {
            fn here() {}
            static MARK: $crate::private::Mark = $crate::private::Mark::new(
                $name,
                || ::core::any::type_name_of_val(&here),
                ::core::file!(),
                ::core::line!(),
                &[$($event),*],
            )
            .with($every, $is_fenced);
            $crate::private::inventory::submit! { $crate::private::Registered(&MARK) }
            $crate::private::enter(&MARK)
        };
    };
}

/// The statement at the head of a marked function: nothing, in a build that does not record.
#[cfg(not(feature = "record"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __perfmark_mark {
    ($name:literal [$($event:literal),*] $every:literal $is_fenced:literal) => {};
}
