//! How much longer a context switch takes while a thread's time off the CPU is recorded, or while it is sampled:
//! `cargo bench -p benches --bench switches`.
//!
//! Two threads on one CPU send a byte to and fro. Each round trip switches twice to each of them, and one of them is
//! recorded or sampled.

use std::io::{PipeReader, PipeWriter, Read, Write};
use std::mem::zeroed;
use std::{io, thread};

use benches::row::{self, in_turn, ticks_case};
use perfmark_rdpmc::sample::Sampler;
use perfmark_rdpmc::{Attr, OffCpu, Software};

const ROUNDS: usize = 101;
/// Round trips per sample.
const ROUND_TRIPS: u32 = 2_000;

/// Keeps this thread and those that it starts on one CPU.
fn stay_on_one_cpu() -> io::Result<()> {
    // SAFETY: a set of CPUs may be zeroed, and is live.
    let done = unsafe {
        let mut set: libc::cpu_set_t = zeroed();
        libc::CPU_SET(usize::try_from(libc::sched_getcpu()).unwrap_or(0), &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set)
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn send(mut pipe: &PipeWriter) {
    pipe.write_all(&[0]).expect("the other thread reads");
}

/// Returns `false` after the other end was closed.
fn receive(mut pipe: &PipeReader) -> bool {
    pipe.read_exact(&mut [0]).is_ok()
}

fn main() -> io::Result<()> {
    stay_on_one_cpu()?;
    let ((there, ours), (back, theirs)) = (io::pipe()?, io::pipe()?);
    let partner = thread::spawn(move || {
        while receive(&there) {
            send(&theirs);
        }
    });
    let round_trip = || {
        send(&ours);
        receive(&back);
    };
    let sampled = |frequency: u64| {
        let sampler = Sampler::new(Attr::new(Software::CpuClock)).frequency(frequency);
        move || {
            let ring = sampler.open().expect("the CPU time can be sampled");
            (0..ROUND_TRIPS).for_each(|_| round_trip());
            drop(ring);
        }
    };
    let recorded = || {
        let off_cpu = OffCpu::open().expect("context switches can be recorded");
        (0..ROUND_TRIPS).for_each(|_| {
            round_trip();
            _ = off_cpu.read();
        });
    };
    let cases = vec![
        ticks_case("two threads' round trip", ROUND_TRIPS, || (0..ROUND_TRIPS).for_each(|_| round_trip())),
        ticks_case("one thread's time off the CPU is recorded", ROUND_TRIPS, recorded),
        ticks_case("one thread is sampled at 99 Hz", ROUND_TRIPS, sampled(99)),
        ticks_case("one thread is sampled at 997 Hz", ROUND_TRIPS, sampled(997)),
    ];
    println!("{}", row::text(&in_turn(ROUNDS, "ticks", cases)));
    drop(ours);
    partner.join().expect("does not panic");
    Ok(())
}
