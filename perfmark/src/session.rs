//! What a scope recorded.

use std::path::PathBuf;

use crate::collect;
use crate::config::config;
use crate::filter::{Filter, SetFilterError};
use crate::report::{Format, Report};
use crate::snapshot::Snapshot;
use crate::terminal::{STDERR, print_report, say};
use crate::{recorder, settings, start};

/// Puts a filter in force, unless a signal handler asks for it that interrupted perfmark's own work.
pub(crate) fn set_filter(filter: &Filter) -> Result<(), SetFilterError> {
    let set = || {
        start::start();
        settings::set(filter)
    };
    let in_handler =
        || Err(SetFilterError::of_all("a signal handler asked for it that interrupted perfmark's own work"));
    recorder::own_work(set).unwrap_or_else(in_handler)
}

/// What is recorded from here to the end of a scope, told there: on stderr, or in a [file](Self::output).
///
/// It is of the whole process, all threads included, and takes nothing from other sessions or the report at exit.
///
/// ```standalone_crate
/// use perfmark::{Session, perfmark};
///
/// #[perfmark(time)]
/// fn query() {}
///
/// fn handle() {
///     let _session = Session::new();
///     query();
/// } // The table is written here.
///
/// let session = Session::new();
/// query();
/// let recorded = session.finish();
/// assert_eq!(recorded.marks.iter().find(|mark| mark.name == "query").map(|mark| mark.calls), Some(1));
/// ```
#[derive(Debug)]
#[must_use = "it ends when it is dropped"]
pub struct Session {
    before: Snapshot,
    process: start::Process,
    /// In force before it.
    filter: Option<Filter>,
    output: Option<PathBuf>,
    format: Format,
    is_told: bool,
}

impl Session {
    /// Begins one.
    #[allow(clippy::new_without_default, reason = "it begins something")]
    pub fn new() -> Self {
        Self {
            before: collect::snapshot(),
            process: start::this_process(),
            filter: None,
            output: None,
            format: Format::default(),
            is_told: true,
        }
    }

    /// The same, with that filter in force until its end, and then the one before again.
    pub fn filter(mut self, filter: &Filter) -> Self {
        self.filter.get_or_insert_with(|| settings::filter().cloned().unwrap_or_default());
        // A note of the report tells of marks that could not be given its settings.
        _ = set_filter(filter);
        self
    }

    /// The same, told in a file, which is [replaced as a whole](Report::write_to).
    pub fn output(mut self, file: impl Into<PathBuf>) -> Self {
        self.output = Some(file.into());
        self
    }

    /// The same, told in another form.
    pub fn format(mut self, format: Format) -> Self {
        self.format = format;
        self
    }

    /// What was recorded until now.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        collect::snapshot().since(&self.before)
    }

    /// Ends it without telling, and gives what was recorded.
    #[must_use]
    pub fn finish(mut self) -> Snapshot {
        self.is_told = false;
        self.snapshot()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // A forked child has its parent's, and does not tell it.
        let is_told = self.is_told && config().on && self.process.is_this();
        let snapshot = is_told.then(|| self.snapshot());
        if let Some(filter) = &self.filter {
            // Settings that marks had before take no slot.
            _ = set_filter(filter);
        }
        let Some(snapshot) = snapshot else { return };
        let report = Report::new(&snapshot).format(self.format);
        let Some(file) = &self.output else {
            return print_report(STDERR, &format!("\n{}", report.on(STDERR, config().may_color)));
        };
        if let Err(error) = report.write_in(file, start::is_forked_child()) {
            say(&format!("{}: {error}; the report follows", file.display()));
            print_report(STDERR, &report.to_string());
        }
    }
}
