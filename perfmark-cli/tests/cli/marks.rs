//! Putting marks into source files, and what samples suggest to mark.

use std::fs;

use perfmark::{Samples, Snapshot};

use super::command::{answer, assert_contains, perfmark, stderr, stdout};
use super::program::{assert_code, text};
use super::sample::{Folder, frame, location, module, path, report};

pub(super) const TESTS: &[(&str, fn())] = &[
    ("a_function_is_marked_and_unmarked", a_function_is_marked_and_unmarked),
    ("each_file_that_is_changed_is_named", each_file_that_is_changed_is_named),
    ("all_functions_of_a_folder_are_marked", all_functions_of_a_folder_are_marked),
    ("a_library_is_advised_to_depend_on_perfmark_without_features", a_library_is_advised_without_features),
    ("modules_for_tests_in_files_of_their_own_are_left_out", modules_for_tests_are_left_out),
    ("samples_suggest_which_functions_to_mark", samples_suggest_which_functions_to_mark),
];

const SOURCE: &str = "fn run() {\n    parse();\n}\n\nfn parse() {}\nconst fn size() -> u8 {\n    1\n}\n";

fn a_function_is_marked_and_unmarked() {
    let folder = Folder::new("cli-mark");
    let file = folder.file("main.rs", SOURCE);
    let read = || fs::read_to_string(&file).expect("there");
    let at = |line: u32| format!("{file}:{line}");
    assert_eq!(stdout(&["mark", &at(2), &at(5)], 0), format!("2 new marks in {file}\n"));
    let line = "#[perfmark::perfmark] // perfmark mark\n";
    assert_eq!(
        read(),
        SOURCE.replace("fn run", &format!("{line}fn run")).replace("fn parse", &format!("{line}fn parse"))
    );
    for (line, why) in
        [(3, "`run` already has a mark"), (9, "`size` is a const fn"), (5, "no function contains this line")]
    {
        assert_contains(&stderr(&["mark", &at(line)], 1), &[why]);
    }
    let expected = "expected a file and a line, such as src/tokens.rs:12; --all marks all functions of a file";
    assert_contains(&stderr(&["mark", &file], 2), &[expected]);
    assert_contains(&stderr(&["mark"], 2), &["<FILE:LINE|--all <FILE|DIRECTORY>>"]);
    assert_contains(&stderr(&["mark", "no/such.rs:1"], 2), &["reading no/such.rs: No such file"]);
    assert_eq!(stdout(&["unmark", &file], 0), format!("2 marks removed from {file}\n"));
    assert_eq!(read(), SOURCE);
    fs::write(&file, "fn run( {}").expect("written");
    assert_contains(&stderr(&["mark", &at(1)], 1), &["perfmark cannot parse it: line 1: "]);
    // One file by two names, and one that cannot be read.
    fs::write(&file, SOURCE).expect("written");
    let other = format!("{}/./main.rs:5", folder.0.to_str().expect("UTF-8"));
    let both = answer(&["mark", &at(1), &other, "no/such.rs:1"], 2);
    assert_contains(text(&both.stderr), &["reading no/such.rs: No such file"]);
    assert_eq!(read(), SOURCE);
    assert_eq!(stdout(&["mark", &at(1), &other], 0), format!("2 new marks in {file}\n"));
    assert_eq!(stdout(&["unmark", &file], 0), format!("2 marks removed from {file}\n"));
    // Through a link, and with the column that rustc adds.
    let linked = folder.0.join("link.rs");
    std::os::unix::fs::symlink("main.rs", &linked).expect("linked");
    let linked = linked.to_str().expect("UTF-8");
    assert_eq!(stdout(&["mark", &format!("{linked}:5:4"), &at(5)], 0), format!("1 new mark in {file}\n"));
    assert_eq!(stdout(&["unmark", linked, &file], 0), format!("1 mark removed from {file}\n"));
    assert!(fs::symlink_metadata(linked).expect("there").is_symlink());
    assert_eq!(read(), SOURCE);
}

