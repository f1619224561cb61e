//! Where a crate comes from, by the path of its source files.

use std::path::Path;

use super::samples::Frame;

/// Whether the source file, as `file!()` has it, is of a crate that was downloaded: from a registry, a git repository,
/// or into a directory with vendored crates. Files of the program's workspace are not, nor are those of a path
/// dependency.
///
/// If it is not certain, the file counts as the program's own.
pub(crate) fn is_downloaded(file: &str) -> bool {
    is_in_cargo_home(file) || is_vendored_with(file, file!())
}

/// Whether its source is a Rust file.
pub(crate) fn is_rust_file(frame: &Frame) -> bool {
    let end = frame.file.as_deref().and_then(|file| Path::new(file).extension());
    end.is_some_and(|end| end == "rs")
}

/// Whether the function is one of the standard library, or of the crates that it contains. So is the allocator that
/// counts: it does the work of the system's for whoever allocates.
pub(crate) fn is_standard(frame: &Frame) -> bool {
    // Their paths as the Rust project compiles them, and as they are in a toolchain.
    let is_in = |file: &str| {
        file.starts_with("/rustc/") || file.starts_with("/rust/deps/") || file.contains("/lib/rustlib/src/")
    };
    let is_allocator = frame.function.contains("<perfmark::allocator::CountingAllocator")
        || frame.file.as_deref().is_some_and(|file| is_in_perfmark(file) && file.ends_with("allocator.rs"));
    is_allocator || frame.file.as_deref().map_or_else(|| has_standard_path(&frame.function), is_in)
}

/// Whether the path of a function is one of the standard library. A crate without debug information may have the only
/// code of a generic one: `core::ptr::read`, `<usize as core::iter::range::Step>::forward_unchecked`.
fn has_standard_path(function: &str) -> bool {
    let is_in =
        |path: &str| ["core::", "alloc::", "std::", "__rustc::"].iter().any(|library| path.starts_with(library));
    let path = function.trim_start_matches(['<', '&', '*', '[', '(']);
    match path.split_once(" as ") {
        Some((implementer, of)) if !implementer.contains("::") => is_in(of),
        _ => is_in(path),
    }
}

/// Whether the function is one of perfmark's own.
pub(crate) fn is_perfmark(frame: &Frame) -> bool {
    let function = frame.function.trim_start_matches('<');
    let is_named = function.starts_with("perfmark::") || function.starts_with("perfmark_rdpmc::");
    // Inlined functions may have no path.
    is_named || frame.file.as_deref().is_some_and(is_in_perfmark)
}

/// The modules of perfmark.
const MODULES: [&str; 11] = [
    "allocator",
    "compact",
    "control",
    "export",
    "macros",
    "platform",
    "process",
    "recording",
    "report",
    "settings",
    "snapshot",
];

/// Whether it is a file of these crates: `perfmark/src/recording/…`, or below `perfmark-0.1.0`. A program may be in a
/// folder with that name, too.
fn is_in_perfmark(file: &str) -> bool {
    let parts: Vec<&str> = parts(file).collect();
    let is = |folder: &str, name: &str| {
        let version = folder.strip_prefix(name).map(|rest| rest.strip_prefix('-').unwrap_or(rest));
        version.is_some_and(|version| version.is_empty() || version.starts_with(|c: char| c.is_ascii_digit()))
    };
    parts.windows(3).any(|parts| match *parts {
        [folder, "src", module] => {
            is(folder, "perfmark-rdpmc")
                || is(folder, "perfmark") && MODULES.contains(&module.strip_suffix(".rs").unwrap_or(module))
        }
        _ => false,
    })
}

/// Whether cargo downloaded the file to `registry/src/<host>-<hash>` or `git/checkouts/<repository>-<hash>` of its
/// home. With `trim-paths`, the path begins with that last directory. `--remap-path-prefix` may replace the home.
fn is_in_cargo_home(file: &str) -> bool {
    let parts: Vec<&str> = parts(file).collect();
    has_hash(parts[0])
        || parts.windows(3).any(|parts| match *parts {
            ["registry", "src", source] | ["git", "checkouts", source] => has_hash(source),
            _ => false,
        })
}

/// Whether the name ends in a hash as cargo writes it: 64 bits in hexadecimal digits.
pub(crate) fn has_hash(name: &str) -> bool {
    name.rsplit_once('-').is_some_and(|(_, hash)| is_hash(hash))
}

