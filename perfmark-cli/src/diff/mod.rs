//! `perfmark diff`: what became more or less expensive, and gates for CI.
//!
//! Every file is a run. Two sides' values differ only if they differ by more than a margin, their own variation
//! (`judge`).

mod number;
mod paired;
mod judge;
mod side;
mod identity;
mod hot_lines;
mod compare;
mod gate;
mod rows;
mod table;
mod markdown;
mod json;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use perfmark::text::counted;

use crate::output::{self, Destination};
use crate::report::{self, Marks};
use crate::reports::check_stdin;

use self::compare::Comparison;
pub(crate) use self::gate::Gate;
pub(crate) use self::judge::SEVERAL;
pub(crate) use self::side::{Design, Side};

/// A gate failed.
const FAILED: u8 = 1;
/// No gate failed, and one cannot be judged.
pub(crate) const UNDECIDED: u8 = 3;

/// Compare runs of a program before and after a change
#[derive(Args, Debug)]
#[command(after_long_help = HOW)]
pub(crate) struct Arguments {
    /// JSON report of a run before the change
    #[arg(value_name = "BASE", required_unless_present = "base")]
    base_file: Option<PathBuf>,
    /// JSON report of a run after the change
    #[arg(value_name = "HEAD", required_unless_present = "head")]
    head_file: Option<PathBuf>,
    /// More runs before the change
    #[arg(long, value_name = "FILE", num_args = 1..)]
    base: Vec<PathBuf>,
    /// More runs after the change
    #[arg(long, value_name = "FILE", num_args = 1..)]
    head: Vec<PathBuf>,
    /// Fail with status 1 if a mark's cost in the event rose by more than this, as `instructions:1%`, or if fewer of
    /// its calls were measured, as `coverage:90%`; may be repeated
    #[arg(long, value_name = "EVENT:PERCENT%")]
    fail_on: Vec<Gate>,
    /// The runs were made in pairs, a base and a head in random order: the first files of both sides are a pair, and so
    /// on. Times are judged as by `perfmark run --against`
    #[arg(long)]
    paired: bool,
    /// Judge times, cycles and software events even with fewer than three runs on a side, which gives false alarms
    #[arg(long, conflicts_with = "paired")]
    allow_few_runs: bool,
    /// Compare only these marks, in the language of `PERFMARK_FILTER`: `app::parser,app::io=off`
    #[arg(long, value_name = "FILTER")]
    marks: Option<Marks>,
    /// The most marks without a change that have a row; by default `PERFMARK_TOP`, or 20; for table and markdown
    #[arg(long, value_name = "N|all", value_parser = report::number)]
    top: Option<usize>,
    /// Format of the comparison
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Write to this file, which is replaced atomically
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

const HOW: &str = "\
What is compared:
  A file is a run. Merge the reports of a run's processes with `perfmark report --format json`. Marks are the same if \
path and name are the same; they may move in the source. Types of one name, such as two closures of a function, are \
compared within a build only, and several marks of one path and name only if both sides have the same number of them; \
otherwise a note lists them. Marks that exist or were called on one side only, calls \
that were not measured, and different numbers of calls are listed. Marks that changed come first, each with a row; of \
the others, as many have one as --top says. Otherwise, marks have the names and the order of `perfmark report`: the \
largest self in the last run of the head is first. --marks accepts each name.
  Times and cycles of all calls are not compared with estimates (`every`, a budget), whose probe overhead is \
corrected differently. They are if no call of the mark, and none inside it, was skipped on either side. Counts are \
compared, with a note. The summary has the number of marks that were not compared.

When a value has changed:
  - counts: the mean per call, by at least 0.1 %, and by more than the cost of an empty call varies; with several \
runs on a side, the median of the runs, if no run of one side is among those of the other, ignoring one run in \
five of each side: those nearest to the other side
  - software events, which the kernel counts, such as page faults and context switches: as counts, but with three runs \
or more on each side, or eight pairs, because they depend on the machine's state; with fewer runs, changes are shown \
and not judged
  - time, cycles: the median per call, with three runs or more on each side (five are better): by more than the \
resolution of the histograms (1 in 32), and as the means of counts are; with fewer runs, as for software events; \
with --allow-few-runs, each value must be outside of the middle half of the other side's calls
  - with --paired: the mean of the middle half of the calls; see `perfmark run --help`

Hot lines:
  If the runs of both sides have samples of the same event and rate, with names, up to three lines below a mark show \
how their shares of its samples changed, with standard errors. A line is shown if its share changed by more than 3 \
standard errors of the difference, and by 1 point or more. It takes so many because many lines are compared: 2 are \
exceeded by one in 20 unchanged lines. Lines are the same if function, file and number are. Lines of the marked \
function count from its mark, so that it may move as a whole; an edit inside it makes the lines after it differ. \
Lines never make a gate fail.

Gates:
  --fail-on EVENT:PERCENT% fails if a value rose by more than that, and by more than it varies: instructions:0% \
fails on any rise. A mark is judged if a rise by the limit would have been found; the column `finds` has the \
smallest rise of which that is so. Other marks are listed and pass. Medians do not show a rise by less than 3.3 %: a \
smaller limit of a time is refused, unless the runs are paired. A run of the head that is even slower, or a run of \
the base that is even faster, does not make the gate pass. The gate also fails if a mark that both sides called was \
not measured on one side, or almost not: fewer than 10 calls of a mark that had more, or less than 10 % of the calls \
that should have been measured; or if its values are not compared. Marks that one side does not have or never \
called, or of which a panic or a drop ended each call there, are listed and pass. So do marks of which an emulator \
counted almost no call, because programs that an emulated one starts run outside the emulator. On times, cycles or \
software events, these marks are listed and pass, too: marks that fewer than three runs of a side measured; in \
pairs, marks that some run did not measure; of software events in pairs, marks that fewer than eight runs of a side \
measured; with one run, marks with fewer than 10 calls. A gate cannot be judged if no mark can be, or, on times, \
cycles or software events, with fewer than three runs on a side, or eight pairs. It fails if no mark that both sides \
called has the event.

