//! A snapshot as text: for people, or for programs.
//!
//! Sees [`Snapshot`] and nothing deeper; whatever a snapshot holds, rendering it neither fails nor panics.

mod quantity;
mod text;

mod names;
mod share;

mod column;
mod coverage;
mod legend;

mod table;

#[cfg(feature = "json")]
mod json;

#[cfg(feature = "html")]
mod html;

#[cfg(test)]
mod sample;

use std::borrow::Cow;
use std::fmt::{self, Display, Formatter};
use std::io;
use std::path::Path;

use crate::filter::Filter;
use crate::output::{in_this_process, write_file};
use crate::snapshot::Snapshot;
use crate::terminal::DEFAULT_WIDTH;

/// How a report is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// For people.
    #[default]
    Table,
    /// For programs: the snapshot as it is.
    #[cfg(feature = "json")]
    Json,
    /// For people with a browser: one page that needs nothing else, with each mark's distributions and the [call graph](Snapshot::call_graph).
    #[cfg(feature = "html")]
    Html,
}

impl Format {
    /// Every format's name, those that this build lacks included.
    pub(crate) const NAMES: [&str; 3] = ["table", "json", "html"];

    /// The format of this name, or a sentence for the user.
    pub(crate) fn from_name(name: &str) -> Result<Self, String> {
        match name {
            "table" => Ok(Self::Table),
            #[cfg(feature = "json")]
            "json" => Ok(Self::Json),
            #[cfg(not(feature = "json"))]
            "json" => Err("this build of perfmark has no json: enable its feature `json`".to_owned()),
            #[cfg(feature = "html")]
            "html" => Ok(Self::Html),
            #[cfg(not(feature = "html"))]
            "html" => Err("this build of perfmark has no html: enable its feature `html`".to_owned()),
            _ => Err(format!("`{name}` is no format: {}", Self::NAMES.join(" or "))),
        }
    }
}

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
}

impl<'a> Report<'a> {
    /// A table of 100 columns.
    #[must_use]
    pub fn new(snapshot: &'a Snapshot) -> Self {
        Self { snapshot: Cow::Borrowed(snapshot), format: Format::default(), width: DEFAULT_WIDTH }
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

    /// The same of those marks only that the filter has on. Shares are of these.
    #[must_use]
    pub fn marks(mut self, filter: &Filter) -> Self {
        self.snapshot.to_mut().retain(|mark| filter.has(&mark.target()));
        self
    }

    /// Writes it to a file, which is replaced as a whole: whoever reads it sees the one report or the other. In the file's name, `%p` is the process's number.
    ///
    /// # Errors
    ///
    /// What the system answered; or that the file is a link that another user put into a directory where all may write, such as `/tmp`.
    pub fn write_to(&self, file: impl AsRef<Path>) -> io::Result<()> {
        self.write_in(file.as_ref(), false)
    }

    /// The same in a process that may be a forked child.
    pub(crate) fn write_in(&self, file: &Path, is_child: bool) -> io::Result<()> {
        write_file(&in_this_process(file, is_child), &self.to_string())
    }
}

impl Display for Report<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&render(&self.snapshot, self.format, self.width))
    }
}

/// The report, ending with a newline. A table takes at most `width` columns, and never less than 80.
pub(crate) fn render(snapshot: &Snapshot, format: Format, width: usize) -> String {
    match format {
        Format::Table => table::render(snapshot, width.max(table::NARROWEST)),
        #[cfg(feature = "json")]
        Format::Json => json::render(snapshot),
        #[cfg(feature = "html")]
        Format::Html => html::render(snapshot),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listed_format_is_known_in_every_build() {
        for name in Format::NAMES {
            match Format::from_name(name) {
                Ok(format) => assert!(render(&sample::typical(), format, 100).ends_with('\n')),
                Err(why) => assert!(why.contains("enable its feature"), "{name}: {why}"),
            }
        }
    }

    #[test]
    fn an_unknown_format_is_told_with_the_ones_there_are() {
        assert_eq!(Format::from_name("xml").unwrap_err(), "`xml` is no format: table or json or html");
    }
}
