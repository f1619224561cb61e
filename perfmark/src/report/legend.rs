//! The text above and below the table: the run, how to read the values, and what they leave out.

use std::cmp::Reverse;
use std::fmt::Write;

use super::column::{ALLOCATIONS, BYTES, INSN, IPC, OFF_CPU, SPREAD};
use super::grouping::group;
use super::quantity::{ESTIMATE, IMPOSSIBLE, NEAR, integer, rounded_count};
use super::share::{Group, Shares, has_cost, is_called};
use super::text::{shorten, width};
use super::view::Sort;
use super::{coverage, ratio, sampling};
use crate::compact::{Map, sort_by, sort_by_key};
use crate::platform::token::known;
use crate::settings::Filter;
use crate::snapshot::{Event, Mark, Read, Snapshot, Unit, Values, names};
use crate::text::{counted, exact, sanitize};

/// The marks of a snapshot, and the sentences about them. Nothing in these is wrapped, and control characters in names
/// are still there.
pub(super) struct Legend<'a> {
    pub(super) snapshot: &'a Snapshot,
    pub(super) shares: Shares<'a>,
    /// The called marks, in the order of their rows.
    pub(super) groups: Vec<Group<'a>>,
    /// The names of the marks.
    pub(super) labels: Vec<String>,
    /// The width of a line, which limits names.
    columns: usize,
}

/// One line about the run.
pub(super) fn head(snapshot: &Snapshot, columns: usize) -> String {
    let ran = integer(snapshot.wall_ns, Unit::Ns);
    let cpu = snapshot.cpu_ns.map_or_else(String::new, |cpu| format!(", {} CPU", integer(cpu, Unit::Ns)));
    let threads = rounded_count(snapshot.threads, "thread");
    let at_once = match snapshot.threads_at_once {
        Some(most) if most < snapshot.threads => format!(", {} at once", integer(most, Unit::Count)),
        _ => String::new(),
    };
    let pid = known(snapshot.pid).map_or_else(|| "unknown".into(), |pid| pid.to_string());
    let lead = "perfmark · ";
    let program = sanitize(&snapshot.program);
    let run = format!(" · ran {ran}{cpu} · {threads}{at_once}");
    // The process's number gives way to the program's name.
    let with_pid = format!(" · pid {pid}{run}");
    let run = if width(lead) + width(&program) + width(&with_pid) <= columns { with_pid } else { run };
    let room = columns.saturating_sub(width(lead) + width(&run));
    format!("{lead}{}{run}", shorten(&program, room))
}

/// Why no mark has a row.
pub(super) fn no_rows(snapshot: &Snapshot) -> &'static str {
    let marks = &snapshot.marks;
    match () {
        () if marks.is_empty() => "the program has no marks",
        () if marks.iter().all(|mark| !mark.on) => "the filter turns all marks off",
        () if marks.iter().any(|mark| !mark.on) => "no mark that is on was called",
        () => "no mark was called",
    }
}

impl<'a> Legend<'a> {
    pub(super) fn new(snapshot: &'a Snapshot, sort: Sort, columns: usize) -> Self {
        let shares = Shares::new(snapshot);
        Self { snapshot, groups: shares.groups(sort), shares, labels: snapshot.names(), columns }
    }

    /// Above the table: what makes the values doubtful, and what measuring them took.
    pub(super) fn above(&self) -> Vec<String> {
        let of_rows = [self.impossible(), self.cost(), self.budget()].into_iter().filter(|_| !self.groups.is_empty());
        [self.busy()].into_iter().chain(of_rows).flatten().collect()
    }

