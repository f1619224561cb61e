//! The grammar: parses text to kind and modifiers, independently of the machine.
//!
//! After `tools/perf/util/parse-events.{l,y}` and `Documentation/perf-list.txt` (linux 6.16), for one event at a time.

use super::breakpoint::Breakpoint;
use super::cache::CacheEvent;
use super::generic::{Hardware, Software};
use super::kind::Kind;
use super::modifier::Modifiers;
use super::term::{Term, is_name_char, number, raw_digits};

/// Words that perf accepts as events or as the start of one, but that count nothing, and why.
const NOT_COUNTED: &[(&str, &str)] = &[
    ("mem", "its address is missing: mem:0x1000/8:w"),
    ("dummy", "it counts nothing: perf uses it to receive records about processes; choose another"),
    ("bpf-output", "it counts nothing: BPF programs write records through it; choose another"),
    ("duration_time", "it is a clock of the perf tool; task-clock counts the time on a CPU"),
    ("user_time", "the perf tool reads it from rusage; task-clock counts the time on a CPU"),
    ("system_time", "the perf tool reads it from rusage; task-clock counts the time on a CPU"),
];

/// The event's kind and modifiers, or what is wrong with the text.
pub(super) fn event(text: &str) -> Result<(Kind, Modifiers), String> {
    if text.is_empty() {
        return Err("the event is empty".into());
    }
    if let Some(rest) = text.strip_prefix("mem:") {
        return breakpoint(rest);
    }
    if let Some((_, why)) = NOT_COUNTED.iter().find(|(word, _)| text.split(':').next() == Some(*word)) {
        return Err((*why).into());
    }
    match text.split_once('/') {
        Some((pmu, rest)) => on_pmu(pmu, rest),
        None => plain(text),
    }
}

/// `ADDRESS[/LENGTH][:rwx][:modifiers]`.
fn breakpoint(text: &str) -> Result<(Kind, Modifiers), String> {
    let mut parts = text.split(':');
    let location = parts.next().unwrap_or("");
    let rest: Vec<&str> = parts.collect();
    let (access, letters) = match rest[..] {
        [] => (None, None),
        [one] if Breakpoint::are_letters(one) => (Some(one), None),
        [one] => (None, Some(one)),
        [access, letters] => (Some(access), Some(letters)),
        _ => {
            return Err(
                "too many parts: expected address, length, accesses and modifiers, as in mem:0x1000/8:rw:u".into()
            );
        }
    };
    let kind = Kind::Breakpoint(Breakpoint::parse(location, access)?);
    Ok((kind, modifiers(letters)?))
}

/// `pmu/terms/modifiers`, where `rest` follows the first slash.
fn on_pmu(pmu: &str, rest: &str) -> Result<(Kind, Modifiers), String> {
    let Some((terms, letters)) = rest.rsplit_once('/') else {
        return Err("the second / is missing, as in cpu/event=0xc2/".into());
    };
    name("a PMU", pmu)?;
    let letters = letters.strip_prefix(':').unwrap_or(letters);
    let ends_in_path = terms.rsplit(',').next().is_some_and(|term| term.starts_with("path="));
    let ends_in_quotes = terms.matches('\'').count() % 2 == 1;
    if (ends_in_path || ends_in_quotes) && !letters.is_empty() && !Modifiers::are_letters(letters) {
        // The last slash is one of a path's.
        return Err("the second / is missing, as in uprobe/path=/bin/true,offset=0x1130/".into());
    }
    let modifiers = modifiers(Some(letters).filter(|letters| !letters.is_empty()))?;
    let terms = Term::parse_list(terms)?;
    if let Some(kind) = generic(pmu).filter(|_| terms.is_empty()) {
        return Ok((kind, modifiers));
    }
    Ok((Kind::Pmu { pmu: pmu.into(), terms }, modifiers))
}

