//! The real `rdpmc` instruction on a machine whose kernel forbids it: it raises SIGSEGV, and a signal handler returns
//! values of a model PMU.

#![allow(unsafe_code, reason = "a signal handler that emulates the instruction")]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_possible_wrap,
    reason = "register halves"
)]

use std::io::{self, Write as _};
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64};

use super::*;
use crate::arch::Native;
use crate::region::{PageMemory, Region};

/// Serializes the tests that use the model.
static MODEL_LOCK: Mutex<()> = Mutex::new(());
/// The counter number of the last `rdpmc`.
static LAST_NUMBER: AtomicU32 = AtomicU32::new(0);
/// What each read adds to the model's counter.
const STEP: u64 = 10;
/// A model PMU of one general counter (0) and one fixed counter (bit 30).
static GENERAL: AtomicU64 = AtomicU64::new(0);
static FIXED: AtomicU64 = AtomicU64::new(0);
const WIDTH: u16 = 48;

extern "C" fn emulate_rdpmc(_: libc::c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    const RDPMC: [u8; 2] = [0x0f, 0x33];
    // SAFETY: the kernel gives a live context.
    let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    let at = registers[libc::REG_RIP as usize];
    // SAFETY: the instruction that trapped was fetched from there.
    let instruction = unsafe { ptr::read_unaligned(ptr::with_exposed_provenance::<[u8; 2]>(at as usize)) };
    let number = registers[libc::REG_RCX as usize] as u32;
    let counter = match (instruction, number) {
        (RDPMC, 0) => &GENERAL,
        (RDPMC, 0x4000_0000) => &FIXED,
        _ => {
            // Not handled here: the default action ends the test when the instruction runs again.
            // SAFETY: signal is async-signal-safe.
            unsafe { libc::signal(libc::SIGSEGV, libc::SIG_DFL) };
            return;
        }
    };
    let value = counter.fetch_add(STEP, Relaxed) & ((1 << WIDTH) - 1);
    LAST_NUMBER.store(number, Relaxed);
    registers[libc::REG_RAX as usize] = (value & 0xffff_ffff) as i64;
    registers[libc::REG_RDX as usize] = (value >> 32) as i64;
    registers[libc::REG_RIP as usize] = at + 2;
}

/// Installs the model, or prints why `rdpmc` would not trap here.
fn model() -> Option<()> {
    for pmu in ["cpu", "cpu_core"] {
        let file = format!("/sys/bus/event_source/devices/{pmu}/rdpmc");
        if std::fs::read_to_string(&file).is_ok_and(|text| text.trim() == "2") {
            // Not `eprintln!`, whose output the harness hides for a passing test.
            _ = writeln!(io::stderr(), "skipped: {file} is 2, so rdpmc does not trap");
            return None;
        }
    }
    // SAFETY: a zeroed sigaction is valid, and the handler accesses only atomics and the context.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = emulate_rdpmc as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        assert_eq!(libc::sigaction(libc::SIGSEGV, &raw const action, ptr::null_mut()), 0);
    }
    Some(())
}

fn page(index: u32, offset: i64) -> MmapPage {
    let page = MmapPage::default();
    page.index.store(index, Relaxed);
    page.offset.store(offset, Relaxed);
    page.pmc_width.store(WIDTH, Relaxed);
    page.capabilities.store(CAP_BIT0_IS_DEPRECATED | CAP_USER_RDPMC, Relaxed);
    page
}

fn value(page: &MmapPage) -> u64 {
    // SAFETY: the handler emulates counters 0 and 2^30, the only ones that these pages name.
    unsafe { read(page, &Native) }.expect("readable").value
}

#[test]
fn the_real_instruction_reads_general_and_fixed_counters() {
    let _lock = MODEL_LOCK.lock();
    if model().is_none() {
        return;
    }
    let (general, fixed) = (page(1, 1_000), page(0x4000_0001, -2_000));
    GENERAL.store(0x1234_5678_9abc, Relaxed);
    FIXED.store(5_000, Relaxed);
    assert_eq!(value(&general), 0x1234_5678_9abc + 1_000, "both halves of the register");
    assert_eq!(LAST_NUMBER.load(Relaxed), 0);
    assert_eq!(value(&general), 0x1234_5678_9abc + 1_000 + STEP);
    assert_eq!(value(&fixed), 3_000);
    assert_eq!(LAST_NUMBER.load(Relaxed), 0x4000_0000);
}

#[test]
fn a_move_to_a_pmu_without_the_counter_reads_no_counter() {
    let _lock = MODEL_LOCK.lock();
    if model().is_none() {
        return;
    }
    let page = page(0x4000_0001, 0);
    let memory = PageMemory::new(&Native, Some(&page));
    let mut region = Region::default();
    // SAFETY: the page is live, and names counters that the handler emulates.
    let read = unsafe { read(&page, &Native) }.expect("readable");
    assert!(memory.remember(&Native, &read));
    // SAFETY: the page is live, and names counters that the handler emulates.
    assert!(unsafe { memory.begin(&Native, &mut region) });
    // The thread moves to a core of another kind, whose PMU has no fixed counter with that number. Reading it would be
    // a fatal signal, which the handler passes on for any counter but its two.
    page.lock.fetch_add(6, Relaxed);
    page.index.store(0, Relaxed);
    LAST_NUMBER.store(u32::MAX, Relaxed);
    // SAFETY: the page is live, and names counters that the handler emulates.
    let (end, begin) = unsafe { (memory.end(&Native, &region), memory.begin(&Native, &mut region)) };
    assert_eq!((end, begin), (None, false));
    assert_eq!(LAST_NUMBER.load(Relaxed), u32::MAX, "no counter was read");
}
