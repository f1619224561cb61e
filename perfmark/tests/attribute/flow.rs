//! How bodies are left, and what they contain.

use std::num::ParseIntError;
use std::ops::ControlFlow;
use std::panic::catch_unwind;
use std::process::ExitCode;

use perfmark::perfmark;

#[perfmark(time)]
fn never(why: &str) -> ! {
    panic!("{why}")
}

#[perfmark(time)]
fn never_by_a_loop() -> ! {
    let mut left = 3;
    loop {
        left -= 1;
        assert!(left > 0, "as it should");
    }
}

#[perfmark(time)]
fn question_mark(text: &str) -> Result<i32, ParseIntError> {
    let (first, second) = text.split_once('+').unwrap_or((text, "0"));
    Ok(first.parse::<i32>()? + second.parse::<i32>()?)
}

#[perfmark(time)]
fn question_mark_of_others(numbers: &[u8]) -> ControlFlow<u8, u64> {
    let mut sum = 0;
    for &number in numbers {
        (if number == 0 { ControlFlow::Break(number) } else { ControlFlow::Continue(()) })?;
        sum += u64::from(number);
    }
    ControlFlow::Continue(sum)
}

#[perfmark(time)]
fn early(n: u32) -> Option<&'static str> {
    if n == 0 {
        return None;
    }
    let Some(left) = n.checked_sub(2) else { return Some("one") };
    match left {
        0 => return Some("two"),
        1 => {}
        _ => None?,
    }
    Some("three")
}

#[perfmark(time)]
fn labels(limit: u32) -> u32 {
    let found = 'found: {
        'rows: for row in 0..limit {
            for column in 0..limit {
                if column > row {
                    continue 'rows;
                }
                if row * column == 6 {
                    break 'found Some(row + column);
                }
            }
        }
        None
    };
    let mut rounds = 0;
    found.unwrap_or_else(|| {
        'again: loop {
            rounds += 1;
            for round in 0..rounds {
                if round == 4 {
                    break 'again rounds;
                }
            }
        }
    })
}

/// The body begins with items, one of which has the function's name.
#[perfmark(time)]
fn nested(n: u64) -> u64 {
    use std::convert::identity;
    struct Twice(u64);
    impl Twice {
        fn get(&self) -> u64 {
            const TWO: u64 = { 1 } + 1;
            TWO * self.0
        }
    }
    #[perfmark(time)]
    fn inner(n: u64) -> u64 {
        fn nested(n: u64) -> u64 {
            n + 1
        }
        nested(n)
    }
    let each = |n: u64| {
        let Some(over) = n.checked_sub(10) else { return n };
        if over > 2 { 10 } else { n }
    };
    each(inner(Twice(identity(n)).get()))
}

/// Of a macro, since a lint that is forbidden here reports other items after statements.
macro_rules! kind {
    () => {
        enum Kind {
            Two = 2,
        }
        const ONE: isize = Kind::Two as isize - 1;
    };
}

/// Items at the start of the body use items that are declared later in it.
#[perfmark(time)]
fn uses_later_items() -> isize {
    use Kind::Two;
    fn one() -> isize {
        ONE
    }
    let sum = one() + Two as isize;
    kind!();
    sum
}

#[perfmark(time)]
fn uses_later_items_in_a_closure() -> impl Fn(isize) -> isize {
    use Kind::Two;
    fn one() -> isize {
        ONE
    }
    let by = one() + Two as isize;
    kind!();
    move |n| by * n
}

#[perfmark(time)]
fn recursive(n: u32) -> u32 {
    if n < 2 { n } else { recursive(n - 1) + recursive(n - 2) }
}

#[perfmark(time)]
fn unit() {}

#[perfmark(time)]
fn block_in_a_block() -> (u8, [u8; 2]) {
    {
        let two = 2;
        {
            let one = two - 1;
            (one, [two, 3])
        }
    }
}

/// The tail borrows from a local. The mark's guard does not change the order of drops.
#[perfmark(time)]
fn tail_borrows(text: &str) -> usize {
    let owned = std::cell::RefCell::new(text.to_owned());
    owned.borrow_mut().len()
}

#[perfmark(time)]
fn exit_code() -> impl std::process::Termination {
    ExitCode::SUCCESS
}

#[perfmark(time)]
fn tail_is_a_macro() -> String {
    format!("{}", 1)
}

#[perfmark(time)]
fn statements_only(list: &mut Vec<u8>) {
    list.push(1);
    let 1.. = list.len() else { unreachable!() };
    list.extend([2, 3]);
}

/// The type of its result is a macro's, and not a variable's.
macro_rules! some_type {
    () => {
        impl Iterator<Item = u8>
    };
}

#[perfmark(time)]
fn type_of_a_macro() -> some_type!() {
    [1, 2].into_iter()
}

/// The value is no name of the body, and no name around it.
mod names {
    #![expect(non_upper_case_globals, reason = "the expansion must not use it")]

    pub(super) const value: u8 = 1;
    pub(super) const begun: u8 = 2;

    #[perfmark::perfmark(time)]
    pub(super) fn constants() -> u8 {
        value + begun
    }
}

#[test]
fn results_and_names_keep_their_meaning() {
    assert_eq!((type_of_a_macro().sum::<u8>(), names::constants()), (3, 3));
    crate::assert_calls(&[("flow::type_of_a_macro", 1), ("flow::names::constants", 1)]);
}

#[test]
fn bodies_keep_their_control_flow() {
    assert!(catch_unwind(|| never("as it should")).is_err());
    assert!(catch_unwind(|| never_by_a_loop()).is_err());
    assert_eq!((question_mark("1+2"), question_mark("4")), (Ok(3), Ok(4)));
    assert!(question_mark("1+x").is_err());
    assert_eq!(question_mark_of_others(&[1, 2]), ControlFlow::Continue(3));
    assert_eq!(question_mark_of_others(&[1, 0]), ControlFlow::Break(0));
    let named = [None, Some("one"), Some("two"), Some("three"), None];
    assert_eq!([0, 1, 2, 3, 4].map(early), named);
    assert_eq!((labels(5), labels(2)), (5, 5));
    assert_eq!((nested(2), nested(9)), (5, 10));
    assert_eq!((uses_later_items(), uses_later_items_in_a_closure()(2)), (3, 6));
    assert_eq!(recursive(7), 13);
    unit();
    assert_eq!(block_in_a_block(), (1, [2, 3]));
    assert_eq!((tail_borrows("four"), tail_is_a_macro().as_str()), (4, "1"));
    let _ = exit_code();
    let mut list = vec![];
    statements_only(&mut list);
    assert_eq!(list, [1, 2, 3]);
    crate::assert_calls(&[
        ("flow::never", 1),
        ("flow::never_by_a_loop", 1),
        ("flow::question_mark", 3),
        ("flow::question_mark_of_others", 2),
        ("flow::early", 5),
        ("flow::labels", 2),
        ("flow::nested", 2),
        ("flow::nested::inner", 2),
        ("flow::uses_later_items", 1),
        ("flow::uses_later_items_in_a_closure", 1),
        ("flow::recursive", 41),
        ("flow::unit", 1),
        ("flow::block_in_a_block", 1),
        ("flow::tail_borrows", 1),
        ("flow::exit_code", 1),
        ("flow::tail_is_a_macro", 1),
        ("flow::statements_only", 1),
    ]);
}
