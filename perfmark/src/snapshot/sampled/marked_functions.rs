//! The marked functions in sampled stacks.

use std::collections::{BTreeMap, BTreeSet};

use super::stack::StackFrame;
use crate::compact::{Collect as _, Map};
use crate::snapshot::data::Mark;
use crate::snapshot::path::{bare, end, of_trait, readable};
use crate::snapshot::samples::{Frame, Samples};

/// How the types of futures begin, after the path of their function.
const FUTURE: &str = "::{async_";

/// Finds marked functions in the stacks of samples. The texts of each mark and frame are compared once.
#[derive(Clone, Debug)]
pub struct MarkedFunctions<'a> {
    /// By the index of the mark: those that samples are directly in.
    marks: Map<usize, MarkKey>,
    /// In the order of their addresses.
    frames: Vec<(&'a Frame, FrameKey)>,
}

/// The functions of marks. Each text has a number.
#[derive(Clone, Debug, Default)]
pub(super) struct MarkKeys<'a> {
    /// Paths of functions, and their last segments.
    names: BTreeMap<String, usize>,
    files: BTreeMap<&'a str, usize>,
    paths: BTreeSet<usize>,
    /// The paths and names of functions, with their files.
    in_files: BTreeSet<(usize, usize)>,
}

#[derive(Clone, Copy, Debug)]
struct MarkKey {
    path: usize,
    name: usize,
    file: usize,
}

/// What marks have in common with a frame.
#[derive(Clone, Debug, Default)]
struct FrameKey {
    path: Option<usize>,
    /// What identifies the function together with its file: its trait's path, or its name. Debug information with
    /// nothing but lines has the name without a path.
    in_file: [Option<usize>; 2],
    /// Where one of these is possible, or the frame is the body of an async function.
    files: BTreeSet<usize>,
    is_async_body: bool,
    /// The names of async functions whose futures are parameters.
    futures: BTreeSet<usize>,
}

impl<'a> MarkedFunctions<'a> {
    /// The functions of these marks in the stacks of these samples.
    #[must_use]
    pub fn new(marks: &[Mark], samples: &'a Samples) -> Self {
        let mut keys = MarkKeys::default();
        let innermost = samples.paths.iter().filter_map(|path| path.marks.last().copied());
        let innermost: BTreeSet<usize> = innermost.collect();
        let marks = innermost.into_iter().filter_map(|at| Some((at, keys.add(marks.get(at)?)))).collect_map();
        Self { marks, frames: samples.frames.iter().map(|frame| (frame, keys.key(frame))).collect() }
    }

