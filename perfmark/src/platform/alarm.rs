//! Wakes a waiting thread of perfmark's. It needs no descriptor, which the program could close. In a forked child, it
//! does not wake the parent's thread.

pub(crate) use imp::Alarm;

/// The kernel measures the time: the C library's clock may be replaced by one that stands still. With that clock, the
/// standard library's waits for a time never end.
#[cfg(any(target_os = "linux", target_os = "android"))]
mod imp {
    #![allow(unsafe_code, reason = "futex(2)")]

    use std::ffi::{c_int, c_long};
    use std::io;
    use std::ptr;
    use std::sync::atomic::AtomicU32;
    use std::sync::atomic::Ordering::SeqCst;
    use std::time::Duration;

    use crate::platform::errno::KeepErrno;

    /// 1 if somebody woke it.
    #[derive(Debug)]
    pub(crate) struct Alarm(AtomicU32);

    impl Alarm {
        pub(crate) const fn new() -> Self {
            Self(AtomicU32::new(0))
        }

        /// Wakes the thread now, or as soon as it waits. It only stores a word and makes a system call, and so is
        /// async-signal-safe.
        pub(crate) fn wake(&self) {
            let _errno = KeepErrno::new();
            self.0.store(1, SeqCst);
            _ = self.futex(libc::FUTEX_WAKE, 1, None);
        }

        /// Waits until somebody wakes the thread, or for that time.
        pub(crate) fn wait(&self, mut at_most: Option<Duration>) {
            const RETRY_INTERVAL: Duration = Duration::from_secs(1);
            while self.0.swap(0, SeqCst) == 0 {
                match self.futex(libc::FUTEX_WAIT, 0, at_most).map_err(|why| why.raw_os_error()) {
                    // Woken; or a signal, or a wake in between.
                    Ok(()) | Err(Some(libc::EINTR | libc::EAGAIN)) => {}
                    Err(Some(libc::ETIMEDOUT)) => return,
                    // A seccomp filter may refuse it.
                    Err(_) => {
                        std::thread::sleep(at_most.unwrap_or(RETRY_INTERVAL).min(RETRY_INTERVAL));
                        at_most = at_most.map(|time| time.saturating_sub(RETRY_INTERVAL));
                        if at_most == Some(Duration::ZERO) {
                            return;
                        }
                    }
                }
            }
        }

        #[cfg(not(any(
            target_arch = "riscv32",
            all(target_pointer_width = "32", any(target_arch = "x86_64", target_arch = "aarch64"))
        )))]
        fn futex(&self, operation: c_int, value: c_int, time: Option<Duration>) -> io::Result<()> {
            // The kernel's `timespec`. That of the C library may be wider.
            let time = time.map(|time| {
                [time.as_secs(), time.subsec_nanos().into()].map(|part| c_long::try_from(part).unwrap_or(c_long::MAX))
            });
            let time = time.as_ref().map_or(ptr::null(), ptr::from_ref);
            let operation = operation | libc::FUTEX_PRIVATE_FLAG;
            // SAFETY: a live word, and null or a live time, which is relative for a wait.
            let result = unsafe { libc::syscall(libc::SYS_futex, self.0.as_ptr(), operation, value, time) };
            if result >= 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
        }

        /// These have another system call, or another `timespec`. A waiting thread then looks once a second.
        #[cfg(any(
            target_arch = "riscv32",
            all(target_pointer_width = "32", any(target_arch = "x86_64", target_arch = "aarch64"))
        ))]
        fn futex(&self, _: c_int, _: c_int, _: Option<Duration>) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod imp {
    use std::sync::{Condvar, Mutex, PoisonError};
    use std::time::Duration;

    #[derive(Debug)]
    pub(crate) struct Alarm {
        is_awake: Mutex<bool>,
        condition: Condvar,
    }

    impl Alarm {
        pub(crate) const fn new() -> Self {
            Self { is_awake: Mutex::new(false), condition: Condvar::new() }
        }

        pub(crate) fn wake(&self) {
            *self.is_awake.lock().unwrap_or_else(PoisonError::into_inner) = true;
            self.condition.notify_one();
        }

        pub(crate) fn wait(&self, at_most: Option<Duration>) {
            let is_awake = self.is_awake.lock().unwrap_or_else(PoisonError::into_inner);
            let waits = |is_awake: &mut bool| !*is_awake;
            let mut is_awake = match at_most {
                Some(time) => {
                    self.condition.wait_timeout_while(is_awake, time, waits).unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.condition.wait_while(is_awake, waits).unwrap_or_else(PoisonError::into_inner),
            };
            *is_awake = false;
        }
    }
}

#[cfg(all(test, not(perfmark_loom)))]
mod tests {
    use std::sync::Arc;
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn it_wakes_before_and_during_a_wait_and_a_wait_without_it_ends() {
        let alarm = Arc::new(Alarm::new());
        alarm.wake();
        alarm.wake();
        alarm.wait(None);
        // The two were one.
        alarm.wait(Some(Duration::from_millis(1)));
        let waking = Arc::clone(&alarm);
        let thread = thread::spawn(move || waking.wake());
        alarm.wait(None);
        thread.join().expect("it does not panic");
        alarm.wait(Some(Duration::ZERO));
    }
}