  --fail-on coverage:PERCENT% fails for each mark of the head, including new ones, if less than that share of its \
calls was measured in any of its events. Calls that `every` or a budget skipped, or that a panic or a drop ended, do \
not count; nor do events that neither side could count.

Exit status:
  0  no gate failed
  1  a gate failed
  2  a wrong argument, or a file that is not a report
  3  no gate failed, but one cannot be judged: make more runs";

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum Format {
    /// For people
    #[default]
    Table,
    /// For a pull request
    Markdown,
    /// For programs
    Json,
}

impl Format {
    /// The most marks without a change that have a row. JSON has no rows.
    pub(crate) fn top(self, given: Option<usize>) -> Result<usize, String> {
        match (self, given) {
            (Self::Json, None) => Ok(0),
            (Self::Json, Some(_)) => {
                Err("--top: the format json does not support it; these do: table, markdown".into())
            }
            (Self::Table | Self::Markdown, given) => report::top(given),
        }
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, String> {
    let files = arguments.base_file.iter().chain(&arguments.head_file).chain(&arguments.base).chain(&arguments.head);
    check_stdin(files)?;
    let top = arguments.format.top(arguments.top)?;
    let sides = [
        Side::read("base", arguments.base_file.as_ref(), &arguments.base)?,
        Side::read("head", arguments.head_file.as_ref(), &arguments.head)?,
    ];
    let [base, head] = [0, 1].map(|side: usize| sides[side].runs.len());
    if arguments.paired && base != head {
        let base = counted(base as u64, "run");
        return Err(format!("--paired: base has {base}, and head has {head}; give as many files on each side"));
    }
    let design =
        if arguments.paired { Design::Paired } else { Design::Separate { allows_few_runs: arguments.allow_few_runs } };
    let to = Destination::new(arguments.output.as_deref(), Destination::Stdout);
    compare(&sides, arguments.marks.as_ref(), design, &arguments.fail_on, arguments.format, top, &to)
}

/// Checks that the reports have the marks of `--marks`, and the events of the gates.
pub(crate) fn check(sides: &[Side; 2], marks: Option<&Marks>, gates: &[Gate]) -> Result<(), String> {
    let runs = || sides.iter().flat_map(|side| &side.runs);
    marks.map_or(Ok(()), |marks| marks.check(runs()))?;
    let events = runs().flat_map(|run| &run.events).map(|event| &*event.name).collect();
    gates.iter().filter(|gate| !gate.is_of_coverage()).try_for_each(|gate| gate.find(&events).map(drop))
}

/// Compares these marks of the sides, judges the gates, and writes the comparison.
pub(crate) fn compare(
    sides: &[Side; 2],
    marks: Option<&Marks>,
    design: Design,
    gates: &[Gate],
    format: Format,
    top: usize,
    to: &Destination,
) -> Result<ExitCode, String> {
    marks.map_or(Ok(()), |marks| marks.check(sides.iter().flat_map(|side| &side.runs)))?;
    let comparison = &Comparison::of(sides, marks.map(|marks| &marks.filter), design, top);
    let gates = gates.iter().map(|gate| gate.judge(comparison)).collect::<Result<Vec<_>, _>>()?;
    let text = match format {
        Format::Table => table::render(comparison, &gates),
        Format::Markdown => markdown::render(comparison, &gates),
        Format::Json => json::render(comparison, &gates),
    };
    to.give(text.as_bytes())?;
    let failures: Vec<_> = gates.iter().flat_map(|gate| &gate.failures).map(ToString::to_string).collect();
    let undecided: Vec<_> = gates.iter().filter_map(|gate| gate.undecided.clone()).collect();
    if !matches!(format, Format::Table) || matches!(to, Destination::File(_)) {
        // A log then shows it in any format.
        failures.iter().chain(&undecided).for_each(|text| output::say(text));
    }
    Ok(match (failures.is_empty(), undecided.is_empty()) {
        (false, _) => FAILED.into(),
        (true, false) => UNDECIDED.into(),
        (true, true) => ExitCode::SUCCESS,
    })
}
