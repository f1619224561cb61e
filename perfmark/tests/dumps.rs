//! Reports that are written while the program runs.
#![cfg(all(feature = "record", feature = "json"))]

#[path = "../../perfmark-rdpmc/tests/child/mod.rs"]
mod child;
mod program;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process;
use std::thread;
use std::time::Duration;

use child::{fork, in_child};
use perfmark::{Dumps, Format, Report, perfmark, snapshot};
use program::file;
use serde_json::Value;

#[perfmark(time)]
fn work() {}

/// Calls of `work` in the file's report, which is complete whenever it is read.
fn calls(file: &Path) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    let report: Value = serde_json::from_str(&text).unwrap_or_else(|why| panic!("half a report: {why}: {text}"));
    report["marks"].as_array().expect("a list").iter().find(|mark| mark["name"] == "work")?["calls"].as_u64()
}

/// Waits until the file has a report with the expected calls.
fn wait_for(file: &Path, expected: impl Fn(u64) -> bool) -> u64 {
    loop {
        if let Some(calls) = calls(file).filter(|&calls| expected(calls)) {
            return calls;
        }
        thread::yield_now();
    }
}

#[cfg(feature = "signal")]
fn called() -> u64 {
    snapshot().marks.iter().find(|mark| mark.name == "work").map_or(0, |mark| mark.calls)
}

#[test]
fn a_periodic_dump_is_complete_whenever_it_is_read() {
    let file = file("interval-%p");
    let path = PathBuf::from(file.to_str().expect("UTF-8").replace("%p", &process::id().to_string()));
    let dumping = Dumps::new(file).format(Format::Json).every(Duration::from_millis(1)).start().expect("a thread");
    let mut seen = 0;
    for _ in 0..50 {
        work();
        seen = wait_for(&path, |calls| calls > seen);
    }
    drop(dumping);
    fs::remove_file(&path).expect("there");
    work();
    assert!(!path.exists(), "nothing is written any more");
}

#[test]
fn a_path_that_is_no_name_of_a_file_is_an_error_at_the_start() {
    for (file, why) in [
        (env::temp_dir(), "is a directory"),
        (file("no-such-folder/"), "the name of a file does not end with `/`"),
        (file("no-such-folder/report"), "does not exist"),
    ] {
        let error = Dumps::new(file).start().expect_err("there cannot be such a file").to_string();
        assert!(error.contains(why), "{error}");
    }
}

#[cfg(feature = "signal")]
#[test]
fn a_signal_triggers_a_dump() {
    let path = file("signal");
    let dumps = Dumps::new(&path).format(Format::Json).on_signal(libc::SIGUSR1).on_signal(libc::SIGUSR2);
    let dumping = dumps.start().expect("threads");
    for signal in [libc::SIGUSR1, libc::SIGUSR2, libc::SIGUSR1] {
        work();
        let so_far = called();
        // SAFETY: the signal has a handler.
        assert_eq!(unsafe { libc::raise(signal) }, 0);
        wait_for(&path, |calls| calls >= so_far);
    }
    drop(dumping);
    fs::remove_file(&path).expect("there");
}

#[cfg(feature = "signal")]
#[test]
fn if_one_signal_cannot_be_handled_the_others_keep_their_actions() {
    let dumps = Dumps::new(file("refused")).on_signal(libc::SIGVTALRM).on_signal(libc::SIGKILL);
    let refused = dumps.start().expect_err("SIGKILL cannot be handled");
    assert_eq!(refused.to_string(), format!("signal {} cannot be handled", libc::SIGKILL));
    // SAFETY: no handler is set.
    assert_eq!(unsafe { libc::signal(libc::SIGVTALRM, libc::SIG_DFL) }, libc::SIG_DFL);
}

/// Only one test samples the process at a time.
#[cfg(all(feature = "sampling", feature = "signal", feature = "serde"))]
fn alone() -> std::sync::MutexGuard<'static, ()> {
    static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// The file's report.
#[cfg(all(feature = "sampling", feature = "signal", feature = "serde"))]
fn dumped(file: &Path) -> perfmark::Snapshot {
    serde_json::from_str(&fs::read_to_string(file).expect("there")).expect("a report")
}

#[cfg(all(feature = "sampling", feature = "signal", feature = "serde", feature = "symbols"))]
#[test]
fn a_dump_has_the_names_of_sampled_functions() {
    let _alone = alone();
    let sampling = match perfmark::Sampling::new().frequency(999).start() {
        Ok(sampling) => sampling,
        Err(why) => return println!("skipped: {why}"),
    };
    // The dump has a call, whichever test was first.
    work();
    while snapshot().samples.iter().all(|samples| samples.paths.is_empty()) {
        work();
    }
    let path = file("names");
    let dumping = Dumps::new(&path).format(Format::Json).on_signal(libc::SIGWINCH).start().expect("threads");
    // SAFETY: the signal has a handler.
    assert_eq!(unsafe { libc::raise(libc::SIGWINCH) }, 0);
    wait_for(&path, |calls| calls > 0);
    drop((dumping, sampling));
    assert!(dumped(&path).samples.iter().any(perfmark::Samples::has_names));
    fs::remove_file(&path).expect("there");
}

#[cfg(all(feature = "sampling", feature = "signal", feature = "serde"))]
#[test]
fn a_dump_that_samples_has_the_samples_of_the_time_before_it() {
    let _alone = alone();
    if let Err(why) = perfmark::Sampling::new().start() {
        return println!("skipped: {why}");
    }
    let path = file("sampling");
    // No other test has this rate.
    let sampling = perfmark::Sampling::new().frequency(997);
    let dumps = Dumps::new(&path).format(Format::Json).on_signal(libc::SIGURG);
    let dumping = dumps.sampling(sampling, Duration::from_millis(50)).start().expect("threads");
    work();
    // SAFETY: the signal has a handler.
    assert_eq!(unsafe { libc::raise(libc::SIGURG) }, 0);
    wait_for(&path, |_| true);
    drop(dumping);
    assert!(dumped(&path).samples.iter().any(|samples| samples.frequency == Some(997)));
    fs::remove_file(&path).expect("there");
}

#[test]
fn a_forked_child_writes_no_dumps_and_does_not_wait_for_them() {
    let dumps = Dumps::new(file("fork")).every(Duration::from_secs(3600));
    let mut dumping = Some(dumps.start().expect("a thread"));
    assert!(in_child(fork, || dumping.take().is_some()));
    drop(dumping);
}

#[test]
fn a_report_is_written_to_the_given_path() {
    let path = file("report");
    work();
    let snapshot = snapshot();
    let report = Report::new(&snapshot).format(Format::Json);
    report.write_to(&path).expect("written");
    // By several threads, beside the draft of a killed process with the same ID.
    fs::write(format!("{}.perfmark-{}-0.draft", path.display(), process::id()), "half").expect("written");
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| (0..100).for_each(|_| report.write_to(&path).expect("written")));
        }
    });
    if Path::new("/dev/shm").is_dir() {
        let shared = PathBuf::from(format!("/dev/shm/perfmark-dumps-{}", process::id()));
        for _ in 0..2 {
            report.write_to(&shared).expect("written");
            assert_eq!(fs::read_to_string(&shared).expect("there"), report.to_string());
        }
        fs::remove_file(shared).expect("there");
    }
    assert_eq!(fs::read_to_string(&path).expect("there"), report.to_string());
    _ = fs::remove_file(format!("{}.perfmark-{}-0.draft", path.display(), process::id()));
    fs::remove_file(&path).expect("there");
    assert!(report.write_to(path.join("no such folder")).is_err());
}
