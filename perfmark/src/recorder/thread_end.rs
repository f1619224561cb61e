//! A call at the end of a thread, after the destructors of Rust's thread-locals, which may still make marked calls.
#![allow(unsafe_code, reason = "pthread keys")]

use std::cell::Cell;
use std::ffi::c_void;

type Callback = unsafe extern "C" fn(*mut c_void);

/// Makes the process's key.
pub(super) fn prepare() {
    #[cfg(unix)]
    key();
}

/// Calls `end(data)` when this thread ends; not on the thread that calls exit.
///
/// # Safety
///
/// `end` may be called with `data` on this thread, then and once.
#[cfg(unix)]
pub(super) unsafe fn call_at_end(callback: Callback, data: *mut c_void) {
    // Without a key left (there are 1024) the thread's cells stay with the registry, and its counters open: nothing is lost.
    if let Some(key) = key() {
        CALLBACK.set(Some(callback));
        // SAFETY: the key was created by `key`.
        unsafe { libc::pthread_setspecific(key, data) };
    }
}

#[cfg(unix)]
thread_local! {
    static CALLBACK: Cell<Option<Callback>> = const { Cell::new(None) };
    static IS_SECOND_ROUND: Cell<bool> = const { Cell::new(false) };
}

#[cfg(unix)]
fn key() -> Option<libc::pthread_key_t> {
    use std::sync::OnceLock;
    static KEY: OnceLock<Option<libc::pthread_key_t>> = OnceLock::new();
    *KEY.get_or_init(|| {
        let mut key = 0;
        // SAFETY: `key` is live.
        (unsafe { libc::pthread_key_create(&raw mut key, Some(destructor)) } == 0).then_some(key)
    })
}

/// In a static program the standard library's destructors hang on a pthread key, too, perhaps a later one than ours. Keys are gone
/// through again as long as one is set (POSIX, `pthread_key_create`): the second round comes after them.
#[cfg(unix)]
unsafe extern "C" fn destructor(data: *mut c_void) {
    if !IS_SECOND_ROUND.replace(true)
        && let Some(key) = key()
        // SAFETY: the key was created by `key`.
        && unsafe { libc::pthread_setspecific(key, data) } == 0
    {
        return;
    }
    if let Some(callback) = CALLBACK.take() {
        // SAFETY: the pair that `call_at_end` was given, which promises that it may be.
        unsafe { callback(data) };
    }
}

/// Calls `end(data)` when this thread ends.
///
/// # Safety
///
/// `end` may be called with `data` on this thread, then and once.
#[cfg(not(unix))]
pub(super) unsafe fn call_at_end(callback: Callback, data: *mut c_void) {
    struct AtEnd(Cell<Option<(Callback, *mut c_void)>>);
    impl Drop for AtEnd {
        fn drop(&mut self) {
            if let Some((callback, data)) = self.0.take() {
                // SAFETY: the pair that `call_at_end` was given, which promises that it may be.
                unsafe { callback(data) };
            }
        }
    }
    thread_local!(static AT_END: AtEnd = const { AtEnd(Cell::new(None)) });
    // Within the end itself there is nothing left to be called at.
    _ = AT_END.try_with(|at_end| at_end.0.set(Some((callback, data))));
}
