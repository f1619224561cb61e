//! A snapshot as text: for people, or for programs.
//!
//! Sees [`Snapshot`] and nothing deeper; whatever a snapshot holds, rendering it neither fails nor panics.

mod quantity;
mod signs;
mod style;
mod text;

mod kinds;
mod names;
mod share;
mod unfinished;

mod histogram;

mod column;
mod coverage;
mod facts;
mod legend;

mod markdown;
mod table;

mod stacks;

#[cfg(feature = "csv")]
mod csv;
#[cfg(feature = "flamegraph")]
mod flame_graph;
#[cfg(feature = "json")]
mod json;
#[cfg(feature = "prometheus")]
mod openmetrics;

#[cfg(feature = "html")]
mod html;

#[cfg(test)]
mod looks;
#[cfg(test)]
mod sample;

#[cfg(feature = "prometheus")]
pub(crate) use openmetrics::{Families, MOST_LABELS};

use std::borrow::Cow;
use std::fmt::{self, Display, Formatter};
use std::io;
use std::path::Path;
use std::str::FromStr;

use crate::filter::Filter;
use crate::output::{in_this_process, write_file};
use crate::snapshot::Snapshot;
use crate::terminal::{DEFAULT_WIDTH, is_terminal, width_of};

/// How a report is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// For people.
    #[default]
    Table,
    /// For programs: the complete snapshot. `schema/report-2.json` of this crate is its JSON Schema.
    #[cfg(feature = "json")]
    Json,
    /// For spreadsheets and data frames: a row for each mark and event, with plain numbers, under the names that they
    /// have in JSON (RFC 4180). Control characters in names are replaced. A name that begins with `=`, `+`, `-` or `@`,
    /// which spreadsheets take for a formula, or with an apostrophe, has an apostrophe before it.
    #[cfg(feature = "csv")]
    Csv,
    /// For a pull request: a table as GitHub has it.
    Markdown,
    /// For people with a browser: one page that needs nothing else, with each mark's distributions and the [call graph](Snapshot::call_graph).
    #[cfg(feature = "html")]
    Html,
    /// For flame graphs: `caller;callee N`, N being what the callee's calls cost themselves in the event that orders the table. Where it was not recorded who
    /// called whom, each mark by itself.
    Folded,
    /// A flame graph of the same, as an SVG image.
    #[cfg(feature = "flamegraph")]
    FlameGraph,
    /// For Prometheus and its like: the text that [`Metrics`](crate::Metrics) gives.
    #[cfg(feature = "prometheus")]
    OpenMetrics,
}

impl Format {
    /// The names of the formats that this build has: what `PERFMARK_FORMAT` and `parse` take.
    ///
    /// ```
    /// for name in perfmark::Format::names() {
    ///     assert!(name.parse::<perfmark::Format>().is_ok());
    /// }
    /// ```
    pub fn names() -> impl Iterator<Item = &'static str> {
        Self::NAMES.into_iter().filter(|name| Self::from_name(name).is_ok())
    }

    /// Every format's name, those that this build lacks included.
    pub(crate) const NAMES: [&str; 8] = ["table", "json", "csv", "markdown", "html", "folded", "svg", "openmetrics"];

    /// Formats that not every build has, and the feature that adds them.
    const FEATURES: [(&str, &str); 5] =
        [("json", "json"), ("csv", "csv"), ("html", "html"), ("svg", "flamegraph"), ("openmetrics", "prometheus")];

    /// The format of this name, or a sentence for the user.
    pub(crate) fn from_name(name: &str) -> Result<Self, String> {
        match name {
            "table" => Ok(Self::Table),
            #[cfg(feature = "json")]
            "json" => Ok(Self::Json),
            #[cfg(feature = "csv")]
            "csv" => Ok(Self::Csv),
            "markdown" => Ok(Self::Markdown),
            #[cfg(feature = "html")]
            "html" => Ok(Self::Html),
            "folded" => Ok(Self::Folded),
            #[cfg(feature = "flamegraph")]
            "svg" => Ok(Self::FlameGraph),
            #[cfg(feature = "prometheus")]
            "openmetrics" => Ok(Self::OpenMetrics),
            _ => Err(Self::lacking(name)),
        }
    }

    fn lacking(name: &str) -> String {
        match Self::FEATURES.iter().find(|(known, _)| *known == name) {
            Some((_, feature)) => format!("this build of perfmark has no {name}: enable its feature `{feature}`"),
            None => format!("`{name}` is no format: there are {}", Self::NAMES.join(", ")),
        }
    }
}

impl FromStr for Format {
    type Err = FormatError;

    fn from_str(name: &str) -> Result<Self, FormatError> {
        Self::from_name(name).map_err(FormatError)
    }
}

/// A name that is no format's, or one's that this build lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormatError(String);

impl Display for FormatError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for FormatError {}

/// A snapshot as text, which its `Display` writes.
///
/// ```standalone_crate
/// use perfmark::{Filter, Report, perfmark, snapshot};
///
/// #[perfmark(time)]
/// fn parse() {}
///
/// parse();
/// let snapshot = snapshot();
/// let report = Report::new(&snapshot).marks(&Filter::default().on("*::parse")).width(80);
/// assert!(report.to_string().contains("parse"));
/// ```
#[derive(Clone, Debug)]
pub struct Report<'a> {
    snapshot: Cow<'a, Snapshot>,
    format: Format,
    width: usize,
    has_color: bool,
}

