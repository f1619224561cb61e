//! `perfmark mark` and `perfmark unmark`: put the attribute on functions, and remove it again.

mod functions;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::{self, ErrorKind};
use std::path::{self, Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs, thread};

use clap::{ArgGroup, Args};
use perfmark::text::{counted, sanitize};

use self::functions::{Found, Function, Module, hashes, items};
use crate::{file, output};

/// Put #[perfmark] on functions of source files
///
/// Inserts `#[perfmark::perfmark] // perfmark mark` before each function, and changes no other byte of its file.
/// `perfmark unmark` removes these lines. `perfmark report --suggest` prints locations for it.
#[derive(Args, Debug)]
#[command(group(ArgGroup::new("marked").args(["locations", "all"]).required(true).multiple(true)))]
pub(crate) struct Arguments {
    /// A line of the function: src/tokens.rs:12. The innermost function that contains the line is marked
    #[arg(value_name = "FILE:LINE")]
    locations: Vec<String>,
    /// Mark all functions in this file or below this directory. Left out are tests, const functions, what macros
    /// contain, build scripts, packages of procedural macros, and vendored packages. A file of tests
    /// (`#[cfg(test)] mod tests;`) is left out if the file with that line is also in the directory
    #[arg(long, value_name = "FILE|DIRECTORY")]
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
    with_a_large_stack(|| mark(arguments))
}

pub(crate) fn unmark(arguments: &Unmark) -> Result<ExitCode, String> {
    with_a_large_stack(|| remove(arguments))
}

/// Source is parsed recursively.
fn with_a_large_stack<T: Send>(work: impl FnOnce() -> Result<T, String> + Send) -> Result<T, String> {
    const BYTES: usize = 256 << 20;
    thread::scope(|scope| {
        let thread = thread::Builder::new().stack_size(BYTES).spawn_scoped(scope, work);
        let done = thread.map_err(|why| format!("starting a thread: {why}"))?.join();
        done.unwrap_or_else(|_| Err("perfmark failed; please report it".to_owned()))
    })
}

/// What to mark in a file.
#[derive(Default)]
struct Asked<'a> {
    all: bool,
    /// Locations as they were written, and their lines.
    lines: Vec<(&'a str, usize)>,
}

fn mark(arguments: &Arguments) -> Result<ExitCode, String> {
    // Marks move the lines below them, so those of a file are inserted together.
    let mut asked: BTreeMap<PathBuf, Asked<'_>> = BTreeMap::new();
    let (files, left_out) = rust_files(&arguments.all, true)?;
    for (why, packages) in left_out {
        let first = packages.first().expect("one").display();
        let others = if packages.len() > 1 { format!(" and {} more", packages.len() - 1) } else { String::new() };
        output::say(&format!("left out {first}{others}: {why}"));
    }
    for path in files {
        asked.entry(path).or_default().all = true;
    }
    for location in &arguments.locations {
        let (path, line) = parsed(location)?;
        asked.entry(canonical(path)?).or_default().lines.push((location, line));
    }
    // Nothing is written before all is read.
    let (mut sources, mut drafts, mut refused) = (BTreeMap::new(), Vec::new(), Vec::new());
    for path in asked.keys() {
        let parsed = |source: String| Ok((items(&source).map_err(|why| not_parsed(path, &why))?, source));
        match read(path).and_then(parsed) {
            Ok(parsed) => _ = sources.insert(path.clone(), parsed),
            Err(why) => refused.push(why),
        }
    }
    let for_tests = files_for_tests(&sources);
    for (path, (Found { functions, .. }, source)) in sources {
        let Some(asked) = asked.remove(&path) else { continue };
        let mut starts = BTreeSet::new();
        if asked.all && !for_tests.contains(&path) {
            let free = functions.iter().filter(|one| one.obstacle.is_none() && !one.is_test);
            starts.extend(free.map(|one| one.start));
        }
        for (location, line) in asked.lines {
            match start_at(&functions, line) {
                Ok(start) => _ = starts.insert(start),
                Err(why) => refused.push(format!("{location}: {why}")),
            }
        }
        drafts.push((path, starts.len() as u64, with_marks(&source, starts)));
    }
    drafts.retain(|(_, count, _)| *count > 0);
    let manifests: BTreeSet<PathBuf> = drafts.iter().filter_map(|draft| manifest_without_perfmark(&draft.0)).collect();
    let done = written(drafts, "new mark", "in", refused)?;
    for manifest in manifests {
        let how = if is_library(&manifest) {
            " --no-default-features`, and `cargo add perfmark` in the program that uses this library"
        } else {
            "`"
        };
        let manifest = manifest.display();
        output::say(&format!(
            "{manifest} has no dependency on perfmark; run `cargo add perfmark --manifest-path {manifest}{how}"
        ));
    }
    Ok(done)
}

