//! Without the feature `record`, and with `--cfg perfmark_off`, a marked function is the function as written: its assembly is the same to the last
//! instruction.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// How it is built.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Build {
    Unmarked,
    /// With marks, and without the feature.
    Marked,
    /// With both, and switched off all the same.
    Silenced,
}

/// The assembly of `off/lib.rs`.
fn assembly(build: Build) -> String {
    let (name, has_feature, flags) = match build {
        Build::Unmarked => ("unmarked", false, ""),
        Build::Marked => ("marked", false, "--cfg marked"),
        Build::Silenced => ("silenced", true, "--cfg marked --cfg perfmark_off"),
    };
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).expect("a folder");
    let manifest = format!(
        "[package]\nname = \"off\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[lib]\npath = '{}'\n\n\
         [dependencies]\nperfmark = {{ path = '{}', default-features = {has_feature} }}\n\n[workspace]\n",
        here.join("tests/off/lib.rs").display(),
        here.display(),
    );
    fs::write(folder.join("Cargo.toml"), manifest).expect("written");
    fs::copy(here.join("../Cargo.lock"), folder.join("Cargo.lock"))
        .expect("the lock file, so that nothing is downloaded");
    let status = Command::new(env!("CARGO"))
        .args(["rustc", "--quiet", "--release", "--offline", "--lib", "--target-dir"])
        .arg(folder.join("target"))
        .args(["--", "--emit", "asm", "-C", "codegen-units=1", "--check-cfg", "cfg(marked)"])
        .current_dir(&folder)
        .env_remove("CARGO_BUILD_TARGET")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env("RUSTFLAGS", flags)
        .status()
        .expect("cargo runs");
    assert!(status.success());
    let outputs = fs::read_dir(folder.join("target/release/deps")).expect("built");
    let file =
        outputs.map(|entry| entry.expect("readable").path()).find(|path| path.extension().is_some_and(|it| it == "s"));
    let text = fs::read_to_string(file.expect("its assembly")).expect("readable");
    // That line names the compiler's own unit.
    let lines = text.lines().filter(|line| !line.trim_start().starts_with(".file"));
    lines.map(without_hashes).collect::<Vec<_>>().join("\n")
}

/// A line without the ends of symbols that tell builds apart: `17h` and 16 digits.
fn without_hashes(line: &str) -> String {
    let mut parts = line.split("17h");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |line, part| line + "17h" + part.get(16..).unwrap_or(part))
}

#[test]
fn off_means_gone() {
    if !Path::new(env!("CARGO")).exists() {
        println!("skipped: there is no cargo here, as in the machine with a PMU");
        return;
    }
    let unmarked = assembly(Build::Unmarked);
    for name in ["checksum", "parse", "find", "drive"] {
        assert!(unmarked.contains(&format!("\n{name}:")), "{name} is there");
    }
    assert_eq!(assembly(Build::Marked), unmarked);
    assert_eq!(assembly(Build::Silenced), unmarked);
}
