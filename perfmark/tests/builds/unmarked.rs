//! Tools see a marked function as the user wrote it: its documentation and its lints are those of the same source with
//! an attribute that does nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::{program, project};

/// The attribute of a build.
#[derive(Clone, Copy, Debug)]
enum Attribute {
    Empty,
    NotRecording,
    Recording,
}

/// A cargo command for a package of this source.
fn cargo(source: &str, attribute: Attribute) -> Option<Command> {
    let (here, tests) = (project::here().display(), project::here().join("tests"));
    let dependency = match attribute {
        Attribute::Empty => "path = 'attribute'".to_owned(),
        Attribute::NotRecording => format!("path = '{here}', default-features = false"),
        Attribute::Recording => format!("path = '{here}'"),
    };
    let package = |name: &str, source: &str| project::package(name, "2024", "[lib]", &tests.join(source));
    let twin = package("twin", source) + &format!("\n[dependencies]\nperfmark = {{ {dependency} }}\n\n[workspace]\n");
    let empty = package("perfmark", "unmarked/attribute.rs") + "proc-macro = true\n";
    let manifests = [("", twin), ("attribute", empty)];
    project::cargo(&format!("unmarked_{attribute:?}_{}", source.replace('/', "_")), &manifests)
}

/// The pages of the source's documentation.
fn documentation(source: &str, attribute: Attribute) -> Option<BTreeMap<String, String>> {
    let mut cargo = cargo(source, attribute)?;
    let target = project::target_folder("unmarked");
    let pages = target.join("doc/twin");
    _ = fs::remove_dir_all(&pages);
    cargo.args(["rustdoc", "--quiet", "--lib", "--target-dir"]).arg(&target);
    let output = cargo.args(["--", "--document-private-items"]).output().expect("cargo runs");
    assert!(output.status.success(), "{}", program::ending(&output));
    let mut found = BTreeMap::new();
    let mut folders = vec![pages];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("readable").path()) {
            if entry.is_dir() {
                folders.push(entry);
            } else if entry.extension().is_some_and(|extension| extension == "html") {
                let page = fs::read_to_string(&entry).expect("readable");
                found.insert(entry.display().to_string(), without_lines(&page));
            }
        }
    }
    Some(found)
}

/// The page without the lines in links to the source, which differ for a body that is a `macro_rules` fragment.
fn without_lines(page: &str) -> String {
    let mut parts = page.split(".rs.html#");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |page, part| page + part.trim_start_matches(|c: char| c.is_ascii_digit() || c == '-'))
}

#[test]
fn documentation_has_the_signatures_that_the_user_wrote() {
    let source = "neighbours/async_forms.rs";
    let Some(unmarked) = documentation(source, Attribute::Empty) else { return };
    assert!(unmarked.keys().any(|page| page.ends_with("fn.patterns.html")), "{:?}", unmarked.keys());
    for attribute in [Attribute::NotRecording, Attribute::Recording] {
        let marked = documentation(source, attribute).expect("there is cargo");
        let differ: Vec<_> = unmarked.keys().filter(|page| marked.get(*page) != unmarked.get(*page)).collect();
        assert!(differ.is_empty(), "{attribute:?}: {differ:#?}");
        assert_eq!(marked.len(), unmarked.len());
    }
}

/// The lints that fire, with their lines.
fn lints(attribute: Attribute) -> Option<BTreeSet<String>> {
    let mut cargo = cargo("unmarked/lints.rs", attribute)?;
    cargo.args(["clippy", "--quiet", "--lib", "--message-format=json", "--target-dir"]);
    cargo.arg(project::target_folder("unmarked")).arg("--");
    for group in ["clippy::all", "clippy::pedantic", "clippy::nursery", "clippy::shadow_same", "unused"] {
        cargo.args(["-W", group]);
    }
    let output = cargo.output().expect("cargo runs");
    assert!(output.status.success(), "{}", program::ending(&output));
    let of_line = |line: &str| {
        let message = &serde_json::from_str::<Value>(line).expect("JSON")["message"];
        let lint = message["code"]["code"].as_str()?.to_owned();
        Some(format!("{}: {lint}", message["spans"][0]["line_start"]))
    };
    Some(program::text(&output.stdout).lines().filter_map(of_line).collect())
}

/// Lints that do not report a marked function: marked functions cannot be constant, and the body's last expression is
/// not the function's. The documentation of the attribute names them.
const LOST: [&str; 7] = [
    "clippy::manual_async_fn",
    "clippy::missing_const_for_fn",
    "clippy::needless_borrow",
    "clippy::needless_lifetimes",
    "clippy::needless_return",
    "clippy::unconditional_recursion",
    "clippy::use_self",
];

#[test]
fn the_documentation_names_the_lints_that_do_not_fire() {
    let documentation = include_str!("../../src/macros/mod.rs");
    let is_named = |lint: &&str| documentation.contains(&format!("{}`", lint.trim_start_matches("clippy::")));
    assert_eq!(LOST.iter().filter(|lint| !is_named(lint)).collect::<Vec<_>>(), [&""; 0]);
}

#[test]
fn the_same_lints_fire() {
    let Some(unmarked) = lints(Attribute::Empty) else { return };
    for attribute in [Attribute::NotRecording, Attribute::Recording] {
        let marked = lints(attribute).expect("there is cargo");
        let lost = unmarked.difference(&marked).filter(|lint| !LOST.iter().any(|lost| lint.ends_with(lost)));
        let (lost, new): (Vec<_>, Vec<_>) = (lost.collect(), marked.difference(&unmarked).collect());
        assert!(lost.is_empty() && new.is_empty(), "{attribute:?}: lost {lost:#?}\nnew {new:#?}");
    }
    assert!(unmarked.len() > 60, "{}: {unmarked:#?}", unmarked.len());
}
