//! The compiler's messages to users of the attribute, word for word.

#[test]
fn errors_point_at_what_the_user_wrote() {
    if !std::path::Path::new(env!("CARGO")).exists() {
        println!("skipped: there is no cargo here, as in the machine with a PMU");
        return;
    }
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
