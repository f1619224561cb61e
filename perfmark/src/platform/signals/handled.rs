//! The names and numbers of signals that can be handled.

use super::blocked::FAULTS;

/// The number of the signal with this name or number. Signals whose usual meaning is to end the program are refused.
pub(crate) fn from_name(name: &str) -> Result<i32, String> {
    const ENDS: [i32; 4] = [libc::SIGTERM, libc::SIGINT, libc::SIGQUIT, libc::SIGHUP];
    let name = name.trim().to_ascii_uppercase();
    let is_so = |known: &str| known == name || known.strip_prefix("SIG") == Some(&name);
    let signals = 1..=64;
    let named = |&signal: &i32| signal_hook::low_level::signal_name(signal).is_some_and(is_so);
    let signal = name.parse().ok().filter(|signal| signals.contains(signal)).or_else(|| signals.clone().find(named));
    let signal = signal.ok_or_else(|| format!("unknown signal `{name}`; expected for example USR1, SIGUSR1 or 10"))?;
    if ENDS.contains(&signal) {
        return Err(format!("signal {signal} ends the program; use USR1 or USR2"));
    }
    check(signal).map(|()| signal)
}

/// Refuses SIGKILL and SIGSTOP, signals that faults raise, and those that the C library reserves.
pub(super) fn check(signal: i32) -> Result<(), String> {
    let is_one = (1..32).contains(&signal) || (libc::SIGRTMIN()..=libc::SIGRTMAX()).contains(&signal);
    let others = [libc::SIGKILL, libc::SIGSTOP, libc::SIGABRT];
    if is_one && !others.contains(&signal) && !FAULTS.contains(&signal) {
        return Ok(());
    }
    Err(format!("signal {signal} cannot be handled"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_has_a_name_with_sig_and_without_and_a_number() {
        for name in ["USR1", "usr1", "SIGUSR1", &format!(" {} ", libc::SIGUSR1)] {
            assert_eq!(from_name(name), Ok(libc::SIGUSR1), "{name}");
        }
        for (name, why) in [
            ("USR3", "unknown signal"),
            ("0", "unknown signal"),
            ("65", "unknown signal"),
            ("KILL", "handled"),
            ("BUS", "handled"),
            ("33", "handled"),
            ("TERM", "ends the program"),
        ] {
            assert!(from_name(name).unwrap_err().contains(why), "{name}");
        }
        assert!(check(libc::SIGTERM).is_ok() && check(999).is_err() && check(-5).is_err());
    }
}
