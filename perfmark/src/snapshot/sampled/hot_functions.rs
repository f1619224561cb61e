//! The functions without a mark that have the most samples.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::marked_functions::{MarkKeys, MarkedFunctions};
use super::stack::StackFrame;
use crate::compact::sort_by_key;
use crate::snapshot::data::Snapshot;
use crate::snapshot::origin::{is_downloaded, is_perfmark, is_rust_file, is_standard};
use crate::snapshot::path::{bare, end, readable, starts};
use crate::snapshot::samples::{Frame, SampledPath, SampledStack, Samples};
use crate::text::sanitize;

/// A function without a mark, and the samples that count for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct HotFunction {
    /// The function, and that of its lines with the most of these samples.
    pub frame: Frame,
    /// Whether the program's author can mark it. Otherwise it is usually a function of a library, and these stacks
    /// contain no function that can be marked.
    pub can_be_marked: bool,
    /// Whether the compiler inlined the function where it has most of these samples: a mark may slow it down.
    pub is_inlined: bool,
    /// The number of samples in this function, and in functions of libraries that it called.
    pub samples: u64,
    /// The mark with the most of these samples directly in its calls, as an index in
    /// [`Snapshot::marks`](crate::Snapshot::marks). `None` if most of them are outside of all marks.
    pub mark: Option<usize>,
    /// Outside of all marks, the [name of the threads](crate::SampledPath::thread) with the most of these samples.
    pub thread: Option<String>,
    /// The number of these samples that are elsewhere: in other marks, or in other threads outside of marks.
    pub elsewhere: u64,
}

impl HotFunction {
    /// Where its samples are: `in parse`, a mark; or `thread worker-*`, outside of all marks. `mostly` precedes it if
    /// fewer than half are elsewhere, and `partly` if more are. `inlined` precedes both. `names` are those of the
    /// snapshot's marks.
    #[must_use]
    pub fn around(&self, names: &[String]) -> String {
        let around = match (self.mark.and_then(|mark| names.get(mark)), &self.thread) {
            (Some(mark), _) => format!("in {}", sanitize(mark)),
            (None, Some(thread)) => format!("thread {}", sanitize(thread)),
            (None, None) => "outside marks".to_owned(),
        };
        let inlined = if self.is_inlined { "inlined (a mark may slow it down), " } else { "" };
        let part = match self.elsewhere {
            0 => "",
            elsewhere if elsewhere < self.samples.div_ceil(2) => "mostly ",
            _ => "partly ",
        };
        format!("{inlined}{part}{around}")
    }
}

/// Where a function was executed: the innermost mark, or the threads outside of all marks.
type Around<'a> = (Option<usize>, Option<&'a str>);

/// A function, the number of samples of its hottest line, those where it is inlined, and all by where it was executed.
#[derive(Default)]
struct Found<'a> {
    function: HotFunction,
    most: u64,
    inlined: u64,
    around: BTreeMap<Around<'a>, u64>,
}

impl Snapshot {
    /// The functions that have samples, inside and outside of marks, and that have no mark, the one with the most
    /// samples first. They show what to mark next.
    ///
    /// A sample counts for the innermost function of its stack that the program's author can mark, and that is not
    /// inlined there or `main`. If all are inlined, it counts for the outermost one around the innermost, which
    /// [is inlined](HotFunction::is_inlined). The source of such a function is a line of a Rust file, and the function
    /// is neither in the standard library, nor in a crate that cargo downloaded (`registry/src`, `git/checkouts`, or
    /// vendored beside perfmark), nor in perfmark. Methods that are usually derived (`clone`, `cmp`, `eq`, `ne`,
    /// `partial_cmp`) count for their callers.
    ///
    /// Inside a mark, a sample counts only for a function that the marked one calls, and not if it is in a function
    /// that is inlined in the marked one. If a stack outside of all marks contains no such function, the sample counts
    /// for the executed one, which usually [cannot be marked](HotFunction::can_be_marked). Samples in perfmark's own
    /// code, such as at entry and exit of marks, count for no function.
    ///
    /// The list has neither `main` nor the runtime around it, such as `std::rt`, `_start` and `__libc_start_main`.
    /// Samples without names count for no function. The list is empty after [`retain`](Self::retain) removed marks,
    /// because functions of these marks would be in it.
    ///
    /// ```
    /// let snapshot = perfmark::snapshot();
    /// for samples in &snapshot.samples {
    ///     for function in snapshot.hot_functions(samples).iter().filter(|function| function.can_be_marked) {
    ///         println!("consider marking {}: {} samples", function.frame.function, function.samples);
    ///     }
    /// }
    /// ```
    #[must_use]
    pub fn hot_functions(&self, samples: &Samples) -> Vec<HotFunction> {
        let marked = MarkKeys::new(&self.marks);
        self.innermost_functions(samples, |frame| !marked.has(frame))
    }

