//! Other copies of perfmark in the process: in libraries that carry one of their own, or of another version in the same program.
//!
//! All copies read the same settings, so that all would write to the same file. Each carries a note of the same name in its object (`elf(5)`),
//! which the loader maps: so a copy sees how many stand before it, the program's first. What stands after does not matter, as libraries are opened
//! one behind the other.
//!
//! And a library that has recorded must stay when it is closed: threads call it when they end.
#![allow(unsafe_code, reason = "what the loader tells of objects, and their notes")]

#[cfg(any(miri, not(any(target_os = "linux", target_os = "android"))))]
pub(crate) fn begin() {}

#[cfg(all(not(miri), any(target_os = "linux", target_os = "android")))]
pub(crate) use elf::begin;

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

/// Copies before this one.
static BEFORE: AtomicUsize = AtomicUsize::new(0);

/// How many copies stand before this one, as [`begin`] found it.
pub(crate) fn before() -> usize {
    BEFORE.load(Relaxed)
}

#[cfg(all(not(miri), any(target_os = "linux", target_os = "android")))]
mod elf {
    use std::ffi::{c_char, c_int, c_void};
    use std::ptr;
    use std::sync::atomic::Ordering::Relaxed;

    use super::BEFORE;

    #[cfg(target_pointer_width = "64")]
    type Header = libc::Elf64_Phdr;
    #[cfg(target_pointer_width = "32")]
    type Header = libc::Elf32_Phdr;

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
    struct Search {
        notes: usize,
        /// The name of the library that this copy is in; null in a program.
        library: *const c_char,
    }

    /// Counts the copies before this one, and keeps the library that it is in, if it is in one.
    pub(crate) fn begin() {
        let mut search = Search { notes: 0, library: ptr::null() };
        // SAFETY: the function and what it is given go together.
        let is_found = unsafe { libc::dl_iterate_phdr(Some(look_at), (&raw mut search).cast()) } != 0;
        if is_found {
            BEFORE.store(search.notes, Relaxed);
        }
        // The loader's locks are free again, of which opening takes another one first.
        if !search.library.is_null() {
            // SAFETY: the loader's name of the library that this is a part of.
            unsafe { keep(search.library) };
        }
    }

    /// Counts the notes in an object, up to this copy's; not 0 where that is in it.
    unsafe extern "C" fn look_at(object: *mut libc::dl_phdr_info, _: usize, search: *mut c_void) -> c_int {
        // SAFETY: the loader's description of an object, and what `begin` gave.
        let (object, search) = unsafe { (&*object, &mut *search.cast::<Search>()) };
        if object.dlpi_phdr.is_null() {
            return 0;
        }
        // SAFETY: so many headers.
        let headers = unsafe { std::slice::from_raw_parts(object.dlpi_phdr, object.dlpi_phnum.into()) };
        // Where it is in memory, and how long. An object may be moved downwards.
        let range = |header: &Header| {
            let start = usize::try_from(object.dlpi_addr.wrapping_add(header.p_vaddr)).ok()?;
            Some((start, usize::try_from(header.p_memsz).ok()?))
        };
        let loaded = |address: usize, length: usize| {
            let loads = headers.iter().filter(|header| header.p_type == libc::PT_LOAD).filter_map(range);
            loads.into_iter().any(|(start, room)| {
                let before = address.wrapping_sub(start);
                before < room && length <= room - before
            })
        };
        let is_own = loaded((&raw const HERE).addr(), 1);
        if is_own && !object.dlpi_name.is_null() {
            // SAFETY: a string of the loader's, which is empty for the program.
            let is_library = unsafe { *object.dlpi_name } != 0;
            search.library = if is_library { object.dlpi_name } else { ptr::null() };
        }
        let (mut notes, mut is_here) = (0, false);
        for header in headers.iter().filter(|header| header.p_type == libc::PT_NOTE) {
            // Where a segment for loading covers them, as it always should.
            let Some((start, length)) = range(header).filter(|&(start, length)| loaded(start, length)) else {
                continue;
            };
            // SAFETY: mapped, as an object's segment for reading is.
            let bytes = unsafe { std::slice::from_raw_parts(ptr::with_exposed_provenance::<u8>(start), length) };
            let (more, is_last) = count(bytes, if header.p_align == 8 { 8 } else { 4 });
            notes += more;
            is_here |= is_last;
            if is_here {
                break;
            }
        }
        // Without a note of its own it does not know what stands before it in its object.
        search.notes += if is_own && !is_here { 0 } else { notes };
        c_int::from(is_own)
    }

    /// How many copies' notes are there before this copy's, and whether that is there.
    fn count(mut bytes: &[u8], align: usize) -> (usize, bool) {
        let mut notes = 0;
        while let Some((header, rest)) = bytes.split_at_checked(12) {
            if header.as_ptr() == (&raw const HERE).cast() {
                return (notes, true);
            }
            let word = |at: usize| header[at..at + 4].try_into().map_or(0, u32::from_ne_bytes) as usize;
            let (name, content) = (word(0), word(4));
            notes += usize::from(name == 9 && rest.starts_with(&NAME[..9]));
            let length =
                name.checked_next_multiple_of(4).and_then(|name| name.checked_add(12)?.checked_next_multiple_of(align));
            let length = length
                .zip(content.checked_next_multiple_of(align))
                .and_then(|(name, content)| name.checked_add(content));
            bytes = length.and_then(|length| bytes.get(length..)).unwrap_or_default();
        }
        (notes, false)
    }

    /// Lets a library stay for ever.
    ///
    /// # Safety
    ///
    /// A name that ends with 0.
    unsafe fn keep(library: *const c_char) {
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
