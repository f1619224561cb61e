//! What a machine says of its counters in procfs and sysfs.

use std::fs;
use std::io::ErrorKind;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

/// A machine, as its procfs and sysfs describe it; or a description of one, in a directory that holds copies of their files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    root: PathBuf,
}

/// Where the kernel lists its PMUs.
pub(crate) const DEVICES: &str = "sys/bus/event_source/devices";

impl Machine {
    /// The machine that this program runs on.
    #[must_use]
    pub fn here() -> Self {
        Self::at("/")
    }

    /// The machine whose `proc` and `sys` lie in `root`.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The file or directory of that path, which is relative to the root.
    pub(crate) fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        self.root.join(path)
    }

    /// A file's text, without white space at its ends.
    pub(crate) fn text(&self, path: impl AsRef<Path>) -> Option<String> {
        Some(fs::read_to_string(self.path(path)).ok()?.trim().to_owned())
    }

    /// A file's text, without white space at its ends; none if there is no such file. Gives what is wrong where it cannot be read.
    pub(crate) fn read(&self, path: impl AsRef<Path>) -> Result<Option<String>, String> {
        let path = path.as_ref();
        match fs::read_to_string(self.path(path)) {
            Ok(text) => Ok(Some(text.trim().to_owned())),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
            Err(error) => Err(format!("/{} cannot be read: {error}", path.display())),
        }
    }

    /// A file's number.
    pub(crate) fn number(&self, path: impl AsRef<Path>) -> Option<i64> {
        self.text(path)?.parse().ok()
    }

    /// The names in a directory, sorted.
    pub(crate) fn names(&self, path: impl AsRef<Path>) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.path(path)) else { return Vec::new() };
        let mut names: Vec<String> =
            entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort_unstable();
        names
    }

    /// Whether this process has `CAP_SYS_ADMIN`, which no level of `kernel.perf_event_paranoid` stops.
    pub(crate) fn may_do_all(&self) -> bool {
        const CAP_SYS_ADMIN: u64 = 1 << 21;
        // In a user namespace of its own a process has all rights there, and none here.
        let namespace = self.text("proc/self/uid_map").unwrap_or_default();
        if namespace.split_whitespace().ne(["0", "0", "4294967295"]) {
            return false;
        }
        let status = self.text("proc/self/status").unwrap_or_default();
        let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
        effective
            .and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok())
            .is_some_and(|bits| bits & CAP_SYS_ADMIN != 0)
    }

    /// `kernel.perf_event_paranoid`.
    pub(crate) fn paranoid(&self) -> Option<i64> {
        self.number("proc/sys/kernel/perf_event_paranoid")
    }

    /// The PMUs of the cores. One that covers some CPUs only names them in `cpus`; x86 calls its only one `cpu`.
    pub(crate) fn core_pmus(&self) -> Vec<String> {
        let mut pmus = self.names(DEVICES);
        pmus.retain(|pmu| pmu == "cpu" || self.path(DEVICES).join(pmu).join("cpus").exists());
        pmus
    }

    /// The CPUs that a core PMU covers, as its `cpus` lists them; nothing for one that covers all.
    pub(crate) fn cpus(&self, pmu: &str) -> Vec<RangeInclusive<u32>> {
        let list = self.text(Path::new(DEVICES).join(pmu).join("cpus")).unwrap_or_default();
        let range = |range: &str| {
            let (low, high) = range.split_once('-').unwrap_or((range, range));
            Some(low.parse().ok()?..=high.parse().ok()?)
        };
        list.split(',').filter_map(range).collect()
    }

    /// Whether a PMU counts for whole CPUs, sockets or machines, never for one thread: then it names CPUs to open its events on.
    pub(crate) fn counts_whole_cpus(&self, pmu: &str) -> bool {
        self.path(DEVICES).join(pmu).join("cpumask").exists()
    }

    /// Why the kernel gives no index for a hardware event, if a setting says so.
    pub(crate) fn user_reads_forbidden(&self) -> Option<String> {
        if self.number("proc/sys/kernel/perf_user_access") == Some(0) {
            return Some(
                "kernel.perf_user_access is 0; `sysctl kernel.perf_user_access=1` allows user-space reads".into(),
            );
        }
        let mut files = self.core_pmus().into_iter().map(|pmu| format!("{DEVICES}/{pmu}/rdpmc"));
        let file = files.find(|file| self.number(file) == Some(0))?;
        Some(format!("/{file} is 0; writing 1 allows user-space reads"))
    }
}
