//! Where the samples of a mark are: its hottest lines, and those outside of all marks.
//!
//! The line shown is that of the marked function itself, also for the functions that are inlined there. If the sampled
//! code is in another function, its name is beside the line.

use std::collections::BTreeMap;
use std::path::Path;

use super::quantity::ESTIMATE;
use crate::snapshot::path::{bare, end, readable};
use crate::snapshot::{Frame, Mark, SampledAddress, Samples, Snapshot};
use crate::text::{exact, sanitize};

/// The most lines of a mark.
const MOST: usize = 3;
/// The fewest samples of a line that is shown.
const FEWEST: u64 = 5;

/// A line of source, and the part of the mark's samples that are there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HotLine {
    pub(super) share: String,
    /// Source file and line, and the function's name if it is not the marked one.
    pub(super) place: String,
}

/// The samples of a snapshot.
pub(super) struct HotLines<'a> {
    marks: &'a [Mark],
    samples: Option<&'a Samples>,
    named: BTreeMap<(usize, u64), Vec<&'a Frame>>,
    /// By the mark; `None` outside of all marks.
    by_mark: BTreeMap<Option<usize>, Vec<&'a SampledAddress>>,
    /// The directories before the source files that the marks name, with a slash at the end.
    roots: Vec<String>,
}

impl<'a> HotLines<'a> {
    pub(super) fn new(snapshot: &'a Snapshot) -> Self {
        let (marks, samples) = (snapshot.marks.as_slice(), snapshot.samples.as_ref());
        let mut lines = Self { marks, samples, named: BTreeMap::new(), by_mark: BTreeMap::new(), roots: Vec::new() };
        let Some(samples) = samples else { return lines };
        for path in &samples.paths {
            lines.by_mark.entry(path.marks.last().copied()).or_default().extend(&path.addresses);
        }
        for one in &samples.named {
            let frames: Vec<&Frame> = one.frames.iter().filter_map(|&at| samples.frames.get(at)).collect();
            if !frames.is_empty() {
                lines.named.insert((one.module, one.address), frames);
            }
        }
        let files = marks.iter().map(|mark| mark.file.as_str()).filter(|file| !file.is_empty());
        let files: std::collections::BTreeSet<&str> = files.collect();
        for file in samples.frames.iter().filter_map(|frame| frame.file.as_deref()) {
            let root = |end: &&str| file.strip_suffix(*end).filter(|root| root.ends_with('/'));
            if let Some(root) = files.iter().find_map(root)
                && !lines.roots.iter().any(|known| known == root)
            {
                lines.roots.push(root.to_owned());
            }
        }
        lines
    }

    /// Whether there are lines.
    pub(super) fn has_names(&self) -> bool {
        !self.named.is_empty()
    }

    /// The hottest lines of a mark, or those outside of all marks.
    pub(super) fn of(&self, mark: Option<usize>) -> Vec<HotLine> {
        let Some(addresses) = self.by_mark.get(&mark) else { return Vec::new() };
        let all = sum(addresses);
        let marked = mark.and_then(|mark| self.marks.get(mark)).map(Marked::new);
        let mut lines: BTreeMap<String, u64> = BTreeMap::new();
        for one in addresses {
            if let Some(frames) = self.named.get(&(one.module, one.address)) {
                let samples = lines.entry(self.place(frames, marked.as_ref(), one.module)).or_default();
                *samples = samples.saturating_add(one.samples);
            }
        }
        let mut lines: Vec<(String, u64)> = lines.into_iter().filter(|(_, samples)| *samples >= FEWEST).collect();
        lines.sort_by_key(|(_, samples)| std::cmp::Reverse(*samples));
        lines.truncate(MOST);
        lines.into_iter().map(|(place, samples)| HotLine { share: self.share(samples, all), place }).collect()
    }

    /// The part of all samples that are outside of marks, if there are such samples.
    pub(super) fn outside(&self) -> Option<String> {
        let outside = sum(self.by_mark.get(&None)?);
        let all = self.samples?.taken();
        (outside > 0).then(|| format!("outside marks: {} of the samples", self.share(outside, all)))
    }

