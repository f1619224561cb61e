//! Where the samples of a mark are: its hottest lines; and which functions have those outside of all marks.
//!
//! The line shown is that of the marked function itself, also for functions that are inlined there or that it calls. If
//! the stack does not reach it, the outermost known line is shown, with the name of its function and `callers unknown`.

use std::collections::BTreeSet;
use std::ops::Range;

use super::quantity::ESTIMATE;
use super::source_lines::SourceLines;
use super::text::shorten;
use super::view::View;
use crate::snapshot::names::of_targets;
use crate::snapshot::path::readable;
use crate::snapshot::{Frame, HotFunction, HotLine, Mark, Samples, SamplesByMark, Snapshot, StackFrame, ends_of_path};
use crate::text::{exact, sanitize, share_of_samples};

/// The most functions to mark, for each event.
const FUNCTIONS: usize = 5;
/// The fewest samples of a line or a function that is shown.
pub(super) const FEWEST: u64 = 5;

/// A part of the samples, and where they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) share: String,
    /// What was sampled, of a line, if there were several events.
    pub(super) event: String,
    /// The function, of those outside of marks.
    pub(super) function: String,
    /// Source file and line.
    pub(super) place: String,
    /// What follows the place, such as the name of the function around it.
    pub(super) around: String,
    /// The source text of the line, if it is known.
    pub(super) text: String,
}

/// The functions to mark next, inside and outside of marks, and those outside that nobody can mark.
pub(super) fn functions_to_show(snapshot: &Snapshot, samples: &Samples) -> Vec<HotFunction> {
    let mut functions = snapshot.hot_functions(samples);
    functions.retain(|function| function.samples >= FEWEST);
    functions.truncate(FUNCTIONS);
    functions
}

/// The samples in functions whose marks the filter turns off; 0 if they are too few.
pub(super) fn off_to_show(snapshot: &Snapshot, samples: &Samples) -> u64 {
    Some(snapshot.samples_of_marks_off(samples)).filter(|off| *off >= FEWEST).unwrap_or(0)
}

/// The samples outside of all marks, of one event.
pub(super) struct Outside {
    /// Their share of all samples.
    pub(super) sentence: String,
    /// The hottest functions that have no mark, also inside of marks.
    pub(super) functions: Vec<Row>,
}

/// The samples of a snapshot.
pub(super) struct HotLines<'a> {
    snapshot: &'a Snapshot,
    /// The samples of each event, and its name, which is empty if there is one event.
    samples: Vec<(SamplesByMark<'a>, String)>,
    /// The names of the marks.
    marks: Vec<String>,
    /// The directories before the source files that the marks name, with a slash at the end.
    roots: Vec<String>,
    sources: SourceLines<'a>,
}

impl<'a> HotLines<'a> {
    /// `reads_sources` adds the text of lines.
    pub(super) fn new(snapshot: &'a Snapshot, reads_sources: bool) -> Self {
        let mut this = Self {
            snapshot,
            samples: Vec::new(),
            marks: Vec::new(),
            roots: Vec::new(),
            sources: SourceLines::new(snapshot, reads_sources),
        };
        if !snapshot.sampled().is_empty() {
            let by_mark = snapshot.sampled().iter().map(|samples| snapshot.samples_by_mark(samples));
            this.samples = by_mark.zip(events(snapshot.sampled())).collect();
            this.marks = snapshot.names();
            this.roots = roots(snapshot);
        }
        this
    }

    /// The indices of `samples`. The compiler knows if there can be none, and leaves out the code for them.
    fn indices(&self) -> Range<usize> {
        0..self.snapshot.sampled().len()
    }

