//! A name for this process that no other process has.
//!
//! The kernel reuses process numbers, and every namespace counts from 1 (`pid_namespaces(7)`), so a number alone does
//! not make the name of a file unique.

use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{SystemTime, UNIX_EPOCH};

use super::per_process::PerProcess;
use super::thread_id::process_id;

/// A process's identity. A forked child has another one.
#[derive(Debug, Default)]
struct Identity {
    /// Its number; 0 until the kernel has reported one.
    number: AtomicU32,
    origin: OnceLock<Origin>,
}

/// When the token was first requested, in nanoseconds since 1970, and the number of the process's namespace.
#[derive(Clone, Copy, Debug)]
struct Origin {
    nanoseconds: u128,
    namespace: u64,
}

static IDENTITY: PerProcess<Identity> = PerProcess::new();

/// An address that differs in a forked child. `None` if the kernel has no memory that a fork wipes.
pub(crate) fn address() -> Option<usize> {
    IDENTITY.get().ok().map(|identity| ptr::from_ref(identity).addr())
}

/// The number of a process or thread; `None` if it is 0 or negative, which means that the kernel did not report it.
pub(crate) fn known(number: u32) -> Option<u32> {
    (number > 0 && number <= i32::MAX.cast_unsigned()).then_some(number)
}

/// The process's number. Where getpid(2) is forbidden, as in a sandbox, the number that it had before, if there was
/// one.
pub(crate) fn number() -> Option<u32> {
    let number = known(process_id());
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
/// Two processes have the same token only if they have the same number in the same namespace and requested it in the
/// same nanosecond. It never fails: if the namespace cannot be read, as without /proc, that part is 0.
pub(crate) fn token() -> String {
    // Without memory that a fork wipes, a child differs from its parent by its number.
    static INHERITED: OnceLock<Origin> = OnceLock::new();
    let origin = IDENTITY.get().map_or(&INHERITED, |identity| &identity.origin);
    let Origin { nanoseconds, namespace } = origin.get_or_init(Origin::now);
    format!("{nanoseconds:x}-{namespace:x}-{:x}", number().unwrap_or(0))
}

impl Origin {
    fn now() -> Self {
        // A browser has neither this clock nor files.
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
