//! The token that a call holds between entry and exit.

use crate::recording::cells::{CALLS, RANGES};
use crate::recording::mark::entry::OFF;

/// The serial number of the call's frame, possibly with flags, from 1 on. If the highest bit is set, the call has no
/// frame, and the token is one of the reasons below. The [entry](crate::recording::mark::entry) of a mark that is off,
/// or that skips the call, is such a token, too.
pub(crate) type Token = u64;

/// The call has no frame, and its exit does nothing.
pub(crate) const NO_FRAME: Token = 1 << 63;
/// Entry needs setup: the thread does not know the mark yet, or its recorder cannot be acquired.
pub(crate) const NEEDS_SETUP: Token = NO_FRAME | 1 << 62;
/// A poll for which the stack was full. The serial number is the thread's latest: it tells on which thread, and in
/// which process, the poll began.
pub(crate) const STACK_FULL: Token = NO_FRAME | PANICKING;

/// Flag in a token, without [`PANICKING`]: the call ends on the slow path.
pub(crate) const SLOW: u64 = 1 << 61;
/// Flag in a frame's serial number, without [`SLOW`]: a panic was in progress when the call began.
pub(crate) const PANICKING: u64 = 1 << 60;
/// Both flags, in a token and in its frame: the call is skipped, and has a frame only because it is sampled.
pub(crate) const FRAME_OF_SKIPPED: u64 = SLOW | PANICKING;
/// The bits of the serial number itself, which counts calls.
pub(crate) const SERIAL: u64 = PANICKING - 1;
const _: () = assert!(SERIAL == CALLS * RANGES - 1);

/// Whether the call with this token is skipped, but has a frame.
pub(crate) fn is_skipped(token: Token) -> bool {
    has_frame(token) && token & FRAME_OF_SKIPPED == FRAME_OF_SKIPPED
}

/// Whether the call with this token was given a frame.
#[inline]
pub(crate) fn has_frame(token: Token) -> bool {
    token.cast_signed() > if OFF == 0 { 0 } else { -1 }
}
