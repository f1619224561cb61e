//! Each system call of perfmark fails in turn. The host's own output and status stay the same, calls are counted
//! exactly, each failure is reported, and nothing leaks.
//!
//! A scenario is this program, started again and traced. It installs a filter that stops it at each of perfmark's
//! calls, before any code of perfmark runs. The tracer makes the n-th call fail, for every n until a run has no n-th
//! call. Nothing of the standard library runs before this program's own `main`. So each call is perfmark's, except
//! those of the loader and the host's [known few](traced::calls::CALLS).
#![cfg_attr(
    all(
        target_os = "linux",
        target_env = "gnu",
        target_pointer_width = "64",
        any(target_arch = "x86_64", target_arch = "aarch64")
    ),
    no_main
)]

#[cfg(all(
    target_os = "linux",
    target_env = "gnu",
    target_pointer_width = "64",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
mod traced;

#[cfg(not(all(
    target_os = "linux",
    target_env = "gnu",
    target_pointer_width = "64",
    any(target_arch = "x86_64", target_arch = "aarch64")
)))]
fn main() {
    println!("skipped: the tracer knows only the registers of x86-64 and arm64, on linux");
}
