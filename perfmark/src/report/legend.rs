//! What stands above and below the table: the run, how to read the figures, what is not in them.

use std::collections::BTreeMap;

use super::column::SPREAD;
use super::kinds::kinds;
use super::quantity::{ESTIMATE, NEAR, counted, exact, whole};
use super::share::{Shares, is_called};
use super::signs::clean;
use super::text::{shorten, width, wrap};
use crate::snapshot::{Event, Read, Snapshot, Unit};
use crate::token::known;

/// One line about the run.
pub(super) fn head(out: &mut String, snapshot: &Snapshot, columns: usize) {
    let ran = whole(snapshot.wall_ns, Unit::Ns);
    let threads = counted(snapshot.threads, "thread");
    let pid = known(snapshot.pid).map_or_else(|| "unknown".into(), |pid| pid.to_string());
    let run = format!(" · pid {pid} · ran {ran} · {threads}");
    let lead = "perfmark · ";
    let room = columns.saturating_sub(width(lead) + width(&run));
    out.push_str(lead);
    out.push_str(&shorten(&clean(&snapshot.program), room));
    out.push_str(&run);
    out.push('\n');
}

/// What the figures mean and how the rows are ordered.
pub(super) fn figures(out: &mut String, snapshot: &Snapshot, shares: &Shares<'_>, has_self: bool, columns: usize) {
    let Some(leading) = shares.leading() else { return };
    let (share, mode) = (share(snapshot, shares, has_self), mode(snapshot));
    wrap(out, &format!("{share} Sorted by share of {leading}.{mode}"), 0, columns);
}

/// What a share is a share of.
pub(super) fn share(snapshot: &Snapshot, shares: &Shares<'_>, has_self: bool) -> String {
    let events = snapshot.events.iter().map(|event| event.name.as_str());
    let nested: Vec<&str> = events.filter(|event| shares.whole(event).is_of_totals).collect();
    let nested = match nested.as_slice() {
        [] => String::new(),
        nested => format!(" (for {}, of all totals: nested marks count again)", nested.join(", ")),
    };
    let own = if has_self { "; self: without them" } else { "" };
    format!("share: of all that was measured in marks, a mark's marked callees included{nested}{own}.")
}

/// In which mode the processor was when it counted.
pub(super) fn mode(snapshot: &Snapshot) -> &'static str {
    let mut counts = snapshot.events.iter().filter(|event| event.unit == Unit::Count && event.read != Read::None);
    match (counts.clone().next().is_some(), counts.all(|event| is_of_user_mode(&event.name))) {
        (false, _) => "",
        (true, true) => " Counts are of user mode only.",
        (true, false) => {
            " Counts are of user mode, but for events that happen in the kernel or name it behind them (k)."
        }
    }
}

/// Whether its name has no modifier for the kernel's or the hypervisor's part behind it, and is none of what the kernel itself tells, as a tracepoint is.
fn is_of_user_mode(name: &str) -> bool {
    match name.rsplit_once([':', '/']) {
        Some((_, modifiers)) if modifiers.bytes().all(|sign| b"uGHIpPSDWe".contains(&sign)) => true,
        Some(_) => false,
        None => true,
    }
}

/// What a clock rate is of, if there is one.
pub(super) fn clock(out: &mut String, has_clock: bool, columns: usize) {
    if has_clock {
        wrap(out, "GHz: cycles of user mode in a nanosecond of time.", 0, columns);
    }
}

/// How to read the last column, if it is there.
pub(super) fn spread(out: &mut String, has_spread: bool, columns: usize) {
    if has_spread {
        let what = "how many calls there were at each cost between the two, on a logarithmic scale";
        wrap(out, &format!("{SPREAD}: {what}."), 0, columns);
    }
}

/// What the sign before a total means, if there is one.
pub(super) fn estimates(out: &mut String, has_estimates: bool, columns: usize) {
    if has_estimates {
        wrap(out, &format!("{ESTIMATE}: estimated from the calls that were measured."), 0, columns);
    }
}

/// What the marks' own measuring cost, as far as it is known.
pub(super) fn probes(out: &mut String, snapshot: &Snapshot, has_noise: bool, columns: usize) {
    let mut most: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for values in snapshot.marks.iter().flat_map(|mark| &mark.values) {
        let (own, around) = most.entry(&values.event).or_default();
        (*own, *around) = ((*own).max(values.probe.own), (*around).max(values.probe.whole));
    }
    let cost = |event: &Event| {
        let &(own, around) = most.get(&*event.name)?;
        (own > 0 || around > 0).then(|| {
            format!("{} {} (from around {})", clean(&event.name), whole(own, event.unit), whole(around, event.unit))
        })
    };
    let costs: Vec<String> = snapshot.events.iter().filter_map(cost).collect();
    if !costs.is_empty() {
        let noise = if has_noise { format!(" {NEAR}: no more than that varies by.") } else { String::new() };
        wrap(out, &format!("taken off each call, as the mark's own: {}.{noise}", costs.join(", ")), 0, columns);
    }
}

