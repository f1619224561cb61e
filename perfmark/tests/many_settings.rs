//! A mark that is told ever new things. It uses up all places that there are, and so is the only test here.
#![cfg(feature = "record")]

use perfmark::{Filter, Mark, SetFilterError, perfmark, set_filter, snapshot};
use perfmark_rdpmc::{Attr, Counter, Delta, Hardware};

#[perfmark(time)]
fn told() {}

/// More than there are slots.
const SETTINGS: u32 = 20_000;
const SLOTS: u32 = 8_192;

fn set(every: u32) -> Result<(), SetFilterError> {
    set_filter(&Filter::default().every("*::told", every))
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
fn each_of_many_settings_costs_what_the_first_did_and_a_mark_without_a_slot_records_as_before() {
    let witness = Counter::open(&Attr::new(Hardware::Instructions));
    let windows = instructions(witness.as_ref().ok(), &|every| {
        let set = set(every);
        assert_eq!(set.is_ok(), every <= SLOTS, "{every}: {set:?}");
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
    // Without a slot it records as before.
    assert_eq!((mark.calls, mark.every), (SETTINGS.into(), SLOTS));
    let why = set(SETTINGS).expect_err("no slot is left");
    assert_eq!(why.marks(), 1);
    assert!(why.to_string().starts_with("1 mark keeps its former settings: all 8192 slots"), "{why}");
    let refused = |snapshot: &perfmark::Snapshot| {
        let note = snapshot.notes.iter().find(|note| note.contains("times a mark kept its former settings"));
        note.and_then(|note| note.split_once(' ')?.0.parse::<u32>().ok())
    };
    let before = refused(&snapshot());
    assert!(before.is_some_and(|refused| (SETTINGS - SLOTS..SETTINGS).contains(&refused)), "{before:?}");
    // Nor is a mark turned on or off by what cannot be set.
    set_filter(&Filter::default().off("*::told")).expect("takes no slot");
    set(SETTINGS).expect_err("no slot is left");
    told();
    assert_eq!(figures().calls, u64::from(SETTINGS));
    let before = refused(&snapshot());

    // Known ones are still to be had, in a forked child, too.
    let known = || set(7).is_ok() && figures().every == 7;
    assert!(known() && refused(&snapshot()) == before);
    #[cfg(target_os = "linux")]
    // SAFETY: the child uses what perfmark and the allocator keep usable behind a fork, and ends.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            let is_refused = set(SETTINGS).is_err() && figures().every == 7;
            libc::_exit(i32::from(!(known() && is_refused)));
        }
        let mut status = 0;
        assert_eq!((libc::waitpid(child, &raw mut status, 0), status), (child, 0));
    }
}
