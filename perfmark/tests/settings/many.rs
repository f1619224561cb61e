//! A mark that gets ever new settings. The test uses up all slots.

use perfmark::{Filter, Mark, SettingsError, perfmark, set_filter, snapshot};
use perfmark_rdpmc::{Attr, Counter, Delta, Hardware};

use crate::alone::passed_in_own_process;
use crate::child::{fork, in_child};

#[perfmark(time)]
fn configured() {}

/// More than there are slots.
const SETTINGS: u32 = 20_000;
const SLOTS: u32 = 8_192;

fn set(every: u32) -> Result<(), SettingsError> {
    set_filter(&Filter::default().every("*::configured", every))
}

fn find_mark() -> Mark {
    snapshot().marks.into_iter().find(|mark| mark.name == "configured").expect("it is known")
}

/// User-mode instructions of one setting, where they can be counted: over 100 settings after the first 300, and over
/// 100 after the first 3,000.
fn instructions(witness: Option<&Counter>, each: &dyn Fn(u32)) -> [Option<u64>; 2] {
    let read = || witness.map(|witness| witness.read().expect("readable"));
    let mut windows = [None; 2];
    let mut before = None;
    for every in 1..=SETTINGS {
        each(every);
        // No table grows in these ranges.
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
fn the_cost_of_a_setting_does_not_grow_and_a_mark_without_a_slot_keeps_its_settings() {
    if passed_in_own_process() {
        return;
    }
    let witness = Counter::open(&Attr::new(Hardware::Instructions));
    let windows = instructions(witness.as_ref().ok(), &|every| {
        let set = set(every);
        assert_eq!(set.is_ok(), every <= SLOTS, "{every}: {set:?}");
        configured();
    });
    match windows {
        [Some(few), Some(many)] => {
            println!("another setting and its first call: {few} instructions after 300, {many} after 3,000");
            assert!(many < 2 * few, "{many} instructions for a setting after 3,000, {few} after 300");
        }
        _ => println!("skipped: the instructions of a setting cannot be counted: {:?}", witness.err()),
    }
    let mark = find_mark();
    // Without a slot, the mark records as before.
    assert_eq!((mark.calls, mark.every), (SETTINGS.into(), SLOTS));
    let why = set(SETTINGS).expect_err("no slot is left");
    assert_eq!(why.marks(), 1);
    assert!(why.to_string().starts_with("1 mark keeps its former settings: all slots"), "{why}");
    let is_noted =
        || snapshot().notes.iter().any(|note| note.starts_with("1 mark keeps its former settings: all slots"));
    assert!(is_noted());
    // Nor does a setting that cannot be applied turn a mark on or off.
    set_filter(&Filter::default().off("*::configured")).expect("takes no slot");
    set(SETTINGS).expect_err("no slot is left");
    configured();
    assert_eq!(find_mark().calls, u64::from(SETTINGS));
    assert!(is_noted());

    // Known settings still work, also in a forked child.
    let known = || set(7).is_ok() && find_mark().every == 7;
    assert!(known() && !is_noted());
    assert!(in_child(fork, || {
        let is_refused = set(SETTINGS).is_err() && find_mark().every == 7;
        known() && is_refused
    }));
}
