//! What the page shows of samples besides those in the JSON report: names as in the table, and where the marked
//! functions are in stacks.

use crate::report::hot_lines::{HotLines, NO_CALLER, functions_to_show, off_to_show};
use crate::report::json::{Json, Writer, objects};
use crate::snapshot::path::{bare, readable};
use crate::snapshot::{Frame, HotFunction, MarkedFunctions, Samples, Snapshot, StackFrame};

/// The samples of one event and rate.
pub(super) struct Sampling {
    rate: String,
    is_biased: bool,
    /// The frame of the marked function in each stack of each path, if the stack reaches it.
    own: Vec<Vec<Option<usize>>>,
    /// How many of the innermost functions of each stack are perfmark's own code at entry and exit.
    probe: Vec<Vec<usize>>,
    /// The names of the frames' functions, and their files as in the table.
    functions: Vec<String>,
    files: Vec<String>,
    outside: Vec<Outside>,
    /// The samples in functions whose marks the filter turns off, as text; 0 if they are too few to show.
    off: String,
}

/// A function to mark next, or one outside of all marks that nobody can mark.
struct Outside {
    name: String,
    place: String,
    /// As text, because JavaScript would round large numbers.
    samples: String,
    /// Whether there is nothing to mark, and the mark or the threads that it was executed in.
    around: String,
    /// Whether its source is one of the program's.
    is_own: bool,
}

/// The samples of each event and rate, in the order of the snapshot.
pub(super) fn samplings(snapshot: &Snapshot) -> Vec<Sampling> {
    let names = HotLines::new(snapshot, false);
    snapshot.samples.iter().map(|samples| Sampling::new(snapshot, samples, &names)).collect()
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
            own,
            probe,
            functions: samples.frames.iter().map(|frame| bare(&readable(&frame.function))).collect(),
            files: samples.frames.iter().map(file).collect(),
            outside: outside(snapshot, samples, names),
            off: off_to_show(snapshot, samples).to_string(),
        }
    }
}

/// The hottest functions that have no mark, also inside of marks.
fn outside(snapshot: &Snapshot, samples: &Samples, names: &HotLines<'_>) -> Vec<Outside> {
    let outside = |(function, name): (&HotFunction, String)| Outside {
        name,
        place: names.place(&function.frame).unwrap_or_default(),
        samples: function.samples.to_string(),
        around: if function.can_be_marked { String::new() } else { format!("{NO_CALLER}, ") } + &names.around(function),
        is_own: function.can_be_marked,
    };
    let functions = functions_to_show(snapshot, samples);
    functions.iter().zip(names.names(&functions)).map(outside).collect()
}

objects! {
    Sampling { rate, is_biased as "isBiased", own, probe, functions, files, outside, off }
    Outside { name, place, samples, around, is_own as "isOwn" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::sample;

    #[test]
    fn marked_functions_are_found_in_the_stacks_that_reach_them() {
        let snapshot = sample::sampled();
        let samples = &snapshot.samples[0];
        let own = samplings(&snapshot).remove(0).own;
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
    fn functions_to_mark_have_the_names_and_words_of_the_table() {
        let outside = samplings(&sample::sampled()).remove(0).outside;
        let shown: Vec<_> = outside.iter().map(|one| [&*one.name, &*one.place, &*one.around]).collect();
        let expected = [
            ["Words::read", "src/words.rs:31", "mostly thread wordcount"],
            ["__memmove_avx_unaligned", "", "no known caller to mark, thread reader-*"],
        ];
        assert_eq!(shown, expected);
    }
}
