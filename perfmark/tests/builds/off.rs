//! Without the feature `record`, and with `--cfg perfmark_off`, a marked function is the function as written. Its
//! assembly is the same to the last instruction, and the compiler warns of nothing.

use std::fs;

use crate::project;

/// How the crate is built.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Build {
    Unmarked,
    /// With marks, and without the feature.
    Marked,
    /// With marks and the feature, but switched off.
    Silenced,
}

/// The assembly of `off/lib.rs`. None without cargo.
fn assembly(build: Build) -> Option<String> {
    let (name, has_feature, flags) = match build {
        Build::Unmarked => ("unmarked", false, "-D warnings"),
        Build::Marked => ("marked", false, "-D warnings --cfg marked"),
        Build::Silenced => ("silenced", true, "-D warnings --cfg marked --cfg perfmark_off"),
    };
    let here = project::here();
    let package = project::package("off", "2024", "[lib]", &here.join("tests/off/lib.rs"));
    let manifest = format!(
        "{package}\n[dependencies]\nperfmark = {{ path = '{}', default-features = {has_feature} }}\n\n[workspace]\n\n\
         # Of perfmark, only what is inlined is compared.\n[profile.release.package.\"*\"]\nopt-level = 0\n",
        here.display(),
    );
    let target = project::target_folder(name).join("target");
    let outputs = || {
        let outputs = fs::read_dir(target.join("release/deps")).into_iter().flatten();
        let outputs = outputs.map(|output| output.expect("readable").path());
        outputs.filter(|output| output.file_stem().is_some_and(|name| name.to_string_lossy().contains("off-")))
    };
    // Another compiler, or other flags, give the outputs other names, and cargo keeps the earlier ones.
    outputs().for_each(|output| fs::remove_file(output).expect("there"));
    let status = project::cargo(name, &[("", manifest)])?
        .args(["rustc", "--quiet", "--release", "--lib", "--target-dir"])
        .arg(&target)
        .args(["--", "--emit", "asm", "-C", "codegen-units=1", "--check-cfg", "cfg(marked)"])
        .env("RUSTFLAGS", flags)
        .status()
        .expect("cargo runs");
    assert!(status.success(), "{status}");
    let file = outputs().find(|output| output.extension().is_some_and(|extension| extension == "s"));
    let text = fs::read_to_string(file.expect("its assembly")).expect("readable");
    // This line names the compiler's own unit.
    let lines = text.lines().filter(|line| !line.trim_start().starts_with(".file"));
    Some(lines.map(without_hashes).collect::<Vec<_>>().join("\n"))
}

/// A line without the hashes by which the symbols of builds differ: `17h` and 16 digits.
fn without_hashes(line: &str) -> String {
    let mut parts = line.split("17h");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |line, part| line + "17h" + part.get(16..).unwrap_or(part))
}

#[test]
fn switched_off_marks_leave_no_code() {
    let Some(unmarked) = assembly(Build::Unmarked) else { return };
    for name in ["checksum", "parse", "find", "drive"] {
        assert!(unmarked.contains(&format!("\n{name}:")), "{name} is compiled");
    }
    assert_eq!(assembly(Build::Marked).as_ref(), Some(&unmarked));
    assert_eq!(assembly(Build::Silenced), Some(unmarked));
}
