//! What the page shows of samples besides those in the JSON report: names as in the table, where the marked functions
//! are in stacks, and the source text around sampled lines.

use std::collections::BTreeMap;

use crate::report::hot_lines::{HotLines, functions_to_show, off_to_show};
use crate::report::json::{Json, Writer};
use crate::report::sampling::lacks_of;
use crate::report::source_text::around_lines_of_marks;
use crate::snapshot::path::{bare, readable};
use crate::snapshot::{Frame, HotFunction, LinesOfFiles, MarkedFunctions, Samples, Snapshot, StackFrame};

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
    /// How many of the innermost functions of each stack are perfmark's own code at entry and exit.
    probe: Vec<Vec<usize>>,
    /// The names of the frames' functions, and their files as in the table.
    functions: Vec<String>,
    files: Vec<String>,
    outside: Vec<Outside>,
    /// The samples in functions whose marks the filter turns off; 0 if they are too few to show.
    off: u64,
}

/// A function outside of all marks.
struct Outside {
    name: String,
    place: String,
    samples: u64,
    /// The mark or the threads that it was executed in.
    around: String,
    /// Whether its source is one of the program's.
    is_own: bool,
}

/// The text of lines.
pub(super) struct Text(LinesOfFiles);

impl Sampled {
    /// `reads_sources` adds the text of lines.
    pub(super) fn new(snapshot: &Snapshot, reads_sources: bool) -> Self {
        let names = HotLines::new(snapshot, false);
        let samplings = snapshot.samples.iter().map(|samples| Sampling::new(snapshot, samples, &names)).collect();
        Self { samplings, source: Text(around_lines_of_marks(snapshot, reads_sources)) }
    }
}

impl Sampling {
    fn new(snapshot: &Snapshot, samples: &Samples, names: &HotLines<'_>) -> Self {
        let marked = MarkedFunctions::new(&snapshot.marks, samples);
        let (mut own, mut probe) = (Vec::new(), Vec::new());
        for path in &samples.paths {
            let (mut of_path, mut in_probe) = (Vec::new(), Vec::new());
            for stack in &path.stacks {
                let frames = stack.frames(samples);
                let own = path.marks.last().and_then(|&mark| marked.own_frame(mark, &frames));
                in_probe.push(StackFrame::count_of_probe(&frames, own));
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
            off: off_to_show(snapshot, samples),
        }
    }
}

/// The functions to mark next, of those outside of marks.
fn outside(snapshot: &Snapshot, samples: &Samples, names: &HotLines<'_>) -> Vec<Outside> {
    let outside = |function: HotFunction| Outside {
        name: name(&function.frame),
        place: names.place(&function.frame).unwrap_or_default(),
        samples: function.samples,
        around: names.around(&function),
        is_own: function.can_be_marked,
    };
    functions_to_show(snapshot, samples).into_iter().map(outside).collect()
}

fn name(frame: &Frame) -> String {
    bare(&readable(&frame.function))
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
            out.field("off", &self.off.to_string());
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
            out.field("around", &self.around);
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
}
