//! The files that the process's code is in.
#![allow(unsafe_code, reason = "the loader's names, and handlers of forks")]
#![cfg_attr(
    not(any(target_arch = "x86_64", target_arch = "aarch64")),
    allow(dead_code, unused_imports, reason = "stacks are not unwound there")
)]

use std::ops::Range;

/// A file with code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LoadedModule {
    pub(crate) path: String,
    pub(crate) build_id: Option<String>,
    /// What to subtract from addresses in memory.
    pub(crate) base: u64,
    /// Its code in memory.
    pub(crate) code: Vec<Range<u64>>,
}

/// The tables by which a stack is unwound in a module's code (`.eh_frame` in the Linux Standard Base), copied so that
/// they stay when the module is unloaded.
#[derive(Clone, Debug)]
pub(crate) struct UnwindTables {
    pub(crate) header: Table,
    pub(crate) frames: Table,
}

/// A part of a module, and its address in the file.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub(crate) address: u64,
    pub(crate) bytes: Box<[u8]>,
}

/// The program and its shared libraries.
#[cfg(not(all(target_os = "linux", target_pointer_width = "64", not(miri))))]
pub(crate) fn loaded() -> Vec<LoadedModule> {
    Vec::new()
}

#[cfg(not(all(target_os = "linux", target_pointer_width = "64", not(miri))))]
pub(crate) fn prepare() {}

/// How many modules were loaded and unloaded until now.
#[cfg(not(all(target_os = "linux", target_pointer_width = "64", not(miri))))]
pub(crate) fn changes() -> [u64; 2] {
    [0; 2]
}

/// The tables of the module with this code address.
#[cfg(not(all(target_os = "linux", target_pointer_width = "64", not(miri))))]
pub(crate) fn unwind_tables(_: u64) -> Option<UnwindTables> {
    None
}

#[cfg(all(target_os = "linux", target_pointer_width = "64", not(miri)))]
pub(crate) use linux::{changes, loaded, prepare, unwind_tables};

#[cfg(all(target_os = "linux", target_pointer_width = "64", not(miri)))]
mod linux {
    use std::ffi::CStr;
    use std::fmt::Write as _;
    use std::ops::Range;
    use std::sync::atomic::AtomicBool;
    use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

    use super::{LoadedModule, Table, UnwindTables};
    use crate::platform::objects::{self, Note, Object};
    use crate::platform::program::{mapped_file, program};

    pub(crate) fn loaded() -> Vec<LoadedModule> {
        let mut modules: Vec<LoadedModule> = Vec::new();
        each(&mut |loaded| {
            modules.push(module(loaded, modules.is_empty()));
            true
        });
        modules
    }

    /// How many modules were loaded and unloaded until now.
    pub(crate) fn changes() -> [u64; 2] {
        let mut changes = [0; 2];
        each(&mut |loaded| {
            changes = [loaded.info.dlpi_adds, loaded.info.dlpi_subs];
            false
        });
        changes
    }

    /// The tables of the module with this code address.
    pub(crate) fn unwind_tables(code: u64) -> Option<UnwindTables> {
        let mut tables = None;
        each(&mut |loaded| {
            let is_it = loaded.contains(code);
            if is_it {
                tables = loaded.unwind_tables();
            }
            !is_it
        });
        tables
    }

    /// Held while the loader's lock is. A fork waits for it, because in a child the loader's lock would stay locked.
    static LOADER: AtomicBool = AtomicBool::new(false);

    extern "C" fn acquire() {
        while LOADER.compare_exchange_weak(false, true, Acquire, Relaxed).is_err() {
            std::thread::yield_now();
        }
    }

    extern "C" fn release() {
        LOADER.store(false, Release);
    }

    /// From now on, a fork waits until no thread looks at the modules. Forks by system calls of their own do not.
    /// Called once, before the first sampling.
    pub(crate) fn prepare() {
        // SAFETY: the functions may be called at any time. A thread that holds the lock does not fork: its signals are
        // blocked.
        unsafe { libc::pthread_atfork(Some(acquire), Some(release), Some(release)) };
    }

