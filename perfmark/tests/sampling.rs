//! Samples: each belongs to the call in which it was taken.
//!
//! The scenarios are this program, started again. Two loops have known addresses and shares, so that a sample in the
//! wrong mark shows.
#![cfg(all(feature = "sampling", target_os = "linux"))]

use std::hint::black_box;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use perfmark::{Samples, Sampling, Snapshot, perfmark};
use perfmark_rdpmc::{Attr, Counter, Delta, Hardware, Region};

#[perfmark(time)]
#[inline(never)]
fn three(times: u64) {
    spin_three(times);
}

#[perfmark(time)]
#[inline(never)]
fn seven(times: u64) {
    spin_seven(times);
}

#[perfmark(time)]
#[inline(never)]
fn both(times: u64) {
    three(3 * times);
    seven(7 * times);
}

/// Loops whose addresses are known: `times` rounds of a few instructions.
#[allow(unsafe_code, reason = "assembly")]
mod loops {
    use std::arch::global_asm;
    use std::ops::Range;

    macro_rules! spin {
        ($function:ident, $name:literal, $end:literal, $symbol:ident, $end_symbol:ident, $range:ident) => {
            #[cfg(target_arch = "x86_64")]
            global_asm!(
                concat!(".globl ", $name, ", ", $end),
                concat!($name, ":"),
                "2:",
                "imul rax, rdi",
                "dec rdi",
                "jnz 2b",
                "ret",
                concat!($end, ":"),
            );
            #[cfg(target_arch = "aarch64")]
            global_asm!(
                concat!(".globl ", $name),
                concat!(".globl ", $end),
                concat!($name, ":"),
                "2:",
                "mul x9, x9, x0",
                "subs x0, x0, #1",
                "b.ne 2b",
                "ret",
                concat!($end, ":"),
            );
            unsafe extern "C" {
                #[link_name = $name]
                fn $symbol(times: u64);
                #[link_name = $end]
                fn $end_symbol();
            }
            pub(super) fn $function(times: u64) {
                // SAFETY: changes two registers, which a call may change.
                unsafe { $symbol(times) };
            }
            pub(super) fn $range() -> Range<u64> {
                $symbol as *const () as u64..$end_symbol as *const () as u64
            }
        };
    }
    spin!(spin_three, "perfmark_test_three", "perfmark_test_three_end", three, three_end, code_of_three);
    spin!(spin_seven, "perfmark_test_seven", "perfmark_test_seven_end", seven, seven_end, code_of_seven);
}
use loops::{code_of_seven, code_of_three, spin_seven, spin_three};

#[perfmark(time, every = 16)]
#[inline(never)]
fn sometimes(times: u64) {
    spin_three(times);
}

#[perfmark(time)]
#[inline(never)]
fn around(times: u64) {
    sometimes(3 * times);
    spin_seven(7 * times);
}

fn index(snapshot: &Snapshot, name: &str) -> usize {
    snapshot.marks.iter().position(|mark| mark.name == name).expect("a mark")
}

/// The samples directly in the mark.
fn of(snapshot: &Snapshot, samples: &Samples, name: &str) -> u64 {
    let mark = index(snapshot, name);
    samples.paths.iter().filter(|path| path.marks.last() == Some(&mark)).map(|path| path.samples).sum()
}

/// The samples directly in the mark that are in this code.
fn in_code(snapshot: &Snapshot, samples: &Samples, name: &str, code: &Range<u64>) -> u64 {
    let mark = index(snapshot, name);
    let paths = samples.paths.iter().filter(|path| path.marks.last() == Some(&mark));
    let addresses = paths.flat_map(|path| &path.addresses);
    addresses.filter(|one| code.contains(&(one.address + base()))).map(|one| one.samples).sum()
}

