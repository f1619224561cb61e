//! A snapshot as text: for people, or for programs.
//!
//! It uses [`Snapshot`] and nothing below it. Rendering neither fails nor panics, whatever the snapshot contains.

mod count;
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
    /// For people: the table.
    #[default]
    Table,
    /// For programs: the complete snapshot. `schema/report-2.json` of this crate is its JSON Schema.
    #[cfg(feature = "json")]
    Json,
    /// For spreadsheets and data frames: one row per mark and event, with plain numbers, under the names that they have
    /// in JSON (RFC 4180). Control characters in names are replaced. An apostrophe is put before a name that begins
    /// with an apostrophe, or with `=`, `+`, `-` or `@`, which spreadsheets treat as a formula.
    #[cfg(feature = "csv")]
    Csv,
    /// For a pull request: a table in GitHub's Markdown.
    Markdown,
    /// For a browser: one self-contained page with each mark's distributions and the [call
    /// graph](Snapshot::call_graph).
    #[cfg(feature = "html")]
    Html,
    /// For flame graphs: lines `caller;callee N`, where N is the self cost of the callee's calls in the event that
    /// orders the table. Without a call graph, each mark is a line by itself.
    Folded,
    /// A flame graph of the same, as an SVG image.
    #[cfg(feature = "flamegraph")]
    FlameGraph,
    /// For Prometheus and compatible systems: the text that [`Metrics`](crate::Metrics) returns.
    #[cfg(feature = "prometheus")]
    OpenMetrics,
}

impl Format {
    /// The names of the formats that this build supports, which `PERFMARK_FORMAT` and `parse` accept.
    ///
    /// ```
    /// for name in perfmark::Format::names() {
    ///     assert!(name.parse::<perfmark::Format>().is_ok());
    /// }
    /// ```
    pub fn names() -> impl Iterator<Item = &'static str> {
        Self::NAMES.into_iter().filter(|name| Self::from_name(name).is_ok())
    }

    /// The names of all formats, including those that this build does not support.
    pub(crate) const NAMES: [&str; 8] = ["table", "json", "csv", "markdown", "html", "folded", "svg", "openmetrics"];

    /// Optional formats, and the features that enable them.
    const FEATURES: [(&str, &str); 5] =
        [("json", "json"), ("csv", "csv"), ("html", "html"), ("svg", "flamegraph"), ("openmetrics", "prometheus")];

    /// The format with this name, or an error message.
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
            _ => Err(Self::unsupported(name)),
        }
    }

    fn unsupported(name: &str) -> String {
        match Self::FEATURES.iter().find(|(known, _)| *known == name) {
            Some((_, feature)) => {
                format!("this build of perfmark does not support {name}: enable its feature `{feature}`")
            }
            None => format!("unknown format `{name}`; expected one of {}", Self::NAMES.join(", ")),
        }
    }
}

impl FromStr for Format {
    type Err = FormatError;

    fn from_str(name: &str) -> Result<Self, FormatError> {
        Self::from_name(name).map_err(FormatError)
    }
}

/// An unknown format, or one that this build does not support.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormatError(String);

impl Display for FormatError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for FormatError {}

/// A snapshot as text, which `Display` writes.
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

    /// Sets the format.
    #[must_use]
    pub fn format(self, format: Format) -> Self {
        Self { format, ..self }
    }

    /// Sets the width in columns; a table has at least 80.
    #[must_use]
    pub fn width(self, width: usize) -> Self {
        Self { width, ..self }
    }

    /// Turns terminal colours on or off. Only a table has colours. The report at exit has them if it goes to a
    /// terminal, unless `NO_COLOR` is set, or `TERM` is `dumb` or not set.
    #[must_use]
    pub fn color(self, has_color: bool) -> Self {
        Self { has_color, ..self }
    }

    /// Keeps only the marks that the filter turns on. Shares are relative to these.
    #[must_use]
    pub fn marks(mut self, filter: &Filter) -> Self {
        self.snapshot.to_mut().retain(|mark| filter.has_mark(mark));
        self
    }

    /// Writes it to a file, which is replaced atomically: a reader sees the old report or the new one. In the file's
    /// name, `%p` is the process number and `%u` is a token. The kernel reuses process numbers, and processes in
    /// different containers can have the same one. No other process has the same token, and it stays the same as long
    /// as the process runs.
    ///
    /// # Errors
    ///
    /// An error of the operating system, or the file is a link that another user created in a directory where all may
    /// write, such as `/tmp`.
    pub fn write_to(&self, file: impl AsRef<Path>) -> io::Result<()> {
        self.write_in(file.as_ref(), false)
    }

    /// Adapts it to a descriptor: the terminal's width, and colours if the user may want them.
    pub(crate) fn on(self, fd: i32, may_color: bool) -> Self {
        self.width(width_of(fd)).color(may_color && is_terminal(fd))
    }

    /// As [`write_to`](Self::write_to), in a process that may be a forked child.
    pub(crate) fn write_in(&self, file: &Path, is_child: bool) -> io::Result<()> {
        write_file(&in_this_process(file, is_child), &self.to_string())
    }
}

impl Display for Report<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&render(&self.snapshot, self.format, self.width, self.has_color))
    }
}

/// The report; every line ends with a newline. A table has at most `width` columns, but at least 80.
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
    fn formats_for_people_and_terminals_have_no_invisible_character() {
        let shown = ["table", "csv", "markdown", "folded", "svg", "openmetrics"];
        for format in shown.into_iter().filter_map(|name| Format::from_name(name).ok()) {
            for snapshot in sample::nasty() {
                let text = render(&snapshot, format, 100, false);
                assert!(!text.contains(['\u{1b}', '\u{200b}', '\u{200d}', '\u{202e}']), "{format:?}: {text:?}");
            }
        }
    }

    /// If each event were searched for among all, this would take minutes.
    #[test]
    fn a_mark_of_very_many_events_is_rendered_quickly() {
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
    fn an_unknown_format_is_reported_with_the_known_ones() {
        assert_eq!(
            Format::from_name("xml").unwrap_err(),
            "unknown format `xml`; expected one of table, json, csv, markdown, html, folded, svg, openmetrics"
        );
    }
}
