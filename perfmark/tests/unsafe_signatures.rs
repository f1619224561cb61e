//! Signatures with `unsafe`. As in `attribute`, each function is marked without a warning, and behaves as before.

#![deny(warnings, clippy::pedantic, unsafe_op_in_unsafe_fn, clippy::undocumented_unsafe_blocks)]

mod executor;

use std::ffi::c_int;
use std::future::ready;
use std::pin::pin;
use std::task::Poll;

use executor::once;
use perfmark::perfmark;

/// # Safety
///
/// The pointer is valid for reads.
#[perfmark(time)]
unsafe fn read<T: Copy>(from: *const T) -> T {
    // SAFETY: the caller keeps the contract above.
    unsafe { from.read() }
}

/// # Safety
///
/// Both pointers are valid for reads of `length` bytes.
#[perfmark(time)]
pub(crate) unsafe extern "C" fn compare(a: *const u8, b: *const u8, length: usize) -> c_int {
    // SAFETY: the caller keeps the contract above.
    let (a, b) = unsafe { (std::slice::from_raw_parts(a, length), std::slice::from_raw_parts(b, length)) };
    a.cmp(b) as c_int
}

#[perfmark(time)]
#[unsafe(no_mangle)]
extern "C" fn perfmark_tests_exported(n: c_int) -> c_int {
    n + 1
}

#[unsafe(export_name = "perfmark_tests_other_name")]
#[perfmark(time)]
extern "C" fn exported(n: c_int) -> c_int {
    n + 2
}

unsafe extern "C" {
    safe fn perfmark_tests_other_name(n: c_int) -> c_int;
}

#[cfg(target_arch = "x86_64")]
#[perfmark(time)]
#[target_feature(enable = "avx2")]
fn wide(numbers: &[i32; 8]) -> i32 {
    numbers.iter().sum()
}

