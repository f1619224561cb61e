//! Signals by name and number.

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
