//! The comparison of two sides' marks.

use std::collections::{BTreeMap, BTreeSet};

use perfmark::text::{counted, sanitize};
use perfmark::{Event, Filter, Mark, Read, Unit, Values};

use super::hot_lines::{ChangedLine, Sampled};
use super::identity::{Names, RunMarks, ambiguous, by_key, labels, split};
use super::judge::{FEWEST, Judgement, RunValues, Statistic, Verdict, judge, judge_pairs};
use super::number::{grouped, share};
use super::side::{Design, Side};

/// Both sides' marks.
pub(crate) struct Comparison {
    pub(crate) files: [Vec<String>; 2],
    /// Marks that changed are first. Otherwise, the order is that of a report: the largest self is first.
    pub(crate) marks: Vec<Pair>,
    /// The events of all runs, and why one could not be counted.
    pub(crate) events: BTreeMap<String, Option<String>>,
    /// Notes about the sides.
    pub(crate) notes: Vec<String>,
    /// The number of runs of each side.
    pub(crate) runs: [usize; 2],
    pub(crate) design: Design,
    /// The most marks without a change that have a row.
    top: usize,
}

/// A mark, with its values on both sides.
pub(crate) struct Pair {
    pub(crate) label: String,
    pub(crate) path: String,
    pub(crate) location: String,
    pub(crate) presence: Presence,
    /// The fewest and the most calls in a run, for each side.
    pub(crate) calls: [[u64; 2]; 2],
    /// Whether a call returned on both sides. A panic or a drop may have ended all of them.
    pub(crate) has_returned: bool,
    pub(crate) events: Vec<Compared>,
    /// For each event, how many calls were measured in the head.
    pub(crate) coverage: Vec<Coverage>,
    /// Lines whose share of the samples changed, the most changed first.
    pub(crate) lines: Vec<ChangedLine>,
}

/// How many calls of a mark were measured in one event.
pub(crate) struct Coverage {
    pub(crate) event: String,
    pub(crate) measured: u64,
    /// Calls that should have been measured: all except those that `every`, a budget or a filter skipped, and those
    /// that a panic or a drop ended.
    pub(crate) expected: u64,
    /// Why the event was not counted at all, if it was not.
    pub(crate) reason: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    Both,
    /// Only on that side.
    Only(usize),
    /// On both sides, but called on that one only.
    CalledIn(usize),
    /// Turned off by the filter of that side, and called on the other.
    OffIn(usize),
    /// Turned off by the filters of both sides.
    Off,
    /// Called in no run.
    NeverCalled,
}

/// An event of a mark that was called on both sides.
pub(crate) struct Compared {
    pub(crate) event: String,
    pub(crate) unit: Unit,
    pub(crate) statistic: Statistic,
    /// `None` if a side was not measured.
    pub(crate) judgement: Option<Judgement>,
    /// The values of the runs that measured it, for each side.
    runs: [Vec<RunValues>; 2],
    /// The mean self cost per call, for each side.
    pub(crate) own: Option<[f64; 2]>,
    /// For each side, how many of the calls were measured, if some were skipped and the values are compared.
    pub(crate) in_part: Option<[String; 2]>,
    /// Why it was not measured, or notes about the values.
    pub(crate) notes: Vec<String>,
    /// Why no gate can rely on the values: a side measured almost nothing.
    pub(crate) lack: Option<String>,
    /// Whether an emulator counted it on both sides.
    pub(crate) is_emulated: bool,
}

impl Compared {
    pub(crate) fn verdict(&self) -> Option<Verdict> {
        self.judgement.map(|judgement| judgement.verdict)
    }

    pub(crate) fn has_changed(&self) -> bool {
        matches!(self.verdict(), Some(Verdict::More | Verdict::Less))
    }

    /// Whether the value of that side is no larger than the variation of the probe overhead.
    pub(crate) fn is_noise(&self, side: usize) -> bool {
        let noise = self.runs[side].iter().map(|one| one.noise).fold(0.0, f64::max);
        let value = self.judgement.map(|judgement| [judgement.base, judgement.head][side]);
        noise > 0.0 && value.is_some_and(|value| value.abs() <= noise)
    }