/// The address at which the program is mapped; 0 if its file has the addresses that it has in memory.
fn base() -> u64 {
    const TYPE: usize = 16;
    const EXECUTABLE: u8 = 2;
    if std::fs::read("/proc/self/exe").expect("the program")[TYPE] == EXECUTABLE {
        return 0;
    }
    let maps = std::fs::read_to_string("/proc/self/maps").expect("maps");
    let program = std::env::current_exe().expect("a path").display().to_string();
    let line = maps.lines().find(|line| line.ends_with(&program)).expect("the program");
    u64::from_str_radix(line.split('-').next().expect("a start"), 16).expect("a number")
}

/// The program is sampled by one test at a time.
fn lock() -> MutexGuard<'static, ()> {
    static LOCK: Mutex<()> = Mutex::new(());
    LOCK.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn samples_belong_to_the_calls_in_which_they_were_taken() {
    let _one_at_a_time = lock();
    let sampling = match Sampling::new().frequency(2_000).start() {
        Ok(sampling) => sampling,
        Err(why) => return println!("skipped: {why}"),
    };
    for times in [20, 200_000] {
        let calls = 40_000_000 / times;
        for _ in 0..calls {
            both(times);
        }
    }
    drop(sampling);
    let snapshot = perfmark::snapshot();
    let samples = snapshot.samples.as_ref().expect("samples");
    let [three, seven, around] = ["three", "seven", "both"].map(|name| of(&snapshot, samples, name));
    println!("{} samples of {}: {three} {seven} {around}", samples.taken(), samples.event);
    assert_eq!(samples.lost, 0);
    assert!(samples.paths.iter().flat_map(|path| &path.marks).all(|&mark| mark < snapshot.marks.len()));
    assert!(three > 100 && seven > three);
    assert_eq!(in_code(&snapshot, samples, "three", &code_of_seven()), 0);
    assert_eq!(in_code(&snapshot, samples, "seven", &code_of_three()), 0);
    assert!(in_code(&snapshot, samples, "three", &code_of_three()) > 100);
}

#[test]
fn samples_of_skipped_calls_belong_to_their_mark() {
    let _one_at_a_time = lock();
    let sampling = match Sampling::new().frequency(2_000).start() {
        Ok(sampling) => sampling,
        Err(why) => return println!("skipped: {why}"),
    };
    (0..4_000).for_each(|_| around(10_000));
    drop(sampling);
    let snapshot = perfmark::snapshot();
    let samples = snapshot.samples.as_ref().expect("samples");
    let of_code = |name, code| in_code(&snapshot, samples, name, &code);
    let (three, seven) = (of_code("sometimes", code_of_three()), of_code("around", code_of_seven()));
    println!("{three} {seven}");
    assert!(three > 50 && seven > three);
    assert_eq!((of_code("around", code_of_three()), of_code("sometimes", code_of_seven())), (0, 0));
    let sometimes = &snapshot.marks[index(&snapshot, "sometimes")];
    assert_eq!(sometimes.calls, 4_000);
}

#[perfmark(cycles, instructions)]
#[inline(never)]
fn two(n: u64) -> u64 {
    black_box(n)
}

/// The instructions of a call.
fn instructions_of_a_call(counter: &Counter) -> u64 {
    (0..100).for_each(|n| _ = two(n));
    let mut region = Region::default();
    counter.begin(&mut region);
    (0..1_000).for_each(|n| _ = two(n));
    match counter.end(&region) {
        Delta::Exact(count) => count / 1_000,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_call_costs_12_instructions_more_while_it_is_sampled() {
    let _one_at_a_time = lock();
    let Ok(counter) = Counter::open(&Attr::new(Hardware::Instructions)) else {
        return println!("skipped: there is no counter of instructions");
    };
    // Two sets of events, as there are later: with one set, a call costs less.
    both(1);
    let before = instructions_of_a_call(&counter);
    // Without a sample in these calls.
    let sampling = Sampling::new().event("cycles").period(1 << 40).start().expect("cycles can be sampled");
    let sampled = instructions_of_a_call(&counter);
    drop(sampling);
    let after = instructions_of_a_call(&counter);
    println!("a call: {before} instructions, sampled {sampled}, and then {after}");
    if cfg!(not(debug_assertions)) {
        assert!(sampled <= before + 12);
    }
    assert_eq!(after, before);
}
