//! Lists of events, and of directives with events.

#[cfg(feature = "record")]
use super::event_spec::EventSpec;
use crate::snapshot::path::outside_brackets;

/// The letters that perf accepts after an event, including those that do not apply to counting.
const MODIFIERS: &str = "ukhGHIDepPSWbRX:";

/// Splits a list of events at its commas, except those in the terms of `pmu/term,term/` and in `<…>`.
#[cfg(feature = "record")]
pub(crate) fn split(list: &str) -> Vec<&str> {
    parts(list, true)
}

/// Splits a filter in the same way. A directive has its events after `=`, and a slash before it begins no terms.
pub(crate) fn split_directives(filter: &str) -> Vec<&str> {
    parts(filter, false)
}

/// The parts of a list. Each begins with an event, or with a pattern.
///
/// Terms begin after the slash that follows a PMU's name. They end at a slash that only modifiers follow, because a
/// path in a term has slashes, too. The slash of `mem:0x1000/8:w` begins no terms.
fn parts(list: &str, begin_with_event: bool) -> Vec<&str> {
    let event_at = |at| begin_with_event.then_some(at);
    // Where the part and its event begin.
    let (mut parts, mut start, mut event) = (Vec::new(), 0, event_at(0));
    // Where the terms begin, and where their last slash is.
    let mut terms: Option<(usize, usize)> = None;
    let mut is_quoted = false;
    for (at, c) in outside_brackets(list) {
        match (c, terms) {
            ('\'', Some(_)) => is_quoted = !is_quoted,
            _ if is_quoted => {}
            ('/', None) if event.is_some_and(|event| !list[event..at].contains(':')) => terms = Some((at, at)),
            ('/', Some((opening, _))) => terms = Some((opening, at)),
            (',' | '+', Some((opening, closing))) if opening == closing || !ends_event(&list[closing + 1..at]) => {}
            (',', _) => {
                parts.push(&list[start..at]);
                (start, event, terms) = (at + 1, event_at(at + 1), None);
            }
            ('+', _) => (event, terms) = (event.map(|_| at + 1), None),
            ('=', None) => event = Some(at + 1),
            _ => {}
        }
    }
    parts.push(&list[start..]);
    parts
}

/// Whether the text after the slash of terms ends an event: modifiers, and in `PERFMARK_SAMPLE` a period.
fn ends_event(text: &str) -> bool {
    let modifiers = text.trim_end().trim_end_matches(|c: char| c.is_ascii_digit());
    let has_period = modifiers.len() < text.trim_end().len();
    (!has_period || modifiers.ends_with(':')) && modifiers.chars().all(|c| MODIFIERS.contains(c))
}

/// Checks a list of events as `PERFMARK_EVENTS` takes it, for programs that set the variable for another program.
/// Returns the names that reports have for them, each once.
///
/// It reads the machine's lists of events in sysfs, and opens no counter. An event that this machine has, but that the
/// program may not count, is valid; the report then gives the reason.
///
/// ```
/// let names = perfmark::check_events("time,page_faults,mem:0x1000/8:w")?;
/// assert_eq!(names, ["time", "page-faults", "mem:0x1000/8:w"]);
///
/// let why = perfmark::check_events("time,cycels").unwrap_err().to_string();
/// # #[cfg(target_os = "linux")]
/// assert!(why.contains("did you mean `cycles`"));
/// # Ok::<(), perfmark::EventsError>(())
/// ```
///
/// # Errors
///
/// An event has an invalid syntax or is unknown on this machine, or the list has no event.
#[cfg(feature = "record")]
pub fn check_events(list: &str) -> Result<Vec<String>, EventsError> {
    known(list).map(|events| events.iter().map(EventSpec::to_string).collect()).map_err(EventsError)
}

/// Why a list of events is not valid.
#[cfg(feature = "record")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventsError(String);

#[cfg(feature = "record")]
message_error!(EventsError);

/// The events of a list.
#[cfg(feature = "record")]
pub(crate) fn known(list: &str) -> Result<Vec<EventSpec>, String> {
    let mut events = Vec::new();
    for name in split(list).into_iter().map(str::trim).filter(|name| !name.is_empty()) {
        let event = EventSpec::known(name).map_err(|why| {
            let hint = if name.contains(' ') { "; separate events by commas" } else { "" };
            format!("{why}{hint}")
        })?;
        if !events.contains(&event) {
            events.push(event);
        }
    }
    if events.is_empty() { Err("expected at least one event".into()) } else { Ok(events) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_in_terms_do_not_separate_events() {
        for parts in [
            &["cycles", "cpu/event=0xc2,umask=1/u", "mem:0x1000/4:w", "time", "cpu/x"][..],
            &["cpu/event=0xc2,umask=1/ ", " time", "msr/tsc/:u", "r01c2"],
            &["mem:0x1000", "mem:0x1000/8", "mem:0x1000/8:rw:u", "cpu/cycles,name=a/"],
            &["uprobe/path=/usr/bin/true,offset=0x1130,retprobe/u", "uprobe/offset=1,path=/bin/true/", "cycles:u"],
            &["uprobe/path='/tmp/a, b/u,c',offset=0/", "time"],
            &["mem:0x1000/8:w:101", "timestamps"],
            &["cpu/event=0x3c,umask=1/u:1000003", "uprobe/path=/tmp/12,offset=1/:101", "stack=fp"],
            &["cpu//", "cpu//u", "time"],
            &["", "", "time", ""],
        ] {
            assert_eq!(super::parts(&parts.join(","), true), parts);
        }
    }

    #[test]
    fn commas_in_terms_and_brackets_do_not_separate_directives() {
        for parts in [
            &["a=time+cpu/event=0xc2,umask=0x1/u", "S<fn(u8) -> u8, i8>::f", "b=off"][..],
            &["a=mem:0x1000/4:w", "b=off"],
            &["a=mem:0x1000/4:w+cpu/event=0xc2,umask=1/+mem:0x2000/8", "b=cpu/event=1,umask=2/+on", "c"],
            &["S<dyn Iterator<Item = u8>>::f=cpu/event=1,umask=2/+every:3", "off"],
            &["app::a/b", "app::c/d/e", "*=off"],
            &["read/parse", "write"],
            &["a+read/parse=off", "write/x=time+cpu/event=1,umask=2/", "b/c"],
        ] {
            assert_eq!(split_directives(&parts.join(",")), parts);
        }
    }
}
