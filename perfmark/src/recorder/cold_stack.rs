//! A stack of perfmark's own for its cold work.
//!
//! A first call opens counters and measures what probes cost, which takes 10 to 25 KB of stack. The thread may have less: signal handlers on an alternate stack
//! have 8 KB in all. So that work is done on a stack that is mapped for it, and kept for the next one: there are as many as threads that did such work at once.
#![allow(unsafe_code, reason = "maps stacks, and switches to them")]

/// Does the work, on a stack of perfmark's own where there can be one. This thread is at perfmark's own work, with signals held back.
#[cfg(not(all(
    not(miri),
    any(target_os = "linux", target_os = "android"),
    target_pointer_width = "64",
    any(target_arch = "x86_64", target_arch = "aarch64")
)))]
pub(super) fn on_cold_stack<R>(work: impl FnOnce() -> R) -> R {
    work()
}

#[cfg(all(
    not(miri),
    any(target_os = "linux", target_os = "android"),
    target_pointer_width = "64",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
pub(super) use switched::on_cold_stack;

#[cfg(all(
    not(miri),
    any(target_os = "linux", target_os = "android"),
    target_pointer_width = "64",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
mod switched {
    use std::any::Any;
    use std::arch::asm;
    use std::ffi::c_void;
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
    use std::ptr::{self, NonNull};
    use std::sync::{Mutex, MutexGuard, PoisonError};

    use crate::per_process::PerProcess;

    /// Of a stack. The program's allocator runs on it, too. What is not used of it takes no memory.
    const STACK_SIZE: usize = 128 << 10;
    /// Nothing may be written below the stack: a page, however large pages are.
    const GUARD_SIZE: usize = 64 << 10;
    /// Zeroes above the stack, where an unwinder that takes it for the thread's own (a heap profiler's in `malloc`) finds that it ends.
    const ZEROES_SIZE: usize = 4 << 10;

    /// The lowest byte of a mapping.
    #[derive(Debug)]
    struct Stack(NonNull<u8>);

    // SAFETY: memory that nobody uses but who took it out of the list.
    unsafe impl Send for Stack {}

    /// Those that nobody is on. A forked child begins without.
    #[derive(Debug, Default)]
    struct Pool(Mutex<Vec<Stack>>);

    static POOL: PerProcess<Pool> = PerProcess::new();

    impl Pool {
        fn lock(&self) -> MutexGuard<'_, Vec<Stack>> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner)
        }
    }

    impl Stack {
        fn map() -> Option<Self> {
            const FLAGS: libc::c_int = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_STACK;
            // SAFETY: a new mapping at an address of the kernel's choice.
            let start = unsafe {
                libc::mmap(ptr::null_mut(), GUARD_SIZE + STACK_SIZE + ZEROES_SIZE, libc::PROT_NONE, FLAGS, -1, 0)
            };
            let stack = NonNull::new(start.cast::<u8>()).filter(|_| start != libc::MAP_FAILED).map(Self)?;
            // SAFETY: the part of the mapping above the guard.
            let usable = unsafe { stack.0.add(GUARD_SIZE) };
            // SAFETY: as above; nobody else knows it.
            if unsafe {
                libc::mprotect(usable.as_ptr().cast(), STACK_SIZE + ZEROES_SIZE, libc::PROT_READ | libc::PROT_WRITE)
            } != 0
            {
                // SAFETY: the mapping just made.
                unsafe { libc::munmap(start, GUARD_SIZE + STACK_SIZE + ZEROES_SIZE) };
                return None;
            }
            Some(stack)
        }

        fn top(&self) -> *mut u8 {
            // SAFETY: within the mapping, and aligned as a page is.
            unsafe { self.0.add(GUARD_SIZE + STACK_SIZE) }.as_ptr()
        }
    }

    /// Does the work, on a stack of perfmark's own where there can be one. This thread is at perfmark's own work, with signals held back.
    #[inline(never)]
    pub(in super::super) fn on_cold_stack<R>(work: impl FnOnce() -> R) -> R {
        let pool = POOL.get().ok();
        let known = pool.and_then(|pool| pool.lock().pop());
        let Some(stack) = known.or_else(Stack::map) else { return work() };
        let mut call = Call { work: Some(work), result: None };
        // SAFETY: the stack is nobody else's, and `run` is given what it is for.
        unsafe { switch(stack.top(), run_call(&call), (&raw mut call).cast()) };
        if let Some(pool) = pool {
            pool.lock().push(stack);
        }
        match call.result {
            Some(Ok(result)) => result,
            Some(Err(panic)) => resume_unwind(panic),
            None => unreachable!("it was called"),
        }
    }

    struct Call<F, R> {
        work: Option<F>,
        result: Option<Result<R, Box<dyn Any + Send>>>,
    }

    /// What calls the work of that type.
    fn run_call<R, F: FnOnce() -> R>(_: &Call<F, R>) -> unsafe extern "C" fn(*mut c_void) {
        run::<R, F>
    }

    /// # Safety
    ///
    /// It is given a pointer to a call, which nobody else refers to.
    unsafe extern "C" fn run<R, F: FnOnce() -> R>(call: *mut c_void) {
        // SAFETY: the caller's word.
        let call = unsafe { &mut *call.cast::<Call<F, R>>() };
        // Nothing unwinds from one stack to the other.
        call.result = call.work.take().map(|work| catch_unwind(AssertUnwindSafe(work)));
    }

    /// Calls the function on the stack that ends at `top`.
    ///
    /// # Safety
    ///
    /// `top` is aligned to 16 bytes, and what is below is nobody else's; the function may be called with `data`, and does not unwind.
    #[inline(never)]
    unsafe fn switch(top: *mut u8, function: unsafe extern "C" fn(*mut c_void), data: *mut c_void) {
        // SAFETY: the stack pointer is kept in a register that functions leave as it was.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            asm!(
                "mov r12, rsp",
                "mov rsp, {top}",
                "call {function}",
                "mov rsp, r12",
                top = in(reg) top,
                function = in(reg) function,
                in("rdi") data,
                out("r12") _,
                clobber_abi("C"),
            );
        }
        // SAFETY: as above.
        #[cfg(target_arch = "aarch64")]
        unsafe {
            asm!(
                "mov x20, sp",
                "mov sp, {top}",
                "blr {function}",
                "mov sp, x20",
                top = in(reg) top,
                function = in(reg) function,
                in("x0") data,
                out("x20") _,
                clobber_abi("C"),
            );
        }
    }
}