/// How each event was read, or why not: events with the same answer share a line.
pub(super) fn events(out: &mut String, snapshot: &Snapshot, columns: usize) {
    for (read, how) in [
        (Read::User, "read in user space"),
        (Read::Syscall, "read by read(2)"),
        (Read::Ticks, "read from the tick counter"),
        (Read::None, "not available"),
    ] {
        let events = snapshot.events.iter().filter(|event| event.read == read);
        for (reason, names) in kinds(events.map(|event| (event.reason.as_deref(), event.name.as_str()))) {
            let why = reason.map_or(String::new(), |reason| format!(" — {reason}"));
            wrap(out, &format!("{how}: {}{why}", names.join(", ")), 0, columns);
        }
    }
}

/// Lines that the names of marks never called fill at the most, about; where nothing breaks lines, of these columns.
const NEVER_CALLED_LINES: usize = 5;
const WIDEST: usize = 200;

/// The marks never called, by name, and those that the filter leaves out.
pub(super) fn never_called(out: &mut String, snapshot: &Snapshot, labels: &[String], columns: usize) {
    for (what, on) in [("never called", true), ("off", false)] {
        let marks = snapshot.marks.iter().zip(labels).filter(|(mark, _)| !is_called(mark) && mark.on == on);
        names(out, what, &marks.map(|(_, label)| label).collect::<Vec<_>>(), columns);
    }
}

/// That there is a call graph, where it is not shown.
pub(super) fn call_graph(out: &mut String, snapshot: &Snapshot, columns: usize) {
    let nodes = snapshot.call_graph.len() as u64;
    if nodes > 0 {
        wrap(
            out,
            &format!("call graph: {}, which the forms html, json, folded and svg show", counted(nodes, "node")),
            0,
            columns,
        );
    }
}

/// What a call graph lacks.
pub(super) fn not_in_graph(out: &mut String, snapshot: &Snapshot, columns: usize) {
    let lacks = snapshot.call_graph_lacks;
    if lacks > 0 {
        wrap(out, &format!("not in the call graph: {}", counted(lacks, "call")), 0, columns);
    }
}

/// Names of marks; of very many only the first.
fn names(out: &mut String, what: &str, marks: &[&String], columns: usize) {
    let mut names = Vec::new();
    let mut room = NEVER_CALLED_LINES * columns.min(WIDEST);
    for label in marks {
        let name = shorten(label, columns.min(WIDEST) / 2);
        match room.checked_sub(width(&name) + width(", ")) {
            Some(left) => room = left,
            None => break,
        }
        names.push(name);
    }
    let more = marks.len() - names.len();
    if more > 0 {
        names.push(format!("and {} more", exact(more as u64)));
    }
    if !names.is_empty() {
        wrap(out, &format!("{what}: {}", names.join(", ")), 0, columns);
    }
}

/// What else a reader must know.
pub(super) fn notes(out: &mut String, snapshot: &Snapshot, columns: usize) {
    for note in &snapshot.notes {
        wrap(out, &format!("note: {note}"), 0, columns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample::{event, mark, snapshot};

    fn lines(write: impl FnOnce(&mut String)) -> String {
        let mut out = String::new();
        write(&mut out);
        out
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
        let told = lines(|out| super::events(out, &snapshot(&events, &[]), 80));
        let expected = "read from the tick counter: time\n\
                        not available: cycles, instructions — no PMU\n\
                        not available: cache-misses — no such event\n";
        assert_eq!(told, expected);
    }

    #[test]
    fn marks_never_called_are_named_and_of_very_many_the_rest_is_counted() {
        let told = |count: usize| {
            let marks: Vec<_> = (0..count).map(|index| mark(&format!("never_{index}"), 0)).collect();
            let labels: Vec<_> = marks.iter().map(|mark| mark.name.clone()).collect();
            lines(|out| never_called(out, &snapshot(&[], &marks), &labels, 80))
        };
        assert_eq!(told(0), "");
        assert_eq!(told(2), "never called: never_0, never_1\n");
        let off = crate::snapshot::Mark { on: false, ..mark("left_out", 0) };
        let both = snapshot(&[], &[mark("never", 0), off]);
        let labels = ["never".to_owned(), "left_out".to_owned()];
        assert_eq!(lines(|out| never_called(out, &both, &labels, 80)), "never called: never\noff: left_out\n");
        let long = "n".repeat(999);
        let told_long =
            lines(|out| never_called(out, &snapshot(&[], &[mark(&long, 0)]), std::slice::from_ref(&long), 80));
        assert!(told_long.starts_with("never called: nnn") && told_long.lines().count() == 1, "{told_long}");
        let many = told(10_000);
        assert!(many.lines().count() <= NEVER_CALLED_LINES + 1, "{many}");
        let named = many.matches("never_").count();
        assert!(named > 30, "{many}");
        assert!(
            many.replace("\n ", "").ends_with(&format!(", and {} more\n", exact((10_000 - named) as u64))),
            "{many}"
        );
    }

    #[test]
    fn shares_of_totals_are_told_as_such() {
        let mut one = mark("f", 1);
        one.values = vec![crate::snapshot::Values { self_sum: None, ..crate::report::sample::values("time", 1, 9) }];
        let snapshot = snapshot(&[event("time", Unit::Ns, Read::Ticks)], &[one]);
        let told = lines(|out| figures(out, &snapshot, &Shares::new(&snapshot), false, 200));
        assert!(told.contains("(for time, of all totals: nested marks count again)"), "{told}");
    }
}
