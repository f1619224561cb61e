//! TODO

/// What a call holds: the serial number of its frame, perhaps with [`SLOW`]; or, with the highest bit, why it has none.
pub(crate) type Token = u64;

/// The call has no frame, and no end. A mark's place with which its calls do nothing is such a token, too.
pub(super) const NO_FRAME: Token = 1 << 63;
/// Beginning the call takes more than the thread's recorder.
pub(super) const NEEDS_SETUP: Token = NO_FRAME | 1 << 62;
/// A poll whose call is not measured.
pub(super) const SKIPPED: Token = NO_FRAME | 1;
/// A poll for which the stack has no room.
pub(super) const FULL: Token = NO_FRAME | 2;

/// In a token: the call ends on the slow path.
pub(super) const SLOW: u64 = 1 << 61;
/// In a frame's serial number: a panic was in progress when the call began.
pub(super) const PANICKING: u64 = 1 << 60;
/// The rest: what is counted up at each call.
pub(super) const SERIAL: u64 = PANICKING - 1;

/// Whether a call with that token was given a frame.
#[inline]
pub(super) fn has_frame(token: Token) -> bool {
    token.cast_signed() >= 0
}
