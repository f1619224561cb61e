//! A name for this process that no other process has.
//!
//! Process numbers are given again, and every namespace counts from 1 (`pid_namespaces(7)`), so that a number alone does not name a file of a
//! process's own.

use std::process;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::per_process::PerProcess;

/// When it was first asked for, in nanoseconds since 1970, and the number of the process's namespace.
#[derive(Clone, Copy, Debug)]
struct Asked {
    nanoseconds: u128,
    namespace: u64,
}

/// The token: the same each time in a process, another one in a forked child and after exec. It is of lowercase hexadecimal digits and `-`.
///
/// Two processes have the same one only if they have the same number in the same namespace and asked in the same nanosecond.
/// Nothing in it can fail: where the namespace cannot be read, as without /proc, it is 0.
pub(crate) fn token() -> String {
    static ASKED: PerProcess<OnceLock<Asked>> = PerProcess::new();
    // Where there is no memory that a fork wipes, a child differs from its parent by its number.
    static INHERITED: OnceLock<Asked> = OnceLock::new();
    let Asked { nanoseconds, namespace } = ASKED.get().unwrap_or(&INHERITED).get_or_init(Asked::now);
    format!("{nanoseconds:x}-{namespace:x}-{:x}", process::id())
}

impl Asked {
    fn now() -> Self {
        // A browser has no such clock, and no files.
        let has_clock = !cfg!(all(target_family = "wasm", target_os = "unknown"));
        let since = has_clock.then(|| SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default());
        Self { nanoseconds: since.unwrap_or_default().as_nanos(), namespace: namespace() }
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn namespace() -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata("/proc/self/ns/pid").map_or(0, |namespace| namespace.ino())
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn namespace() -> u64 {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_keeps_its_token() {
        let first = token();
        assert_eq!(token(), first);
        assert!(first.chars().all(|c| c == '-' || c.is_ascii_digit() || ('a'..='f').contains(&c)), "{first}");
    }
}
