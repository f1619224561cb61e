//! Does what the example programs of `perf_event_open(2)` and of the kernel's header do, part by part. To run it:
//! `cargo run --release -p perfmark-rdpmc --example manual`. On a machine without a PMU, parts that count hardware
//! events print the reason. The others use the clock. If a part fails for another reason, the exit status is 1.

use std::hint::black_box;
use std::process::ExitCode;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::{AtomicU32, compiler_fence};

use perfmark_rdpmc::sample::{Body, Content, Sampler};
use perfmark_rdpmc::{
    Attr, Counter, Error, Group, Hardware, Page, Software, disable_all_of_thread, enable_all_of_thread, known_loop,
};

type Part = fn() -> Result<(), Error>;

fn main() -> ExitCode {
    let has_pmu = Counter::open(&Attr::new(Hardware::Instructions)).is_ok();
    let mut status = ExitCode::SUCCESS;
    let parts: [(&str, Part); 6] = [
        ("the instructions of one call", call),
        ("a group, and for how long it was counted", group),
        ("a read in user space by your own loop", page),
        ("samples in a ring", ring),
        ("a signal for each sample", signals),
        ("all events of the thread stopped by prctl(2)", prctl),
    ];
    for (n, (name, part)) in parts.into_iter().enumerate() {
        println!("{name}:");
        if let Err(why) = part() {
            println!("  {why}");
            if has_pmu || n >= 3 {
                status = ExitCode::FAILURE;
            }
        }
    }
    status
}

/// Resets a counter that is disabled, enables it during a call, and reads it.
fn call() -> Result<(), Error> {
    let counter = Counter::open(&Attr::new(Hardware::Instructions).disabled(true))?;
    counter.reset()?;
    counter.enable()?;
    println!("  this line is printed by the call");
    counter.disable()?;
    println!("  {} instructions", counter.read()?.value);
    Ok(())
}

/// A group is on the PMU as a unit. Other events may use the PMU for part of the time.
fn group() -> Result<(), Error> {
    let group = Group::open(&[Attr::new(Hardware::Instructions), Attr::new(Hardware::Cycles)])?;
    let before = group.read()?;
    let length = known_loop(1_000_000);
    let after = group.read()?;
    println!("  counted for {} of {} ns", after.running - before.running, after.enabled - before.enabled);
    for (counter, delta) in group.counters().iter().zip(after.since(&before)) {
        println!("  {} in {length} instructions: {delta:?}, id {}", counter.event(), counter.id()?);
    }
    Ok(())
}

/// The loop of the kernel's header (`linux/perf_event.h`, at `struct perf_event_mmap_page`).
fn page() -> Result<(), Error> {
    let counter = Counter::open(&Attr::new(Hardware::Cycles))?;
    let Some(page) = counter.page() else {
        println!("  no page: {}", counter.user_reads().err().unwrap_or_default());
        return Ok(());
    };
    let read = || read_page(page);
    let before = read();
    let length = known_loop(1_000);
    match (before, read()) {
        (Some(before), Some(after)) => println!("  {} cycles with the reads, in {length} instructions", after - before),
        _ => println!("  this loop cannot read it now"),
    }
    Ok(())
}

/// `None` if it cannot read the counter now.
fn read_page(page: Page<'_>) -> Option<u64> {
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

/// The value of the hardware counter. On arm64, this example needs the counter of cycles only.
#[allow(clippy::unnecessary_wraps, reason = "on x86-64, all counters can be read")]
fn read_hardware(n: u32) -> Option<u64> {
    #[cfg(target_arch = "x86_64")]
    {
        let (low, high): (u32, u32);
        // SAFETY: this thread opened the counter, and its page names the number.
        unsafe { std::arch::asm!("rdpmc", in("ecx") n, out("eax") low, out("edx") high, options(nomem, nostack)) };
        Some(u64::from(high) << 32 | u64::from(low))
    }
    #[cfg(target_arch = "aarch64")]
    {
        let cycles: u64;
        // SAFETY: the page says that user space may read counters.
        unsafe { std::arch::asm!("mrs {}, pmccntr_el0", out(reg) cycles, options(nomem, nostack)) };
        (n == 31).then_some(cycles)
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        _ = n;
        None
    }
}

/// The clock of the thread's CPU time, sampled each 100 µs, with a time and an address in each sample.
fn ring() -> Result<(), Error> {
    let clock = Sampler::new(Attr::new(Software::TaskClock)).period(100_000).content(Content::IP | Content::TIME);
    let ring = clock.open()?;
    compute();
    ring.disable()?;
    let mut reader = ring.reader()?;
    let mut samples = 0;
    while let Some(record) = reader.read() {
        match record.body {
            Body::Sample(sample) if samples == 0 => {
                println!("  the first one at {} ns: {:#x}", record.origin.time.unwrap_or(0), sample.ip.unwrap_or(0));
                samples = 1;
            }
            Body::Sample(_) => samples += 1,
            // For example, the kernel took fewer samples for a while.
            other => println!("  {other:?}"),
        }
    }
    println!("  {samples} samples in {} ns of CPU time", ring.count()?.value);
    Ok(())
}

static SIGNALS: AtomicU32 = AtomicU32::new(0);

extern "C" fn count_signal(_: libc::c_int) {
    SIGNALS.fetch_add(1, Relaxed);
}

/// The kernel sends a signal when it wakes up whoever waits for the ring.
fn signals() -> Result<(), Error> {
    // SAFETY: the handler only adds to a number.
    unsafe { libc::signal(libc::SIGUSR1, count_signal as extern "C" fn(libc::c_int) as libc::sighandler_t) };
    let clock = Sampler::new(Attr::new(Software::TaskClock)).period(100_000).wakeup_events(1).signal(libc::SIGUSR1);
    let ring = clock.open()?;
    compute();
    ring.disable()?;
    println!("  {} signals in {} ns of CPU time", SIGNALS.load(Relaxed), ring.count()?.value);
    Ok(())
}

/// Stops and starts everything that this thread has opened.
fn prctl() -> Result<(), Error> {
    let counter = Counter::open(&Attr::new(Software::TaskClock))?;
    compute();
    disable_all_of_thread()?;
    let stopped = counter.read()?.value;
    compute();
    let later = counter.read()?.value;
    enable_all_of_thread()?;
    compute();
    println!(
        "  when stopped: {stopped} ns; after more work: {later} ns; started, after more work: {} ns",
        counter.read()?.value
    );
    Ok(())
}

fn compute() {
    black_box((0..1_000_000_u64).filter(|n| black_box(n).is_power_of_two()).count());
}
