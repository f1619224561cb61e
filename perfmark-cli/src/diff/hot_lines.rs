//! Lines whose share of a mark's samples changed.
//!
//! A share has a standard error. Among many lines, a difference of two standard errors is common by chance, so a line
//! has changed only if it differs by more.

use std::collections::{BTreeMap, BTreeSet};

use perfmark::text::{sanitize, share_and_error, share_of_samples};
use perfmark::{HotLine, Mark, Samples, SamplesByMark, Snapshot};

use super::identity::{Key, Names, keys};
use super::side::Side;

/// A line has changed if its share differs by more than this many standard errors of the difference,
const LEAST_ERRORS: f64 = 3.0;
/// and by at least this.
const LEAST_SHARE: f64 = 0.01;

/// A line whose share changed.
pub(crate) struct ChangedLine {
    /// What was sampled.
    pub(crate) sampling: String,
    pub(crate) function: String,
    pub(crate) file: Option<String>,
    /// The line's number in the head, or in the base if the head has no samples there.
    pub(crate) line: Option<u32>,
    pub(crate) is_own: bool,
    /// The samples at the line, and all those directly in the mark, for each side.
    pub(crate) samples: [[u64; 2]; 2],
}

impl ChangedLine {
    /// Source file and line, and the function if it is not the marked one.
    pub(crate) fn place(&self) -> String {
        let Some(file) = &self.file else { return self.function.clone() };
        let line = self.line.map_or_else(String::new, |line| format!(":{line}"));
        if self.is_own { format!("{file}{line}") } else { format!("{file}{line} in {}", self.function) }
    }

    /// The share of the mark's samples on each side, with its standard error.
    pub(crate) fn shares(&self) -> [String; 2] {
        self.samples.map(|[part, all]| share_of_samples(part, all))
    }

    /// The difference of the shares, and its standard error.
    fn difference(&self) -> [f64; 2] {
        let [[base, of_base], [head, of_head]] = self.samples.map(|[part, all]| share_and_error(part, all));
        [head - base, of_base.hypot(of_head)]
    }

    fn has_changed(&self) -> bool {
        let [by, error] = self.difference();
        by.abs() >= LEAST_SHARE && by.abs() > LEAST_ERRORS * error
    }
}

/// The samples of both sides.
pub(super) struct Sampled {
    /// Each side's runs merged.
    sides: [Snapshot; 2],
    /// The indices of samples of the same event and rate.
    pairs: Vec<[usize; 2]>,
    /// Why lines cannot be compared, if one side has samples.
    pub(super) note: Option<String>,
}

impl Sampled {
    pub(super) fn of(sides: &[Side; 2]) -> Self {
        let merged = [0, 1].map(|side: usize| merged(&sides[side]));
        let pairs = pairs(&merged).map_err(|why| format!("hot lines are not compared: {why}"));
        let is_sampled = merged.iter().any(|side| !side.samples.is_empty());
        let (pairs, note) = match pairs {
            Ok(pairs) => (pairs, None),
            Err(why) => (Vec::new(), is_sampled.then_some(why)),
        };
        Self { sides: merged, pairs, note }
    }

    /// For each mark of both sides, the lines that changed, the most changed first.
    pub(super) fn changed<'a>(&'a self, ambiguous: &Names<'a>) -> BTreeMap<Key<'a>, Vec<ChangedLine>> {
        let mut all: BTreeMap<Key<'_>, Vec<ChangedLine>> = BTreeMap::new();
        let [base, head] = &self.sides;
        let in_base: BTreeMap<Key<'_>, usize> = keys(base, ambiguous).zip(0..).collect();
        for &[of_base, of_head] in &self.pairs {
            let places = [Places::new(base, of_base), Places::new(head, of_head)];
            for (key, mark) in keys(head, ambiguous).zip(0..) {
                let Some(&before) = in_base.get(&key) else { continue };
                let lines = all.entry(key).or_default();
                lines.extend(compared(&places, [before, mark]).filter(ChangedLine::has_changed));
            }
        }
        for lines in all.values_mut() {
            let by = |line: &ChangedLine| line.difference()[0].abs();
            lines.sort_by(|one, other| by(other).total_cmp(&by(one)));
        }
        all
    }
}

/// The samples of a side's runs, and their marks without values.
fn merged(side: &Side) -> Snapshot {
    let mut all = Snapshot::default();
    for run in side.runs.iter().filter(|run| !run.samples.is_empty()) {
        let mut sampled = Snapshot::default();
        sampled.samples.clone_from(&run.samples);
        sampled.marks = run.marks.iter().map(without_values).collect();
        all.merge(&sampled);
    }
    all
}

fn without_values(mark: &Mark) -> Mark {
    let mut only = Mark::default();
    (only.path, only.name) = (mark.path.clone(), mark.name.clone());
    (only.file, only.line, only.type_hash) = (mark.file.clone(), mark.line, mark.type_hash);
    only
}

