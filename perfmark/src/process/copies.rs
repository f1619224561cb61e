//! Other copies of perfmark in the process: in libraries that contain their own copy, or of another version in the same
//! program.
//!
//! All copies read the same settings, so all would write to the same file. Each copy has a note with the same name in
//! its object (`elf(5)`), which the loader maps. So a copy can count the copies before it; the program's is first.
//! Copies after it do not matter, because libraries are opened one after another.
//!
//! A library that has recorded must also stay in memory when it is closed, because threads call it when they end.
#![allow(unsafe_code, reason = "reads the loader's descriptions of objects, and their notes")]

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
    use std::ffi::{c_char, c_int, c_void};
    use std::ptr;
    use std::sync::atomic::Ordering::Relaxed;

    use super::BEFORE;

    #[cfg(target_pointer_width = "64")]
    type Header = libc::Elf64_Phdr;
    #[cfg(target_pointer_width = "32")]
    type Header = libc::Elf32_Phdr;

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

    /// The result of the search so far.
    struct Search {
        notes: usize,
        /// The name of the library that this copy is in; null in a program.
        library: *const c_char,
    }

    /// Counts the copies before this one. If this copy is in a library, keeps the library in memory.
    pub(crate) fn begin() {
        let mut search = Search { notes: 0, library: ptr::null() };
        // SAFETY: `look_at` expects the pointer to a `Search` that it is given here.
        let is_found = unsafe { libc::dl_iterate_phdr(Some(look_at), (&raw mut search).cast()) } != 0;
        if is_found {
            BEFORE.store(search.notes, Relaxed);
        }
        // The loader's locks are released here; dlopen(3) takes them in another order.
        if !search.library.is_null() {
            // SAFETY: the loader's name of the library that contains this code.
            unsafe { keep(search.library) };
        }
    }

    /// Counts the notes in an object, up to this copy's. Returns 1 if the object contains this copy, which ends the
    /// search.
    unsafe extern "C" fn look_at(object: *mut libc::dl_phdr_info, _: usize, search: *mut c_void) -> c_int {
        // SAFETY: the loader's description of an object, and the `Search` of `begin`.
        let (object, search) = unsafe { (&*object, &mut *search.cast::<Search>()) };
        if object.dlpi_phdr.is_null() {
            return 0;
        }
        // SAFETY: the loader's array of headers with its length.
        let headers = unsafe { std::slice::from_raw_parts(object.dlpi_phdr, object.dlpi_phnum.into()) };
        // The segment's address and length. An object may be relocated downwards.
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
            // SAFETY: a string of the loader, which is empty for the program.
            let is_library = unsafe { *object.dlpi_name } != 0;
            search.library = if is_library { object.dlpi_name } else { ptr::null() };
        }
        let (mut notes, mut is_here) = (0, false);
        for header in headers.iter().filter(|header| header.p_type == libc::PT_NOTE) {
            // Only notes that a loaded segment covers, which should be all.
            let Some((start, length)) = range(header).filter(|&(start, length)| loaded(start, length)) else {
                continue;
            };
            // SAFETY: inside a loaded segment, which is mapped and readable.
            let bytes = unsafe { std::slice::from_raw_parts(ptr::with_exposed_provenance::<u8>(start), length) };
            let (more, is_last) = count(bytes, if header.p_align == 8 { 8 } else { 4 });
            notes += more;
            is_here |= is_last;
            if is_here {
                break;
            }
        }
        // Without its own note, this copy cannot count the copies before it in its object.
        search.notes += if is_own && !is_here { 0 } else { notes };
        c_int::from(is_own)
    }

    /// The number of copies' notes before this copy's, and whether this copy's note was found.
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
