//! Page faults.
#![allow(unsafe_code, reason = "mmap")]

use std::ptr;

/// Causes a page fault in each of these pages.
pub(crate) fn touch(pages: usize) {
    const PAGE: usize = 4_096;
    const ACCESS: libc::c_int = libc::PROT_READ | libc::PROT_WRITE;
    const KIND: libc::c_int = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping, which only this function uses.
    unsafe {
        let start = libc::mmap(ptr::null_mut(), pages * PAGE, ACCESS, KIND, -1, 0);
        assert_ne!(start, libc::MAP_FAILED);
        libc::madvise(start, pages * PAGE, libc::MADV_NOHUGEPAGE);
        for page in 0..pages {
            start.cast::<u8>().add(page * PAGE).write_volatile(1);
        }
        libc::munmap(start, pages * PAGE);
    }
}
