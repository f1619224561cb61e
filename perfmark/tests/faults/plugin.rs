//! A library that a program opens while it runs, or is linked with: with marks, and a perfmark of its own.

use std::ffi::{CStr, CString};
use std::hint::black_box;
use std::os::unix::ffi::OsStringExt as _;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc;
use std::{env, process, thread};

/// Makes so many calls.
#[unsafe(no_mangle)]
pub extern "C" fn perfmark_test_calls(n: u64) {
    (0..n).for_each(in_library);
}

#[perfmark::perfmark(time, page_faults)]
fn in_library(n: u64) {
    black_box(n);
}

/// How often the passer came and went.
static PASSED: AtomicU64 = AtomicU64::new(0);

#[unsafe(no_mangle)]
pub extern "C" fn perfmark_test_passed() -> u64 {
    PASSED.load(SeqCst)
}

/// A library that comes and goes as long as the program runs, if the test names one. What has a number is called before what has none, as perfmark's
/// own start.
#[used]
#[unsafe(link_section = ".init_array.00200")]
static BEFORE_PERFMARK: extern "C" fn() = {
    extern "C" fn before_perfmark() {
        let Some(passer) = env::var_os("PERFMARK_TEST_PASSER") else { return };
        let passer = CString::new(passer.into_vec()).expect("no zeroes");
        let (begun, has_begun) = mpsc::channel();
        thread::spawn(move || {
            loop {
                // At exit the loader lets nothing go any more.
                PASSED.fetch_add(passes(&passer).into(), SeqCst);
                _ = begun.send(());
            }
        });
        has_begun.recv().expect("it begins");
        if PASSED.load(SeqCst) == 0 {
            eprintln!("the passer does not come and go");
            process::abort();
        }
    }
    before_perfmark
};

/// Opens and closes a library. Whether it came and went.
fn passes(library: &CStr) -> bool {
    // SAFETY: a path, and a library of which nothing is kept.
    unsafe {
        let handle = libc::dlopen(library.as_ptr(), libc::RTLD_NOW);
        !handle.is_null()
            && libc::dlclose(handle) == 0
            && libc::dlopen(library.as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD).is_null()
    }
}
