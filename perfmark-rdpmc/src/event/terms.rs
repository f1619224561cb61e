//! Encodes the terms of an event on one PMU.

use super::encoding::{CountedBy, Encoding};
use super::failure::Failure;
use super::format::{Format, Words, word};
use super::generic::Hardware;
use super::kind::Kind;
use super::nearest::{did_you_mean, nearest};
use super::parse;
use super::pmu::Pmu;
use super::term::{Term, Value};
use crate::machine::Unreadable;
use crate::sys::{TYPE_HARDWARE, TYPE_HW_CACHE, config_on_pmu};

/// perf's terms that concern samples or the perf tool.
const NOT_FOR_COUNTING: &[&str] = &[
    "period",
    "freq",
    "time",
    "call-graph",
    "stack-size",
    "max-stack",
    "nr",
    "inherit",
    "no-inherit",
    "overwrite",
    "no-overwrite",
    "percore",
    "aux-output",
    "aux-action",
    "aux-sample-size",
    "branch_type",
    "metric-id",
    "cpu",
    "ratio-to-prev",
];

/// Encodes `terms` on `pmu`. `several` says that the machine has several core PMUs, so that a generic event must name
/// its own.
pub(super) fn encode(pmu: &Pmu<'_>, terms: &[Term], several: bool) -> Result<Encoding, Failure> {
    let mut words = Words::default();
    // One of the kernel's generic events on this PMU, if it is not encoded by the PMU's own fields.
    let mut generic_event = None;
    let (mut scale, mut unit) = (None, None);
    let mut fields: Vec<&Term> = Vec::new();
    // The listed event comes first, so that given fields replace its values. As in perf, a name that is both an event
    // and a field is the event.
    for term in terms.iter().filter(|term| !is_special(&term.name)) {
        if term.value.is_some() {
            fields.push(term);
        } else if let Some(listed) = listed(pmu, &term.name, terms)? {
            set_fields(pmu, &mut words, &listed.terms, terms)?;
            (scale, unit) = (scale.or(pmu.scale(&listed.name)?), unit.or(pmu.unit(&listed.name)?));
        } else if pmu.format(&term.name)?.is_some() {
            fields.push(term);
        } else if let Some(event) = generic(pmu, &term.name)? {
            generic_event = Some(event);
        } else {
            return Err(unknown(pmu, &term.name)?);
        }
    }
    for term in terms {
        if let Some(word) = word(&term.name) {
            words[word] = value(term, 64)?;
        }
    }
    for term in fields {
        let Some(field) = pmu.format(&term.name)? else { return Err(unknown(pmu, &term.name)?) };
        set(&mut words, term, field, false)?;
    }
    let mut encoding = match generic_event {
        None => Encoding::with_words(pmu.kind, words),
        Some(_) if words[0] != 0 => {
            return Err(format!(
                "{} does not list this generic event, so no field of config can be combined with it",
                pmu.name()
            )
            .into());
        }
        Some((kind, id)) => {
            words[0] = if several { config_on_pmu(pmu.kind, id) } else { id };
            Encoding::with_words(kind, words)
        }
    };
    check_threshold(pmu.threshold_max()?, terms)?;
    encoding.counted_by = counted_by(pmu, &encoding)?;
    encoding.pmu = Some(pmu.name().into());
    (encoding.scale, encoding.unit) = (scale, unit);
    Ok(encoding)
}

/// Keywords of the grammar, which are not fields of a PMU.
fn is_special(name: &str) -> bool {
    name == "name" || word(name).is_some()
}

struct Listed {
    name: String,
    terms: Vec<Term>,
}

/// The event that the PMU lists by that name. If fields are given with it, a generic event is also found by its other
/// names (`cpu-cycles` for `cycles`).
fn listed(pmu: &Pmu<'_>, name: &str, all: &[Term]) -> Result<Option<Listed>, Failure> {
    let alone = all.iter().all(|term| term.name == name || term.name == "name");
    let aliases = match parse::generic(name) {
        Some(Kind::Hardware(event)) if !alone => event.names(),
        _ => &[],
    };
    for name in std::iter::once(name).chain(aliases.iter().copied()) {
        if let Some(terms) = pmu.event(name)? {
            return Ok(Some(Listed { name: name.into(), terms }));
        }
    }
    Ok(None)
}

/// A generic event's type and number, if the PMU is a core PMU and so has generic events.
fn generic(pmu: &Pmu<'_>, name: &str) -> Result<Option<(u32, u64)>, Unreadable> {
    let event = match parse::generic(name) {
        Some(Kind::Hardware(event)) => (TYPE_HARDWARE, event as u64),
        Some(Kind::Cache(event)) => (TYPE_HW_CACHE, event.config()),
        _ => return Ok(None),
    };
    Ok(pmu.is_core()?.then_some(event))
}

