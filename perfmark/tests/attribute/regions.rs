//! Regions: blocks with a value, and guards.

use perfmark::region;

use crate::marks_of;

fn value(n: u32) -> Result<u32, std::num::ParseIntError> {
    let text = region!("format", time, { n.to_string() });
    let parsed: u32 = region!("parse", time, every = 1, {
        if n == 3 {
            return Ok(0);
        }
        text.parse()?
    });
    Ok(parsed)
}

fn guarded(n: u32) -> u32 {
    let _whole = region!("whole", time);
    let part = region!("part", time);
    let sum = (0..n).sum();
    drop(part);
    sum
}

fn closure() -> u32 {
    let twice = |n: u32| region!("closure", time, { 2 * n });
    let nested = async || region!("in async", time, { 1 });
    let _ = nested;
    twice(4)
}

/// Variables that a block initializes may be used after it. A block that always returns may end a `let`-`else`.
fn as_blocks(n: Option<usize>) -> usize {
    let first;
    region!("initializes", time, { first = n.map_or(1, |n| n + 1) });
    let mut text = String::from("moved");
    drop(text);
    region!("initializes again", time, { text = first.to_string() });
    let borrowed = region!("borrows", time, { &format!("{text}0") });
    let Some(n) = n else {
        region!("does not come back", time, {
            return borrowed.len();
        });
    };
    n + borrowed.len()
}

/// The macro's fragment is in an invisible group.
macro_rules! from_block {
    ($name:literal, $block:block) => {
        region!($name, time, $block)
    };
}

#[test]
fn regions_have_values_and_control_flow_like_blocks() {
    assert_eq!((value(41), value(3)), (Ok(41), Ok(0)));
    assert_eq!((guarded(5), closure()), (10, 8));
    assert_eq!(from_block!("a macro's", { 1 }), 1);
    assert_eq!((as_blocks(Some(9)), as_blocks(None)), (12, 2));
    if !cfg!(feature = "record") {
        return;
    }
    let marks = marks_of(module_path!());
    let calls = |name: &str| marks.iter().find(|mark| mark.name == name).map(|mark| (mark.calls, mark.in_flight));
    let names = ["format", "parse", "whole", "part", "closure", "a macro's", "in async"];
    assert_eq!(names.map(calls), [(2, 0), (2, 0), (1, 0), (1, 0), (1, 0), (1, 0), (0, 0)].map(Some));
    let path = |name: &str| marks.iter().find(|mark| mark.name == name).map(|mark| mark.path.as_str());
    assert_eq!(path("parse"), Some("attribute::regions::value"));
}
