//! What an event is opened for: a thread, a CPU, or a cgroup.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::Error;

/// What an event is opened for. By default, it is the calling thread.
///
/// ```
/// use perfmark_rdpmc::{Attr, Software, Target, TargetCounter};
///
/// // The page faults of this process's main thread, from any of its threads.
/// match TargetCounter::open(&Attr::new(Software::PageFaults), &Target::thread(std::process::id())) {
///     Ok(faults) => println!("{} page faults", faults.read()?.value),
///     Err(why) => eprintln!("{why}"),
/// }
/// # Ok::<(), perfmark_rdpmc::Error>(())
/// ```
///
/// What each requires, besides what the event itself requires (`perf_event_open` in `kernel/events/core.c`, linux
/// 6.12):
///
/// | target | requires |
/// |---|---|
/// | the calling thread, other threads of the process | nothing |
/// | threads of other processes of the same user | that the process is dumpable (`ptrace(2)`); otherwise as the next |
/// | threads of other users | `CAP_PERFMON` (`CAP_SYS_PTRACE` before linux 5.8) |
/// | an entire CPU, a cgroup | `CAP_PERFMON`, or `kernel.perf_event_paranoid` 0 or lower |
#[derive(Clone, Debug, Default)]
pub struct Target {
    pub(crate) whose: Whose,
    pub(crate) cpu: Option<u32>,
}

/// Whose events are counted.
#[derive(Clone, Debug, Default)]
pub(crate) enum Whose {
    #[default]
    Caller,
    Thread(u32),
    Everyone,
    /// A cgroup's directory, and the same one open.
    Cgroup(PathBuf, #[allow(dead_code, reason = "only linux is asked to count for it")] Arc<File>),
}

impl Target {
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let is_same = match (&self.whose, &other.whose) {
            (Whose::Caller, Whose::Caller) | (Whose::Everyone, Whose::Everyone) => true,
            (Whose::Thread(one), Whose::Thread(other)) => one == other,
            (Whose::Cgroup(one, _), Whose::Cgroup(other, _)) => one == other,
            _ => false,
        };
        is_same && self.cpu == other.cpu
    }

    /// The thread that opens the event.
    #[must_use]
    pub fn this_thread() -> Self {
        Self::default()
    }

    /// A thread of any process. A process's number is also that of its main thread; its other threads are in
    /// `/proc/PID/task`. [`Attr::inherit`](crate::Attr::inherit) adds those that the thread starts from now on.
    #[must_use]
    pub fn thread(tid: u32) -> Self {
        Self { whose: Whose::Thread(tid), cpu: None }
    }

    /// An entire CPU: everything that runs on it, and the idle task. A PMU outside the cores lists the CPUs on which to
    /// open its events in [`cpumask`](crate::ListedPmu::cpumask).
    #[must_use]
    pub fn cpu(cpu: u32) -> Self {
        Self { whose: Whose::Everyone, cpu: Some(cpu) }
    }

    /// The processes of a cgroup and of the cgroups inside it, while they are on that CPU; linux opens no event for a
    /// cgroup on all CPUs. `directory` is the cgroup's, such as `/sys/fs/cgroup/system.slice`; with cgroups of version
    /// 1, in the hierarchy of the controller `perf_event`.
    ///
    /// # Errors
    ///
    /// If the directory cannot be opened. Whether it is a cgroup's is found when an event is opened.
    pub fn cgroup(directory: impl AsRef<Path>, cpu: u32) -> Result<Self, Error> {
        let path = directory.as_ref();
        let text = path.as_os_str().as_encoded_bytes();
        if text.is_empty() || text.contains(&0) {
            let why = "it is not a path, which has at least one character, and not the character NUL";
            return Err(Error::refused(format!("cgroup {:?}", path.to_string_lossy()), why));
        }
        // A pipe would wait for its other end.
        let is_directory = !path.exists() || path.is_dir();
        let open = if is_directory { File::open(path) } else { Err(io::Error::from_raw_os_error(libc::ENOTDIR)) };
        let open = open.map_err(|error| {
            let errno = error.raw_os_error().unwrap_or(libc::EIO);
            let why = match errno {
                libc::ENOENT => "there is no such cgroup; `cat /proc/self/cgroup` shows where this process is",
                libc::ENOTDIR => "a cgroup is a directory",
                libc::EACCES | libc::EPERM => "this user may not read the directory",
                _ => "see open(2)",
            };
            Error::os(errno, "open", path.display().to_string(), why)
        })?;
        Ok(Self { whose: Whose::Cgroup(path.into(), Arc::new(open)), cpu: Some(cpu) })
    }

    /// A thread, only while it is on that CPU. A CPU or a cgroup: that CPU instead of the former one. The
    /// [ring](crate::sample::Sampler::target) of an event that [inherits](crate::Attr::inherit) requires a CPU.
    #[must_use]
    pub fn on_cpu(self, cpu: u32) -> Self {
        Self { cpu: Some(cpu), ..self }
    }

    /// The thread that was named.
    pub(crate) fn tid(&self) -> Option<u32> {
        if let Whose::Thread(tid) = self.whose { Some(tid) } else { None }
    }

    /// Whether it is an entire CPU.
    pub(crate) fn is_whole_cpu(&self) -> bool {
        matches!(self.whose, Whose::Everyone)
    }

    pub(crate) fn is_thread(&self) -> bool {
        matches!(self.whose, Whose::Caller | Whose::Thread(_))
    }

    pub(crate) fn is_caller(&self) -> bool {
        matches!(self.whose, Whose::Caller)
    }
}
