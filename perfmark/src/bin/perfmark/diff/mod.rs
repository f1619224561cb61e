//! `perfmark diff`: what became more or less expensive, and gates for CI.
//!
//! Every file is a run. Two sides' values differ only if they differ by more than a margin, their own variation
//! (`judge`).

mod side;
mod figure;
mod judge;
mod compare;
mod gate;
mod rows;
mod table;
mod markdown;
mod json;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use perfmark::Filter;

use self::compare::Comparison;
use self::gate::Gate;
use self::side::Side;
use crate::output;
use crate::report::check_marks;

/// A gate failed.
const FAILED: u8 = 1;

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
    /// Compare only these marks, in the language of `PERFMARK_FILTER`: `app::parser,app::io=off`
    #[arg(long, value_name = "FILTER")]
    marks: Option<Filter>,
    /// Format of the comparison
    #[arg(long, value_enum, default_value_t)]
    format: Form,
    /// Write to this file, which is replaced atomically
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

const HOW: &str = "\
What is compared:
  A file is a run. Merge the reports of a run's processes with `perfmark report --format json`.
  Marks are the same if path and name are the same; they may move in the source. Marks that exist
  or were called on one side only, calls that were not measured, and different numbers of calls
  are listed.

When a value has changed:
  counts        the mean per call: by at least 0.1 %, and by more than the cost of an empty call
                varies; with several runs on a side, the median of the runs, if no run of one side
                is among those of the other, ignoring the farthest one in five of each side
  time, cycles  the median per call: by more than the resolution of the histograms (1 in 32), with
                each median outside of the middle half of the other side's calls (at least 10);
                with three runs or more on each side (five are better) the runs' medians are
                compared as the means of counts are, instead of the middle halves

Gates:
  --fail-on EVENT:PERCENT% fails if a value rose by more than that, and by more than it varies:
  instructions:0% fails on any rise. A run of the head that is even slower, or a run of the base
  that is even faster, does not make the gate pass. The gate also fails if a mark that both sides
  called was not measured on one side, or almost not: fewer than 10 calls of a mark that had more,
  or less than 10 % of the calls that should have been measured. It fails if no mark could be
  judged. Marks that one side does not have or never called, and marks with fewer than 10 calls if
  the event is a time, are listed and pass.

  --fail-on coverage:PERCENT% fails for each mark of the head, including new ones, if less than
  that share of its calls was measured in any of its events. Calls that `every` skipped, or that a
  panic or a drop ended, do not count; nor do events that neither side could count.

Exit status:
  0  no gate failed
  1  a gate failed
  2  a wrong argument, or a file that is not a report";

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Form {
    /// For people
    #[default]
    Table,
    /// For a pull request
    Markdown,
    /// For programs
    Json,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, String> {
    let mut sides = [
        Side::read("base", arguments.base_file.as_ref(), &arguments.base)?,
        Side::read("head", arguments.head_file.as_ref(), &arguments.head)?,
    ];
    check_marks(arguments.marks.as_ref(), sides.iter().flat_map(|side| &side.runs))?;
    if let Some(filter) = &arguments.marks {
        for run in sides.iter_mut().flat_map(|side| &mut side.runs) {
            run.retain(|mark| filter.has_mark(mark));
        }
    }
    let comparison = Comparison::of(&sides);
    let gates = arguments.fail_on.iter().map(|gate| gate.judge(&comparison)).collect::<Result<Vec<_>, _>>()?;
    let text = match arguments.format {
        Form::Table => table::render(&comparison, &gates),
        Form::Markdown => markdown::render(&comparison, &gates),
        Form::Json => json::render(&comparison, &gates),
    };
    output::give(&text, arguments.output.as_deref())?;
    let failures: Vec<_> = gates.iter().flat_map(|gate| &gate.failures).collect();
    if !matches!(arguments.format, Form::Table) || arguments.output.is_some() {
        // A log then shows it in any format.
        for failure in &failures {
            output::say(&failure.text);
        }
    }
    Ok(if failures.is_empty() { ExitCode::SUCCESS } else { FAILED.into() })
}
