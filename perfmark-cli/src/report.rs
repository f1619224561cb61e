//! `perfmark report`: shows reports that were written as JSON.

use std::ffi::OsString;
use std::fmt::Display;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;

use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use clap::{ArgAction, Args};
use perfmark::symbols::Symbols;
use perfmark::text::{counted, sanitize, share_of_samples};
use perfmark::{Filter, FilterError, Format, FormatError, HotFunction, Report, Snapshot, Sort};

use crate::bencher;
use crate::mark;
use crate::output::{self, Destination, variable};
use crate::reports::{self, Merged};
use crate::samples::{self, SampleFormat};

/// Show JSON reports; merge several into one
///
/// Calls, sums and histograms of several reports are added, and quantiles are computed from the added histograms, so
/// that nothing is lost. Marks are the same if path, name, file, line and types are the same.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Reports written with `PERFMARK_FORMAT=json`; `-` is stdin
    #[arg(required = true)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    options: Options,
    /// Print at most five functions to mark next, by their samples, as `FILE:LINE` for `perfmark mark`. Shares and
    /// names are printed on stderr
    #[arg(long, conflicts_with_all = [
        "each", "format", "output", "marks", "width", "top", "lines", "sort", "details", "event"
    ])]
    suggest: bool,
}

/// The value of a variable of the environment, if it is set.
fn setting<T, E: Display>(name: &str, parse: impl FnOnce(&str) -> Result<T, E>) -> Result<Option<T>, String> {
    let value = variable(name).map(|value| value.to_string_lossy().trim().to_owned()).filter(|value| !value.is_empty());
    value.map(|value| parse(&value).map_err(|why| format!("{name}={value}: {why}"))).transpose()
}

pub(crate) fn number(number: &str) -> Result<usize, String> {
    if number == "all" { Ok(usize::MAX) } else { number.parse().map_err(|_| "expected a number or `all`".into()) }
}

/// The most marks with a row: this number, or that of the environment.
pub(crate) fn top(given: Option<usize>) -> Result<usize, String> {
    Ok(given.or(setting("PERFMARK_TOP", number)?).unwrap_or(20))
}

/// The form of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// As programs write it, too.
    Report(Format),
    /// Its samples.
    Samples(SampleFormat),
    /// What calls cost, for Bencher.
    Bencher,
}

const BENCHER: &str = "bencher";

impl Form {
    fn names() -> impl Iterator<Item = &'static str> {
        Format::names().chain(SampleFormat::ALL.map(|(name, _)| name)).chain([BENCHER])
    }

    fn from_name(name: &str) -> Result<Self, FormatError> {
        match SampleFormat::ALL.iter().find(|(known, _)| *known == name) {
            Some(&(_, format)) => Ok(Self::Samples(format)),
            None if name == BENCHER => Ok(Self::Bencher),
            None => name.parse().map(Self::Report),
        }
    }

    fn name(self) -> &'static str {
        Self::names().find(|name| Self::from_name(name) == Ok(self)).expect("each has one")
    }
}

/// The formats for people.
const PEOPLE: &[&str] = &["table", "markdown"];
/// The formats for several reports. In a row, they are not a valid file of another format, or, like stacks, cannot be
/// distinguished.
const EACH: &[&str] = &["table", "markdown", "json", "html"];
/// The formats that have samples, besides those of samples alone.
const SAMPLED: &[&str] = EACH;

