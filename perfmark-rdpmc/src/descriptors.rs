//! The descriptors of counters and rings, for event loops and for requests that this crate does not make.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use crate::counter::Counter;
use crate::group::Group;
use crate::sample::Ring;
use crate::sys::Descriptor;
use crate::target_counter::TargetCounter;
use crate::target_group::TargetGroup;

/// Implements both traits for types that have a descriptor.
macro_rules! lend {
    ($($owner:ty, $of:expr, $what:literal;)*) => {$(
        #[doc = concat!("The descriptor of ", $what, ", until it is dropped.")]
        ///
        /// In a forked child it is closed, so it must not be used there. Its status flags (`F_SETFL`) must stay as they
        /// are: this crate recognizes it by them.
        impl AsFd for $owner {
            fn as_fd(&self) -> BorrowedFd<'_> {
                let of: fn(&Self) -> &Descriptor = $of;
                of(self).as_fd()
            }
        }

        /// As `AsFd`.
        impl AsRawFd for $owner {
            fn as_raw_fd(&self) -> RawFd {
                self.as_fd().as_raw_fd()
            }
        }
    )*};
}

lend! {
    Counter, |counter| counter.source().descriptor(), "the event; on several kinds of core, of the first one";
    Group, |group| group.counters()[0].source().descriptor(), "the leader";
    TargetCounter, |counter| counter.source().descriptor(), "the event; on several kinds of core, of the first one";
    TargetGroup, |group| group.leader().descriptor(), "the leader";
    Ring, |ring| ring.source().descriptor(), "the sampled event, which is ready to be read when the ring is";
}
