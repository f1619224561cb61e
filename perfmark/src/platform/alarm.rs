//! Waking one of perfmark's own threads. It needs no descriptor, which the program could close.

use std::time::Duration;

/// Wakes a thread that waits for it.
#[derive(Debug, Default)]
pub(crate) struct Alarm(imp::Alarm);

impl Alarm {
    /// Wakes the thread now, or as soon as it waits.
    pub(crate) fn wake(&self) {
        self.0.wake();
    }

    /// Waits until somebody wakes the thread, or for that time.
    pub(crate) fn wait(&self, at_most: Option<Duration>) {
        self.0.wait(at_most);
    }
}

/// The kernel measures the time: the C library's clock may be replaced by one that stands still. With that clock, the
/// standard library's waits for a time never end.
#[cfg(all(any(target_os = "linux", target_os = "android"), target_pointer_width = "64"))]
mod imp {
    #![allow(unsafe_code, reason = "futex(2)")]

    use std::ptr;
    use std::sync::atomic::AtomicU32;
    use std::sync::atomic::Ordering::SeqCst;
    use std::time::Duration;

    /// 1 if somebody woke it.
    #[derive(Debug, Default)]
    pub(super) struct Alarm(AtomicU32);

    impl Alarm {
        pub(super) fn wake(&self) {
            self.0.store(1, SeqCst);
            let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
            // SAFETY: a live word.
            unsafe { libc::syscall(libc::SYS_futex, self.0.as_ptr(), operation, 1) };
        }

        pub(super) fn wait(&self, mut at_most: Option<Duration>) {
            const UNTIL_LOOK: Duration = Duration::from_secs(1);
            let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
            while self.0.swap(0, SeqCst) == 0 {
                let time = at_most.map(|time| libc::timespec {
                    tv_sec: time.as_secs().try_into().unwrap_or(libc::time_t::MAX),
                    tv_nsec: time.subsec_nanos().into(),
                });
                let time = time.as_ref().map_or(ptr::null(), ptr::from_ref);
                // SAFETY: a live word, and null or a live time, which is relative for this operation.
                let woken = unsafe { libc::syscall(libc::SYS_futex, self.0.as_ptr(), operation, 0, time) };
                if woken != 0 {
                    match std::io::Error::last_os_error().raw_os_error() {
                        Some(libc::ETIMEDOUT) => return,
                        // A signal, or a wake in between.
                        Some(libc::EINTR | libc::EAGAIN) => {}
                        // A seccomp filter may refuse it.
                        _ => {
                            std::thread::sleep(at_most.unwrap_or(UNTIL_LOOK).min(UNTIL_LOOK));
                            at_most = at_most.map(|time| time.saturating_sub(UNTIL_LOOK));
                            if at_most == Some(Duration::ZERO) {
                                return;
                            }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(not(all(any(target_os = "linux", target_os = "android"), target_pointer_width = "64")))]
mod imp {
    use std::sync::{Condvar, Mutex, PoisonError};
    use std::time::Duration;

    #[derive(Debug, Default)]
    pub(super) struct Alarm {
        is_awake: Mutex<bool>,
        condition: Condvar,
    }

    impl Alarm {
        pub(super) fn wake(&self) {
            *self.is_awake.lock().unwrap_or_else(PoisonError::into_inner) = true;
            self.condition.notify_one();
        }

        pub(super) fn wait(&self, at_most: Option<Duration>) {
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

    use super::*;

    #[test]
    fn it_wakes_before_and_during_a_wait_and_a_wait_without_it_ends() {
        let alarm = Arc::new(Alarm::default());
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
