//! The lines at which the samples of a mark are.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ptr;

use super::hot_functions::is_runtime;
use super::marked_functions::MarkedFunctions;
use super::stack::StackFrame;
use crate::compact::{Map, sort_by_key};
use crate::snapshot::data::Snapshot;
use crate::snapshot::path::{bare, readable};
use crate::snapshot::samples::{Frame, SampledPath, Samples};

/// A line of source, and the samples there.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct HotLine {
    /// The line and its function. It is a line of the marked function if the stack reaches it: time in functions that
    /// it calls counts at the line of the call. Otherwise it is the outermost known line of the stack, or the executed
    /// one if the stack goes on beyond the mark. A line that belongs to several closures or instances of a function has
    /// the name of one of them.
    pub frame: Frame,
    /// Whether it is a line of the marked function.
    pub is_own: bool,
    /// Whether it called the executed code, and it is unknown through which functions the marked one called it.
    pub is_cut: bool,
    /// The number of samples.
    pub samples: u64,
    /// How many of them were in functions that this line called, and that were not inlined.
    pub in_callees: u64,
}

impl HotLine {
    /// The function's path without closures and generic parameters, which distinguishes lines: empty for a line of the
    /// marked function.
    #[must_use]
    pub fn function(&self) -> String {
        function(&self.frame, self.is_own)
    }
}

/// As [`HotLine::function`]. Without a file, it is all that is known of a line.
fn function(frame: &Frame, is_own: bool) -> String {
    if is_own && frame.file.is_some() { String::new() } else { bare(&readable(&frame.function)) }
}

impl Snapshot {
    /// The lines at which samples are directly in a mark, or outside of all marks, the line with the most samples
    /// first. Samples without names are at no line, and neither are those in
    /// [perfmark itself](SamplesByMark::in_probe).
    ///
    /// ```
    /// let snapshot = perfmark::snapshot();
    /// for samples in &snapshot.samples {
    ///     for line in snapshot.hot_lines(samples, Some(0)) {
    ///         println!("{} samples at {:?}:{:?}", line.samples, line.frame.file, line.frame.line);
    ///     }
    /// }
    /// ```
    #[must_use]
    pub fn hot_lines(&self, samples: &Samples, mark: Option<usize>) -> Vec<HotLine> {
        self.samples_by_mark(samples).hot_lines(mark)
    }

    /// The samples, for questions about many marks.
    #[must_use]
    pub fn samples_by_mark<'a>(&'a self, samples: &'a Samples) -> SamplesByMark<'a> {
        let mut paths: Map<Option<usize>, Vec<&SampledPath>> = Map::new();
        for path in &samples.paths {
            paths.get_or_default(path.marks.last().copied()).push(path);
        }
        SamplesByMark { samples, paths, marked: MarkedFunctions::new(&self.marks, samples) }
    }
}

/// Samples, by the mark that they are directly in.
#[derive(Clone, Debug)]
pub struct SamplesByMark<'a> {
    samples: &'a Samples,
    paths: Map<Option<usize>, Vec<&'a SampledPath>>,
    marked: MarkedFunctions<'a>,
}

