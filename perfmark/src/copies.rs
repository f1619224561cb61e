//! Other copies of perfmark in the process: in libraries that carry one of their own, or of another version in the same program.
//!
//! All copies read the same settings, so that all would write to the same file. Each carries a note of the same name in its object (`elf(5)`),
//! which the loader maps: so a copy sees how many stand before it, the program's first. What stands after does not matter, as libraries are opened
//! one behind the other.
//!
//! And a library that has recorded must stay when it is closed: threads call it when they end.
#![allow(unsafe_code, reason = "what the loader tells of objects, and their notes")]

#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) fn begin() {}

#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) use elf::begin;

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

/// Copies before this one.
static BEFORE: AtomicUsize = AtomicUsize::new(0);

/// How many copies stand before this one, as [`begin`] found it.
pub(crate) fn before() -> usize {
    BEFORE.load(Relaxed)
}

#[cfg(any(target_os = "linux", target_os = "android"))]
mod elf {
    use std::ffi::{c_int, c_void};
    use std::ptr;
    use std::sync::atomic::Ordering::Relaxed;

    use super::BEFORE;

    /// As versions of perfmark to come have it, too.
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

    /// What was found so far.
    #[derive(Default)]
    struct Search {
        objects: usize,
        notes: usize,
    }

    /// Counts the copies before this one, and keeps the library that it is in, if it is in one. To be called while that is loaded, as a lock of the
    /// loader's is taken.
    pub(crate) fn begin() {
        let mut search = Search::default();
        // SAFETY: the function and what it is given go together.
        if unsafe { libc::dl_iterate_phdr(Some(look_at), (&raw mut search).cast()) } != 0 {
            BEFORE.store(search.notes, Relaxed);
        }
    }

    /// Looks for this copy's note in an object; not 0 where it is found.
    unsafe extern "C" fn look_at(object: *mut libc::dl_phdr_info, _: usize, search: *mut c_void) -> c_int {
        // SAFETY: the loader's description of an object, and what `begin` gave.
        let (object, search) = unsafe { (&*object, &mut *search.cast::<Search>()) };
        if object.dlpi_phdr.is_null() {
            return 0;
        }
        // SAFETY: so many headers.
        let headers = unsafe { std::slice::from_raw_parts(object.dlpi_phdr, object.dlpi_phnum.into()) };
        // Where a segment for loading covers them, as it always should.
        let is_mapped = |start, length| {
            let loads = headers.iter().filter(|header| header.p_type == libc::PT_LOAD);
            loads.into_iter().any(|load| load.p_vaddr <= start && start + length <= load.p_vaddr + load.p_filesz)
        };
        for notes in headers.iter().filter(|header| header.p_type == libc::PT_NOTE) {
            let (Ok(address), Ok(length)) =
                (usize::try_from(object.dlpi_addr + notes.p_vaddr), usize::try_from(notes.p_memsz))
            else {
                continue;
            };
            if !is_mapped(notes.p_vaddr, notes.p_memsz) {
                continue;
            }
            let start = ptr::with_exposed_provenance::<u8>(address);
            // SAFETY: mapped, as an object's segment for reading is.
            let bytes = unsafe { std::slice::from_raw_parts(start, length) };
            if search.is_here(bytes, if notes.p_align == 8 { 8 } else { 4 }) {
                if search.objects > 0 {
                    // SAFETY: a name of the loader's.
                    unsafe { keep(object.dlpi_name) };
                }
                return 1;
            }
        }
        search.objects += 1;
        0
    }

    impl Search {
        /// Whether this copy's note is among those, and counts others' before it.
        fn is_here(&mut self, mut bytes: &[u8], align: usize) -> bool {
            while let Some((header, rest)) = bytes.split_at_checked(12) {
                let word = |at: usize| header[at..at + 4].try_into().map_or(0, u32::from_ne_bytes) as usize;
                let (name, content) = (word(0), word(4));
                if header.as_ptr() == (&raw const HERE).cast() {
                    return true;
                }
                self.notes += usize::from(name == 9 && rest.starts_with(&NAME[..9]));
                let length = (12 + name.next_multiple_of(4)).next_multiple_of(align) + content.next_multiple_of(align);
                bytes = bytes.get(length..).unwrap_or_default();
            }
            false
        }
    }

    /// Lets a library stay for ever.
    ///
    /// # Safety
    ///
    /// A name that ends with 0.
    unsafe fn keep(library: *const std::ffi::c_char) {
        // A static program has none, and `dlopen` there draws a warning.
        #[cfg(not(target_feature = "crt-static"))]
        // SAFETY: the caller's word. It is loaded already, so that nothing of it is run.
        unsafe {
            libc::dlopen(library, libc::RTLD_NOW | libc::RTLD_NOLOAD | libc::RTLD_NODELETE);
        }
        #[cfg(target_feature = "crt-static")]
        let _ = library;
    }
}
