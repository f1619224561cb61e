//! The names and paths of marks, their order in a snapshot, and lints that depend on the body of a marked function.

use std::cmp::Ordering;

use perfmark::perfmark;

use crate::marks_of;

/// Doc comments are kept.
#[perfmark()]
#[inline]
#[must_use]
fn plain(a: u32, b: u32) -> u32 {
    a + b
}

#[perfmark(time, name = "a name of its own")]
fn named() -> &'static str {
    "named"
}

#[derive(Default)]
struct Store<T> {
    items: Vec<T>,
}

impl<T: Clone> Store<T> {
    #[perfmark(time)]
    pub(crate) fn push(&mut self, item: T) -> usize {
        self.items.push(item);
        self.items.len()
    }
}

/// Lints check the bodies of these trait methods.
#[derive(Debug, PartialEq, Eq)]
struct Version(u32);

impl Copy for Version {}

#[expect(clippy::expl_impl_clone_on_copy, reason = "the method is marked")]
impl Clone for Version {
    #[perfmark(time)]
    fn clone(&self) -> Self {
        *self
    }
}

impl Ord for Version {
    #[perfmark(time)]
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.cmp(&other.0)
    }
}

impl PartialOrd for Version {
    #[perfmark(time)]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Only one type can be compared with a `u32`, so the compiler infers what `into` returns. A dependency that adds
/// another type breaks this inference in every program that contains it. perfmark has none, except for criterion, which
/// brings `serde_json`.
#[perfmark(time)]
fn inferred(n: u32, limit: u8) -> bool {
    #[cfg(not(feature = "criterion"))]
    return n == limit.into();
    #[cfg(feature = "criterion")]
    return n == u32::from(limit);
}

#[test]
fn marked_functions_behave_as_before_and_their_calls_are_counted() {
    assert_eq!(plain(1, 2), 3);
    assert_eq!(named(), "named");
    let mut store = Store::default();
    assert_eq!((store.push('a'), store.push('b')), (1, 2));
    #[expect(clippy::clone_on_copy, reason = "the test calls the marked function")]
    let version = Version(1).clone();
    assert!(version < Version(2));
    assert!(inferred(1, 1));

    let marks = marks_of(module_path!());
    let calls: Vec<_> = marks.iter().map(|mark| (mark.path.as_str(), mark.name.as_str(), mark.calls)).collect();
    if calls.is_empty() {
        return; // This build does not record.
    }
    let expected = [
        ("attribute::basics::plain", "plain", 1),
        ("attribute::basics::named", "a name of its own", 1),
        ("attribute::basics::Store<_>::push", "push", 2),
        ("<attribute::basics::Version as core::clone::Clone>::clone", "clone", 1),
        ("<attribute::basics::Version as core::cmp::Ord>::cmp", "cmp", 1),
        ("<attribute::basics::Version as core::cmp::PartialOrd>::partial_cmp", "partial_cmp", 1),
        ("attribute::basics::inferred", "inferred", 1),
    ];
    assert_eq!(calls, expected, "in the order of the source");
}
