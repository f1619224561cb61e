//! Settings of the machine that tests change, and what they allow.

use std::path::Path;
use std::{env, fs};

pub(crate) const MAY_CHANGE: &str = "PERFMARK_TEST_MAY_CHANGE_SYSCTLS";

const PARANOID: &str = "/proc/sys/kernel/perf_event_paranoid";

pub(crate) const ROOT: libc::uid_t = 0;
pub(crate) const NOBODY: libc::uid_t = 65_534;

/// Whether a user without rights may count its own work.
pub(crate) fn lets_users_count() -> bool {
    content(PARANOID).is_some_and(|level| level.parse::<i32>().is_ok_and(|level| level <= 2))
}

/// Why a test that changes settings cannot run here.
pub(crate) fn missing() -> Option<String> {
    // SAFETY: it takes no arguments.
    if unsafe { libc::geteuid() } != ROOT {
        return Some("it takes root to change a machine's settings".into());
    }
    let why = "which lets them do so for a moment, as CI does in the machine with a PMU";
    env::var_os(MAY_CHANGE).is_none().then(|| format!("{MAY_CHANGE} is not set, {why}"))
}

/// The content of a kernel's file, without its newline.
pub(crate) fn content(file: impl AsRef<Path>) -> Option<String> {
    fs::read_to_string(file).ok().map(|text| text.trim_end().to_owned())
}

/// Changes the paranoid level, and restores it when it is dropped, also by a panic.
pub(crate) struct ParanoidLevel {
    before: String,
}

impl ParanoidLevel {
    pub(crate) fn new(level: &str) -> Self {
        let this = Self { before: content(PARANOID).expect("there") };
        Self::set(level);
        this
    }

    pub(crate) fn set(level: &str) {
        fs::write(PARANOID, level).expect("root's");
    }
}

impl Drop for ParanoidLevel {
    fn drop(&mut self) {
        // SAFETY: it takes no pointers. A test may be another user when it panics.
        unsafe { libc::seteuid(ROOT) };
        if let Err(why) = fs::write(PARANOID, &self.before) {
            eprintln!("{PARANOID} was {}, and cannot be restored: {why}", self.before);
        }
    }
}
