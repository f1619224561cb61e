//! The memory that marks use: with 100,000,000 calls of one mark, and with calls of 64 marks by each of 32 threads.
//!
//! `cargo bench -p benches --bench memory` prints the values. It fails in these cases:
//!
//! - Memory grows with the number of calls, beyond the octaves of the histogram.
//! - A mark on a thread takes more than 4 KiB for an event whose values span 12 octaves.
//! - At that rate, it would take more than 16 KiB for values of the full range.
//!
//! The memory that a thread needs once, at its first call of any mark, is not included.

use std::hint::black_box;
use std::process::ExitCode;
use std::sync::{Barrier, Mutex, PoisonError};
use std::thread;

use benches::process::private_memory;
use perfmark::perfmark;
use perfmark_rdpmc::clock::{Clock, ticks};

#[perfmark(time)]
#[inline(never)]
fn marked(n: u64) -> u64 {
    black_box(n)
}

/// Marked functions that take this many ticks.
macro_rules! marked {
    ($($name:ident)*) => {
        $(#[perfmark(time)]
        #[inline(never)]
        fn $name(length: u64) {
            let before = ticks();
            while ticks().wrapping_sub(before) < length {}
        })*
        const MARKED: &[fn(u64)] = &[$($name),*];
    };
}
marked! {
    m00 m01 m02 m03 m04 m05 m06 m07 m08 m09 m10 m11 m12 m13 m14 m15
    m16 m17 m18 m19 m20 m21 m22 m23 m24 m25 m26 m27 m28 m29 m30 m31
    m32 m33 m34 m35 m36 m37 m38 m39 m40 m41 m42 m43 m44 m45 m46 m47
    m48 m49 m50 m51 m52 m53 m54 m55 m56 m57 m58 m59 m60 m61 m62 m63
}

const CALLS: u64 = 100_000_000;
/// Bytes for the counts of an octave. The last 6 octaves together take as much as two.
const OCTAVE: u64 = 256;
/// Octaves in the full range, by their memory.
const ALL_OCTAVES: u64 = 60;
/// The memory of all octaves, rounded up to pages, plus one page for the allocator.
const ALL_OCTAVES_KIB: u64 = 20;

const THREADS: usize = 32;
/// Octaves of the values. An octave is the range between two powers of two.
const OCTAVES: u64 = 12;
const LIMIT: u64 = 4 << 10;
const LIMIT_OF_ALL: u64 = 16 << 10;
/// The allocator may exceed a limit by one part in so many.
const ALLOCATOR_SHARE: u64 = 100;

/// Returns false if memory grew.
fn many_calls(before: u64) -> bool {
    let mut checkpoints = Vec::with_capacity(10);
    for _ in 0..10 {
        for n in 0..CALLS / 10 {
            marked(n);
        }
        checkpoints.push(private_memory().unwrap_or(u64::MAX));
    }
    println!("private memory in KiB, first {before}, then after each tenth of {CALLS} calls: {checkpoints:?}");
    let grown = checkpoints.iter().max().unwrap_or(&u64::MAX).saturating_sub(before);
    if grown > ALL_OCTAVES_KIB {
        println!("grew by {grown} KiB, more than the {ALL_OCTAVES_KIB} of the histogram's octaves");
    }
    grown <= ALL_OCTAVES_KIB
}

/// Returns false if a mark on a thread took too much memory.
fn many_marks(clock: &Clock) -> bool {
    // The shortest call that can be distinguished from probe overhead. Longer calls are interrupted more often, and an
    // interruption adds octaves.
    let shortest = ((50.0 / clock.nanoseconds_per_tick()).log2().ceil()).exp2();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small, and at least 1")]
    let shortest = shortest.max(1.0) as u64;
    let of_octave = |octave: u64| (shortest << octave) + (shortest << octave) / 4;
    let call_all = |octave| MARKED.iter().for_each(|marked| marked(of_octave(octave)));
    let steps: [&(dyn Fn() + Sync); 4] = [
        // Sets up the thread's stack and its memory in the allocator first.
        &|| drop(black_box(vec![0_u8; 1 << 10])),
        &|| _ = marked(0),
        &|| call_all(0),
        // Repeats the first octave, because a thread's first call may have taken longer than specified.
        &|| (0..OCTAVES).for_each(call_all),
    ];
    let (together, turn) = (Barrier::new(THREADS + 1), Mutex::new(()));
    let memory: Vec<u64> = thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for step in steps {
                    together.wait();
                    // Threads take turns, so that none interrupts another.
                    let mine = turn.lock().unwrap_or_else(PoisonError::into_inner);
                    step();
                    drop(mine);
                    together.wait();
                }
                // All threads live until the last value is read.
                together.wait();
            });
        }
        let after = |_| {
            together.wait();
            together.wait();
            private_memory().unwrap_or(u64::MAX) << 10
        };
        let memory = steps.iter().map(after).collect();
        together.wait();
        memory
    });
    let pairs = THREADS * MARKED.len();
    let grown = |from: usize, to: usize, by: usize| memory[to].saturating_sub(memory[from]).div_ceil(by as u64);
    let (of_thread, of_one, of_twelve) = (grown(0, 1, THREADS), grown(1, 2, pairs), grown(1, 3, pairs));
    let of_all = of_one + (ALL_OCTAVES - 1) * OCTAVE;
    println!("bytes of private memory, by {THREADS} threads that call {} marks of one event", MARKED.len());
    println!("a thread, with its first mark                     {of_thread:>7}");
    println!("each further mark, called once                    {of_one:>7}");
    let computed = of_one + (OCTAVES - 1) * OCTAVE;
    println!(
        "the same, with values of {OCTAVES} octaves               {of_twelve:>7}   limit {LIMIT}; computed: {computed}"
    );
    let further = format!("computed: {OCTAVE} for each further octave");
    println!("the same, with values of the full range           {of_all:>7}   limit {LIMIT_OF_ALL}; {further}");
    // A call that is interrupted may take an octave longer than the longest one.
    let is_within = |bytes: u64, limit: u64| bytes <= limit + limit / ALLOCATOR_SHARE;
    is_within(computed, LIMIT) && of_twelve <= computed + OCTAVE && is_within(of_all, LIMIT_OF_ALL)
}

fn main() -> ExitCode {
    let clock = Clock::start();
    marked(0);
    let Some(before) = private_memory() else {
        println!("skipped: /proc/self/smaps_rollup does not report anonymous memory on this system");
        return ExitCode::SUCCESS;
    };
    let is_within = [many_calls(before), many_marks(&clock)];
    if is_within == [true; 2] { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