    /// The hottest lines of a mark. If the view shows its details, each is followed by the lines that were executed in
    /// the functions it calls.
    pub(super) fn of(&mut self, mark: usize, view: &View) -> Vec<Row> {
        let is_open = view.has_details(&self.snapshot.marks[mark]);
        let mut rows = Vec::new();
        for at in self.indices() {
            let (samples, event) = &self.samples[at];
            let (all, in_probe) = (samples.of_mark(Some(mark)), samples.in_probe(Some(mark)));
            let hottest =
                |lines: Vec<HotLine>| lines.into_iter().filter(|line| line.samples >= FEWEST).take(view.lines);
            let mut lines = Vec::new();
            for line in hottest(samples.hot_lines(Some(mark))) {
                let inside = if is_open { samples.lines_inside(Some(mark), &line) } else { Vec::new() };
                lines.push(("", line));
                lines.extend(hottest(inside).map(|line| (INSIDE, line)));
            }
            let probe = if lines.is_empty() { PROBE.to_owned() } else { format!("{PROBE} (not in the shares above)") };
            let (samples, event) = (samples.samples(), event.clone());
            for (indent, line) in lines {
                let (place, around) = self.place_of_line(&line);
                rows.push(Row {
                    share: share(samples, line.samples, all.saturating_sub(in_probe)),
                    event: event.clone(),
                    place: indent.to_owned() + &place,
                    around,
                    text: self.sources.text(&line.frame),
                    ..Row::default()
                });
            }
            if in_probe >= FEWEST && in_probe >= all / 100 {
                let share = share(samples, in_probe, all);
                rows.push(Row { share, event, place: probe, ..Row::default() });
            }
        }
        rows
    }

    /// The samples outside of all marks, of each event that has some.
    pub(super) fn outside(&mut self) -> Vec<Outside> {
        let mut all_outside = Vec::new();
        for at in self.indices() {
            let (samples, event) = &self.samples[at];
            let (outside, samples, event) = (samples.of_mark(None), samples.samples(), event.clone());
            let all = samples.taken();
            let functions = functions_to_show(self.snapshot, samples);
            let off = off_to_show(self.snapshot, samples);
            if outside == 0 && off == 0 && functions.is_empty() {
                continue;
            }
            let next = match () {
                () if functions.is_empty() => "",
                () if functions.iter().any(|one| one.can_be_marked) => "; consider marking (in and outside marks)",
                () => "; hottest functions (in and outside marks)",
            };
            let names = self.names(&functions);
            let row = |(function, name): (&HotFunction, String)| {
                let (place, around) = self.place_of_function(function);
                Row {
                    share: share(samples, function.samples, all),
                    function: name,
                    place,
                    around,
                    text: self.sources.text(&function.frame),
                    ..Row::default()
                }
            };
            let functions: Vec<Row> = functions.iter().zip(names).map(row).collect();
            let off = match off {
                0 => String::new(),
                off => format!("; in functions whose marks the filter turns off: {}", share(samples, off, all)),
            };
            let is_part = samples.removed.is_some_and(|removed| removed > 0);
            let of = match (is_part, &*event) {
                (false, "") => "all samples".to_owned(),
                (true, "") => "the samples shown".to_owned(),
                (false, event) => format!("the samples of {event}"),
                (true, event) => format!("the samples shown of {event}"),
            };
            all_outside.push(Outside {
                sentence: format!("outside marks: {} of {of}{off}{next}", share(samples, outside, all)),
                functions,
            });
        }
        all_outside
    }

    /// Names of functions as marks would have them.
    pub(super) fn names(&self, functions: &[HotFunction]) -> Vec<String> {
        let targets = functions.iter().map(|function| readable(&function.frame.function));
        let mut names = of_targets(targets.chain(self.snapshot.marks.iter().map(Mark::target)).collect());
        names.truncate(functions.len());
        names
    }

    /// The place, and the function around it if it is not the marked one.
    fn place_of_line(&self, line: &HotLine) -> (String, String) {
        let function = sanitize(&line.function());
        let cut = if line.is_cut { CUT } else { "" };
        match self.place(&line.frame) {
            None => (function, cut.to_owned()),
            Some(place) if function.is_empty() => (place, cut.to_owned()),
            Some(place) => (place, format!(" in {function}{cut}")),
        }
    }

    /// The place; and whether there is nothing to mark, and in which mark or thread the function was executed.
    fn place_of_function(&self, function: &HotFunction) -> (String, String) {
        let around = format!(", {}", self.around(function));
        match (self.place(&function.frame), function.can_be_marked) {
            (place, true) => (place.unwrap_or_default(), around),
            (Some(place), false) => (place, format!(", {NO_CALLER}{around}")),
            (None, false) => (NO_CALLER.to_owned(), around),
        }
    }

    /// The mark or the threads that the function was executed in.
    pub(super) fn around(&self, function: &HotFunction) -> String {
        function.around(&self.marks)
    }

