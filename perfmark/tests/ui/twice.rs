//! A second attribute on the same item is an error. A function's own attribute in a marked `impl` is not a second one.

use perfmark::perfmark;

#[perfmark]
#[perfmark(time)]
fn function() {}

#[perfmark(time)]
#[inline]
#[perfmark::perfmark(cycles)]
/// Documented.
async fn future() {}

struct Table;

#[perfmark(time)]
#[perfmark(cycles)]
impl Table {
    fn inside() {}
}

#[perfmark(skip)]
#[perfmark]
fn skipped_and_marked() {}

#[perfmark]
mod marked {
    #[perfmark(time)]
    pub fn own() {}

    #[perfmark(time)]
    #[perfmark(cycles)]
    pub fn own_twice() {}
}

#[perfmark]
#[perfmark(skip)]
fn skipped() {}

fn main() {}