/// Sets the fields of a listed event. The user must give those that the list sets to `?`.
fn set_fields(pmu: &Pmu<'_>, words: &mut Words, listed: &[Term], given: &[Term]) -> Result<(), Failure> {
    for term in listed {
        let is_parameter = matches!(&term.value, Some(Value::Text(text)) if text == "?");
        if is_parameter {
            if !given.iter().any(|given| given.name == term.name) {
                let missing =
                    listed.iter().filter(|term| matches!(&term.value, Some(Value::Text(text)) if text == "?"));
                let missing: Vec<String> = missing.map(|term| format!("{}=", term.name)).collect();
                return Err(format!("the event also requires {}", missing.join(" and ")).into());
            }
        } else if let Some(word) = word(&term.name) {
            words[word] = value(term, 64)?;
        } else if let Some(field) = pmu.format(&term.name)? {
            set(words, term, field, true)?;
        } else if term.name != "name" {
            return Err(format!(
                "{} lists the event with a field {} that its format does not have",
                pmu.name(),
                term.name
            )
            .into());
        }
    }
    Ok(())
}

/// A field without a value is 1: always in the PMU's own list, and from a user if the field has only one bit (as in
/// perf's `pmu_config_term`).
fn set(words: &mut Words, term: &Term, field: Format, listed: bool) -> Result<(), String> {
    let (width, max) = (field.width(), field.max());
    let value = match term.value {
        None if listed || width == 1 => 1,
        None => return Err(format!("{} needs a value: it has {width} bits ({}=0 to {max:#x})", term.name, term.name)),
        Some(_) => value(term, width)?,
    };
    if value > max {
        return Err(format!("{}={value:#x} is too large: the field has {}, at most {max:#x}", term.name, bits(width)));
    }
    field.set(words, value);
    Ok(())
}

fn value(term: &Term, width: u32) -> Result<u64, String> {
    match &term.value {
        Some(Value::Number(number)) => Ok(*number),
        Some(Value::Text(text)) => Err(format!("{}={text:?} is not a number (of {})", term.name, bits(width))),
        None => Err(format!("{} needs a value: it has {}", term.name, bits(width))),
    }
}

fn bits(width: u32) -> String {
    format!("{width} bit{}", if width == 1 { "" } else { "s" })
}

/// `threshold`, `threshold_compare`, `threshold_count` of Armv8.8: count only cycles in which an event happens often
/// enough.
fn check_threshold(max: Option<u64>, terms: &[Term]) -> Result<(), String> {
    let given = |name: &str| terms.iter().find(|term| term.name == name);
    // Other PMUs have fields with these names as well, for example Intel's memory controllers.
    let Some(max) = max else { return Ok(()) };
    let threshold = given("threshold").map_or(Ok(0), |term| value(term, 12))?;
    if threshold == 0 {
        return match given("threshold_compare").or_else(|| given("threshold_count")) {
            Some(term) => Err(format!("{} has no effect without threshold=", term.name)),
            None => Ok(()),
        };
    }
    match max {
        0 => Err("this processor's counters have no thresholds (caps/threshold_max is 0)".into()),
        _ if threshold > max => Err(format!(
            "threshold={threshold} is too large: this processor supports at most {max} (caps/threshold_max)"
        )),
        _ => Ok(()),
    }
}

/// On an Intel PMU that lists slots, slots and the metrics derived from them have event 0 with unit mask 4, or 0x80 and
/// more (`is_slots_event`, `is_metric_event` in `arch/x86/events/perf_event.h`, linux 6.12).
pub(super) fn counted_by(pmu: &Pmu<'_>, encoding: &Encoding) -> Result<CountedBy, Unreadable> {
    if !pmu.is_core()? {
        return Ok(CountedBy::Kernel);
    }
    let own_fields = encoding.kind == pmu.kind;
    let is_slots = matches!(
        encoding.config & 0xffff,
        0x0400 | 0x8000 | 0x8100 | 0x8200 | 0x8300 | 0x8400 | 0x8500 | 0x8600 | 0x8700
    );
    Ok(if own_fields && is_slots && pmu.lists("slots")? { CountedBy::Topdown } else { CountedBy::Core })
}

/// The error for an unknown name; or why the PMU's files could not be read.
fn unknown(pmu: &Pmu<'_>, name: &str) -> Result<Failure, Unreadable> {
    if NOT_FOR_COUNTING.contains(&name) {
        let why = format!("{name} concerns samples or the perf tool, and does not apply to counting; leave it out");
        return Ok(why.into());
    }
    let (events, fields, is_core) = (pmu.events()?, pmu.fields()?, pmu.is_core()?);
    let generic: &[&str] =
        if is_core { &["config", "config1", "config2", "config3", "name"] } else { &["config", "name"] };
    let hardware = Hardware::ALL.iter().filter(|_| is_core).flat_map(|event| event.names());
    let all = events.iter().chain(&fields).map(String::as_str).chain(generic.iter().copied()).chain(hardware.copied());
    let near = nearest(name, all);
    let fields = if fields.is_empty() { "none".into() } else { fields.join(", ") };
    let near = did_you_mean(&near);
    Ok(format!("{} has neither an event nor a field {name}{near}; its fields are {fields}", pmu.name()).into())
}