/// The samples that can be compared, or why there are none.
fn pairs([base, head]: &[Snapshot; 2]) -> Result<Vec<[usize; 2]>, String> {
    let sampling = |samples: &Samples| match samples.stack_bytes {
        0 => samples.rate(),
        bytes => format!("{} with {bytes} bytes of the stack", samples.rate()),
    };
    let mut pairs = Vec::new();
    for (at, samples) in base.samples.iter().enumerate() {
        let same = head.samples.iter().position(|other| sampling(other) == sampling(samples));
        pairs.extend(same.map(|same| [at, same]));
    }
    for (name, side) in [("base", base), ("head", head)] {
        if side.samples.is_empty() {
            return Err(format!("{name} has no samples"));
        }
    }
    if pairs.is_empty() {
        let all = |side: &Snapshot| side.samples.iter().map(sampling).collect::<Vec<_>>().join("; ");
        return Err(format!("base was sampled by {}, head by {}", all(base), all(head)));
    }
    for &[of_base, of_head] in &pairs {
        for (name, samples) in [("base", &base.samples[of_base]), ("head", &head.samples[of_head])] {
            if !samples.has_names() {
                let remedy = "`perfmark report --symbols --format json` names them";
                return Err(format!("the samples of {name} have no names; {remedy}"));
            }
            if samples.is_biased() {
                return Err(format!("too many samples of {name} are missing; `perfmark report` says why"));
            }
        }
    }
    Ok(pairs)
}

/// All lines of a mark, whose index on each side is given.
fn compared(places: &[Places<'_>; 2], marks: [usize; 2]) -> impl Iterator<Item = ChangedLine> {
    let mut all: BTreeMap<Place, ChangedLine> = BTreeMap::new();
    let [before, after] = [0, 1].map(|side: usize| {
        let (samples, mark) = (&places[side].samples, Some(marks[side]));
        samples.of_mark(mark).saturating_sub(samples.in_probe(mark))
    });
    // The head comes last, so that its numbers of lines are shown.
    for side in [0, 1] {
        for line in places[side].samples.hot_lines(Some(marks[side])) {
            let place = places[side].of(&line, marks[side]);
            let known = all.entry(place).or_insert_with(|| ChangedLine {
                sampling: places[side].samples.samples().rate(),
                function: sanitize(&function_of(&line)),
                file: line.frame.file.as_deref().map(|file| sanitize(places[side].short(file))),
                line: None,
                is_own: line.is_own,
                samples: [[0, before], [0, after]],
            });
            known.line = line.frame.line;
            known.samples[side][0] = known.samples[side][0].saturating_add(line.samples);
        }
    }
    all.into_values()
}

/// The function, also of the marked function's own lines.
fn function_of(line: &HotLine) -> String {
    if line.is_own { line.frame.function.clone() } else { line.function() }
}

/// What makes lines of both sides the same: whether they are the marked function's own, the function of others, the
/// file, and the line. In the file of a mark, its own lines count from the mark, so that code which was moved as one is
/// the same.
type Place = (bool, String, Option<String>, Option<i64>);

/// A program has few directories from which its crates were compiled.
const ROOTS: usize = 64;

/// Lines of one side.
struct Places<'a> {
    snapshot: &'a Snapshot,
    samples: SamplesByMark<'a>,
    /// The directories before the source files that the marks name. Those of base and head may differ.
    roots: BTreeSet<&'a str>,
}

impl<'a> Places<'a> {
    fn new(snapshot: &'a Snapshot, index: usize) -> Self {
        let samples = &snapshot.samples[index];
        let of_marks: BTreeSet<&str> = snapshot.marks.iter().map(|mark| &*mark.file).collect();
        let root = |file: &'a String| {
            let slashes = file.match_indices('/').map(|(at, _)| &file[..=at]);
            slashes.take_while(|root| root.len() < file.len()).find(|root| of_marks.contains(&file[root.len()..]))
        };
        let files = samples.frames.iter().filter_map(|frame| frame.file.as_ref());
        let mut roots: BTreeSet<&str> = BTreeSet::new();
        for root in files.filter_map(root) {
            if roots.len() < ROOTS {
                roots.insert(root);
            }
        }
        Self { snapshot, samples: snapshot.samples_by_mark(samples), roots }
    }

    fn of(&self, line: &HotLine, mark: usize) -> Place {
        let mark = &self.snapshot.marks[mark];
        let file = line.frame.file.as_deref().map(|file| self.short(file));
        let start = if line.is_own && file == Some(&*mark.file) { mark.line } else { 0 };
        let number = line.frame.line.map(|line| i64::from(line) - i64::from(start));
        (line.is_own, line.function(), file.map(str::to_owned), number)
    }

    /// The file without the directory in which the compiler ran.
    fn short<'f>(&self, file: &'f str) -> &'f str {
        self.roots.iter().find_map(|root| file.strip_prefix(root)).unwrap_or(file)
    }
}
