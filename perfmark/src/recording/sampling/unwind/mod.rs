//! The callers of sampled code, from the bytes of its stack, and the files that code is in.

mod modules;
#[cfg_attr(not(any(target_arch = "x86_64", target_arch = "aarch64")), path = "no_stack.rs")]
mod stack;

pub(super) use modules::{Address, Modules};
pub(super) use stack::{REGISTERS, Unwinder};
