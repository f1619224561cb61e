//! The files that the process's code is in.
#![allow(unsafe_code, reason = "dl_iterate_phdr")]

use std::ops::Range;

/// A file with code.
#[derive(Clone, Debug)]
pub(crate) struct LoadedModule {
    pub(crate) path: String,
    pub(crate) build_id: Option<String>,
    /// What to subtract from addresses in memory.
    pub(crate) base: u64,
    /// Its code in memory.
    pub(crate) code: Vec<Range<u64>>,
}

/// The program and its shared libraries.
#[cfg(not(all(target_os = "linux", target_pointer_width = "64", not(miri))))]
pub(crate) fn loaded() -> Vec<LoadedModule> {
    Vec::new()
}

#[cfg(all(target_os = "linux", target_pointer_width = "64", not(miri)))]
pub(crate) use linux::loaded;

#[cfg(all(target_os = "linux", target_pointer_width = "64", not(miri)))]
mod linux {
    use std::ffi::{CStr, c_int, c_void};
    use std::fmt::Write as _;
    use std::slice;

    use super::LoadedModule;

    pub(crate) fn loaded() -> Vec<LoadedModule> {
        let mut modules: Vec<LoadedModule> = Vec::new();
        // SAFETY: `add` gets this vector, and is not called after the function returns.
        unsafe { libc::dl_iterate_phdr(Some(add), (&raw mut modules).cast()) };
        modules
    }

    /// # Safety
    ///
    /// [`loaded`] passes it to `dl_iterate_phdr`, with its vector.
    unsafe extern "C" fn add(info: *mut libc::dl_phdr_info, _: usize, modules: *mut c_void) -> c_int {
        // SAFETY: the loader passes valid information, and `loaded` the vector.
        let (info, modules) = unsafe { (&*info, &mut *modules.cast::<Vec<LoadedModule>>()) };
        // SAFETY: the loader's table of the file's segments.
        let segments = unsafe { slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
        let in_memory = |segment: &libc::Elf64_Phdr| {
            let start = info.dlpi_addr.wrapping_add(segment.p_vaddr);
            start..start.wrapping_add(segment.p_memsz)
        };
        let is_code =
            |segment: &&libc::Elf64_Phdr| segment.p_type == libc::PT_LOAD && segment.p_flags & libc::PF_X != 0;
        // SAFETY: the loader's string, or null.
        let name = if info.dlpi_name.is_null() { c"" } else { unsafe { CStr::from_ptr(info.dlpi_name) } };
        // The program itself is the first one, and has no name.
        let path = match (name.is_empty(), modules.is_empty()) {
            (true, true) => std::env::current_exe().map_or_else(|_| String::new(), |path| path.display().to_string()),
            _ => name.to_string_lossy().into_owned(),
        };
        modules.push(LoadedModule {
            path,
            build_id: segments.iter().filter(|segment| segment.p_type == libc::PT_NOTE).find_map(|segment| {
                let (notes, length) = (in_memory(segment).start, usize::try_from(segment.p_memsz).ok()?);
                // SAFETY: the segment is mapped as long as the file is, which the loader keeps during this call.
                build_id(unsafe {
                    slice::from_raw_parts(std::ptr::with_exposed_provenance(usize::try_from(notes).ok()?), length)
                })
            }),
            base: info.dlpi_addr,
            code: segments.iter().filter(is_code).map(in_memory).collect(),
        });
        0
    }

    /// The build id among the notes of an ELF file, in hexadecimal: the note of the owner `GNU` and the type 3
    /// (`NT_GNU_BUILD_ID` in glibc's `elf.h`).
    pub(super) fn build_id(mut notes: &[u8]) -> Option<String> {
        const BUILD_ID: u32 = 3;
        let word = |bytes: &[u8], n: usize| Some(u32::from_ne_bytes(bytes.get(4 * n..)?.first_chunk().copied()?));
        loop {
            let [name, content, kind] = [word(notes, 0)?, word(notes, 1)?, word(notes, 2)?];
            let (name, content) = (usize::try_from(name).ok()?, usize::try_from(content).ok()?);
            let at = 12 + name.checked_next_multiple_of(4)?;
            let bytes = notes.get(at..at.checked_add(content)?)?;
            if kind == BUILD_ID && notes.get(12..12 + name) == Some(b"GNU\0") {
                return Some(bytes.iter().fold(String::new(), |mut text, byte| {
                    _ = write!(text, "{byte:02x}");
                    text
                }));
            }
            notes = notes.get(at + content.checked_next_multiple_of(4)?..)?;
        }
    }
}

#[cfg(all(test, target_os = "linux", target_pointer_width = "64", not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn a_function_of_the_program_is_in_its_code() {
        let modules = loaded();
        let here = a_function_of_the_program_is_in_its_code as fn() as usize as u64;
        let module = modules.iter().find(|module| module.code.iter().any(|code| code.contains(&here)));
        let module = module.expect("in a module");
        assert_eq!(module.path, std::env::current_exe().expect("a path").display().to_string());
        assert!(here >= module.base);
    }

    #[test]
    fn a_build_id_is_found_among_other_notes() {
        let note = |name: &[u8], kind: u32, content: &[u8]| {
            let length = |bytes: &[u8]| u32::try_from(bytes.len()).expect("short").to_ne_bytes();
            let mut bytes = [length(name), length(content), kind.to_ne_bytes()].concat();
            for part in [name, content] {
                bytes.extend_from_slice(part);
                bytes.resize(bytes.len().next_multiple_of(4), 0);
            }
            bytes
        };
        let notes =
            [note(b"GNU\0", 1, &[1; 16]), note(b"Rust\0", 3, &[2; 3]), note(b"GNU\0", 3, &[0xab, 0x01])].concat();
        assert_eq!(linux::build_id(&notes).as_deref(), Some("ab01"));
        // Without the two bytes that fill the last word.
        for length in 0..notes.len() - 2 {
            assert_eq!(linux::build_id(&notes[..length]), None, "{length}");
        }
    }
}
