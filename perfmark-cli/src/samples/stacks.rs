//! The stacks of samples: the marks around, and below them the functions up to the marked one.
//!
//! What called the marked function is left out, because the marks around it stand for it. If a stack does not reach the
//! marked function, or has no names, nobody knows which of its calls are inside the mark. Then only the executed code
//! is certainly inside, and its callers are left out. Outside of all marks, stacks are complete.

use std::path::Path;

use perfmark::text::sanitize;
use perfmark::{Frame, Module, Samples, Snapshot, StackFrame};

/// The label of samples in no mark.
pub(super) const OUTSIDE: &str = "outside marks";

/// Samples at one instruction with the same callers, in calls with one path of marks.
pub(super) struct Stack<'a> {
    /// The names of the marks, the outermost first.
    pub(super) marks: Vec<&'a str>,
    /// The functions, the innermost first.
    pub(super) frames: Vec<StackFrame<'a>>,
    /// Whether the last of the frames is the marked function.
    pub(super) has_own: bool,
    pub(super) samples: u64,
    modules: &'a [Module],
}

/// The samples of an event at one rate.
pub(super) struct Sampled<'a> {
    pub(super) samples: &'a Samples,
    /// Those with the same marks are together.
    pub(super) stacks: Vec<Stack<'a>>,
}

impl<'a> Sampled<'a> {
    /// `names` are those of the marks.
    pub(super) fn new(snapshot: &'a Snapshot, names: &'a [String], samples: &'a Samples) -> Self {
        let mut stacks = Vec::new();
        for path in &samples.paths {
            // A damaged report may have marks that it lacks.
            let marks: Vec<&str> = path.marks.iter().filter_map(|&mark| names.get(mark)).map(String::as_str).collect();
            let innermost = path.marks.last().and_then(|&mark| snapshot.marks.get(mark));
            for stack in &path.stacks {
                let mut frames = stack.frames(samples);
                let own = innermost.and_then(|mark| mark.own_frame(&frames));
                frames.truncate(match own {
                    Some(own) => own + 1,
                    None if path.marks.is_empty() => frames.len(),
                    None => frames.partition_point(|at| at.depth == 0),
                });
                stacks.push(Stack {
                    marks: marks.clone(),
                    frames,
                    has_own: own.is_some(),
                    samples: stack.samples,
                    modules: &samples.modules,
                });
            }
        }
        Self { samples, stacks }
    }
}

impl Stack<'_> {
    /// The innermost mark.
    pub(super) fn mark(&self) -> &str {
        self.marks.last().copied().unwrap_or(OUTSIDE)
    }

    /// The name of each frame, the outermost first: marks and then functions. The marked function is its mark. Code
    /// without a name is `libc.so.6+0x1c0`.
    pub(super) fn labels(&self, function: impl Fn(&Frame) -> String) -> Vec<String> {
        let mut labels: Vec<String> = self.marks.iter().map(|name| sanitize(name)).collect();
        if self.marks.is_empty() {
            labels.push(OUTSIDE.into());
        }
        let called = &self.frames[..self.frames.len() - usize::from(self.has_own)];
        labels.extend(called.iter().rev().map(|at| at.frame.map_or_else(|| self.address(at), &function)));
        labels
    }

    /// The marked function's own line.
    pub(super) fn own(&self) -> Option<&Frame> {
        self.frames.last().filter(|_| self.has_own)?.frame
    }

    /// The marks that have no frame of their own, the innermost first.
    pub(super) fn callers(&self) -> impl Iterator<Item = &str> {
        self.marks.iter().rev().skip(usize::from(self.has_own)).copied()
    }

    fn address(&self, at: &StackFrame<'_>) -> String {
        let module = self.modules.get(at.location.module).map(|module| Path::new(&module.path));
        let name = module.and_then(Path::file_name).map_or("?".into(), |name| name.to_string_lossy());
        format!("{}+{:#x}", sanitize(&name), at.location.address)
    }
}
