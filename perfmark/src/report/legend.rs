//! The text above and below the table: the run, how to read the values, and what they leave out.

use std::collections::BTreeMap;

use super::column::SPREAD;
use super::count::exact;
use super::kinds::kinds;
use super::quantity::{ESTIMATE, NEAR, rounded_count, whole};
use super::share::{Shares, is_called};
use super::signs::clean;
use super::text::{shorten, width, wrap};
use crate::snapshot::{Event, Read, Snapshot, Unit};
use crate::token::known;

/// One line about the run.
pub(super) fn head(out: &mut String, snapshot: &Snapshot, columns: usize) {
    let ran = whole(snapshot.wall_ns, Unit::Ns);
    let threads = rounded_count(snapshot.threads, "thread");
    let pid = known(snapshot.pid).map_or_else(|| "unknown".into(), |pid| pid.to_string());
    let run = format!(" · pid {pid} · ran {ran} · {threads}");
    let lead = "perfmark · ";
    let room = columns.saturating_sub(width(lead) + width(&run));
    out.push_str(lead);
    out.push_str(&shorten(&clean(&snapshot.program), room));
    out.push_str(&run);
    out.push('\n');
}

/// What the values mean, and how the rows are ordered.
pub(super) fn values(out: &mut String, snapshot: &Snapshot, shares: &Shares<'_>, has_self: bool, columns: usize) {
    let Some(leading) = shares.leading() else { return };
    let (share, mode) = (share(snapshot, shares, has_self), mode(snapshot));
    wrap(out, &format!("{share} Sorted by share of {leading}.{mode}"), 0, columns);
}

/// What a share is relative to.
pub(super) fn share(snapshot: &Snapshot, shares: &Shares<'_>, has_self: bool) -> String {
    let events = snapshot.events.iter().map(|event| event.name.as_str());
    let nested: Vec<&str> = events.filter(|event| shares.whole(event).is_of_totals).collect();
    let nested = match nested.as_slice() {
        [] => String::new(),
        nested => format!(" (for {}, of the sum of all totals, which counts nested marks again)", nested.join(", ")),
    };
    let own = if has_self { "; self: without marked callees" } else { "" };
    format!("share: percentage of everything measured in marks, marked callees included{nested}{own}.")
}

/// The processor mode in which events were counted.
pub(super) fn mode(snapshot: &Snapshot) -> &'static str {
    let mut counts = snapshot.events.iter().filter(|event| event.unit == Unit::Count && event.read != Read::None);
    match (counts.clone().next().is_some(), counts.all(|event| is_of_user_mode(&event.name))) {
        (false, _) => "",
        (true, true) => " Counts are of user mode only.",
        (true, false) => {
            " Counts are of user mode, except for events that occur in the kernel or have the modifier `k`."
        }
    }
}

/// Whether the event's name has no modifier for the kernel's or the hypervisor's part, and is not an event that the
/// kernel itself reports, such as a tracepoint.
fn is_of_user_mode(name: &str) -> bool {
    match name.rsplit_once([':', '/']) {
        Some((_, modifiers)) if modifiers.bytes().all(|modifier| b"uGHIpPSDWe".contains(&modifier)) => true,
        Some(_) => false,
        None => true,
    }
}

/// What the clock rate means, if one is shown.
pub(super) fn clock(out: &mut String, has_clock: bool, columns: usize) {
    if has_clock {
        wrap(out, "GHz: user-mode cycles per nanosecond.", 0, columns);
    }
}

/// How to read the last column, if it is shown.
pub(super) fn spread(out: &mut String, has_spread: bool, columns: usize) {
    if has_spread {
        wrap(out, &format!("{SPREAD}: number of calls at each cost, on a logarithmic scale."), 0, columns);
    }
}

/// What the character before an estimate means, if there is one.
pub(super) fn estimates(out: &mut String, has_estimates: bool, columns: usize) {
    if has_estimates {
        wrap(out, &format!("{ESTIMATE}: estimated from the measured calls."), 0, columns);
    }
}

