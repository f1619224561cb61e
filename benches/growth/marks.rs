//! 10,000 functions, each with a mark of its own, and the same functions unmarked.

use std::hint::black_box;
use std::sync::LazyLock;

/// It calls the next functions, one inside the other, until they are so many deep.
pub(crate) type Function = fn(usize);

/// Functions, and the same functions unmarked.
pub(crate) struct Functions {
    pub(crate) marked: Vec<Function>,
    pub(crate) unmarked: Vec<Function>,
}

/// Ten times what is left of the list in each of ten modules. In the end, a pair of functions; the modules' digits are
/// their number.
macro_rules! functions {
    ([$($digit:literal)*]) => {
        const NUMBER: usize = crate::marks::number(&[$($digit),*]);

        #[perfmark::perfmark(time)]
        #[inline(never)]
        fn marked(depth: usize) {
            crate::marks::down(|all| &all.marked, NUMBER, depth);
        }

        #[inline(never)]
        fn unmarked(depth: usize) {
            crate::marks::down(|all| &all.unmarked, NUMBER, depth);
        }

        pub(super) fn add(all: &mut crate::marks::Functions) {
            all.marked.push(marked);
            all.unmarked.push(unmarked);
        }
    };
    ([$($digit:literal)*] 10 $($more:tt)*) => {
        mod n0 { functions! { [$($digit)* 0] $($more)* } }
        mod n1 { functions! { [$($digit)* 1] $($more)* } }
        mod n2 { functions! { [$($digit)* 2] $($more)* } }
        mod n3 { functions! { [$($digit)* 3] $($more)* } }
        mod n4 { functions! { [$($digit)* 4] $($more)* } }
        mod n5 { functions! { [$($digit)* 5] $($more)* } }
        mod n6 { functions! { [$($digit)* 6] $($more)* } }
        mod n7 { functions! { [$($digit)* 7] $($more)* } }
        mod n8 { functions! { [$($digit)* 8] $($more)* } }
        mod n9 { functions! { [$($digit)* 9] $($more)* } }

        pub(super) fn add(all: &mut crate::marks::Functions) {
            for add in [n0::add, n1::add, n2::add, n3::add, n4::add, n5::add, n6::add, n7::add, n8::add, n9::add] {
                add(all);
            }
        }
    };
}

mod all {
    #[cfg(not(clippy))]
    functions! { [] 10 10 10 10 }
    // One is like another, and looking at all of them takes half a minute.
    #[cfg(clippy)]
    functions! { [] 10 }
}

/// In the order of their numbers.
pub(crate) static ALL: LazyLock<Functions> = LazyLock::new(|| {
    let mut all = Functions { marked: Vec::new(), unmarked: Vec::new() };
    all::add(&mut all);
    all
});

const fn number(digits: &[usize]) -> usize {
    match digits {
        [] => 0,
        [tens @ .., digit] => 10 * number(tens) + *digit,
    }
}

/// What a function of that number does.
fn down(which: fn(&Functions) -> &[Function], number: usize, depth: usize) {
    if depth > 1 {
        which(&ALL)[number + 1](depth - 1);
    }
    // So that each function has its own code, and is on the stack while it calls.
    black_box(number + depth);
}
