//! Does what the example programs of `perf_event_open(2)` do, part by part; the loop of the kernel's header is in the
//! example `page`. To run it: `cargo run --release -p perfmark-rdpmc --example manual`. On a machine without a PMU,
//! parts that count hardware events print the reason. The others use the clock. If a part fails for another reason, the
//! exit status is 1.

use std::hint::black_box;
use std::process::ExitCode;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use perfmark_rdpmc::sample::{Body, Content, Sampler};
use perfmark_rdpmc::{
    Attr, Counter, Error, Group, Hardware, Software, disable_all_of_thread, enable_all_of_thread, known_loop,
};

fn main() -> ExitCode {
    let has_pmu = Counter::open(&Attr::new(Hardware::Instructions)).is_ok();
    let mut status = ExitCode::SUCCESS;
    let mut run = |name: &str, part: fn() -> Result<(), Error>, can_run: bool| {
        println!("{name}:");
        if let Err(why) = part() {
            println!("  {why}");
            if can_run {
                status = ExitCode::FAILURE;
            }
        }
    };
    run("the instructions of one call", call, has_pmu);
    run("a group, and for how long it was counted", group, has_pmu);
    run("samples in a ring", ring, true);
    run("a signal for each sample", signals, true);
    run("all events of the thread stopped by prctl(2)", prctl, true);
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
    // In user space, times may be older than the values.
    let before = group.read_syscall()?;
    let length = known_loop(1_000_000);
    let after = group.read_syscall()?;
    println!("  counted for {} of {} ns", after.running - before.running, after.enabled - before.enabled);
    for (counter, delta) in group.counters().iter().zip(after.since(&before)) {
        println!("  {} in {length} instructions: {delta:?}, id {}", counter.event(), counter.id()?);
    }
    Ok(())
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
