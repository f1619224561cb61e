//! What the page shows of samples besides those in the JSON report: names as in the table, where the marked functions
//! are in stacks, and the source text around sampled lines.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::compact::sort_by_key;
use crate::report::hot_lines::{FEWEST, HotLines, functions_to_show};
use crate::report::json::{Json, Writer};
use crate::report::sampling::lacks_of;
use crate::report::source_lines::SourceLines;
use crate::snapshot::path::{bare, readable};
use crate::snapshot::{Frame, HotFunction, HotLine, MarkedFunctions, Samples, Snapshot, is_probe};

/// The most lines of a mark whose text is in the page.
const LINES_OF_MARK: usize = 40;
/// The lines of text before and after a line that is not rarely sampled.
const CONTEXT: u32 = 3;
/// The most bytes of text in the page.
const MOST_TEXT: usize = 1 << 20;
/// The most characters of a line.
const LONGEST: usize = 300;

/// The parts of the page's data that are about samples.
pub(super) struct Sampled {
    pub(super) samplings: Vec<Sampling>,
    pub(super) source: Text,
}

/// The samples of one event and rate.
pub(super) struct Sampling {
    rate: String,
    is_biased: bool,
    /// What is missing, a sentence each.
    lacks: Vec<String>,
    /// The frame of the marked function in each stack of each path, if the stack reaches it.
    own: Vec<Vec<Option<usize>>>,
    /// The stacks of each path in which perfmark itself was executed.
    probe: Vec<Vec<usize>>,
    /// The names of the frames' functions, and their files as in the table.
    functions: Vec<String>,
    files: Vec<String>,
    outside: Vec<Outside>,
}

/// A function outside of all marks.
struct Outside {
    name: String,
    place: String,
    samples: u64,
    /// Whether its source is one of the program's.
    is_own: bool,
}

/// Lines by their files and numbers.
#[derive(Default)]
pub(super) struct Text(BTreeMap<String, BTreeMap<u32, String>>);

impl Sampled {
    /// `reads_sources` adds the text of lines.
    pub(super) fn new(snapshot: &Snapshot, reads_sources: bool) -> Self {
        let names = HotLines::new(snapshot, false);
        let samplings = snapshot.samples.iter().map(|samples| Sampling::new(snapshot, samples, &names)).collect();
        Self { samplings, source: Text::new(snapshot, reads_sources) }
    }
}

impl Sampling {
    fn new(snapshot: &Snapshot, samples: &Samples, names: &HotLines<'_>) -> Self {
        let marked = MarkedFunctions::new(&snapshot.marks, samples);
        let (mut own, mut probe) = (Vec::new(), Vec::new());
        for path in &samples.paths {
            let (mut of_path, mut in_probe) = (Vec::new(), Vec::new());
            for (at, stack) in path.stacks.iter().enumerate() {
                let frames = stack.frames(samples);
                let own = path.marks.last().and_then(|&mark| marked.own_frame(mark, &frames));
                in_probe.extend(is_probe(&frames, own).then_some(at));
                of_path.push(own);
            }
            own.push(of_path);
            probe.push(in_probe);
        }
        let file = |frame: &Frame| frame.file.as_deref().map_or_else(String::new, |file| names.short(file).to_owned());
        Self {
            rate: samples.rate(),
            is_biased: samples.is_biased(),
            lacks: lacks_of(samples),
            own,
            probe,
            functions: samples.frames.iter().map(name).collect(),
            files: samples.frames.iter().map(file).collect(),
            outside: outside(snapshot, samples, names),
        }
    }
}

/// The functions to mark next, of those outside of marks.
fn outside(snapshot: &Snapshot, samples: &Samples, names: &HotLines<'_>) -> Vec<Outside> {
    let outside = |function: HotFunction| Outside {
        name: name(&function.frame),
        place: names.place(&function.frame).unwrap_or_default(),
        samples: function.samples,
        is_own: function.can_be_marked,
    };
    functions_to_show(snapshot, samples).into_iter().map(outside).collect()
}

fn name(frame: &Frame) -> String {
    bare(&readable(&frame.function))
}

