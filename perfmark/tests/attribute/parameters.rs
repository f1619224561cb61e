//! Arguments: patterns, attributes on them, and names that the expansion could use itself.

use perfmark::perfmark;

struct Point {
    x: i32,
    y: i32,
}

#[perfmark(time)]
fn destructured(Point { x, y: mut height, .. }: Point, (a, [first, .., last]): (i32, [i32; 4])) -> [i32; 5] {
    height += 1;
    [x, height, a, first, last]
}

#[perfmark(time)]
#[expect(
    clippy::needless_pass_by_value,
    clippy::toplevel_ref_arg,
    clippy::trivially_copy_pass_by_ref,
    reason = "a test"
)]
fn ignored(_: u32, _unused: &str, &kept: &u8, ref by: String, mut own: Vec<u8>) -> Vec<u8> {
    own.push(kept);
    own.extend(by.bytes());
    own
}

#[perfmark(time)]
#[expect(clippy::trivially_copy_pass_by_ref, reason = "a test")]
fn nested_binding(whole @ &[first, ..]: &[u8; 2]) -> (u8, usize) {
    (first, whole.len())
}

#[perfmark(time)]
fn with_cfg(
    #[cfg(any())] absent: Absent,
    #[cfg(not(any()))] present: u8,
    #[cfg_attr(all(), expect(unused_variables, reason = "a test"))] unused: u8,
) -> u8 {
    present
}

#[perfmark(time)]
fn never_called_with(#[expect(unused_variables, reason = "a test")] unused: u8) {}

/// Has names of the expansion.
#[perfmark(time, name = "names")]
#[expect(clippy::used_underscore_binding, reason = "a test")]
fn names(_perfmark: u8, perfmark: u8, guard: u8, mark: u8, here: u8, call: u8) -> u8 {
    const MARK: u8 = 1;
    let private = MARK;
    _perfmark + perfmark + guard + mark + here + call + private
}

/// Raw identifiers, and words that are keywords elsewhere.
#[perfmark(time)]
fn r#match(r#type: u8, union: u8, auto: u8, default: u8, raw: u8, safe: u8) -> u8 {
    r#type + union + auto + default + raw + safe
}

mod r#mod {
    #[perfmark::perfmark(time)]
    pub(super) fn r#fn<'r#a>(r#impl: &'r#a u8, _: &str) -> &'r#a u8 {
        r#impl
    }
}

#[perfmark(time)]
#[expect(non_snake_case, reason = "a test")]
fn größe(Größe: u8) -> u8 {
    Größe
}

#[perfmark(time)]
extern "C" fn of_c(n: i32, point: extern "system" fn(i32) -> i32) -> i32 {
    point(n)
}

#[perfmark(time)]
extern "system" fn of_the_system(n: i32) -> i32 {
    -n
}

#[perfmark(time)]
pub(in crate::parameters) extern "Rust" fn of_rust(n: i32) -> i32 {
    n
}

#[perfmark(time)]
fn trailing_comma(a: u8, b: u8) -> u8 {
    a + b
}

#[perfmark(time)]
fn zero_sized((): (), [(), ()]: [(); 2]) -> [(); 0] {
    []
}

#[test]
fn arguments_keep_their_values() {
    assert_eq!(destructured(Point { x: 1, y: 2 }, (3, [4, 5, 6, 7])), [1, 3, 3, 4, 7]);
    assert_eq!(ignored(1, "", &2, "a".to_owned(), vec![1]), [1, 2, b'a']);
    assert_eq!(nested_binding(&[3, 4]), (3, 2));
    assert_eq!(with_cfg(1, 2), 1);
    never_called_with(1);
    assert_eq!(names(1, 2, 3, 4, 5, 6), 22);
    assert_eq!(r#match(1, 2, 3, 4, 5, 6), 21);
    assert_eq!((*r#mod::r#fn(&1, ""), größe(2)), (1, 2));
    assert_eq!((of_c(1, of_the_system), of_rust(2)), (-1, 2));
    assert_eq!((trailing_comma(1, 2), zero_sized((), [(), ()])), (3, []));
    crate::assert_calls(&[
        ("parameters::destructured", 1),
        ("parameters::ignored", 1),
        ("parameters::nested_binding", 1),
        ("parameters::with_cfg", 1),
        ("parameters::never_called_with", 1),
        ("parameters::names", 1),
        ("parameters::größe", 1),
        ("parameters::of_c", 1),
        ("parameters::of_the_system", 1),
        ("parameters::of_rust", 1),
        ("parameters::trailing_comma", 1),
        ("parameters::zero_sized", 1),
    ]);
    let names: Vec<_> = perfmark::snapshot().marks.into_iter().map(|mark| mark.name).collect();
    assert!(!cfg!(feature = "record") || ["match", "fn", "größe"].iter().all(|name| names.iter().any(|it| it == name)));
}