fn remove(arguments: &Unmark) -> Result<ExitCode, String> {
    let (mut drafts, mut refused) = (Vec::new(), Vec::new());
    for path in rust_files(&arguments.places, false)?.0 {
        match fs::read(&path).map(String::from_utf8) {
            // The others, which may be no source, have nothing to remove.
            Ok(Ok(source)) if source.contains(INSERTED) => match without_marks(&source) {
                Ok((_, 0)) => {}
                Ok((rest, count)) => drafts.push((path, count, rest)),
                Err(why) => refused.push(not_parsed(&path, &why)),
            },
            Ok(_) => {}
            Err(why) => refused.push(format!("reading {}: {why}", path.display())),
        }
    }
    written(drafts, "mark", "removed from", refused)
}

/// Writes the files, each with a number of marks. Prints each file and how many marks that were, and what was refused.
fn written(
    drafts: Vec<(PathBuf, u64, String)>,
    noun: &str,
    verb: &str,
    mut refused: Vec<String>,
) -> Result<ExitCode, String> {
    let here = env::current_dir().and_then(fs::canonicalize).unwrap_or_default();
    let (mut marks, mut files, mut text) = (0, 0, String::new());
    for (path, count, source) in drafts {
        match write(&path, &source) {
            Ok(()) => {
                (marks, files) = (marks + count, files + 1);
                let name = path.strip_prefix(&here).unwrap_or(&path).to_string_lossy();
                _ = writeln!(text, "{} {verb} {}", counted(count, noun), sanitize(&name));
            }
            Err(why) => refused.push(format!("writing {}: {why}", path.display())),
        }
    }
    for why in &refused {
        output::say(why);
    }
    if files != 1 {
        _ = writeln!(text, "{} {verb} {}", counted(marks, noun), counted(files, "file"));
    }
    output::print(&text)?;
    Ok(if refused.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The files of modules that are compiled for tests only, as these sources say, and of the modules in them.
fn files_for_tests(sources: &BTreeMap<PathBuf, (Found, String)>) -> BTreeSet<PathBuf> {
    let modules = |path: &Path| -> Vec<(bool, PathBuf)> {
        let modules = sources.get(path).into_iter().flat_map(|(found, _)| &found.modules);
        modules.filter_map(|module| Some((module.is_test, module_file(path, module)?))).collect()
    };
    let (mut left, others): (Vec<_>, Vec<_>) =
        sources.keys().flat_map(|path| modules(path)).partition(|(is_test, _)| *is_test);
    left.retain(|(_, file)| others.iter().all(|(_, other)| file != other));
    let mut for_tests = BTreeSet::new();
    while let Some((_, file)) = left.pop() {
        if for_tests.insert(file.clone()) {
            left.extend(modules(&file));
        }
    }
    for_tests
}

/// The file of a module that the file at `path` declares.
fn module_file(path: &Path, Module { around, name, file, .. }: &Module) -> Option<PathBuf> {
    let folder = path.parent()?;
    // Those of `mod.rs`, `lib.rs` and `main.rs` are beside it.
    let folders = [path.with_extension(""), folder.to_owned()].map(|folder| folder.join(around));
    let places: Vec<PathBuf> = match file {
        Some(file) if around.as_os_str().is_empty() => vec![folder.join(file)],
        Some(file) => folders.map(|folder| folder.join(file)).into(),
        None => {
            let files = [format!("{name}.rs"), format!("{name}/mod.rs")];
            folders.iter().flat_map(|folder| files.iter().map(|file| folder.join(file))).collect()
        }
    };
    places.iter().find(|place| place.is_file()).and_then(|place| canonical(place).ok())
}

/// `src/tokens.rs:12`, or with a column, which rustc adds.
fn parsed(location: &str) -> Result<(&Path, usize), String> {
    fn parts(location: &str) -> Option<(&str, usize)> {
        let (file, number) = location.rsplit_once(':')?;
        Some((file, number.parse().ok()?))
    }
    let last = parts(location);
    let found = last.and_then(|(file, _)| parts(file)).or(last).map(|(file, line)| (Path::new(file), line));
    found.ok_or_else(|| {
        format!(
            "`{location}`: expected a file and a line, such as src/tokens.rs:12; --all marks all functions of a file"
        )
    })
}

/// Why `perfmark mark` would refuse the location. A file that is not on this machine is no reason.
pub(crate) fn refusal(location: &str) -> Option<String> {
    with_a_large_stack(|| {
        let (path, line) = parsed(location)?;
        let Ok(source) = read(path) else { return Ok(()) };
        let found = items(&source).map_err(|why| not_parsed(path, &why))?;
        start_at(&found.functions, line).map(drop)
    })
    .err()
}

/// Where to mark the innermost function that contains the line, or why it cannot be marked.
fn start_at(functions: &[Function], line: usize) -> Result<usize, String> {
    let around = functions.iter().filter(|one| one.lines.contains(&line));
    match around.min_by_key(|one| (one.lines.end() - one.lines.start(), Reverse(one.start))) {
        None => {
            Err("no function contains this line; if it is in a macro, give the line of the `fn` that calls the macro"
                .into())
        }
        Some(Function { name, obstacle: Some(why), .. }) => Err(format!("`{name}` {why}")),
        Some(function) => Ok(function.start),
    }
}

/// The source with the attribute before the items at these offsets.
fn with_marks(source: &str, starts: BTreeSet<usize>) -> String {
    let end_of_line = if source.contains("\r\n") { "\r\n" } else { "\n" };
    let (mut marked, mut from) = (String::new(), 0);
    for start in starts {
        let line = source[..start].rfind('\n').map_or(0, |at| at + 1);
        let indent = source[line..start].len() - source[line..start].trim_start_matches(BLANKS).len();
        _ = write!(marked, "{}{INSERTED}{end_of_line}{}", &source[from..start], &source[line..line + indent]);
        from = start;
    }
    marked + &source[from..]
}

const BLANKS: [char; 2] = [' ', '\t'];

/// The source without what was inserted, and how often that was; or why it cannot be read.
fn without_marks(source: &str) -> Result<(String, u64), String> {
    // Comments and texts may contain the same.
    let hashes = hashes(source)?;
    let (mut rest, mut count, mut from) = (String::new(), 0, 0);
    for (at, _) in source.match_indices(INSERTED).filter(|(at, _)| hashes.contains(at)) {
        let after = &source[at + INSERTED.len()..];
        let Some(next) = after.strip_prefix("\r\n").or_else(|| after.strip_prefix('\n')) else { continue };
        rest.push_str(&source[from..at]);
        from = source.len() - next.trim_start_matches(BLANKS).len();
        count += 1;
    }
    Ok((rest + &source[from..], count))
}

/// Packages whose functions are not marked, by the reason.
type LeftOut = BTreeMap<&'static str, BTreeSet<PathBuf>>;

/// These files, and the Rust files in these directories, without hidden ones and what cargo built. Of those to be
/// marked, build scripts and packages that cannot record are left out; the second value has these packages, by reason.
fn rust_files(places: &[PathBuf], is_to_mark: bool) -> Result<(BTreeSet<PathBuf>, LeftOut), String> {
    let (mut files, mut left_out) = (BTreeSet::new(), LeftOut::new());
    let mut is_left_out = |package: Option<PathBuf>| {
        let why = package.as_deref().filter(|_| is_to_mark).and_then(why_left_out);
        if let Some((why, package)) = why.zip(package) {
            left_out.entry(why).or_default().insert(package);
        }
        why.is_some()
    };
    // A package's folder is not always below the given places.
    let mut left: Vec<PathBuf> = places.iter().filter(|place| !is_left_out(package(place))).cloned().collect();
    while let Some(place) = left.pop() {
        if !place.is_dir() {
            // A link stays one, and what it refers to is written.
            files.insert(canonical(&place)?);
            continue;
        }
        let reading = |why: io::Error| format!("reading {}: {why}", place.display());
        let is_built = place.join("CACHEDIR.TAG").exists();
        if is_built || is_left_out(Some(place.clone())) {
            continue;
        }
        for entry in fs::read_dir(&place).and_then(Iterator::collect::<io::Result<Vec<_>>>).map_err(reading)? {
            let (path, name) = (entry.path(), entry.file_name());
            // A link may lead out of the directory, or around in it.
            let kind = entry.file_type().map_err(reading)?;
            let is_hidden = name.as_encoded_bytes().starts_with(b".");
            let is_rust = path.extension().is_some_and(|end| end == "rs") && !(is_to_mark && name == "build.rs");
            if kind.is_dir() && !is_hidden || kind.is_file() && is_rust {
                left.push(path);
            }
        }
    }
    Ok((files, left_out))
}

/// The folder of the file's or folder's package.
fn package(place: &Path) -> Option<PathBuf> {
    let place = path::absolute(place).ok()?;
    place.ancestors().find(|folder| folder.join("Cargo.toml").is_file()).map(Path::to_path_buf)
}

/// Why the functions of a package are not marked, if they are not.
fn why_left_out(package: &Path) -> Option<&'static str> {
    if package.join(".cargo-checksum.json").exists() {
        return Some("cargo checks each byte of a vendored package");
    }
    let manifest = fs::read_to_string(package.join("Cargo.toml")).unwrap_or_default();
    let is_of_macros = manifest.lines().any(|line| line.replace(BLANKS, "").starts_with("proc-macro=true"));
    is_of_macros.then_some("only the compiler executes a package of procedural macros")
}

fn canonical(path: &Path) -> Result<PathBuf, String> {
    fs::canonicalize(path).map_err(|why| format!("reading {}: {why}", path.display()))
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|why| format!("reading {}: {why}", path.display()))
}

