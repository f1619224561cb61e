//! The cost of a reading in instructions, which are the same in every run of the emulated machine.

mod support;

use std::hint::black_box;

use perfmark_rdpmc::{Attr, Counter, Delta, Hardware, Region, clock};

fn main() {
    support::run(vec![], &[("a_region_costs_a_few_instructions", a_region_costs_a_few_instructions)]);
}

const ITERATIONS: u64 = 1_000;

/// Instructions in user mode that `work` executes, as another counter counts them: the least of a few tries.
fn instructions(work: &dyn Fn(&Counter)) -> u64 {
    let open = || Counter::open(&Attr::new(Hardware::Instructions)).expect("there is a PMU");
    let (counter, witness) = (open(), open());
    let tries = (0..5).map(|_| {
        let before = witness.read().expect("readable");
        work(&counter);
        match witness.read().expect("readable").since(&before) {
            Delta::Exact(instructions) => instructions,
            other => panic!("{other:?}"),
        }
    });
    tries.min().expect("five tries")
}

/// The instructions of one iteration of `work`, beyond those of an iteration that does nothing.
fn per_iteration(work: &dyn Fn(&Counter)) -> u64 {
    let nothing = instructions(&|_| {
        for n in 0..ITERATIONS {
            black_box(n);
        }
    });
    (instructions(work) - nothing) / ITERATIONS
}

fn a_region_costs_a_few_instructions() {
    let region = per_iteration(&|counter| {
        let mut region = Region::default();
        for n in 0..ITERATIONS {
            black_box(n);
            counter.begin(&mut region);
            if !matches!(counter.end(&region), Delta::Exact(_)) {
                black_box(());
            }
        }
    });
    // The same compiler's code for what a region does at the least: a check of the lock and a call of a reader, at both
    // ends. A region takes less (25 and 35 instructions with rustc 1.95), because its check is not a call.
    let sketch = per_iteration(&|counter| {
        let (lock, read): (_, fn() -> u64) = (counter.page_lock(), black_box(clock::ticks));
        for n in 0..ITERATIONS {
            black_box(n);
            for _ in 0..2 {
                if counter.page_lock() == lock {
                    black_box(read());
                }
            }
        }
    });
    let user = per_iteration(&|counter| {
        for n in 0..ITERATIONS {
            black_box(n);
            black_box((counter.read_user(), counter.read_user()));
        }
    });
    let syscall = per_iteration(&|counter| {
        for n in 0..ITERATIONS {
            black_box(n);
            _ = black_box((counter.read_syscall(), counter.read_syscall()));
        }
    });
    println!(
        "instructions: {region} for a region, {sketch} for its sketch, {user} for two user reads, {syscall} for read(2)"
    );
    if cfg!(all(target_arch = "aarch64", not(debug_assertions))) {
        assert!(region <= sketch, "{region}, and {sketch} for the sketch");
    }
    assert!(region < user);
}
