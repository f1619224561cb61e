//! A PMU as sysfs describes it (`Documentation/ABI/testing/sysfs-bus-event_source-devices-{format,events,caps}`).

use super::failure::Failure;
use super::format::Format;
use super::term::Term;
use crate::machine::{DEVICES, Machine, Unreadable};

/// The kernel's own PMUs, whose events no hardware counter counts.
pub(super) const SOFTWARE_PMUS: &[&str] = &["software", "tracepoint", "breakpoint", "kprobe", "uprobe", "msr"];

/// Suffixes of files that describe an event of the same name.
const ATTRIBUTE_SUFFIXES: &[&str] = &[".scale", ".unit", ".snapshot", ".per-pkg"];

#[derive(Clone, Debug)]
pub(crate) struct Pmu<'a> {
    machine: &'a Machine,
    name: String,
    /// The `type` for `struct perf_event_attr`.
    pub(super) kind: u32,
}

impl<'a> Pmu<'a> {
    /// `None` if there is no PMU with that name. An error if its `type` cannot be read.
    pub(crate) fn find(machine: &'a Machine, name: &str) -> Result<Option<Self>, Failure> {
        let path = format!("{DEVICES}/{name}/type");
        let Some(kind) = machine.read(&path)? else { return Ok(None) };
        let kind = kind.parse().map_err(|_| format!("/{path} does not contain a type: {kind:?}"))?;
        Ok(Some(Self { machine, name: name.into(), kind }))
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    fn file(&self, file: &str) -> String {
        format!("{DEVICES}/{}/{file}", self.name)
    }

    pub(super) fn is_core(&self) -> Result<bool, Unreadable> {
        Ok(self.machine.core_pmus()?.contains(&self.name))
    }

    /// The bits of a field.
    pub(super) fn format(&self, field: &str) -> Result<Option<Format>, Failure> {
        let path = self.file(&format!("format/{field}"));
        let Some(text) = self.machine.read(&path)? else { return Ok(None) };
        text.parse().map(Some).map_err(|why| format!("/{path}: {why}").into())
    }

    /// The terms of a listed event.
    pub(super) fn event(&self, event: &str) -> Result<Option<Vec<Term>>, Failure> {
        if ATTRIBUTE_SUFFIXES.iter().any(|suffix| event.ends_with(suffix)) {
            return Ok(None);
        }
        let path = self.file(&format!("events/{event}"));
        let Some(text) = self.machine.read(&path)? else { return Ok(None) };
        Term::parse_list(&text).map(Some).map_err(|why| format!("/{path}: {why}").into())
    }

    /// The factor by which to multiply a count of the event.
    pub(super) fn scale(&self, event: &str) -> Result<Option<f64>, Failure> {
        let path = self.file(&format!("events/{event}.scale"));
        let Some(text) = self.machine.read(&path)? else { return Ok(None) };
        let scale = text.parse::<f64>().ok().filter(|scale| scale.is_finite());
        scale.map(Some).ok_or_else(|| format!("/{path} does not contain a factor: {text:?}").into())
    }

    /// The unit of the scaled count.
    pub(super) fn unit(&self, event: &str) -> Result<Option<String>, Unreadable> {
        self.machine.read(self.file(&format!("events/{event}.unit")))
    }

    /// The greatest threshold that its counters support (arm64, `Documentation/arch/arm64/perf.rst`); 0 if they have
    /// none.
    pub(super) fn threshold_max(&self) -> Result<Option<u64>, Unreadable> {
        let text = self.machine.read(self.file("caps/threshold_max"))?;
        Ok(text.and_then(|text| super::term::number(&text).ok()))
    }

    /// The listed events.
    pub(super) fn events(&self) -> Result<Vec<String>, Unreadable> {
        let mut events = self.machine.names(&self.file("events"))?;
        events.retain(|event| !ATTRIBUTE_SUFFIXES.iter().any(|suffix| event.ends_with(suffix)));
        Ok(events)
    }

    /// Whether the event is listed.
    pub(super) fn lists(&self, event: &str) -> Result<bool, Unreadable> {
        Ok(self.events()?.iter().any(|listed| listed == event))
    }

    /// The fields of its format.
    pub(super) fn fields(&self) -> Result<Vec<String>, Unreadable> {
        self.machine.names(&self.file("format"))
    }
}
