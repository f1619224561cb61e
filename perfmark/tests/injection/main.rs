//! Each system call of perfmark's fails in turn: the host's own output and status stay, calls are counted exactly, what fails is told, and
//! nothing leaks.
//!
//! A scenario is this same program, started anew, and traced. It installs a filter that stops it at each of perfmark's calls, before any of
//! perfmark's code runs; the tracer lets the n-th fail, for every n until a run has no n-th. Nothing of the standard library runs before this
//! program's own `main`, so that all that is not the loader's, nor one of the host's [known few](traced::calls::CALLS), is perfmark's.
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
    println!("skipped: the tracer knows the registers of x86-64 and arm64, on linux, alone");
}