/// Whether it is such a hash.
pub(crate) fn is_hash(hash: &str) -> bool {
    hash.len() == 16 && hash.bytes().all(|digit| digit.is_ascii_hexdigit())
}

/// Whether the file's package is beside the one of `perfmark`, which is a file of perfmark. Packages of a directory
/// source (`cargo vendor`, Debian, Nix) are beside one another: `vendor/parser/src/lib.rs`. A crate that is deeper is a
/// path dependency.
///
/// Only absolute paths are compared. In relative ones, perfmark may be a package of the program's own workspace.
fn is_vendored_with(file: &str, perfmark: &str) -> bool {
    let perfmark: Vec<&str> = parts(perfmark).collect();
    // Its package is the directory around `src`, and that of all packages is the one around it.
    let packages = perfmark.iter().rposition(|&part| part == "src").and_then(|src| perfmark.get(..src.checked_sub(1)?));
    // The root directory alone contains everything.
    let Some(packages) = packages.filter(|packages| packages.len() > 1 && is_absolute(file)) else { return false };
    let file: Vec<&str> = parts(file).collect();
    matches!(
        file.strip_prefix(packages),
        Some([_package, "src" | "examples" | "tests" | "benches", _, ..] | [_package, "build.rs"])
    )
}

/// On any system, because the compiler may have run on another one.
fn is_absolute(path: &str) -> bool {
    path.starts_with(['/', '\\']) || path.as_bytes().get(1) == Some(&b':')
}

fn parts(path: &str) -> impl Iterator<Item = &str> {
    path.split(['/', '\\'])
}

#[cfg(test)]
mod tests {
    use super::{has_standard_path, is_downloaded, is_in_cargo_home, is_in_perfmark, is_vendored_with};

    #[test]
    fn crates_of_a_registry_or_of_git_are_downloaded() {
        for file in [
            "/home/me/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/parser-1.0.0/src/lib.rs",
            "/home/me/.cargo/registry/src/github.com-1ecc6299db9ec823/parser-1.0.0/src/lib.rs",
            "/home/me/.cargo/git/checkouts/parser-0123456789abcdef/1a2b3c4/src/lib.rs",
            r"C:\Users\me\.cargo\registry\src\index.crates.io-1949cf8c6b5b557f\parser-1.0.0\src\lib.rs",
            // --remap-path-prefix=$HOME=~, or =$CARGO_HOME=cargo
            "~/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/parser-1.0.0/src/lib.rs",
            "cargo/git/checkouts/parser-0123456789abcdef/1a2b3c4/parser/src/lib.rs",
            // trim-paths
            "index.crates.io-1949cf8c6b5b557f/parser-1.0.0/src/lib.rs",
            "parser-0123456789abcdef/1a2b3c4/parser/src/lib.rs",
        ] {
            assert!(is_downloaded(file), "{file}");
        }
    }

    #[test]
    fn functions_of_the_standard_library_are_known_by_their_paths_if_they_have_no_file() {
        for function in [
            "core::ptr::drop_in_place<app::Parser>",
            "<usize as core::iter::range::Step>::forward_unchecked",
            "<&mut I as core::iter::traits::iterator::Iterator>::next",
            "<core::iter::adapters::filter::Filter<I,P> as core::iter::traits::iterator::Iterator>::next",
            "core::iter::range::<impl core::iter::traits::iterator::Iterator for core::ops::range::Range<A>>::next",
            "<[T] as alloc::slice::Join>::join",
            "__rustc::__rust_alloc",
        ] {
            assert!(has_standard_path(function), "{function}");
        }
        for function in [
            "memcpy",
            "app::core::run",
            "<app::Parser as core::fmt::Display>::fmt",
            "<&mut app::Parser as core::iter::traits::iterator::Iterator>::next",
            "<T as app::Parse>::parse",
        ] {
            assert!(!has_standard_path(function), "{function}");
        }
    }

