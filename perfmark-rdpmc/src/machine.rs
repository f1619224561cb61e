//! A machine's counters, as procfs and sysfs describe them.

use std::io::{self, ErrorKind};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::{fmt, fs};

use crate::error::{Error, exhausted};

/// A machine, as its procfs and sysfs describe it; or a copy of those files in another directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    root: PathBuf,
}

/// The directory in which the kernel lists its PMUs.
pub(crate) const DEVICES: &str = "sys/bus/event_source/devices";
pub(crate) const ONLINE_CPUS: &str = "sys/devices/system/cpu/online";
pub(crate) const PARANOID: &str = "proc/sys/kernel/perf_event_paranoid";
const USER_ACCESS: &str = "proc/sys/kernel/perf_user_access";

impl Machine {
    /// The machine that this program runs on.
    #[must_use]
    pub fn here() -> Self {
        // A scripted machine has no files.
        Self::at(if cfg!(perfmark_scripted) { "/nonexistent" } else { "/" })
    }

    /// The machine whose `proc` and `sys` directories are in `root`.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The machine that a directory in `tests/fixtures` describes.
    #[cfg(test)]
    pub(crate) fn fixture(name: &str) -> Self {
        Self::at(format!("{}/tests/fixtures/{name}", env!("CARGO_MANIFEST_DIR")))
    }

    /// The full path of a file or directory that is given relative to the root.
    pub(crate) fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        self.root.join(path)
    }

    /// A file's text, without surrounding white space; `None` if it is missing or cannot be read.
    pub(crate) fn text(&self, path: impl AsRef<Path>) -> Option<String> {
        self.read(path).ok()?
    }

    /// A file's text, without surrounding white space; `None` if there is no such file.
    pub(crate) fn read(&self, path: impl AsRef<Path>) -> Result<Option<String>, Unreadable> {
        let text = fs::read(self.path(&path)).map(|bytes| String::from_utf8_lossy(&bytes).trim().to_owned());
        present(path.as_ref(), text)
    }

    /// The number in a file.
    pub(crate) fn number(&self, path: impl AsRef<Path>) -> Option<i64> {
        self.text(path)?.parse().ok()
    }

    /// The names in a directory, sorted; empty if there is no such directory.
    pub(crate) fn names(&self, path: &str) -> Result<Vec<String>, Unreadable> {
        let list = |entries: fs::ReadDir| -> io::Result<Vec<String>> {
            let mut names = Vec::new();
            for entry in entries {
                if let Ok(name) = entry?.file_name().into_string() {
                    names.insert(names.partition_point(|other| *other < name), name);
                }
            }
            Ok(names)
        };
        Ok(present(path.as_ref(), fs::read_dir(self.path(path)).and_then(list))?.unwrap_or_default())
    }

    /// `kernel.perf_event_paranoid`.
    pub(crate) fn paranoid(&self) -> Option<i64> {
        self.number(PARANOID)
    }

    /// The names of all PMUs. Empty if there is no sysfs, or if a sandbox hides it: the kernel's generic events work
    /// without it.
    pub(crate) fn pmus(&self) -> Result<Vec<String>, Unreadable> {
        match self.names(DEVICES) {
            Err(Unreadable { errno: libc::EACCES | libc::EPERM, .. }) => Ok(Vec::new()),
            names => names,
        }
    }

    /// The PMUs of the cores. A PMU that covers only some CPUs lists them in `cpus`. If x86 has only one, it is called
    /// `cpu`.
    pub(crate) fn core_pmus(&self) -> Result<Vec<String>, Unreadable> {
        let mut pmus = self.pmus()?;
        pmus.retain(|pmu| pmu == "cpu" || self.path(DEVICES).join(pmu).join("cpus").exists());
        Ok(pmus)
    }

    /// The CPUs that a core PMU covers, from its file `cpus`; empty for a PMU that covers all.
    pub(crate) fn cpus(&self, pmu: &str) -> Vec<RangeInclusive<u32>> {
        self.cpu_list(&Path::new(DEVICES).join(pmu).join("cpus"))
    }

    /// The CPUs that are online.
    pub(crate) fn online_cpus(&self) -> Vec<RangeInclusive<u32>> {
        self.cpu_list(Path::new(ONLINE_CPUS))
    }

    /// The CPUs in a file, such as `0-3,8`.
    fn cpu_list(&self, path: &Path) -> Vec<RangeInclusive<u32>> {
        let list = self.text(path).unwrap_or_default();
        let range = |range: &str| {
            let (low, high) = range.split_once('-').unwrap_or((range, range));
            Some(low.parse().ok()?..=high.parse().ok()?)
        };
        list.split(',').filter_map(range).collect()
    }

    /// The CPUs on which to open a PMU's events, from its file `cpumask`, as the kernel writes them. Most PMUs with
    /// such a file count for entire CPUs, sockets or machines, never for one thread.
    pub(crate) fn cpumask(&self, pmu: &str) -> Option<String> {
        self.text(Path::new(DEVICES).join(pmu).join("cpumask"))
    }

    /// arm64: whether hypervisor code may run at a level of its own, which counters can tell from the kernel's. In a
    /// virtual machine they never can. Nor can they where the kernel is its own hypervisor (VHE, Armv8.1), unless its
    /// command line says otherwise (`kvm-arm.mode` in `Documentation/admin-guide/kernel-parameters.txt`, linux 6.12).
    /// True if unknown.
    pub(crate) fn has_a_separate_hypervisor(&self) -> bool {
        let processors = self.text("proc/cpuinfo").unwrap_or_default();
        let mut features = processors.lines().filter_map(|line| line.strip_prefix("Features")).peekable();
        // Atomic instructions came with Armv8.1 as well, and VHE has no name in this list.
        let may_be_vhe = features.peek().is_some() && features.all(|all| all.split(' ').any(|one| one == "atomics"));
        let options = self.text("proc/cmdline").unwrap_or_default();
        let separates = ["kvm-arm.mode=nvhe", "kvm-arm.mode=protected", "id_aa64mmfr1.vh=0"];
        !may_be_vhe || options.split_whitespace().any(|option| separates.contains(&option))
    }

    /// `kernel.perf_user_access`.
    pub(crate) fn perf_user_access(&self) -> Option<i64> {
        self.number(USER_ACCESS)
    }

    /// x86: a core PMU's file `rdpmc`.
    pub(crate) fn rdpmc(&self, pmu: &str) -> Option<i64> {
        self.number(format!("{DEVICES}/{pmu}/rdpmc"))
    }

    /// The setting that prevents user space from reading hardware counters, if there is one.
    pub(crate) fn setting_against_user_reads(&self) -> Option<BlockingSetting> {
        let pmus = self.core_pmus().unwrap_or_default();
        BlockingSetting::among(self.perf_user_access(), pmus.iter().map(|pmu| (pmu.as_str(), self.rdpmc(pmu))))
    }
}