    /// Source file and line, which the compiler does not know of all code: it merges instructions of several lines.
    pub(super) fn place(&self, frame: &Frame) -> Option<String> {
        let file = sanitize(self.short(frame.file.as_deref()?));
        let line = frame.line.map_or_else(|| "?".to_owned(), |line| line.to_string());
        Some(format!("{file}:{line}"))
    }

    /// The file as the compiler got it, where that is known; otherwise from the directory of its package on.
    pub(super) fn short<'f>(&self, file: &'f str) -> &'f str {
        if let Some(short) = self.roots.iter().find_map(|root| file.strip_prefix(root.as_str())) {
            return short;
        }
        // `/rustc/…hash…/library/core/src/…`, and `~/.cargo/registry/src/…index…/crate-1.0.0/src/…`
        for prefix in ["/rustc/", "/registry/src/"] {
            if let Some(at) = file.find(prefix)
                && let Some((_, short)) = file[at + prefix.len()..].split_once('/')
            {
                return short;
            }
        }
        // `/home/user/parser/src/…`
        let package = file.rfind("/src/").filter(|_| file.starts_with('/')).and_then(|src| file[..src].rfind('/'));
        package.map_or(file, |package| &file[package + 1..])
    }
}

/// The directories before the source files that marks name, at most [`ROOTS`], with a slash at the end.
fn roots(snapshot: &Snapshot) -> Vec<String> {
    let files: BTreeSet<&str> = snapshot.marks.iter().map(|mark| &*mark.file).filter(|file| !file.is_empty()).collect();
    let mut roots: BTreeSet<&str> = BTreeSet::new();
    let frames = snapshot.sampled().iter().flat_map(|samples| &samples.frames);
    for file in frames.filter_map(|frame| frame.file.as_deref()) {
        let end = ends_of_path(file).skip(1).find(|end| files.contains(end));
        roots.extend(end.map(|end| &file[..file.len() - end.len()]));
        if roots.len() >= ROOTS {
            break;
        }
    }
    roots.into_iter().map(str::to_owned).collect()
}

/// A program has few directories from which its crates were compiled.
const ROOTS: usize = 64;

/// Before the place of a line that another line calls.
const INSIDE: &str = "└ ";

/// After a function whose callers are unknown up to the marked function.
const CUT: &str = " (callers unknown)";

const PROBE: &str = StackFrame::PROBE;

/// Follows a function that the program's author cannot mark.
pub(super) const NO_CALLER: &str = "no known caller to mark";

/// A share with its standard error.
fn share(samples: &Samples, part: u64, all: u64) -> String {
    let flag = if samples.is_biased() { ESTIMATE.to_string() } else { String::new() };
    flag + &share_of_samples(part, all)
}

