//! Memory whose pages fault at the first access.

#![allow(dead_code, reason = "not every test program uses all of it")]

use std::ptr::{self, NonNull};

/// Causes one fault in each of that many new pages.
pub(crate) fn faults(pages: usize) {
    if pages > 0 {
        Memory::new(pages).touch();
    }
}

/// Pages that have not been touched yet.
pub(crate) struct Memory {
    start: NonNull<u8>,
    pages: usize,
}

pub(crate) fn page_size() -> usize {
    // SAFETY: no preconditions.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).expect("a size")
}

impl Memory {
    pub(crate) fn new(pages: usize) -> Self {
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start = unsafe { libc::mmap(ptr::null_mut(), pages * page_size(), access, kind, -1, 0) };
        assert_ne!(start, libc::MAP_FAILED);
        // With huge pages there would be one fault for many pages. Kernels without huge pages refuse, which is fine.
        // SAFETY: our own mapping.
        unsafe { libc::madvise(start, pages * page_size(), libc::MADV_NOHUGEPAGE) };
        Self { start: NonNull::new(start.cast()).expect("not at 0"), pages }
    }

    /// Where it starts.
    pub(crate) fn address(&self) -> usize {
        self.start.as_ptr().expose_provenance()
    }

    /// Writes to each page.
    pub(crate) fn touch(&self) {
        for page in 0..self.pages {
            // SAFETY: inside the mapping.
            unsafe { self.start.as_ptr().add(page * page_size()).write_volatile(1) };
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: our own mapping, and nothing refers to it.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.pages * page_size()) };
    }
}