    /// Calls `work` for each module until it returns `false`. The program is the first one.
    fn each(work: &mut dyn FnMut(&Object<'_>) -> bool) {
        acquire();
        objects::each(work);
        release();
    }

    impl Object<'_> {
        fn table(&self, at: Range<u64>) -> Option<Table> {
            let bytes = self.bytes(at.clone())?.into();
            Some(Table { address: at.start.wrapping_sub(self.info.dlpi_addr), bytes })
        }

        /// The header refers to the frames by a 32-bit distance, as all linkers write it (encoding `DW_EH_PE_pcrel |
        /// DW_EH_PE_sdata4`).
        fn unwind_tables(&self) -> Option<UnwindTables> {
            const VERSION: u8 = 1;
            const RELATIVE_32: u8 = 0x1b;
            let header = self.in_memory(self.of_type(libc::PT_GNU_EH_FRAME).next()?);
            let [VERSION, RELATIVE_32, _, _, distance @ ..] = *self.bytes(header.clone())?.first_chunk::<8>()? else {
                return None;
            };
            let start = header.start.wrapping_add(4).wrapping_add_signed(i32::from_ne_bytes(distance).into());
            let segment = self.of_type(libc::PT_LOAD).map(|segment| self.in_memory(segment));
            let rest = start..segment.filter(|memory| memory.contains(&start)).map(|memory| memory.end).next()?;
            let length = frames_length(self.bytes(rest)?)?;
            Some(UnwindTables { header: self.table(header)?, frames: self.table(start..start + length)? })
        }
    }

    /// The length of frame descriptions: each begins with its own length, and the last one is empty or ends the bytes.
    fn frames_length(bytes: &[u8]) -> Option<u64> {
        const WIDE: u32 = u32::MAX;
        let mut at = 0;
        while let Some(&length) = bytes.get(at..).and_then(|rest| rest.first_chunk()) {
            let length = u32::from_ne_bytes(length);
            at += 4;
            if length == 0 || length == WIDE {
                break;
            }
            at += usize::try_from(length).ok()?;
        }
        u64::try_from(at.min(bytes.len())).ok()
    }

    fn module(loaded: &Object<'_>, is_program: bool) -> LoadedModule {
        let info = loaded.info;
        // SAFETY: the loader's string, or null.
        let name = if info.dlpi_name.is_null() { c"" } else { unsafe { CStr::from_ptr(info.dlpi_name) } };
        let name = name.to_string_lossy();
        let code = loaded.of_type(libc::PT_LOAD).filter(|segment| segment.p_flags & libc::PF_X != 0);
        let code: Vec<_> = code.map(|segment| loaded.in_memory(segment)).collect();
        let path = if is_program {
            program().map_or_else(String::new, |path| path.display().to_string())
        } else if name.contains('/') && !name.starts_with('/') {
            // Relative to the current directory of that time.
            code.first().and_then(|code| mapped_file(code.start)).unwrap_or_else(|| name.into_owned())
        } else {
            name.into_owned()
        };
        LoadedModule { path, build_id: loaded.notes().find_map(build_id), base: info.dlpi_addr, code }
    }

    /// The build id in hexadecimal, if this note has it: that of the owner `GNU` and the type 3 (`NT_GNU_BUILD_ID` in
    /// glibc's `elf.h`).
    pub(super) fn build_id((owner, kind, content): Note<'_>) -> Option<String> {
        const BUILD_ID: u32 = 3;
        let hexadecimal = || {
            content.iter().fold(String::new(), |mut text, byte| {
                _ = write!(text, "{byte:02x}");
                text
            })
        };
        (owner == b"GNU\0" && kind == BUILD_ID).then(hexadecimal)
    }
}

#[cfg(all(test, target_os = "linux", target_pointer_width = "64", not(miri)))]
mod tests {
    use super::*;
    use crate::platform::objects::notes;

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
    fn the_tables_of_the_program_describe_its_functions() {
        let here = the_tables_of_the_program_describe_its_functions as fn() as usize as u64;
        let tables = unwind_tables(here).expect("tables");
        assert!(tables.header.bytes.len() > 100 && tables.frames.bytes.len() > 1_000);
        assert!(unwind_tables(8).is_none());
        assert_eq!(changes(), changes());
    }

    #[test]
    fn a_build_id_is_found_among_other_notes() {
        for align in [4, 8] {
            let note = |name: &[u8], kind: u32, content: &[u8]| {
                let length = |bytes: &[u8]| u32::try_from(bytes.len()).expect("short").to_ne_bytes();
                let mut bytes = [length(name), length(content), kind.to_ne_bytes()].concat();
                for part in [name, content] {
                    bytes.extend_from_slice(part);
                    bytes.resize(bytes.len().next_multiple_of(align), 0);
                }
                bytes
            };
            let found = |bytes| notes(bytes, align).find_map(linux::build_id);
            let bytes =
                [note(b"GNU\0", 1, &[1; 16]), note(b"Rust\0", 3, &[2; 3]), note(b"GNU\0", 3, &[0xab, 0x01])].concat();
            assert_eq!(found(&bytes).as_deref(), Some("ab01"));
            // The bytes that fill the last word may be missing.
            let end = bytes.iter().rposition(|&byte| byte != 0).expect("there") + 1;
            assert_eq!(found(&bytes[..end]).as_deref(), Some("ab01"));
            for length in 0..end {
                assert_eq!(found(&bytes[..length]), None, "{length}");
            }
        }
    }
}