impl<'a> Report<'a> {
    /// A table of 100 columns, without colours.
    #[must_use]
    pub fn new(snapshot: &'a Snapshot) -> Self {
        Self { snapshot: Cow::Borrowed(snapshot), format: Format::default(), width: DEFAULT_WIDTH, has_color: false }
    }

    /// The same in another form.
    #[must_use]
    pub fn format(self, format: Format) -> Self {
        Self { format, ..self }
    }

    /// The same in so many columns, of which a table takes 80 at least.
    #[must_use]
    pub fn width(self, width: usize) -> Self {
        Self { width, ..self }
    }

    /// The same with a terminal's colours or without. Only a table has any; the report at exit has them where it goes to a terminal, unless `NO_COLOR` is set, or
    /// `TERM` is `dumb` or not set.
    #[must_use]
    pub fn color(self, has_color: bool) -> Self {
        Self { has_color, ..self }
    }

    /// The same of those marks only that the filter has on. Shares are of these.
    #[must_use]
    pub fn marks(mut self, filter: &Filter) -> Self {
        self.snapshot.to_mut().retain(|mark| filter.has_mark(mark));
        self
    }

    /// Writes it to a file, which is replaced atomically: a reader sees the old report or the new one. In the file's
    /// name, `%p` is the process number. The kernel reuses numbers, and containers have the same ones. `%u` is a token
    /// that no other process has, and that stays the same as long as the process runs.
    ///
    /// # Errors
    ///
    /// An error of the operating system, or that the file is a link that another user put into a directory where all
    /// may write, such as `/tmp`.
    pub fn write_to(&self, file: impl AsRef<Path>) -> io::Result<()> {
        self.write_in(file.as_ref(), false)
    }

    /// The same for a descriptor: as wide as the terminal there, and in colours, where the user may want them.
    pub(crate) fn on(self, fd: i32, may_color: bool) -> Self {
        self.width(width_of(fd)).color(may_color && is_terminal(fd))
    }

    /// The same in a process that may be a forked child.
    pub(crate) fn write_in(&self, file: &Path, is_child: bool) -> io::Result<()> {
        write_file(&in_this_process(file, is_child), &self.to_string())
    }
}

impl Display for Report<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&render(&self.snapshot, self.format, self.width, self.has_color))
    }
}

/// The report, whose every line ends with a newline. A table takes at most `width` columns, and never less than 80.
fn render(snapshot: &Snapshot, format: Format, width: usize, has_color: bool) -> String {
    match format {
        Format::Table => table::render(snapshot, width.max(table::NARROWEST), has_color),
        #[cfg(feature = "json")]
        Format::Json => json::render(snapshot),
        #[cfg(feature = "csv")]
        Format::Csv => csv::render(snapshot),
        Format::Markdown => markdown::render(snapshot),
        #[cfg(feature = "html")]
        Format::Html => html::render(snapshot),
        Format::Folded => stacks::render(snapshot),
        #[cfg(feature = "flamegraph")]
        Format::FlameGraph => flame_graph::render(snapshot),
        #[cfg(feature = "prometheus")]
        Format::OpenMetrics => openmetrics::render(snapshot),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::{Event, Read, Unit, Values};

    #[test]
    fn every_listed_format_is_known_in_every_build() {
        for name in Format::NAMES {
            match Format::from_name(name) {
                Ok(format) => assert!(render(&sample::typical(), format, 100, false).ends_with('\n')),
                Err(why) => assert!(why.contains("enable its feature"), "{name}: {why}"),
            }
        }
    }

    #[test]
    fn every_format_is_the_same_each_time_whatever_the_snapshot_holds() {
        for format in Format::NAMES.into_iter().filter_map(|name| Format::from_name(name).ok()) {
            for snapshot in sample::nasty() {
                let has_color = format != Format::Table;
                let [one, again] = [false, has_color].map(|has_color| render(&snapshot, format, 100, has_color));
                assert_eq!(one, again, "{format:?}: and only a table has colours");
            }
        }
    }

    #[test]
    fn what_people_or_terminals_are_shown_has_no_sign_that_is_not_seen() {
        let shown = ["table", "csv", "markdown", "folded", "svg", "openmetrics"];
        for format in shown.into_iter().filter_map(|name| Format::from_name(name).ok()) {
            for snapshot in sample::nasty() {
                let text = render(&snapshot, format, 100, false);
                assert!(!text.contains(['\u{1b}', '\u{200b}', '\u{200d}', '\u{202e}']), "{format:?}: {text:?}");
            }
        }
    }

    /// An event at a time that was looked for among all, this would take minutes.
    #[test]
    fn a_mark_of_very_many_events_is_told_at_once() {
        let mut one = sample::mark("one", 1);
        let mut events = Vec::new();
        for number in 0..20_000 {
            let name = format!("r{number:x}");
            events.push(Event {
                reason: Some(format!("reason {number}")),
                ..sample::event(&name, Unit::Count, Read::User)
            });
            one.values.push(Values { unmeasured: number, ..sample::values(&name, 1, 1) });
        }
        let snapshot = sample::snapshot(&events, &[one]);
        for format in ["table", "markdown", "html"].into_iter().filter_map(|name| Format::from_name(name).ok()) {
            assert!(render(&snapshot, format, 100, false).contains("r4e1f"), "{format:?}");
        }
    }

    #[test]
    fn an_unknown_format_is_told_with_the_ones_there_are() {
        assert_eq!(
            Format::from_name("xml").unwrap_err(),
            "`xml` is no format: there are table, json, csv, markdown, html, folded, svg, openmetrics"
        );
    }
}