    /// The index of the marked function's own frame in a [stack](crate::SampledStack::frames) of the samples. If the
    /// function calls itself, it is that of the innermost call; if a part of it is inlined into itself, the outermost
    /// one there. `None` if the stack does not reach it, or has no names.
    #[must_use]
    pub fn own_frame(&self, mark: usize, frames: &[StackFrame<'a>]) -> Option<usize> {
        let mark = *self.marks.get(&mark)?;
        let innermost = (0..frames.len()).find(|&at| self.is_own(mark, &frames[at..]))?;
        let depth = frames[innermost].depth;
        (innermost..frames.len())
            .take_while(|&at| frames[at].depth == depth)
            .filter(|&at| self.is_own(mark, &frames[at..]))
            .last()
    }

    /// Whether the first frame is the function's own. The body of an async function is `{async_block#0}` where it is
    /// inlined, in debug information with nothing but lines. The function that polls it has the future's type as a
    /// parameter.
    fn is_own(&self, mark: MarkKey, frames: &[StackFrame<'a>]) -> bool {
        let key = |at: usize| self.key(frames.get(at)?.frame?);
        key(0).is_some_and(|frame| {
            let is_in_file = || frame.files.contains(&mark.file);
            let is_polled = || key(1).is_some_and(|caller| caller.futures.contains(&mark.name));
            frame.is(|path| path == mark.path, |name| (name == mark.path || name == mark.name) && is_in_file())
                || frame.is_async_body && is_polled() && is_in_file()
        })
    }

    fn key(&self, frame: &'a Frame) -> Option<&FrameKey> {
        let address = std::ptr::from_ref(frame);
        let at = self.frames.binary_search_by_key(&address, |&(frame, _)| std::ptr::from_ref(frame)).ok()?;
        Some(&self.frames[at].1)
    }
}

impl<'a> MarkKeys<'a> {
    pub(super) fn new(marks: impl IntoIterator<Item = &'a Mark>) -> Self {
        let mut keys = Self::default();
        for mark in marks {
            keys.add(mark);
        }
        keys
    }

    fn add(&mut self, mark: &'a Mark) -> MarkKey {
        let path = compared(&mark.path);
        let name = self.name(end(&path, 1).to_owned());
        let path = self.name(path);
        let next = self.files.len();
        let file = *self.files.entry(&mark.file).or_insert(next);
        self.paths.insert(path);
        self.in_files.extend([(path, file), (name, file)]);
        MarkKey { path, name, file }
    }

    /// Whether the frame, of any samples, is one of the functions.
    pub(super) fn has(&self, frame: &Frame) -> bool {
        let key = self.key(frame);
        let has_file = |name| key.files.iter().any(|&file| self.in_files.contains(&(name, file)));
        key.is(|path| self.paths.contains(&path), has_file)
    }

    fn name(&mut self, name: String) -> usize {
        let next = self.names.len();
        *self.names.entry(name).or_insert(next)
    }

    fn key(&self, frame: &Frame) -> FrameKey {
        let number = |name: &str| self.names.get(name).copied();
        let function = compared(&frame.function);
        let of_trait = of_trait(&readable(&frame.function));
        let brief = Some(&*function).filter(|function| !function.contains("::"));
        let in_file = [of_trait.as_deref().and_then(number), brief.and_then(number)];
        let is_async_body = frame.function.starts_with("{async_");
        let has_files = is_async_body || in_file != [None; 2];
        let ends = frame.file.as_deref().filter(|_| has_files).into_iter().flat_map(ends_of_path);
        let futures = frame.function.match_indices(FUTURE);
        let futures = futures.filter_map(|(at, _)| number(frame.function[..at].rsplit_once("::")?.1));
        FrameKey {
            path: number(&function),
            in_file,
            files: ends.filter_map(|end| self.files.get(end).copied()).collect(),
            is_async_body,
            futures: futures.collect(),
        }
    }
}

impl FrameKey {
    /// Whether it is a function with this path, or with this name in its file.
    fn is(&self, has_path: impl FnOnce(usize) -> bool, is_in_file: impl Fn(usize) -> bool) -> bool {
        self.path.is_some_and(has_path) || self.in_file.into_iter().flatten().any(is_in_file)
    }
}

/// The ends of a file's path that are paths, the longest first.
pub(crate) fn ends_of_path(file: &str) -> impl Iterator<Item = &str> {
    [file].into_iter().chain(file.match_indices('/').map(|(at, _)| &file[at + 1..]))
}

/// A path of a function, the same of a mark and of a symbol, which has tuples without spaces: `(u8,u16)`.
fn compared(path: &str) -> String {
    bare(&readable(path)).replace(", ", ",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::samples::{Location, SampledPath};

    const APP: &str = "/home/me/app/src/main.rs";

    /// The position of the marked function in a stack whose functions are all inlined in the last one.
    fn own_frame(path: &str, functions: &[&str]) -> Option<usize> {
        let marks = [Mark { path: path.into(), file: "src/main.rs".into(), ..Mark::default() }];
        let frame = |function: &&str| Frame { function: (*function).into(), file: Some(APP.into()), line: Some(7) };
        let paths = vec![SampledPath { marks: vec![0], ..SampledPath::default() }];
        let samples = Samples { frames: functions.iter().map(frame).collect(), paths, ..Samples::default() };
        let location = Location::default();
        let at = |frame| StackFrame { depth: 0, location: &location, frame: Some(frame) };
        MarkedFunctions::new(&marks, &samples).own_frame(0, &samples.frames.iter().map(at).collect::<Vec<_>>())
    }

    #[test]
    fn a_method_of_a_tuple_is_found_however_its_types_are_separated() {
        for function in ["<(u8,u16) as app::Load>::load", "<(u8, u16) as app::Load>::load"] {
            assert_eq!(own_frame("<(u8, u16) as app::Load>::load", &["next", function]), Some(1), "{function}");
        }
    }

    #[test]
    fn a_default_method_of_a_trait_is_found_by_its_implementor() {
        assert_eq!(own_frame("app::Load::load", &["next", "<app::Table<u8> as app::Load>::load"]), Some(1));
        assert_eq!(own_frame("app::Load::load", &["<app::Table<u8> as app::Store>::load"]), None);
    }

    #[test]
    fn an_async_function_is_found_by_the_type_of_its_future_where_it_is_inlined() {
        let inner = "poll<app::{impl#2}::read::{closure_env#1}<u8>, app::{impl#2}::read::{async_block_env#0}<u8>>";
        let outer = "poll<app::run::{closure_env#1}, app::run::{async_block_env#0}>";
        let stack = ["next", "{async_block#0}<u8>", inner, "{async_block#0}", outer, "app::main"];
        assert_eq!(own_frame("app::File<_>::read", &stack), Some(1));
        assert_eq!(own_frame("app::run", &stack), Some(3));
        assert_eq!(own_frame("app::other", &stack), None);
    }
}
