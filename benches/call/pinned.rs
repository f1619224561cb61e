//! Pins a thread to one processor for a while.

#[cfg(target_os = "linux")]
mod affinity {
    use std::mem::{size_of, zeroed};

    use libc::{CPU_ISSET, CPU_SET, CPU_SETSIZE, cpu_set_t, sched_getaffinity, sched_setaffinity};

    /// Restores the thread's previous affinity when dropped.
    pub(crate) struct Pinned(cpu_set_t);

    impl Pinned {
        /// Pins to the first or the last of the thread's processors, which are less likely to share a core. `None` if
        /// there is only one.
        pub(crate) fn to(thread: usize) -> Option<Self> {
            // SAFETY: all zeroes are a valid, empty set.
            let (mut allowed, mut one): (cpu_set_t, cpu_set_t) = unsafe { (zeroed(), zeroed()) };
            // SAFETY: the kernel writes at most this many bytes.
            if unsafe { sched_getaffinity(0, size_of::<cpu_set_t>(), &raw mut allowed) } != 0 {
                return None;
            }
            // SAFETY: below CPU_SETSIZE.
            let mut processors =
                (0..usize::try_from(CPU_SETSIZE).ok()?).filter(|&cpu| unsafe { CPU_ISSET(cpu, &allowed) });
            let (first, last) = (processors.next()?, processors.next_back()?);
            // SAFETY: below CPU_SETSIZE.
            unsafe { CPU_SET(if thread == 0 { first } else { last }, &mut one) };
            set(&one).then_some(Self(allowed))
        }
    }

    impl Drop for Pinned {
        fn drop(&mut self) {
            set(&self.0);
        }
    }

    fn set(processors: &cpu_set_t) -> bool {
        // SAFETY: the kernel reads this many bytes.
        unsafe { sched_setaffinity(0, size_of::<cpu_set_t>(), processors) == 0 }
    }
}
#[cfg(target_os = "linux")]
pub(crate) use affinity::Pinned;

#[cfg(not(target_os = "linux"))]
pub(crate) struct Pinned;

#[cfg(not(target_os = "linux"))]
impl Pinned {
    pub(crate) fn to(_thread: usize) -> Option<Self> {
        None
    }
}
