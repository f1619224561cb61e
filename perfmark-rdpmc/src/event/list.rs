//! The PMUs, events and fields that sysfs lists, for programs that show them to people.

use super::pmu::Pmu;
use crate::error::Error;
use crate::machine::{DEVICES, Machine};

/// A PMU, its events, and the fields with which other events can be written.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListedPmu {
    /// Its name, as written before the slash in `cpu/instructions/`.
    pub name: String,
    /// The kernel's number for its type of events.
    pub kind: Option<u32>,
    /// Whether it counts what a core does, and can therefore count for a thread.
    pub is_core: bool,
    /// The CPUs on which to open its events, such as `0,24` or `0-3`, if it lists them (`cpumask`). Most PMUs that do
    /// count for entire CPUs, sockets or machines, never for one thread. Arm's SPE samples threads all the same.
    pub cpumask: Option<String>,
    /// The events that it lists.
    pub events: Vec<ListedEvent>,
    /// The fields of its format.
    pub fields: Vec<ListedField>,
}

/// An event that a PMU lists.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListedEvent {
    /// Its name.
    pub name: String,
    /// Its terms, such as `event=0xc4,umask=0x20`.
    pub terms: String,
    /// The unit of its scaled count, if it has one.
    pub unit: Option<String>,
}

/// A field of a PMU's format.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListedField {
    /// Its name.
    pub name: String,
    /// The bits that it sets, such as `config:0-7,32-35`.
    pub bits: String,
}

impl Machine {
    /// The PMUs in sysfs, by name. Details of a PMU that cannot be read are left out.
    ///
    /// ```
    /// for pmu in perfmark_rdpmc::Machine::here().list_pmus()? {
    ///     println!("{}: {} events", pmu.name, pmu.events.len());
    /// }
    /// # Ok::<(), perfmark_rdpmc::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the list of PMUs cannot be read.
    pub fn list_pmus(&self) -> Result<Vec<ListedPmu>, Error> {
        let names = self.pmus().map_err(|file| file.explain("PMUs"))?;
        Ok(names.into_iter().map(|name| self.list_pmu(name)).collect())
    }

    fn list_pmu(&self, name: String) -> ListedPmu {
        let pmu = Pmu::find(self, &name).ok().flatten();
        let events = pmu.as_ref().and_then(|pmu| pmu.events().ok()).unwrap_or_default();
        let event = |event: String| ListedEvent {
            terms: self.text(format!("{DEVICES}/{name}/events/{event}")).unwrap_or_default(),
            unit: pmu.as_ref().and_then(|pmu| pmu.unit(&event).ok().flatten()),
            name: event,
        };
        let fields = pmu.as_ref().and_then(|pmu| pmu.fields().ok()).unwrap_or_default();
        let field = |field: String| ListedField {
            bits: self.text(format!("{DEVICES}/{name}/format/{field}")).unwrap_or_default(),
            name: field,
        };
        ListedPmu {
            kind: pmu.as_ref().map(|pmu| pmu.kind),
            is_core: pmu.as_ref().is_some_and(|pmu| pmu.is_core().unwrap_or(false)),
            cpumask: self.cpumask(&name),
            events: events.into_iter().map(event).collect(),
            fields: fields.into_iter().map(field).collect(),
            name,
        }
    }
}
