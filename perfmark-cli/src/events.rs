//! `perfmark events`: the syntax of events, and which of them this machine counts.

use std::fmt::Write as _;
use std::process::ExitCode;

use clap::Args;
use perfmark::text::sanitize;
use perfmark_rdpmc::{Attr, CacheEvent, Counter, Event, Hardware, Kind, ListedPmu, Machine, Software};

use crate::output;
use crate::reports::{dashed, is_same_event};

/// List events, and show whether this user can count each of them here in user mode
#[derive(Args, Debug)]
#[command(after_long_help = "Exit status: 0, or 1 if no event matches.")]
pub(crate) struct Arguments {
    /// List only events whose name contains this text, where `*` matches anything; or a kind: own, hw, sw, cache, pmu,
    /// raw
    pattern: Option<String>,
}

/// The events that perfmark defines: times, and others.
const TIMES: &[(&str, &str)] = &[
    ("time", "nanoseconds, from the processor's tick counter"),
    ("on_cpu", "nanoseconds in which the thread was on a CPU"),
    ("off_cpu", "nanoseconds in which the thread was not on a CPU"),
    ("blocked", "the part of off_cpu in which the thread waited"),
    ("preempted", "the part of off_cpu in which the kernel ran another thread"),
    ("suspended", "nanoseconds between the polls of an async call"),
];
const ALLOCATED: &[(&str, &str)] = &[
    ("allocations", "blocks that the thread allocates, if the program's allocator is a CountingAllocator"),
    ("allocated_bytes", "their bytes"),
];

/// Whether it is a time, or counts cycles.
pub(crate) fn is_time_or_cycles(event: &str) -> bool {
    TIMES.iter().any(|(name, _)| is_same_event(name, event)) || ["cycles", "clock"].iter().any(|of| event.contains(of))
}

/// Whether it depends on the machine's state, and so differs from run to run of the same work: times, cycles, and the
/// kernel's software events, such as page faults and context switches.
pub(crate) fn depends_on_machine(event: &str) -> bool {
    let is_of_kernel = |event: Event| matches!(event.kind(), Kind::Software(_));
    is_time_or_cycles(event) || dashed(event).parse().is_ok_and(is_of_kernel)
}

/// Syntax that no machine lists and that can be used everywhere.
const GRAMMAR: &[(&str, &str)] = &[
    ("r01c2", "the processor's event with that hexadecimal number: on x86, unit mask and event select"),
    ("PMU/event=0xc2,umask=1/", "an event of a PMU, by the fields of its format (below)"),
    ("PMU/EVENT,ldlat=30/", "an event that the PMU lists, with additional fields"),
    ("SYSTEM:NAME", "a tracepoint of /sys/kernel/tracing/events, which only root may read"),
    ("mem:0x1000/8:w", "writes to 8 bytes at that address"),
    ("uprobe/path=/bin/true,offset=0x1130/", "executions of the instruction at that offset in the file"),
    ("kprobe/func=vfs_read/", "calls of that function of the kernel"),
    ("EVENT:u, EVENT:k, EVENT:uk", "an event in user mode (the default), in the kernel, in both"),
];

/// The list while it is built.
struct List<'a> {
    pattern: Option<&'a str>,
    text: String,
    /// The reasons why events cannot be counted; most events have the same one.
    reasons: Vec<String>,
}

