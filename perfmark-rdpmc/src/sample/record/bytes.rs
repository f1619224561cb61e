//! Reads numbers from bytes, never beyond their end.

use std::fmt;

/// Bytes that have not been read yet. Numbers are in the order of this machine's bytes, as the kernel writes them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bytes<'a>(pub(super) &'a [u8]);

impl<'a> Bytes<'a> {
    pub(super) fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    /// As many bytes as a number says that was read from the record.
    pub(super) fn take_counted(&mut self, length: u64) -> Option<&'a [u8]> {
        self.take(usize::try_from(length).ok()?)
    }

    /// As many numbers as a number says that was read from the record.
    pub(super) fn words(&mut self, count: u64) -> Option<Words<'a>> {
        self.take_counted(count.checked_mul(8)?).map(Words)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_ne_bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_ne_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_ne_bytes)
    }

    /// What `parse` reads, if the record has it: the outer `None` is the end of the bytes.
    #[expect(clippy::option_option, reason = "the end of the bytes, and what the record does not have")]
    pub(super) fn given<T>(&mut self, is_given: bool, parse: impl FnOnce(&mut Self) -> Option<T>) -> Option<Option<T>> {
        if is_given { parse(self).map(Some) } else { Some(None) }
    }

    /// All the rest up to the first zero byte, which is the end of a text.
    pub(super) fn text(self) -> &'a [u8] {
        self.0.split(|&byte| byte == 0).next().unwrap_or_default()
    }
}

/// Numbers in a record.
#[derive(Clone, Copy, Default)]
pub struct Words<'a>(&'a [u8]);

impl<'a> Words<'a> {
    /// The number at an index.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<u64> {
        Bytes(self.0.get(index.checked_mul(8)?..)?).u64()
    }

    /// All of them.
    #[must_use]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = u64> + use<'a> {
        self.0.chunks_exact(8).map(|word| Bytes(word).u64().unwrap_or_default())
    }
}

impl fmt::Debug for Words<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
