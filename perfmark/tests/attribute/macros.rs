//! Functions that `macro_rules` make.

use perfmark::{perfmark, region};

/// Has a fragment in each position.
macro_rules! from_parts {
    (
        $(#[$attribute:meta])*
        $visibility:vis fn $name:ident <$lifetime:lifetime>
        ($pattern:pat_param, $type:ty; $more:ident: &str) -> $result:ty $body:block
    ) => {
        $(#[$attribute])*
        #[perfmark(time)]
        $visibility fn $name<$lifetime>($pattern: $type, $more: &str) -> $result $body
    };
}

from_parts! {
    #[must_use]
    pub(crate) fn in_parts<'a>((a, _), (&'a str, u8); more: &str) -> &'a str {
        a.strip_prefix(more).unwrap_or(a)
    }
}

from_parts! { fn private_in_parts<'a>(a, &'a u8; more: &str) -> &'a u8 { if more.is_empty() { a } else { &0 } } }

/// Takes a complete item, which is in an invisible group.
macro_rules! from_item {
    ($item:item) => {
        #[perfmark(time)]
        $item
    };
}

from_item! {
    /// Documented.
    pub(crate) fn whole(n: u8) -> u8 {
        n + 1
    }
}

from_item! {
    mod whole_module {
        pub(super) fn inside(n: u8) -> u8 {
            n + 2
        }
    }
}

/// Takes tokens as they are.
macro_rules! from_tokens {
    ($($tokens:tt)*) => {
        #[perfmark(time)]
        $($tokens)*
    };
}

from_tokens! { fn tokens<T: Into<u64>>(n: T) -> u64 { n.into() + 3 } }

macro_rules! twice {
    ($first:ident, $second:ident, $event:ident, $name:literal, $every:literal, $krate:path) => {
        #[perfmark($event, name = $name, every = $every, crate = $krate)]
        fn $first() -> &'static str {
            $name
        }

        #[perfmark("instructions", $event, crate = $crate::macros::exported)]
        fn $second() -> &'static str {
            stringify!($second)
        }
    };
}

use perfmark as exported;

twice!(first, second, time, "by twice", 1, crate::macros::exported);

/// Makes methods.
macro_rules! getters {
    ($($name:ident: $type:ty = $value:expr),+ $(,)?) => {
        $(
            #[perfmark(time)]
            fn $name(&self) -> $type {
                self.0 + $value
            }
        )+
    };
}

struct Number(u8);

impl Number {
    getters!(one: u8 = 1, two: u8 = 1 + 1,);
}

/// A body from outside conflicts with no name of the expansion, and with none of the macro.
macro_rules! with_body {
    ($name:ident, $argument:ident, $($body:tt)*) => {
        #[perfmark(time)]
        fn $name($argument: u8) -> u8 {
            let hidden = 7;
            let _ = hidden;
            $($body)*
        }
    };
}

with_body!(body, n, {
    let hidden = n;
    hidden + 1
});

macro_rules! regions {
    ($name:literal, $block:block) => {
        region!($name, time, $block)
    };
    ($name:literal, expression $value:expr) => {
        region!($name, time, { $value })
    };
}

macro_rules! function_of_block {
    ($name:ident $block:block) => {
        #[perfmark(time)]
        fn $name() -> u8 $block
    };
}

function_of_block!(of_block {
    let one = 1;
    2 * one
});

struct Blocks;

macro_rules! functions_of_blocks {
    ($block:block) => {
        #[perfmark(time)]
        impl Blocks {
            fn third() -> u8 $block
            const fn unmarked() -> u8 $block
            fn fourth() -> u8 $block
        }
    };
}

functions_of_blocks!({ 1 });

#[test]
fn functions_made_by_macros_behave_as_before() {
    assert_eq!((in_parts(("a", 1), ""), private_in_parts(&1, "")), ("a", &1));
    assert_eq!((whole(1), whole_module::inside(1), tokens(1_u8)), (2, 3, 4));
    assert_eq!((first(), second()), ("by twice", "second"));
    assert_eq!((Number(1).one(), Number(1).two(), body(1), of_block()), (2, 3, 2, 2));
    assert_eq!(Blocks::third() + Blocks::unmarked() + Blocks::fourth(), 3);
    assert_eq!(regions!("of a block", { 1 }) + regions!("of an expression", expression 2), 3);
    crate::assert_calls(&[
        ("macros::in_parts", 1),
        ("macros::private_in_parts", 1),
        ("macros::whole", 1),
        ("macros::whole_module::inside", 1),
        ("macros::tokens", 1),
        ("macros::first", 1),
        ("macros::second", 1),
        ("macros::Number::one", 1),
        ("macros::Number::two", 1),
        ("macros::body", 1),
        ("macros::of_block", 1),
        ("macros::Blocks::third", 1),
        ("macros::Blocks::fourth", 1),
    ]);
}
