//! The functions that a sampled stack consists of.

use crate::snapshot::origin::{is_perfmark, is_rust_file, is_standard};
use crate::snapshot::samples::{Frame, Location, SampledStack, Samples};

/// A function in a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StackFrame<'a> {
    /// The position in [`SampledStack::locations`]: 0 for code at the executed instruction, which includes functions
    /// that are inlined there.
    pub depth: usize,
    /// The instruction.
    pub location: &'a Location,
    /// The function and its line; `None` if nobody has named the location.
    pub frame: Option<&'a Frame>,
}

impl StackFrame<'_> {
    /// The name of perfmark's own code in reports.
    pub const PROBE: &'static str = "perfmark's own code at entry and exit";

    /// The number of the innermost functions that are perfmark's own code at entry or exit of a mark, with what it
    /// calls in the standard library and in libraries of other languages; 0 if the program's code was executed. `own`
    /// is the position of the [marked function](crate::MarkedFunctions::own_frame).
    #[must_use]
    pub fn count_of_probe(frames: &[Self], own: Option<usize>) -> usize {
        let inside = &frames[..own.unwrap_or(frames.len())];
        let is_perfmarks = |at: &Self| at.frame.is_some_and(is_perfmark);
        let is_standards = |at: &Self| at.frame.is_some_and(is_standard);
        // Rust's functions have paths, also where their files are unknown.
        let is_rust = |at: &Self| at.frame.is_some_and(|frame| frame.function.contains("::") || is_rust_file(frame));
        let executed = inside.iter().position(|at| is_rust(at) && !is_standards(at));
        let Some(probe) = executed.filter(|&at| is_perfmarks(&inside[at])) else { return 0 };
        let of_probe = inside[probe..].iter().take_while(|at| is_perfmarks(at) || is_standards(at));
        // The standard library's code of perfmark's types, such as their `drop_in_place`, is a part of it.
        let names_perfmark = |at: &Self| at.frame.is_some_and(|frame| frame.function.contains("<perfmark::"));
        let last = of_probe.enumerate().filter(|(_, at)| is_perfmarks(at) || names_perfmark(at)).last();
        probe + last.map_or(0, |(last, _)| last + 1)
    }
}

impl SampledStack {
    /// Its functions, the innermost first: the depth, the location, and the index of the frame in [`Samples::frames`].
    pub(super) fn walk<'a>(&self, samples: &'a Samples) -> impl Iterator<Item = (usize, &'a Location, Option<usize>)> {
        let locations = self.locations.iter().filter_map(|&at| samples.locations.get(at)).enumerate();
        locations.flat_map(|(depth, location)| {
            let named = location.frames.iter().copied().filter(|&at| at < samples.frames.len());
            let unnamed = named.clone().next().is_none().then_some(None);
            named.map(Some).chain(unnamed).map(move |frame| (depth, location, frame))
        })
    }

    /// The functions of the stack, with those that are inlined, the innermost first.
    #[must_use]
    pub fn frames<'a>(&self, samples: &'a Samples) -> Vec<StackFrame<'a>> {
        let frame = |(depth, location, frame): (usize, &'a Location, Option<usize>)| StackFrame {
            depth,
            location,
            frame: frame.map(|at| &samples.frames[at]),
        };
        self.walk(samples).map(frame).collect()
    }
}
