//! An event on a machine: its numbers there.

use super::breakpoint::Breakpoint;
use super::cache::CacheEvent;
use super::encoding::Encoding;
use super::failure::Failure;
use super::generic::{Hardware, Software};
use super::kind::Kind;
use super::nearest::{did_you_mean, nearest};
use super::pmu::Pmu;
use super::term::Term;
use super::{parse, probe, terms, tracepoint};
use crate::error::Error;
use crate::machine::{DEVICES, Machine, Unreadable};
use crate::sys::{TYPE_BREAKPOINT, TYPE_HARDWARE, TYPE_HW_CACHE, TYPE_RAW, TYPE_SOFTWARE, aim_of, aimed_at};

/// The event's numbers on `machine`. `tried` names the event in errors.
pub(super) fn resolve(kind: &Kind, machine: &Machine, tried: &dyn Fn() -> String) -> Result<Vec<Encoding>, Error> {
    let explain = |failure: Failure| failure.explain(tried());
    match kind {
        Kind::Hardware(event) => on_cores(machine, TYPE_HARDWARE, *event as u64).map_err(explain),
        Kind::Cache(event) => on_cores(machine, TYPE_HW_CACHE, event.config()).map_err(explain),
        Kind::Raw(config) => on_cores(machine, TYPE_RAW, *config).map_err(explain),
        Kind::Software(event) => Ok(vec![Encoding::new(TYPE_SOFTWARE, *event as u64)]),
        Kind::Numbered { kind, config } => {
            numbered(machine, *kind, *config).map(|encoding| vec![encoding]).map_err(explain)
        }
        Kind::Breakpoint(breakpoint) => {
            breakpoint.encode().map(|encoding| vec![encoding]).map_err(|why| Error::refused(tried(), why))
        }
        Kind::Tracepoint { system, name } => {
            tracepoint::encode(machine, tried, system, name).map(|encoding| vec![encoding])
        }
        Kind::Pmu { pmu, terms } => on_pmus(machine, pmu, terms).map_err(explain),
        Kind::Named(name) => named(machine, name).map_err(explain),
    }
}

impl Breakpoint {
    fn encode(self) -> Result<Encoding, String> {
        if let Some(why) = self.refusal() {
            return Err(why);
        }
        let mut encoding = Encoding::new(TYPE_BREAKPOINT, 0);
        (encoding.config1, encoding.config2) = (self.address, u64::from(self.length()));
        encoding.bp_type = self.access as u32;
        Ok(encoding)
    }
}

/// Those of the names that are PMUs' still.
fn found<'a>(machine: &'a Machine, names: &[String]) -> Result<Vec<Pmu<'a>>, Failure> {
    names.iter().filter_map(|name| Pmu::find(machine, name).transpose()).collect()
}

fn core_pmus(machine: &Machine) -> Result<Vec<Pmu<'_>>, Failure> {
    found(machine, &machine.core_pmus()?)
}

/// The PMUs whose files make sense, for what is about one of them.
fn sound_pmus(machine: &Machine) -> Result<Vec<Pmu<'_>>, Failure> {
    let mut pmus = Vec::new();
    for name in machine.pmus()? {
        match Pmu::find(machine, &name) {
            Ok(pmu) => pmus.extend(pmu),
            Err(Failure::Wrong(_)) => {}
            Err(unreadable) => return Err(unreadable),
        }
    }
    Ok(pmus)
}

/// An event that every core PMU knows by the same number. With one of them, or none, the kernel chooses; of several each has to be
/// named.
fn on_cores(machine: &Machine, kind: u32, config: u64) -> Result<Vec<Encoding>, Failure> {
    let pmus = core_pmus(machine)?;
    if let [] | [_] = pmus[..] {
        let mut encoding = Encoding::new(kind, config);
        if let Some(pmu) = pmus.first().filter(|pmu| pmu.kind == kind) {
            encoding.counted_by = terms::counted_by(pmu, &encoding)?;
        }
        return Ok(vec![encoding]);
    }
    let aimed = pmus.into_iter().map(|pmu| {
        let mut encoding = match kind {
            TYPE_RAW => Encoding::new(pmu.kind, config),
            _ => Encoding::new(kind, aimed_at(pmu.kind, config)),
        };
        encoding.counted_by = terms::counted_by(&pmu, &encoding)?;
        encoding.pmu = Some(pmu.name().into());
        Ok(encoding)
    });
    aimed.collect()
}

/// Type and config as they are. The type may be a PMU's, or a generic event's that is aimed at one.
fn numbered(machine: &Machine, kind: u32, config: u64) -> Result<Encoding, Failure> {
    let mut encoding = Encoding::new(kind, config);
    let is_of = |pmu: &Pmu<'_>| match kind {
        TYPE_HARDWARE | TYPE_HW_CACHE => u64::from(pmu.kind) == aim_of(config),
        _ => pmu.kind == kind,
    };
    if let Some(pmu) = sound_pmus(machine)?.into_iter().find(is_of) {
        if probe::is_probe(pmu.name()) {
            return Err(format!("{} wants a place besides: {}", pmu.name(), probe::example(pmu.name())).into());
        }
        if pmu.is_core()? {
            encoding.counted_by = terms::counted_by(&pmu, &encoding)?;
        }
        encoding.pmu = Some(pmu.name().into());
    }
    Ok(encoding)
}

