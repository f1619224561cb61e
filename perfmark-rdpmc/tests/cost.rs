//! What a reading costs, in instructions, which repeat exactly in the emulated machine.

mod support;

use std::hint::black_box;

use perfmark_rdpmc::{Attr, Counter, Delta, Hardware, Region};

fn main() {
    support::run(vec![], &[("a_region_costs_a_few_instructions", a_region_costs_a_few_instructions)]);
}

const TURNS: u64 = 1_000;

/// On arm64: two checks of the lock, and a reader behind a pointer, at either end.
const MOST: u64 = 25;

/// Instructions in user mode that `work` takes, as another counter has it: the least of a few tries.
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
    tries.min().expect("tried")
}

/// What a turn of it takes more than one that does nothing.
fn a_turn(work: &dyn Fn(&Counter)) -> u64 {
    let nothing = instructions(&|_| {
        for n in 0..TURNS {
            black_box(n);
        }
    });
    (instructions(work) - nothing) / TURNS
}

fn a_region_costs_a_few_instructions() {
    let region = a_turn(&|counter| {
        let mut region = Region::default();
        for n in 0..TURNS {
            black_box(n);
            counter.begin(&mut region);
            if !matches!(counter.end(&region), Delta::Exact(_)) {
                black_box(());
            }
        }
    });
    let user = a_turn(&|counter| {
        for n in 0..TURNS {
            black_box(n);
            black_box((counter.read_user(), counter.read_user()));
        }
    });
    let syscall = a_turn(&|counter| {
        for n in 0..TURNS {
            black_box(n);
            _ = black_box((counter.read_syscall(), counter.read_syscall()));
        }
    });
    println!("instructions in user mode: {region} a region; {user} two whole user reads; {syscall} two read(2)");
    if cfg!(all(target_arch = "aarch64", not(debug_assertions))) {
        assert!(region <= MOST, "{region}");
    }
    assert!(region < user);
}
