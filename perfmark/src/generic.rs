//! Generic functions with a separate mark for each set of types.

use crate::mark::{self, Mark};
use crate::recorder::own_work;
use crate::start;

/// The mark of a generic function for its types, which occur in the name of a closure inside it. It takes some 20
/// instructions, however many types there are.
#[inline]
#[must_use]
pub fn of_types(mark: &'static Mark, types: &'static str) -> &'static Mark {
    if mark::is_off(mark.slot()) {
        return mark;
    }
    mark.by_types().find(types).unwrap_or_else(|| add(mark, types))
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
