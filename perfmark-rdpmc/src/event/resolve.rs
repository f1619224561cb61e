//! Resolves an event on a machine to its encodings.

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
use crate::machine::{DEVICES, Machine, Unreadable};
use crate::sys::{
    TYPE_BREAKPOINT, TYPE_HARDWARE, TYPE_HW_CACHE, TYPE_RAW, TYPE_SOFTWARE, TYPE_TRACEPOINT, config_on_pmu,
    pmu_of_config,
};

/// The event's encodings on `machine`.
pub(super) fn resolve(kind: &Kind, machine: &Machine) -> Result<Vec<Encoding>, Failure> {
    let encoding = match kind {
        Kind::Hardware(event) => return on_cores(machine, TYPE_HARDWARE, *event as u64),
        Kind::Cache(event) => return on_cores(machine, TYPE_HW_CACHE, event.config()),
        Kind::Raw(config) => return on_cores(machine, TYPE_RAW, *config),
        Kind::Pmu { pmu, terms } => return on_pmus(machine, pmu, terms),
        Kind::Named(name) => return named(machine, name),
        Kind::Software(event) => Encoding::new(TYPE_SOFTWARE, *event as u64),
        Kind::Numbered { kind, config } => numbered(machine, *kind, *config)?,
        Kind::Breakpoint(breakpoint) => breakpoint.encode()?,
        Kind::Tracepoint { system, name } => tracepoint::encode(machine, system, name)?,
    };
    Ok(vec![encoding])
}

impl Breakpoint {
    fn encode(self) -> Result<Encoding, Failure> {
        if let Some(why) = self.refusal() {
            return Err(Failure::Refused(why));
        }
        let mut encoding = Encoding::new(TYPE_BREAKPOINT, 0);
        (encoding.config1, encoding.config2) = (self.address, u64::from(self.length()));
        encoding.bp_type = self.access as u32;
        Ok(encoding)
    }
}

/// The PMUs with these names, without those that no longer exist.
fn found<'a>(machine: &'a Machine, names: &[String]) -> Result<Vec<Pmu<'a>>, Failure> {
    names.iter().filter_map(|name| Pmu::find(machine, name).transpose()).collect()
}

fn core_pmus(machine: &Machine) -> Result<Vec<Pmu<'_>>, Failure> {
    found(machine, &machine.core_pmus()?)
}

/// The PMUs whose files are valid, for lookups that need only one of them.
fn valid_pmus(machine: &Machine) -> Result<Vec<Pmu<'_>>, Failure> {
    let mut pmus = Vec::new();
    for name in machine.pmus()? {
        match Pmu::find(machine, &name) {
            Ok(pmu) => pmus.extend(pmu),
            Err(unreadable @ Failure::Unreadable(_)) => return Err(unreadable),
            Err(_) => {}
        }
    }
    Ok(pmus)
}

/// An event that has the same number on every core PMU. With one core PMU, or none, the kernel chooses; with several,
/// each must be named.
fn on_cores(machine: &Machine, kind: u32, config: u64) -> Result<Vec<Encoding>, Failure> {
    let pmus = core_pmus(machine)?;
    if let [] | [_] = pmus[..] {
        let mut encoding = Encoding::new(kind, config);
        if let Some(pmu) = pmus.first().filter(|pmu| pmu.kind == kind) {
            encoding.counted_by = terms::counted_by(pmu, &encoding)?;
        }
        return Ok(vec![encoding]);
    }
    let encodings = pmus.into_iter().map(|pmu| {
        let mut encoding = match kind {
            TYPE_RAW => Encoding::new(pmu.kind, config),
            _ => Encoding::new(kind, config_on_pmu(pmu.kind, config)),
        };
        encoding.counted_by = terms::counted_by(&pmu, &encoding)?;
        encoding.pmu = Some(pmu.name().into());
        Ok(encoding)
    });
    encodings.collect()
}

/// Type and config as given. The type may be a PMU's, or a generic event's whose config names a PMU.
fn numbered(machine: &Machine, kind: u32, config: u64) -> Result<Encoding, Failure> {
    let mut encoding = Encoding::new(kind, config);
    if kind == TYPE_SOFTWARE {
        // The kernel's own, on every machine.
        return Ok(encoding);
    }
    encoding.kernel_only = kind == TYPE_TRACEPOINT && tracepoint::is_kernel_only(machine, config);
    let is_of = |pmu: &Pmu<'_>| match kind {
        TYPE_HARDWARE | TYPE_HW_CACHE => pmu.kind == pmu_of_config(config),
        _ => pmu.kind == kind,
    };
    if let Some(pmu) = valid_pmus(machine)?.into_iter().find(is_of) {
        if probe::is_probe(pmu.name()) {
            return Err(format!("{} also requires a location: {}", pmu.name(), probe::example(pmu.name())).into());
        }
        if pmu.is_core()? {
            encoding.counted_by = terms::counted_by(&pmu, &encoding)?;
        }
        encoding.pmu = Some(pmu.name().into());
    }
    Ok(encoding)
}