    /// Whether the change is in the marked calls inside, as far as that is known.
    pub(crate) fn is_of_callees(&self) -> bool {
        let (Some(judgement), Some([before, after])) = (self.judgement, self.own) else { return false };
        let (whole, own) = ((judgement.head - judgement.base).abs(), (after - before).abs());
        self.statistic.is_mean() && whole > 0.0 && own <= judgement.margin.max(whole / 10.0)
    }
}

impl Pair {
    pub(crate) fn has_changed(&self) -> bool {
        self.events.iter().any(Compared::has_changed)
    }

    /// Whether both sides called the mark, and the values of an event were compared.
    pub(crate) fn is_compared(&self) -> bool {
        self.events.iter().any(|event| event.judgement.is_some())
    }

    /// Whether the numbers of calls differ.
    pub(crate) fn calls_changed(&self) -> bool {
        let [[least_before, most_before], [least_after, most_after]] = self.calls;
        self.presence == Presence::Both && (most_before < least_after || most_after < least_before)
    }
}

impl Comparison {
    /// Compares the marks that the filter turns on.
    pub(crate) fn of(sides: &[Side; 2], filter: Option<&Filter>, design: Design, top: usize) -> Self {
        let ambiguous = ambiguous(sides);
        let runs: [Vec<RunMarks<'_>>; 2] =
            [0, 1].map(|side: usize| sides[side].runs.iter().map(|run| by_key(run, &ambiguous)).collect());
        let known = |side: usize| -> BTreeMap<&str, &Event> {
            sides[side].runs.iter().flat_map(|run| &run.events).map(|event| (&*event.name, event)).collect()
        };
        let known = [known(0), known(1)];
        let mut compared = labels(sides, &runs);
        compared.retain(|(_, newest, _)| filter.is_none_or(|filter| filter.has_mark(newest)));
        let shown: Names<'_> = compared.iter().map(|&((path, name, ..), ..)| (path, name)).collect();
        let not_compared = about_names(&split(&runs) & &shown, &ambiguous);
        let sampled = Sampled::of(sides);
        let mut lines = sampled.changed(&ambiguous);
        let mut marks: Vec<Pair> = compared
            .into_iter()
            .map(|(key, newest, label)| {
                let of = [0, 1].map(|side: usize| {
                    runs[side].iter().filter_map(|run| run.get(&key).copied()).collect::<Vec<&Mark>>()
                });
                let mut pair = Pair::of(label, newest, &of, &known, design);
                pair.lines = lines.remove(&key).unwrap_or_default();
                pair
            })
            .collect();
        let count = [0, 1].map(|side: usize| sides[side].runs.len());
        if design == Design::Paired {
            judge_all(&mut marks, count[0]);
        }
        // Stable: within each part, the order stays.
        marks.sort_by_key(|pair| !pair.has_changed());
        let mut events = BTreeMap::new();
        for event in sides.iter().flat_map(|side| &side.runs).flat_map(|run| &run.events) {
            let reason: &mut Option<String> = events.entry(event.name.clone()).or_default();
            *reason = reason.take().or_else(|| reason_not_counted(event));
        }
        let files = [0, 1].map(|side: usize| sides[side].files.iter().map(|file| sanitize(file)).collect());
        Self {
            files,
            marks,
            events,
            notes: notes(sides).into_iter().chain(not_compared).chain(sampled.note).collect(),
            runs: count,
            design,
            top,
        }
    }

    /// Whether a side has too few runs to judge what varies from run to run.
    pub(crate) fn has_few_runs(&self) -> bool {
        self.runs.iter().any(|&runs| runs < self.design.fewest_runs())
    }

    pub(crate) fn changed(&self) -> impl Iterator<Item = &Pair> {
        self.marks.iter().filter(|pair| pair.has_changed())
    }

    /// The first of the compared marks without a change, and how many there are in all.
    pub(crate) fn unchanged(&self) -> (impl Iterator<Item = &Pair>, usize) {
        let all = || self.marks.iter().filter(|pair| pair.is_compared() && !pair.has_changed());
        (all().take(self.top), all().count())
    }

    /// Marks whose values were not compared, with lines that changed.
    pub(crate) fn with_lines_only(&self) -> impl Iterator<Item = &Pair> {
        self.marks.iter().filter(|pair| !pair.is_compared() && !pair.lines.is_empty())
    }

    /// How many marks without a change have no row, if there are any.
    pub(crate) fn left_out(&self) -> Option<String> {
        let more = self.unchanged().1.saturating_sub(self.top) as u64;
        // `perfmark gate` has no option for it.
        let how = if self.design == Design::Commits { "PERFMARK_TOP=all" } else { "--top all" };
        (more > 0).then(|| format!("and {}; `{how}` shows all", counted(more, "more mark")))
    }

    /// The marks that have a row.
    pub(crate) fn shown(&self) -> impl Iterator<Item = &Pair> {
        self.changed().chain(self.unchanged().0).chain(self.with_lines_only())
    }

    pub(crate) fn labels(&self, presence: Presence) -> Vec<&str> {
        self.marks.iter().filter(|pair| pair.presence == presence).map(|pair| &*pair.label).collect()
    }
}

/// Judges each event of a clock in all marks together, because the test covers all marks of a comparison.
fn judge_all(marks: &mut [Pair], pairs: usize) {
    let mut of_clocks: BTreeMap<String, Vec<&mut Compared>> = BTreeMap::new();
    for event in marks.iter_mut().flat_map(|pair| &mut pair.events) {
        if event.statistic != Statistic::MidMean || event.judgement.is_none() {
            continue;
        }
        if event.runs.iter().any(|runs| runs.len() != pairs) {
            event.judgement = Some(Judgement::without(&event.runs, Verdict::NotInEachPair));
            event.notes.push(format!("not measured in each of the {} of runs", counted(pairs as u64, "pair")));
        } else {
            of_clocks.entry(event.event.clone()).or_default().push(event);
        }
    }
    for (_, events) in of_clocks {
        let runs: Vec<_> = events.iter().map(|event| event.runs.clone()).collect();
        for (event, judgement) in events.into_iter().zip(judge_pairs(&runs)) {
            event.judgement = Some(judgement);
        }
    }
}

impl Pair {
    fn of(
        label: String,
        newest: &Mark,
        of: &[Vec<&Mark>; 2],
        known: &[BTreeMap<&str, &Event>; 2],
        design: Design,
    ) -> Self {
        let calls = [0, 1].map(|side: usize| {
            let calls = || of[side].iter().map(|mark| mark.calls);
            [calls().min().unwrap_or(0), calls().max().unwrap_or(0)]
        });
        let is_called = [calls[0][1] > 0, calls[1][1] > 0];
        let is_off = |side: usize| of[side].iter().all(|mark| !mark.on);
        let presence = match (of[0].is_empty(), of[1].is_empty(), is_called) {
            (_, true, _) => Presence::Only(0),
            (true, ..) => Presence::Only(1),
            (.., [true, true]) => Presence::Both,
            (.., [false, false]) if is_off(0) && is_off(1) => Presence::Off,
            (.., [false, false]) => Presence::NeverCalled,
            (.., [in_base, _]) => {
                let without = usize::from(in_base);
                if is_off(without) { Presence::OffIn(without) } else { Presence::CalledIn(1 - without) }
            }
        };
        let location = sanitize(&format!("{}:{}", newest.file, newest.line));
        let mut events = Vec::new();
        if presence == Presence::Both {
            let mut named = BTreeSet::new();
            let all = of.iter().flatten().flat_map(|mark| mark.values.iter().enumerate());
            for (at, event) in all.map(|(at, values)| (at, &*values.event)).filter(|(_, event)| named.insert(*event)) {
                events.push(Compared::of(event, at, of, known, design));
            }
        }
        let coverage = Coverage::of_head(of, known);
        let has_returned = of.iter().all(|side| side.iter().any(|mark| returned(mark) > 0));
        let (path, lines) = (sanitize(&newest.path), Vec::new());
        Self { label, path, location, presence, calls, has_returned, events, coverage, lines }
    }
}

/// The calls that no panic and no drop ended: the measured, the unmeasured and the skipped ones.
fn returned(mark: &Mark) -> u64 {
    mark.calls.saturating_sub(mark.unwound).saturating_sub(mark.cancelled)
}

impl Coverage {
    /// The coverage of the events of all runs of the head, and of those that the base measured and the head's machine
    /// could not.
    fn of_head([base, head]: &[Vec<&Mark>; 2], [_, known]: &[BTreeMap<&str, &Event>; 2]) -> Vec<Self> {
        let mut all: Vec<Self> = Vec::new();
        let mut indices: BTreeMap<&str, usize> = BTreeMap::new();
        for values in head.iter().filter(|mark| mark.calls > 0).flat_map(|mark| &mark.values) {
            let index = *indices.entry(&values.event).or_insert(all.len());
            if index == all.len() {
                let event = sanitize(&values.event);
                all.push(Self { event, measured: 0, expected: 0, reason: None });
            }
            let one = &mut all[index];
            one.measured = one.measured.saturating_add(values.measured);
            one.expected = one.expected.saturating_add(values.measured).saturating_add(values.unmeasured);
        }
        let calls = head.iter().map(|mark| returned(mark).saturating_sub(mark.skipped)).fold(0, u64::saturating_add);
        let in_base = base.iter().flat_map(|mark| &mark.values).filter(|values| values.measured > 0);
        let in_base: BTreeSet<&str> = in_base.map(|values| &*values.event).collect();
        for event in in_base.into_iter().filter(|event| !indices.contains_key(event)) {
            if let Some(lost) = known.get(event).filter(|event| event.read == Read::None) {
                let reason = lost.reason.as_deref().map(sanitize);
                all.push(Self { event: sanitize(event), measured: 0, expected: calls, reason });
            }
        }
        all.retain(|one| one.expected > 0);
        all
    }
}

/// Why the event could not be counted. Of other events, the reason is why they were not read in user space, or what
/// counted them.
fn reason_not_counted(event: &Event) -> Option<String> {
    event.reason.as_deref().filter(|_| event.read == Read::None).map(sanitize)
}

/// Measured calls represent the others if they are at least 1 in this many.
const LEAST_SHARE: u64 = 10;

const SIDES: [&str; 2] = ["base", "head"];

impl Compared {
    /// Most marks have the event at the index `at`.
    fn of(event: &str, at: usize, of: &[Vec<&Mark>; 2], known: &[BTreeMap<&str, &Event>; 2], design: Design) -> Self {
        let about = |side: usize| known[side].get(event).copied();
        let any = about(0).or(about(1));
        let is_paired = design == Design::Paired;
        let (unit, statistic) =
            any.map_or((Unit::Count, Statistic::Mean), |any| (any.unit, Statistic::of(any, is_paired)));
        let mut notes = Vec::new();
        let values = [0, 1].map(|side: usize| {
            let is_it = |values: &&Values| values.event == event;
            let found = of[side].iter().map(|&mark| {
                let there = mark.values.get(at).filter(is_it);
                (mark, there.or_else(|| mark.values.iter().find(is_it)))
            });
            found.filter(|(mark, _)| mark.calls > 0).collect::<Vec<_>>()
        });
        let ones = [0, 1].map(|side: usize| {
            let ones = values[side].iter().filter_map(|(_, values)| RunValues::of((*values)?, statistic));
            ones.collect::<Vec<_>>()
        });
        for (side, name) in SIDES.into_iter().enumerate() {
            if ones[side].is_empty() {
                let reason = about(side).and_then(reason_not_counted);
                let why = reason.unwrap_or_else(|| {
                    let has_it = values[side].iter().any(|(_, values)| values.is_some());
                    let has_returned = values[side].iter().any(|(mark, _)| returned(mark) > 0);
                    match (has_it, has_returned) {
                        (false, _) => "the mark did not record it",
                        (true, true) => "no call was counted",
                        (true, false) => "no call returned",
                    }
                    .to_owned()
                });
                notes.push(format!("not measured in {name}: {why}"));
                continue;
            }
            notes.extend(coverage(name, &values[side], ones[side].len()));
        }
        let is_measured = ones.iter().all(|ones| !ones.is_empty());
        let mut is_comparable = true;
        if let (Some(base), Some(head)) = (about(0), about(1)) {
            let is_read_alike = base.read == head.read || !is_measured;
            if base.unit != head.unit {
                is_comparable = false;
                notes.push("not compared: base and head count it in different units".into());
            } else if !is_read_alike && [base.read, head.read].contains(&Read::Emulated) {
                is_comparable = false;
                notes.push("not compared: only one of base and head is of an emulator".into());
            } else if !is_read_alike {
                notes.push(format!("read by {:?} in base, by {:?} in head", base.read, head.read).to_lowercase());
            }
        }
        // Of a mark that is rarely called, `every` or a budget may have skipped no call, and none inside.
        let is_exact = |(mark, values): &(&Mark, Option<&Values>)| {
            let is_exact = |values: &Values| values.weight == values.measured && values.estimated == 0;
            mark.skipped == 0 && values.is_none_or(is_exact)
        };
        let all_exact = values.iter().flatten().all(is_exact);
        let measured = [0, 1].map(|side: usize| {
            let settings = |mark| if all_exact { ALL_CALLS.into() } else { calls_to_measure(mark) };
            let of_runs = values[side].iter().map(|&(mark, _)| settings(mark));
            of_runs.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(" or ")
        });
        match &measured {
            [base, head] if base == head && base == ALL_CALLS => {}
            [base, head] if base == head => notes.push(format!("base and head measured {base}")),
            // In estimates, values of clocks are corrected by what a thread learns in bursts.
            [base, head] if !statistic.is_mean() && [base, head].iter().any(|calls| *calls == ALL_CALLS) => {
                is_comparable = false;
                let what = format!("base measured {base}, head {head}");
                let how = "record both with the same settings, or set `PERFMARK_FILTER='*=every:1'` for both";
                notes.push(format!("not compared: {what}; {how}"));
            }
            [base, head] => {
                notes.push(format!("base measured {base}, head {head}; differences may come from that"));
            }
        }
        // In pairs, the clocks of all marks are judged together later.
        let allows_few_runs = matches!(design, Design::Separate { allows_few_runs: true });
        let judged = || judge(statistic, &ones, design.fewest_runs(), allows_few_runs);
        let judgement = (is_measured && is_comparable).then(judged);
        let own = |side: usize| -> Option<f64> {
            let all: Vec<f64> = values[side].iter().filter_map(|(_, values)| (*values)?.self_mean()).collect();
            (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64)
        };
        let own = own(0).zip(own(1)).map(|(base, head)| [base, head]).filter(|_| statistic.is_mean());
        let in_part = [0, 1].map(|side: usize| {
            let measured = values[side].iter().filter_map(|(_, values)| Some((*values)?.measured)).map(u128::from);
            let calls = values[side].iter().map(|(mark, _)| u128::from(returned(mark)));
            [measured.sum::<u128>(), calls.sum()].map(|calls| grouped(calls as f64)).join(" of ")
        });
        let has_skipped = values.iter().flatten().any(|(mark, _)| mark.skipped > 0);
        let in_part = (has_skipped && judgement.is_some()).then_some(in_part);
        let lack = [0, 1].into_iter().find_map(|side: usize| lack(SIDES[side], &values[side]));
        let is_emulated = [0, 1].iter().all(|&side| about(side).is_some_and(|event| event.read == Read::Emulated));
        Self { event: sanitize(event), unit, statistic, judgement, runs: ones, own, in_part, notes, lack, is_emulated }
    }
}

/// Returns a sentence if a side measured almost nothing: fewer than [`FEWEST`] of more calls than that, or less than 1
/// in [`LEAST_SHARE`] of the calls that should have been measured.
fn lack(side: &str, values: &[(&Mark, Option<&Values>)]) -> Option<String> {
    let of = |each: &dyn Fn(&Mark, &Values) -> u64| {
        values.iter().filter_map(|(mark, values)| Some(u128::from(each(mark, (*values)?)))).sum::<u128>()
    };
    let measured = of(&|_, values| values.measured);
    let expected = measured + of(&|_, values| values.unmeasured);
    let all = expected + of(&|mark, _| mark.skipped);
    let fewest = u128::from(FEWEST);
    if measured == 0 {
        // Not measured at all: another note has the reason.
        return None;
    }
    let is_little = measured < fewest && all >= fewest || measured * u128::from(LEAST_SHARE) < expected;
    let number = |calls: u128| grouped(calls as f64);
    is_little.then(|| format!("{side} measured only {} of {} calls", number(measured), number(all)))
}

/// Notes about a side's calls that its values leave out.
fn coverage(side: &str, values: &[(&Mark, Option<&Values>)], measured_runs: usize) -> Vec<String> {
    let sum = |of: fn(&Values) -> u64| {
        values.iter().filter_map(|(_, values)| *values).map(|values| u128::from(of(values))).sum::<u128>()
    };
    let (measured, scaled, unmeasured) = (sum(|v| v.measured), sum(|v| v.scaled), sum(|v| v.unmeasured));
    let mut notes = Vec::new();
    if measured_runs < values.len() {
        notes.push(format!(
            "{side}: not measured in {} of {}",
            values.len() - measured_runs,
            counted(values.len() as u64, "run")
        ));
    }
    if unmeasured > 0 {
        notes.push(format!("{side}: {} of the calls were not counted", share(unmeasured, measured + unmeasured)));
    }
    if scaled > 0 {
        notes.push(format!("{side}: {} of the calls were counted in part, and scaled", share(scaled, measured)));
    }
    notes
}

const ALL_CALLS: &str = "all calls";

/// Which calls of the mark are measured by its settings.
fn calls_to_measure(mark: &Mark) -> String {
    match (mark.budget_percent, mark.every) {
        (Some(percent), _) => format!("calls within a budget of {percent} %"),
        (None, 0 | 1) if mark.skipped == 0 => ALL_CALLS.into(),
        // Another part of the run had an `every`.
        (None, 0 | 1) => "calls that a filter did not skip".into(),
        (None, every) => format!("one call in {every} (`every`)"),
    }
}

/// Which names each side has marks of that were not compared, and why.
fn about_names(split: Names<'_>, ambiguous: &Names<'_>) -> Vec<String> {
    let (types, marks): (Names<'_>, Names<'_>) = split.into_iter().partition(|name| ambiguous.contains(name));
    let note = |names: Names<'_>, why: &str| {
        let paths: BTreeSet<String> = names.into_iter().map(|(path, _)| sanitize(path)).collect();
        let paths = paths.into_iter().collect::<Vec<_>>().join(", ");
        (!paths.is_empty()).then(|| format!("not compared: {paths}: {why}"))
    };
    let types = note(types, "types of one name cannot be identified in another build");
    types.into_iter().chain(note(marks, "base and head have different numbers of marks of this name")).collect()
}

/// The notes of the reports, and a note about programs that differ.
fn notes(sides: &[Side; 2]) -> Vec<String> {
    let mut notes = Vec::new();
    let programs = |side: usize| -> BTreeSet<String> {
        sides[side].runs.iter().map(|run| sanitize(&run.program)).filter(|name| !name.is_empty()).collect()
    };
    let [base, head] = [0, 1].map(programs);
    if base != head && !base.is_empty() && !head.is_empty() {
        let list = |names: BTreeSet<String>| names.into_iter().collect::<Vec<_>>().join(", ");
        notes.push(format!("base is of program {}, head of {}", list(base), list(head)));
    }
    let mut of_reports: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for side in sides {
        for note in side.runs.iter().flat_map(|run| &run.notes) {
            of_reports.entry(sanitize(note)).or_default().insert(side.name);
        }
    }
    notes.extend(
        of_reports
            .into_iter()
            .map(|(note, of)| format!("{}: {note}", of.into_iter().collect::<Vec<_>>().join(" and "))),
    );
    notes
}