/// The probe overhead, as far as it is known.
pub(super) fn probes(out: &mut String, snapshot: &Snapshot, has_noise: bool, columns: usize) {
    let mut most: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for values in snapshot.marks.iter().flat_map(|mark| &mark.values) {
        let (own, around) = most.entry(&values.event).or_default();
        (*own, *around) = ((*own).max(values.probe.own), (*around).max(values.probe.whole));
    }
    let cost = |event: &Event| {
        let &(own, around) = most.get(&*event.name)?;
        (own > 0 || around > 0)
            .then(|| format!("{} {} ({})", clean(&event.name), whole(own, event.unit), whole(around, event.unit)))
    };
    let costs: Vec<String> = snapshot.events.iter().filter_map(cost).collect();
    if !costs.is_empty() {
        let noise = if has_noise { format!(" {NEAR}: no larger than the noise of the probe.") } else { String::new() };
        let costs = costs.join(", ");
        wrap(out, &format!("probe overhead subtracted per call (from its caller): {costs}.{noise}"), 0, columns);
    }
}

/// How each event was read, or why not. Events with the same answer share a line.
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

/// Lines that the names of marks never called fill at most, approximately. Where lines are not broken, a line has this
/// many columns.
const NEVER_CALLED_LINES: usize = 5;
const WIDEST: usize = 200;

/// The names of the marks never called, and of those that the filter turns off.
pub(super) fn never_called(out: &mut String, snapshot: &Snapshot, labels: &[String], columns: usize) {
    for (what, on) in [("never called", true), ("off", false)] {
        let marks = snapshot.marks.iter().zip(labels).filter(|(mark, _)| !is_called(mark) && mark.on == on);
        names(out, what, &marks.map(|(_, label)| label).collect::<Vec<_>>(), columns);
    }
}

/// Points to the call graph, in formats that do not show it.
pub(super) fn call_graph(out: &mut String, snapshot: &Snapshot, columns: usize) {
    let nodes = snapshot.call_graph.len() as u64;
    if nodes > 0 {
        wrap(
            out,
            &format!("call graph: {}, shown by the formats html, json, folded and svg", rounded_count(nodes, "node")),
            0,
            columns,
        );
    }
}

/// The calls that the call graph does not have.
pub(super) fn not_in_graph(out: &mut String, snapshot: &Snapshot, columns: usize) {
    let lacks = snapshot.call_graph_lacks;
    if lacks > 0 {
        wrap(out, &format!("not in the call graph: {}", rounded_count(lacks, "call")), 0, columns);
    }
}

/// Names of marks; if there are very many, only the first.
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

/// The snapshot's notes.
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
        let text = lines(|out| super::events(out, &snapshot(&events, &[]), 80));
        let expected = "read from the tick counter: time\n\
                        not available: cycles, instructions — no PMU\n\
                        not available: cache-misses — no such event\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn marks_never_called_are_named_and_of_very_many_the_rest_is_counted() {
        let never = |count: usize| {
            let marks: Vec<_> = (0..count).map(|index| mark(&format!("never_{index}"), 0)).collect();
            let labels: Vec<_> = marks.iter().map(|mark| mark.name.clone()).collect();
            lines(|out| never_called(out, &snapshot(&[], &marks), &labels, 80))
        };
        assert_eq!(never(0), "");
        assert_eq!(never(2), "never called: never_0, never_1\n");
        let off = crate::snapshot::Mark { on: false, ..mark("left_out", 0) };
        let both = snapshot(&[], &[mark("never", 0), off]);
        let labels = ["never".to_owned(), "left_out".to_owned()];
        assert_eq!(lines(|out| never_called(out, &both, &labels, 80)), "never called: never\noff: left_out\n");
        let long = "n".repeat(999);
        let text = lines(|out| never_called(out, &snapshot(&[], &[mark(&long, 0)]), std::slice::from_ref(&long), 80));
        assert!(text.starts_with("never called: nnn") && text.lines().count() == 1, "{text}");
        let many = never(10_000);
        assert!(many.lines().count() <= NEVER_CALLED_LINES + 1, "{many}");
        let named = many.matches("never_").count();
        assert!(named > 30, "{many}");
        assert!(
            many.replace("\n ", "").ends_with(&format!(", and {} more\n", exact((10_000 - named) as u64))),
            "{many}"
        );
    }

    #[test]
    fn shares_of_totals_are_explained() {
        let mut one = mark("f", 1);
        one.values = vec![crate::snapshot::Values { self_sum: None, ..crate::report::sample::values("time", 1, 9) }];
        let snapshot = snapshot(&[event("time", Unit::Ns, Read::Ticks)], &[one]);
        let text = lines(|out| values(out, &snapshot, &Shares::new(&snapshot), false, 200));
        assert!(text.contains("(for time, of the sum of all totals, which counts nested marks again)"), "{text}");
    }
}
