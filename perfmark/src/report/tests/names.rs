//! Names of marks: what people call them, distinct, and accepted by filters.

use super::sample::{self, mark};
use crate::report::View;
use crate::report::table::render;
use crate::settings::Filter;
use crate::snapshot::Mark;
use crate::snapshot::names::names;

fn at(number: u32, (name, path): &(&str, &str)) -> Mark {
    Mark { path: (*path).to_owned(), file: "a.rs".to_owned(), line: number + 1, ..mark(name, 1) }
}

fn names_of(marks: &[(&str, &str)]) -> Vec<String> {
    names(&marks.iter().zip(0..).map(|(one, number)| at(number, one)).collect::<Vec<_>>())
}

#[test]
fn a_function_has_its_name_and_a_method_that_of_its_type_too() {
    for (name, path, expected) in [
        ("parse", "app::parser::parse", "parse"),
        ("insert", "app::Tree<_>::insert", "Tree::insert"),
        ("next", "<app::Iter<'_> as core::iter::traits::iterator::Iterator>::next", "Iter::next"),
        ("hash", "<u8 as app::Hash>::hash", "u8::hash"),
        ("load", "app::io::<impl app::Load for app::Table>::load", "Table::load"),
        ("load", "<_ as app::Load>::load", "<_ as Load>::load"),
        ("load", "<&_ as app::Load>::load", "<&_ as Load>::load"),
        ("sort", "app::Tree<u8>::insert", "sort"),
        ("helper", "app::Tree<u8>::insert::helper", "helper"),
        ("sum<u32>", "app::sum<u32>", "sum"),
        ("app", "app::app", "app"),
    ] {
        assert_eq!(names_of(&[(name, path)]), [expected], "{path}");
    }
}

#[test]
fn namesakes_have_as_much_of_their_paths_as_differs() {
    for (marks, expected) in [
        ([("next", "wire::Parser::next"), ("next", "wire::lexer::next")], ["Parser::next", "lexer::next"]),
        ([("next", "wire::next"), ("next", "wire::Parser::next")], ["wire::next", "Parser::next"]),
        ([("next", "wire::a::It::next"), ("next", "wire::b::It::next")], ["a::It::next", "b::It::next"]),
        ([("f", "w::P<core::X>::f"), ("f", "w::P<core::Y>::f")], ["P<X>::f", "P<Y>::f"]),
        ([("f", "w::P<a::X>::f"), ("f", "w::P<b::X>::f")], ["P<a::X>::f", "P<b::X>::f"]),
        ([("f", "<w::T as w::A>::f"), ("f", "<w::T as w::B>::f")], ["<T as A>::f", "<T as B>::f"]),
        ([("sum<u8>", "w::sum<u8>"), ("sum<i8>", "w::sum<i8>")], ["sum<u8>", "sum<i8>"]),
        ([("hot", "w::a::f"), ("hot", "w::b::f")], ["a::f::hot", "b::f::hot"]),
        ([("f", "w::f"), ("g", "w::f::g")], ["f", "g"]),
        ([("w", "w::w"), ("g", "w::w::g")], ["::w::w", "g"]),
        ([("f", "w::f"), ("f", "x::w::f")], ["::w::f", "x::w::f"]),
        ([("f", "w::f"), ("f", "w::f")], ["w::f (a.rs:1)", "w::f (a.rs:2)"]),
    ] {
        assert_eq!(names_of(&marks), expected, "{marks:?}");
    }
}

/// Each name as a filter selects its mark and no other, if any filter can tell the mark from the others.
fn check(marks: &[Mark]) {
    let names = names(marks);
    for (mark, name) in marks.iter().zip(&names) {
        let alike = |other: &&Mark| other.target() == mark.target();
        let has_wildcard = mark.target().contains(['*', '?']);
        if marks.iter().filter(alike).count() > 1
            || crate::text::sanitize(&mark.target()) != mark.target()
            || has_wildcard
        {
            continue;
        }
        // Characters of the language are escaped, as `Display` does it.
        let filter: Filter = Filter::default().on(name).to_string().parse().expect("a filter");
        let selected: Vec<String> = marks.iter().filter(|mark| filter.has_mark(mark)).map(Mark::target).collect();
        assert_eq!(selected, [mark.target()], "{name}");
    }
    let distinct: std::collections::BTreeSet<&String> = names.iter().collect();
    assert_eq!(distinct.len(), names.len(), "{names:?}");
}

#[test]
fn each_name_is_a_filter_that_selects_its_mark() {
    for snapshot in sample::nasty().iter().chain([&sample::typical(), &sample::flagged()]) {
        // Empty patterns match all marks.
        let marks: Vec<Mark> =
            snapshot.marks.iter().filter(|mark| !mark.target().is_empty()).take(60).cloned().collect();
        check(&marks);
    }
    let mut state = 1_u64;
    let mut any = move |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let modules = ["a", "b", "a::b", "b::a", "f", "a::T"];
    let types = ["T", "U", "T<u8>", "T<a::U, b::U>", "T<fn(u8) -> a::U>", "f"];
    for _ in 0..400 {
        let mut marks = Vec::new();
        for number in 0..=u32::try_from(any(24)).unwrap_or(0) {
            let (module, of_type) = (modules[any(6)], types[any(6)]);
            let name = ["f", "g", "T", "a"][any(4)];
            let path = match any(6) {
                0 => format!("{module}::{name}"),
                1 => format!("{module}::{of_type}::{name}"),
                2 => format!("<{module}::{of_type} as {}::Tr<u8>>::{name}", modules[any(6)]),
                3 => format!("{module}::{name}::f"),
                4 => format!("a::<impl {module}::{of_type}>::{name}"),
                _ => format!("{module}::{name}<{}::{}>", modules[any(6)], types[any(6)]),
            };
            let name = ["f", "sort", crate::snapshot::path::end(&path, 1)][any(3)].to_owned();
            marks.push(at(number, &(&name, &path)));
        }
        check(&marks);
    }
}

#[test]
fn rows_are_distinct_at_any_width() {
    let long = |text: &str| format!("{text}_{}", "of_a_rather_long_name".repeat(4));
    let mut marks: Vec<Mark> = (0..60)
        .map(|number| {
            let path = format!("app::{}::{}", long(&format!("m{}", number % 7)), long(&format!("f{}", number / 7)));
            at(number, &(crate::snapshot::path::end(&path, 1), &path))
        })
        .collect();
    for (mark, number) in marks.iter_mut().zip(0..) {
        mark.values = vec![sample::values("time", 1, 1_000 + number)];
    }
    let snapshot =
        sample::snapshot(&[sample::event("time", crate::snapshot::Unit::Ns, crate::snapshot::Read::Ticks)], &marks);
    for columns in [80, 100, 120, 200] {
        for details in [None, Some(Filter::default())] {
            let text = render(&snapshot, &View { top: usize::MAX, details, ..View::new(columns) });
            for table in text.split("\ndetails ") {
                let rows = table.lines().filter_map(|line| line.split_once(' ').map(|(name, _)| name));
                let rows: Vec<&str> = rows.filter(|name| name.contains('…')).collect();
                let distinct: std::collections::BTreeSet<&&str> = rows.iter().collect();
                assert!(rows.len() == distinct.len() && [0, 60].contains(&rows.len()), "{columns}: {text}");
            }
        }
    }
}
