//! Whether a process is a program of `cargo test`.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use crate::snapshot::origin::{has_hash, is_hash};

/// Whether this process is a program of `cargo test`, by its arguments, of which the first is its path.
///
/// Cargo builds programs of tests and benchmarks as `deps/name-0123456789abcdef`, or in the new layout of its build
/// directory (`-Zbuild-dir-new-layout`) as `build/package/0123456789abcdef/out/name`. It starts benchmarks with
/// `--bench`. rustdoc builds programs of documentation as `rust_out`.
pub(super) fn is_test(mut arguments: impl Iterator<Item = OsString>) -> bool {
    let Some(program) = arguments.next().map(PathBuf::from) else { return false };
    let Some(name) = program.file_stem().and_then(OsStr::to_str) else { return false };
    let folders: Vec<&str> = program.ancestors().skip(1).map_while(|folder| folder.file_name()?.to_str()).collect();
    let is_built_for_test = match folders[..] {
        ["deps", ..] => has_hash(name),
        ["out", hash, _, "build", ..] => is_hash(hash),
        _ => false,
    };
    name == "rust_out" || is_built_for_test && !arguments.any(|argument| argument == "--bench")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_recognized_by_where_cargo_builds_them() {
        let is_test = |arguments: &str| is_test(arguments.split(' ').map(OsString::from));
        for test in [
            "target/debug/deps/app-0123456789abcdef",
            "/a/target/release/deps/app-0123456789abcdef --nocapture",
            "/a/target/debug/build/app/345dd79642c0f60b/out/app-345dd79642c0f60b",
            "/a/target/debug/build/app/345dd79642c0f60b/out/app",
            "/tmp/rustdoctest/rust_out",
        ] {
            assert!(is_test(test), "{test}");
        }
        for other in [
            "target/debug/app",
            "target/debug/deps/app",
            "target/debug/deps/app-0123456789abcdef --bench",
            "/usr/bin/app-0123456789abcdef",
            "/home/out/app",
            "/home/345dd79642c0f60b/app/build/out/app",
            "app",
            "",
        ] {
            assert!(!is_test(other), "{other}");
        }
    }
}