/// A name for each of the samples, if there are several: the event, and its rate if that is what distinguishes them.
pub(super) fn events(samples: &[Samples]) -> Vec<String> {
    const ROOM: usize = 24;
    let is_only =
        |name: &dyn Fn(&Samples) -> String, one| samples.iter().filter(|other| name(other) == one).count() < 2;
    let name = |one: &Samples| {
        if samples.len() < 2 {
            return String::new();
        }
        let (event, rate) = (one.event.clone(), one.rate());
        let short = shorten(&sanitize(&event), ROOM);
        let after = rate.strip_prefix(&sanitize(&event)).unwrap_or_default();
        match () {
            () if is_only(&|other| other.event.clone(), event) => short,
            () if is_only(&Samples::rate, rate.clone()) => short + after,
            () => format!("{short}{after}, stacks of {} bytes", exact(one.stack_bytes)),
        }
    };
    samples.iter().map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::sample;
    use crate::settings::Filter;
    use crate::snapshot::{Location, SampledStack};

    fn lines(snapshot: &Snapshot, mark: &str) -> Vec<String> {
        let index = snapshot.marks.iter().position(|one| one.name == mark).expect("a mark");
        shown(HotLines::new(snapshot, false).of(index, &View::new(100)))
    }

    /// Those of `parse_line`, with the details of each.
    fn open_lines(snapshot: &Snapshot) -> Vec<String> {
        let view = View { details: Some(Filter::default()), ..View::new(100) };
        shown(HotLines::new(snapshot, false).of(0, &view))
    }

    fn shown(rows: Vec<Row>) -> Vec<String> {
        let row = |Row { share, event, function, place, around, .. }: Row| [share, event, function, place + &around];
        rows.into_iter()
            .map(|one| row(one).into_iter().filter(|cell| !cell.is_empty()).collect::<Vec<_>>().join("  "))
            .collect()
    }

    #[test]
    fn lines_are_those_of_the_marked_function_and_inlined_code_counts_there() {
        let snapshot = sample::sampled();
        // Of 318: 120 inlined in line 12, 60 in it, and 10 in it where it is inlined in its caller.
        let expected = [
            "60 % ± 3  src/main.rs:12",
            "28 % ± 3  src/main.rs:14",
            "9 % ± 2  library/alloc/src/string.rs:2203 in alloc::string::String::clone",
        ];
        assert_eq!(lines(&snapshot, "parse_line"), expected);
        // `find` is inlined in line 12.
        let mut open = open_lines(&snapshot);
        assert_eq!(open.remove(1), "31 % ± 3  └ library/core/src/str/mod.rs:1402 in str::find");
        assert_eq!(open, expected);
        assert_eq!(HotLines::new(&snapshot, false).of(0, &View { lines: 2, ..View::new(100) }).len(), 2);
    }

    #[test]
    fn a_line_of_several_closures_or_instances_is_one_row() {
        let mut snapshot = sample::sampled();
        let samples = &mut snapshot.samples[0];
        // Line 14 becomes line 12 of a closure, and line 12 in the caller that of a generic instance.
        let closure = samples.frames.iter_mut().find(|frame| frame.line == Some(14)).expect("a frame");
        (closure.function, closure.line) = ("wordcount::parse_line::{closure#0}".to_owned(), Some(12));
        let mut instance = closure.clone();
        instance.function = "wordcount::parse_line<u8>".to_owned();
        samples.frames.push(instance);
        let number = samples.frames.len() - 1;
        samples.locations.iter_mut().find(|at| at.address == 4_112).expect("a location").frames = vec![number];
        let clone = samples.frames.iter_mut().find(|frame| frame.function.contains("clone")).expect("a frame");
        (clone.function, clone.line) = ("core::str::<impl str>::find<char>".to_owned(), Some(1_402));
        let place = "library/alloc/src/string.rs:1402 in str::find";
        let expected = ["88 % ± 2  src/main.rs:12".to_owned(), format!("9 % ± 2  {place}")];
        assert_eq!(lines(&snapshot, "parse_line"), expected);
        assert_eq!(open_lines(&snapshot)[1], "31 % ± 3  └ library/core/src/str/mod.rs:1402 in str::find");
    }

    #[test]
    fn a_function_without_a_path_is_the_marked_one_if_it_is_in_the_same_file() {
        let mut snapshot = sample::sampled();
        let frames = &mut snapshot.samples[0].frames;
        for (line, file) in [(12, "/home/user/wordcount/src/main.rs"), (14, "/home/user/wordcount/src/other.rs")] {
            let frame = frames.iter_mut().find(|frame| frame.line == Some(line)).expect("a frame");
            (frame.function, frame.file) = ("parse_line".into(), Some(file.into()));
        }
        let expected = ["60 % ± 3  src/main.rs:12", "28 % ± 3  src/other.rs:14 in parse_line"];
        assert_eq!(lines(&snapshot, "parse_line")[..2], expected);
    }

    #[test]
    fn a_stack_that_does_not_reach_the_mark_has_its_outermost_line_unless_that_is_around_the_mark() {
        // libc, called by `load`: which other function calls that is unknown.
        let with_callers = |callers: &[(&str, u32)]| {
            let mut snapshot = sample::sampled();
            let samples = &mut snapshot.samples[0];
            let load = ("wordcount::words::load", 77);
            let mut stack = vec![samples.locations.iter().position(|at| at.module == 1).expect("libc")];
            for &(function, line) in [load].iter().chain(callers) {
                let file = Some("/home/user/wordcount/src/words.rs".to_owned());
                samples.frames.push(Frame { function: function.to_owned(), file, line: Some(line) });
                let frames = vec![samples.frames.len() - 1];
                stack.push(samples.locations.len());
                samples.locations.push(Location { address: u64::from(line), frames, ..samples.locations[0].clone() });
            }
            let libc = samples.frames.iter().position(|frame| frame.function.starts_with("__mem")).expect("a frame");
            samples.locations[stack[0]].frames = vec![libc];
            let path = samples.paths.iter_mut().find(|path| path.marks == [1, 0]).expect("a path");
            (path.samples, path.stacks) =
                (20, vec![SampledStack { locations: stack, samples: 20, ..SampledStack::default() }]);
            lines(&snapshot, "parse_line")
        };
        let outermost = "100 % ± 4  src/words.rs:77 in wordcount::words::load (callers unknown)";
        assert_eq!(with_callers(&[]), [outermost]);
        let further = with_callers(&[("wordcount::words::fill", 90)]);
        assert_eq!(further, [outermost.replace(":77", ":90").replace("load", "fill")]);
        let executed = ["100 % ± 4  __memmove_avx_unaligned"];
        assert_eq!(with_callers(&[("wordcount::run", 21)]), executed, "the caller's mark");
        for runtime in ["std::rt::lang_start_internal", "wordcount::main::{closure#0}"] {
            assert_eq!(with_callers(&[(runtime, 9)]), executed, "{runtime}");
        }
    }

    #[test]
    fn perfmarks_own_code_is_the_probe_and_lines_are_net_of_it() {
        // Of 318: 100 in the probe, and 90 in each line.
        let expected = [
            "41 % ± 3  src/main.rs:12",
            "41 % ± 3  src/main.rs:14",
            "14 % ± 2  library/alloc/src/string.rs:2203 in alloc::string::String::clone",
            "31 % ± 3  perfmark's own code at entry and exit (not in the shares above)",
        ];
        let mut snapshot = sample::sampled_in_probe();
        assert_eq!(lines(&snapshot, "parse_line"), expected);
        let path = snapshot.samples[0].paths.iter_mut().find(|path| path.marks == [1, 0]).expect("a path");
        path.stacks.retain(|stack| stack.samples == 100);
        path.samples = 100;
        assert_eq!(lines(&snapshot, "parse_line"), ["100 % ± 1  perfmark's own code at entry and exit"]);
    }

    #[test]
    fn files_of_other_packages_begin_with_the_name_of_the_package() {
        let snapshot = sample::sampled();
        for (file, expected) in [
            ("/home/user/wordcount/src/words.rs", "src/words.rs"),
            ("/home/user/crates/parser/src/lexer/mod.rs", "parser/src/lexer/mod.rs"),
            ("~/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/a-1.0.0/src/lib.rs", "a-1.0.0/src/lib.rs"),
            ("/rustc/1f2/library/core/src/str/mod.rs", "library/core/src/str/mod.rs"),
            ("/src/main.rs", "/src/main.rs"),
            ("/home/user/native.c", "/home/user/native.c"),
            ("crates/parser/src/lib.rs", "crates/parser/src/lib.rs"),
        ] {
            assert_eq!(HotLines::new(&snapshot, false).short(file), expected);
        }
    }

    #[test]
    fn samples_outside_of_marks_show_which_functions_to_mark() {
        let snapshot = sample::sampled();
        let [Outside { sentence, functions }] = HotLines::new(&snapshot, false).outside().try_into().ok().expect("one");
        assert_eq!(sentence, "outside marks: 28 % ± 2 of all samples; consider marking (in and outside marks)");
        let expected = [
            "11 % ± 1  Words::read  src/words.rs:31, mostly thread wordcount",
            "6 % ± 1  __memmove_avx_unaligned  no known caller to mark, thread reader-*",
        ];
        assert_eq!(shown(functions), expected, "and not `main`");
        let mut off = snapshot.clone();
        let path = "<wordcount::words::Words>::read".to_owned();
        off.marks.push(Mark { path, file: "src/words.rs".to_owned(), on: false, ..sample::mark("read", 0) });
        let Outside { sentence, functions } = HotLines::new(&off, false).outside().swap_remove(0);
        let in_off = "; in functions whose marks the filter turns off: 11 % ± 1; hottest functions";
        assert!(sentence.contains(in_off) && functions.len() == 1, "{sentence}");
        let mut without = snapshot.clone();
        for path in &mut without.samples[0].paths[..2] {
            path.stacks.retain(|stack| stack.locations.len() == 1 && stack.samples != 17);
        }
        let sentence = &HotLines::new(&without, false).outside()[0].sentence;
        assert_eq!(sentence, "outside marks: 28 % ± 2 of all samples; hottest functions (in and outside marks)");
    }

    #[test]
    fn the_share_outside_of_some_marks_is_of_the_samples_shown() {
        let sentences = |mut snapshot: Snapshot| {
            snapshot.retain(|mark| mark.name == "run");
            let outside = HotLines::new(&snapshot, false).outside();
            outside.into_iter().map(|one| (one.sentence, one.functions.len())).collect::<Vec<_>>()
        };
        let expected = "outside marks: 79 % ± 3 of the samples shown";
        assert_eq!(sentences(sample::sampled()), [(expected.to_owned(), 0)]);
        assert_eq!(sentences(sample::sampled_twice()), [(format!("{expected} of cpu-clock"), 0)]);
    }

    #[test]
    fn functions_that_marked_ones_call_are_suggested_too_unless_they_are_inlined_there() {
        let mut snapshot = sample::sampled();
        let samples = &mut snapshot.samples[0];
        let find = samples.frames.iter().position(|frame| frame.function.contains("find")).expect("a frame");
        samples.frames[find].function = "wordcount::clean".to_owned();
        samples.frames[find].file = Some("/home/user/wordcount/src/clean.rs".to_owned());
        let functions = |snapshot: &Snapshot| shown(HotLines::new(snapshot, false).outside().swap_remove(0).functions);
        assert_eq!(functions(&snapshot).len(), 2, "only those outside of marks");
        // In libc's place, with 28 samples, of which 8 without callers.
        let called = snapshot.samples[0].locations.iter_mut().find(|location| location.address == 8);
        called.expect("a location").frames = vec![find];
        assert!(functions(&snapshot).contains(&"6 % ± 1  clean  src/clean.rs:1402, in parse_line".to_owned()));
        // Thread `wordcount` has the samples of `Words::read` in code that is inlined in `main`.
        let samples = &mut snapshot.samples[0];
        let main = samples.frames.iter().position(|frame| frame.function == "wordcount::main").expect("a frame");
        samples.locations.iter_mut().find(|at| at.address == 6_000).expect("a location").frames.push(main);
        let expected = "src/words.rs:31, inlined (a mark may slow it down), mostly thread wordcount";
        assert!(functions(&snapshot)[0].ends_with(expected), "{:?}", functions(&snapshot));
    }

    #[test]
    fn functions_outside_of_marks_with_few_samples_are_not_suggested() {
        let outside = |most: u64| {
            let mut snapshot = sample::sampled();
            for stack in snapshot.samples[0].paths[..2].iter_mut().flat_map(|path| &mut path.stacks) {
                stack.samples = stack.samples.min(most);
            }
            HotLines::new(&snapshot, false).outside().swap_remove(0)
        };
        assert_eq!(outside(FEWEST - 1).functions.len(), 1, "two lines of one function have 8 samples");
        let few = outside(1);
        assert_eq!(few.sentence, "outside marks: 28 % ± 2 of all samples");
        assert_eq!(few.functions, []);
    }

    #[test]
    fn samples_of_one_event_are_distinguished_by_their_rate_and_depth() {
        let mut snapshot = sample::sampled_twice();
        snapshot.samples[1].event = "cpu-clock".into();
        assert_eq!(events(&snapshot.samples), ["cpu-clock, 99 a second", "cpu-clock, one in 10,007"]);
        snapshot.samples[1] = Samples { stack_bytes: 0, ..snapshot.samples[0].clone() };
        let expected = ["cpu-clock, 99 a second, stacks of 8,192 bytes", "cpu-clock, 99 a second, stacks of 0 bytes"];
        assert_eq!(events(&snapshot.samples), expected);
        assert_eq!(events(&snapshot.samples[..1]), [""]);
    }

    #[test]
    fn shares_are_flagged_if_many_samples_were_lost() {
        let with = |lost| {
            let mut snapshot = sample::sampled();
            snapshot.samples[0].lost = lost;
            HotLines::new(&snapshot, false).of(0, &View::new(100))[0].share.clone()
        };
        let taken = sample::sampled().samples[0].taken();
        assert_eq!(with(taken / 20), "60 % ± 3");
        assert_eq!(with(taken / 18), "≈60 % ± 3");
    }
}
