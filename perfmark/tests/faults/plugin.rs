//! A library with marks and a perfmark of its own. A program opens it while it runs, or is linked with it.

use std::ffi::{CStr, CString};
use std::hint::black_box;
use std::os::unix::ffi::OsStringExt as _;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc;
use std::{env, process, thread};

/// Makes that many calls.
#[unsafe(no_mangle)]
pub extern "C" fn perfmark_test_calls(n: u64) {
    (0..n).for_each(in_library);
}

#[perfmark::perfmark(time, page_faults)]
fn in_library(n: u64) {
    black_box(n);
}

/// How often the transient library was opened and closed.
static RELOADS: AtomicU64 = AtomicU64::new(0);

/// Returns how often the transient library was opened and closed.
#[unsafe(no_mangle)]
pub extern "C" fn perfmark_test_reloads() -> u64 {
    RELOADS.load(SeqCst)
}

/// Opens and closes a library as long as the program runs, if the test names one. Functions with a number run before
/// those without, such as perfmark's own start.
#[used]
#[unsafe(link_section = ".init_array.00200")]
static BEFORE_PERFMARK: extern "C" fn() = {
    extern "C" fn before_perfmark() {
        let Some(transient) = env::var_os("PERFMARK_TEST_TRANSIENT") else { return };
        let transient = CString::new(transient.into_vec()).expect("no zeroes");
        let (begun, has_begun) = mpsc::channel();
        thread::spawn(move || {
            loop {
                // At exit, the loader no longer unloads anything.
                RELOADS.fetch_add(reload(&transient).into(), SeqCst);
                _ = begun.send(());
            }
        });
        has_begun.recv().expect("it begins");
        if RELOADS.load(SeqCst) == 0 {
            eprintln!("the transient library is not loaded and unloaded");
            process::abort();
        }
    }
    before_perfmark
};

/// Opens and closes a library. Returns whether it was loaded and unloaded.
fn reload(library: &CStr) -> bool {
    // SAFETY: the path is valid, and nothing of the library is kept.
    unsafe {
        let handle = libc::dlopen(library.as_ptr(), libc::RTLD_NOW);
        !handle.is_null()
            && libc::dlclose(handle) == 0
            && libc::dlopen(library.as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD).is_null()
    }
}
