//! Marked async functions of many forms. Each behaves as the unmarked one, without a warning under the strictest lints.

#![forbid(unsafe_code)]
#![deny(warnings, clippy::pedantic, rust_2018_idioms)]

#[path = "../executor/mod.rs"]
mod executor;
mod compositions;
// With this path, its modules are beside it.
#[path = "forms.rs"]
mod forms;

use std::cell::Cell;
use std::future::ready;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::rc::Rc;

use executor::{once, run};
use forms::{Load, Point, Store, Table};

#[test]
fn lifetimes_are_those_of_the_unmarked_function() {
    let text = String::from(" text ");
    let trimmed = {
        let other = String::from("other");
        assert_eq!(run(forms::named(&text, &other)), " text ");
        run(forms::named(run(forms::elided(&text)), &other))
    };
    assert_eq!(trimmed, "text");
    let mut words = vec!["one"];
    *run(forms::two(&mut words, "two")) = "three";
    assert_eq!(words, ["three", "two"]);
    let kept: &'static str = run(forms::of_static(1));
    assert_eq!(kept, "one");
    assert_eq!(run(forms::anonymous("a,b".split(','))), ["a", "b"]);
    assert_eq!(run(forms::functions(str::trim, |text| &text[1..], &text)), "ext");
    assert_eq!(run(forms::unnamed_in_results("abc")).map_or(0, Iterator::count), 3);
    assert!(run(forms::unnamed_in_results("")).is_err());
}

#[test]
fn arguments_are_bound_as_in_the_unmarked_function() {
    assert_eq!(run(forms::of_traits(1_u8, "a")), "1a");
    let strings = ["a", "b", "c"].map(String::from);
    let point = Point { x: 1, y: (2, 3) };
    let shown = run(forms::patterns(point, strings, &(4, "d".into()), (5, 6), vec![7], 8..9));
    assert_eq!(shown, "a c d [7, 3, 8, 9, 4] (5, 6)");
    assert_eq!(run(forms::without_spaces(&1, 2, &(3, 0), 4..5, &[])), 10);
    assert_eq!(run(Rc::new(forms::Spaceless(2)).get(&3)), 6);
    assert_eq!(run(forms::attributes(1, 0, 0, 0, (2, 0))), 3);
}

#[test]
fn generic_parameters_are_kept() {
    assert_eq!(run(forms::generic(&[1, 2], 3)), [3, 6]);
    assert_eq!(run(forms::braces(forms::Bytes([0; 2]), forms::Bytes([0; 3]))).0, [5; 4]);
}

#[test]
fn results_are_inferred_and_coerced_as_in_the_unmarked_function() {
    run(forms::nothing());
    run(forms::early(0));
    run(forms::early(1));
    assert_eq!((run(forms::iterator(0)).count(), run(forms::iterator(5)).sum::<u32>()), (2, 10));
    let (function, list) = run(forms::parts("1")).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((function(1), list.map(|list| list[0].to_string())), (2, Some("1".into())));
    assert!(run(forms::parts("x")).is_err());
    let shown = [0, 1, 2].map(|which| format!("{:?}", run(forms::coerced(which))));
    assert_eq!(shown, ["\"text\"", "1", "[2.0]"]);
    assert_eq!((run(forms::slices(true)).len(), run(forms::slices(false)).len()), (0, 2));
    assert_eq!(run(forms::boxed_function(1))("abc"), 4);
    let errors = ["x", "10", "9"].map(|text| run(forms::inferred_error(text)).map_err(|error| error.to_string()));
    assert_eq!(
        errors,
        [Err("invalid digit found in string"), Err("too large"), Err("almost")].map(|it| it.map_err(String::from))
    );
    assert_eq!(run(forms::inferred_error("8")).ok(), Some(8));
    assert_eq!((run(forms::inferred_integer()), run(forms::defaulted(PhantomData::<u16>))), (10, (0, 0)));
    assert_eq!((run(forms::option(&["abc"])), run(forms::option(&[]))), (Some(3), None));
    assert_eq!(run(forms::never_fails(1)), Ok(1));
    assert!(catch_unwind(AssertUnwindSafe(|| run(forms::never(true)))).is_err());
    assert!(once(pin!(forms::never(false))).is_pending());
}

#[test]
fn bodies_behave_as_in_the_unmarked_function() {
    assert_eq!((run(forms::closures_and_blocks(1)), run(forms::closures_and_blocks(0))), (6, 2));
    assert_eq!(run(async { forms::gives_a_future(3).await.await }), 3);
    assert_eq!((run(forms::of_many_attributes(&vec![])), run(forms::waits_for_nothing())), (1, 1));
    let (called_from, location) = run(forms::located());
    assert_eq!(called_from, location, "the location inside the body");
    assert_eq!(run(forms::names(0, 10, 100, 1_000, 10_000)), 11_111);
    let lengths = [0, 1].map(|number| run(forms::temporaries("ab".to_owned().into(), (number.into(), 0))));
    assert_eq!(lengths, [2, 3]);
    assert_eq!((run(forms::by_macro(1, (2, 3), 10)), run(forms::by_block(1))), (111, 2));
}

#[test]
fn methods_keep_their_receivers() {
    let mut table = run(Table::new([1, 2]));
    assert_eq!(run(table.by_reference(1)), Some(&2));
    run(table.by_mutable()).push(5);
    assert_eq!(run(table.of_lifetime("")), [1, 2, 1, 5]);
    run(table.unused());
    let table = run(table.by_value(6));
    assert_eq!(run(table.clone().temporary()), 1);
    assert_eq!(run(Rc::new(table.clone()).counted()), 1);
    assert_eq!(run(Box::new(table).boxed()), [1, 2, 1, 5, 6]);
}

#[test]
fn trait_methods_may_be_marked_in_traits_and_in_impls() {
    let mut table = Table(vec![3]);
    assert_eq!((run(table.load_default()), run(table.declared()), run(Table::of_type(1))), (Some(3), 1, 2));
    run(table.store_all(vec![1_u32, 2]));
    run(run(table.store(4_u8)).store(5_u8));
    assert_eq!(table.0, [3, 1, 2, 4, 5]);
}

#[test]
fn futures_are_send_where_unmarked_ones_are() {
    fn is_send<T: Send>(value: T) -> T {
        value
    }
    let count = Rc::new(Cell::new(7));
    assert_eq!(run(forms::stays(Rc::clone(&count))), 7);
    assert_eq!(run(is_send(forms::may_leave("a".into(), "b"))), 2);
    assert_eq!(run(is_send(forms::as_its_argument(1))), 1);
    assert_eq!(run(forms::as_its_argument(count)).get(), 7);
    let table = Table(vec![1]);
    assert_eq!(run(is_send(Load::declared(&table))), 1);
    assert_eq!(run(is_send(table.by_reference(0))), Some(&1));
    let pinned = Box::pin(ready(forms::may_leave("a".into(), "b")));
    assert_eq!(run(async { pinned.await.await }), 2);
}
