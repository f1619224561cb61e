//! The thread-local pointer through which a thread finds its recorder.
//!
//! The standard library accesses thread-locals of a library by a function call, because the library may be in a shared
//! object that is loaded later. This file avoids the call where it can: for programs, and on C libraries that reserve
//! memory for thread-locals of objects loaded later. There the pointer has the initial-exec model ("ELF Handling For
//! Thread-Local Storage", 4.3): two or three instructions and no call, so entry and exit of a marked function save no
//! registers for it. glibc reserves some hundred bytes (`glibc.rtld.optional_static_tls`).
#![allow(unsafe_code, reason = "Rust offers no choice of the thread-local model")]

use std::ptr;

use super::state::Recorder;

/// This thread's pointer. It cannot leave its thread, which outlives it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TlsPointer(local::Place);

impl TlsPointer {
    /// Finds the pointer anew. A program that switches stacks may be on another thread within one function.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "a few instructions")]
    pub(crate) fn get() -> Self {
        Self(local::find())
    }

    #[inline]
    pub(crate) fn load(self) -> *const Recorder {
        // SAFETY: the place is in this thread's thread-local memory, which has no destructor. The type is not `Send`,
        // and only this file accesses that memory.
        unsafe { local::load(self.0) }
    }

    #[inline]
    pub(crate) fn store(self, recorder: *const Recorder) {
        // SAFETY: the place is in this thread's thread-local memory, and only this file accesses it.
        unsafe { local::store(self.0, recorder) };
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
    use std::marker::PhantomData;

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

    /// On x86-64, the offset from the thread's control block, to which `fs` refers; on arm64, the address.
    #[derive(Clone, Copy, Debug)]
    pub(super) struct Place(usize, PhantomData<*const Recorder>);

    #[inline(always)]
    #[allow(clippy::inline_always, reason = "a few instructions")]
    pub(super) fn find() -> Place {
        let place;
        // SAFETY: computes where the memory above is. It is not `pure`: on arm64 the result differs between threads.
        unsafe {
            #[cfg(target_arch = "aarch64")]
            asm!(
                "mrs {thread}, tpidr_el0",
                "adrp {word}, :gottprel:{copy}.recorder",
                "ldr {word}, [{word}, :gottprel_lo12:{copy}.recorder]",
                "add {word}, {word}, {thread}",
                thread = out(reg) _,
                word = out(reg) place,
                copy = sym COPY,
                options(readonly, nostack, preserves_flags)
            );
            #[cfg(target_arch = "x86_64")]
            asm!(
                "mov {offset}, qword ptr [rip + {copy}.recorder@gottpoff]",
                offset = out(reg) place,
                copy = sym COPY,
                options(readonly, nostack, preserves_flags)
            );
        }
        Place(place, PhantomData)
    }

    /// # Safety
    ///
    /// It is this thread's place.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "an instruction")]
    pub(super) unsafe fn load(place: Place) -> *const Recorder {
        let recorder;
        // SAFETY: this function's contract.
        unsafe {
            #[cfg(target_arch = "aarch64")]
            asm!(
                "ldr {}, [{}]", out(reg) recorder, in(reg) place.0,
                options(readonly, nostack, preserves_flags)
            );
            #[cfg(target_arch = "x86_64")]
            asm!(
                "mov {}, qword ptr fs:[{}]", out(reg) recorder, in(reg) place.0,
                options(readonly, nostack, preserves_flags)
            );
        }
        recorder
    }

    /// # Safety
    ///
    /// It is this thread's place.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "an instruction")]
    pub(super) unsafe fn store(place: Place, recorder: *const Recorder) {
        // SAFETY: this function's contract.
        unsafe {
            #[cfg(target_arch = "aarch64")]
            if recorder.is_null() {
                asm!("str xzr, [{}]", in(reg) place.0, options(nostack, preserves_flags));
            } else {
                asm!("str {}, [{}]", in(reg) recorder, in(reg) place.0, options(nostack, preserves_flags));
            }
            #[cfg(target_arch = "x86_64")]
            if recorder.is_null() {
                asm!("mov qword ptr fs:[{}], 0", in(reg) place.0, options(nostack, preserves_flags));
            } else {
                asm!("mov qword ptr fs:[{}], {}", in(reg) place.0, in(reg) recorder, options(nostack, preserves_flags));
            }
        }
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

    pub(super) type Place = *const Cell<*const Recorder>;

    #[inline]
    pub(super) fn find() -> Place {
        thread_local!(static WORD: Cell<*const Recorder> = const { Cell::new(ptr::null()) });
        WORD.with(ptr::from_ref)
    }

    /// # Safety
    ///
    /// It is this thread's place.
    #[inline]
    pub(super) unsafe fn load(place: Place) -> *const Recorder {
        // SAFETY: this function's contract.
        unsafe { &*place }.get()
    }

    /// # Safety
    ///
    /// It is this thread's place.
    #[inline]
    pub(super) unsafe fn store(place: Place, recorder: *const Recorder) {
        // SAFETY: this function's contract.
        unsafe { &*place }.set(recorder);
    }
}
