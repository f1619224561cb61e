//! Crates with strict lints, of any edition, build with perfmark without a warning. They may know it by another name,
//! or through another crate.

use std::process::Command;

use crate::{program, project};

/// Crates that depend on perfmark: name, edition, source, and how they call it.
const CRATES: &[(&str, &str, &str, &str)] = &[
    ("of_2018", "2018", "lib", "perfmark = { workspace = true }"),
    ("of_2021", "2021", "lib", "perfmark = { workspace = true }"),
    ("of_2024", "2024", "lib", "perfmark = { workspace = true }"),
    ("async_of_2018", "2018", "async_forms", "perfmark = { workspace = true }"),
    ("async_of_2021", "2021", "async_forms", "perfmark = { workspace = true }"),
    ("without_prelude", "2018", "without_prelude", "perfmark = { workspace = true }"),
    ("without_prelude_of_2024", "2024", "without_prelude", "perfmark = { workspace = true }"),
    ("renamed", "2024", "renamed", "counters = { workspace = true }"),
    ("facade", "2021", "facade", "perfmark = { workspace = true }"),
    ("behind_facade", "2018", "behind_facade", "facade = { path = '../facade' }"),
    ("behind_facade_of_2024", "2024", "behind_facade", "facade = { path = '../facade' }"),
];

/// A cargo command for all of them, in one workspace.
fn cargo(folder: &str, has_default_features: bool) -> Option<Command> {
    let sources = project::here().join("tests/neighbours");
    let package = |&(name, edition, source, dependency): &(_, _, _, _)| {
        let package = project::package(name, edition, "[lib]", &sources.join(format!("{source}.rs")));
        (name, format!("{package}\n[dependencies]\n{dependency}\n"))
    };
    let perfmark = format!("path = '{}', default-features = {has_default_features}", project::here().display());
    let workspace = format!(
        "[workspace]\nresolver = \"2\"\nmembers = [\"*_*\", \"renamed\", \"facade\"]\n\n[workspace.dependencies]\n\
         perfmark = {{ {perfmark} }}\ncounters = {{ package = \"perfmark\", {perfmark} }}\n",
    );
    let mut manifests: Vec<_> = CRATES.iter().map(package).collect();
    manifests.push(("", workspace));
    let mut cargo = project::cargo(folder, &manifests)?;
    // One target directory for all, so that shared dependencies are built once.
    cargo.env("CARGO_TARGET_DIR", project::target_folder("neighbours"));
    Some(cargo)
}

/// Checks that all of them build under the lints in their sources.
#[track_caller]
fn assert_builds(mut cargo: Command) {
    let output = cargo.output().expect("cargo runs");
    assert!(output.status.success() && output.stderr.is_empty(), "{}", program::ending(&output));
}

#[test]
fn strict_crates_of_all_editions_build_without_a_warning() {
    for (folder, has_default_features) in [("recording", true), ("not_recording", false)] {
        let Some(mut cargo) = cargo(folder, has_default_features) else { return };
        cargo.args(["check", "--quiet", "--workspace"]);
        assert_builds(cargo);
    }
}

#[test]
fn clippy_reports_nothing() {
    for (folder, has_default_features) in [("linted_recording", true), ("linted_not_recording", false)] {
        let Some(mut version) = cargo(folder, has_default_features) else { return };
        if !version.args(["clippy", "--version"]).output().expect("cargo runs").status.success() {
            println!("skipped: there is no clippy here");
            return;
        }
        let Some(mut clippy) = cargo(folder, has_default_features) else { return };
        clippy.args(["clippy", "--quiet", "--workspace"]);
        assert_builds(clippy);
    }
}

/// A program that has neither the standard library nor an allocator, with a marked library in it. `check` refuses it if
/// perfmark brings one of them.
#[test]
fn marks_that_do_not_record_need_neither_std_nor_an_allocator() {
    let here = project::here();
    let package = project::package("without_std", "2024", "[lib]", &here.join("tests/neighbours/without_std.rs"));
    let manifest = format!(
        "{package}crate-type = [\"staticlib\"]\n\n[dependencies]\n\
         perfmark = {{ path = '{}', default-features = false }}\n\n[profile.dev]\npanic = \"abort\"\n\n[workspace]\n",
        here.display(),
    );
    let Some(mut cargo) = project::cargo("without_std", &[("", manifest)]) else { return };
    cargo.args(["check", "--quiet"]);
    assert_builds(cargo);
}
