//! Addresses in samples, which may be anything.

/// Replaces what is no address of user space, whether of code or of a stack. framehop adds offsets to such words, which
/// could overflow, and debug builds then panic.
pub(super) fn plausible(word: u64) -> u64 {
    const PAGE: u64 = 4096;
    if (PAGE..1 << 63).contains(&word) { word } else { PAGE }
}
