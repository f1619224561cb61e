//! `perfmark report`: reports that were written as JSON, shown again.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use clap::builder::PossibleValuesParser;
use perfmark::{Filter, Format, Report, Snapshot};

use crate::{output, reports};

/// Show JSON reports: several together, as of one program
///
/// Calls, sums and histograms of several are added, and quantiles taken anew, so that nothing is lost; their marks are the same where path, name,
/// file and line are.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Reports of `PERFMARK_FORMAT=json`; `-` is stdin
    #[arg(required = true)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    form: Form,
    /// All together, as is done without it
    #[arg(long, conflicts_with = "each")]
    merge: bool,
    /// Each by itself
    #[arg(long)]
    each: bool,
    /// To this file, which is replaced as a whole
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// How reports are shown.
#[derive(Args, Debug)]
pub(crate) struct Form {
    /// Its form
    #[arg(long, default_value = "table", value_parser = PossibleValuesParser::new(Format::names()))]
    format: String,
    /// Those marks only, in the language of `PERFMARK_FILTER`: `app::parser,app::io=off`
    #[arg(long, value_name = "FILTER")]
    marks: Option<Filter>,
    /// A table's columns, 80 at least; else the terminal's
    #[arg(long, value_name = "N")]
    width: Option<usize>,
}

impl Form {
    /// The report as text, for that descriptor.
    pub(crate) fn of(&self, snapshot: &Snapshot, fd: i32) -> Result<String, String> {
        let format: Format = self.format.parse().map_err(|error: perfmark::FormatError| error.to_string())?;
        let width = self.width.unwrap_or_else(|| perfmark::private::columns(fd));
        let mut report = Report::new(snapshot).format(format).width(width);
        if let Some(filter) = &self.marks {
            report = report.marks(filter);
        }
        Ok(report.to_string())
    }

    /// Several, each with its name before it, where the form is for people.
    pub(crate) fn of_each(&self, all: &[(String, Snapshot)], fd: i32) -> Result<String, String> {
        let mut text = String::new();
        for (name, snapshot) in all {
            if self.is_for_people() {
                let before = if text.is_empty() { "" } else { "\n" };
                _ = writeln!(text, "{before}==> {} <==", output::clean(name));
            }
            text += &self.of(snapshot, fd)?;
        }
        Ok(text)
    }

    fn is_for_people(&self) -> bool {
        matches!(&*self.format, "table" | "markdown")
    }

    /// That a filter leaves nothing is nobody's wish.
    pub(crate) fn check<'a, I: IntoIterator<Item = &'a Snapshot>>(&self, snapshots: I) -> Result<(), String> {
        check_marks(self.marks.as_ref(), snapshots)
    }
}

/// Whether the filter has any of the marks on.
pub(crate) fn check_marks<'a, I: IntoIterator<Item = &'a Snapshot>>(
    filter: Option<&Filter>,
    snapshots: I,
) -> Result<(), String> {
    let Some(filter) = filter else { return Ok(()) };
    let mut marks = snapshots.into_iter().flat_map(|snapshot| &snapshot.marks).peekable();
    let example = marks.peek().map(|mark| output::clean(&mark.path));
    match example {
        Some(path) if !marks.any(|mark| filter.has_mark(mark)) => {
            Err(format!("--marks {filter}: there is no such mark; paths are as {path}"))
        }
        _ => Ok(()),
    }
}

/// The number of stdout.
const STDOUT: i32 = 1;
/// None that is open: so a report has the columns that one in a file has.
pub(crate) const NO_TERMINAL: i32 = -1;

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, String> {
    let fd = if arguments.output.is_some() { NO_TERMINAL } else { STDOUT };
    let mut all: Vec<(String, Snapshot)> = Vec::new();
    for file in &arguments.files {
        let snapshot = reports::read(file)?;
        match all.first_mut().filter(|_| !arguments.each) {
            Some((_, merged)) => merged.merge(&snapshot),
            None => all.push((file.display().to_string(), snapshot)),
        }
    }
    arguments.form.check(all.iter().map(|(_, snapshot)| snapshot))?;
    let text = if arguments.each && all.len() > 1 {
        arguments.form.of_each(&all, fd)?
    } else {
        all.iter().map(|(_, snapshot)| arguments.form.of(snapshot, fd)).collect::<Result<String, _>>()?
    };
    output::give(&text, arguments.output.as_deref())?;
    Ok(ExitCode::SUCCESS)
}
