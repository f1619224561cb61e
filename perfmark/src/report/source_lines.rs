//! The text of sampled lines, where the source files are on this machine.
//!
//! The names of files come from debug information, possibly of another machine, and a report may be published. So only
//! files with the names of source files are read, and none in a process that has more rights than its caller.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;
use std::time::SystemTime;

use crate::compact::{Collect as _, Map};
#[cfg(feature = "symbols")]
use crate::snapshot::symbols::is_sampled_build;
use crate::snapshot::{Frame, Module, Snapshot};
use crate::text::sanitize;

/// The largest file that is read, in bytes.
const LARGEST: u64 = 4 << 20;
/// The most bytes that are read of all files.
const MOST: u64 = 64 << 20;
/// The most characters of a line.
const LONGEST: usize = 400;
/// The names of source files end with these.
const ENDS: [&str; 11] = ["rs", "c", "h", "cc", "cpp", "cxx", "hh", "hpp", "hxx", "s", "S"];

/// Source files, each of which is read once.
pub(super) struct SourceLines<'a> {
    snapshot: &'a Snapshot,
    /// The lines that the snapshot has itself.
    embedded: Map<(&'a str, u32), &'a str>,
    /// The lines of each file, or `None` for files that are not shown.
    files: Map<String, Option<Vec<Box<str>>>>,
    /// When the sampled modules were written; `None` for those that are not on this machine.
    modules: Map<&'a Module, Option<SystemTime>>,
    /// The modules with code of each file; empty until the first file is read.
    of_files: Map<&'a str, Vec<&'a Module>>,
    /// The bytes that may still be read.
    left: u64,
}

impl<'a> SourceLines<'a> {
    pub(super) fn new(snapshot: &'a Snapshot, may_read: bool) -> Self {
        let embedded = snapshot.source_lines().map(|(file, number, text)| ((file.as_str(), number), text.as_str()));
        let embedded = embedded.collect_map();
        let left = if may_read { MOST } else { 0 };
        Self { snapshot, embedded, files: Map::new(), modules: Map::new(), of_files: Map::new(), left }
    }

    /// The line's text without indentation, safe for a terminal; empty if it is not known. It is known if the file has
    /// not been modified since the sampled program was built.
    pub(super) fn text(&mut self, frame: &Frame) -> String {
        let (Some(file), Some(line)) = (&frame.file, frame.line) else { return String::new() };
        let line = self.line(file, line).unwrap_or_default();
        let start: String = line.trim().chars().take(LONGEST).collect();
        sanitize(&start.replace('\t', " "))
    }

    /// The line as it is in the file, if it is known; the first one has the number 1.
    pub(super) fn line(&mut self, file: &str, line: u32) -> Option<&str> {
        if let Some(text) = self.embedded.get(&(file, line)) {
            return Some(text);
        }
        if !self.files.contains_key(file) {
            let text = self.read(file);
            self.left -= text.as_ref().map_or(0, |text| self.left.min(text.len() as u64));
            self.files.insert(file.to_owned(), text.map(|text| text.lines().map(Into::into).collect()));
        }
        self.files.get(file)?.as_ref()?.get((line as usize).checked_sub(1)?).map(|line| &**line)
    }

