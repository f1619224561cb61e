//! Whether a process is a program of `cargo test`.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::snapshot::origin::has_hash;

/// Whether this process is a program of `cargo test`, by its arguments, of which the first is its path.
///
/// Cargo builds programs of tests and benchmarks as `deps/name-0123456789abcdef`, and starts benchmarks with `--bench`.
/// rustdoc builds those of documentation as `rust_out`.
pub(super) fn is_test(mut arguments: impl Iterator<Item = OsString>) -> bool {
    let Some(program) = arguments.next().map(PathBuf::from) else { return false };
    let Some(name) = program.file_stem().and_then(OsStr::to_str) else { return false };
    let is_built_for_test =
        program.parent().and_then(Path::file_name).is_some_and(|folder| folder == "deps") && has_hash(name);
    name == "rust_out" || is_built_for_test && !arguments.any(|argument| argument == "--bench")
}
