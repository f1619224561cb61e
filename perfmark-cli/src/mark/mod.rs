//! `perfmark mark` and `perfmark unmark`: put the attribute on functions, and remove it again.

mod functions;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{fs, io};

use clap::Args;
use perfmark::text::{counted, sanitize};

use self::functions::{Function, functions};
use crate::{file, output};

/// Put #[perfmark] on functions of source files
///
/// Inserts `#[perfmark::perfmark] // perfmark mark` before each function, and changes no other byte of its file.
/// `perfmark unmark` removes these lines. `perfmark report --suggest` prints places for it.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// A line of the function: src/tokens.rs:12. The innermost function that contains the line is marked
    #[arg(value_name = "FILE:LINE", required_unless_present = "all")]
    places: Vec<String>,
    /// Mark all functions below these directories and in these files that can be marked, but no tests
    #[arg(long, value_name = "FILE|DIRECTORY", num_args = 1..)]
    all: Vec<PathBuf>,
}

/// Remove what `perfmark mark` inserted
#[derive(Args, Debug)]
pub(crate) struct Unmark {
    /// Source files, and directories that contain some
    #[arg(required = true)]
    places: Vec<PathBuf>,
}

/// What is inserted before a function, with the end of the line and the function's indentation after it.
const INSERTED: &str = "#[perfmark::perfmark] // perfmark mark";

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, String> {
    // Marks move the lines below them, so those of a file are inserted together.
    let mut asked: BTreeMap<PathBuf, Asked<'_>> = BTreeMap::new();
    for path in rust_files(&arguments.all)? {
        asked.entry(path).or_default().all = true;
    }
    for place in &arguments.places {
        let (path, line) = parsed(place)?;
        asked.entry(path).or_default().lines.push((place, line));
    }
    let (mut marked, mut files, mut refused) = (0, BTreeSet::new(), false);
    for (path, asked) in asked {
        let source = read(&path)?;
        let found = functions(&source).map_err(|why| format!("{}: not valid Rust: {why}", path.display()))?;
        let mut starts = BTreeSet::new();
        if asked.all {
            starts.extend(found.iter().filter(|one| one.obstacle.is_none() && !one.is_test).map(|one| one.start));
        }
        for (place, line) in asked.lines {
            match start_at(&found, line) {
                Ok(start) => _ = starts.insert(start),
                Err(why) => {
                    output::say(&format!("{}: {why}", sanitize(place)));
                    refused = true;
                }
            }
        }
        if !starts.is_empty() {
            marked += starts.len() as u64;
            write(&path, &with_marks(&source, starts))?;
            files.insert(path);
        }
    }
    output::print(&format!("{} in {}\n", counted(marked, "new mark"), counted(files.len() as u64, "file")))?;
    let manifests: BTreeSet<PathBuf> = files.iter().filter_map(|file| manifest_without_perfmark(file)).collect();
    for manifest in manifests {
        output::say(&format!("{} does not name perfmark; run `cargo add perfmark` there", manifest.display()));
    }
    Ok(if refused { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// What to mark in a file.
#[derive(Default)]
struct Asked<'a> {
    all: bool,
    /// Places as they were written, and their lines.
    lines: Vec<(&'a str, usize)>,
}

pub(crate) fn unmark(arguments: &Unmark) -> Result<ExitCode, String> {
    let (mut removed, mut files) = (0, 0);
    for path in rust_files(&arguments.places)? {
        let source = read(&path)?;
        let (rest, count) = without_marks(&source);
        if count > 0 {
            write(&path, &rest)?;
            (removed, files) = (removed + count, files + 1);
        }
    }
    output::print(&format!("{} removed from {}\n", counted(removed, "mark"), counted(files, "file")))?;
    Ok(ExitCode::SUCCESS)
}

/// `src/tokens.rs:12`
fn parsed(place: &str) -> Result<(PathBuf, usize), String> {
    let parts = place.rsplit_once(':').and_then(|(file, line)| Some((file.into(), line.parse().ok()?)));
    parts.ok_or_else(|| format!("`{}`: expected a file and a line, such as src/tokens.rs:12", sanitize(place)))
}

/// Where to mark the innermost function that contains the line, or why it cannot be marked.
fn start_at(functions: &[Function], line: usize) -> Result<usize, String> {
    let around = functions.iter().filter(|one| one.lines.contains(&line));
    match around.min_by_key(|one| one.lines.end() - one.lines.start()) {
        None => Err("no function there; functions in a macro cannot be marked here".into()),
        Some(Function { name, obstacle: Some(why), .. }) => Err(format!("`{}` {why}", sanitize(name))),
        Some(function) => Ok(function.start),
    }
}

/// The source with the attribute before the items at these offsets.
fn with_marks(source: &str, starts: BTreeSet<usize>) -> String {
    let end_of_line = if source.contains("\r\n") { "\r\n" } else { "\n" };
    let (mut marked, mut from) = (String::new(), 0);
    for start in starts {
        let line = source[..start].rfind('\n').map_or(0, |at| at + 1);
        let indent = source[line..start].len() - source[line..start].trim_start().len();
        _ = write!(marked, "{}{INSERTED}{end_of_line}{}", &source[from..start], &source[line..line + indent]);
        from = start;
    }
    marked + &source[from..]
}

/// The source without what was inserted, and how often that was.
fn without_marks(source: &str) -> (String, u64) {
    let (mut rest, mut count, mut from) = (String::new(), 0, 0);
    for (at, _) in source.match_indices(INSERTED) {
        let after = &source[at + INSERTED.len()..];
        let Some(next) = after.strip_prefix("\r\n").or_else(|| after.strip_prefix('\n')) else { continue };
        rest.push_str(&source[from..at]);
        from = source.len() - next.trim_start_matches([' ', '\t']).len();
        count += 1;
    }
    (rest + &source[from..], count)
}

/// The Rust files in directories, without hidden ones and `target`, and these files.
fn rust_files(places: &[PathBuf]) -> Result<BTreeSet<PathBuf>, String> {
    let mut files = BTreeSet::new();
    let mut left: Vec<PathBuf> = places.to_vec();
    while let Some(place) = left.pop() {
        if !place.is_dir() {
            files.insert(place);
            continue;
        }
        let entries = fs::read_dir(&place).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        for entry in entries.map_err(|why| format!("reading {}: {why}", place.display()))? {
            let (path, name) = (entry.path(), entry.file_name());
            let is_left_out = name == "target" || name.as_encoded_bytes().starts_with(b".");
            // A link may lead out of the directory, or around in it.
            let kind = entry.file_type().map_err(|why| format!("reading {}: {why}", path.display()))?;
            let is_rust = path.extension().is_some_and(|end| end == "rs");
            if kind.is_dir() && !is_left_out || kind.is_file() && is_rust {
                left.push(path);
            }
        }
    }
    Ok(files)
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|why| format!("reading {}: {why}", path.display()))
}

fn write(path: &Path, source: &str) -> Result<(), String> {
    file::write(path, source.as_bytes()).map_err(|why| format!("writing {}: {why}", path.display()))
}

/// The manifest of the file's package, if perfmark is none of its dependencies.
fn manifest_without_perfmark(file: &Path) -> Option<PathBuf> {
    let file = fs::canonicalize(file).ok()?;
    let manifest = file.ancestors().map(|folder| folder.join("Cargo.toml")).find(|manifest| manifest.is_file())?;
    let text = fs::read_to_string(&manifest).ok()?;
    (!text.contains("perfmark")).then_some(manifest)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The source with a mark on each function that can have one.
    fn marked(source: &str) -> String {
        let found = functions(source).expect("valid");
        with_marks(source, found.iter().filter(|one| one.obstacle.is_none()).map(|one| one.start).collect())
    }

    #[test]
    fn a_mark_is_a_line_before_the_function_after_its_other_attributes() {
        let source = "/// Text.\n#[inline]\npub(crate) fn a() {\n    fn inner() {}\n}\nimpl S {\n\t#[must_use] fn b(&self) {}\n}\n";
        let expected = "/// Text.\n#[inline]\n#[perfmark::perfmark] // perfmark mark\npub(crate) fn a() {\n    \
                        #[perfmark::perfmark] // perfmark mark\n    fn inner() {}\n}\nimpl S {\n\t#[must_use] \
                        #[perfmark::perfmark] // perfmark mark\n\tfn b(&self) {}\n}\n";
        assert_eq!(marked(source), expected);
    }

    #[test]
    fn what_was_marked_is_the_same_to_the_byte_after_it_is_unmarked() {
        let windows = "fn main() {\r\n    run();\r\n}\r\n\r\nasync unsafe fn run() {}\r\n";
        let begun = "\u{feff}#!/usr/bin/env -S cargo run\nfn é() { fn ü() {} }\n";
        let own = include_str!("mod.rs");
        for source in [windows, begun, own, include_str!("functions.rs"), include_str!("../run/signals.rs")] {
            let marked = marked(source);
            let (unmarked, count) = without_marks(&marked);
            assert!(count > 0 && unmarked == source, "{unmarked}");
            assert!(functions(&marked).expect("valid").iter().all(|one| one.obstacle.is_some()), "{marked}");
        }
    }

    #[test]
    fn attributes_that_somebody_wrote_stay() {
        let written = "#[perfmark::perfmark]\nfn a() {}\n// #[perfmark::perfmark] // perfmark mark";
        assert_eq!(without_marks(written), (written.to_owned(), 0));
    }
}
