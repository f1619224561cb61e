//! Generic functions whose types have marks of their own.

use std::ptr;

use crate::mark::{self, Mark};
use crate::recorder::own_work;
use crate::start;

/// The mark of a generic function for its types, which are told by the name of a closure in it. It takes 19 instructions, and some more for
/// each of the types that it was called for after these.
#[inline]
#[must_use]
pub fn of_types(mark: &'static Mark, types: &'static str) -> &'static Mark {
    if mark::is_off(mark.place()) {
        return mark;
    }
    let mut known = mark.by_types();
    known.find(|by| ptr::eq(by.types, types)).map_or_else(|| add(mark, types), |by| by.mark)
}

#[cold]
#[inline(never)]
fn add(mark: &'static Mark, types: &'static str) -> &'static Mark {
    if start::is_off() {
        mark.switch_off();
        return mark;
    }
    // While perfmark is at work nothing is recorded, and the mark does not matter.
    own_work(|| mark.add_types(types)).unwrap_or(mark)
}
