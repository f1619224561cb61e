//! 10,000 marked functions, and the same functions unmarked.

use std::hint::black_box;
use std::sync::LazyLock;

/// A function that calls the next one, which calls its next one, down to this depth.
pub(crate) type Function = fn(usize);

/// Functions, and the same functions unmarked.
pub(crate) struct Functions {
    pub(crate) marked: Vec<Function>,
    pub(crate) unmarked: Vec<Function>,
}

/// Expands the rest of the list in each of ten modules, down to a pair of functions. The modules' digits are their
/// number.
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
    // All functions are alike, and linting all of them takes half a minute.
    #[cfg(clippy)]
    functions! { [] 10 }
}

/// All functions, in the order of their numbers.
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

/// The body of the function with this number.
fn down(functions: fn(&Functions) -> &[Function], number: usize, depth: usize) {
    if depth > 1 {
        functions(&ALL)[number + 1](depth - 1);
    }
    // Gives each function its own code, and keeps it on the stack during its call.
    black_box(number + depth);
}
