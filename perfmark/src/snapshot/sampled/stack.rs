//! The functions that a sampled stack consists of, and the marked function among them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::snapshot::data::Mark;
use crate::snapshot::path::{bare, end, of_trait, readable};
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

/// Finds the marked function in many stacks.
#[derive(Clone, Debug)]
pub struct MarkedFunction<'a> {
    path: String,
    file: &'a str,
    /// How the types of its futures begin, after its module or type.
    futures: String,
    /// Whether a frame is its own, by the address of each frame that stacks had until now.
    known: BTreeMap<usize, bool>,
}

impl<'a> MarkedFunction<'a> {
    /// The function of that mark.
    #[must_use]
    pub fn new(mark: &'a Mark) -> Self {
        let path = compared(&mark.path);
        Self { futures: format!("::{}::{{async_", end(&path, 1)), path, file: &mark.file, known: BTreeMap::new() }
    }

    /// The index of the marked function's own frame. If the function calls itself, it is that of the innermost call;
    /// if a part of it is inlined into itself, the outermost one there. `None` if the stack does not reach it, or has
    /// no names.
    #[must_use]
    pub fn own_frame(&mut self, frames: &[StackFrame<'a>]) -> Option<usize> {
        let innermost = (0..frames.len()).find(|&at| self.is_own(frames, at))?;
        let depth = frames[innermost].depth;
        (innermost..frames.len())
            .take_while(|&at| frames[at].depth == depth)
            .filter(|&at| self.is_own(frames, at))
            .last()
    }

    fn is_own(&mut self, frames: &[StackFrame<'a>], at: usize) -> bool {
        let Some(frame) = frames[at].frame else { return false };
        let address = std::ptr::from_ref(frame).addr();
        let known = self.known.get(&address).copied();
        let is_it = known.unwrap_or_else(|| self.is(frame));
        if known.is_none() {
            self.known.insert(address, is_it);
        }
        let caller = || frames.get(at + 1)?.frame;
        is_it || caller().is_some_and(|caller| self.is_polled(frame, caller))
    }

    /// Whether the frame is the function's own. Debug information with nothing but lines has its name without a path.
    fn is(&self, frame: &Frame) -> bool {
        let name = end(&self.path, 1);
        // Most functions have another name.
        frame.function.contains(name) && {
            let function = compared(&frame.function);
            let is_other = || {
                let is_brief = !function.contains("::") && function == name;
                is_brief || of_trait(&readable(&frame.function)).as_ref() == Some(&self.path)
            };
            function == self.path || self.is_in_file(frame) && is_other()
        }
    }

    /// Whether the frame is the body of the async function. Debug information with nothing but lines calls it
    /// `{async_block#0}` where it is inlined. The function that polls it has the future's type as a parameter.
    fn is_polled(&self, frame: &Frame, caller: &Frame) -> bool {
        frame.function.starts_with("{async_") && caller.function.contains(&self.futures) && self.is_in_file(frame)
    }

    fn is_in_file(&self, frame: &Frame) -> bool {
        frame.file.as_deref().is_some_and(|file| Path::new(file).ends_with(self.file))
    }
}

/// The functions of many marks.
pub(super) struct MarkedFunctions<'a> {
    paths: BTreeSet<String>,
    /// The paths and names of functions, with the files that their marks name.
    in_files: BTreeSet<(String, &'a str)>,
}

impl<'a> MarkedFunctions<'a> {
    pub(super) fn new(marks: &'a [Mark]) -> Self {
        let paths: Vec<String> = marks.iter().map(|mark| compared(&mark.path)).collect();
        let in_files = paths
            .iter()
            .zip(marks)
            .flat_map(|(path, mark)| [path.as_str(), end(path, 1)].map(|name| (name.to_owned(), &*mark.file)));
        Self { in_files: in_files.collect(), paths: paths.iter().cloned().collect() }
    }

    /// Whether the frame is one of them, as [`MarkedFunction::is`].
    pub(super) fn has(&self, frame: &Frame) -> bool {
        let function = compared(&frame.function);
        let has_in_file = |name: String| {
            let mut files = frame.file.as_deref().into_iter().flat_map(ends_of_path);
            files.any(|file| self.in_files.contains(&(name.clone(), file)))
        };
        self.paths.contains(&function)
            || of_trait(&readable(&frame.function)).is_some_and(has_in_file)
            || !function.contains("::") && has_in_file(function)
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

impl Mark {
    /// The index of the marked function's own frame in a [stack](SampledStack::frames). If the function calls itself,
    /// it is that of the innermost call. `None` if the stack does not reach it, or has no names.
    #[must_use]
    pub fn own_frame<'a>(&'a self, frames: &[StackFrame<'a>]) -> Option<usize> {
        MarkedFunction::new(self).own_frame(frames)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const APP: &str = "/home/me/app/src/main.rs";

    /// The position of the marked function in a stack whose functions are all inlined in the last one.
    fn own_frame(path: &str, functions: &[&str]) -> Option<usize> {
        let mark = Mark { path: path.into(), file: "src/main.rs".into(), ..Mark::default() };
        let frame = |function: &&str| Frame { function: (*function).into(), file: Some(APP.into()), line: Some(7) };
        let frames: Vec<Frame> = functions.iter().map(frame).collect();
        let location = Location::default();
        let at = |frame| StackFrame { depth: 0, location: &location, frame: Some(frame) };
        mark.own_frame(&frames.iter().map(at).collect::<Vec<_>>())
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