impl<'a> SamplesByMark<'a> {
    /// The samples of all marks.
    #[must_use]
    pub fn samples(&self) -> &'a Samples {
        self.samples
    }

    fn paths(&self, mark: Option<usize>) -> impl Iterator<Item = &'a SampledPath> {
        self.paths.get(&mark).into_iter().flatten().copied()
    }

    /// As [`Samples::of_mark`].
    #[must_use]
    pub fn of_mark(&self, mark: Option<usize>) -> u64 {
        self.paths(mark).map(|path| path.samples).fold(0, u64::saturating_add)
    }

    /// Each stack directly in a mark, with its functions and the position of the marked one, if it is among them.
    fn stacks(&self, mark: Option<usize>) -> impl Iterator<Item = Stack<'a>> {
        self.paths(mark).flat_map(|path| path.stacks.iter().map(move |stack| (path, stack))).map(
            move |(path, stack)| {
                let frames = stack.frames(self.samples);
                let own = mark.and_then(|mark| self.marked.own_frame(mark, &frames));
                Stack { path, samples: stack.samples, frames, own }
            },
        )
    }

    /// The samples that are directly in a mark, or outside of all marks, while perfmark itself was executed: at entry
    /// and exit of marks. As times are net of the probe overhead, shares of lines are net of these.
    #[must_use]
    pub fn in_probe(&self, mark: Option<usize>) -> u64 {
        let in_probe = self.stacks(mark).filter(Stack::is_probe);
        in_probe.map(|stack| stack.samples).fold(0, u64::saturating_add)
    }

    /// As [`Snapshot::hot_lines`].
    #[must_use]
    pub fn hot_lines(&self, mark: Option<usize>) -> Vec<HotLine> {
        let mut lines = Lines::new();
        // Names may be long, and many stacks have the same frames.
        let (mut functions, mut runtime) = (BTreeMap::new(), BTreeMap::new());
        for stack in self.stacks(mark).filter(|stack| !stack.is_probe()) {
            let shown = stack.own.or_else(|| self.outermost(&stack, &mut runtime));
            let Some(&StackFrame { depth, frame: Some(frame), .. }) = shown.and_then(|at| stack.frames.get(at)) else {
                continue;
            };
            let (is_own, is_in_callee) = (stack.own.is_some(), depth > 0);
            let name = functions.entry((ptr::from_ref(frame), is_own)).or_insert_with(|| function(frame, is_own));
            let line = Line::named(name.clone(), frame, is_own, is_in_callee && !is_own);
            add(&mut lines, line, frame, stack.samples, is_in_callee);
        }
        sorted(lines)
    }

    /// The outermost function that certainly ran in the mark, in a stack that does not reach the marked function: the
    /// last one, unless the stack goes on beyond the mark, whose function then has another name. Otherwise the executed
    /// one.
    fn outermost(&self, stack: &Stack<'_>, runtime: &mut BTreeMap<*const Frame, bool>) -> Option<usize> {
        let mut is_runtime = |frame| *runtime.entry(ptr::from_ref(frame)).or_insert_with(|| is_runtime(frame));
        let caller = stack.path.marks.iter().rev().nth(1);
        let is_beyond = stack.path.marks.is_empty()
            || caller.is_some_and(|&caller| self.marked.own_frame(caller, &stack.frames).is_some())
            || stack.frames.last().and_then(|at| at.frame).is_some_and(&mut is_runtime);
        stack.frames.iter().rposition(|at| at.frame.is_some() && (!is_beyond || at.depth == 0))
    }

    /// The executed lines of functions that a line of the marked function called, also of inlined ones: where the
    /// line's samples are that are not in the line itself. The one with the most samples is first.
    #[must_use]
    pub fn lines_inside(&self, mark: Option<usize>, line: &HotLine) -> Vec<HotLine> {
        let of = Line::new(&line.frame, true, false);
        let mut lines = Lines::new();
        for Stack { frames, own, samples, .. } in self.stacks(mark).filter(|stack| !stack.is_probe()) {
            let Some(called) = own.filter(|&own| own > 0).and_then(|own| frames.get(own)) else { continue };
            let is_called = called.frame.is_some_and(|frame| Line::new(frame, true, false) == of);
            if let Some(executed) = frames[0].frame.filter(|_| line.is_own && is_called) {
                add(&mut lines, Line::new(executed, false, false), executed, samples, called.depth > 0);
            }
        }
        sorted(lines)
    }
}

/// Samples with one stack.
struct Stack<'a> {
    path: &'a SampledPath,
    samples: u64,
    frames: Vec<StackFrame<'a>>,
    /// The position of the marked function.
    own: Option<usize>,
}

impl Stack<'_> {
    fn is_probe(&self) -> bool {
        StackFrame::count_of_probe(&self.frames, self.own) > 0
    }
}

/// What distinguishes lines in reports.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Line<'a> {
    function: String,
    file: Option<&'a str>,
    number: Option<u32>,
    is_own: bool,
    is_cut: bool,
}

impl<'a> Line<'a> {
    fn new(frame: &'a Frame, is_own: bool, is_cut: bool) -> Self {
        Self::named(function(frame, is_own), frame, is_own, is_cut)
    }

