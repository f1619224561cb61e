//! Zeroed memory that is given back all at once.
//!
//! A thread's histograms grow while it makes marked calls, perhaps in a signal handler that interrupted the program's allocator, or in that
//! allocator itself. So they grow in pages of their own.
#![allow(unsafe_code, reason = "hands out pieces of mapped memory")]

use std::cell::Cell;
use std::ptr::NonNull;

use crate::errno::KeepErrno;
use crate::per_process;
use crate::sync::AtomicU64;

/// Memory of one thread: that thread alone takes pieces, which live as long as the arena.
#[derive(Debug)]
pub(crate) struct Arena {
    /// The newest chunk, whose first word names the one before it.
    newest: Cell<Option<NonNull<u8>>>,
    used: Cell<usize>,
}

/// Mapped at a time. What is not used of it costs no memory.
const CHUNK: usize = 64 << 10;

/// The link in front of a chunk, with room to keep pieces aligned.
const LINK: usize = 16;

impl Arena {
    pub(crate) fn new() -> Self {
        Self { newest: Cell::new(None), used: Cell::new(CHUNK) }
    }

    /// Whether it has one chunk, or none.
    pub(crate) fn is_small(&self) -> bool {
        // SAFETY: written by `take`.
        let before = |chunk: NonNull<u8>| unsafe { chunk.cast::<Option<NonNull<u8>>>().read() };
        self.newest.get().and_then(before).is_none()
    }

    /// So many numbers side by side, all of them 0. None where the kernel has no memory.
    pub(crate) fn take<const N: usize>(&self) -> Option<NonNull<AtomicU64>> {
        const { assert!(size_of::<[AtomicU64; N]>() <= CHUNK - LINK && align_of::<AtomicU64>() <= LINK) };
        let size = size_of::<[AtomicU64; N]>().next_multiple_of(LINK);
        if self.used.get() + size > CHUNK {
            // In the middle of the program, at a marked call's end.
            let _errno = KeepErrno::new();
            let chunk = per_process::map(CHUNK).ok()?;
            // SAFETY: the chunk's first word, aligned as a page is.
            unsafe { chunk.cast::<Option<NonNull<u8>>>().write(self.newest.get()) };
            self.newest.set(Some(chunk));
            self.used.set(LINK);
        }
        // SAFETY: `used + size` bytes lie within the newest chunk.
        let piece = unsafe { self.newest.get()?.add(self.used.get()) };
        self.used.set(self.used.get() + size);
        // Zeroes are a number of the standard library's, and none of loom's.
        #[cfg(all(test, perfmark_loom))]
        // SAFETY: the piece is large enough.
        unsafe {
            piece.cast().write(std::array::from_fn::<_, N, _>(|_| AtomicU64::new(0)));
        }
        Some(piece.cast())
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        let mut next = self.newest.take();
        while let Some(chunk) = next {
            // SAFETY: written by `take`. In a forked child it reads as zeroes, and the older chunks stay mapped, wiped.
            next = unsafe { chunk.cast::<Option<NonNull<u8>>>().read() };
            // SAFETY: mapped by `take`; pieces do not outlive the arena.
            unsafe { per_process::unmap(chunk, CHUNK) };
        }
    }
}

#[cfg(all(test, not(perfmark_loom)))]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_zeroed_apart_and_writable() {
        let arena = Arena::new();
        let pieces: Vec<NonNull<[u64; 32]>> = (0..600).map(|_| arena.take::<32>().expect("memory").cast()).collect();
        for (n, piece) in pieces.iter().enumerate() {
            // SAFETY: zeroed, aligned, and nobody else's.
            let piece = unsafe { &mut *piece.as_ptr() };
            assert_eq!(*piece, [0; 32]);
            piece.fill(n as u64);
        }
        for (n, piece) in pieces.iter().enumerate() {
            // SAFETY: as above.
            assert_eq!(unsafe { piece.read() }, [n as u64; 32]);
        }
    }
}
