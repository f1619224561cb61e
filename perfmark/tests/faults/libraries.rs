//! Libraries with a perfmark of their own, which are opened while the program runs, or linked with it.

use std::env;
use std::ffi::{CStr, CString, OsString, c_char};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::{OnceLock, mpsc};
use std::{mem, thread};

use crate::ledger::{folder, read};
use crate::program::{SCENARIO, assert_code, ending, text};
use crate::{CALLS, project, work};

/// The library, if it could be built.
const PLUGIN: &str = "PERFMARK_TEST_PLUGIN";
/// A library that is opened and closed again and again.
const TRANSIENT: &str = "PERFMARK_TEST_TRANSIENT";

/// Sets what the faults of this file need.
pub(crate) fn set_up(command: &mut Command, scenario: &str) {
    let Some(Built { plugin, transient }) = built_once() else { return };
    command.env(PLUGIN, plugin);
    if scenario.starts_with("libraries_that_come_and_go/") {
        // The loader treats it as if the program were linked with it.
        command.env("LD_PRELOAD", plugin).env(TRANSIENT, transient);
    }
}

/// Opens two libraries, beside the program's own perfmark. A thread closes the second one, continues, and ends later.
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

/// Runs while a library is opened and closed all the time, since before perfmark started in a library that is linked
/// with the program. The loader starts the latter without its locks, so perfmark may take one of them only while it
/// holds no other.
pub(crate) fn come_and_go() {
    if env::var_os(TRANSIENT).is_none() {
        return println!("skipped: there is no cargo here to build a library");
    }
    let linked = Plugin(libc::RTLD_DEFAULT);
    linked.calls(CALLS);
    let reloads = linked.reloads();
    while linked.reloads() == reloads {
        thread::yield_now();
    }
    linked.calls(CALLS);
    fs::write(folder().join("calls.copy-2"), (2 * CALLS).to_string()).expect("written");
}

/// The scenario of [`switched_off`].
pub(crate) const SWITCHED_OFF: &str = "libraries_that_are_switched_off";

/// With `PERFMARK=off`, opens and closes a library. Prints how many more bytes are mapped afterwards, without those of
/// files and of the allocator.
pub(crate) fn switched_off() -> ExitCode {
    let plugin = env::var_os(PLUGIN).expect("given");
    let reload = || {
        let plugin = Plugin::open(plugin.as_ref());
        plugin.calls(CALLS);
        plugin.close();
    };
    // What the loader itself keeps, it allocates in the first rounds.
    (0..4).for_each(|_| reload());
    let before = anonymous();
    (0..32).for_each(|_| reload());
    println!("{}", anonymous().saturating_sub(before));
    ExitCode::SUCCESS
}

fn anonymous() -> u64 {
    let maps = fs::read_to_string("/proc/self/maps").expect("readable");
    // Range, permissions, offset, device, inode, and a name if it has one.
    let nameless = maps.lines().filter(|line| line.split_whitespace().count() == 5);
    let length = |line: &str| {
        let (start, end) = line.split_once(' ')?.0.split_once('-')?;
        Some(u64::from_str_radix(end, 16).ok()? - u64::from_str_radix(start, 16).ok()?)
    };
    nameless.map(|line| length(line).expect("a range")).sum()
}

/// Runs [`switched_off`].
pub(crate) fn try_switched_off() -> Result<(), String> {
    let Some(Built { plugin, .. }) = built_once() else { return Ok(()) };
    let mut command = Command::new(env::current_exe().expect("known"));
    let output = command.env(SCENARIO, SWITCHED_OFF).env(PLUGIN, plugin).env("PERFMARK", "off").output();
    let output = output.map_err(|why| why.to_string())?;
    match text(&output.stdout).trim() {
        "0" if output.status.success() => Ok(()),
        _ => Err(format!("more bytes after 32 times: {}", ending(&output))),
    }
}

