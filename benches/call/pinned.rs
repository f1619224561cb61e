//! A thread that keeps to one processor for a while.

#[cfg(target_os = "linux")]
mod affinity {
    use std::mem::{size_of, zeroed};

    use libc::{CPU_ISSET, CPU_SET, CPU_SETSIZE, cpu_set_t, sched_getaffinity, sched_setaffinity};

    /// Lets the thread go where it could go before when dropped.
    pub(crate) struct Pinned(cpu_set_t);

    impl Pinned {
        /// The first of the thread's processors, or the last, which are less likely to be one core; none where there is but one.
        pub(crate) fn to(thread: usize) -> Option<Self> {
            // SAFETY: a set of bits, none of which is set.
            let (mut allowed, mut one): (cpu_set_t, cpu_set_t) = unsafe { (zeroed(), zeroed()) };
            // SAFETY: the kernel writes as many bytes at most.
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
        // SAFETY: the kernel reads as many bytes.
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
