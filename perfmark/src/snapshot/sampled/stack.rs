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

/// Whether perfmark was executed, or what it calls in the standard library and in libraries of other languages. `own`
/// is the position of the marked function.
pub(crate) fn is_probe(frames: &[StackFrame<'_>], own: Option<usize>) -> bool {
    let inside = &frames[..own.unwrap_or(frames.len())];
    // Rust's functions have paths, also where their files are unknown.
    let is_rust = |frame: &Frame| frame.function.contains("::") || is_rust_file(frame);
    let mut executed = inside.iter().filter_map(|at| at.frame).filter(|frame| is_rust(frame) && !is_standard(frame));
    executed.next().is_some_and(is_perfmark)
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