/// A setting that prevents user space from reading hardware counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BlockingSetting {
    pub(crate) setting: String,
    pub(crate) remedy: String,
}

impl BlockingSetting {
    /// The first blocking setting among `kernel.perf_user_access` and each core PMU's `rdpmc`.
    pub(crate) fn among<'a, I>(perf_user_access: Option<i64>, rdpmc: I) -> Option<Self>
    where
        I: IntoIterator<Item = (&'a str, Option<i64>)>,
    {
        if perf_user_access == Some(0) {
            return Some(Self {
                setting: "kernel.perf_user_access is 0".into(),
                remedy: "as root (in a container: on its host): sysctl kernel.perf_user_access=1".into(),
            });
        }
        let (pmu, _) = rdpmc.into_iter().find(|&(_, value)| value == Some(0))?;
        let file = format!("/{DEVICES}/{pmu}/rdpmc");
        let remedy = format!("as root (in a container: on its host): echo 1 >{file}");
        Some(Self { setting: format!("{file} is 0"), remedy })
    }
}

impl fmt::Display for BlockingSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.setting, self.remedy)
    }
}

/// A file or directory that exists, or may exist, and could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unreadable {
    path: PathBuf,
    pub(crate) errno: i32,
}

impl Unreadable {
    /// The error for `subject`, which could not be looked up.
    pub(crate) fn explain(&self, subject: impl Into<String>) -> Error {
        let why = exhausted(self.errno).unwrap_or(match self.errno {
            libc::EACCES | libc::EPERM => {
                "a sandbox or a security module hides it from this process; allow access to it"
            }
            libc::ELOOP => "a symbolic link in the path leads back to itself",
            _ => "the file system or device failed; see the kernel's log",
        });
        Error::os(self.errno, &format!("reading {self}"), subject, why)
    }
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/{}", self.path.display())
    }
}

/// What was read; `None` if the file does not exist. No file has a name that is too long.
fn present<T>(path: &Path, read: io::Result<T>) -> Result<Option<T>, Unreadable> {
    use ErrorKind::{InvalidFilename, NotADirectory, NotFound, Unsupported};
    match read {
        Ok(read) => Ok(Some(read)),
        Err(error) if matches!(error.kind(), NotFound | NotADirectory | InvalidFilename | Unsupported) => Ok(None),
        Err(error) => Err(Unreadable { path: path.into(), errno: error.raw_os_error().unwrap_or(libc::EIO) }),
    }
}

#[cfg(test)]
#[path = "../tests/files/mod.rs"]
mod files;
#[cfg(test)]
pub(crate) use files::Files;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arm64_kernel_has_a_separate_hypervisor_only_without_vhe() {
        let files = Files::new("hypervisor");
        let (old, new) = ("Features\t: fp asimd crc32\n", "Features\t: fp asimd crc32 atomics fphp\n");
        let both = format!("{old}{new}");
        for (cpuinfo, cmdline, separate) in [
            (new, "quiet", false),
            (new, "quiet kvm-arm.mode=protected", true),
            (new, "kvm-arm.mode=nvhe", true),
            (new, "kvm-arm.mode=nested", false),
            (old, "quiet", true),
            (both.as_str(), "quiet", true),
            ("", "quiet", true),
        ] {
            files.write("proc/cpuinfo", cpuinfo);
            files.write("proc/cmdline", cmdline);
            let machine = Machine::at(&files.0);
            assert_eq!(machine.has_a_separate_hypervisor(), separate, "{cpuinfo} {cmdline}");
        }
    }
}
