//! The objects (`elf(5)`) that the loader has mapped: the program and its libraries.
#![allow(unsafe_code, reason = "dl_iterate_phdr")]

use std::ffi::{c_int, c_void};
use std::iter;
use std::ops::Range;
use std::ptr;
use std::slice;

/// A segment that can be read (`elf(5)`).
const PF_R: u32 = 4;

#[cfg(target_pointer_width = "32")]
pub(crate) use libc::{Elf32_Addr as Address, Elf32_Phdr as Header};
#[cfg(target_pointer_width = "64")]
pub(crate) use libc::{Elf64_Addr as Address, Elf64_Phdr as Header};

/// An object that the loader describes. It is mapped as long as this lives.
pub(crate) struct Object<'a> {
    pub(crate) info: &'a libc::dl_phdr_info,
    segments: &'a [Header],
}

/// A note's owner, type and content.
pub(crate) type Note<'a> = (&'a [u8], u32, &'a [u8]);

/// Calls `work` for each object until it returns `false`. The program is the first one.
pub(crate) fn each(work: &mut dyn FnMut(&Object<'_>) -> bool) {
    type Work<'a> = &'a mut dyn FnMut(&Object<'_>) -> bool;
    unsafe extern "C" fn call(info: *mut libc::dl_phdr_info, _: usize, work: *mut c_void) -> c_int {
        // SAFETY: the loader passes valid information, and `each` its closure.
        let (info, work) = unsafe { (&*info, &mut *work.cast::<Work<'_>>()) };
        if info.dlpi_phdr.is_null() {
            return 0;
        }
        // SAFETY: the loader's table of the file's segments.
        let segments = unsafe { slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
        c_int::from(!work(&Object { info, segments }))
    }
    let mut work: Work<'_> = work;
    // SAFETY: `call` gets this closure, and is not called after the function returns.
    unsafe { libc::dl_iterate_phdr(Some(call), (&raw mut work).cast()) };
}

impl Object<'_> {
    pub(crate) fn of_type(&self, kind: u32) -> impl Iterator<Item = &Header> {
        self.segments.iter().filter(move |segment| segment.p_type == kind)
    }

    pub(crate) fn in_memory(&self, segment: &Header) -> Range<Address> {
        let start = self.info.dlpi_addr.wrapping_add(segment.p_vaddr);
        start..start.wrapping_add(segment.p_memsz)
    }

    /// Whether the address is in one of its segments.
    pub(crate) fn contains(&self, address: Address) -> bool {
        self.of_type(libc::PT_LOAD).any(|segment| self.in_memory(segment).contains(&address))
    }

    /// The bytes at these addresses, if they are in one segment that can be read.
    pub(crate) fn bytes(&self, at: Range<Address>) -> Option<&[u8]> {
        let is_there = |segment: &Header| {
            let memory = self.in_memory(segment);
            segment.p_flags & PF_R != 0 && memory.start <= at.start && at.end <= memory.end
        };
        self.of_type(libc::PT_LOAD).find(|segment| is_there(segment)).filter(|_| at.start <= at.end)?;
        let start = ptr::with_exposed_provenance(usize::try_from(at.start).ok()?);
        // SAFETY: within a segment, which is mapped as long as `self` lives.
        Some(unsafe { slice::from_raw_parts(start, usize::try_from(at.end - at.start).ok()?) })
    }

    /// Its notes that are mapped, which should be all.
    pub(crate) fn notes(&self) -> impl Iterator<Item = Note<'_>> {
        self.of_type(libc::PT_NOTE).flat_map(|segment| {
            let bytes = self.bytes(self.in_memory(segment)).unwrap_or_default();
            notes(bytes, if segment.p_align == 8 { 8 } else { 4 })
        })
    }
}

/// The notes in a segment with this alignment.
pub(super) fn notes(mut bytes: &[u8], align: usize) -> impl Iterator<Item = Note<'_>> {
    iter::from_fn(move || {
        let word = |n: usize| Some(u32::from_ne_bytes(bytes.get(4 * n..)?.first_chunk().copied()?));
        let [owner, content, kind] = [word(0)?, word(1)?, word(2)?];
        let end_of_owner = usize::try_from(owner).ok()?.checked_add(12)?;
        let owner = bytes.get(12..end_of_owner)?;
        let start = end_of_owner.checked_next_multiple_of(align)?;
        let end = start.checked_add(usize::try_from(content).ok()?)?;
        let content = bytes.get(start..end)?;
        bytes = end.checked_next_multiple_of(align).and_then(|end| bytes.get(end..)).unwrap_or_default();
        Some((owner, kind, content))
    })
}