    fn read(&mut self, file: &str) -> Option<String> {
        let path = Path::new(file);
        let room = LARGEST.min(self.left);
        let is_source = path.extension().is_some_and(|end| ENDS.iter().any(|known| end == *known));
        if room == 0 || !is_source || !fs::metadata(path).is_ok_and(|about| about.is_file() && about.len() <= room) {
            return None;
        }
        let built = self.built(file)?;
        let source = open(path)?;
        let about = source.metadata().ok().filter(|about| about.is_file() && about.len() <= room)?;
        if about.modified().ok()? > built {
            return None;
        }
        let mut bytes = Vec::new();
        source.take(room).read_to_end(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// When the first of the modules with code of that file was written, if all of them are the sampled ones.
    fn built(&mut self, file: &str) -> Option<SystemTime> {
        if self.of_files.len() == 0 {
            for samples in self.snapshot.sampled() {
                for location in &samples.locations {
                    let Some(module) = samples.modules.get(location.module) else { continue };
                    for file in location.frames.iter().filter_map(|&at| samples.frames.get(at)?.file.as_deref()) {
                        let modules = self.of_files.get_or_default(file);
                        if !modules.contains(&module) {
                            modules.push(module);
                        }
                    }
                }
            }
        }
        let modules = self.of_files.get(file)?;
        let times = modules.iter().map(|&module| {
            if !self.modules.contains_key(module) {
                self.modules.insert(module, written(module));
            }
            *self.modules.get(module)?
        });
        times.collect::<Option<Vec<_>>>()?.into_iter().min()
    }
}

/// When the module's file was written, if it is the one that was sampled.
fn written(module: &Module) -> Option<SystemTime> {
    let about = fs::metadata(&module.path).ok().filter(fs::Metadata::is_file)?;
    (module.build_id.is_none() || is_sampled_build(module)).then(|| about.modified().ok())?
}

/// Without the feature, no file's build id is known.
#[cfg(not(feature = "symbols"))]
fn is_sampled_build(_: &Module) -> bool {
    false
}

/// Opens a file to read it. If another program has put a pipe in its place, this does not wait for a writer.
fn open(path: &Path) -> Option<File> {
    let mut options = File::options();
    options.read(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NONBLOCK);
    options.open(path).ok()
}

#[cfg(test)]
pub(in crate::report) mod tests {
    use std::path::PathBuf;
    use std::time::Duration;

    use super::*;
    use crate::snapshot::{Location, Samples};

    /// A directory with a program and its source files, which is removed at the end.
    pub(in crate::report) struct Project(PathBuf);

    impl Project {
        pub(in crate::report) fn new(name: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("perfmark-sources-{name}-{}", std::process::id()));
            _ = fs::remove_dir_all(&folder);
            fs::create_dir_all(folder.join("src")).expect("made");
            Self(folder)
        }

        pub(in crate::report) fn path(&self, file: &str) -> String {
            self.0.join(file).to_str().expect("UTF-8").to_owned()
        }

        /// Writes a file, as if it were so many seconds old.
        pub(in crate::report) fn write(&self, file: &str, age: u64, content: impl AsRef<[u8]>) -> String {
            let path = self.path(file);
            fs::write(&path, content).expect("written");
            let then = SystemTime::now() - Duration::from_secs(age);
            File::options().write(true).open(&path).and_then(|file| file.set_modified(then)).expect("modified");
            path
        }
    }

    impl Project {
        /// The sampled program of the other tests, with its source files.
        pub(in crate::report) fn sampled(&self) -> Snapshot {
            let lines = |texts: &[(usize, &str)]| {
                let text = |line| texts.iter().find(|(at, _)| *at == line).map_or("", |(_, text)| text);
                (1..=50).map(text).collect::<Vec<_>>().join("\n")
            };
            let main = [
                (12, "    let words = line.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());"),
                (14, "\t\t*counts.entry(word.to_owned()).or_default() += 1;"),
                (40, "    run(&arguments)"),
            ];
            self.write("src/main.rs", 60, lines(&main));
            self.write("src/words.rs", 60, lines(&[(31, "        file.read_to_string(&mut self.text)?;")]));
            let program = self.write("wordcount", 50, "program");
            let mut snapshot = crate::report::tests::sample::sampled();
            for samples in &mut snapshot.samples {
                samples.modules[0] = Module { path: program.clone(), build_id: None };
                for file in samples.frames.iter_mut().filter_map(|frame| frame.file.as_mut()) {
                    *file = file.replace("/home/user/wordcount/", &self.path(""));
                }
            }
            snapshot
        }
    }

    impl Drop for Project {
        fn drop(&mut self) {
            _ = fs::remove_dir_all(&self.0);
        }
    }

    /// A snapshot with one sampled line of each file, in that program.
    fn sampled(program: &str, build_id: Option<&str>, files: &[&str]) -> Snapshot {
        let frame = |file: &&str| Frame { file: Some((*file).into()), line: Some(2), ..Frame::default() };
        let location = |at| Location { frames: vec![at], ..Location::default() };
        let samples = Samples {
            modules: vec![Module { path: program.into(), build_id: build_id.map(str::to_owned) }],
            locations: (0..files.len()).map(location).collect(),
            frames: files.iter().map(frame).collect(),
            ..Samples::default()
        };
        Snapshot { samples: vec![samples], ..Snapshot::default() }
    }

    /// The text of each file's second line.
    fn texts(snapshot: &Snapshot, may_read: bool) -> Vec<String> {
        let mut lines = SourceLines::new(snapshot, may_read);
        snapshot.samples[0].frames.iter().map(|frame| lines.text(frame)).collect()
    }

    #[test]
    fn a_line_has_its_text_if_the_file_is_no_newer_than_the_program() {
        let project = Project::new("age");
        let program = project.write("app", 50, "program");
        let old = project.write("src/old.rs", 60, "one\n  two();\t// \u{1b}[31m\r\nthree\n");
        let new = project.write("src/new.rs", 40, "one\ntwo\n");
        let short = project.write("src/short.rs", 60, "one\n");
        let snapshot = sampled(&program, None, &[&old, &new, &short, &project.path("src/none.rs")]);
        assert_eq!(texts(&snapshot, true), ["two(); // \u{fffd}[31m", "", "", ""]);
        assert_eq!(texts(&snapshot, false), [""; 4], "not in a process with more rights than its caller");
        let gone = sampled(&project.path("gone"), None, &[&old]);
        assert_eq!(texts(&gone, true), [""]);
    }

    #[test]
    fn only_source_files_of_a_reasonable_size_are_read() {
        let project = Project::new("size");
        let secret = project.write("id_rsa", 60, "one\ntwo\n");
        let large = project.write("src/large.rs", 60, "one\ntwo\n".repeat(600_000));
        let folder = project.path("src/folder.rs");
        fs::create_dir(&folder).expect("made");
        let invalid = project.write("src/invalid.rs", 60, b"\xff\n\xfftwo");
        let long = project.write("src/long.rs", 60, format!("\n{}", "x".repeat(9_999)));
        let program = project.write("app", 50, "program");
        let snapshot = sampled(&program, None, &[&secret, &large, &folder, "", &invalid, &long]);
        assert_eq!(texts(&snapshot, true), ["", "", "", "", "\u{fffd}two", &"x".repeat(LONGEST)]);
    }

    #[cfg(unix)]
    #[test]
    fn a_pipe_is_not_waited_for() {
        let project = Project::new("pipe");
        let pipe = project.path("src/pipe.rs");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        if !made.is_ok_and(|status| status.success()) {
            return println!("skipped: no mkfifo");
        }
        let program = project.write("app", 50, "program");
        assert_eq!(texts(&sampled(&program, None, &[&pipe]), true), [""]);
        assert!(open(Path::new(&pipe)).is_some(), "it returns");
    }

    #[test]
    fn a_program_that_was_built_again_has_other_lines() {
        let project = Project::new("build");
        let program = project.write("app", 50, "no build id");
        let old = project.write("src/old.rs", 60, "one\ntwo\n");
        assert_eq!(texts(&sampled(&program, Some("6c01ab"), &[&old]), true), [""]);
    }
}
