//! A snapshot as text: for people, or for programs.
//!
//! It uses [`Snapshot`] and nothing below it, and the source files of sampled lines. Rendering neither fails nor
//! panics, whatever the snapshot contains.

mod quantity;
mod style;
mod text;
mod view;

mod grouping;
mod source_lines;
mod hot_lines;
#[cfg(any(feature = "html", feature = "json"))]
mod source_text;
mod sampling;
mod ratio;
mod share;
mod unfinished;

mod histogram;

mod column;
mod coverage;
mod calls_and_ratios;
mod grid;
mod legend;

mod details;
mod table;
mod markdown;

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
mod tests;

#[cfg(feature = "prometheus")]
pub(crate) use openmetrics::{Families, MOST_LABELS};
pub use view::Sort;
pub(crate) use view::View;

use std::borrow::Cow;
use std::fmt::{self, Display, Formatter};
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::platform::files::{in_this_process, replaced_file, write_file};
use crate::platform::terminal::{is_terminal, width_of};
use crate::settings::Filter;
use crate::settings::environment::has_more_rights_than_its_caller;
use crate::snapshot::Snapshot;

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
            _ => Err(match Self::FEATURES.iter().find(|(known, _)| *known == name) {
                Some((_, feature)) => {
                    format!("this build of perfmark does not support {name}: enable its feature `{feature}`")
                }
                None => format!("unknown format `{name}`; expected one of {}", Self::NAMES.join(", ")),
            }),
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

message_error!(FormatError);

/// A snapshot as text, which `Display` writes.
///
/// A table and Markdown have the source text of sampled lines, if the source files and the program are on this machine,
/// and the files have not been modified since the program was built. A process that has more rights than its caller
/// (setuid) reads no source files.
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
    /// Further snapshots with their names, for the page.
    #[cfg(feature = "html")]
    runs: Vec<(String, Cow<'a, Snapshot>)>,
    /// Those of `marks`, for runs that are added later.
    #[cfg(feature = "html")]
    filters: Vec<Filter>,
    format: Format,
    view: View,
}

impl<'a> Report<'a> {
    /// A table of 100 columns, without colours, of the 20 marks with the largest self. Rows with long names are longer.
    #[must_use]
    pub fn new(snapshot: &'a Snapshot) -> Self {
        Self::with_view(snapshot, Format::default(), View::DEFAULT)
    }

    /// It reads source files if this process may.
    pub(crate) fn with_view(snapshot: &'a Snapshot, format: Format, view: View) -> Self {
        Self {
            snapshot: Cow::Borrowed(snapshot),
            #[cfg(feature = "html")]
            runs: Vec::new(),
            #[cfg(feature = "html")]
            filters: Vec::new(),
            format,
            view: View { reads_sources: !has_more_rights_than_its_caller(), ..view },
        }
    }

    /// Sets the format.
    #[must_use]
    pub fn format(self, format: Format) -> Self {
        Self { format, ..self }
    }

    /// Adds a snapshot to a page: a selector at the top of the page shows it, under this name, in place of the first.
    /// Other formats leave it out.
    ///
    /// ```
    /// use perfmark::{Format, Report, Snapshot};
    ///
    /// let [monday, tuesday] = [Snapshot::default(), Snapshot::default()];
    /// let mut both = monday.clone();
    /// both.merge(&tuesday);
    /// let page = Report::new(&both).format(Format::Html).run("Monday", &monday).run("Tuesday", &tuesday);
    /// assert!(page.to_string().contains("Tuesday"));
    /// ```
    #[cfg(feature = "html")]
    #[must_use]
    pub fn run(mut self, name: &str, snapshot: &'a Snapshot) -> Self {
        let mut run = Cow::Borrowed(snapshot);
        self.filters.iter().for_each(|filter| run.to_mut().retain(|mark| filter.has_mark(mark)));
        self.runs.push((name.to_owned(), run));
        self
    }

    /// Sets the width in columns; a table has at least 80. Names that are too long for it are cut.
    #[must_use]
    pub fn width(mut self, columns: usize) -> Self {
        (self.view.columns, self.view.is_limited) = (columns, true);
        self
    }

    /// Turns terminal colours on or off. Only a table has colours. The report at exit has them if it goes to a
    /// terminal, unless `NO_COLOR` is set, or `TERM` is `dumb` or not set.
    #[must_use]
    pub fn color(mut self, has_color: bool) -> Self {
        self.view.has_color = has_color;
        self
    }