impl Text {
    /// The text around the lines of marked functions, the line with the most samples first.
    fn new(snapshot: &Snapshot, reads_sources: bool) -> Self {
        let mut lines: Vec<HotLine> = Vec::new();
        for samples in &snapshot.samples {
            let by_mark = snapshot.samples_by_mark(samples);
            for mark in 0..snapshot.marks.len() {
                let own = by_mark.hot_lines(Some(mark)).into_iter().filter(|line| line.is_own);
                lines.extend(own.take(LINES_OF_MARK));
            }
        }
        sort_by_key(&mut lines, |line| Reverse(line.samples));
        let mut source = SourceLines::new(snapshot, reads_sources);
        let mut text = Self::default();
        let mut left = MOST_TEXT;
        for HotLine { frame, samples, .. } in lines {
            let (Some(file), Some(line)) = (frame.file, frame.line) else { continue };
            let context = if samples < FEWEST { 0 } else { CONTEXT };
            for number in line.saturating_sub(context)..=line.saturating_add(context) {
                let Some(shown) = source.line(&file, number) else { continue };
                let shown: String = shown.chars().take(LONGEST).collect();
                if shown.len() > left {
                    return text;
                }
                left -= shown.len();
                text.0.entry(file.clone()).or_default().insert(number, shown);
            }
        }
        text
    }
}

impl Json for Sampling {
    fn write(&self, out: &mut Writer) {
        out.level(['{', '}'], |out| {
            out.field("rate", &self.rate);
            out.field("isBiased", &self.is_biased);
            out.field("lacks", &self.lacks);
            out.field("own", &self.own);
            out.field("probe", &self.probe);
            out.field("functions", &self.functions);
            out.field("files", &self.files);
            out.field("outside", &self.outside);
        });
    }
}

impl Json for Outside {
    fn write(&self, out: &mut Writer) {
        out.level(['{', '}'], |out| {
            out.field("name", &self.name);
            out.field("place", &self.place);
            // Text, because JavaScript would round large numbers.
            out.field("samples", &self.samples.to_string());
            out.field("isOwn", &self.is_own);
        });
    }
}

impl Json for Text {
    fn write(&self, out: &mut Writer) {
        out.level(['{', '}'], |out| {
            for (file, lines) in &self.0 {
                out.field(file, &Lines(lines));
            }
        });
    }
}

struct Lines<'a>(&'a BTreeMap<u32, String>);

impl Json for Lines<'_> {
    fn write(&self, out: &mut Writer) {
        out.level(['{', '}'], |out| {
            for (number, text) in self.0 {
                out.field(&number.to_string(), text);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::sample;
    use crate::snapshot::Module;

    #[test]
    fn marked_functions_are_found_in_the_stacks_that_reach_them() {
        let snapshot = sample::sampled();
        let samples = &snapshot.samples[0];
        let own = Sampled::new(&snapshot, false).samplings.remove(0).own;
        let at = samples.paths.iter().position(|path| path.marks == [1, 0]).expect("a path");
        let stacks = samples.paths[at].stacks.iter().zip(&own[at]);
        let lines =
            stacks.filter_map(|(stack, own)| Some((stack.samples, stack.frames(samples)[(*own)?].frame?.line?)));
        let mut lines: Vec<_> = lines.collect();
        lines.sort_unstable();
        assert_eq!(lines, [(10, 12), (20, 12), (60, 12), (90, 14), (100, 12)]);
        assert_eq!(own[at].len(), samples.paths[at].stacks.len());
    }

    #[test]
    fn the_page_has_the_text_around_hot_lines_and_not_the_files() {
        let folder = std::env::temp_dir().join(format!("perfmark-page-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("src")).expect("made");
        let path = |name: &str| folder.join(name).to_str().expect("UTF-8").to_owned();
        let long = "x".repeat(1_000);
        let text: Vec<String> = (1..=100).map(|line| format!("{line} {long}")).collect();
        std::fs::write(path("src/main.rs"), text.join("\n")).expect("written");
        std::fs::write(path("wordcount"), "").expect("written");
        let mut snapshot = sample::sampled();
        for samples in &mut snapshot.samples {
            samples.modules[0] = Module { path: path("wordcount"), build_id: None };
            for file in samples.frames.iter_mut().filter_map(|frame| frame.file.as_mut()) {
                *file = file.replace("/home/user/wordcount", folder.to_str().expect("UTF-8"));
            }
        }
        let Text(files) = Text::new(&snapshot, true);
        std::fs::remove_dir_all(&folder).expect("removed");
        assert_eq!(files.len(), 1);
        let lines = &files[&path("src/main.rs")];
        // Lines 12 and 14 are hot; line 21 has 3 samples.
        assert_eq!(lines.keys().copied().collect::<Vec<_>>(), (9..=17).chain([21]).collect::<Vec<_>>());
        assert!(lines.iter().all(|(number, text)| text.starts_with(&format!("{number} x")) && text.len() == LONGEST));
        assert_eq!(Text::new(&sample::sampled(), true).0.len(), 0);
    }
}