/// `name[:modifiers]`, `system:tracepoint[:modifiers]`, `type:config[:modifiers]`.
fn plain(text: &str) -> Result<(Kind, Modifiers), String> {
    if text.contains([',', '{', '}']) {
        return Err("this is a list of events; give one event at a time".into());
    }
    let parts: Vec<&str> = text.split(':').collect();
    let head = parts[0];
    // Names of tracepoints and of their systems may begin with a digit.
    let (kind, letters) = if starts_with_digit(head) && parts[..parts.len().min(2)].iter().any(|part| is_number(part)) {
        numbered(&parts)?
    } else if let Some(kind) = generic(head).map_or_else(|| raw(head), |kind| Ok(Some(kind)))? {
        (kind, &parts[1..])
    } else if parts.len() == 1 || (parts.len() == 2 && Modifiers::are_letters(parts[1])) {
        name("an event", head)?;
        (Kind::Named(head.into()), &parts[1..])
    } else {
        tracepoint_name("a tracepoint's system", head)?;
        tracepoint_name("a tracepoint", parts[1])?;
        if Modifiers::are_letters(parts[1]) {
            return Err(format!("{:?} is a list of modifiers, and an event may have only one", parts[1]));
        }
        (Kind::Tracepoint { system: head.into(), name: parts[1].into() }, &parts[2..])
    };
    match letters {
        [] => Ok((kind, Modifiers::default())),
        [letters] => Ok((kind, modifiers(Some(letters))?)),
        _ => Err("there is more than one list of modifiers".into()),
    }
}

fn starts_with_digit(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_digit())
}

/// Whether the text is a number, and not a name; it may be too large, or a hexadecimal one with a wrong digit.
fn is_number(text: &str) -> bool {
    let are_digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    are_digits || text.starts_with("0x") || number(text).is_ok()
}

fn numbered<'a, 'b>(parts: &'b [&'a str]) -> Result<(Kind, &'b [&'a str]), String> {
    let [kind, config, letters @ ..] = parts else {
        return Err("a number alone is not an event; use type:config, or r1c2 for an event of the processor".into());
    };
    let kind = number(kind).map_err(|why| format!("the type: {why}"))?;
    let kind = u32::try_from(kind).map_err(|_| format!("the type {kind} has more than 32 bits"))?;
    let config = number(config).map_err(|why| format!("the config: {why}"))?;
    Ok((Kind::Numbered { kind, config }, letters))
}

/// A name that the kernel of every machine knows.
pub(super) fn generic(name: &str) -> Option<Kind> {
    let hyphens = name.replace('_', "-");
    let hardware = Hardware::from_name(&hyphens).map(Kind::Hardware);
    let software = || Software::from_name(&hyphens).map(Kind::Software);
    hardware.or_else(software).or_else(|| CacheEvent::from_name(&hyphens).map(Kind::Cache))
}

/// `r1c2`, which is hexadecimal.
fn raw(name: &str) -> Result<Option<Kind>, String> {
    let Some(digits) = raw_digits(name) else { return Ok(None) };
    let config = u64::from_str_radix(digits, 16).map_err(|_| format!("{name} has more than 64 bits"))?;
    Ok(Some(Kind::Raw(config)))
}

fn modifiers(letters: Option<&str>) -> Result<Modifiers, String> {
    match letters {
        None => Ok(Modifiers::default()),
        Some("") => Err("modifiers are missing after the :".into()),
        Some(letters) => Modifiers::parse(letters),
    }
}

/// Checks a name that may begin with a digit: `9p`, `802154_drv_start`.
fn tracepoint_name(what: &str, text: &str) -> Result<(), String> {
    let rest = text.trim_start_matches(|first: char| first.is_ascii_digit());
    name(what, if rest.is_empty() { text } else { rest })
}

/// Checks that the text is well-formed as a name, so that it can be looked up.
fn name(what: &str, text: &str) -> Result<(), String> {
    if text.contains(['*', '?', '[']) {
        return Err(format!("{text:?} is a pattern for several events; name one"));
    }
    match text.chars().find(|&c| !is_name_char(c)) {
        Some(wrong) => Err(format!("{wrong:?} cannot be part of {what}'s name")),
        None if text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_') => Ok(()),
        None => Err(format!("the name of {what} must begin with a letter, and {text:?} does not")),
    }
}