/// The format and destination of reports.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Format of the report
    #[arg(
        long,
        default_value = "table",
        value_parser = PossibleValuesParser::new(Form::names()).try_map(|name| Form::from_name(&name))
    )]
    pub(crate) format: Form,
    /// Show only these marks, in the language of `PERFMARK_FILTER`: `app::parser,app::io=off`
    #[arg(long, value_name = "FILTER")]
    pub(crate) marks: Option<Marks>,
    /// Columns of a table, at least 80; by default those of the terminal, or `COLUMNS`
    #[arg(long, value_name = "N")]
    width: Option<usize>,
    /// The most marks with a row; by default `PERFMARK_TOP`, or 20; for table and markdown
    #[arg(long, value_name = "N|all", value_parser = number)]
    pub(crate) top: Option<usize>,
    /// The most sampled lines of each mark; by default `PERFMARK_LINES`, or 3; for table and markdown
    #[arg(long, value_name = "N|all", value_parser = number)]
    lines: Option<usize>,
    /// The column that orders the marks, the largest first; by default `self`; for table, markdown and csv
    #[arg(long, value_name = "COLUMN", value_parser = PossibleValuesParser::new(Sort::names()))]
    sort: Option<String>,
    /// Add the details of these marks, or of all: each event, and what the values leave out; by default those of
    /// `PERFMARK_DETAILS`; for table and markdown
    #[arg(long, value_name = "MARKS", num_args = 0..=1, require_equals = true, default_missing_value = "on")]
    details: Option<Filter>,
    /// Name the lines of samples, from the programs that were sampled or their separate debug information: in the usual
    /// places, and in this file or directory. A file is used if its build id is the sampled one, or its name if there
    /// was none. For table, markdown, json, html and the formats of samples
    #[arg(
        long,
        value_name = "FILE|DIRECTORY",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        action = ArgAction::Append
    )]
    symbols: Option<Vec<OsString>>,
    /// The event whose samples are written, for folded-samples, pprof and firefox. By default these are all events, and
    /// the first one in folded-samples
    #[arg(long, value_name = "EVENT")]
    event: Option<String>,
    /// Add the source text around hot lines to json, where the sources are on this machine; table, markdown and html
    /// read the sources themselves
    #[arg(long)]
    embed_sources: bool,
    /// Show each report by itself instead of merging them; for table, markdown and json. A page (html) shows all of
    /// them merged, and lets the reader choose each
    #[arg(long)]
    each: bool,
    /// Write to this file, which is replaced atomically; `-` is stdout. In its name, `%p` is the process number of
    /// perfmark itself, `%u` a token that no other process has
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl Options {
    /// Checks what can be checked before there are reports, and takes what is not given from the environment.
    pub(crate) fn check(&mut self) -> Result<(), String> {
        let of_samples = SampleFormat::ALL.map(|(name, _)| name);
        let formats_of: [(&str, bool, &[&str]); 9] = [
            ("--width", self.width.is_some(), &["table"]),
            ("--top", self.top.is_some(), PEOPLE),
            ("--lines", self.lines.is_some(), PEOPLE),
            ("--sort", self.sort.is_some(), &["table", "markdown", "csv"]),
            ("--details", self.details.is_some(), PEOPLE),
            ("--symbols", self.symbols.is_some(), &[SAMPLED, &of_samples].concat()),
            ("--event", self.event.is_some(), &of_samples),
            ("--embed-sources", self.embed_sources, &["json"]),
            ("--each", self.each, EACH),
        ];
        for (option, is_given, formats) in formats_of {
            if is_given && !self.is_one_of(formats) {
                let (format, formats) = (self.format.name(), formats.join(", "));
                return Err(format!("{option}: the format {format} does not support it; these do: {formats}"));
            }
        }
        if let Some(missing) = self.symbol_places().find(|place| !place.exists()) {
            return Err(format!("--symbols={}: there is no such file or directory", missing.display()));
        }
        if self.is_one_of(PEOPLE) {
            self.top = self.top.or(setting("PERFMARK_TOP", number)?);
            self.lines = self.lines.or(setting("PERFMARK_LINES", number)?);
            let details = self.details.take().or(setting("PERFMARK_DETAILS", Filter::from_str)?);
            self.details = details.filter(|marks| marks.to_string() != "off");
        }
        Ok(())
    }

    /// Where to search for symbols before the usual places.
    fn symbol_places(&self) -> impl Iterator<Item = &Path> {
        self.symbols.iter().flatten().filter(|place| !place.is_empty()).map(Path::new)
    }

    /// Names the lines of the snapshot's samples, if that is asked for.
    fn name(&self, snapshot: &mut Snapshot) {
        if self.symbols.is_none() {
            return;
        }
        if snapshot.samples.is_empty() {
            output::say("--symbols: the report has no samples; PERFMARK_SAMPLE=99 takes some");
        }
        for problem in self.symbol_places().fold(Symbols::new(), Symbols::search).name(snapshot) {
            output::say(&format!("--symbols: {problem}"));
        }
    }

    /// The destination: the file that was given, or `otherwise`. A binary format is not for a terminal, nor for stderr,
    /// which has a program's messages, too.
    pub(crate) fn destination(&self, otherwise: Destination) -> Result<Destination, String> {
        let to = Destination::new(self.output.as_deref(), otherwise);
        match self.format {
            Form::Samples(format) if format.is_binary() && (matches!(to, Destination::Stderr) || to.is_terminal()) => {
                Err("this format is binary; name a file with --output FILE".into())
            }
            _ => Ok(to),
        }
    }

    fn is_one_of(&self, formats: &[&str]) -> bool {
        formats.contains(&self.format.name())
    }

    /// The snapshot, with the marks of `--marks` only.
    fn chosen(&self, snapshot: &Snapshot) -> Snapshot {
        let mut snapshot = snapshot.clone();
        if let Some(Marks { filter, .. }) = &self.marks {
            snapshot.retain(|mark| filter.has_mark(mark));
        }
        snapshot
    }

    /// The report of a snapshot. A page offers the runs, too.
    fn of(&self, snapshot: &Snapshot, runs: &[(String, Snapshot)], to: &Destination) -> Result<Vec<u8>, String> {
        let format = match self.format {
            Form::Report(format) => format,
            Form::Samples(format) => {
                return samples::render(&self.chosen(snapshot), format, self.event.as_deref());
            }
            Form::Bencher => return Ok(bencher::render(&self.chosen(snapshot))),
        };
        let mut report = Report::new(snapshot).format(format).color(to.has_color());
        for (name, run) in runs {
            report = report.run(name, run);
        }
        if let Some(width) = self.width.or_else(|| to.columns()) {
            report = report.width(width);
        }
        if let Some(Marks { filter, .. }) = &self.marks {
            report = report.marks(filter);
        }
        if let Some(top) = self.top {
            report = report.top(top);
        }
        if let Some(lines) = self.lines {
            report = report.lines(lines);
        }
        if let Some(sort) = self.sort.as_deref().and_then(Sort::from_name) {
            report = report.sort(sort);
        }
        if let Some(marks) = &self.details {
            report = report.details(marks);
        }
        if self.embed_sources {
            report = report.embed_sources();
        }
        Ok(report.to_string().into_bytes())
    }
}

