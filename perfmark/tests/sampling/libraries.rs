//! Libraries that are unloaded, and others that are loaded in their place.
#![allow(unsafe_code, reason = "dlopen")]

use std::ffi::{CString, c_void};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use perfmark::{Sampling, Stacks};

use crate::memory::{Memory, faults};
use crate::passed_alone;
use crate::sampled::{sampled, until_sampled};

const PAGES: usize = 50;
const TIMES: u64 = 50;
const SOURCE: &str = "void touch(char *at, long pages) { while (pages--) { *at = 1; at += 4096; } }";

/// Compiles the library. `None` without a compiler.
fn built(name: &str) -> Option<PathBuf> {
    Command::new("cc").arg("--version").stdout(Stdio::null()).status().ok()?;
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (source, library) = (folder.join("touch.c"), folder.join(name));
    fs::write(&source, SOURCE).expect("written");
    let compiled = Command::new("cc").args(["-O1", "-shared", "-fPIC", "-o"]).args([&library, &source]).status();
    compiled.ok()?.success().then_some(library)
}

/// Opens the library, causes so many page faults in its code, before and after each of the readings of samples, and
/// closes it. Returns the address of that code.
fn touch_in(library: &Path, pages: usize, readings: usize) -> usize {
    let name = CString::new(library.to_str().expect("UTF-8")).expect("no zeroes");
    // SAFETY: the library has a function of that name and type, which writes to these pages, and is used by nobody
    // else.
    unsafe {
        let library = libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
        assert!(!library.is_null(), "{name:?}");
        let function = libc::dlsym(library, c"touch".as_ptr());
        let touch = std::mem::transmute::<*mut c_void, extern "C" fn(usize, usize)>(function);
        for reading in 0..=readings {
            touch(Memory::new(PAGES).address(), pages);
            if reading < readings {
                _ = perfmark::snapshot();
            }
        }
        assert_eq!(libc::dlclose(library), 0);
        function as usize
    }
}

#[test]
fn samples_of_an_unloaded_library_are_not_those_of_another_one_in_its_place() {
    if passed_alone() {
        return;
    }
    let (Some(first), Some(second)) = (built("libfirst.so"), built("libsecond.so")) else {
        return println!("skipped: there is no C compiler");
    };
    let mut in_same_place = 0;
    let work = || {
        until_sampled(|| faults(1));
        for _ in 0..TIMES {
            let places = [touch_in(&first, PAGES, 0), touch_in(&second, 0, 1)];
            // It is certain that samples between two readings are of the library that is there at both.
            touch_in(&first, PAGES, 2);
            in_same_place += usize::from(places[0] == places[1]);
        }
    };
    let Some(sampled) = sampled(Sampling::new().event("page_faults").period(1).stacks(Stacks::Off), work) else {
        return;
    };
    let found = sampled.samples();
    let named = |library: &Path| {
        let is_there = |at: usize| found.modules[found.locations[at].module].path == library.to_str().expect("UTF-8");
        let stacks = found.paths.iter().flat_map(|path| &path.stacks);
        stacks.filter(|stack| is_there(stack.locations[0])).map(|stack| stack.samples).sum::<u64>()
    };
    let (of_first, of_second) = (named(&first), named(&second));
    println!("{in_same_place} times in the same place: {of_first} samples of the first, {of_second} of the second");
    assert!(in_same_place > 0 && of_first > TIMES);
    // The second one has a page fault when its code is first executed.
    assert!(of_second <= TIMES);
}