/// On the PMU with that name, or on each core PMU whose name begins with it.
fn on_pmus(machine: &Machine, name: &str, terms: &[Term]) -> Result<Vec<Encoding>, Failure> {
    let cores = core_pmus(machine)?;
    let several = cores.len() > 1;
    if let Some(pmu) = Pmu::find(machine, name)? {
        let encoding =
            if probe::is_probe(name) { probe::encode(&pmu, terms) } else { terms::encode(&pmu, terms, several) };
        let mut encoding = encoding?;
        encoding.kernel_only |= pmu.kind == TYPE_TRACEPOINT && tracepoint::is_kernel_only(machine, encoding.config);
        return Ok(vec![encoding]);
    }
    let mut alike: Vec<&Pmu<'_>> = cores.iter().filter(|pmu| pmu.name().starts_with(name)).collect();
    let mut terms = terms.to_vec();
    if alike.is_empty() {
        // The name is not a PMU, but an event of one.
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
            // Other kinds of core may still count it, and the count then covers only those.
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
        return Ok(format!("there is no PMU {name}: this machine's sysfs lists none").into());
    }
    let near = nearest(name, all.iter().map(String::as_str));
    Ok(format!("there is no PMU {name}{}; available: {}", did_you_mean(&near), all.join(", ")).into())
}

/// An event that a PMU lists by that name: on all core PMUs that list it, otherwise on the only other one that does.
fn named(machine: &Machine, name: &str) -> Result<Vec<Encoding>, Failure> {
    let cores = core_pmus(machine)?;
    let several = cores.len() > 1;
    let listed = |pmu: &Pmu<'_>| -> Result<Option<String>, Failure> {
        let same = |event: &&String| event.replace('_', "-") == name.replace('_', "-");
        let events = pmu.events()?;
        Ok(events.iter().find(|event| *event == name).or_else(|| events.iter().find(same)).cloned())
    };
    let encode = |pmu: &Pmu<'_>, event: &str| terms::encode(pmu, &[Term { name: event.into(), value: None }], several);
    let mut on_cores = Vec::new();
    for pmu in &cores {
        if let Some(event) = listed(pmu)? {
            on_cores.push(encode(pmu, &event)?);
        }
    }
    if !on_cores.is_empty() {
        return Ok(on_cores);
    }
    let mut others = Vec::new();
    for pmu in valid_pmus(machine)? {
        if let Some(event) = listed(&pmu)? {
            others.push((pmu, event));
        }
    }
    match &others[..] {
        [] => Err(unknown(machine, name)?),
        [(pmu, event)] => Ok(vec![encode(pmu, event)?]),
        [(first, event), (second, other), ..] => Err(format!(
            "{} PMUs list it, and each counts a part; name one of them, as in {}/{event}/ or {}/{other}/",
            others.len(),
            first.name(),
            second.name()
        )
        .into()),
    }
}

/// The error for an unknown name, with similar generic names and events of this machine.
fn unknown(machine: &Machine, name: &str) -> Result<Failure, Failure> {
    // If the list of PMUs is hidden, it is unknown which events the machine has.
    machine.names(DEVICES)?;
    let caches: Vec<String> = CacheEvent::all().map(|event| event.to_string()).collect();
    let mut listed = Vec::new();
    for pmu in valid_pmus(machine)? {
        listed.extend(pmu.events()?);
    }
    let hardware = Hardware::ALL.iter().flat_map(|event| event.names()).copied();
    let software = Software::ALL.iter().flat_map(|event| event.names()).copied();
    let near = nearest(name, hardware.chain(software).chain(caches.iter().chain(&listed).map(String::as_str)));
    if !near.is_empty() {
        let why = format!("this machine has no such event{}", did_you_mean(&near));
        return Ok(Failure::Unknown(why, near.into_iter().map(str::to_owned).collect()));
    }
    let shown = Hardware::ALL.iter().map(|event| event.name()).chain(Software::ALL.iter().map(|event| event.name()));
    let why = format!(
        "this machine has no such event; available are {}, cache events such as L1-dcache-load-misses, raw events such \
         as r1c2 (hexadecimal), and events of a PMU such as cpu/event=0xc2/",
        shown.collect::<Vec<_>>().join(", ")
    );
    Ok(Failure::Unknown(why, Vec::new()))
}
