//! The attribute on an `impl`, a `trait` and a `mod`: it marks every function inside, except those that opt out.

use std::fmt;

use perfmark::perfmark;

use crate::executor::run;
use crate::marks_of;

pub(crate) struct Table<const N: usize>([u64; N]);

#[perfmark(time)]
impl<const N: usize> Table<N> {
    pub(crate) const WIDTH: usize = { N } * 2;

    #[must_use]
    pub(crate) const fn width() -> usize {
        Self::WIDTH
    }

    /// Documented.
    #[must_use]
    pub(crate) fn sum(&self) -> u64 {
        self.0.iter().sum()
    }

    #[perfmark(skip)]
    #[must_use]
    pub(crate) fn skipped(&self) -> u64 {
        self.0[0]
    }

    #[cfg_attr(all(), perfmark(skip))]
    #[must_use]
    pub(crate) fn skipped_too(&self) -> u64 {
        self.0[0]
    }

    #[cfg_attr(all(), perfmark(time, name = "in cfg_attr"))]
    #[must_use]
    pub(crate) fn with_its_own_in_cfg_attr(&self) -> u64 {
        self.0[0]
    }

    #[perfmark(time, name = "its own")]
    #[must_use]
    pub(crate) fn with_its_own(&self) -> Table<{ 1 + 1 }> {
        Table([self.0[0], 1])
    }
}

#[perfmark(time)]
impl<const N: usize> fmt::Display for Table<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.sum())
    }
}

#[perfmark(time)]
trait Shape {
    const SIDES: u32;

    fn side(&self) -> u64;

    fn around(&self) -> u64 {
        self.side() * u64::from(Self::SIDES)
    }
}

impl<const N: usize> Shape for Table<N> {
    const SIDES: u32 = 4;

    fn side(&self) -> u64 {
        N as u64
    }
}

#[perfmark(time, every = 2)]
mod inner {
    #![expect(clippy::unreadable_literal, reason = "an inner attribute")]

    use std::cmp::max;

    macro_rules! twice {
        ($n:expr) => {
            2 * $n
        };
    }

    pub(crate) struct Unit(pub(crate) u64);

    static ZERO: u64 = if cfg!(test) { 0 } else { 1 };

    pub(crate) fn free(n: u64) -> u64 {
        max(twice!(n), 100000) + ZERO
    }

    impl Unit {
        pub(crate) fn method(self) -> u64 {
            deeper::function(self.0)
        }
    }

    mod deeper {
        pub(crate) fn function(n: u64) -> u64 {
            n
        }
    }
}

// The attributes inside require no import.
#[perfmark(time)]
mod holding {
    pub(crate) struct Left;

    #[perfmark(skip)]
    impl Left {
        pub(crate) fn out() {}
    }

    #[cfg_attr(all(), perfmark(skip))]
    impl Left {
        pub(crate) fn out_by_cfg_attr() {}
    }

    #[perfmark(every = 3)]
    pub(crate) mod marked {
        pub(crate) fn inside() {}
    }

    macro_rules! with {
        ($meta:meta, $item:item) => {
            #[$meta]
            $item
        };
    }

    pub(crate) struct ByPath;

    #[perfmark::perfmark(time)]
    impl ByPath {
        #[perfmark(skip)]
        pub(crate) const fn constant() {}

        #[perfmark(skip)]
        pub(crate) fn skipped() {}

        #[perfmark(name = "named")]
        pub(crate) fn own() {}
    }

    with! {
        perfmark::perfmark(time),
        impl Left {
            #[perfmark(skip)]
            pub(crate) fn of_macro() {}
        }
    }
}

// Inner attributes before a marked function. Doc comments are inner attributes, too.
#[perfmark(time)]
mod documented {
    //! A module.
    #![deny(missing_docs)]

    #[cold]
    pub(super) fn first() {}
}

/// A macro that passes its items through unchanged.
macro_rules! given {
    ($($item:item)*) => {
        #[perfmark(time)]
        mod items {
            $(#[cfg(true)] $item)*
        }
    };
}

given! {
    const ONE: u64 = 1;
    pub(crate) fn first(n: u64) -> u64 {
        n + ONE
    }
    /// Documented.
    pub(crate) async fn second(n: u64) -> u64 {
        std::future::ready(first(n)).await
    }
    use super::Table;
    impl Table<7> {
        pub(crate) fn third(&self) -> u64 {
            self.0[6]
        }
    }
}

#[test]
fn every_function_is_marked_unless_it_opts_out() {
    let table = Table([1, 2, 3]);
    assert_eq!((Table::<3>::width(), table.to_string()), (6, "6".to_owned()));
    assert_eq!((table.skipped(), table.skipped_too(), table.with_its_own_in_cfg_attr()), (1, 1, 1));
    assert_eq!((table.with_its_own().sum(), table.around()), (2, 12));
    assert_eq!((inner::free(1), inner::Unit(7).method()), (100_000, 7));
    documented::first();
    holding::Left::out();
    holding::Left::out_by_cfg_attr();
    holding::Left::of_macro();
    holding::marked::inside();
    holding::ByPath::constant();
    holding::ByPath::skipped();
    holding::ByPath::own();
    run(items::second(1));
    assert_eq!(Table([1; 7]).third(), 1);
    if !cfg!(feature = "record") {
        return;
    }
    let marks = marks_of(module_path!());
    assert_eq!(marks.iter().find(|mark| mark.name == "inside").map(|mark| mark.every), Some(3));
    let source: Vec<&str> = include_str!("containers.rs").lines().collect();
    for mark in &marks {
        let lines = &source[mark.line as usize - 1..];
        // The line of the function's own attribute or its first line, not that of the enclosing item.
        assert!(lines[0].contains("fn ") || lines[0].contains("#["), "{mark:?}");
        let function = lines.iter().find_map(|line| line.trim_start().split_once("fn ")).expect("a function").1;
        assert!(
            ["its own", "in cfg_attr", "named"].contains(&&*mark.name) || function.starts_with(&mark.name),
            "{mark:?} is not at {function}"
        );
    }
    let mut marks: Vec<_> = marks.into_iter().map(|mark| (mark.name, mark.calls)).collect();
    marks.sort();
    let once = ["around", "first", "first", "fmt", "free", "function", "in cfg_attr", "inside", "its own", "method"];
    let once = [&once[..], &["named", "second"]].concat();
    let once: Vec<_> = once.into_iter().map(|name| (name.to_owned(), 1)).collect();
    let others = [("sum".to_owned(), 2), ("third".to_owned(), 1)];
    assert_eq!(marks, [&once[..], &others].concat());
}
