//! The grammar: text to kind and modifiers, without a machine.
//!
//! After `tools/perf/util/parse-events.{l,y}` and `Documentation/perf-list.txt` (linux 6.16), for one event at a time.

use super::breakpoint::Breakpoint;
use super::cache::CacheEvent;
use super::generic::{Hardware, Software};
use super::kind::Kind;
use super::modifier::Modifiers;
use super::term::{Term, is_name_char, number};

/// Words that perf takes for events or their beginnings and that count nothing, and why.
const NOTHING: &[(&str, &str)] = &[
    ("mem", "its address is missing: mem:0x1000/8:w"),
    ("dummy", "it counts nothing: it carries records of processes for perf; choose another"),
    ("bpf-output", "it counts nothing: BPF programs write records through it; choose another"),
    ("duration_time", "it is perf's own clock; task-clock counts the time on a CPU"),
    ("user_time", "it is perf's own reading of rusage; task-clock counts the time on a CPU"),
    ("system_time", "it is perf's own reading of rusage; task-clock counts the time on a CPU"),
];

/// The event's kind and modifiers, or what is wrong with the text.
pub(super) fn event(text: &str) -> Result<(Kind, Modifiers), String> {
    if text.is_empty() {
        return Err("no event is named".into());
    }
    if let Some((_, why)) = NOTHING.iter().find(|(word, _)| *word == text) {
        return Err((*why).into());
    }
    if let Some(rest) = text.strip_prefix("mem:") {
        return breakpoint(rest);
    }
    match text.split_once('/') {
        Some((pmu, rest)) => on_pmu(pmu, rest),
        None => plain(text),
    }
}

/// `ADDRESS[/LENGTH][:rwx][:modifiers]`.
fn breakpoint(text: &str) -> Result<(Kind, Modifiers), String> {
    let mut parts = text.split(':');
    let place = parts.next().unwrap_or("");
    let rest: Vec<&str> = parts.collect();
    let (access, letters) = match rest[..] {
        [] => (None, None),
        [one] if Breakpoint::are_letters(one) => (Some(one), None),
        [one] => (None, Some(one)),
        [access, letters] => (Some(access), Some(letters)),
        _ => return Err("more than an address, a length, accesses and modifiers: mem:0x1000/8:rw:u".into()),
    };
    let kind = Kind::Breakpoint(Breakpoint::parse(place, access)?);
    Ok((kind, modifiers(letters)?))
}

/// `pmu/terms/modifiers`, of which `rest` follows the first slash.
fn on_pmu(pmu: &str, rest: &str) -> Result<(Kind, Modifiers), String> {
    let Some((terms, letters)) = rest.rsplit_once('/') else {
        return Err("the second / is missing, as in cpu/event=0xc2/".into());
    };
    name("a PMU", pmu)?;
    let letters = letters.strip_prefix(':').unwrap_or(letters);
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
        return Err("several events; each is asked for by itself".into());
    }
    let parts: Vec<&str> = text.split(':').collect();
    let head = parts[0];
    let (kind, letters) = if head.starts_with(|first: char| first.is_ascii_digit()) {
        numbered(&parts)?
    } else if let Some(kind) = generic(head).map_or_else(|| raw(head), |kind| Ok(Some(kind)))? {
        (kind, &parts[1..])
    } else if parts.len() == 1 || (parts.len() == 2 && Modifiers::are_letters(parts[1])) {
        name("an event", head)?;
        (Kind::Named(head.into()), &parts[1..])
    } else {
        name("a tracepoint's system", head)?;
        name("a tracepoint", parts[1])?;
        if Modifiers::are_letters(parts[1]) {
            return Err(format!("{:?} behind a : are modifiers, and modifiers stand behind one : only", parts[1]));
        }
        (Kind::Tracepoint { system: head.into(), name: parts[1].into() }, &parts[2..])
    };
    match letters {
        [] => Ok((kind, Modifiers::default())),
        [letters] => Ok((kind, modifiers(Some(letters))?)),
        _ => Err("modifiers stand behind one : only".into()),
    }
}

fn numbered<'a, 'b>(parts: &'b [&'a str]) -> Result<(Kind, &'b [&'a str]), String> {
    let [kind, config, letters @ ..] = parts else {
        return Err("a number alone is no event; there are type:config, and r1c2 for the processor's".into());
    };
    let kind = number(kind).map_err(|why| format!("the type: {why}"))?;
    let kind = u32::try_from(kind).map_err(|_| format!("the type {kind} has more than 32 bits"))?;
    let config = number(config).map_err(|why| format!("the config: {why}"))?;
    Ok((Kind::Numbered { kind, config }, letters))
}

/// A name that every machine's kernel knows.
pub(super) fn generic(name: &str) -> Option<Kind> {
    let hyphens = name.replace('_', "-");
    let hardware = Hardware::from_name(&hyphens).map(Kind::Hardware);
    let software = || Software::from_name(&hyphens).map(Kind::Software);
    hardware.or_else(software).or_else(|| CacheEvent::from_name(&hyphens).map(Kind::Cache))
}

/// `r1c2`, which is hexadecimal.
fn raw(name: &str) -> Result<Option<Kind>, String> {
    let Some(digits) = name.strip_prefix('r') else { return Ok(None) };
    let digits = digits.strip_prefix("0x").unwrap_or(digits);
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return Ok(None);
    }
    let config = u64::from_str_radix(digits, 16).map_err(|_| format!("{name} has more than 64 bits"))?;
    Ok(Some(Kind::Raw(config)))
}

fn modifiers(letters: Option<&str>) -> Result<Modifiers, String> {
    match letters {
        None => Ok(Modifiers::default()),
        Some("") => Err("modifiers are missing behind the :".into()),
        Some(letters) => Modifiers::parse(letters),
    }
}

/// Whether it is made as a name has to be, so that it can be looked up.
fn name(what: &str, text: &str) -> Result<(), String> {
    if text.contains(['*', '?', '[']) {
        return Err(format!("{text:?} is a pattern for several; name one"));
    }
    match text.chars().find(|&c| !is_name_char(c)) {
        Some(wrong) => Err(format!("{wrong:?} cannot be part of {what}'s name")),
        None if text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_') => Ok(()),
        None => Err(format!("the name of {what} begins with a letter, and {text:?} does not")),
    }
}
