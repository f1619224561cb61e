//! `perfmark report`: reports that were written as JSON, shown again.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use perfmark::{Filter, Format, Report, Snapshot};

use crate::output::{self, Destination, counted};
use crate::reports;

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
}

/// How reports are shown, and where.
#[derive(Args, Debug)]
pub(crate) struct Form {
    /// Its form
    #[arg(
        long,
        default_value = "table",
        value_parser = PossibleValuesParser::new(Format::names()).try_map(|name| name.parse::<Format>())
    )]
    format: Format,
    /// Those marks only, in the language of `PERFMARK_FILTER`: `app::parser,app::io=off`
    #[arg(long, value_name = "FILTER")]
    marks: Option<Filter>,
    /// A table's columns, 80 at least; else the terminal's
    #[arg(long, value_name = "N")]
    width: Option<usize>,
    /// Each by itself, instead of all together: as table, markdown or json
    #[arg(long)]
    each: bool,
    /// To this file, which is replaced as a whole; `-` is stdout. `%p` in its name is perfmark's own process number, `%u` a token
    /// that no other process has
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl Form {
    /// What can be told before there are reports.
    pub(crate) fn check(&self) -> Result<(), String> {
        // Several of another form, one behind the other, are no file of that form; or, as stacks, cannot be told apart.
        if self.each && !(self.is_for_people() || self.format == Format::Json) {
            let why = "several reports in another, one behind the other, cannot be read";
            return Err(format!("--each takes the forms table, markdown and json: {why}"));
        }
        Ok(())
    }

    /// Where they go: to the file that was named, or else there.
    pub(crate) fn destination<'a>(&'a self, otherwise: Destination<'a>) -> Destination<'a> {
        Destination::new(self.output.as_deref(), otherwise)
    }

    fn is_for_people(&self) -> bool {
        matches!(self.format, Format::Table | Format::Markdown)
    }

    fn of(&self, snapshot: &Snapshot, to: Destination<'_>) -> String {
        let width = self.width.unwrap_or_else(|| to.columns());
        let mut report = Report::new(snapshot).format(self.format).width(width).color(to.has_color());
        if let Some(filter) = &self.marks {
            report = report.marks(filter);
        }
        report.to_string()
    }
}

/// Reports to be shown in a form: merged into one, if not each is wanted.
pub(crate) struct Gathered<'a> {
    form: &'a Form,
    shown: Vec<(String, Snapshot)>,
    count: usize,
}

impl<'a> Gathered<'a> {
    pub(crate) fn new(form: &'a Form) -> Self {
        Self { form, shown: Vec::new(), count: 0 }
    }

    pub(crate) fn add(&mut self, name: String, snapshot: Snapshot) {
        self.count += 1;
        match self.shown.first_mut().filter(|_| !self.form.each) {
            Some((_, merged)) => merged.merge(&snapshot),
            None => self.shown.push((name, snapshot)),
        }
    }

    /// Several that are shown by themselves have their names before them, where the form is for people.
    pub(crate) fn show(&self, to: Destination<'_>) -> Result<(), String> {
        check_marks(self.form.marks.as_ref(), self.shown.iter().map(|(_, snapshot)| snapshot))?;
        if self.count > self.shown.len() {
            output::say(&format!(
                "{} together: name and number are the first one's, the time is the longest; --each shows each",
                counted(self.count, "report")
            ));
        }
        let mut text = String::new();
        for (name, snapshot) in &self.shown {
            if self.shown.len() > 1 && self.form.is_for_people() {
                let before = if text.is_empty() { "" } else { "\n" };
                _ = writeln!(text, "{before}==> {} <==", output::clean(name));
            }
            text += &self.form.of(snapshot, to);
        }
        to.give(&text)
    }
}

/// Whether the filter has any of the marks on: that it leaves nothing is nobody's wish.
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

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, String> {
    arguments.form.check()?;
    let mut all = Gathered::new(&arguments.form);
    for file in &arguments.files {
        for (name, snapshot) in reports::read_each(file)? {
            all.add(name, snapshot);
        }
    }
    all.show(arguments.form.destination(Destination::Stdout))?;
    Ok(ExitCode::SUCCESS)
}
