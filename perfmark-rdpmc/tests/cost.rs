//! The cost of a reading in instructions, which are the same in every run of the emulated machine.

mod compiler;
mod support;

use std::hint::black_box;

use perfmark_rdpmc::{Attr, Counter, Delta, Hardware, Region};

fn main() {
    support::run(vec![], &[("a_region_costs_a_few_instructions", a_region_costs_a_few_instructions)]);
}

const ITERATIONS: u64 = 1_000;

/// The instructions of a region on arm64, and the rustc for which they were recorded.
const REGION: u64 = 25;
const RECORDED: &str = "1.96.0";

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
    println!("instructions: {region} for a region, {user} for two user reads, {syscall} for read(2)");
    let this = compiler::version();
    if cfg!(all(target_arch = "aarch64", not(debug_assertions))) && this == RECORDED {
        assert!(region <= REGION, "{region} instructions, {REGION} before");
    } else {
        println!("not compared with {REGION} of a release build for arm64 by rustc {RECORDED}: this is rustc {this}");
    }
    assert!(region < user);
}
