//! Names of the prelude and of the standard library that mean something else near a mark.

mod types {
    #![expect(dead_code, non_camel_case_types, reason = "the expansion must not use them")]

    pub(super) struct Option;
    pub(super) struct Some;
    pub(super) struct None;
    pub(super) struct Result;
    pub(super) struct Ok;
    pub(super) struct Box;
    pub(super) struct Vec;
    pub(super) struct String;
    pub(super) struct str;
    pub(super) struct bool;
    pub(super) struct u32;
    pub(super) struct u64;
    pub(super) struct Mark;
    pub(super) struct Guard;
    pub(super) trait Drop {}
    pub(super) trait Fn {}
    pub(super) trait Default {}
    pub(super) trait Sync {}
    pub(super) trait Send {}
    pub(super) trait Sized_ {}

    #[perfmark::perfmark(time, every = 3, fence)]
    pub(super) fn marked() -> usize {
        perfmark::region!("shadowed types", time, { 1 })
    }

    #[perfmark::perfmark]
    pub(super) fn marked_with_defaults() -> usize {
        perfmark::region!("shadowed types, defaults", { 1 })
    }
}

mod values {
    #![expect(dead_code, reason = "the expansion must not use them")]

    pub(super) mod core {}
    pub(super) mod std {}
    pub(super) mod alloc {}
    pub(super) mod inventory {}
    pub(super) mod private {}
    pub(super) fn drop() {}
    pub(super) fn enter() {}
    pub(super) fn here() {}
    pub(super) const MARK: () = ();

    #[::perfmark::perfmark(time)]
    pub(super) fn marked() -> usize {
        ::perfmark::region!("shadowed values", time, { 2 })
    }
}

mod macros {
    #![expect(unused_macros, reason = "the expansion must not use them")]

    macro_rules! concat(() => {});
    macro_rules! file(() => {});
    macro_rules! line(() => {});
    macro_rules! stringify(() => {});
    macro_rules! mark(() => {});
    macro_rules! guard(() => {});
    macro_rules! submit(() => {});
    macro_rules! perfmark(() => {});

    #[::perfmark::perfmark(time)]
    pub(super) fn marked() -> usize {
        ::perfmark::region!("shadowed macros", time, { 3 })
    }
}

mod crates {
    /// Has the crate's name.
    mod perfmark {
        pub(super) mod private {}
    }

    #[::perfmark::perfmark(time)]
    pub(super) fn marked() -> usize {
        ::perfmark::region!("shadowed crates", time, { 4 })
    }
}

mod in_the_body {
    #[::perfmark::perfmark(time)]
    pub(super) fn marked() -> usize {
        #![expect(dead_code, unused_macros, reason = "the expansion must not use them")]
        mod core {}
        mod perfmark {}
        struct Option;
        macro_rules! file(() => {});
        fn drop() {}
        fn here() {}
        static MARK: u8 = 5;
        MARK.into()
    }

    /// The body's items have the name of the result's type, and of the path of the crate.
    #[::perfmark::perfmark(time, crate = perfmark)]
    pub(super) fn used_by_the_expansion() -> Option<u8> {
        mod perfmark {}
        type Option = std::option::Option<u8>;
        Option::Some(7)
    }

    #[::perfmark::perfmark(time, crate = perfmark)]
    pub(super) fn used_by_the_guard() -> impl Into<Option<u8>> {
        mod perfmark {}
        8
    }

    /// Has type parameters with these names.
    #[::perfmark::perfmark(time)]
    pub(super) fn generic<Option, Mark, Guard, Registered>(_: (Option, Mark, Guard, Registered)) -> usize {
        6
    }
}

#[test]
fn marks_never_use_shadowed_names() {
    assert_eq!([types::marked(), types::marked_with_defaults(), values::marked()], [1, 1, 2]);
    assert_eq!([macros::marked(), crates::marked(), in_the_body::marked()], [3, 4, 5]);
    assert_eq!(in_the_body::generic((1, 2, 3, 4)), 6);
    assert_eq!((in_the_body::used_by_the_expansion(), in_the_body::used_by_the_guard().into()), (Some(7), Some(8)));
    crate::assert_calls(&[
        ("shadows::types::marked", 1),
        ("shadows::types::marked_with_defaults", 1),
        ("shadows::values::marked", 1),
        ("shadows::macros::marked", 1),
        ("shadows::crates::marked", 1),
        ("shadows::in_the_body::marked", 1),
        ("shadows::in_the_body::used_by_the_expansion", 1),
        ("shadows::in_the_body::used_by_the_guard", 1),
        ("shadows::in_the_body::generic", 1),
    ]);
}
