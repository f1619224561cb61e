//! A mark that is told ever new things. It uses up all places that there are, and so is the only test here.
#![cfg(feature = "record")]

use perfmark::{Filter, Mark, perfmark, set_filter, snapshot};
use perfmark_rdpmc::{Attr, Counter, Delta, Hardware};

#[perfmark(time)]
fn told() {}

/// More than can be told apart.
const SETTINGS: u32 = 20_000;

fn set(every: u32) {
    set_filter(&Filter::default().every("*::told", every));
}

fn figures() -> Mark {
    snapshot().marks.into_iter().find(|mark| mark.name == "told").expect("it is known")
}

/// Instructions of each in user mode, where they can be counted; the first 100 after one that is so far on.
fn instructions(witness: Option<&Counter>, each: &dyn Fn(u32)) -> [Option<u64>; 2] {
    let read = || witness.map(|witness| witness.read().expect("readable"));
    let mut windows = [None; 2];
    let mut before = None;
    for every in 1..=SETTINGS {
        each(every);
        // No table of theirs grows in these.
        match every {
            300 | 3_000 => before = read(),
            400 | 3_100 => {
                let spent = read().zip(before.take()).and_then(|(now, before)| match now.since(&before) {
                    Delta::Exact(instructions) => Some(instructions / 100),
                    _ => None,
                });
                windows[usize::from(every > 400)] = spent;
            }
            _ => {}
        }
    }
    windows
}

#[test]
fn each_of_many_settings_costs_what_the_first_did_and_those_that_have_no_place_are_told() {
    let witness = Counter::open(&Attr::new(Hardware::Instructions));
    let windows = instructions(witness.as_ref().ok(), &|every| {
        set(every);
        told();
    });
    match windows {
        [Some(few), Some(many)] => {
            println!("another setting and its first call: {few} instructions after 300, {many} after 3,000");
            assert!(many < 2 * few, "{many} instructions for a setting after 3,000, {few} after 300");
        }
        _ => println!("skipped: what a setting costs: {:?}", witness.err()),
    }
    let mark = figures();
    // A setting that has no place leaves the mark as it is written.
    assert_eq!((mark.calls, mark.every), (SETTINGS.into(), 1));
    let refused = |snapshot: &perfmark::Snapshot| {
        let note = snapshot.notes.iter().find(|note| note.contains("times a mark was to record something else"));
        note.and_then(|note| note.split_once(' ')?.0.parse::<u32>().ok())
    };
    let before = refused(&snapshot());
    assert!(before.is_some_and(|refused| (SETTINGS - 8_192..SETTINGS).contains(&refused)), "{before:?}");

    // Known ones are still to be had, in a forked child, too.
    let known = || {
        set(7);
        figures().every == 7
    };
    assert!(known() && refused(&snapshot()) == before);
    #[cfg(target_os = "linux")]
    // SAFETY: the child uses what perfmark and the allocator keep usable behind a fork, and ends.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            set(SETTINGS);
            let is_refused = figures().every == 1;
            libc::_exit(i32::from(!(known() && is_refused)));
        }
        let mut status = 0;
        assert_eq!((libc::waitpid(child, &raw mut status, 0), status), (child, 0));
    }
}