    /// The number of samples that count, in the same way, for functions whose marks the filter turns off.
    pub(crate) fn samples_of_marks_off(&self, samples: &Samples) -> u64 {
        let [on, off] = [true, false].map(|on| MarkKeys::new(self.marks.iter().filter(move |mark| mark.on == on)));
        let functions = self.innermost_functions(samples, |frame| off.has(frame) && !on.has(frame));
        functions.iter().map(|function| function.samples).fold(0, u64::saturating_add)
    }

    /// The functions for which samples count and that `is_listed`.
    fn innermost_functions(&self, samples: &Samples, is_listed: impl Fn(&Frame) -> bool) -> Vec<HotFunction> {
        let kinds: Vec<Kind> = samples.frames.iter().map(Kind::of).collect();
        let marked = MarkedFunctions::new(&self.marks, samples);
        let stacks = samples.paths.iter().flat_map(|path| path.stacks.iter().map(move |stack| (path, stack)));
        let attributed = stacks.filter_map(|(path, stack)| {
            let frames = stack.frames(samples);
            let own = path.marks.last().and_then(|&mark| marked.own_frame(mark, &frames));
            if StackFrame::count_of_probe(&frames, own) > 0 {
                return None;
            }
            let to_mark = stack.to_mark(samples, own.map_or(usize::MAX, |own| frames[own].depth), &kinds);
            let executed = || stack.executed(samples).filter(|_| path.marks.is_empty()).map(|at| (at, false));
            Some((to_mark.or_else(executed)?, path, stack.samples))
        });
        by_function(samples, &kinds, attributed, is_listed)
    }
}