    /// How to read the lines, and what they lack.
    pub(super) fn legend(&self) -> Option<String> {
        let samples = self.samples?;
        let taken = format!("{} samples of {}", exact(samples.taken()), samples.rate());
        Some(match (samples.taken(), self.has_names()) {
            (0, _) => format!("no samples of {}", samples.rate()),
            (_, true) => format!(
                "lines: share of the samples taken directly in the mark, ± its standard error; {taken}. Lines with \
                 fewer than {FEWEST} samples are not shown."
            ),
            (_, false) => format!(
                "{taken}, whose lines have no names yet: `perfmark report --symbols` names them, in a report of the \
                 format json"
            ),
        })
    }

    /// What is missing among the samples, a sentence each.
    pub(super) fn lacks(&self) -> Vec<String> {
        let Some(samples) = self.samples else { return Vec::new() };
        let mut lacks = Vec::new();
        if samples.lost > 0 {
            let all = samples.lost.saturating_add(samples.taken());
            let percent = samples.lost as f64 / all as f64 * 100.0;
            let flagged = if self.is_biased() {
                format!("; shares are marked {ESTIMATE}, because those that were kept are no fair selection")
            } else {
                String::new()
            };
            lacks.push(format!("{} samples were lost ({percent:.1} %){flagged}", exact(samples.lost)));
        }
        if samples.throttled > 0 {
            lacks.push(format!(
                "the kernel paused sampling {} times, because of too many samples",
                exact(samples.throttled)
            ));
        }
        if samples.threads_without > 0 {
            lacks.push(format!("threads that could not be sampled: {}", exact(samples.threads_without)));
        }
        lacks
    }

    /// Whether so many samples were lost that the others may be no fair selection.
    fn is_biased(&self) -> bool {
        self.samples.is_some_and(|samples| {
            let all = u128::from(samples.lost) + u128::from(samples.taken());
            u128::from(samples.lost) * 20 > all
        })
    }

    /// A share with its standard error: `31 % ± 2`, with a decimal if the error is below a percent.
    fn share(&self, part: u64, all: u64) -> String {
        let (part, all) = (part as f64, (all as f64).max(1.0));
        let share = part / all * 100.0;
        // With one more sample inside and outside (Agresti and Coull), so that all samples of few are not certain.
        let near = (part + 1.0) / (all + 2.0);
        let error = (near * (1.0 - near) / (all + 2.0)).max(0.0).sqrt() * 100.0;
        let flag = if self.is_biased() { ESTIMATE.to_string() } else { String::new() };
        if error < 0.95 {
            format!("{flag}{share:.1} % ± {error:.1}")
        } else {
            format!("{flag}{share:.0} % ± {error:.0}")
        }
    }

    /// Source file and line, and the function if it is not the marked one.
    fn place(&self, frames: &[&Frame], marked: Option<&Marked<'_>>, module: usize) -> String {
        let is_marked = |frame: &&&Frame| marked.is_some_and(|marked| marked.is(frame));
        // The last frame is the function whose code it is.
        let own = frames.iter().rev().find(is_marked);
        let Some(frame) = own.or(frames.last()) else { return String::new() };
        let function = sanitize(&bare(&readable(&frame.function)));
        let line = match (&frame.file, frame.line) {
            (Some(file), Some(line)) => format!("{}:{line}", sanitize(self.short(file))),
            (Some(file), None) => sanitize(self.short(file)),
            (None, _) => {
                let module = self.samples.and_then(|samples| samples.modules.get(module));
                let name = module.and_then(|module| Path::new(&module.path).file_name());
                name.map_or_else(|| "?".into(), |name| sanitize(&name.to_string_lossy()))
            }
        };
        if own.is_some() || function.is_empty() { line } else { format!("{line} in {function}") }
    }

    /// The file as the compiler got it, where that is known.
    fn short<'f>(&self, file: &'f str) -> &'f str {
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
        file
    }
}

