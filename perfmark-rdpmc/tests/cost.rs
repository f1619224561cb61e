//! The cost of a reading in instructions, which are the same in every run of the emulated machine.

mod support;

use std::hint::black_box;

use perfmark_rdpmc::{Attr, Counter, Delta, Hardware, Region};

fn main() {
    support::run(vec![], &[("a_region_costs_a_few_instructions", a_region_costs_a_few_instructions)]);
}

const ITERATIONS: u64 = 1_000;

/// The limit on arm64: two checks of the lock and a call of a reader, at both the start and the end.
const LIMIT: u64 = 25;

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
    println!("instructions in user mode: {region} for a region; {user} for two user reads; {syscall} for two read(2)");
    if cfg!(all(target_arch = "aarch64", not(debug_assertions))) {
        assert!(region <= LIMIT, "{region}");
    }
    assert!(region < user);
}
