//! An arena of zeroed memory.
//!
//! A thread's histograms grow while it makes marked calls, perhaps in a signal handler that interrupted the program's
//! allocator, or in a marked allocator itself. So they cannot use that allocator, and grow in separate pages.
#![allow(unsafe_code, reason = "returns parts of mapped memory")]

use std::cell::Cell;
use std::ptr::NonNull;

use super::errno::KeepErrno;
use super::per_process;
use super::sync::AtomicU64;

/// Memory of one thread. Only that thread takes pieces, which live as long as the arena.
#[derive(Debug)]
pub(crate) struct Arena {
    /// The newest chunk, whose first word points to the previous one.
    newest: Cell<Option<NonNull<u8>>>,
    used: Cell<usize>,
}

/// The size of a mapping. Unused pages of it take no memory.
const CHUNK: usize = 64 << 10;

/// The size of a chunk's link, padded so that pieces are aligned.
const LINK: usize = 16;

impl Arena {
    pub(crate) fn new() -> Self {
        Self { newest: Cell::new(None), used: Cell::new(CHUNK) }
    }

    /// Whether it has at most one chunk.
    pub(crate) fn is_small(&self) -> bool {
        // SAFETY: written by `take`.
        let before = |chunk: NonNull<u8>| unsafe { chunk.cast::<Option<NonNull<u8>>>().read() };
        self.newest.get().and_then(before).is_none()
    }

    /// Takes an array of `N` zeroes. `None` if the kernel has no memory.
    pub(crate) fn take<const N: usize>(&self) -> Option<NonNull<AtomicU64>> {
        const { assert!(size_of::<[AtomicU64; N]>() <= CHUNK - LINK && align_of::<AtomicU64>() <= LINK) };
        let size = size_of::<[AtomicU64; N]>().next_multiple_of(LINK);
        if self.used.get() + size > CHUNK {
            // This runs in the program, at the exit of a marked call.
            let _errno = KeepErrno::new();
            let chunk = per_process::map(CHUNK).ok()?;
            // SAFETY: the chunk's first word; a chunk is page-aligned.
            unsafe { chunk.cast::<Option<NonNull<u8>>>().write(self.newest.get()) };
            self.newest.set(Some(chunk));
            self.used.set(LINK);
        }
        // SAFETY: the newest chunk has at least `used + size` bytes.
        let piece = unsafe { self.newest.get()?.add(self.used.get()) };
        self.used.set(self.used.get() + size);
        // Zeroes are a valid atomic of the standard library, but not of loom.
        // They are written one by one, because the stack of a thread in loom is small.
        #[cfg(all(test, perfmark_loom))]
        for n in 0..N {
            // SAFETY: the piece is large enough.
            unsafe { piece.cast::<AtomicU64>().add(n).write(AtomicU64::new(0)) };
        }
        Some(piece.cast())
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        let mut next = self.newest.take();
        while let Some(chunk) = next {
            // SAFETY: written by `take`. In a forked child it reads as zeroes, and the older, wiped chunks stay mapped.
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
            // SAFETY: it was written by the loop before, and is nobody else's.
            assert_eq!(unsafe { piece.read() }, [n as u64; 32]);
        }
    }
}
