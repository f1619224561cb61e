//! Sessions: what was recorded during a scope.

use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use super::naming::Names;
use super::output_settings::{after_the_program, output_settings};
use crate::platform::terminal::{STDERR, print_report, say};
use crate::recording::collect;
use crate::recording::{set_filter_in_session, start};
use crate::report::Format;
use crate::settings::Filter;
use crate::settings::recording::settings;
use crate::snapshot::Snapshot;

/// Writes a report at the end of a scope of what was recorded since its beginning, on stderr or in a
/// [file](Self::output).
///
/// The report covers the whole process with all threads. A session does not affect other sessions or the report at
/// exit, unless it has a [filter](Self::filter).
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
    /// Its number, if it has set a filter.
    number: Option<u64>,
    output: Option<PathBuf>,
    format: Format,
    writes_report: bool,
}

impl Session {
    /// Begins a session.
    #[allow(clippy::new_without_default, reason = "it has an effect")]
    pub fn new() -> Self {
        start::note_api_use();
        Self {
            before: collect::snapshot(),
            process: start::this_process(),
            number: None,
            output: None,
            format: Format::default(),
            writes_report: true,
        }
    }

    /// Puts the filter in force for the whole process, until the session ends or
    /// [`set_filter`](crate::set_filter) replaces it. If several sessions have filters, the one that was set last is in
    /// force. After the last of these sessions, the filter before the first is in force again.
    pub fn filter(mut self, filter: &Filter) -> Self {
        static SESSIONS: AtomicU64 = AtomicU64::new(0);
        let number = *self.number.get_or_insert_with(|| SESSIONS.fetch_add(1, Relaxed));
        // If marks could not be given its settings, a note of the report says so.
        _ = set_filter_in_session(number, Some(filter));
        self
    }

    /// Writes the report to a file, which is [replaced atomically](crate::Report::write_to).
    pub fn output(mut self, file: impl Into<PathBuf>) -> Self {
        let file = file.into();
        // The program may change its directory.
        self.output = Some(std::path::absolute(&file).unwrap_or(file));
        self
    }

    /// Writes the report in another format.
    pub fn format(mut self, format: Format) -> Self {
        self.format = format;
        self
    }

    /// What was recorded until now.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        collect::snapshot().since(&self.before)
    }

    /// Ends the session without a report, and returns what was recorded.
    #[must_use]
    pub fn finish(mut self) -> Snapshot {
        self.writes_report = false;
        self.snapshot()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // A forked child has a copy of its parent's session, and writes no report for it.
        let writes_report = self.writes_report && !settings().is_off && self.process.is_this();
        let snapshot = writes_report.then(|| self.snapshot());
        if let Some(number) = self.number {
            // Settings that marks had before take no slot.
            _ = set_filter_in_session(number, None);
        }
        let Some(mut snapshot) = snapshot else { return };
        Names::default().add_to(&mut snapshot);
        let report = output_settings().report(&snapshot, self.format);
        let Some(file) = &self.output else {
            let report = report.on(STDERR, output_settings().may_color);
            return print_report(STDERR, &after_the_program(&report, self.format));
        };
        if let Err(error) = report.write_in(file, start::is_forked_child()) {
            say(&format!("{}: {error}; the report follows", file.display()));
            print_report(STDERR, &report.to_string());
        }
    }
}