fn each_file_that_is_changed_is_named() {
    let folder = Folder::new("cli-mark-names");
    for file in ["src/a.rs", "src/b c.rs", "src/\u{1b}[31m.rs"] {
        folder.file(file, SOURCE);
    }
    folder.file("src/empty.rs", "");
    folder.file("elsewhere/d.rs", SOURCE);
    let src = folder.0.join("src");
    let changed = |arguments: &[&str]| {
        let output = perfmark(arguments).current_dir(&src).output().expect("started");
        assert_code(&output, 0);
        text(&output.stdout).to_owned()
    };
    // As seen from the working directory.
    let elsewhere = folder.0.canonicalize().expect("there").join("elsewhere/d.rs");
    let named = |what: &str| {
        let files = [elsewhere.to_str().expect("UTF-8"), "\u{fffd}[31m.rs", "a.rs", "b c.rs"];
        let lines = files.map(|file| format!("2 {what} {file}\n"));
        format!("{}8 {what} 4 files\n", lines.concat())
    };
    assert_eq!(changed(&["mark", "--all", ".", "--all", "../elsewhere"]), named("new marks in"));
    // It has no mark, as it is not source.
    folder.file("data.rs", b"\xff");
    assert_eq!(changed(&["unmark", "..", "./a.rs"]), named("marks removed from"));
    assert_eq!(changed(&["unmark", ".."]), "0 marks removed from 0 files\n");
}

fn all_functions_of_a_folder_are_marked() {
    let folder = Folder::new("cli-mark-all");
    let [source, built] = ["src/deep/main.rs", "target/main.rs"].map(|name| folder.file(name, SOURCE));
    folder.file("target/CACHEDIR.TAG", "");
    folder.file("build.rs", SOURCE);
    folder.file("Cargo.toml", "[package]\nname = \"app\"\n");
    let all = folder.0.to_str().expect("UTF-8");
    assert_contains(&stderr(&["mark", "--all", all], 0), &["has no dependency on perfmark; run `cargo add"]);
    assert_eq!(fs::read_to_string(built).expect("there"), SOURCE);
    assert_eq!(stdout(&["mark", "--all", all], 0), "0 new marks in 0 files\n");
    assert_eq!(stdout(&["unmark", all], 0), format!("2 marks removed from {source}\n"));
    assert_eq!(fs::read_to_string(&source).expect("there"), SOURCE);
    // The package of a folder or a file decides, and not a workspace around it.
    let (deep, macros) = (format!("{all}/src/deep"), format!("{all}/src/macros"));
    folder.file(".cargo-checksum.json", "");
    for place in [&deep, &source] {
        let left_out = answer(&["mark", "--all", place], 0);
        assert_eq!(text(&left_out.stdout), "0 new marks in 0 files\n");
        assert_contains(text(&left_out.stderr), &[&format!("left out {all}: cargo checks each byte of a vendored")]);
    }
    for package in ["b", "a"] {
        folder.file(&format!("src/macros/{package}/Cargo.toml"), "[lib]\nproc-macro = true\n");
    }
    folder.file("src/macros/Cargo.toml", "[workspace]\n");
    let why = format!("left out {macros}/a and 1 more: only the compiler executes a package of procedural macros");
    assert_contains(&stderr(&["mark", "--all", &macros], 0), &[&why]);
    folder.file("src/deep/Cargo.toml", "[package]\nname = \"inner\"\n");
    assert_eq!(stdout(&["mark", "--all", &deep], 0), format!("2 new marks in {source}\n"));
}

fn a_library_is_advised_without_features() {
    let folder = Folder::new("cli-mark-library");
    let manifest = folder.file("Cargo.toml", "[package]\nname = \"parser\"\n");
    let advice = |more: &str| {
        let file = folder.file("src/lib.rs", SOURCE);
        let advised = format!("run `cargo add perfmark --manifest-path {manifest}{more}");
        assert_contains(&stderr(&["mark", &format!("{file}:1")], 0), &[&advised]);
    };
    advice(" --no-default-features`, and `cargo add perfmark` in the program that uses this library");
    // Programs of other build systems use it.
    folder.file("Cargo.toml", "[package]\nname = \"parser\"\n[lib]\ncrate-type = [\"cdylib\"]\n");
    advice("`");
    folder.file("Cargo.toml", "[package]\nname = \"parser\"\n");
    // A program uses it.
    fs::create_dir(folder.0.join("src/bin")).expect("made");
    advice("`");
}

