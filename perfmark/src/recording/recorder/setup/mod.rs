//! What a thread's first calls create, and what its end closes.

pub(crate) mod thread_end;
#[cfg_attr(
    not(all(
        not(miri),
        any(target_os = "linux", target_os = "android"),
        target_pointer_width = "64",
        any(target_arch = "x86_64", target_arch = "aarch64")
    )),
    path = "same_stack.rs"
)]
mod cold_stack;
mod samplings;
mod resources;
mod reuse;
pub(crate) mod calibrate;
pub(crate) mod at_first_call;
pub(crate) mod first_call;