/// On the PMU of that name, or on each of the core PMUs whose names begin so.
fn on_pmus(machine: &Machine, name: &str, terms: &[Term]) -> Result<Vec<Encoding>, Failure> {
    let cores = core_pmus(machine)?;
    let several = cores.len() > 1;
    if let Some(pmu) = Pmu::find(machine, name)? {
        let encoding =
            if probe::is_probe(name) { probe::encode(&pmu, terms) } else { terms::encode(&pmu, terms, several) };
        return Ok(vec![encoding?]);
    }
    let mut alike: Vec<&Pmu<'_>> = cores.iter().filter(|pmu| pmu.name().starts_with(name)).collect();
    let mut terms = terms.to_vec();
    if alike.is_empty() {
        // Not a PMU but an event of one.
        let is_generic = parse::generic(name).is_some();
        for pmu in &cores {
            if is_generic || pmu.lists(name)? {
                alike.push(pmu);
            }
        }
        terms.insert(0, Term { name: name.into(), value: None });
    }
    let (mut encodings, mut refusal) = (Vec::new(), None);
    for pmu in alike {
        match terms::encode(pmu, &terms, several) {
            Ok(encoding) => encodings.push(encoding),
            // On the other kinds of core it may be counted all the same, and then in part.
            Err(unreadable @ Failure::Unreadable(_)) => return Err(unreadable),
            Err(why) => refusal = refusal.or(Some(why)),
        }
    }
    match refusal {
        _ if !encodings.is_empty() => Ok(encodings),
        Some(why) => Err(why),
        None => Err(no_pmu(machine, name)?),
    }
}

fn no_pmu(machine: &Machine, name: &str) -> Result<Failure, Unreadable> {
    let all = machine.names(DEVICES)?;
    if all.is_empty() {
        return Ok(format!("there is no PMU {name}: this machine's sysfs shows none").into());
    }
    let near = nearest(name, all.iter().map(String::as_str));
    Ok(format!("there is no PMU {name}{}; there are {}", did_you_mean(&near), all.join(", ")).into())
}

/// An event of that name in a PMU's list: of the core PMUs all that have it, else the first of the others.
fn named(machine: &Machine, name: &str) -> Result<Vec<Encoding>, Failure> {
    let cores = core_pmus(machine)?;
    let several = cores.len() > 1;
    let encode = |pmu: &Pmu<'_>| -> Result<Option<Encoding>, Failure> {
        let same = |event: &String| event.replace('_', "-") == name.replace('_', "-");
        let events = pmu.events()?;
        let Some(event) =
            events.iter().find(|event| *event == name).or_else(|| events.iter().find(|event| same(event)))
        else {
            return Ok(None);
        };
        terms::encode(pmu, &[Term { name: event.clone(), value: None }], several).map(Some)
    };
    let on_cores: Vec<Encoding> = cores.iter().filter_map(|pmu| encode(pmu).transpose()).collect::<Result<_, _>>()?;
    if !on_cores.is_empty() {
        return Ok(on_cores);
    }
    for pmu in sound_pmus(machine)? {
        if let Some(encoding) = encode(&pmu)? {
            return Ok(vec![encoding]);
        }
    }
    Err(unknown(machine, name)?)
}

/// The generic names and this machine's events, of which those nearest to `name` are told.
fn unknown(machine: &Machine, name: &str) -> Result<Failure, Failure> {
    // Of a machine whose list of PMUs is hidden nobody knows what it has.
    machine.names(DEVICES)?;
    let caches: Vec<String> = CacheEvent::all().map(|event| event.to_string()).collect();
    let mut listed = Vec::new();
    for pmu in sound_pmus(machine)? {
        listed.extend(pmu.events()?);
    }
    let hardware = Hardware::ALL.iter().flat_map(|event| event.names()).copied();
    let software = Software::ALL.iter().flat_map(|event| event.names()).copied();
    let near = nearest(name, hardware.chain(software).chain(caches.iter().chain(&listed).map(String::as_str)));
    if !near.is_empty() {
        return Ok(format!("this machine has no such event{}", did_you_mean(&near)).into());
    }
    let shown = Hardware::ALL.iter().map(|event| event.name()).chain(Software::ALL.iter().map(|event| event.name()));
    Ok(format!(
        "this machine has no such event; there are {}, cache events as L1-dcache-load-misses, raw ones as r1c2 (hexadecimal), and \
         those of a PMU as cpu/event=0xc2/",
        shown.collect::<Vec<_>>().join(", ")
    )
    .into())
}
