//! Generic functions with a separate mark for each set of types.

use super::mark::{self, Mark};
use super::recorder::own_work;
use crate::settings::recording::is_off;

/// The mark of a generic function for its types, which occur in the name of a closure inside it. It takes about 20
/// instructions, for any number of types.
#[inline]
#[must_use]
pub fn of_types(mark: &'static Mark, types: &'static str) -> &'static Mark {
    if mark::is_slot_off(mark.slot()) {
        return mark;
    }
    mark.by_types().find(types).unwrap_or_else(|| add(mark, types))
}

#[cold]
#[inline(never)]
fn add(mark: &'static Mark, types: &'static str) -> &'static Mark {
    if is_off() {
        mark.switch_off();
        return mark;
    }
    // While perfmark is at work nothing is recorded, and the mark does not matter.
    own_work(|| mark.add_types(types)).unwrap_or(mark)
}
