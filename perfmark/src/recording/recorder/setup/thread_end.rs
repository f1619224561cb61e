//! Calls a function at the end of a thread, after the destructors of Rust's thread-locals, which may still call marks.
#![allow(unsafe_code, reason = "pthread keys")]

use std::cell::Cell;
#[cfg(unix)]
use std::{ffi::c_void, ptr};

/// Creates the process's pthread key.
pub(crate) fn prepare() {
    #[cfg(unix)]
    key();
}

/// Calls `end` when this thread ends, except on the thread that calls `exit`.
#[cfg(unix)]
pub(crate) fn call_at_end(end: fn()) {
    // A process has 1024 keys. If none is left, the registry keeps the thread's cells, and its counters stay open.
    // Nothing is lost.
    if let Some(key) = key() {
        END.set(Some(end));
        // Destructors are called only for values that are not null.
        // SAFETY: `key` created the key.
        unsafe { libc::pthread_setspecific(key, ptr::dangling()) };
    }
}

#[cfg(unix)]
thread_local! {
    static END: Cell<Option<fn()>> = const { Cell::new(None) };
    static IS_SECOND_ROUND: Cell<bool> = const { Cell::new(false) };
}

#[cfg(unix)]
fn key() -> Option<libc::pthread_key_t> {
    use std::sync::OnceLock;
    static KEY: OnceLock<Option<libc::pthread_key_t>> = OnceLock::new();
    *KEY.get_or_init(|| {
        let mut key = 0;
        // SAFETY: `key` is a live variable, which receives the result.
        (unsafe { libc::pthread_key_create(&raw mut key, Some(destructor)) } == 0).then_some(key)
    })
}

/// The destructor of the pthread key. It acts in the second round only, which comes after Rust's destructors.
///
/// In a static program, the standard library runs these from a pthread key, too, which may come after this one. Keys
/// that are set again get another round (POSIX, `pthread_key_create`).
#[cfg(unix)]
unsafe extern "C" fn destructor(data: *mut c_void) {
    if !IS_SECOND_ROUND.replace(true)
        && let Some(key) = key()
        // SAFETY: `key` created the key.
        && unsafe { libc::pthread_setspecific(key, data) } == 0
    {
        return;
    }
    if let Some(end) = END.take() {
        end();
    }
}

/// Calls `end` when this thread ends.
#[cfg(not(unix))]
pub(crate) fn call_at_end(end: fn()) {
    struct AtEnd(Cell<Option<fn()>>);
    impl Drop for AtEnd {
        fn drop(&mut self) {
            if let Some(end) = self.0.take() {
                end();
            }
        }
    }
    thread_local!(static AT_END: AtEnd = const { AtEnd(Cell::new(None)) });
    // If the thread ends at the moment, there is no later time to call it.
    _ = AT_END.try_with(|at_end| at_end.0.set(Some(end)));
}