/// Whether each copy left a report of the calls in it, if the copies leave reports.
pub(crate) fn compare(folder: &Path) -> Result<(), String> {
    for copy in [2, 3] {
        let Ok(calls) = fs::read_to_string(folder.join(format!("calls.copy-{copy}"))) else { continue };
        let report = read(&folder.join(format!("report.copy-{copy}")))?;
        let mark = report["marks"].as_array().and_then(|marks| marks.iter().find(|mark| mark["name"] == "in_library"));
        let reported = mark.and_then(|mark| mark["calls"].as_u64());
        if reported != calls.parse().ok() {
            return Err(format!("copy {copy} was called {calls} times, and reports {reported:?}"));
        }
    }
    Ok(())
}

struct Plugin(*mut libc::c_void);

impl Plugin {
    fn open(path: &Path) -> Self {
        let name = CString::new(path.to_str().expect("UTF-8")).expect("no zeroes");
        // SAFETY: the path is valid, and there is a message if it cannot be opened.
        unsafe {
            let handle = libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
            assert!(!handle.is_null(), "{:?}", CStr::from_ptr(libc::dlerror().cast::<c_char>()));
            Self(handle)
        }
    }

    fn calls(&self, n: u64) {
        // SAFETY: the library's function has that type.
        unsafe { mem::transmute::<*mut libc::c_void, extern "C" fn(u64)>(self.function(c"perfmark_test_calls"))(n) };
    }

    /// How often the transient library was opened and closed.
    fn reloads(&self) -> u64 {
        // SAFETY: the library's function has that type.
        unsafe {
            mem::transmute::<*mut libc::c_void, extern "C" fn() -> u64>(self.function(c"perfmark_test_reloads"))()
        }
    }

    fn function(&self, name: &CStr) -> *mut libc::c_void {
        // SAFETY: the library is open, and the name is valid.
        let function = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        assert!(!function.is_null(), "{name:?}");
        function
    }

    fn close(self) {
        // SAFETY: the library is open, and nothing of it is kept.
        assert_eq!(unsafe { libc::dlclose(self.0) }, 0);
    }
}

struct Built {
    plugin: OsString,
    transient: OsString,
}

/// The libraries, built once. None without cargo.
fn built_once() -> Option<&'static Built> {
    static BUILT: OnceLock<Option<Built>> = OnceLock::new();
    BUILT.get_or_init(build).as_ref()
}

fn build() -> Option<Built> {
    if let Some(built) = with_the_test() {
        return Some(built);
    }
    let here = project::here();
    let manifest = format!(
        "{}crate-type = [\"cdylib\"]\n\n\
         [[example]]\nname = \"transient\"\npath = '{}'\ncrate-type = [\"cdylib\"]\n\n\
         [dependencies]\nlibc = \"0.2\"\nperfmark = {{ path = '{}' }}\n\n[workspace]\n",
        project::package("plugin", "2024", "[lib]", &here.join("tests/faults/plugin.rs")),
        here.join("tests/faults/transient.rs").display(),
        here.display(),
    );
    let folder = built(project::cargo("plugin", &[("", manifest)])?.args(["build", "--lib", "--examples"]));
    Some(Built {
        plugin: folder.join("libplugin.so").into(),
        transient: folder.join("examples/libtransient.so").into(),
    })
}

/// The libraries that cargo built with all tests, as examples. None if they are older than a source file, as after
/// `cargo test --test faults`.
fn with_the_test() -> Option<Built> {
    let examples = env::current_exe().ok()?.parent()?.parent()?.join("examples");
    let library = |name: &str| {
        let library = examples.join(format!("lib{name}.so"));
        let modified = |path: &Path| path.metadata().and_then(|about| about.modified()).ok();
        let built = modified(&library)?;
        // As in a Makefile: the library, and what it depends on.
        let rule = fs::read_to_string(library.with_extension("d")).ok()?;
        let mut sources = rule.split_once(": ")?.1.split_whitespace();
        sources.all(|source| modified(source.as_ref()).is_some_and(|at| at <= built)).then(|| library.into())
    };
    Some(Built { plugin: library("plugin")?, transient: library("transient")? })
}

/// Runs this cargo command. Returns the folder of what it built.
pub(crate) fn built(cargo: &mut Command) -> PathBuf {
    // One target directory for all, so that shared dependencies are built once.
    let target = project::target_folder("neighbours");
    assert_code(&cargo.args(["--quiet", "--target-dir"]).arg(&target).output().expect("cargo runs"), 0);
    target.join("debug")
}
