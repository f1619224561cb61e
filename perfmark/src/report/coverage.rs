//! The sentence about a mark's calls that its values leave out.

use std::mem;

use super::grouping::group;
use crate::snapshot::{Mark, Values};
use crate::text::{counted, exact, plural};

/// The sentence; `None` if every value includes every call.
pub(super) fn sentence(mark: &Mark, shown: &[&Values]) -> Option<String> {
    let parts: Vec<String> = without_skipped(mark, shown).into_iter().chain(skipped(mark)).collect();
    if parts.is_empty() { None } else { Some(parts.join("; ")) }
}

fn skipped(mark: &Mark) -> Option<String> {
    (mark.skipped > 0).then(|| format!("{} skipped ({})", counted(mark.skipped, "call"), why_skipped(mark)))
}

/// Why calls were skipped.
pub(super) fn why_skipped(mark: &Mark) -> String {
    match (mark.budget_percent, mark.every) {
        (Some(_), _) => "budget".to_owned(),
        (None, 1) => "earlier settings".to_owned(),
        (None, every) => format!("every = {}", exact(every.into())),
    }
}

/// The sentence without skipped calls, for lists of marks: most marks may have some, and the legend names them.
pub(super) fn without_skipped(mark: &Mark, shown: &[&Values]) -> Option<String> {
    let mut parts = by_event(mark, shown);
    if shown.is_empty() && mark.calls > 0 {
        parts.push("nothing measured: none of its events is available".to_owned());
    }
    if let Some(lacks) = shown.iter().map(|values| values.missing_outermost).max().filter(|&calls| calls > 0) {
        parts.push(format!(
            "totals leave out {} outermost {} of this recursive function, and the calls inside",
            exact(lacks),
            plural(lacks, "call")
        ));
    }
    if mark.polls > 0 {
        parts.push(counted(mark.polls, "poll"));
    }
    for (number, what) in [
        (mark.unwound, "ended by a panic, in no distribution"),
        (mark.cancelled, "cancelled, in no distribution"),
        (mark.interrupted, "made while perfmark was at work, counted but not measured"),
        (mark.in_flight, "still running"),
    ] {
        if number > 0 {
            parts.push(format!("{} {what}", counted(number, "call")));
        }
    }
    if parts.is_empty() { None } else { Some(parts.join("; ")) }
}

/// Whether calls are missing that should have been measured.
pub(super) fn is_lacking(mark: &Mark, shown: &[&Values]) -> bool {
    shown.is_empty() || shown.iter().any(|values| values.unmeasured > mark.interrupted)
}

/// Events that lack the same calls are named together, and not named if they are all events that the mark shows.
fn by_event(mark: &Mark, shown: &[&Values]) -> Vec<String> {
    // Interrupted calls have their own part.
    let unmeasured = |values: &Values| values.unmeasured.saturating_sub(mark.interrupted);
    let lacks = |values: &Values| [unmeasured(values), values.scaled, mark.calls_without(values)];
    let lacking = shown.iter().map(|values| (lacks(values), &*values.event)).filter(|(lacks, _)| *lacks != [0; 3]);
    let part = |([unmeasured, scaled, without], events): ([u64; 3], Vec<&str>)| {
        let mut of = format!(" of {}", counted(mark.calls, "call"));
        let kinds = [(unmeasured, "unmeasured"), (scaled, "scaled"), (without, "with other events")];
        let kinds = kinds.into_iter().filter(|(calls, _)| *calls > 0);
        let kinds: Vec<String> =
            kinds.map(|(calls, what)| format!("{}{} {what}", exact(calls), mem::take(&mut of))).collect();
        let text = kinds.join(", ");
        if events.len() == shown.len() { text } else { format!("{}: {text}", events.join(", ")) }
    };
    group(lacking).into_iter().map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::sample::{mark, values};

    fn lacking(event: &str, unmeasured: u64, scaled: u64) -> Values {
        Values { scaled, unmeasured, ..values(event, 1_204 - unmeasured, 1) }
    }

    fn text(mark: &Mark) -> Option<String> {
        sentence(mark, &mark.values.iter().collect::<Vec<_>>())
    }

    #[test]
    fn there_is_no_sentence_if_every_value_includes_every_call() {
        assert_eq!(text(&Mark { values: vec![values("cycles", 9, 9)], ..mark("m", 9) }), None);
    }

    #[test]
    fn events_that_lack_the_same_calls_are_named_together() {
        let mut mark = mark("m", 1204);
        mark.values = vec![lacking("cycles", 12, 30), lacking("instructions", 12, 30)];
        assert_eq!(text(&mark).as_deref(), Some("12 of 1,204 calls unmeasured, 30 scaled"));
        mark.values.push(lacking("time", 0, 0));
        assert_eq!(text(&mark).as_deref(), Some("cycles, instructions: 12 of 1,204 calls unmeasured, 30 scaled"));
        mark.values.push(lacking("page-faults", 0, 1));
        let both =
            "cycles, instructions: 12 of 1,204 calls unmeasured, 30 scaled; page-faults: 1 of 1,204 calls scaled";
        assert_eq!(text(&mark).as_deref(), Some(both));
    }

    #[test]
    fn calls_before_or_after_a_mark_recorded_an_event_are_counted() {
        let mut mark = mark("m", 400);
        mark.values = vec![values("time", 100, 5), values("on_cpu", 300, 5)];
        let both = "time: 300 of 400 calls with other events; on_cpu: 100 of 400 calls with other events";
        assert_eq!(text(&mark).as_deref(), Some(both));
    }

    #[test]
    fn a_recursive_mark_whose_outermost_calls_are_unmeasured_says_so() {
        let mut mark = mark("m", 9);
        mark.values.push(Values { missing_outermost: 2, measured: 6, ..lacking("cycles", 3, 0) });
        let both = "3 of 9 calls unmeasured; totals leave out 2 outermost calls of this recursive function, \
                    and the calls inside";
        assert_eq!(text(&mark).as_deref(), Some(both));
    }

    #[test]
    fn a_mark_that_skips_calls_says_so() {
        let mut mark = Mark { every: 64, skipped: 63, ..mark("m", 64) };
        mark.values.push(values("cycles", 1, 5));
        assert_eq!(text(&mark).as_deref(), Some("63 calls skipped (every = 64)"));
        mark.every = 1;
        assert_eq!(text(&mark).as_deref(), Some("63 calls skipped (earlier settings)"), "a budget or a filter");
    }

    #[test]
    fn a_mark_without_any_value_says_so() {
        assert_eq!(text(&mark("m", 9)).as_deref(), Some("nothing measured: none of its events is available"));
        assert_eq!(text(&mark("m", 0)), None);
    }

    #[test]
    fn calls_that_ended_differently_or_not_yet_are_counted() {
        let mut mark = Mark { unwound: 3, cancelled: 1, polls: 20, interrupted: 1, in_flight: 2, ..mark("m", 10) };
        mark.values.push(Values { unmeasured: 1, ..values("cycles", 5, 5) });
        let all = "20 polls; 3 calls ended by a panic, in no distribution; 1 call cancelled, in no distribution; \
                   1 call made while perfmark was at work, counted but not measured; 2 calls still running";
        assert_eq!(text(&mark).as_deref(), Some(all));
    }
}
