//! The thread-local pointer through which a thread finds its recorder.
//!
//! The standard library accesses thread-locals of a library by a function call, because the library may be in a shared
//! object that is loaded later. This file avoids the call where it can: for programs, and on C libraries that reserve
//! memory for thread-locals of objects loaded later. There the pointer has the initial-exec model ("ELF Handling For
//! Thread-Local Storage", 4.3): three instructions and no call, so entry and exit of a marked function save no
//! registers for it. glibc reserves some hundred bytes (`glibc.rtld.optional_static_tls`).
#![allow(unsafe_code, reason = "Rust offers no choice of the thread-local model")]

use std::cell::Cell;
use std::ptr;

use super::state::Recorder;

/// The address of this thread's pointer. It cannot leave its thread, which outlives it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TlsPointer(*const Cell<*const Recorder>);

impl TlsPointer {
    /// Computes the address anew. A program that switches stacks may be on another thread within one function.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "a few instructions")]
    pub(crate) fn get() -> Self {
        Self(local::address())
    }

    #[inline]
    pub(crate) fn load(self) -> *const Recorder {
        // SAFETY: the address is of this thread's thread-local memory, which has no destructor. The type is not `Send`,
        // and only this file accesses that memory.
        unsafe { (*self.0).get() }
    }

    #[inline]
    pub(crate) fn store(self, recorder: *const Recorder) {
        // SAFETY: the address is of this thread's thread-local memory, a `Cell`, and only this file accesses it.
        unsafe { (*self.0).set(recorder) };
    }

    #[inline]
    pub(crate) fn clear(self) {
        self.store(ptr::null());
    }
}

#[cfg(all(
    not(miri),
    target_os = "linux",
    any(target_env = "gnu", target_feature = "crt-static"),
    target_pointer_width = "64",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
mod local {
    use std::arch::{asm, global_asm};
    use std::cell::Cell;

    use super::Recorder;

    /// Its symbol is part of the pointer's symbol, so each copy of perfmark in a program has its own pointer.
    static COPY: u8 = 0;

    global_asm!(
        ".pushsection .tbss.{copy}.recorder,\"awT\",@nobits",
        ".p2align 3",
        ".globl {copy}.recorder",
        ".hidden {copy}.recorder",
        ".type {copy}.recorder, @object",
        ".size {copy}.recorder, 8",
        "{copy}.recorder:",
        ".zero 8",
        ".popsection",
        copy = sym COPY,
    );

    #[inline(always)]
    #[allow(clippy::inline_always, reason = "a few instructions")]
    pub(crate) fn address() -> *const Cell<*const Recorder> {
        let word;
        // SAFETY: computes the address of the memory above. It is not `pure`: the result differs between threads.
        unsafe {
            #[cfg(target_arch = "aarch64")]
            asm!(
                "mrs {thread}, tpidr_el0",
                "adrp {word}, :gottprel:{copy}.recorder",
                "ldr {word}, [{word}, :gottprel_lo12:{copy}.recorder]",
                "add {word}, {word}, {thread}",
                thread = out(reg) _,
                word = out(reg) word,
                copy = sym COPY,
                options(readonly, nostack, preserves_flags)
            );
            #[cfg(target_arch = "x86_64")]
            asm!(
                "mov {word}, qword ptr [rip + {copy}.recorder@gottpoff]",
                "add {word}, qword ptr fs:[0]",
                word = out(reg) word,
                copy = sym COPY,
                options(readonly, nostack)
            );
        }
        word
    }
}

#[cfg(not(all(
    not(miri),
    target_os = "linux",
    any(target_env = "gnu", target_feature = "crt-static"),
    target_pointer_width = "64",
    any(target_arch = "x86_64", target_arch = "aarch64")
)))]
mod local {
    use std::cell::Cell;
    use std::ptr;

    use super::Recorder;

    #[inline]
    pub(crate) fn address() -> *const Cell<*const Recorder> {
        thread_local!(static WORD: Cell<*const Recorder> = const { Cell::new(ptr::null()) });
        WORD.with(ptr::from_ref)
    }
}