    fn named(function: String, frame: &'a Frame, is_own: bool, is_cut: bool) -> Self {
        Self { function, file: frame.file.as_deref(), number: frame.line, is_own, is_cut }
    }
}

/// Each line with a frame of it, its samples, and those in its callees.
type Lines<'a> = BTreeMap<Line<'a>, (&'a Frame, [u64; 2])>;

fn add<'a>(lines: &mut Lines<'a>, line: Line<'a>, frame: &'a Frame, samples: u64, is_in_callee: bool) {
    let (_, [all, in_callees]) = lines.entry(line).or_insert((frame, [0; 2]));
    *all = all.saturating_add(samples);
    *in_callees = in_callees.saturating_add(if is_in_callee { samples } else { 0 });
}

/// The line with the most samples first.
fn sorted(lines: Lines<'_>) -> Vec<HotLine> {
    let line = |(Line { is_own, is_cut, .. }, (frame, [samples, in_callees])): (Line<'_>, (&Frame, [u64; 2]))| {
        HotLine { frame: frame.clone(), is_own, is_cut, samples, in_callees }
    };
    let mut lines: Vec<HotLine> = lines.into_iter().map(line).collect();
    sort_by_key(&mut lines, |line| Reverse(line.samples));
    lines
}

impl Samples {
    /// The number of samples directly in a mark, or outside of all marks.
    #[must_use]
    pub fn of_mark(&self, mark: Option<usize>) -> u64 {
        let paths = self.paths.iter().filter(|path| path.marks.last().copied() == mark);
        paths.map(|path| path.samples).fold(0, u64::saturating_add)
    }

    /// Whether so many samples are missing that the others may be no fair selection: more than 5 % were lost, belong to
    /// no mark because their call is [unknown](Self::unattributed), or were [expected](Self::expected) and never taken.
    /// If threads [could not be sampled](Self::threads_without), and it is unknown how many samples they would have, so
    /// it is, too.
    #[must_use]
    pub fn is_biased(&self) -> bool {
        self.is_lossy() || self.is_unattributed() || self.missing().is_some() || self.lacks_threads()
    }

    /// Whether threads could not be sampled, and it is unknown how many samples are missing.
    pub(crate) fn lacks_threads(&self) -> bool {
        self.threads_without > 0 && self.expected().is_none()
    }

    /// Whether it is unknown of more than 5 % to which mark they belong.
    pub(crate) fn is_unattributed(&self) -> bool {
        u128::from(self.unattributed) * 20 > u128::from(self.taken_in_all())
    }

    /// Whether more than 5 % were lost.
    pub(crate) fn is_lossy(&self) -> bool {
        let all = u128::from(self.lost) + u128::from(self.taken_in_all());
        u128::from(self.lost) * 20 > all
    }

    /// The number of samples that the CPU time in user mode would have at the rate that was set. `None` if the event is
    /// not `cpu-clock` or `task-clock` in user mode, or if the time is unknown.
    #[must_use]
    pub fn expected(&self) -> Option<u64> {
        let event = self.event.strip_suffix(":u").unwrap_or(&self.event);
        let is_clock = ["cpu-clock", "task-clock"].contains(&event);
        let user_ns = u128::from(self.user_ns);
        let samples = match (self.period, self.frequency) {
            (Some(period), _) => user_ns / u128::from(period.max(1)),
            (None, frequency) => user_ns * u128::from(frequency?) / 1_000_000_000,
        };
        u64::try_from(samples).ok().filter(|_| is_clock && user_ns > 0)
    }

    /// The number of expected samples that were neither taken nor lost, if they are more than 5 %, and more than
    /// chance: the kernel estimates the time by its timer, 100 times a second or more. In a short program, samples may
    /// be missing at its start, so only those of threads that could not be sampled count there.
    pub(crate) fn missing(&self) -> Option<u64> {
        const ENOUGH_NS: u64 = 1_000_000_000;
        let expected = self.expected().filter(|_| self.user_ns >= ENOUGH_NS || self.threads_without > 0)?;
        let missing = expected.saturating_sub(self.taken_in_all().saturating_add(self.lost));
        let chance = 3.0 * (expected as f64).sqrt();
        (missing as f64 > (expected as f64 / 20.0).max(chance)).then_some(missing)
    }
}
