//! Other attributes beside the mark, above and below it.

use std::panic::Location;

use perfmark::perfmark;

#[perfmark(time)]
#[track_caller]
fn tracked() -> &'static Location<'static> {
    Location::caller()
}

#[track_caller]
#[perfmark(time)]
fn tracked_too() -> &'static Location<'static> {
    inner()
}

#[track_caller]
fn inner() -> &'static Location<'static> {
    Location::caller()
}

#[must_use]
#[inline]
#[perfmark(time)]
#[cold]
#[doc(hidden)]
fn many() -> u8 {
    1
}

#[perfmark(time)]
#[inline(always)]
#[expect(clippy::inline_always, reason = "a test")]
fn always() -> u8 {
    2
}

#[inline(never)]
#[perfmark(time)]
fn never() -> u8 {
    3
}

#[perfmark(time)]
#[deprecated(since = "0.1.0", note = "a test")]
fn old() -> u8 {
    4
}

/// Doc comments, `#[doc]`, and
#[doc = "a line of its own"]
/** as well as blocks */
#[expect(clippy::mixed_attributes_style, reason = "a test")]
#[perfmark(time)]
/// behind it.
fn documented() -> u8 {
    //! And inside.
    #![expect(clippy::let_and_return, reason = "an inner attribute")]
    let five = 5;
    five
}

/// An `expect` for the body still applies there.
#[perfmark(time)]
#[expect(unused_variables, unused_mut, clippy::no_effect_underscore_binding, reason = "a test")]
fn expects() -> u8 {
    let mut unused = 1;
    let _one = 1;
    6
}

#[perfmark(time)]
#[expect(unreachable_code, reason = "a test")]
fn diverges() -> u8 {
    return 7;
    todo!()
}

#[cfg(not(any()))]
#[perfmark(time)]
#[cfg(any(unix, not(unix)))]
fn there() -> u8 {
    8
}

#[cfg(any())]
#[perfmark(nonsense, all = "of it")]
fn absent() -> Absent {}

#[perfmark(time)]
#[cfg(any())]
fn absent_too() -> Absent {}

#[cfg_attr(all(), perfmark(time), must_use)]
#[cfg_attr(any(), nonsense)]
fn conditional() -> u8 {
    9
}

/// A macro as the value of an attribute, and the mark by a path from the root.
#[doc = concat!("c", "oncat")]
#[::perfmark::perfmark(time)]
fn by_path() -> u8 {
    10
}

#[test]
#[perfmark(time)]
fn marked_tests_run() {}

#[perfmark(time)]
#[test]
fn tests_marked_first_run() -> Result<(), std::num::ParseIntError> {
    "1".parse::<u8>().map(drop)
}

#[test]
#[should_panic(expected = "as it should")]
#[perfmark(time)]
fn marked_tests_may_panic() {
    panic!("as it should")
}

#[test]
fn track_caller_still_gives_the_caller() {
    let (line, locations) = (line!(), [tracked(), tracked_too()]);
    for location in locations {
        assert_eq!((location.file(), location.line()), (file!(), line));
    }
    let columns = locations.map(Location::column);
    assert!(columns[0] < columns[1], "each is its own call: {columns:?}");
    crate::assert_calls(&[("attributes::tracked", 1), ("attributes::tracked_too", 1)]);
}

#[test]
fn other_attributes_keep_their_meaning() {
    #[expect(deprecated, reason = "a test")]
    let all =
        [many(), always(), never(), old(), documented(), expects(), diverges(), there(), conditional(), by_path()];
    assert_eq!(all, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    let names =
        ["many", "always", "never", "old", "documented", "expects", "diverges", "there", "conditional", "by_path"];
    for name in names {
        crate::assert_calls(&[(&format!("attributes::{name}"), 1)]);
    }
}