/// Reports to be shown: merged into one, unless each is shown by itself.
pub(crate) struct Gathered<'a> {
    options: &'a Options,
    shown: Vec<(String, Merged)>,
    count: usize,
}

impl<'a> Gathered<'a> {
    pub(crate) fn new(options: &'a Options) -> Self {
        Self { options, shown: Vec::new(), count: 0 }
    }

    pub(crate) fn add(&mut self, name: String, snapshot: Snapshot) {
        self.count += 1;
        if self.options.each || self.shown.is_empty() {
            self.shown.push((name, Merged::default()));
        }
        self.shown.last_mut().expect("one").1.add(snapshot);
    }

    /// Shows the reports. Several reports have their names before them, in formats for people.
    pub(crate) fn show(self, to: &Destination) -> Result<(), String> {
        let Self { options, shown, count } = self;
        let mut shown: Vec<(String, Snapshot)> = shown.into_iter().map(|(name, all)| (name, all.finish())).collect();
        if let Some(marks) = &options.marks {
            marks.check(shown.iter().map(|(_, snapshot)| snapshot))?;
        }
        if count > shown.len() {
            let each = if options.is_one_of(EACH) { "; --each shows each" } else { "" };
            output::say(&format!(
                "merged {}; program and process number are those of the first, the time is the longest{each}",
                counted(count as u64, "report")
            ));
        }
        for (_, snapshot) in &mut shown {
            options.name(snapshot);
        }
        if options.each && options.format == Form::Report(Format::Html) {
            let all = Merged::of(shown.iter().map(|(_, snapshot)| snapshot.clone()));
            return to.give(&options.of(&all, &shown, to)?);
        }
        let mut text = Vec::new();
        for (name, snapshot) in &shown {
            if shown.len() > 1 && options.is_one_of(PEOPLE) {
                let before = if text.is_empty() { "" } else { "\n" };
                _ = writeln!(&mut text, "{before}==> {} <==", sanitize(name));
            }
            text.extend(options.of(snapshot, &[], to)?);
        }
        to.give(&text)
    }

