//! `generic` gives each type of a generic function a row of its own.

use std::collections::BTreeMap;
use std::pin::pin;

use perfmark::{perfmark, region};

use crate::executor::once;
use crate::marks_of;

#[perfmark(time, generic)]
fn sum<T: Copy + Into<f64>>(values: &[T]) -> f64 {
    values.iter().map(|&value| value.into()).sum()
}

#[perfmark(time)]
fn together<T: Default>() -> T {
    T::default()
}

struct Table<T>(T);

#[perfmark(time, generic)]
impl<T: Clone> Table<T> {
    fn get<const N: usize>(&self) -> [T; N] {
        std::array::from_fn(|_| self.0.clone())
    }

    async fn later(&self) -> T {
        std::future::ready(self.0.clone()).await
    }
}

trait Shape {
    #[perfmark(time, generic, name = "shape's area", every = 2)]
    fn area(&self) -> u32 {
        1
    }
}

impl Shape for u8 {}
impl Shape for Table<bool> {}

#[perfmark(time, generic)]
fn never_called<T>(value: T) -> T {
    value
}

fn in_a_region<T>(value: T) -> T {
    region!("region", time, generic, { value })
}

#[test]
fn each_type_of_a_generic_function_has_its_own_row() {
    for n in 0..3_u8 {
        assert!(sum(&[n]) < 3.0 && sum(&[f32::from(n)]) < 3.0);
    }
    assert!(sum(&[1_u8, 2]) > 2.9);
    assert_eq!((together::<u8>(), together::<bool>()), (0, false));
    assert_eq!((Table(7_u8).get::<2>(), Table('a').get::<3>()), ([7, 7], ['a', 'a', 'a']));
    assert!(once(pin!(Table("x").later())).is_ready());
    assert_eq!((1_u8.area(), 2_u8.area(), Table(true).area()), (1, 1, 1));
    assert_eq!((in_a_region(1_u8), in_a_region('b')), (1, 'b'));
    assert_eq!(std::thread::spawn(|| 3_u8.area()).join().ok(), Some(1));
    if cfg!(feature = "record") {
        let _ = never_called::<u8>;
    } else {
        assert_eq!(never_called(1), 1);
        return;
    }
    let marks = marks_of(module_path!()).into_iter();
    let rows: BTreeMap<_, _> = marks.map(|mark| ((mark.path, mark.name), mark.calls)).collect();
    let row = |path: &str, name: &str, calls| ((path.to_owned(), name.to_owned()), calls);
    let expected = [
        row("attribute::types::sum<u8>", "sum<u8>", 4),
        row("attribute::types::sum<f32>", "sum<f32>", 3),
        row("attribute::types::together", "together", 2),
        row("attribute::types::Table<u8>::get<2>", "get<2>", 1),
        row("attribute::types::Table<char>::get<3>", "get<3>", 1),
        row("attribute::types::Table<&str>::later", "later", 1),
        row("<u8 as attribute::types::Shape>::area", "shape's area", 3),
        row("<attribute::types::Table<bool> as attribute::types::Shape>::area", "shape's area", 1),
        row("attribute::types::in_a_region<u8>", "region<u8>", 1),
        row("attribute::types::in_a_region<char>", "region<char>", 1),
        row("attribute::types::never_called", "never_called", 0),
    ];
    assert_eq!(rows, BTreeMap::from(expected));
}
