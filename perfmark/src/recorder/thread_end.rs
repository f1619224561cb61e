//! A call at the end of a thread, after the destructors of Rust's thread-locals, which may still make marked calls.
#![allow(unsafe_code, reason = "pthread keys")]

use std::ffi::c_void;

/// Calls `end(data)` when this thread ends; not on the thread that calls exit.
#[cfg(unix)]
pub(super) fn call_at_end(end: unsafe extern "C" fn(*mut c_void), data: *mut c_void) {
    use std::sync::OnceLock;
    static KEY: OnceLock<Option<libc::pthread_key_t>> = OnceLock::new();
    let key = KEY.get_or_init(|| {
        let mut key = 0;
        // SAFETY: `key` is live; `end` is only ever called with the data set below.
        (unsafe { libc::pthread_key_create(&raw mut key, Some(end)) } == 0).then_some(key)
    });
    // Without a key left (there are 1024) the thread's cells stay with the registry, and its counters open: nothing is lost.
    if let Some(key) = *key {
        // SAFETY: the key was created above.
        unsafe { libc::pthread_setspecific(key, data) };
    }
}

/// Calls `end(data)` when this thread ends.
#[cfg(not(unix))]
pub(super) fn call_at_end(end: unsafe extern "C" fn(*mut c_void), data: *mut c_void) {
    use std::cell::Cell;
    struct AtEnd(Cell<Option<(unsafe extern "C" fn(*mut c_void), *mut c_void)>>);
    impl Drop for AtEnd {
        fn drop(&mut self) {
            if let Some((end, data)) = self.0.take() {
                // SAFETY: the pair that `call_at_end` was given.
                unsafe { end(data) };
            }
        }
    }
    thread_local!(static AT_END: AtEnd = const { AtEnd(Cell::new(None)) });
    // Within the end itself there is nothing left to be called at.
    _ = AT_END.try_with(|at_end| at_end.0.set(Some((end, data))));
}