#[cfg(target_arch = "aarch64")]
#[target_feature(enable = "neon")]
#[perfmark(time)]
fn wide(numbers: &[i32; 8]) -> i32 {
    numbers.iter().sum()
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2"))]
#[cfg_attr(target_arch = "aarch64", target_feature(enable = "neon"))]
#[perfmark(time)]
#[inline]
#[must_use]
async fn wide_later(numbers: &[i32; 8]) -> i32 {
    ready(()).await;
    // The body has the function's features, so this call is safe.
    wide(numbers)
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
struct Wide([i32; 8]);

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[perfmark(time, generic)]
impl Wide {
    #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2"))]
    #[cfg_attr(target_arch = "aarch64", target_feature(enable = "neon"))]
    fn sum<T: From<i32>>(&self) -> T {
        perfmark::region!("in a wide function", time, { wide(&self.0).into() })
    }
}

/// # Safety
///
/// All bits zero are a valid value.
unsafe trait Zero: Sized {
    #[perfmark(time)]
    fn zero() -> Self {
        // SAFETY: the implementation promises it.
        unsafe { std::mem::zeroed() }
    }
}

// SAFETY: all bits zero are a u16.
#[perfmark(time)]
unsafe impl Zero for u16 {}

struct Raw(*mut u16);

#[perfmark(time)]
impl Raw {
    /// # Safety
    ///
    /// The pointer is valid for writes.
    unsafe fn set(&mut self, n: u16) -> &mut Self {
        // SAFETY: the caller keeps the contract above.
        unsafe { self.0.write(n) };
        self
    }

    extern "C" fn get(&self) -> *const u16 {
        self.0
    }

    /// Has no mark.
    #[cfg(target_arch = "x86_64")]
    #[unsafe(naked)]
    extern "C" fn three() -> c_int {
        std::arch::naked_asm!("mov eax, 3", "ret")
    }

    #[cfg(target_arch = "aarch64")]
    #[unsafe(naked)]
    extern "C" fn three() -> c_int {
        std::arch::naked_asm!("mov w0, 3", "ret")
    }

    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    #[perfmark(skip)]
    extern "C" fn three() -> c_int {
        3
    }
}

/// Functions without a body, constant ones, and one with constant blocks.
#[perfmark(time)]
mod declared {
    use std::ffi::c_int;

    unsafe extern "C" {
        pub(super) safe fn abs(n: c_int) -> c_int;
        pub(super) unsafe fn atoi(text: *const u8) -> c_int;
        pub(super) static environ: *const *const u8;
    }

    pub(super) const unsafe extern "C" fn constant(n: c_int) -> c_int {
        n + 1
    }

    pub(super) const unsafe fn unsafe_constant(n: c_int) -> c_int {
        n + 2
    }

    pub(super) fn constant_blocks<const N: usize>() -> usize {
        const { assert!(N > 0) };
        const { N * 2 }
    }

    #[cold]
    #[inline(never)]
    #[cfg_attr(target_os = "linux", unsafe(link_section = ".text.perfmark_tests"))]
    pub(super) extern "C-unwind" fn in_a_section() -> c_int {
        unsafe extern "C" {
            safe fn labs(n: std::ffi::c_long) -> std::ffi::c_long;
        }
        c_int::try_from(labs(-5)).unwrap_or_default()
    }
}

#[cfg(unix)]
#[test]
fn functions_without_a_body_and_constant_ones_have_no_mark() {
    use declared::{abs, atoi, constant, constant_blocks, environ, in_a_section, unsafe_constant};
    // SAFETY: the text ends with a zero, and the constant functions have no conditions.
    assert_eq!(unsafe { (atoi(c"12".as_ptr().cast()), constant(1), unsafe_constant(1)) }, (12, 2, 3));
    assert_eq!((abs(-7), constant_blocks::<2>(), in_a_section()), (7, 4, 5));
    // SAFETY: it is only read, and no thread changes it.
    assert!(!unsafe { environ }.is_null());
    let marks = perfmark::snapshot().marks;
    let of_mod = marks.iter().filter(|mark| mark.path.contains("declared"));
    let marked: Vec<_> = of_mod.map(|mark| (&*mark.name, mark.calls)).collect();
    assert_eq!(marked, if cfg!(feature = "record") { &[("constant_blocks", 1), ("in_a_section", 1)][..] } else { &[] });
}

#[test]
fn functions_with_unsafe_in_their_signature_behave_as_before() {
    // SAFETY: references are valid, and both have that length.
    let (seven, order) = unsafe { (read(&7_u8), compare(b"a".as_ptr(), b"b".as_ptr(), 1)) };
    assert_eq!((seven, order), (7, -1));
    assert_eq!((perfmark_tests_exported(1), perfmark_tests_other_name(1), exported(2)), (2, 3, 4));
    let mut number = u16::zero();
    let mut raw = Raw(&raw mut number);
    // SAFETY: the number is live.
    let read = unsafe { *raw.set(3).get() };
    assert_eq!((read, number, Raw::three()), (3, 3, 3));
    if !cfg!(feature = "record") {
        return;
    }
    let marks = perfmark::snapshot().marks;
    let calls = |name: &str| marks.iter().find(|mark| mark.name == name).map(|mark| mark.calls);
    assert_eq!(calls("three"), None);
    let names = ["read", "compare", "perfmark_tests_exported", "exported", "zero", "set", "get"];
    assert_eq!(names.map(calls), [1, 1, 1, 2, 1, 1, 1].map(Some));
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[test]
fn functions_for_specific_processors_behave_as_before() {
    #[cfg(target_arch = "x86_64")]
    if !is_x86_feature_detected!("avx2") {
        println!("skipped: this processor has no avx2");
        return;
    }
    // SAFETY: the processor has the feature.
    assert_eq!(unsafe { wide(&[1, 2, 3, 4, 5, 6, 7, 8]) }, 36);
    // SAFETY: the same.
    assert_eq!(unsafe { Wide([2; 8]).sum::<i64>() }, 16);
    // SAFETY: the same.
    let later = pin!(unsafe { wide_later(&[1; 8]) });
    assert_eq!(once(later), Poll::Ready(8));
    let marks = perfmark::snapshot().marks;
    let calls = |name: &str| marks.iter().find(|mark| mark.name == name).map(|mark| mark.calls);
    let names = ["wide", "wide_later", "sum<i64>", "in a wide function"];
    assert_eq!(names.map(calls), [3, 1, 1, 1].map(|calls| cfg!(feature = "record").then_some(calls)));
}

/// Reads the number.
///
/// # Safety
///
/// The pointer is valid for reads until the future is dropped.
#[perfmark(time)]
async unsafe fn number(pointer: *const u32) -> u32 {
    ready(()).await;
    // SAFETY: the caller keeps the contract above.
    unsafe { *pointer }
}

trait Pointee {
    /// # Safety
    ///
    /// The pointer is valid for reads.
    async unsafe fn number(&self) -> u32;

    /// # Safety
    ///
    /// As for `number`.
    #[perfmark(time)]
    async unsafe fn twice(&self) -> u32 {
        // SAFETY: the caller keeps the contract above.
        2 * unsafe { self.number() }.await
    }
}

impl Pointee for *const u32 {
    #[perfmark(time)]
    async unsafe fn number(&self) -> u32 {
        // SAFETY: the caller keeps the contract of the trait.
        unsafe { number(*self) }.await
    }
}

#[test]
fn unsafe_functions_stay_unsafe() {
    let pointer: *const u32 = &7;
    // SAFETY: the pointer is to a live number.
    let futures = unsafe { (number(pointer), pointer.number(), pointer.twice()) };
    assert_eq!(once(pin!(futures.0)), Poll::Ready(7));
    assert_eq!(once(pin!(futures.1)), Poll::Ready(7));
    assert_eq!(once(pin!(futures.2)), Poll::Ready(14));
}
