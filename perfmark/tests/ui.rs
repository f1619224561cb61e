//! The compiler's messages to users of the attribute, word for word.

#[cfg(perfmark_ui)]
#[path = "../../perfmark-rdpmc/tests/compiler/mod.rs"]
mod compiler;

#[cfg(not(perfmark_ui))]
#[test]
#[ignore = "requires RUSTFLAGS=\"--cfg perfmark_ui\", for its dependencies"]
fn errors_point_at_what_the_user_wrote() {}

#[cfg(perfmark_ui)]
mod messages {
    use std::path::Path;
    use std::process::Command;
    use std::{env, fs};

    use super::compiler;

    /// The rustc that wrote `ui/*.stderr`. Others may word and draw their own messages differently.
    const RECORDED: &str = "1.95.0";

    /// Files with messages of rustc alone, except for those of proc macros.
    const OF_RUSTC: [&str; 3] = ["async_body.rs", "async_unused.rs", "body.rs"];

    #[test]
    fn errors_point_at_what_the_user_wrote() {
        if !Path::new(env!("CARGO")).exists() {
            println!("skipped: there is no cargo here, as in the machine with a PMU");
            return;
        }
        let this = compiler::version();
        if this == RECORDED {
            return trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
        }
        println!(
            "only perfmark's messages are checked: the others are those of rustc {RECORDED}; this is rustc {this}"
        );
        let copy = Path::new(env!("CARGO_TARGET_TMPDIR")).join("ui");
        _ = fs::remove_dir_all(&copy);
        let copied = Command::new("cp").args(["-r", "tests/ui"]).arg(&copy).status().expect("it starts");
        assert!(copied.success(), "{copied}");
        // SAFETY: this is the only test of the process, and no other thread uses the environment.
        unsafe { env::set_var("TRYBUILD", "overwrite") };
        trybuild::TestCases::new().compile_fail(copy.join("*.rs"));
        for file in fs::read_dir("tests/ui").expect("it can be read").map(|file| file.expect("it can be read").path()) {
            if file.extension().is_some_and(|extension| extension == "stderr") {
                let name = file.file_name().expect("it has a name");
                assert_eq!(messages(&copy.join(name)), messages(&file));
            }
        }
    }

    /// The messages of perfmark, each with the location that it points at.
    fn messages(stderr: &Path) -> Vec<[String; 2]> {
        let text = fs::read_to_string(stderr).expect("it can be read");
        let lines = text.lines().zip(text.lines().skip(1));
        // rustc's errors have codes, and its lints are in other files.
        let errors = lines.filter(|(line, _)| line.starts_with("error: "));
        let file_of = |location: &str| location.rsplit('/').next().unwrap_or_default().to_owned();
        let located = errors.map(|(error, location)| [error.to_owned(), file_of(location)]);
        located.filter(|[_, location]| !OF_RUSTC.iter().any(|file| location.starts_with(file))).collect()
    }
}