/// A marked function, as debug information names it.
struct Marked<'a> {
    path: String,
    file: &'a str,
}

impl<'a> Marked<'a> {
    fn new(mark: &'a Mark) -> Self {
        Self { path: bare(&readable(&mark.path)), file: &mark.file }
    }

    /// Whether the frame is the function's own. Debug information with nothing but lines has its name without a path.
    fn is(&self, frame: &Frame) -> bool {
        let function = bare(&readable(&frame.function));
        let is_in_file = || frame.file.as_deref().is_some_and(|file| Path::new(file).ends_with(self.file));
        function == self.path || !function.contains("::") && function == end(&self.path, 1) && is_in_file()
    }
}

fn sum(addresses: &[&SampledAddress]) -> u64 {
    addresses.iter().map(|one| one.samples).fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::sample;

    fn lines(snapshot: &Snapshot, mark: Option<&str>) -> Vec<String> {
        let index = mark.map(|mark| snapshot.marks.iter().position(|one| one.name == mark).expect("a mark"));
        HotLines::new(snapshot).of(index).into_iter().map(|line| format!("{}  {}", line.share, line.place)).collect()
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
        assert_eq!(lines(&snapshot, Some("parse_line")), expected);
    }

    #[test]
    fn a_function_without_a_path_is_the_marked_one_if_it_is_in_the_same_file() {
        let mut snapshot = sample::sampled();
        let frames = &mut snapshot.samples.as_mut().expect("samples").frames;
        for (frame, file) in [(0, "/home/user/wordcount/src/main.rs"), (2, "/home/user/wordcount/src/other.rs")] {
            (frames[frame].function, frames[frame].file) = ("parse_line".into(), Some(file.into()));
        }
        let expected = ["60 % ± 3  src/main.rs:12", "28 % ± 3  src/other.rs:14 in parse_line"];
        assert_eq!(lines(&snapshot, Some("parse_line"))[..2], expected);
    }

    #[test]
    fn lines_with_few_samples_have_none() {
        let snapshot = sample::sampled();
        assert_eq!(lines(&snapshot, Some("run")), ["91 % ± 5  src/main.rs:40 in wordcount::main"]);
        assert_eq!(lines(&snapshot, Some("usage")), [""; 0]);
    }

    #[test]
    fn samples_outside_of_marks_have_lines_too() {
        let snapshot = sample::sampled();
        assert_eq!(lines(&snapshot, None), ["77 % ± 6  src/main.rs:40 in wordcount::main"]);
        let outside = HotLines::new(&snapshot).outside();
        assert_eq!(outside.as_deref(), Some("outside marks: 13 % ± 2 of the samples"));
    }

    #[test]
    fn an_error_below_a_percent_has_a_decimal_and_no_share_is_certain() {
        let snapshot = Snapshot::default();
        let lines = HotLines::new(&snapshot);
        assert_eq!(lines.share(3_000, 10_000), "30.0 % ± 0.5");
        assert_eq!(lines.share(30, 100), "30 % ± 5");
        assert_eq!(lines.share(20, 20), "100 % ± 4");
        assert_eq!(lines.share(0, 0), "0 % ± 27");
        assert_eq!(lines.share(u64::MAX, u64::MAX), "100.0 % ± 0.0");
    }

    #[test]
    fn lost_samples_are_reported_and_flag_shares_if_they_are_many() {
        let with = |lost| {
            let mut snapshot = sample::sampled();
            snapshot.samples.as_mut().expect("samples").lost = lost;
            let lines = HotLines::new(&snapshot);
            (lines.lacks().concat(), lines.of(Some(0))[0].share.clone())
        };
        // 405 samples were taken.
        assert_eq!(with(21), ("21 samples were lost (4.9 %)".into(), "60 % ± 3".into()));
        let (lacks, share) = with(22);
        assert!(lacks.starts_with("22 samples were lost (5.2 %); shares are marked ≈"), "{lacks}");
        assert_eq!(share, "≈60 % ± 3");
    }
}
