//! A separate stack for perfmark's cold work.
//!
//! A first call opens counters and calibrates, which takes 10 to 25 KB of stack. The thread may have less: the
//! alternate stack of signal handlers has 8 KB in all. So this work runs on a stack that is mapped for it and then
//! kept. There are as many of these stacks as threads did such work at the same time.
#![allow(unsafe_code, reason = "maps stacks, and switches to them")]

use std::any::Any;
use std::arch::asm;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::{self, NonNull};
use std::sync::Mutex;

use crate::platform::per_process::PerProcess;

/// The size of a stack. The program's allocator runs on it, too. Pages that are not used take no memory.
const STACK_SIZE: usize = 128 << 10;
/// The size of the inaccessible memory below a stack: at least one page, for every page size.
const GUARD_SIZE: usize = 64 << 10;
/// The size of the zeroes above a stack. An unwinder, such as a heap profiler's in `malloc`, stops there.
const ZEROES_SIZE: usize = 4 << 10;

/// A stack, by the lowest byte of its mapping.
#[derive(Debug)]
struct Stack(NonNull<u8>);

// SAFETY: only the thread that takes it out of the pool uses the memory.
unsafe impl Send for Stack {}

/// The stacks that nobody uses. A forked child starts with an empty pool.
static POOL: PerProcess<Mutex<Vec<Stack>>> = PerProcess::new();

impl Stack {
    fn map() -> Option<Self> {
        const FLAGS: libc::c_int = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_STACK;
        // SAFETY: a new mapping at an address that the kernel chooses.
        let start = unsafe {
            libc::mmap(ptr::null_mut(), GUARD_SIZE + STACK_SIZE + ZEROES_SIZE, libc::PROT_NONE, FLAGS, -1, 0)
        };
        let stack = NonNull::new(start.cast::<u8>()).filter(|_| start != libc::MAP_FAILED).map(Self)?;
        // SAFETY: the offset is within the mapping.
        let usable = unsafe { stack.0.add(GUARD_SIZE) };
        // SAFETY: the memory is within the mapping, and nobody else uses it.
        if unsafe {
            libc::mprotect(usable.as_ptr().cast(), STACK_SIZE + ZEROES_SIZE, libc::PROT_READ | libc::PROT_WRITE)
        } != 0
        {
            // SAFETY: this is the mapping from above, and nobody uses it.
            unsafe { libc::munmap(start, GUARD_SIZE + STACK_SIZE + ZEROES_SIZE) };
            return None;
        }
        Some(stack)
    }

    fn top(&self) -> *mut u8 {
        // SAFETY: the offset is within the mapping.
        unsafe { self.0.add(GUARD_SIZE + STACK_SIZE) }.as_ptr()
    }
}

/// Runs `work` on a separate stack if it can be mapped. The thread is in perfmark's own work, with signals blocked.
#[inline(never)]
pub(crate) fn on_cold_stack<R>(work: impl FnOnce() -> R) -> R {
    let kept = POOL.lock().ok().and_then(|mut pool| pool.pop());
    let Some(stack) = kept.or_else(Stack::map) else { return work() };
    let mut call = Call { work: Some(work), result: None };
    // SAFETY: `top` is aligned like a page. The stack is not in the pool, so nobody else uses it. `run` gets a call
    // of its own types, which only it uses, and does not unwind.
    unsafe { switch(stack.top(), run_call(&call), (&raw mut call).cast()) };
    if let Ok(mut pool) = POOL.lock() {
        pool.push(stack);
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

/// The function that runs a call of these types.
fn run_call<R, F: FnOnce() -> R>(_: &Call<F, R>) -> unsafe extern "C" fn(*mut c_void) {
    run::<R, F>
}

/// # Safety
///
/// `call` points to a `Call<F, R>` that nobody else refers to.
unsafe extern "C" fn run<R, F: FnOnce() -> R>(call: *mut c_void) {
    // SAFETY: by this function's `# Safety` section, the pointer is valid and exclusive.
    let call = unsafe { &mut *call.cast::<Call<F, R>>() };
    // A panic must not unwind from one stack to the other.
    call.result = call.work.take().map(|work| catch_unwind(AssertUnwindSafe(work)));
}

/// Calls `function(data)` on the stack that ends at `top`.
///
/// # Safety
///
/// `top` is aligned to 16 bytes, and nobody else uses the stack below it. `function` may be called with `data`, and
/// does not unwind.
#[inline(never)]
unsafe fn switch(top: *mut u8, function: unsafe extern "C" fn(*mut c_void), data: *mut c_void) {
    // SAFETY: the old stack pointer is in a callee-saved register, which `function` preserves. By this function's
    // `# Safety` section, `function` may run on the new stack.
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
    // SAFETY: the old stack pointer is in a callee-saved register, which `function` preserves. By this function's
    // `# Safety` section, `function` may run on the new stack.
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
