//! Signals: by name and number, and held back.
#![allow(unsafe_code, reason = "signal masks")]

/// As long as it lives, no handler runs on this thread, nor on threads that it starts.
///
/// What a thread's own fault raises is not held back, as the kernel ends a process that has it blocked.
pub(crate) struct HeldBack(#[cfg(unix)] Option<libc::sigset_t>);

impl HeldBack {
    pub(crate) fn new() -> Self {
        Self(
            #[cfg(unix)]
            // SAFETY: live sets; sigfillset makes any memory one, and these are signals.
            unsafe {
                let (mut held, mut before) = (std::mem::zeroed(), std::mem::zeroed());
                libc::sigfillset(&raw mut held);
                for fault in [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGSYS] {
                    libc::sigdelset(&raw mut held, fault);
                }
                (libc::pthread_sigmask(libc::SIG_BLOCK, &raw const held, &raw mut before) == 0).then_some(before)
            },
        )
    }
}

#[cfg(unix)]
impl Drop for HeldBack {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            // SAFETY: the set that was in force.
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before, std::ptr::null_mut()) };
        }
    }
}

/// The number of the signal that has this name, or is this number.
#[cfg(feature = "signal")]
pub(crate) fn from_name(name: &str) -> Result<i32, String> {
    let name = name.trim().to_ascii_uppercase();
    let is_so = |known: &str| known == name || known.strip_prefix("SIG") == Some(&name);
    let signals = 1..=64;
    let named = |&signal: &i32| signal_hook::low_level::signal_name(signal).is_some_and(is_so);
    let signal = name.parse().ok().filter(|signal| signals.contains(signal)).or_else(|| signals.clone().find(named));
    let signal = signal.ok_or_else(|| format!("`{name}` is no signal; there are USR1, SIGUSR1, 10 …"))?;
    check(signal).map(|()| signal)
}

#[cfg(not(feature = "signal"))]
pub(crate) fn from_name(_: &str) -> Result<i32, String> {
    Err("this build of perfmark handles no signals: enable its feature `signal`".into())
}

/// Not SIGKILL and SIGSTOP, nor those that faults raise.
#[cfg(feature = "signal")]
pub(crate) fn check(signal: i32) -> Result<(), String> {
    if signal_hook::consts::FORBIDDEN.contains(&signal) {
        return Err(format!("signal {signal} cannot be handled"));
    }
    Ok(())
}

#[cfg(all(test, feature = "signal"))]
mod tests {
    use super::*;

    #[test]
    fn a_signal_has_a_name_with_sig_and_without_and_a_number() {
        for name in ["USR1", "usr1", "SIGUSR1", &format!(" {} ", libc::SIGUSR1)] {
            assert_eq!(from_name(name), Ok(libc::SIGUSR1), "{name}");
        }
        for (name, why) in
            [("USR3", "is no signal"), ("0", "is no signal"), ("65", "is no signal"), ("KILL", "handled")]
        {
            assert!(from_name(name).unwrap_err().contains(why), "{name}");
        }
    }
}