/// Replaces a file atomically by one with its permissions.
fn write(path: &Path, source: &str) -> io::Result<()> {
    let permissions = fs::metadata(path)?.permissions();
    if permissions.readonly() {
        return Err(ErrorKind::PermissionDenied.into());
    }
    file::replace(path, source.as_bytes(), |_| Some(permissions))
}

fn not_parsed(path: &Path, why: &str) -> String {
    format!("{}: perfmark cannot parse it: {why}", path.display())
}

/// The manifest of the file's package, if perfmark is none of its dependencies.
fn manifest_without_perfmark(file: &Path) -> Option<PathBuf> {
    let manifest = package(file)?.join("Cargo.toml");
    let text = fs::read_to_string(&manifest).ok()?;
    let mut is_list = false;
    let has = text.lines().any(|line| {
        let line = line.replace(BLANKS, "");
        if let Some(section) = line.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
            is_list = section == "dependencies" || section.starts_with("target.") && section.ends_with(".dependencies");
            return section.ends_with("dependencies.perfmark") && !section.contains("dev-");
        }
        is_list && (["perfmark=", "perfmark."].iter().any(|key| line.starts_with(key)) || line.contains("\"perfmark\""))
    });
    (!has).then_some(manifest)
}

/// Whether the package has a library for Cargo programs only: no program, and no library for programs of other build
/// systems, in which it has to record.
fn is_library(manifest: &Path) -> bool {
    let text = fs::read_to_string(manifest).unwrap_or_default();
    let has = |place: &str, section: &str| manifest.with_file_name(place).exists() || text.contains(section);
    let is_for_others = ["\"cdylib\"", "\"staticlib\""].iter().any(|kind| text.contains(kind));
    has("src/lib.rs", "[lib]") && !is_for_others && !has("src/main.rs", "[[bin]]") && !has("src/bin", "[[bin]]")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The source with a mark on each function that can have one.
    fn marked(source: &str) -> String {
        let found = items(source).expect("valid").functions;
        with_marks(source, found.iter().filter(|one| one.obstacle.is_none()).map(|one| one.start).collect())
    }

    #[test]
    fn a_mark_is_a_line_before_the_function_after_its_other_attributes() {
        let source = "/// Text.\n#[inline]\npub(crate) fn a() {\n    fn inner() {}\n}\nimpl S {\n\t#[must_use] \
                      fn b(&self) {}\n}\n";
        let expected = "/// Text.\n#[inline]\n#[perfmark::perfmark] // perfmark mark\npub(crate) fn a() {\n    \
                        #[perfmark::perfmark] // perfmark mark\n    fn inner() {}\n}\nimpl S {\n\t#[must_use] \
                        #[perfmark::perfmark] // perfmark mark\n\tfn b(&self) {}\n}\n";
        assert_eq!(marked(source), expected);
    }

    #[test]
    fn a_mark_is_above_attributes_after_which_a_call_would_include_waiting() {
        let source = "/// Text.\n#[a]\n#[tokio::main]\n#[b]\nasync fn c() {}\nmod d {\n    #[inline] \
                      #[tokio::test(flavor = \"e\")]\n    pub async fn f() {}\n    #[test]\n    fn g() {}\n}\n";
        let expected = "/// Text.\n#[a]\n#[perfmark::perfmark] // perfmark mark\n#[tokio::main]\n#[b]\nasync fn c() \
                        {}\nmod d {\n    #[inline] #[perfmark::perfmark] // perfmark mark\n    \
                        #[tokio::test(flavor = \"e\")]\n    pub async fn f() {}\n    #[test]\n    \
                        #[perfmark::perfmark] // perfmark mark\n    fn g() {}\n}\n";
        assert_eq!(marked(source), expected);
        assert_eq!(without_marks(expected), Ok((source.to_owned(), 3)));
    }

    #[test]
    fn what_was_marked_is_the_same_to_the_byte_after_it_is_unmarked() {
        let windows = "fn main() {\r\n    run();\r\n}\r\n\r\nasync unsafe fn run() {}\r\n";
        let begun = "\u{feff}#!/usr/bin/env -S cargo run\nfn é() { fn ü() {} }\n";
        let own = include_str!("mod.rs");
        for source in [windows, begun, own, include_str!("functions.rs"), include_str!("../run/signals.rs")] {
            let marked = marked(source);
            let (unmarked, count) = without_marks(&marked).expect("valid");
            assert!(count > 0 && unmarked == source, "{unmarked}");
            assert!(items(&marked).expect("valid").functions.iter().all(|one| one.obstacle.is_some()), "{marked}");
        }
    }

    #[test]
    fn attributes_that_somebody_wrote_stay() {
        let mark = "#[perfmark::perfmark] // perfmark mark";
        for written in [
            "#[perfmark::perfmark]\nfn a() {}\n".to_owned(),
            format!("// {mark}\nfn a() {{}}\n"),
            format!("/// {mark}\n/// fn b() {{}}\nfn a() {{}}\n"),
            format!("const A: &str = \"\n{mark}\n  fn b() {{}}\";\n"),
        ] {
            assert_eq!(without_marks(&written), Ok((written.clone(), 0)));
        }
    }
}