    /// Below the table: how to read its columns, of which it may have only some, and its flags.
    pub(super) fn values(
        &self,
        sort: Sort,
        has_column: impl Fn(&'static str) -> bool,
        has_clock: bool,
        has_flag: impl Fn(char) -> bool,
    ) -> Vec<String> {
        let share = || format!("{} Sorted by {}.{}", self.share(false), sort.name(), self.mode());
        let columns = [
            (OFF_CPU, "off-CPU: share of the time in which the thread was not on a CPU."),
            (ALLOCATIONS, "allocs: allocations per call."),
            (BYTES, "bytes: allocated bytes per call."),
            (INSN, "insn: instructions per call."),
            (IPC, "IPC: instructions per cycle."),
        ];
        let columns = columns.into_iter().filter(|(head, _)| has_column(head)).map(|(_, text)| text);
        let sentences = [
            self.shares.leading().map(|_| share()),
            sampling::legend(self.snapshot),
            Some(columns.collect::<Vec<_>>().join(" ")),
            has_column(SPREAD).then(|| format!("{SPREAD}: number of calls at each cost, on a logarithmic scale.")),
            has_clock.then(|| "GHz: user-mode cycles per nanosecond.".to_owned()),
            self.estimates(has_flag(ESTIMATE)),
            self.probes(has_flag(NEAR)),
        ];
        sentences.into_iter().flatten().filter(|sentence| !sentence.is_empty()).collect()
    }

    /// Below everything: the events, the other marks, and the notes.
    pub(super) fn rest(&self, details: Option<&Filter>) -> Vec<String> {
        let mut sentences = self.events(details.is_some());
        sentences.extend(self.never_called());
        let nodes = self.snapshot.call_graph.len() as u64;
        let graph =
            || format!("call graph: {}, shown by the formats html, json, folded and svg", rounded_count(nodes, "node"));
        sentences.extend((nodes > 0).then(graph));
        sentences.extend(self.not_in_graph());
        sentences.extend(self.notes(details));
        sentences
    }

    /// Whether other work took the CPU from the program, so that its times may be too long.
    pub(super) fn busy(&self) -> Option<String> {
        let snapshot = self.snapshot;
        let preempted = ratio::share_of_time(&snapshot.marks, ratio::preempted_of_time);
        let off_cpu = ratio::share_of_time(&snapshot.marks, ratio::off_cpu_of_time);
        let why = match preempted {
            Some(share) => (share > SLOWED)
                .then(|| format!("marked calls waited for a CPU for {:.1} % of their time", share * 100.0)),
            None => shared_cpu(snapshot, off_cpu),
        }?;
        let has = |name: &str| snapshot.events.iter().any(|event| event.name == name);
        // Of the event by which the marks are ordered.
        let is_of_time = self.shares.leading().map_or_else(|| has("time"), |event| event == "time");
        let remedy = match (preempted.or(off_cpu).is_some(), has("on_cpu") || has("task-clock")) {
            _ if !is_of_time => "",
            (true, true) => "",
            (true, false) => ". `time` includes the waits; the event on_cpu leaves them out",
            (false, true) => ". `time` includes the waits; the event off_cpu shows them",
            (false, false) => ". `time` includes the waits; the event off_cpu shows them, and on_cpu leaves them out",
        };
        Some(format!("this machine was busy: {why}{remedy}"))
    }

    /// The marks with values that cannot be true, those with the largest self first, and what to do.
    pub(super) fn impossible(&self) -> Option<String> {
        let of = |mark| self.impossible_of(mark).map(|values| self.shares.size(values)).max_by(f64::total_cmp);
        let mut marks: Vec<(f64, &str)> = self.marks().filter_map(|(mark, label)| Some((of(mark)?, label))).collect();
        sort_by(&mut marks, |one, other| other.0.total_cmp(&one.0));
        let what = format!("{IMPOSSIBLE}: do not use these values");
        let names = self.names(&what, marks.into_iter().map(|(_, label)| label))?;
        if !self.has_impossible_estimates() {
            return Some(format!(
                "{names}. They are below zero, or shares of a sum with such values: too much probe overhead was \
                 subtracted from short calls. Run the program again on an idle machine, or with fewer marks"
            ));
        }
        let mut marks: Vec<(&Mark, &str)> = self.marks().filter(|(mark, _)| mark.on && mark.calls > 0).collect();
        sort_by_key(&mut marks, |&(mark, _)| Reverse(mark.calls));
        // The sentence about the cost has a filter.
        let filter = if marks.len() > MOST_NAMES && self.cost().is_none() {
            format!(": {} turns off those with the most calls", self.turn_off(&marks[..MOST_NAMES]))
        } else {
            String::new()
        };
        Some(format!(
            "{names}. They are below zero, longer than the run, have a standard error of more than half, or are shares \
             of a sum with such values. Few calls were measured, and their costs differ; calls were scaled; or too \
             much probe overhead was subtracted from short calls. Measure all calls, of fewer marks and events{filter}"
        ))
    }

    /// The mark's values that cannot be true.
    fn impossible_of<'m>(&self, mark: &'m Mark) -> impl Iterator<Item = &'m Values> {
        mark.values.iter().filter(|values| has_cost(values) && self.shares.is_impossible(values))
    }

    fn has_impossible_estimates(&self) -> bool {
        let mut values = self.snapshot.marks.iter().flat_map(|mark| self.impossible_of(mark));
        values.any(|values| self.shares.is_self_estimate(values))
    }

    /// What measuring took, if that is a large part of the program's time, and what to do.
    pub(super) fn cost(&self) -> Option<String> {
        /// In percent of the CPU time.
        const LARGE: u128 = 5;
        const MOST_OFF: usize = 16;
        let of_skipped = |mark: &Mark| {
            let time = mark.values.iter().find(|values| matches!(&*values.event, "time" | "on_cpu"));
            let of_measured = time.map_or(0, |time| u128::from(time.measured) * u128::from(time.overhead.total));
            let all = u128::from(mark.overhead_ns.unwrap_or(0));
            if mark.skipped > 0 { all.saturating_sub(of_measured) } else { 0 }
        };
        let snapshot = self.snapshot;
        let overhead = snapshot.overhead_ns?;
        let (all, what) = snapshot.cpu_ns.map_or((snapshot.wall_ns, "run time"), |cpu| (cpu, "CPU time"));
        if u128::from(overhead) * 100 < u128::from(all) * LARGE {
            return None;
        }
        let mut marks: Vec<(&Mark, &str)> = self.marks().collect();
        let of = |mark: &Mark| mark.overhead_ns.unwrap_or(0);
        let of_calls = marks.iter().map(|(mark, _)| of(mark)).fold(0, u64::saturating_add).min(overhead);
        let of_setups = overhead - of_calls;
        if of_setups > of_calls {
            let (of_setups, all) = (integer(of_setups, Unit::Ns), integer(all, Unit::Ns));
            return Some(format!(
                "perfmark's work at first calls and ends of threads took about {of_setups}, with its waits; the {what} \
                 was {all}. Fewer threads limit this, and so do fewer marks"
            ));
        }
        sort_by_key(&mut marks, |&(mark, _)| Reverse(of(mark)));
        // The fewest that took half of what calls took.
        let mut sum = 0_u64;
        let half = marks.iter().copied().take(MOST_OFF).take_while(|(mark, _)| {
            let is_more = sum < of_calls / 2 && of(mark) > 0;
            sum = sum.saturating_add(of(mark));
            is_more
        });
        let half: Vec<(&Mark, &str)> = half.collect();
        if half.is_empty() {
            return None;
        }
        let part = |marks: &[(&Mark, &str)]| {
            real_percent(marks.iter().map(|(mark, _)| of(mark) as f64).sum::<f64>() / overhead as f64)
        };
        let first = &half[..half.len().min(MOST_NAMES)];
        let names = first.iter().map(|(_, label)| self.code(label)).collect::<Vec<_>>().join(", ");
        let others = marks.iter().filter(|(mark, _)| of(mark) > 0).count() - first.len();
        let mut rest = Vec::from_iter((others > 0).then(|| counted(others as u64, "other mark")));
        // From one percent on.
        rest.extend((of_setups > overhead / 100).then(|| "first calls and ends of threads".to_owned()));
        let who = if rest.is_empty() {
            format!("for calls of {names}")
        } else {
            format!("{} of it for calls of {names}, and the rest for {}", part(first), rest.join(" and "))
        };
        let which = if first.len() == half.len() {
            "turns them off".to_owned()
        } else {
            format!("turns off {} marks that took {} of it", half.len(), part(&half))
        };
        let is_too_high = snapshot.cpu_ns.is_some_and(|cpu| 0 < cpu && cpu <= of_calls);
        let (overhead, all) = (integer(overhead, Unit::Ns), integer(all, Unit::Ns));
        if is_too_high {
            return Some(format!(
                "the calibrated probe overhead is too high for this run, probably because the machine was busy or its \
                 clock rate changed: {overhead} of the {all} {what}. Run the program again on an idle machine"
            ));
        }
        let of_half = half.iter().map(|(mark, _)| u128::from(of(mark))).sum::<u128>();
        // A budget does not change the `every` of a mark or a filter.
        let every = half.iter().map(|(mark, _)| mark.every).max().unwrap_or(1);
        let has_budget = snapshot.marks.iter().any(|mark| mark.budget_percent.is_some());
        let more = format!("`every = {}` on these marks", every.saturating_mul(64));
        let fewer = if snapshot.events.iter().any(|event| event.read == Read::Emulated) {
            "An emulator counts all calls".to_owned()
        } else if half.iter().any(|(mark, _)| mark.polls > 0) {
            "All calls of async functions are measured".to_owned()
        } else if half.iter().map(|(mark, _)| of_skipped(mark)).sum::<u128>() > of_half / 2 {
            "Most of this is for calls that were skipped".to_owned()
        } else if self.has_impossible_estimates() {
            "Fewer measured calls would be less exact".to_owned()
        } else if has_budget || every > 1 {
            format!("{more} limits this")
        } else {
            format!("PERFMARK_BUDGET=2% limits this, and so does {more}")
        };
        let off = self.turn_off(&half);
        Some(format!("measuring took about {overhead} of the {all} {what}, {who}. {fewer}; {off} {which}"))
    }

    /// A filter to copy that turns these marks off. Lines may break between its directives only.
    fn turn_off(&self, marks: &[(&Mark, &str)]) -> String {
        let directive = |(mark, label): &(&Mark, &str)| {
            let mut filter = Filter::default().off(label);
            // The name of one of several marks with the same path has its location, which no pattern matches.
            if filter.has_mark(mark) {
                filter = Filter::default().off(&format!("::{}", mark.target()));
            }
            filter.to_string().replace(' ', r"\u{20}").replace('\'', r"\u{27}")
        };
        let filter = marks.iter().map(directive).collect::<Vec<_>>().join(", ");
        // Otherwise, a filter may be in force.
        if self.snapshot.marks.iter().all(|mark| mark.on && mark.every == 1) {
            format!("PERFMARK_FILTER='{filter}'")
        } else {
            format!("`{filter}`, added to PERFMARK_FILTER,")
        }
    }

    /// The marks whose calls were measured in part to stay within a budget.
    pub(super) fn budget(&self) -> Option<String> {
        let budgeted = || self.marks().filter(|(mark, _)| mark.budget_percent.is_some() && mark.calls > 0);
        let percent = budgeted().filter_map(|(mark, _)| mark.budget_percent).reduce(f64::max)?;
        let one_in =
            |mark: &Mark| mark.calls.checked_div(mark.calls.saturating_sub(mark.skipped)).unwrap_or(mark.calls);
        let thinned = budgeted().filter(|(mark, _)| mark.skipped > 0);
        let mut thinned: Vec<(u64, &str)> = thinned.map(|(mark, label)| (one_in(mark), label)).collect();
        sort_by_key(&mut thinned, |&(one_in, _)| Reverse(one_in));
        let names = thinned.iter().take(MOST_NAMES);
        let names =
            names.map(|(one_in, label)| format!("{} one call in {}", self.code(label), integer(*one_in, Unit::Count)));
        let names = names.collect::<Vec<_>>().join(", ");
        let more = if thinned.len() > MOST_NAMES { ", …" } else { "" };
        let all = budgeted().count();
        let what = match thinned.len() {
            0 => "all calls were measured".to_owned(),
            some => format!("measured {some} of {} in part: {names}{more}", counted(all as u64, "mark")),
        };
        Some(format!("budget of {percent} % of the CPU time: {what}"))
    }

    /// The marks of which `every` or earlier settings skipped calls; those of a budget are in its sentence.
    pub(super) fn skipped(&self) -> Option<String> {
        let others = self.marks().filter(|(mark, _)| mark.skipped > 0 && mark.budget_percent.is_none());
        let of = |(mark, label): (&Mark, &str)| {
            format!("{label} ({} of {}, {})", exact(mark.skipped), exact(mark.calls), coverage::why_skipped(mark))
        };
        self.names("skipped calls", others.map(of))
    }

    /// What self and total are relative to. It names no sum of one event if the report shows shares of `any_event`.
    pub(super) fn share(&self, any_event: bool) -> String {
        let Self { snapshot, shares, .. } = self;
        let events = snapshot.events.iter().map(|event| event.name.as_str());
        let nested: Vec<&str> = events.filter(|event| shares.denominator(event).is_of_totals).collect();
        let nested = match nested.as_slice() {
            [] => String::new(),
            nested => {
                format!(
                    "; for {}, of the sum of all totals, which counts nested marks more than once",
                    nested.join(", ")
                )
            }
        };
        // If all marks are in one table, what its shares are relative to is one number.
        let whole = match shares.groups(Sort::default()).as_slice() {
            [Group { event: Some(event), .. }] if !(any_event && shares.are_of_several()) => {
                Some((shares.denominator(event), shares.unit(event)))
            }
            _ => None,
        };
        let whole = match whole {
            Some((whole, unit)) if whole.sum > 0 && nested.is_empty() => {
                let sum = integer(u64::try_from(whole.sum).unwrap_or(u64::MAX), unit);
                let sum = sum.flagged(IMPOSSIBLE, whole.is_impossible).flagged(ESTIMATE, whole.is_estimate);
                format!("the {sum} measured in all marks")
            }
            _ => "everything measured in marks".to_owned(),
        };
        let values = "Other values include marked callees.";
        format!("self: share of {whole}, without marked callees; total: with them{nested}. {values}")
    }

    /// The marks with calls that should have been measured, and were not.
    pub(super) fn unmeasured(&self) -> Option<String> {
        let of = |(index, event): (usize, Option<&str>)| {
            let mark = &self.snapshot.marks[index];
            let shown = self.shares.shown(mark);
            let of_row = shown.iter().find(|values| values.measured > 0 && Some(values.event.as_str()) == event);
            let lacks = of_row.or(shown.first()).map_or(mark.calls, |values| values.unmeasured);
            let lacks = lacks.saturating_sub(mark.interrupted);
            (lacks > 0).then(|| format!("{} ({} of {})", self.labels[index], exact(lacks), exact(mark.calls)))
        };
        self.names("unmeasured calls", self.rows().filter_map(of))
    }

    /// The marks whose row leaves out calls with other events.
    pub(super) fn with_other_events(&self) -> Option<String> {
        let of = |(index, event): (usize, Option<&str>)| {
            let mark = &self.snapshot.marks[index];
            let values = mark.values.iter().find(|values| values.measured > 0 && Some(&*values.event) == event)?;
            let without = mark.calls_without(values);
            (without > 0).then(|| format!("{} ({} of {})", self.labels[index], exact(without), exact(mark.calls)))
        };
        self.names("calls while a mark recorded other events, in no column but calls", self.rows().filter_map(of))
    }

    /// The marks with calls that did not return, and whether their cost is in the columns. That of calls in flight is
    /// known on the thread that took the snapshot.
    pub(super) fn unfinished(&self) -> impl Iterator<Item = String> {
        let (mut in_columns, mut others) = (Vec::new(), Vec::new());
        for (index, event) in self.rows() {
            let (mark, label) = (&self.snapshot.marks[index], &self.labels[index]);
            let of_row = mark.values.iter().find(|values| Some(&*values.event) == event);
            let is_known = of_row.is_some_and(|values| (values.in_flight_total, values.in_flight_self) != (0, 0));
            let (known, unknown) = if is_known { (mark.in_flight, 0) } else { (0, mark.in_flight) };
            // The cost of one call may be known, and not that of another thread's.
            let running = if known > 1 { "running, but only those of reporting threads" } else { "running" };
            let kinds = [(known, running), (mark.unwound, "ended by a panic"), (mark.cancelled, "cancelled")];
            let kinds = kinds.into_iter().filter(|(calls, _)| *calls > 0);
            let kinds: Vec<String> = kinds.map(|(calls, what)| format!("{} {what}", exact(calls))).collect();
            if !kinds.is_empty() {
                in_columns.push(format!("{label} ({})", kinds.join(", ")));
            }
            if unknown > 0 {
                others.push(format!("{label} ({})", exact(unknown)));
            }
        }
        let in_columns = self.names("calls in self and total only", in_columns);
        let others = self.names("calls still running, in no column", others);
        in_columns.into_iter().chain(others)
    }

    /// How to see what the table does not show.
    pub(super) fn details(&self) -> Option<String> {
        let mut called = self.snapshot.marks.iter().filter(|mark| is_called(mark));
        let has_more = |mark: &Mark| {
            let shown = self.shares.shown(mark);
            shown.len() > 1 || coverage::sentence(mark, &shown).is_some()
        };
        let options = "PERFMARK_DETAILS=on, or --details of perfmark run and report";
        let has_more = called.any(has_more);
        has_more.then(|| format!("each event of a mark, and what its values leave out: {options}"))
    }

    /// The processor mode in which events were counted.
    pub(super) fn mode(&self) -> &'static str {
        let events = &self.snapshot.events;
        let mut counts = events.iter().filter(|event| event.unit == Unit::Count && event.read != Read::None);
        match (counts.clone().next().is_some(), counts.all(|event| is_of_user_mode(&event.name))) {
            (false, _) => "",
            (true, true) => " Counts are of user mode only.",
            (true, false) => {
                " Counts are of user mode, except for events that occur in the kernel or have the modifier `k`."
            }
        }
    }

    /// What the character before an estimate means, if there is one, and the largest errors.
    pub(super) fn estimates(&self, has_estimates: bool) -> Option<String> {
        if !has_estimates {
            return None;
        }
        let of = |mark: &Mark| mark.values.iter().filter_map(Values::relative_error).max_by(f64::total_cmp);
        let mut errors: Vec<(f64, &str)> = self.marks().filter_map(|(mark, label)| Some((of(mark)?, label))).collect();
        sort_by(&mut errors, |one, other| other.0.total_cmp(&one.0));
        let shown = errors.iter().take(MOST_NAMES);
        let shown: Vec<String> =
            shown.map(|(error, label)| format!("{} {}", self.code(label), real_percent(*error))).collect();
        let largest = match shown.join(", ") {
            none if none.is_empty() => none,
            shown => format!(
                " Standard error of total: {shown}{}.",
                if errors.len() > MOST_NAMES { ", others less" } else { "" }
            ),
        };
        // The processor's caches no longer hold what measuring needs, and the correction of that has an error, too.
        let is_time =
            |name: &str| self.snapshot.events.iter().any(|event| event.name == name && event.unit == Unit::Ns);
        let is_rare = |values: &Values| values.measured > 0 && values.weight / values.measured >= 64;
        let mut values = self.snapshot.marks.iter().flat_map(|mark| &mark.values);
        let times = if values.any(|values| is_rare(values) && is_time(&values.event)) {
            " Times of marks of which few calls are measured may be a third of the true ones, or twice as long; \
             those of calls shorter than the probe overhead may be several times as long."
        } else {
            ""
        };
        let mut values = self.snapshot.marks.iter().flat_map(|mark| &mark.values);
        let scaled = if values.any(|values| values.scaled > 0) { " Calls counted in part are scaled." } else { "" };
        Some(format!("{ESTIMATE}: estimated from the measured calls.{scaled}{largest}{times}"))
    }

    /// The probe overhead, as far as it is known.
    pub(super) fn probes(&self, has_noise: bool) -> Option<String> {
        let snapshot = self.snapshot;
        let mut most: Map<&str, (u64, u64)> = Map::new();
        for values in snapshot.marks.iter().flat_map(|mark| &mark.values) {
            let (in_call, total) = most.get_or_default(&*values.event);
            (*in_call, *total) = ((*in_call).max(values.overhead.in_call), (*total).max(values.overhead.total));
        }
        let cost = |event: &Event| {
            let &(in_call, total) = most.get(&*event.name)?;
            (in_call > 0 || total > 0)
                .then(|| (sanitize(&event.name), integer(in_call, event.unit), integer(total, event.unit)))
        };
        let mut costs = snapshot.events.iter().filter_map(cost);
        let (event, in_call, total) = costs.next()?;
        let mut text = format!("probe overhead of a call, already subtracted: {event} {total}, of which {in_call} are");
        text.push_str(" within the call and the rest in its caller");
        for (event, in_call, total) in costs {
            _ = write!(text, "; {event} {total}, {in_call} within");
        }
        text.push('.');
        if has_noise {
            _ = write!(text, " {NEAR}: no larger than the variation of this overhead.");
        }
        Some(text)
    }

    /// What was not available, and why; what needs system calls; and, with `all`, how other events were read. Events
    /// with the same answer share a line.
    pub(super) fn events(&self, all: bool) -> Vec<String> {
        let snapshot = self.snapshot;
        let mut sentences = Vec::new();
        for (read, how) in [
            (Read::User, "read in user space"),
            (Read::Syscall, "read by a system call at entry and exit, which is slow"),
            (Read::Ticks, "read from the processor's tick counter"),
            (Read::Emulated, "emulated"),
            (Read::None, "not available"),
        ] {
            let is_fast = matches!(read, Read::User | Read::Ticks);
            let events = snapshot.events.iter().filter(|event| event.read == read);
            for (reason, names) in group(events.map(|event| (event.reason.as_deref(), event.name.as_str()))) {
                if is_fast && reason.is_none() && !all {
                    continue;
                }
                let why = reason.map_or(String::new(), |reason| format!(" — {reason}"));
                let remark = match read {
                    Read::None if names.contains(&"instructions") && why.contains("perf_event_open") => {
                        "; `perfmark run --emulate` counts instructions"
                    }
                    _ => "",
                };
                sentences.push(format!("{how}: {}{why}{remark}", names.join(", ")));
            }
        }
        sentences
    }

    /// The names of the marks never called, and of those that the filter turns off.
    pub(super) fn never_called(&self) -> impl Iterator<Item = String> {
        [("never called", true), ("off", false)].into_iter().filter_map(|(what, on)| {
            let marks = self.marks().filter(|(mark, _)| !is_called(mark) && mark.on == on);
            self.names(what, marks.map(|(_, label)| label))
        })
    }

    /// The calls that the call graph does not have.
    pub(super) fn not_in_graph(&self) -> Option<String> {
        let lacks = self.snapshot.call_graph_lacks;
        (lacks > 0).then(|| format!("not in the call graph: {}", rounded_count(lacks, "call")))
    }

    /// The snapshot's notes, what its samples lack, and which patterns of details match no mark.
    pub(super) fn notes(&self, details: Option<&Filter>) -> Vec<String> {
        let snapshot = self.snapshot;
        let paths: Vec<String> = details.map_or_else(Vec::new, |_| snapshot.marks.iter().map(Mark::target).collect());
        let unmatched = details.into_iter().flat_map(|details| details.unmatched(&paths));
        let unmatched = unmatched.map(|pattern| {
            let near = names::nearest(pattern, &snapshot.names());
            let near = near.map_or_else(String::new, |name| format!("; did you mean `{name}`?"));
            format!("no details of `{pattern}`, which matches no mark{near}")
        });
        let notes = snapshot.notes.iter().cloned().chain(sampling::lacks(snapshot)).chain(unmatched);
        notes.map(|note| format!("note: {note}")).collect()
    }

    /// The marks with their names.
    fn marks(&self) -> impl Iterator<Item = (&Mark, &str)> {
        self.snapshot.marks.iter().zip(self.labels.iter().map(String::as_str))
    }

    /// The marks that may have a row, with the event of their table.
    fn rows(&self) -> impl Iterator<Item = (usize, Option<&str>)> {
        self.groups.iter().flat_map(|group| group.marks.iter().map(|&index| (index, group.event)))
    }

    /// A mark's name among several in a sentence.
    fn name(&self, label: &str) -> String {
        shorten(label, self.columns.min(WIDEST) / 2)
    }

    fn code(&self, label: &str) -> String {
        format!("`{}`", self.name(label))
    }

    /// Names of marks; if there are very many, only the first. `None` if there are none.
    fn names(&self, what: &str, marks: impl IntoIterator<Item: AsRef<str>>) -> Option<String> {
        let (mut names, mut more) = (Vec::new(), 0);
        let mut room = Some(LINES_OF_NAMES * self.columns.min(WIDEST));
        for label in marks {
            let name = self.name(label.as_ref());
            room = room.and_then(|room| room.checked_sub(width(&name) + width(", ")));
            match room {
                Some(_) => names.push(name),
                None => more += 1,
            }
        }
        if more > 0 {
            names.push(format!("and {} more", exact(more)));
        }
        (!names.is_empty()).then(|| format!("{what}: {}", names.join(", ")))
    }
}

