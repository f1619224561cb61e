//! A name for this process that no other process has.
//!
//! The kernel reuses process numbers, and every namespace counts from 1 (`pid_namespaces(7)`), so a number alone does
//! not make the name of a file unique.

use std::sync::OnceLock;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{SystemTime, UNIX_EPOCH};
use std::{process, ptr};

use crate::per_process::PerProcess;

/// What a process knows of itself. A forked child has another one.
#[derive(Debug, Default)]
struct Identity {
    /// Its number, as far as it could be asked so far; else 0.
    number: AtomicU32,
    asked: OnceLock<Asked>,
}

/// When the token was first asked for, in nanoseconds since 1970, and the number of the process's namespace.
#[derive(Clone, Copy, Debug)]
struct Asked {
    nanoseconds: u128,
    namespace: u64,
}

static IDENTITY: PerProcess<Identity> = PerProcess::new();

/// The address of something that a forked child has elsewhere; none where the kernel gave no memory that a fork wipes.
pub(crate) fn address() -> Option<usize> {
    IDENTITY.get().ok().map(|identity| ptr::from_ref(identity).addr())
}

/// The number of a process or thread, of which 0 and below say that the kernel did not tell it.
pub(crate) fn known(number: u32) -> Option<u32> {
    (number > 0 && number <= i32::MAX.cast_unsigned()).then_some(number)
}

/// The process's number; where it may not be asked, as in a sandbox, the one that it had before, if there was one.
pub(crate) fn number() -> Option<u32> {
    let number = known(process::id());
    let Ok(identity) = IDENTITY.get() else { return number };
    match number {
        Some(number) => identity.number.store(number, Relaxed),
        None => return known(identity.number.load(Relaxed)),
    }
    number
}

/// The number for people, and for names of files.
pub(crate) fn number_or_unknown() -> String {
    number().map_or_else(|| "unknown".into(), |number| number.to_string())
}

/// The token, of lowercase hexadecimal digits and `-`. It is the same each time in a process, and another one in a
/// forked child and after exec.
///
/// Two processes have the same token only if they have the same number in the same namespace and asked for it in the
/// same nanosecond. It never fails: if the namespace cannot be read, as without /proc, that part is 0.
pub(crate) fn token() -> String {
    // Where there is no memory that a fork wipes, a child differs from its parent by its number.
    static INHERITED: OnceLock<Asked> = OnceLock::new();
    let asked = IDENTITY.get().map_or(&INHERITED, |identity| &identity.asked);
    let Asked { nanoseconds, namespace } = asked.get_or_init(Asked::now);
    format!("{nanoseconds:x}-{namespace:x}-{:x}", number().unwrap_or(0))
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
