//! What the compiler tells a user of the attribute, word for word.

#[test]
fn errors_stand_where_the_user_wrote_what_is_wrong() {
    if !std::path::Path::new(env!("CARGO")).exists() {
        println!("skipped: there is no cargo here, as in the machine with a PMU");
        return;
    }
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
