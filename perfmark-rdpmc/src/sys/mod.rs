//! The kernel's interface: structures, constants and system calls. All operating system specific code is here.

mod abi;
#[cfg(all(target_family = "wasm", target_os = "unknown"))]
pub(crate) mod errno;
#[cfg_attr(perfmark_scripted, path = "scripted/mod.rs")]
#[cfg_attr(
    all(
        not(perfmark_scripted),
        target_os = "linux",
        target_pointer_width = "64",
        any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"),
        not(any(miri, perfmark_unsupported)),
    ),
    path = "linux/mod.rs"
)]
#[cfg_attr(
    not(any(
        perfmark_scripted,
        all(
            target_os = "linux",
            target_pointer_width = "64",
            any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"),
            not(any(miri, perfmark_unsupported)),
        )
    )),
    path = "unsupported.rs"
)]
mod kernel;

pub use abi::Ready;
pub(crate) use abi::*;
#[cfg(perfmark_scripted)]
pub use kernel::script;
pub(crate) use kernel::{
    AuxMapping, Descriptor, EmulatedPage, Mapping, RingMapping, SUPPORTED, attr_size, cpu, enable_all_of_thread,
    generation, ioctl, ioctl_descriptor, ioctl_pointer, ioctl_text, open, page_size, poll, read, read_numbers,
    stay_on_cpu,
};