    #[test]
    fn what_calls_execute_is_perfmarks_wherever_it_was_compiled() {
        for file in [
            "/home/me/perfmark/perfmark/src/recording/recorder/hooks/fast.rs",
            "/home/me/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/perfmark-0.1.0/src/recording/start.rs",
            "vendor/perfmark-rdpmc-0.1.0/src/counter.rs",
            "vendor/perfmark/src/macros/private/mod.rs",
            r"C:\perfmark-rdpmc\src\clock.rs",
        ] {
            assert!(is_in_perfmark(file), "{file}");
        }
        // Debug information with nothing but lines has no paths of functions.
        let modules = include_str!("../lib.rs").lines().filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';'));
        assert!(modules.clone().count() > 5);
        for module in modules {
            assert!(is_in_perfmark(&format!("perfmark/src/{module}.rs")), "{module}");
            assert!(is_in_perfmark(&format!("perfmark/src/{module}/mod.rs")), "{module}");
        }
        for file in [
            "/home/me/perfmark/src/main.rs",
            "/home/me/perfmark/src/parser/mod.rs",
            "perfmark/examples/shares.rs",
            "perfmark-tools/src/recording/mod.rs",
            "recording/mod.rs",
        ] {
            assert!(!is_in_perfmark(file), "{file}");
        }
    }

    #[test]
    fn other_crates_are_the_programs_own() {
        for file in [
            "",
            "src/main.rs",
            r"src\main.rs",
            "parser/src/lib.rs",
            // A workspace may have packages of these names.
            "registry/src/lib.rs",
            "git/checkouts/src/lib.rs",
            // A path dependency outside of the workspace, without and with trim-paths.
            "/home/me/parser/src/lib.rs",
            r"D:\parser\src\lib.rs",
            "parser-1.0.0/src/lib.rs",
            // A file that a build script generated.
            "/home/me/app/target/debug/build/parser-0123456789abcdef/out/generated.rs",
            // Bazel, and perfmark's own packages.
            "external/crates__parser-1.0.0/src/lib.rs",
            "perfmark/tests/marks.rs",
        ] {
            assert!(!is_in_cargo_home(file), "{file}");
            assert!(!is_vendored_with(file, "/home/me/.cargo/registry/src/x/perfmark-0.1.0/src/origin.rs"), "{file}");
            assert!(!is_vendored_with(file, "perfmark/src/origin.rs"), "{file}");
            assert!(!is_vendored_with(file, "/perfmark-0.1.0/src/origin.rs"), "{file}");
        }
    }

    #[test]
    fn crates_beside_perfmark_were_vendored_with_it() {
        for (file, perfmark) in [
            ("/home/me/app/vendor/parser/src/lib.rs", "/home/me/app/vendor/perfmark/src/process/origin.rs"),
            (
                "/usr/share/cargo/registry/parser-1.0.0/src/a/b.rs",
                "/usr/share/cargo/registry/perfmark-0.1.0/src/origin.rs",
            ),
            ("/app/vendor/parser/build.rs", "/app/vendor/perfmark/src/origin.rs"),
            ("/app/vendor/parser/tests/all/main.rs", "/app/vendor/perfmark/src/origin.rs"),
            (r"D:\app\vendor\parser\src\lib.rs", r"D:\app\vendor\perfmark\src\origin.rs"),
            // --remap-path-prefix=…/registry/src/index.crates.io-1949cf8c6b5b557f=/crates
            ("/crates/parser-1.0.0/src/lib.rs", "/crates/perfmark-0.1.0/src/origin.rs"),
        ] {
            assert!(is_vendored_with(file, perfmark), "{file}");
        }
        for (file, perfmark) in [
            // A copy of perfmark's repository beside a path dependency.
            ("/home/me/parser/src/lib.rs", "/home/me/perfmark/perfmark/src/origin.rs"),
            ("/home/me/app/vendors/parser/src/lib.rs", "/home/me/app/vendor/perfmark/src/origin.rs"),
            // Path dependencies deeper than the packages beside perfmark, and files that are in no package.
            ("/tmp/x/zz/deep/mylib/src/lib.rs", "/tmp/x/perfmark/src/origin.rs"),
            ("/tmp/x/app/crates/mylib/src/lib.rs", "/tmp/x/perfmark/src/origin.rs"),
            ("/tmp/x/src/lib.rs", "/tmp/x/perfmark/src/origin.rs"),
            ("/tmp/x/app/target/debug/build/parser-1/out/generated.rs", "/tmp/x/perfmark/src/origin.rs"),
            ("/tmp/x/parser", "/tmp/x/perfmark/src/origin.rs"),
            // A copy of perfmark in the program's own workspace.
            ("crates/app/src/main.rs", "crates/perfmark/src/origin.rs"),
            ("src/main.rs", "src/origin.rs"),
        ] {
            assert!(!is_vendored_with(file, perfmark), "{file}");
        }
    }
}