/// The most marks that a sentence names with a number.
const MOST_NAMES: usize = 3;
/// Lines that other names fill at most, approximately. Where lines are not broken, a line has this many columns.
const LINES_OF_NAMES: usize = 2;
const WIDEST: usize = 200;

/// The part of the time without a CPU from which on a program was slowed.
const SLOWED: f64 = 0.1;

/// How often the kernel took the CPU from the program, if that explains much of the time that it had none: `off_cpu` of
/// the time of marked calls, or all of it if that was not measured.
fn shared_cpu(snapshot: &Snapshot, off_cpu: Option<f64>) -> Option<String> {
    /// A program that shares its CPU is switched off after less CPU time than this, the scheduler's slice of some
    /// milliseconds, and not for longer than this at once.
    const SLICE_NS: f64 = 20e6;
    /// A short program may be interrupted a few times.
    const FEW: u64 = 5;
    let (cpu, switches) = (snapshot.cpu_ns?, snapshot.involuntary_switches?);
    let wall = snapshot.wall_ns as f64;
    // Threads that wait switch voluntarily. If there are more threads than CPUs, they displace each other.
    let waited = off_cpu.unwrap_or(1.0 - cpu as f64 / wall);
    let slices = switches as f64 * SLICE_NS;
    // The rest of the time it may have waited for something else.
    let explains_a_part = slices * 2.0 > waited * wall;
    if waited <= SLOWED || switches < FEW || slices <= cpu as f64 || !explains_a_part {
        return None;
    }
    let what = if let Some(share) = off_cpu {
        format!("marked calls were off the CPU for {:.1} % of their time", share * 100.0)
    } else {
        format!("{} CPU in {}", integer(cpu, Unit::Ns), integer(snapshot.wall_ns, Unit::Ns))
    };
    Some(format!("{what}, and {} involuntary context switches", exact(switches)))
}

