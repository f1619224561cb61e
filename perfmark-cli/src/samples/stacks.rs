//! The stacks of samples: the marks around, and below them the functions up to the marked one.
//!
//! What called the marked function is left out, because the marks around it stand for it. If a stack does not reach the
//! marked function, or has no names, nobody knows which of its calls are inside the mark. Then only the executed code
//! is certainly inside, and its callers are left out. Outside of all marks, stacks are complete. perfmark's own code at
//! entry and exit of marks is one frame, without the functions that it consists of.

use std::path::Path;
use std::rc::Rc;

use perfmark::text::sanitize;
use perfmark::{Frame, MarkedFunctions, Module, SampleTime, Samples, Snapshot, StackFrame};

/// The label of samples in no mark.
pub(super) const OUTSIDE: &str = "outside marks";

/// Whether the samples' period is a time, in nanoseconds.
pub(super) fn is_of_clock(samples: &Samples) -> bool {
    ["cpu-clock", "task-clock"].iter().any(|clock| samples.event.starts_with(clock))
}

/// Samples at one instruction with the same callers, in calls with one path of marks.
pub(super) struct Stack<'a> {
    /// The names of the marks, the outermost first.
    pub(super) marks: Vec<&'a str>,
    /// The name of the threads, outside of all marks.
    pub(super) thread: Option<&'a str>,
    /// Whether it is in perfmark's own code at entry or exit of a mark, which `frames` then lack.
    pub(super) is_probe: bool,
    /// The functions, the innermost first.
    pub(super) frames: Vec<StackFrame<'a>>,
    /// Whether the last of the frames is the marked function.
    pub(super) has_own: bool,
    pub(super) samples: u64,
    /// As in [`SampledStack::times`](perfmark::SampledStack::times).
    pub(super) times: &'a [SampleTime],
    modules: &'a [Module],
}

/// A part of a stack that has a name.
#[derive(Clone, Copy)]
pub(super) enum Part<'a> {
    Mark(&'a str),
    Threads(&'a str),
    Function(&'a Frame),
    /// perfmark's own code.
    Probe,
    /// Code without a name.
    Code(StackFrame<'a>, &'a [Module]),
}

impl Part<'_> {
    /// The same for the same mark, function and line, or instruction.
    pub(super) fn key(&self) -> usize {
        match *self {
            Self::Mark(name) | Self::Threads(name) => name.as_ptr().addr(),
            Self::Function(frame) => std::ptr::from_ref(frame).addr(),
            Self::Probe => StackFrame::PROBE.as_ptr().addr(),
            Self::Code(at, _) => std::ptr::from_ref(at.location).addr(),
        }
    }

    /// Code without a name is `libc.so.6+0x1c0`.
    pub(super) fn name(&self, function: impl Fn(&Frame) -> String) -> String {
        match *self {
            Self::Mark(name) => sanitize(name),
            Self::Threads(name) => format!("thread {}", sanitize(name)),
            Self::Function(frame) => sanitize(&function(frame)),
            Self::Probe => StackFrame::PROBE.to_owned(),
            Self::Code(at, modules) => {
                let module = modules.get(at.location.module).map(|module| Path::new(&module.path));
                let name = module.and_then(Path::file_name).map_or("?".into(), |name| name.to_string_lossy());
                format!("{}+{:#x}", sanitize(&name), at.location.address)
            }
        }
    }
}

/// The samples of an event at one rate.
pub(super) struct Sampled<'a> {
    pub(super) samples: &'a Samples,
    snapshot: &'a Snapshot,
    /// Those of the marks.
    names: &'a [String],
}

impl<'a> Sampled<'a> {
    /// `names` are those of the marks.
    pub(super) fn new(snapshot: &'a Snapshot, names: &'a [String], samples: &'a Samples) -> Self {
        Self { samples, snapshot, names }
    }

    /// Those with the same marks are together.
    pub(super) fn stacks(&self) -> impl Iterator<Item = Stack<'a>> {
        let Self { samples, snapshot, names } = *self;
        let marked = Rc::new(MarkedFunctions::new(&snapshot.marks, samples));
        samples.paths.iter().flat_map(move |path| {
            // A damaged report may have marks that it lacks.
            let marks: Vec<&str> = path.marks.iter().filter_map(|&mark| names.get(mark)).map(String::as_str).collect();
            let (innermost, marked) = (path.marks.last().copied(), Rc::clone(&marked));
            path.stacks.iter().map(move |stack| {
                let mut frames = stack.frames(samples);
                let own = innermost.and_then(|mark| marked.own_frame(mark, &frames));
                let probe = StackFrame::count_of_probe(&frames, own);
                frames.truncate(match own {
                    Some(own) => own + 1,
                    None if marks.is_empty() => frames.len(),
                    None => frames.partition_point(|at| at.depth == 0),
                });
                frames.drain(..probe.min(frames.len()));
                let (marks, thread, has_own, is_probe) =
                    (marks.clone(), path.thread.as_deref(), own.is_some(), probe > 0);
                let (samples, times, modules) = (stack.samples, &stack.times[..], &samples.modules);
                Stack { marks, thread, is_probe, frames, has_own, samples, times, modules }
            })
        })
    }
}

impl<'a> Stack<'a> {
    /// The innermost mark.
    pub(super) fn mark(&self) -> &'a str {
        self.marks.last().copied().unwrap_or(OUTSIDE)
    }

    /// The outermost first: marks, or threads, and then functions. The marked function is its mark.
    pub(super) fn parts(&self) -> impl Iterator<Item = Part<'a>> {
        let outside = self.marks.is_empty().then_some(OUTSIDE);
        let called = &self.frames[..self.frames.len() - usize::from(self.has_own)];
        let part = |at: &StackFrame<'a>| at.frame.map_or(Part::Code(*at, self.modules), Part::Function);
        let marks = self.marks.iter().copied().chain(outside).map(Part::Mark);
        let probe = self.is_probe.then_some(Part::Probe);
        marks.chain(self.thread.map(Part::Threads)).chain(called.iter().rev().map(part)).chain(probe)
    }

    /// The marked function's own line.
    pub(super) fn own(&self) -> Option<&'a Frame> {
        self.frames.last().filter(|_| self.has_own)?.frame
    }

    /// The marks that have no frame of their own, the innermost first.
    pub(super) fn callers(&self) -> impl Iterator<Item = &'a str> {
        self.marks.iter().rev().skip(usize::from(self.has_own)).copied()
    }
}
