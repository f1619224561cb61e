//! `generic` is an error where no function can be generic, as far as the attribute sees.

use perfmark::perfmark;

struct Table;

#[perfmark(generic)]
impl Table {
    fn first<'a>(&'a self) -> impl Iterator<Item = u8> + 'a {
        std::iter::empty()
    }

    async fn second(self) {}
}

#[perfmark(time, generic)]
mod functions {
    pub fn plain() {}

    pub mod deeper {
        impl super::super::Table {
            pub fn third<'a>(&'a self) {}
        }
    }
}

/// On a function alone, the attribute does not see whether an `impl` with types is around it.
#[perfmark(generic)]
fn alone() {}

/// One of the functions is generic.
#[perfmark(generic)]
mod mixed {
    pub fn plain() {}

    pub fn takes(_: impl Sized) {}
}

#[perfmark(generic)]
trait Shape {
    fn area(&self) {}
}

fn main() {}
