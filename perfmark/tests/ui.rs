//! What the compiler tells a user of the attribute, word for word.

#[test]
fn errors_stand_where_the_user_wrote_what_is_wrong() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