impl List<'_> {
    /// Adds a section with the lines that match.
    fn section(&mut self, title: &str, kinds: &[&str], lines: Vec<(String, String, Option<Event>)>) {
        let is_kind = self.pattern.is_none_or(|pattern| kinds.contains(&pattern));
        let lines = lines.into_iter().filter(|(name, ..)| is_kind || self.matches(name));
        let lines: Vec<_> = lines.collect();
        if lines.is_empty() {
            return;
        }
        let widest = lines.iter().map(|(name, ..)| name.chars().count()).max().unwrap_or(0).min(60);
        _ = writeln!(self.text, "{}{title}", if self.text.is_empty() { "" } else { "\n" });
        for (name, about, event) in lines {
            let (symbol, reason) = match event.map(|event| Counter::open(&Attr::new(event))) {
                None => (' ', String::new()),
                Some(Ok(_)) => ('✓', String::new()),
                Some(Err(error)) => ('✗', format!("[{}] ", self.number(error.reason()))),
            };
            let line = format!("  {symbol} {name:widest$}  {reason}{about}");
            self.text += line.trim_end();
            self.text += "\n";
        }
    }

    fn number(&mut self, reason: &str) -> usize {
        if let Some(at) = self.reasons.iter().position(|known| known == reason) {
            return at + 1;
        }
        self.reasons.push(reason.into());
        self.reasons.len()
    }

    /// Whether the name contains the pattern, where `*` matches anything.
    fn matches(&self, name: &str) -> bool {
        let Some(pattern) = self.pattern else { return true };
        let (name, pattern) = (dashed(&name.to_lowercase()), dashed(&pattern.to_lowercase()));
        let mut rest = name.as_str();
        pattern.split('*').all(|part| match rest.find(part) {
            Some(at) => {
                rest = &rest[at + part.len()..];
                true
            }
            None => false,
        })
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, String> {
    let pattern = arguments.pattern.as_deref();
    let mut list = List { pattern, text: String::new(), reasons: Vec::new() };
    let unlisted =
        |lines: &[(&str, &str)]| lines.iter().map(|&(form, about)| (form.to_owned(), about.to_owned(), None)).collect();
    list.section("perfmark's own events", &["own"], unlisted(&[TIMES, ALLOCATED].concat()));
    let named = |names: &[&str], event: Event| (names.join(" OR "), String::new(), Some(event));
    let hardware = Hardware::ALL.iter().map(|&event| named(event.names(), event.into()));
    list.section("hardware events", &["hw", "hardware"], hardware.collect());
    let software = Software::ALL.iter().map(|&event| named(event.names(), event.into()));
    list.section("software events, counted by the kernel", &["sw", "software"], software.collect());
    let cache = CacheEvent::all().map(|event| (event.to_string(), String::new(), Some(event.into())));
    list.section("cache events", &["cache", "hwcache"], cache.collect());
    let pmus = Machine::here().list_pmus().map_err(|error| error.to_string())?;
    for pmu in pmus.iter().filter(|pmu| !pmu.events.is_empty()) {
        list.section(&title(pmu), &["pmu", &pmu.name], pmu_events(pmu));
    }
    list.section("other events, which are not listed", &["raw"], unlisted(GRAMMAR));
    for pmu in pmus.iter().filter(|pmu| !pmu.fields.is_empty()) {
        let fields = pmu.fields.iter().map(|field| (format!("{}/{}=", pmu.name, field.name), field.bits.clone(), None));
        list.section(&format!("fields of {}", pmu.name), &["raw", "pmu", &pmu.name], fields.collect());
    }
    if list.text.is_empty() {
        let pattern = pattern.unwrap_or_default();
        output::say(&format!("no event matches {pattern}{}", suggestion(pattern)));
        return Ok(ExitCode::FAILURE);
    }
    for (n, reason) in list.reasons.iter().enumerate() {
        _ = writeln!(list.text, "{}[{}] {reason}", if n == 0 { "\n" } else { "" }, n + 1);
    }
    output::print(&list.text)?;
    Ok(ExitCode::SUCCESS)
}

/// `; did you mean …?` if the pattern is similar to names of events.
fn suggestion(pattern: &str) -> String {
    let unknown = pattern.parse().and_then(|event: Event| event.resolve(&Machine::here())).err();
    let listed = unknown.as_ref().and_then(|error| error.similar_names()).unwrap_or_default();
    let own = perfmark_rdpmc::nearest(pattern, TIMES.iter().chain(ALLOCATED).map(|(name, _)| *name));
    let similar: Vec<&str> = own.into_iter().chain(listed.iter().map(String::as_str)).collect();
    if similar.is_empty() { String::new() } else { format!("; did you mean {}?", similar.join(", ")) }
}

fn title(pmu: &ListedPmu) -> String {
    let what = match (pmu.is_core, &pmu.cpumask) {
        (true, _) => ", of the cores".into(),
        (false, Some(cpus)) => format!(", opened on CPUs {cpus}; most such PMUs do not count threads"),
        (false, None) => String::new(),
    };
    format!("PMU {}{what}", pmu.name)
}

fn pmu_events(pmu: &ListedPmu) -> Vec<(String, String, Option<Event>)> {
    let line = |event: &perfmark_rdpmc::ListedEvent| {
        let name = format!("{}/{}/", pmu.name, event.name);
        let unit = event.unit.as_ref().map(|unit| format!(" ({unit})")).unwrap_or_default();
        let parsed = name.parse().ok();
        (name, sanitize(&format!("{}{unit}", event.terms)), parsed)
    };
    pmu.events.iter().map(line).collect()
}