/// The functions of frames with samples.
fn by_function<'a>(
    samples: &'a Samples,
    kinds: &[Kind],
    attributed: impl Iterator<Item = ((usize, bool), &'a SampledPath, u64)>,
    is_listed: impl Fn(&Frame) -> bool,
) -> Vec<HotFunction> {
    // It is not known which functions have the marks that were removed.
    if samples.removed.is_some() {
        return Vec::new();
    }
    let mut by_frame: BTreeMap<usize, (BTreeMap<Around<'a>, u64>, u64)> = BTreeMap::new();
    for ((frame, is_inlined), path, samples) in attributed {
        let (by_around, inlined) = by_frame.entry(frame).or_default();
        add(by_around, (path.marks.last().copied(), path.thread.as_deref()), samples);
        *inlined = inlined.saturating_add(if is_inlined { samples } else { 0 });
    }
    // Each with the samples of its hottest line. Functions of one name are distinct by their files.
    let mut functions: BTreeMap<(String, Option<&str>), Found<'_>> = BTreeMap::new();
    for (at, (by_around, in_frame)) in by_frame {
        let Some(frame) = samples.frames.get(at) else { continue };
        let name = bare(&readable(&frame.function));
        if name.is_empty() || kinds[at].is_runtime {
            continue;
        }
        let count = by_around.values().copied().fold(0, u64::saturating_add);
        let Found { function, most, inlined, around } = functions.entry((name, frame.file.as_deref())).or_default();
        function.samples = function.samples.saturating_add(count);
        *inlined = inlined.saturating_add(in_frame);
        function.is_inlined = *inlined > function.samples / 2;
        for (one, count) in by_around {
            add(around, one, count);
        }
        if count > *most {
            (*most, function.frame, function.can_be_marked) = (count, frame.clone(), kinds[at].can_be_marked);
        }
    }
    let functions = functions.into_values().map(|Found { mut function, around, .. }| {
        if let Some(((mark, thread), most)) = around.into_iter().max_by_key(|(_, count)| *count) {
            (function.mark, function.thread) = (mark, thread.map(str::to_owned));
            function.elsewhere = function.samples.saturating_sub(most);
        }
        function
    });
    let mut listed: Vec<HotFunction> = functions.filter(|function| is_listed(&function.frame)).collect();
    sort_by_key(&mut listed, |function| Reverse(function.samples));
    listed
}

fn add<K: Ord>(counts: &mut BTreeMap<K, u64>, key: K, samples: u64) {
    let count = counts.entry(key).or_default();
    *count = count.saturating_add(samples);
}

/// What a function is.
struct Kind {
    can_be_marked: bool,
    is_runtime: bool,
}

impl Kind {
    fn of(frame: &Frame) -> Self {
        Self { can_be_marked: can_be_marked(frame), is_runtime: is_runtime(frame) }
    }
}

impl SampledStack {
    /// The function to mark, as an index of a frame, and whether it is inlined. It is the innermost one less deep than
    /// `end` that can be marked and is not inlined, except `main`: a mark would change how the compiler optimizes
    /// inlined functions, and would cost more than many of them. If there is none, it is the outermost inlined one.
    fn to_mark(&self, samples: &Samples, end: usize, kinds: &[Kind]) -> Option<(usize, bool)> {
        let frames = self.walk(samples).take_while(|&(depth, ..)| depth < end);
        let frames = frames.filter_map(|(depth, at, frame)| Some((depth, frame?, at.frames.last() != Some(&frame?))));
        let to_mark: Vec<_> = frames.filter(|&(_, frame, _)| kinds[frame].can_be_marked).collect();
        let &(innermost, frame, is_inlined) = to_mark.first()?;
        let mut functions = to_mark.iter().filter(|&&(_, frame, _)| !kinds[frame].is_runtime);
        let not_inlined = functions.clone().find(|(.., is_inlined)| !is_inlined);
        let found = not_inlined.or(functions.rfind(|(depth, ..)| *depth == innermost));
        Some(found.map_or((frame, is_inlined), |&(_, frame, is_inlined)| (frame, is_inlined)))
    }

    /// The executed function, as an index of a frame.
    fn executed(&self, samples: &Samples) -> Option<usize> {
        samples.locations.get(*self.locations.first()?)?.frames.last().copied()
    }
}

/// Methods that `derive` writes, and that are rarely written by hand.
const DERIVED: [&str; 5] = ["clone", "cmp", "eq", "ne", "partial_cmp"];

/// Whether the function is one that the program's author can mark.
fn can_be_marked(frame: &Frame) -> bool {
    let Some(file) = frame.file.as_deref().filter(|_| is_rust_file(frame)) else { return false };
    // Without a line, the file may be that of code that was inlined into the function.
    let has_line = frame.line.is_some();
    let is_derived = || DERIVED.contains(&end(&bare(&frame.function), 1));
    has_line && !is_standard(frame) && !is_perfmark(frame) && !is_downloaded(file) && !is_derived()
}

/// Whether it is `main`, or a function that runs it, or that runs a thread.
pub(super) fn is_runtime(frame: &Frame) -> bool {
    const PARTS: [&str; 5] = ["std::rt::", "std::sys::backtrace::__rust_", "_start", "__libc_start", "__libc_csu"];
    const NAMES: [&str; 7] = ["_init", "_fini", "start_thread", "clone", "clone3", "__clone", "__clone3"];
    let name = bare(&readable(&frame.function));
    // `main` of a crate; a module may have a function of that name.
    end(&name, 1) == "main" && starts(&name).len() <= 2
        || NAMES.contains(&&*name)
        || PARTS.iter().any(|part| name.starts_with(part))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::{Mark, Module};

    const APP: &str = "/home/me/app/src/main.rs";
    const STD: &str = "/rustc/59807616e1/library/core/src/iter/range.rs";

    fn frame(function: &str, file: &str, line: u32) -> Frame {
        Frame { function: function.into(), file: (!file.is_empty()).then(|| file.into()), line: Some(line) }
    }

    /// Stacks outside of all marks: the frames of each location, and a number of samples.
    fn found(marks: &[&str], stacks: &[(&[&[Frame]], u64)]) -> Vec<HotFunction> {
        let (mut named, mut counts) = (BTreeMap::new(), BTreeMap::new());
        for (stack, count) in stacks {
            let mut addresses = Vec::new();
            for location in *stack {
                let address = (0, named.len() as u64);
                named.insert(address, location.to_vec());
                addresses.push(address);
            }
            counts.insert(addresses, *count);
        }
        let mut samples = Samples::default();
        samples.set_paths([(vec![], counts)]);
        samples.set_names(&named);
        let mark = |path: &&str| Mark { path: (*path).into(), file: "src/main.rs".into(), ..Mark::default() };
        let snapshot = Snapshot { marks: marks.iter().map(mark).collect(), ..Snapshot::default() };
        snapshot.hot_functions(&samples)
    }

    /// Name, line, whether it can be marked, and samples.
    fn functions(marks: &[&str], stacks: &[(&[&[Frame]], u64)]) -> Vec<(String, u32, bool, u64)> {
        let function =
            |one: HotFunction| (one.frame.function, one.frame.line.unwrap_or(0), one.can_be_marked, one.samples);
        found(marks, stacks).into_iter().map(function).collect()
    }

    #[test]
    fn a_sample_counts_for_the_innermost_function_that_can_be_marked() {
        let own = frame("app::load", APP, 7);
        let parser = "/home/me/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/parser-1.0.0/src/lib.rs";
        let inlined: &[Frame] = &[frame("next", STD, 3), own.clone()];
        let in_libc: &[Frame] = &[frame("memcpy", "", 0)];
        let in_crate: &[Frame] = &[frame("parser::parse", parser, 9)];
        let outer: &[Frame] = &[frame("app::outer", APP, 40)];
        let found = functions(&[], &[(&[inlined, outer], 5), (&[in_libc, in_crate, &[own], outer], 6)]);
        assert_eq!(found, [("app::load".into(), 7, true, 11)]);
    }

    #[test]
    fn code_without_a_line_counts_for_the_caller() {
        // Of a function of the standard library, with debug information that has lines only.
        let generated = Frame { line: None, ..frame("try_fold", APP, 0) };
        let inlined: &[Frame] = &[generated, frame("load", APP, 7)];
        assert_eq!(functions(&[], &[(&[inlined], 5)]), [("load".into(), 7, true, 5)]);
    }

    #[test]
    fn a_sample_in_inlined_functions_counts_for_the_one_whose_code_it_is_except_main() {
        let [helper, load, main] = [("app::helper", 3), ("app::load", 7), ("app::main", 40)]
            .map(|(function, line)| frame(function, APP, line));
        let in_load: &[Frame] = &[frame("{closure#0}", APP, 8), helper.clone(), load.clone()];
        let in_main: &[Frame] = &[helper, load, main.clone()];
        assert_eq!(functions(&[], &[(&[in_load], 5), (&[in_main, &[main]], 6)]), [("app::load".into(), 7, true, 11)]);
    }

    #[test]
    fn a_sample_in_a_function_that_is_inlined_in_a_library_counts_for_its_caller_if_one_is_known() {
        let in_library: &[Frame] = &[frame("app::helper", APP, 3), frame("core::iter::fold", STD, 4)];
        let [load, main] = [frame("app::load", APP, 7), frame("app::main", APP, 40)];
        let found = functions(&[], &[(&[in_library, &[load]], 5), (&[in_library, &[main]], 6)]);
        assert_eq!(found, [("app::helper".into(), 3, true, 6), ("app::load".into(), 7, true, 5)]);
    }

    #[test]
    fn a_sample_without_such_a_function_counts_for_the_executed_one() {
        let in_std: &[Frame] = &[frame("next", STD, 3), frame("core::iter::fold", STD, 4)];
        let found =
            functions(&[], &[(&[in_std, &[frame("memcpy", "", 0)]], 6), (&[&[frame("qsort", "qsort.c", 1)]], 3)]);
        assert_eq!(found, [("core::iter::fold".into(), 4, false, 6), ("qsort".into(), 1, false, 3)]);
    }

    #[test]
    fn perfmarks_own_code_is_no_hot_function_whether_or_not_its_callers_are_known() {
        let home = "/home/me/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/perfmark-0.1.0/src";
        let cells: &[Frame] = &[frame("perfmark::recording::cells::Cells::add_to", "", 1)];
        let map: &[Frame] = &[frame("get", &format!("{home}/compact/map.rs"), 1)];
        let in_std: &[Frame] = &[frame("next", STD, 3), map[0].clone()];
        let inlined: &[Frame] = &[map[0].clone(), frame("app::load", APP, 7)];
        let (alloc, rustc): (&[Frame], &[Frame]) =
            (&[frame("malloc", "", 0)], &[frame("__rustc::__rust_alloc", "", 0)]);
        for stack in [&[cells][..], &[map], &[in_std], &[inlined], &[alloc, rustc, cells], &[cells, inlined]] {
            assert_eq!(functions(&[], &[(stack, 6)]), [], "{stack:?}");
        }
    }

    #[test]
    fn what_the_counting_allocator_does_is_the_programs() {
        let [load, perfmark] = [frame("app::load", APP, 7), frame("perfmark::recording::begin", "", 1)];
        for allocator in [
            frame("<perfmark::allocator::CountingAllocator<A> as core::alloc::global::GlobalAlloc>::alloc", "", 1),
            frame("alloc<std::alloc::System>", "/home/me/perfmark/perfmark/src/allocator.rs", 1),
        ] {
            let stack = |caller: &Frame| [frame("malloc", "", 0), allocator.clone(), caller.clone()];
            let found = functions(&[], &[(&[&stack(&load)], 6), (&[&stack(&perfmark)], 7)]);
            assert_eq!(found, [("app::load".into(), 7, true, 6)]);
        }
    }

    #[test]
    fn a_function_has_the_line_with_the_most_samples() {
        let line = |line| [frame("app::load", APP, line)];
        let other: &[Frame] = &[frame("load", "/home/me/app/src/other.rs", 1)];
        let found = functions(&[], &[(&[&line(7)], 2), (&[&line(8)], 5), (&[&line(9)], 4), (&[other], 1)]);
        assert_eq!(found, [("app::load".into(), 8, true, 11), ("load".into(), 1, true, 1)]);
    }

    #[test]
    fn a_function_is_inlined_if_most_of_its_samples_are_where_it_is() {
        let line = |line| frame("app::helper", APP, line);
        let inlined = |at| [line(at), frame("core::iter::fold", STD, 4)];
        let of = |stacks: &[(&[&[Frame]], u64)]| {
            let found = found(&[], stacks);
            let [one] = &found[..] else { panic!("{found:?}") };
            (one.frame.line, one.is_inlined, one.samples)
        };
        // The function is named by its hottest line, which may be in both.
        assert_eq!(of(&[(&[&inlined(3)], 5), (&[&[line(4)]], 4), (&[&[line(5)]], 3)]), (Some(3), false, 12));
        assert_eq!(of(&[(&[&inlined(3)], 3), (&[&[line(3)]], 3), (&[&inlined(5)], 4)]), (Some(3), true, 10));
    }

    #[test]
    fn closures_and_instances_of_a_function_are_that_function() {
        let stacks: Vec<[Frame; 1]> = ["app::load<u8>", "app::load<u16>::{{closure}}", "app::load::{closure#0}"]
            .map(|name| [frame(name, APP, 7)])
            .into();
        let found = functions(&[], &[(&[&stacks[0]], 2), (&[&stacks[1]], 5), (&[&stacks[2]], 1)]);
        assert_eq!(found.iter().map(|function| function.3).collect::<Vec<_>>(), [8], "{found:?}");
    }

    #[test]
    fn functions_with_a_mark_main_and_the_runtime_are_not_listed() {
        let names = ["app::marked", "app::main", "main", "app::main::{{closure}}", "app::cli::main"];
        let runtime = ["std::rt::lang_start_internal", "_start", "__libc_start_main_impl", "start_thread", ""];
        let stacks: Vec<[Frame; 1]> = names.into_iter().map(|name| [frame(name, APP, 7)]).collect();
        let runtime: Vec<[Frame; 1]> = runtime.into_iter().map(|name| [frame(name, "", 0)]).collect();
        let all: Vec<[&[Frame]; 1]> = stacks.iter().chain(&runtime).map(|frames| [&frames[..]]).collect();
        let all: Vec<(&[&[Frame]], u64)> = all.iter().map(|stack| (&stack[..], 9)).collect();
        assert_eq!(functions(&["app::marked"], &all), [("app::cli::main".into(), 7, true, 9)]);
        // Debug information with nothing but lines has no paths.
        let brief = [frame("marked", APP, 7)];
        assert_eq!(functions(&["app::marked"], &[(&[&brief], 9)]), []);
    }

    #[test]
    fn functions_whose_marks_were_removed_are_not_suggested() {
        let marks = ["app::marked", "app::off"].map(|path| Mark {
            path: path.into(),
            file: "src/main.rs".into(),
            on: path == "app::marked",
            ..Mark::default()
        });
        let named = [frame("app::marked", APP, 7), frame("app::off", APP, 9)];
        let named = named.into_iter().zip(0..).map(|(frame, at)| ((0, at), vec![frame])).collect();
        let mut samples = Samples { modules: vec![Module::default()], ..Samples::default() };
        let stacks = BTreeMap::from([(vec![(0, 0)], 5_u64), (vec![(0, 1)], 6)]);
        samples.set_paths([(vec![], stacks)]);
        samples.set_names(&named);
        let mut snapshot = Snapshot { marks: marks.into(), samples: vec![samples], ..Snapshot::default() };
        assert_eq!(snapshot.samples_of_marks_off(&snapshot.samples[0]), 6);
        snapshot.retain(|_| false);
        let samples = &snapshot.samples[0];
        assert_eq!(snapshot.hot_functions(samples), []);
        snapshot.marks = vec![Mark { path: "app::off".into(), ..Mark::default() }];
        assert_eq!(snapshot.samples_of_marks_off(&snapshot.samples[0]), 0);
    }

    #[test]
    fn libraries_perfmark_and_derived_methods_are_no_functions_to_mark() {
        for (function, file) in [
            ("perfmark::recording::begin", "/home/me/vendor/perfmark-0.1.0/src/recording.rs"),
            ("begin", "/home/me/perfmark/perfmark/src/recording/mod.rs"),
            ("<perfmark_rdpmc::Page as core::ops::Drop>::drop", "/home/me/perfmark-rdpmc/src/page.rs"),
            ("hashbrown::map::make_hash", "/rust/deps/hashbrown-0.16.1/src/map.rs"),
            ("core::fmt::write", "/home/me/.rustup/toolchains/x/lib/rustlib/src/rust/library/core/src/fmt/mod.rs"),
            ("c_function", "/home/me/app/src/native.c"),
            ("<app::Location as core::cmp::PartialEq>::eq", "/home/me/app/src/index.rs"),
        ] {
            assert!(!can_be_marked(&frame(function, file, 1)), "{file}");
        }
        assert!(can_be_marked(&frame("<app::Table as core::ops::Drop>::drop", "src/table.rs", 1)));
    }
}
