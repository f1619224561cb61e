//! Reads a counter in user space, by the loop of the kernel's header (`linux/perf_event.h`, at
//! `struct perf_event_mmap_page`). To run it: `cargo run --release -p perfmark-rdpmc --example page`.

use std::sync::atomic::Ordering::Acquire;
use std::sync::atomic::compiler_fence;

use perfmark_rdpmc::{Attr, Counter, Error, Hardware, Page, known_loop};

fn main() -> Result<(), Error> {
    let counter = match Counter::open(&Attr::new(Hardware::Cycles)) {
        Ok(counter) => counter,
        Err(why) => {
            println!("{why}");
            return Ok(());
        }
    };
    let Some(page) = counter.page() else {
        println!("no page: {}", counter.user_reads().err().unwrap_or_default());
        return Ok(());
    };
    let before = read(page);
    let length = known_loop(1_000);
    match (before, read(page)) {
        (Some(before), Some(after)) => println!("{} cycles with the reads, in {length} instructions", after - before),
        _ => println!("only the kernel can read it now: {} cycles", counter.read_syscall()?.value),
    }
    Ok(())
}

/// `None` if only the kernel can read the counter now.
fn read(page: Page<'_>) -> Option<u64> {
    // The lock may stay odd for good.
    for _ in 0..100 {
        let lock = page.lock();
        compiler_fence(Acquire);
        let (index, offset, unused) = (page.index(), page.offset(), 64 - u32::from(page.pmc_width()));
        if !page.cap_user_rdpmc() || index == 0 {
            return None;
        }
        let raw = read_hardware(index - 1)?;
        compiler_fence(Acquire);
        if lock.is_multiple_of(2) && page.lock() == lock {
            // The kernel starts counters at a negative value.
            return Some(((raw << unused).cast_signed() >> unused).wrapping_add(offset).cast_unsigned());
        }
    }
    None
}

/// Reads the hardware counter with that number.
#[cfg(target_arch = "x86_64")]
#[allow(clippy::unnecessary_wraps, reason = "on arm64, it reads one counter only")]
fn read_hardware(number: u32) -> Option<u64> {
    let (low, high): (u32, u32);
    // Not `nomem`: it must stay between the loads of the lock.
    // SAFETY: this thread opened the counter, and its page names the number.
    unsafe { std::arch::asm!("rdpmc", in("ecx") number, out("eax") low, out("edx") high, options(nostack)) };
    Some(u64::from(high) << 32 | u64::from(low))
}

/// Reads the counter of cycles, whose number is 31.
#[cfg(target_arch = "aarch64")]
fn read_hardware(number: u32) -> Option<u64> {
    let cycles: u64;
    // SAFETY: the page says that user space may read counters.
    unsafe { std::arch::asm!("mrs {}, pmccntr_el0", out(reg) cycles, options(nostack)) };
    (number == 31).then_some(cycles)
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn read_hardware(_: u32) -> Option<u64> {
    None
}
