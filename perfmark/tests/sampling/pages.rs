//! Page faults.
#![allow(unsafe_code, reason = "mmap")]

use std::ptr;

const PAGE: usize = 4_096;

/// New pages: the first access to each causes a page fault.
pub(crate) struct Pages {
    start: *mut libc::c_void,
    bytes: usize,
}

impl Pages {
    pub(crate) fn new(pages: usize) -> Self {
        const ACCESS: libc::c_int = libc::PROT_READ | libc::PROT_WRITE;
        const KIND: libc::c_int = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let bytes = pages.max(1) * PAGE;
        // SAFETY: a new mapping, which only this value uses.
        unsafe {
            let start = libc::mmap(ptr::null_mut(), bytes, ACCESS, KIND, -1, 0);
            assert_ne!(start, libc::MAP_FAILED);
            libc::madvise(start, bytes, libc::MADV_NOHUGEPAGE);
            Self { start, bytes }
        }
    }

    pub(crate) fn start(&self) -> *mut u8 {
        self.start.cast()
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's.
        unsafe { libc::munmap(self.start, self.bytes) };
    }
}

/// Causes a page fault in each of these pages.
pub(crate) fn touch(pages: usize) {
    let memory = Pages::new(pages);
    for page in 0..pages {
        // SAFETY: within the mapping.
        unsafe { memory.start().add(page * PAGE).write_volatile(1) };
    }
}
