//! What the attribute's expansion names. Not for anyone else, and no part of the versioned interface.

pub use crate::__perfmark_mark as mark;

#[cfg(feature = "record")]
mod recording {
    use std::marker::PhantomData;

    pub use inventory;

    pub use crate::mark::{Mark, Registered};
    use crate::recorder::{self, Token};
    use crate::start;

    /// One call of a mark, ended when dropped; it belongs to the thread that made it.
    #[derive(Debug)]
    pub struct Guard {
        token: Token,
        this_thread: PhantomData<*const ()>,
    }

    /// Begins a call. Switched off it is a load and a branch.
    #[inline]
    #[must_use]
    pub fn enter(mark: &'static Mark) -> Guard {
        let token = if start::is_off() { 0 } else { recorder::enter(mark) };
        Guard { token, this_thread: PhantomData }
    }

    impl Drop for Guard {
        #[inline]
        fn drop(&mut self) {
            if self.token != 0 {
                recorder::leave(self.token);
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
    ($name:literal [$($event:literal),*]) => {
        let _perfmark = {
            fn here() {}
            static MARK: $crate::private::Mark = $crate::private::Mark::new(
                $name,
                || ::core::any::type_name_of_val(&here),
                ::core::file!(),
                ::core::line!(),
                &[$($event),*],
            );
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
    ($name:literal [$($event:literal),*]) => {};
}
