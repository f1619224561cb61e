//! Names of sampled lines, in the reports that the process writes by itself.

#[cfg(feature = "symbols")]
use crate::platform::program::program;
#[cfg(feature = "symbols")]
use crate::snapshot::Samples;
use crate::snapshot::Snapshot;
#[cfg(feature = "symbols")]
use crate::snapshot::symbols::{NOTE, Symbols};

/// The names of samples in a process that writes several reports: each address is named once.
#[derive(Default)]
pub(super) struct Names {
    /// The locations of the last report's samples.
    #[cfg(feature = "symbols")]
    known: Vec<Samples>,
    /// Why some have no lines.
    #[cfg(feature = "symbols")]
    notes: Vec<String>,
}

impl Names {
    /// Names the lines of samples, from the debug information of the program and its libraries.
    #[cfg(feature = "symbols")]
    pub(super) fn add_to(&mut self, snapshot: &mut Snapshot) {
        if !snapshot.take_names(&self.known) {
            // Packed debug information is beside the program. The program's file may have been replaced since it
            // started. A file is used if its build id is the right one.
            let places = program().into_iter().chain(["/proc/self/exe".into()]);
            let symbols = places.fold(Symbols::new(), Symbols::search).skip_system_lines();
            let problems = symbols.name(snapshot);
            self.notes = problems.iter().map(|problem| format!("{NOTE}{problem}")).collect();
            self.known = snapshot.samples.iter().map(Samples::names).collect();
        }
        snapshot.notes.extend(self.notes.iter().cloned());
    }

    /// Without the feature, nothing has names.
    #[allow(clippy::unused_self, reason = "as with the feature")]
    #[cfg(not(feature = "symbols"))]
    pub(super) fn add_to(&mut self, _: &mut Snapshot) {}
}
