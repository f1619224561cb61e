//! What a program itself knows about its marked calls. It is in a file, so that it remains however the program ends.

use std::env;
use std::fs::{self, File};
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64};
use std::thread::panicking;

use serde_json::Value;

/// The marked functions that count themselves, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(non_camel_case_types, reason = "the functions' names")]
pub(crate) enum Function {
    work,
    /// Threads that nobody waits for call it all the time, so its counts never rest.
    busy,
    waits,
    unwinds,
    handles,
    allocates,
    deep,
    crowded,
}

const ALL: [Function; 8] = [
    Function::work,
    Function::busy,
    Function::waits,
    Function::unwinds,
    Function::handles,
    Function::allocates,
    Function::deep,
    Function::crowded,
];

/// Threads that call `busy`. A report may miss one call of each, which the thread is about to count.
pub(crate) const BUSY: u64 = 2;

#[derive(Debug, Default)]
#[repr(C)]
struct Row {
    begun: AtomicU64,
    ended: AtomicU64,
    /// How many of these unwound.
    unwound: AtomicU64,
    /// Calls that had ended before the program began to end.
    at_least: AtomicU64,
}

/// What a process leaves when it ends.
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

/// Counts a call from its creation until its drop.
pub(crate) struct Counted(Function);

static LEDGER: AtomicPtr<Ledger> = AtomicPtr::new(ptr::null_mut());

/// The ledger of this process.
pub(crate) fn ledger() -> &'static Ledger {
    // SAFETY: it is null, or mapped until the process ends.
    unsafe { LEDGER.load(SeqCst).as_ref() }.expect("opened")
}

/// The folder of the scenario, which the test creates.
pub(crate) const FOLDER: &str = "PERFMARK_TEST_FOLDER";

pub(crate) fn folder() -> PathBuf {
    env::var_os(FOLDER).expect("the test sets it").into()
}

/// Starts the ledger of this process. A forked child starts its own, with its process ID in the name.
pub(crate) fn begin(is_child: bool) {
    let suffix = if is_child { format!(".{}", std::process::id()) } else { String::new() };
    let path = folder().join(format!("ledger{suffix}"));
    LEDGER.store(ptr::from_ref(Ledger::map(&path)).cast_mut(), SeqCst);
}

#[must_use]
pub(crate) fn count(function: Function) -> Counted {
    ledger().rows[function as usize].begun.fetch_add(1, SeqCst);
    Counted(function)
}

impl Drop for Counted {
    fn drop(&mut self) {
        let row = &ledger().rows[self.0 as usize];
        if panicking() && self.0 == Function::unwinds {
            row.unwound.fetch_add(1, SeqCst);
        }
        row.ended.fetch_add(1, SeqCst);
    }
}

impl Ledger {
    /// Maps the ledger in the file, which is created if there is none.
    pub(crate) fn map(path: &Path) -> &'static Self {
        let file = File::options().read(true).write(true).create(true).truncate(false).open(path).expect("a file");
        file.set_len(size_of::<Self>() as u64).expect("its length");
        let (access, fd) = (libc::PROT_READ | libc::PROT_WRITE, file.as_raw_fd());
        // SAFETY: it is a new mapping of a file of that length, and the file keeps its length.
        unsafe {
            let start = libc::mmap(ptr::null_mut(), size_of::<Self>(), access, libc::MAP_SHARED, fd, 0);
            assert_ne!(start, libc::MAP_FAILED);
            &*start.cast()
        }
    }

    /// Records what the process is going to leave, which must contain every call that has ended until now.
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

    pub(crate) fn ended(&self, function: Function) -> u64 {
        self.rows[function as usize].ended.load(SeqCst)
    }

    /// Whether a report has exactly the calls that were made.
    pub(crate) fn compare(&self, report: &Value) -> Result<(), String> {
        ALL.into_iter()
            .try_for_each(|function| self.compare_mark(function, report).map_err(|why| format!("{function:?}: {why}")))
    }

    fn compare_mark(&self, function: Function, report: &Value) -> Result<(), String> {
        let Row { begun, ended, unwound, at_least } = &self.rows[function as usize];
        let marks = report["marks"].as_array().ok_or("no marks")?;
        let mark = marks.iter().find(|mark| mark["name"] == format!("{function:?}")).ok_or("no such mark")?;
        let [calls, in_flight, reported_unwound] = ["calls", "in_flight", "unwound"].map(|key| number(&mark[key]));
        let (begun, ended) = (begun.load(SeqCst), ended.load(SeqCst));
        if function == Function::busy {
            // Calls deeper than perfmark has frames for are counted at their entry, just before they count themselves.
            let (at_least, at_most) = (at_least.load(SeqCst).saturating_sub(BUSY), begun + BUSY);
            return require((at_least..=at_most).contains(&calls), || format!("{calls} of {at_least} to {at_most}"));
        }
        let made = [ended, begun - ended, unwound.load(SeqCst)];
        require([calls, in_flight, reported_unwound] == made, || {
            format!("{calls} calls, {in_flight} in flight, {reported_unwound} unwound, actually {made:?}")
        })?;
        for (event, values) in mark["values"].as_object().into_iter().flatten() {
            let [measured, unmeasured] = ["measured", "unmeasured"].map(|key| number(&values[key]));
            require(measured + unmeasured + reported_unwound == calls, || {
                format!("{event}: of {calls} calls {measured} measured, {unmeasured} not, {reported_unwound} unwound")
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

/// Reads a report that is written from time to time, if there is a complete one.
pub(crate) fn read(path: &Path) -> Result<Value, String> {
    let text = fs::read_to_string(path).map_err(|why| format!("{}: {why}", path.display()))?;
    serde_json::from_str(&text).map_err(|why| format!("half a report, {why}: {text}"))
}

/// The open descriptors, except for files that the thread of dumps opens and closes at any time: its dump, the folder,
/// and what the kernel says of the process and the machine.
pub(crate) fn descriptors() -> Vec<String> {
    let entries = fs::read_dir("/proc/self/fd").expect("there").flatten();
    let links = entries.filter_map(|entry| fs::read_link(entry.path()).ok());
    let links = links.map(|link| link.to_string_lossy().into_owned());
    let folder = folder().to_string_lossy().into_owned();
    let is_transient = |link: &str| {
        *link == *folder || link.contains("/dump") || link.starts_with("/proc/") || link.starts_with("/sys/")
    };
    let mut kept: Vec<_> = links.filter(|link| !is_transient(link)).collect();
    kept.sort_unstable();
    kept
}

pub(crate) fn has_perf_events() -> bool {
    descriptors().iter().any(|link| link.contains("perf_event"))
}

/// Checks that there are the same as before. While the program is sampled, another thread opens and closes the rings of
/// all threads at any time.
#[track_caller]
pub(crate) fn assert_descriptors(before: &[String]) {
    if env::var_os("PERFMARK_SAMPLE").is_none() {
        assert_eq!(descriptors(), before);
    }
}
