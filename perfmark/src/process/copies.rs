//! Other copies of perfmark in the process: in libraries that contain their own copy, or of another version in the same
//! program.
//!
//! All copies read the same settings, so all would write to the same file. Each copy has a note with the same name in
//! its object (`elf(5)`), which the loader maps. So a copy can count the copies before it; the program's is first.
//! Copies after it do not matter, because libraries are opened one after another.
//!
//! A library that has recorded must also stay in memory when it is closed, because threads call it when they end.
#![allow(unsafe_code, reason = "a note in the object, and dlopen")]

#[cfg(any(miri, not(any(target_os = "linux", target_os = "android"))))]
pub(crate) fn begin() {}

#[cfg(all(not(miri), any(target_os = "linux", target_os = "android")))]
pub(crate) use elf::begin;

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

/// The number of copies before this one.
static BEFORE: AtomicUsize = AtomicUsize::new(0);

/// The number of copies before this one, which [`begin`] has counted.
pub(crate) fn before() -> usize {
    BEFORE.load(Relaxed)
}

#[cfg(all(not(miri), any(target_os = "linux", target_os = "android")))]
mod elf {
    use std::ffi::c_char;
    use std::ptr;
    use std::sync::atomic::Ordering::Relaxed;

    use super::BEFORE;
    use crate::platform::objects::{self, Address};

    /// Future versions of perfmark must keep this name.
    const NAME: [u8; 12] = *b"perfmark\0\0\0\0";

    #[repr(C)]
    struct Note {
        name_length: u32,
        content_length: u32,
        kind: u32,
        name: [u8; 12],
    }

    #[used]
    #[unsafe(link_section = ".note.perfmark")]
    static HERE: Note = Note { name_length: 9, content_length: 0, kind: 1, name: NAME };

    /// Counts the copies before this one. If this copy is in a library, keeps the library in memory.
    pub(crate) fn begin() {
        let (mut notes, mut library) = (0, ptr::null());
        objects::each(&mut |object| {
            let of_copies = object.notes().map(|(owner, ..)| owner).filter(|&owner| owner == &NAME[..9]);
            if !Address::try_from((&raw const HERE).addr()).is_ok_and(|here| object.contains(here)) {
                notes += of_copies.count();
                return true;
            }
            // Without its own note, this copy cannot count the copies before it in its object.
            notes +=
                of_copies.map(<[u8]>::as_ptr).position(|owner| owner == (&raw const HERE.name).cast()).unwrap_or(0);
            BEFORE.store(notes, Relaxed);
            library = object.info.dlpi_name;
            false
        });
        // The loader's locks are released here; dlopen(3) takes them in another order.
        // SAFETY: a string of the loader, which is empty for the program, and which belongs to the object that contains
        // this code.
        unsafe {
            if !library.is_null() && *library != 0 {
                keep(library);
            }
        }
    }

    /// Keeps a library in memory for the life of the process.
    ///
    /// # Safety
    ///
    /// `library` is a valid C string, the name of a loaded library.
    unsafe fn keep(library: *const c_char) {
        // A static program has no libraries, and `dlopen` causes a linker warning there.
        #[cfg(not(target_feature = "crt-static"))]
        // SAFETY: this function's contract. The library is already loaded, so no code of it runs.
        unsafe {
            libc::dlopen(library, libc::RTLD_NOW | libc::RTLD_NOLOAD | libc::RTLD_NODELETE);
        }
        #[cfg(target_feature = "crt-static")]
        let _ = library;
    }
}
