//! The functions that a sampled stack consists of.

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

impl SampledStack {
    /// The functions of the stack, with those that are inlined, the innermost first.
    #[must_use]
    pub fn frames<'a>(&self, samples: &'a Samples) -> Vec<StackFrame<'a>> {
        let mut frames = Vec::new();
        for (depth, location) in self.locations.iter().filter_map(|&at| samples.locations.get(at)).enumerate() {
            let named = location.frames.iter().filter_map(|&at| samples.frames.get(at));
            let before = frames.len();
            frames.extend(named.map(|frame| StackFrame { depth, location, frame: Some(frame) }));
            if frames.len() == before {
                frames.push(StackFrame { depth, location, frame: None });
            }
        }
        frames
    }
}
