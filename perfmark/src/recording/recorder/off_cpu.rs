//! Readings at a moment up to which the thread's context switches are known.

use perfmark_rdpmc::{OffCpu, Region};

use super::thread::stack::Stack;

/// Adds the context switches since the last time to the thread's time off the CPU, and reads other events at the same
/// moment. If records of switches were lost, the off-CPU events of all open calls are unmeasured.
#[inline]
pub(super) fn with_off_cpu<T>(switches: Option<&OffCpu>, stack: &Stack, mut read: impl FnMut() -> T) -> T {
    match switches {
        Some(switches) => switches.read_with(|| discard_off_cpu(stack), read),
        None => read(),
    }
}

#[cold]
#[inline(never)]
fn discard_off_cpu(stack: &Stack) {
    for frame in stack.iter() {
        let set = frame.plan().set();
        set.split_locks(frame);
        for event in set.events().filter(|event| event.slot().switches().is_some()) {
            frame.set_region(event.n, Region::default());
        }
    }
}