    /// Prints the locations of functions to mark, by the samples of the first event.
    fn suggest(mut self) -> Result<(), String> {
        /// As in a table.
        const MOST: usize = 5;
        const FEWEST: u64 = 5;
        let Some((_, all)) = self.shown.pop() else { return Ok(()) };
        let mut snapshot = all.finish();
        self.options.name(&mut snapshot);
        let Some(samples) = snapshot.samples.first() else {
            return Err("--suggest: the report has no samples; PERFMARK_SAMPLE=99 takes some".into());
        };
        if samples.removed.is_some() {
            return Err("--suggest: the report lacks marks that `--marks` removed; use the complete report".into());
        }
        if !samples.has_names() {
            let why = match self.options.symbols {
                None => "the samples have no names; add --symbols",
                Some(_) => {
                    "the samples have no names, because no symbols were found; build the program without `strip`"
                }
            };
            return Err(format!("--suggest: {why}"));
        }
        // Of other languages, libraries may have lines.
        let is_rust = |file: &str| Path::new(file).extension().is_some_and(|extension| extension == "rs");
        if !samples.frames.iter().any(|frame| frame.line.is_some() && frame.file.as_deref().is_some_and(is_rust)) {
            let remedy = "build the program with `debug = \"line-tables-only\"` and without `strip` in its profile";
            return Err(format!("--suggest: the samples have names, but no lines of source; {remedy}"));
        }
        let functions = snapshot.hot_functions(samples).into_iter().filter(|function| function.can_be_marked);
        let functions = functions.filter(|function| function.samples >= FEWEST && !function.is_inlined);
        let names = snapshot.names();
        let located = |function: HotFunction| {
            let around = function.around(&names);
            let HotFunction { frame, samples, .. } = function;
            let location = format!("{}:{}", sanitize(&frame.file?), frame.line?);
            Some((location, format!("{}, {around}", frame.function), samples))
                .filter(|(location, ..)| !location.starts_with('-'))
        };
        let (mut found, mut is_any) = (0, false);
        for (location, function, part) in functions.filter_map(located) {
            is_any = true;
            let (share, of) = (share_of_samples(part, samples.taken()), samples.rate());
            let text = format!("{share} of the samples of {of}: {function}");
            if let Some(why) = mark::refusal(&location) {
                output::say(&format!("{text}; `perfmark mark` refuses its location, {location}: {why}"));
                continue;
            }
            output::say(&text);
            output::print(&format!("{location}\n"))?;
            found += 1;
            if found == MOST {
                break;
            }
        }
        if !is_any {
            output::say(&format!("no function without a mark that is not inlined has at least {FEWEST} samples"));
        }
        Ok(())
    }
}

/// The marks of `--marks`.
#[derive(Clone, Debug)]
pub(crate) struct Marks {
    /// As the user wrote it.
    text: String,
    pub(crate) filter: Filter,
}

impl FromStr for Marks {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Self, FilterError> {
        Ok(Self { text: text.into(), filter: text.parse()? })
    }
}

impl Marks {
    /// Checks that the filter turns on at least one of the marks, if there are any.
    pub(crate) fn check<'a, I: IntoIterator<Item = &'a Snapshot>>(&self, snapshots: I) -> Result<(), String> {
        let (mut has_marks, mut near) = (false, None);
        for snapshot in snapshots {
            if snapshot.marks.iter().any(|mark| self.filter.has_mark(mark)) {
                return Ok(());
            }
            has_marks |= !snapshot.marks.is_empty();
            near = near.or_else(|| self.filter.nearest(snapshot));
        }
        let suggestion = near.map_or_else(String::new, |name| format!("; did you mean {name}?"));
        if has_marks { Err(format!("--marks {}: no mark matches{suggestion}", self.text)) } else { Ok(()) }
    }
}

pub(crate) fn run(arguments: &mut Arguments) -> Result<ExitCode, String> {
    arguments.options.check()?;
    reports::check_stdin(&arguments.files)?;
    let to = arguments.options.destination(Destination::Stdout)?;
    let mut all = Gathered::new(&arguments.options);
    for file in &arguments.files {
        for (name, snapshot) in reports::read_each(file)? {
            all.add(name, snapshot);
        }
    }
    if arguments.suggest {
        all.suggest()?;
    } else {
        all.show(&to)?;
    }
    Ok(ExitCode::SUCCESS)
}
