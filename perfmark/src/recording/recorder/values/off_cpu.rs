//! Readings at a moment up to which the thread's context switches are known.
//!
//! Entry on the fast path stores no time off the CPU. Code elsewhere refers to this invariant by name:
//!
//! - SWITCHES: before a thread's times off the CPU change, the locks of all open calls that depend on them are
//!   [split](EventSet::split_locks), which stores the times in their frames. So a call whose locks are not split began
//!   at the times of now.

use perfmark_rdpmc::{OffCpu, Region};

use crate::recording::recorder::thread::Stack;

/// Adds the context switches since the last time to the thread's time off the CPU, and reads other events at the same
/// moment. If records of switches were lost, the events of all open calls that depend on them are unmeasured.
#[inline]
pub(crate) fn with_off_cpu<T>(switches: Option<&OffCpu>, stack: &Stack, mut read: impl FnMut() -> T) -> T {
    match switches {
        Some(switches) => switches.read_with(|| store_off_cpu(stack), || discard_off_cpu(stack), read),
        None => read(),
    }
}

/// Stores the times off the CPU until now in the frames of open calls.
#[cold]
#[inline(never)]
pub(crate) fn store_off_cpu(stack: &Stack) {
    for frame in stack.iter() {
        let set = frame.plan().set();
        if set.switches().is_some() {
            set.split_locks(frame);
        }
    }
}

#[cold]
#[inline(never)]
fn discard_off_cpu(stack: &Stack) {
    for frame in stack.iter() {
        for event in frame.plan().set().events().filter(|event| event.slot().switches().is_some()) {
            frame.set_region(event.n, Region::default());
        }
    }
}