/// Whether the event's name has no modifier for the kernel's or the hypervisor's part, and is not an event that the
/// kernel itself reports, such as a tracepoint. A breakpoint's name may end with its access, as in `mem:0x1000:rw`.
fn is_of_user_mode(name: &str) -> bool {
    let of_user: &[u8] = if name.starts_with("mem:") { b"rwxuGHIpPSDWe" } else { b"uGHIpPSDWe" };
    name.rsplit_once([':', '/']).is_none_or(|(_, modifiers)| modifiers.bytes().all(|c| of_user.contains(&c)))
}

/// As `0.4 %` or `12 %`.
fn real_percent(part: f64) -> String {
    let percent = part * 100.0;
    if percent < 10.0 { format!("{percent:.1} %") } else { format!("{percent:.0} %") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::sample::{self, event, mark, snapshot};
    use crate::report::text::wrap;
    use crate::snapshot::Bucket;

    /// The sentences as a table has them.
    fn lines<'a, I>(snapshot: &'a Snapshot, columns: usize, sentences: impl FnOnce(&Legend<'a>) -> I) -> String
    where
        I: IntoIterator<Item = String>,
    {
        let mut out = String::new();
        for sentence in sentences(&Legend::new(snapshot, Sort::default(), columns)) {
            wrap(&mut out, &sentence, 0, columns);
        }
        out
    }

    /// What is said about the cost of measuring, in one line.
    fn cost(events: &[Event], marks: &[Mark], cpu_ns: u64, overhead_ns: u64) -> String {
        let all = Snapshot { cpu_ns: Some(cpu_ns), overhead_ns: Some(overhead_ns), ..snapshot(events, marks) };
        lines(&all, usize::MAX, Legend::cost)
    }

    #[test]
    fn events_with_the_same_answer_share_a_line() {
        let mut events = [
            event("cycles", Unit::Count, Read::None),
            event("instructions", Unit::Count, Read::None),
            event("cache-misses", Unit::Count, Read::None),
            event("time", Unit::Ns, Read::Ticks),
        ];
        for (event, reason) in events.iter_mut().zip(["no PMU", "no PMU", "no such event"]) {
            event.reason = Some(reason.to_owned());
        }
        let text = lines(&snapshot(&events, &[]), 80, |legend| legend.events(false));
        let expected = "not available: cycles, instructions — no PMU\n\
                        not available: cache-misses — no such event\n";
        assert_eq!(text, expected);
        let text = lines(&snapshot(&events, &[]), 80, |legend| legend.events(true));
        assert_eq!(text, format!("read from the processor's tick counter: time\n{expected}"));
    }

    #[test]
    fn marks_never_called_are_named_and_of_very_many_the_rest_is_counted() {
        let text =
            |marks: &[Mark]| lines(&snapshot(&[], marks), 80, |legend| legend.never_called().collect::<Vec<_>>());
        let never =
            |count: usize| text(&(0..count).map(|index| mark(&format!("never_{index}"), 0)).collect::<Vec<_>>());
        assert_eq!(never(0), "");
        let off = Mark { on: false, ..mark("left_out", 0) };
        assert_eq!(text(&[mark("never", 0), off]), "never called: never\noff: left_out\n");
        let text = text(&[mark(&"n".repeat(999), 0)]);
        assert!(text.starts_with("never called: nnn") && text.lines().count() == 1, "{text}");
        let many = never(10_000);
        assert!(many.lines().count() <= LINES_OF_NAMES + 1, "{many}");
        let named = many.matches("never_").count();
        assert!(named > 6 * LINES_OF_NAMES, "{many}");
        let rest = format!(", and {} more\n", exact((10_000 - named) as u64));
        assert!(many.replace("\n ", "").ends_with(&rest), "{many}");
    }

    #[test]
    fn breakpoints_are_counted_in_user_mode_as_other_events() {
        let is_of_user = |name| {
            let snapshot = snapshot(&[event(name, Unit::Count, Read::Syscall)], &[]);
            lines(&snapshot, 80, |legend| [legend.mode().to_owned()]).ends_with("mode only.\n")
        };
        let of_user = ["cycles", "cycles:u", "mem:0x1000:rw", "mem:0x1000/8:w", "mem:0x1000:x:u"];
        assert!(of_user.into_iter().all(is_of_user));
        assert!(!["cycles:k", "cpu/event=1/uk", "mem:0x1000:rw:k", "sched:switch"].into_iter().any(is_of_user));
    }

    #[test]
    fn only_times_of_few_measured_calls_are_said_to_be_less_exact() {
        let of = |name: &str, unit, weight| {
            let values = vec![Values { weight, ..sample::values(name, 10, 1_000) }];
            let one = Mark { values, ..mark("f", 640) };
            let snapshot = snapshot(&[event(name, unit, Read::User)], &[one]);
            lines(&snapshot, 200, |legend| legend.estimates(true)).contains("a third of the true ones")
        };
        assert!(of("time", Unit::Ns, 640) && of("on_cpu", Unit::Ns, 640));
        assert!(!of("time", Unit::Ns, 630) && !of("page-faults", Unit::Count, 640));
    }

    #[test]
    fn the_head_says_when_other_work_took_the_cpu() {
        let with = |events: &[&str], cpu_ns, switches| {
            let events: Vec<_> = events.iter().map(|name| event(name, Unit::Ns, Read::Syscall)).collect();
            let mut snapshot = snapshot(&events, &[]);
            (snapshot.cpu_ns, snapshot.involuntary_switches) = (Some(cpu_ns), Some(switches));
            snapshot.threads_at_once = Some(2);
            head(&snapshot, 80) + "\n" + &lines(&snapshot, 80, Legend::busy)
        };
        let head = |cpu_ns, switches| with(&["time"], cpu_ns, switches);
        let first = "perfmark · wordcount · pid 4242 · ran 2.31 s, 1.20 s CPU · 4 threads, 2 at once\n";
        assert_eq!(head(1_200_000_000, 50), first, "it waited");
        assert_eq!(head(1_200_000, 4).lines().count(), 1, "it is too short");
        assert_eq!(head(50_000_000, 5).lines().count(), 1, "it waited, and was interrupted a few times");
        assert!(head(602_000_000, 100).contains("\nthis machine was busy: 602 ms CPU in 2.31 s, and 100 involuntary"));
        assert_eq!(head(2_300_000_000, 5_000).lines().count(), 1, "it was not slowed");
        let busy = "this machine was busy: 1.20 s CPU in 2.31 s, and 5,000 involuntary context\n  \
                    switches. `time` includes the waits; the event off_cpu shows them, and on_cpu\n  \
                    leaves them out\n";
        assert_eq!(head(1_200_000_000, 5_000), format!("{first}{busy}"));
        let end = |events| with(events, 1_200_000_000, 5_000).replace("\n  ", " ");
        assert!(end(&["task-clock", "time"]).ends_with(" the event off_cpu shows them\n"));
        assert!(end(&["time"]).ends_with(" shows them, and on_cpu leaves them out\n"));
        assert!(end(&["on_cpu"]).ends_with(" involuntary context switches\n"), "its values are right");
    }

    #[test]
    fn where_waits_were_measured_they_say_whether_other_work_took_the_cpu() {
        let head = |waits: &[(&str, u64)], switches| {
            let mut one = mark("f", 10);
            one.values = waits.iter().map(|&(event, ns)| sample::values(event, 10, ns)).collect();
            one.values.push(sample::values("time", 10, 1_000_000_000));
            let mut snapshot = snapshot(&[event("task-clock", Unit::Ns, Read::Syscall)], &[one]);
            // Of two threads, which had both CPUs for much of the time.
            (snapshot.cpu_ns, snapshot.involuntary_switches) = (Some(2_500_000_000), Some(switches));
            lines(&snapshot, 200, Legend::busy).lines().next().map(str::to_owned)
        };
        let switched = "this machine was busy: marked calls were off the CPU for 30.0 % of their time, and 300 \
                        involuntary context switches";
        assert_eq!(head(&[("off_cpu", 300_000_000)], 300).as_deref(), Some(switched));
        assert_eq!(head(&[("off_cpu", 50_000_000)], 300), None, "it was hardly ever off the CPU");
        assert_eq!(head(&[("off_cpu", 900_000_000)], 10), None, "it waited");
        let waited = "this machine was busy: marked calls waited for a CPU for 30.0 % of their time";
        let preempted = |ns| head(&[("off_cpu", 900_000_000), ("preempted", ns)], 300);
        assert_eq!(preempted(300_000_000).as_deref(), Some(waited));
        assert_eq!(preempted(50_000_000), None, "it waited for something else");
    }

    #[test]
    fn marks_with_impossible_values_are_named_by_the_size_of_their_self_with_advice_that_has_an_effect() {
        let text = |extrapolated, overhead_ns| {
            let marks = [("small", -20, 9), ("fine", 100, 1), ("below", -90, 8), ("large", 70, 7)];
            let marks = marks.map(|(name, own, calls)| {
                let values = sample::values("time", calls, 50);
                let values = Values { self_sum: Some(own), total: own, extrapolated, ..values };
                Mark { values: vec![values], overhead_ns: Some(overhead_ns), ..mark(name, calls) }
            });
            let mut snapshot = snapshot(&[event("time", Unit::Ns, Read::Ticks)], &marks);
            (snapshot.cpu_ns, snapshot.overhead_ns) = (Some(1_000), Some(4 * overhead_ns));
            lines(&snapshot, usize::MAX, |legend| [legend.impossible(), legend.cost()].into_iter().flatten())
        };
        let exact = text(false, 1);
        assert!(exact.starts_with("?: do not use these values: fine, below, large, small. They are below"), "{exact}");
        let all_measured = ". Run the program again on an idle machine, or with fewer marks\n";
        assert!(exact.ends_with(all_measured), "{exact}");
        let filter = "PERFMARK_FILTER='small=off, below=off, large=off'";
        let few =
            format!(". Measure all calls, of fewer marks and events: {filter} turns off those with the most calls\n");
        assert!(text(true, 1).ends_with(&few), "{}", text(true, 1));
        let costly = text(true, 100);
        for part in ["fewer marks and events\n", ". Fewer measured calls would"] {
            assert!(costly.contains(part), "{costly}");
        }
        assert!(!costly.contains("too high for this run"), "{costly}");
        let too_high = "\nthe calibrated probe overhead is too high for this run, probably because the machine was \
                        busy or its clock rate changed: 1.00 µs of the 1.00 µs CPU time. Run the program again on an \
                        idle machine\n";
        assert!(text(false, 250).ends_with(too_high), "{}", text(false, 250));
    }

    #[test]
    fn the_cost_of_measuring_is_said_if_it_is_large() {
        // One call was interrupted, which does not change the advice.
        let buckets: Vec<Bucket> = vec![(5, 5, 99_999).into(), (500_000, 500_000, 1).into()];
        let sentence_of = |overhead: [u64; 4], polls| {
            let marks = ["peek", "discard", "parse", "main"].iter().zip(overhead);
            let marks = marks.map(|(name, own)| Mark {
                overhead_ns: Some(own),
                polls,
                values: vec![Values { buckets: buckets.clone(), ..sample::values("time", 100_000, 1_000_000) }],
                ..mark(name, 1)
            });
            cost(&[], &marks.collect::<Vec<_>>(), 520_000_000, overhead.iter().sum())
        };
        let sentence = |overhead| sentence_of(overhead, 0);
        let expected = "measuring took about 460 ms of the 520 ms CPU time, 89 % of it for calls of `discard`, \
                        `peek`, and the rest for 1 other mark. PERFMARK_BUDGET=2% limits this, and so does \
                        `every = 64` on these marks; PERFMARK_FILTER='discard=off, peek=off' turns them off\n";
        assert_eq!(sentence([200_000_000, 210_000_000, 50_000_000, 0]), expected);
        assert!(sentence([460_000_000, 0, 0, 0]).contains(" CPU time, for calls of `peek`. PERFMARK_BUDGET"));
        assert_eq!(sentence([5_000_000, 5_000_000, 0, 0]), "");
        let of_threads = "perfmark's work at first calls and ends of threads took about 1 ns, with its waits; the CPU \
                          time was 2 ns. Fewer threads limit this, and so do fewer marks\n";
        assert_eq!(cost(&[], &[mark("peek", 1)], 2, 1), of_threads);
        let with_threads = cost(&[], &[Mark { overhead_ns: Some(30), ..mark("peek", 1) }], 100, 40);
        let rest = ", 75 % of it for calls of `peek`, and the rest for first calls and ends of threads. ";
        assert!(with_threads.contains(rest), "{with_threads}");
        for overhead in [0, 1] {
            let free = Mark { overhead_ns: Some(overhead), ..mark("f", 1) };
            assert_eq!(cost(&[], &[free], 0, overhead), "", "it took no time");
        }
        let many: Vec<_> = (0..20).map(|n| Mark { overhead_ns: Some(5), ..mark(&format!("f{n}"), 1) }).collect();
        let text = cost(&[], &many, 200, 100);
        assert!(text.contains(", 15 % of it for calls of `f0`, `f1`, `f2`, and the rest for 17 other marks"), "{text}");
        assert!(text.ends_with("f8=off, f9=off' turns off 10 marks that took 50 % of it\n"), "{text}");
        let of_futures = sentence_of([460_000_000, 0, 0, 0], 7);
        let off = "All calls of async functions are measured; PERFMARK_FILTER='peek=off' turns them off\n";
        assert!(of_futures.ends_with(off), "{of_futures}");
    }

    #[test]
    fn advice_about_the_cost_of_measuring_has_an_effect() {
        let advice = |every, read| {
            let busy = Mark { overhead_ns: Some(50), every, ..mark("busy", 1) };
            let text = cost(&[event("instructions", Unit::Count, read)], &[busy], 100, 50);
            text.split_once("`busy`. ").expect("advice").1.to_owned()
        };
        // There may be a filter already, which has the `every`.
        let off = "`busy=off`, added to PERFMARK_FILTER, turns them off\n";
        let larger = format!("`every = 1024` on these marks limits this; {off}");
        assert_eq!(advice(16, Read::User), larger, "no budget is theirs");
        assert_eq!(advice(16, Read::Emulated), format!("An emulator counts all calls; {off}"));
        let skips = |of_measured| {
            let mut values = sample::values("time", 1, 9);
            values.overhead.total = of_measured;
            let busy = Mark { overhead_ns: Some(50), skipped: 9, every: 16, values: vec![values], ..mark("busy", 10) };
            cost(&[event("time", Unit::Ns, Read::Ticks)], &[busy], 100, 50)
        };
        let skipped = "`busy`. Most of this is for calls that were skipped; `busy=off`, ";
        for (of_measured, part) in [(20, skipped), (30, " on these marks limits this; ")] {
            assert!(skips(of_measured).contains(part), "{}", skips(of_measured));
        }
    }

    #[test]
    fn the_filter_of_advice_can_be_copied() {
        let named = [("f", "app::f"), ("f", "app::f"), ("it's a, b = c", "app::g"), ("h", "app::S<u8, &'a i8>::h")];
        let kept = [("kept", "app::kept"), ("h", "app::S<i8>::h")];
        let marks = named.iter().chain(&kept).map(|(name, path)| Mark { path: (*path).to_owned(), ..mark(name, 1) });
        let mut all = snapshot(&[], &marks.collect::<Vec<_>>());
        let advice = |all: &Snapshot| {
            lines(all, 60, |legend| [legend.turn_off(&legend.marks().take(named.len()).collect::<Vec<_>>())])
        };
        let text = advice(&all);
        let filter = text.strip_prefix("PERFMARK_FILTER='").and_then(|text| text.strip_suffix("'\n")).expect("quoted");
        assert!(filter.contains(",\n  ") && !filter.contains('\''), "{text}");
        let filter: Filter = filter.parse().expect("a filter");
        let on: Vec<&str> = all.marks.iter().filter(|mark| filter.has_mark(mark)).map(|mark| &*mark.path).collect();
        assert_eq!(on, kept.map(|(_, path)| path));
        all.marks[4].on = false;
        assert!(advice(&all).contains("`, added"), "to the filter that turns a mark off");
    }

    #[test]
    fn running_calls_are_in_self_and_total_only_where_their_cost_is_known() {
        let with = |name: &str, in_flight_total| {
            let values = Values { in_flight_total, ..sample::values("time", 1, 9) };
            Mark { in_flight: 2, values: vec![values], ..mark(name, 1) }
        };
        let mut dropped = with("dropped", 0);
        dropped.cancelled = 3;
        let one = Mark { in_flight: 1, ..with("one", 7) };
        let marks = [with("main", 7), one, with("worker", 0), dropped];
        let snapshot = snapshot(&[event("time", Unit::Ns, Read::Ticks)], &marks);
        let expected = "calls in self and total only: main (2 running, but only those of reporting threads), \
                        one (1 running), dropped (3 cancelled)\n\
                        calls still running, in no column: worker (2), dropped (2)\n";
        assert_eq!(lines(&snapshot, 200, |legend| legend.unfinished().collect::<Vec<_>>()), expected);
    }

    #[test]
    fn skipped_calls_are_in_one_sentence_with_the_reason() {
        let skips = |name, every, budget_percent| Mark { every, budget_percent, skipped: 60, ..mark(name, 64) };
        let marks = [skips("peek", 16, None), skips("parse", 1, None), skips("run", 1, Some(2.0))];
        let marks = marks.map(|one| Mark { values: vec![sample::values("time", 4, 9)], ..one });
        let snapshot = snapshot(&[event("time", Unit::Ns, Read::Ticks)], &marks);
        let expected = "skipped calls: peek (60 of 64, every = 16), parse (60 of 64, earlier settings)\n";
        assert_eq!(lines(&snapshot, 200, Legend::skipped), expected);
    }

    #[test]
    fn the_marks_that_a_budget_measures_in_part_are_named() {
        let sentence = |skipped: &[u64]| {
            let marks = ["peek", "discard", "parse", "main"].iter().zip(skipped);
            let budget_percent = Some(2.0);
            let marks = marks.map(|(name, &skipped)| Mark { budget_percent, skipped, ..mark(name, 4_096) });
            let snapshot = snapshot(&[], &marks.collect::<Vec<_>>());
            lines(&snapshot, 200, Legend::budget)
        };
        let some = "budget of 2 % of the CPU time: measured 2 of 4 marks in part: `discard` one call in 4,096, \
                    `peek` one call in 4\n";
        assert_eq!(sentence(&[3_072, 4_095, 0, 0]), some);
        assert!(sentence(&[4_000; 4]).contains(": measured 4 of 4 marks") && sentence(&[4_000; 4]).ends_with(", …\n"));
        assert_eq!(sentence(&[0; 4]), "budget of 2 % of the CPU time: all calls were measured\n");
        assert_eq!(sentence(&[]), "");
    }

    #[test]
    fn patterns_of_details_that_match_no_mark_are_named() {
        let snapshot = snapshot(&[], &[mark("parse_line", 1)]);
        let notes = |details: &str| {
            let details = details.parse().expect("a filter");
            lines(&snapshot, 200, |legend| legend.notes(Some(&details)))
        };
        let expected = "note: no details of `parse_lin`, which matches no mark; did you mean `parse_line`?\n";
        assert_eq!(notes("parse_lin,parse_line"), expected);
        assert_eq!(notes("on"), "");
    }

    #[test]
    fn shares_of_totals_are_explained() {
        let mut one = mark("f", 1);
        one.values = vec![Values { self_sum: None, ..sample::values("time", 1, 9) }];
        let snapshot = snapshot(&[event("time", Unit::Ns, Read::Ticks)], &[one]);
        let text = lines(&snapshot, 200, |legend| [legend.share(false)]);
        let nested = "; for time, of the sum of all totals, which counts nested marks more than once";
        assert!(text.contains(nested), "{text}");
    }
}