    /// Sets how many marks have a row in a table; a line below has the number of the others. In Markdown, the others
    /// are folded. If that would be one mark, it has a row instead. `usize::MAX` shows all marks. The default is 20.
    #[must_use]
    pub fn top(mut self, marks: usize) -> Self {
        self.view.top = marks;
        self
    }

    /// Sets how many sampled lines of each mark are shown in a table and in Markdown; `usize::MAX` shows all lines with
    /// five samples or more. The default is 3.
    #[must_use]
    pub fn lines(mut self, lines: usize) -> Self {
        self.view.lines = lines;
        self
    }

    /// Sets the order of the marks. It applies to the formats table, Markdown and CSV.
    #[must_use]
    pub fn sort(mut self, sort: Sort) -> Self {
        self.view.sort = sort;
        self
    }

    /// Adds the details of the marks that the filter turns on: each event with its quantiles, the calls that the values
    /// leave out, and the lines that hot lines execute in other functions. `Filter::default()` turns on all marks. It
    /// applies to the formats table and Markdown.
    #[must_use]
    pub fn details(mut self, marks: &Filter) -> Self {
        self.view.details = Some(marks.clone());
        self
    }

    /// Keeps only the marks that the filter turns on. Shares are relative to these. A report of some marks suggests no
    /// functions to mark.
    #[must_use]
    pub fn marks(mut self, filter: &Filter) -> Self {
        self.snapshot.to_mut().retain(|mark| filter.has_mark(mark));
        #[cfg(feature = "html")]
        {
            self.runs.iter_mut().for_each(|(_, run)| run.to_mut().retain(|mark| filter.has_mark(mark)));
            self.filters.push(filter.clone());
        }
        self
    }

    /// Adds the source text of hot lines, and of 3 lines before and after them, to JSON: `perfmark report` then shows
    /// it on machines without the sources. Without it, only formats for people have the text, of sources that are on
    /// this machine. It reads the source files now. [`Snapshot::sources`] has the limits.
    #[cfg(feature = "json")]
    #[must_use]
    pub fn embed_sources(mut self) -> Self {
        source_text::embed(self.snapshot.to_mut(), self.view.reads_sources);
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

    /// Checks that [`write_to`](Self::write_to) would not refuse the file: no part of its path is a link that another
    /// user created in a directory where all may write. For a program that writes reports in a way of its own. The path
    /// is used as it is, also with `%p` and `%u`.
    ///
    /// Returns the file that `write_to` would replace or create, which is where the path's links lead to. `None` if it
    /// would open and write to the file, such as a device, instead.
    ///
    /// ```
    /// perfmark::Report::check_file("target/report.json")?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The path has such a link or ends with a separator, or the operating system cannot follow its links.
    pub fn check_file(file: impl AsRef<Path>) -> io::Result<Option<PathBuf>> {
        replaced_file(file.as_ref())
    }

    /// Adapts it to a descriptor: the terminal's width, and colours if the user may want them.
    pub(crate) fn on(self, fd: i32, may_color: bool) -> Self {
        let this = match width_of(fd) {
            Some(columns) => self.width(columns),
            None => self,
        };
        this.color(may_color && is_terminal(fd))
    }

    /// As [`write_to`](Self::write_to), in a process that may be a forked child.
    pub(crate) fn write_in(&self, file: &Path, is_child: bool) -> io::Result<()> {
        write_file(&in_this_process(file, is_child), &self.to_string())
    }
}

impl Display for Report<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { snapshot, view, .. } = self;
        let for_people = || snapshot.for_known_calls();
        // Every line ends with a newline.
        f.write_str(&match self.format {
            Format::Table => table::render(&for_people(), view),
            #[cfg(feature = "json")]
            Format::Json => json::render(&**snapshot),
            #[cfg(feature = "csv")]
            Format::Csv => csv::render(&for_people(), view.sort),
            Format::Markdown => markdown::render(&for_people(), view),
            #[cfg(feature = "html")]
            Format::Html => html::render(snapshot, &self.runs, view.reads_sources),
            Format::Folded => stacks::render(&for_people()),
            #[cfg(feature = "flamegraph")]
            Format::FlameGraph => flame_graph::render(&for_people()),
            #[cfg(feature = "prometheus")]
            Format::OpenMetrics => openmetrics::render(snapshot),
        })
    }
}