fn modules_for_tests_are_left_out() {
    let folder = Folder::new("cli-mark-tests");
    let files = [
        ("lib.rs", "mod a;\nmod both;\n#[cfg(test)] mod both;\n#[cfg(test)] #[path = \"fakes/of_it.rs\"] mod fakes;\n"),
        ("a.rs", "#[cfg(test)]\nmod tests;\nmod inner { #[cfg(test)] mod r#fn; }\nmod b;\nfn a() {}\n"),
        ("a/b.rs", "#[cfg(not(test))]\nmod c;\nfn b() {}\n"),
        ("a/b/c.rs", "fn c() {}\n"),
        ("both.rs", "fn both() {}\n"),
        // Its modules are for tests, too.
        ("a/tests/mod.rs", "mod sample;\nfn d() {}\n"),
        ("a/tests/sample.rs", "fn e() {}\n"),
        ("a/inner/fn.rs", "fn f() {}\n"),
        ("fakes/of_it.rs", "fn g() {}\n"),
        ("tests.rs", "fn not_the_module_of_a() {}\n"),
        // In an inline module, an attribute names a file in the module's folder, and its own names that folder.
        (
            "d.rs",
            "mod e { #[cfg(test)] #[path = \"x.rs\"] mod tests; }\n#[path = \"f\"] mod g { #[cfg(test)] mod h; }\n",
        ),
        ("d/e/x.rs", "fn h() {}\n"),
        ("f/h.rs", "fn i() {}\n"),
        ("x.rs", "fn not_the_module_of_e() {}\n"),
    ];
    for (name, source) in files {
        folder.file(name, source);
    }
    let printed = stdout(&["mark", "--all", folder.0.to_str().expect("UTF-8")], 0);
    assert!(printed.ends_with("\n6 new marks in 6 files\n"), "{printed}");
    let is_marked = |name: &str| fs::read_to_string(folder.0.join(name)).expect("there").contains("perfmark");
    let marked: Vec<&str> = files.iter().map(|(name, _)| *name).filter(|name| is_marked(name)).collect();
    assert_eq!(marked, ["a.rs", "a/b.rs", "a/b/c.rs", "both.rs", "tests.rs", "x.rs"]);
    // A location is meant.
    let located = format!("{}/a/tests/sample.rs:1", folder.0.display());
    assert_contains(&stdout(&["mark", &located], 0), &["1 new mark in ", "a/tests/sample.rs"]);
}

fn samples_suggest_which_functions_to_mark() {
    let folder = Folder::new("cli-suggest");
    let mut snapshot: Snapshot = report(&[("parse", 1_000), ("run", 2_000)]);
    let mut samples = Samples::default();
    (samples.event, samples.frequency) = ("cpu-clock".into(), Some(100));
    samples.modules = vec![module("/no/such/app", None)];
    let frame = |function, line| frame(function, "src/main.rs", line);
    samples.frames = vec![frame("app::parse", 7), frame("app::unescape", 20), frame("app::load", 50), frame("main", 1)];
    samples.frames.push(frame("app::next", 60));
    let in_macro = folder.file("macro.rs", "macro_rules! make {\n    () => { fn made() {} };\n}\nmake!();\n");
    samples.frames.push(self::frame("app::made", &in_macro, 2));
    samples.locations = (0..4).map(|at| location(0, 16 * at as u64, &[at])).collect();
    samples.locations.extend([location(0, 99, &[4, 3]), location(0, 120, &[5])]);
    let [parse, unescape, load, main, inlined_in_main, made] = [0, 1, 2, 3, 4, 5];
    samples.paths = vec![
        // A marked function is no suggestion, and neither are its caller and an inlined function.
        path(&[], &[(&[load, main], 10), (&[main], 20), (&[inlined_in_main], 20), (&[made], 40)]),
        path(&[1, 0], &[(&[unescape, parse], 30), (&[parse, load], 100)]),
    ];
    snapshot.samples = vec![samples];
    let file = folder.report("a.json", &snapshot);
    assert_eq!(stdout(&["report", "--suggest", &file], 0), "src/main.rs:20\nsrc/main.rs:50\n");
    assert_contains(
        &stderr(&["report", "--suggest", &file], 0),
        &[
            ": app::made, outside marks; `perfmark mark` refuses its location",
            &format!("{in_macro}:2: no function contains this line; if it is in a macro, give the line"),
            "14 % ± 2 of the samples of cpu-clock, 100 a second: app::unescape, in parse",
            ": app::load, outside marks",
        ],
    );
    snapshot.samples.clear();
    let without = folder.report("b.json", &snapshot);
    assert_contains(&stderr(&["report", "--suggest", &without], 2), &["the report has no samples; PERFMARK_SAMPLE=99"]);
}
