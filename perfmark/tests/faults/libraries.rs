//! Libraries that are opened while the program runs, and carry a perfmark of their own.

use std::env;
use std::ffi::{CStr, CString, OsString, c_char};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{OnceLock, mpsc};
use std::thread;

use crate::ledger::{folder, read};
use crate::{CALLS, project, work};

/// The library, where it could be built.
pub(crate) const PLUGIN: &str = "PERFMARK_TEST_PLUGIN";

/// Two of them, beside the program's own. The second is closed by a thread that goes on, and ends later.
pub(crate) fn opens_two() {
    let Some(plugin) = env::var_os(PLUGIN) else {
        return println!("skipped: there is no cargo here to build a library");
    };
    let second = folder().join("another.so");
    fs::copy(&plugin, &second).expect("copied");
    let first = Plugin::open(plugin.as_ref());
    first.calls(CALLS);
    work(1);
    let (closed, is_closed) = mpsc::channel();
    let thread = thread::spawn(move || {
        let second = Plugin::open(&second);
        second.calls(2 * CALLS);
        second.close();
        closed.send(()).expect("main listens");
        work(1);
    });
    is_closed.recv().expect("it closes");
    thread.join().expect("does not panic");
    first.calls(CALLS);
    for copy in [2, 3] {
        fs::write(folder().join(format!("calls.copy-{copy}")), (2 * CALLS).to_string()).expect("written");
    }
}

/// Whether each copy left a report of what was called in it, if they leave any.
pub(crate) fn compare(folder: &Path) -> Result<(), String> {
    for copy in [2, 3] {
        let Ok(calls) = fs::read_to_string(folder.join(format!("calls.copy-{copy}"))) else { continue };
        let report = read(&folder.join(format!("report.copy-{copy}")))?;
        let mark = report["marks"].as_array().and_then(|marks| marks.iter().find(|mark| mark["name"] == "in_library"));
        let told = mark.and_then(|mark| mark["calls"].as_u64());
        if told != calls.parse().ok() {
            return Err(format!("copy {copy} was called {calls} times, and tells {told:?}"));
        }
    }
    Ok(())
}

struct Plugin(*mut libc::c_void);

impl Plugin {
    fn open(path: &Path) -> Self {
        let name = CString::new(path.to_str().expect("UTF-8")).expect("no zeroes");
        // SAFETY: a path; and what there is to say where that does not open.
        unsafe {
            let handle = libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
            assert!(!handle.is_null(), "{:?}", CStr::from_ptr(libc::dlerror().cast::<c_char>()));
            Self(handle)
        }
    }

    fn calls(&self, n: u64) {
        // SAFETY: the library's function, of that type.
        unsafe {
            let calls = libc::dlsym(self.0, c"perfmark_test_calls".as_ptr());
            assert!(!calls.is_null());
            std::mem::transmute::<*mut libc::c_void, extern "C" fn(u64)>(calls)(n);
        }
    }

    fn close(self) {
        // SAFETY: an open library, of which nothing is kept.
        assert_eq!(unsafe { libc::dlclose(self.0) }, 0);
    }
}

/// The library, built once; none where there is no cargo.
pub(crate) fn plugin() -> Option<&'static OsString> {
    static BUILT: OnceLock<Option<OsString>> = OnceLock::new();
    BUILT.get_or_init(|| build().map(PathBuf::into_os_string)).as_ref()
}

fn build() -> Option<PathBuf> {
    let manifest = format!(
        "[package]\nname = \"plugin\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[lib]\npath = '{}'\ncrate-type = [\"cdylib\"]\n\n\
         [dependencies]\nperfmark = {{ path = '{}' }}\n\n[workspace]\n",
        project::here().join("tests/faults/plugin.rs").display(),
        project::here().display(),
    );
    let target = project::place("neighbours");
    let mut cargo = project::cargo("plugin", &[("", manifest)])?;
    let status = cargo.args(["build", "--quiet", "--target-dir"]).arg(&target).status().expect("cargo runs");
    assert!(status.success());
    Some(target.join("debug/libplugin.so"))
}
