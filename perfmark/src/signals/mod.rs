//! Signals: by name and number, held back, and heard of.
#![allow(unsafe_code, reason = "signal masks, and what wakes a thread from a handler")]

/// Where a handler can wake a thread.
#[cfg(all(feature = "signal", any(target_os = "linux", target_os = "android")))]
mod listener;
#[cfg(all(feature = "signal", any(target_os = "linux", target_os = "android")))]
pub(crate) use listener::Listener;

/// Elsewhere nobody hears of signals.
#[cfg(all(feature = "signal", not(any(target_os = "linux", target_os = "android"))))]
#[derive(Debug)]
pub(crate) struct Listener;

#[cfg(all(feature = "signal", not(any(target_os = "linux", target_os = "android"))))]
impl Listener {
    pub(crate) fn start(_: &[i32], _: impl Fn() + Send + 'static) -> std::io::Result<Self> {
        Err(std::io::Error::new(std::io::ErrorKind::Unsupported, "dumps at signals are for linux"))
    }
}

/// As long as it lives, no handler runs on this thread, nor on threads that it starts.
///
/// What a thread's own fault raises is not held back, as the kernel ends a process that has it blocked.
pub(crate) struct HeldBack(#[cfg(all(unix, not(miri)))] Option<libc::sigset_t>);

/// What a thread's own fault raises.
#[cfg(unix)]
#[cfg_attr(miri, allow(dead_code, reason = "nothing is held back there"))]
const FAULTS: [libc::c_int; 6] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGSYS];

impl HeldBack {
    pub(crate) fn new() -> Self {
        Self(
            // Miri knows no signals.
            #[cfg(all(unix, not(miri)))]
            // SAFETY: live sets; sigfillset makes any memory one, and these are signals.
            unsafe {
                let (mut held, mut before) = (std::mem::zeroed(), std::mem::zeroed());
                libc::sigfillset(&raw mut held);
                for fault in FAULTS {
                    libc::sigdelset(&raw mut held, fault);
                }
                (libc::pthread_sigmask(libc::SIG_BLOCK, &raw const held, &raw mut before) == 0).then_some(before)
            },
        )
    }
}

#[cfg(all(unix, not(miri)))]
impl Drop for HeldBack {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            // SAFETY: the set that was in force.
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before, std::ptr::null_mut()) };
        }
    }
}

/// The number of the signal that has this name, or is this number: one of those that do not end the program by their usual meaning.
#[cfg(all(feature = "signal", any(target_os = "linux", target_os = "android")))]
pub(crate) fn from_name(name: &str) -> Result<i32, String> {
    const ENDS: [i32; 4] = [libc::SIGTERM, libc::SIGINT, libc::SIGQUIT, libc::SIGHUP];
    let name = name.trim().to_ascii_uppercase();
    let is_so = |known: &str| known == name || known.strip_prefix("SIG") == Some(&name);
    let signals = 1..=64;
    let named = |&signal: &i32| signal_hook::low_level::signal_name(signal).is_some_and(is_so);
    let signal = name.parse().ok().filter(|signal| signals.contains(signal)).or_else(|| signals.clone().find(named));
    let signal = signal.ok_or_else(|| format!("`{name}` is no signal; there are USR1, SIGUSR1, 10 …"))?;
    if ENDS.contains(&signal) {
        return Err(format!("signal {signal} is to end the program; take USR1 or USR2"));
    }
    check(signal).map(|()| signal)
}

#[cfg(not(all(feature = "signal", any(target_os = "linux", target_os = "android"))))]
pub(crate) fn from_name(_: &str) -> Result<i32, String> {
    Err("this build of perfmark handles no signals: enable its feature `signal`, on linux".into())
}

/// Not SIGKILL and SIGSTOP, nor those that faults raise, nor those that the C library keeps for itself.
#[cfg(all(feature = "signal", any(target_os = "linux", target_os = "android")))]
pub(crate) fn check(signal: i32) -> Result<(), String> {
    let is_one = (1..32).contains(&signal) || (libc::SIGRTMIN()..=libc::SIGRTMAX()).contains(&signal);
    let others = [libc::SIGKILL, libc::SIGSTOP, libc::SIGABRT];
    if is_one && !others.contains(&signal) && !FAULTS.contains(&signal) {
        return Ok(());
    }
    Err(format!("signal {signal} cannot be handled"))
}

#[cfg(all(test, feature = "signal", any(target_os = "linux", target_os = "android")))]
mod tests {
    use super::*;

    #[test]
    fn a_signal_has_a_name_with_sig_and_without_and_a_number() {
        for name in ["USR1", "usr1", "SIGUSR1", &format!(" {} ", libc::SIGUSR1)] {
            assert_eq!(from_name(name), Ok(libc::SIGUSR1), "{name}");
        }
        for (name, why) in [
            ("USR3", "is no signal"),
            ("0", "is no signal"),
            ("65", "is no signal"),
            ("KILL", "handled"),
            ("BUS", "handled"),
            ("33", "handled"),
            ("TERM", "is to end"),
        ] {
            assert!(from_name(name).unwrap_err().contains(why), "{name}");
        }
        assert!(check(libc::SIGTERM).is_ok() && check(999).is_err() && check(-5).is_err());
    }
}
