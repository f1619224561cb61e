//! What a program itself knows of its marked calls. It stands in a file, so that it is there however the program ends.

use std::fs::{self, File};
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64};
use std::thread::panicking;

use serde_json::Value;

/// The marked functions that count themselves, by their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(non_camel_case_types, reason = "the functions' names")]
pub(crate) enum Of {
    work,
    /// Called all the time by threads that nobody waits for, so that its counts are never at rest.
    busy,
    waits,
    unwinds,
    handles,
    allocates,
    deep,
    crowded,
}

const ALL: [Of; 8] = [Of::work, Of::busy, Of::waits, Of::unwinds, Of::handles, Of::allocates, Of::deep, Of::crowded];

/// Threads that call `busy`: of each a report may miss the call that it is just about to count.
pub(crate) const BUSY: u64 = 2;

#[derive(Debug, Default)]
#[repr(C)]
struct Row {
    begun: AtomicU64,
    ended: AtomicU64,
    /// Of these.
    unwound: AtomicU64,
    /// Calls that had ended before the program began to end.
    at_least: AtomicU64,
}

/// What a process leaves behind when it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Leaves {
    Nothing,
    Report,
    Dump,
}

#[derive(Debug)]
#[repr(C)]
pub(crate) struct Ledger {
    rows: [Row; ALL.len()],
    leaves: AtomicU32,
}

/// Counts a call from here to its end.
pub(crate) struct Counted(Of);

static LEDGER: AtomicPtr<Ledger> = AtomicPtr::new(ptr::null_mut());

/// This process's.
pub(crate) fn ledger() -> &'static Ledger {
    // SAFETY: null, or mapped for ever.
    unsafe { LEDGER.load(SeqCst).as_ref() }.expect("opened")
}

/// The scenario's folder, which the test made.
pub(crate) const FOLDER: &str = "PERFMARK_TEST_FOLDER";

pub(crate) fn folder() -> PathBuf {
    std::env::var_os(FOLDER).expect("the test sets it").into()
}

/// Begins with this process's ledger. A forked child begins its own, which its number tells from its parent's.
pub(crate) fn begin(is_child: bool) {
    let suffix = if is_child { format!(".{}", std::process::id()) } else { String::new() };
    let path = folder().join(format!("ledger{suffix}"));
    LEDGER.store(ptr::from_ref(Ledger::map(&path)).cast_mut(), SeqCst);
}

#[must_use]
pub(crate) fn count(of: Of) -> Counted {
    ledger().rows[of as usize].begun.fetch_add(1, SeqCst);
    Counted(of)
}

impl Drop for Counted {
    fn drop(&mut self) {
        let row = &ledger().rows[self.0 as usize];
        if panicking() && self.0 == Of::unwinds {
            row.unwound.fetch_add(1, SeqCst);
        }
        row.ended.fetch_add(1, SeqCst);
    }
}

impl Ledger {
    /// The file's, made where there is none.
    pub(crate) fn map(path: &Path) -> &'static Self {
        let file = File::options().read(true).write(true).create(true).truncate(false).open(path).expect("a file");
        file.set_len(size_of::<Self>() as u64).expect("its length");
        let (access, fd) = (libc::PROT_READ | libc::PROT_WRITE, file.as_raw_fd());
        // SAFETY: a new mapping of a file of that length, which stays as long.
        unsafe {
            let start = libc::mmap(ptr::null_mut(), size_of::<Self>(), access, libc::MAP_SHARED, fd, 0);
            assert_ne!(start, libc::MAP_FAILED);
            &*start.cast()
        }
    }

    /// Says what the process is going to leave, and that every call that has ended until now is in it.
    pub(crate) fn will_leave(&self, leaves: Leaves) {
        for row in &self.rows {
            row.at_least.store(row.ended.load(SeqCst), SeqCst);
        }
        self.leaves.store(leaves as u32, SeqCst);
    }

    pub(crate) fn leaves(&self) -> Leaves {
        match self.leaves.load(SeqCst) {
            1 => Leaves::Report,
            2 => Leaves::Dump,
            _ => Leaves::Nothing,
        }
    }

    pub(crate) fn ended(&self, of: Of) -> u64 {
        self.rows[of as usize].ended.load(SeqCst)
    }

    /// Whether a report has the calls that were made, no more and no less.
    pub(crate) fn compare(&self, report: &Value) -> Result<(), String> {
        ALL.into_iter().try_for_each(|of| self.compare_mark(of, report).map_err(|why| format!("{of:?}: {why}")))
    }

    fn compare_mark(&self, of: Of, report: &Value) -> Result<(), String> {
        let Row { begun, ended, unwound, at_least } = &self.rows[of as usize];
        let marks = report["marks"].as_array().ok_or("no marks")?;
        let mark = marks.iter().find(|mark| mark["name"] == format!("{of:?}")).ok_or("no such mark")?;
        let [calls, in_flight, told_unwound] = ["calls", "in_flight", "unwound"].map(|key| number(&mark[key]));
        let (begun, ended) = (begun.load(SeqCst), ended.load(SeqCst));
        if of == Of::busy {
            // Calls deeper than perfmark keeps apart are counted when they begin, just before they count themselves.
            let (at_least, at_most) = (at_least.load(SeqCst).saturating_sub(BUSY), begun + BUSY);
            return require((at_least..=at_most).contains(&calls), || format!("{calls} of {at_least} to {at_most}"));
        }
        let made = [ended, begun - ended, unwound.load(SeqCst)];
        require([calls, in_flight, told_unwound] == made, || {
            format!("{calls} calls, {in_flight} in flight, {told_unwound} unwound: really {made:?}")
        })?;
        for (event, values) in mark["values"].as_object().into_iter().flatten() {
            let [measured, unmeasured] = ["measured", "unmeasured"].map(|key| number(&values[key]));
            require(measured + unmeasured + told_unwound == calls, || {
                format!("{event}: of {calls} calls {measured} measured, {unmeasured} not, {told_unwound} unwound")
            })?;
            let counted = values["buckets"].as_array().map_or(0, |buckets| buckets.iter().map(|b| number(&b[2])).sum());
            require(counted == measured, || format!("{event}: {counted} of {measured} are in the histogram"))?;
        }
        Ok(())
    }
}

fn require(holds: bool, why: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(why()) }
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(u64::MAX)
}

/// A report that is written now and then, if there is a whole one.
pub(crate) fn read(path: &Path) -> Result<Value, String> {
    let text = fs::read_to_string(path).map_err(|why| format!("{}: {why}", path.display()))?;
    serde_json::from_str(&text).map_err(|why| format!("half a report, {why}: {text}"))
}

/// Descriptors of perf events, and all that are not what a dump has open for a moment: its file, its folder, and the
/// names of threads.
pub(crate) fn descriptors() -> [usize; 2] {
    let entries = fs::read_dir("/proc/self/fd").expect("there").flatten();
    let folder = folder();
    let files: Vec<_> = entries
        .filter_map(|entry| fs::read_link(entry.path()).ok())
        .filter(|file| *file != folder && !file.starts_with("/proc"))
        .collect();
    ["perf_event", ""].map(|of| {
        let is_it = |file: &&PathBuf| {
            let file = file.to_string_lossy();
            file.contains(of) && !file.contains("/dump")
        };
        files.iter().filter(is_it).count()
    })
}
