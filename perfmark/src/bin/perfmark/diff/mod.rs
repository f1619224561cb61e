//! `perfmark diff`: what became dearer or cheaper, and gates for CI.
//!
//! Every file is a run. A figure of one side is told from the other's by a margin: how much it varies anyway (`judge`).

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
    /// JSON report of a run after it
    #[arg(value_name = "HEAD", required_unless_present = "head")]
    head_file: Option<PathBuf>,
    /// More runs before it
    #[arg(long, value_name = "FILE", num_args = 1..)]
    base: Vec<PathBuf>,
    /// More runs after it
    #[arg(long, value_name = "FILE", num_args = 1..)]
    head: Vec<PathBuf>,
    /// Fail, with status 1, if a mark takes more of the event by so much, as `instructions:1%`, or if fewer of its calls were measured,
    /// as `coverage:90%`; may be repeated
    #[arg(long, value_name = "EVENT:PERCENT%")]
    fail_on: Vec<Gate>,
    /// Those marks only, in the language of `PERFMARK_FILTER`: `app::parser,app::io=off`
    #[arg(long, value_name = "FILTER")]
    marks: Option<Filter>,
    /// The answer's form
    #[arg(long, value_enum, default_value_t)]
    format: Form,
    /// To this file, which is replaced as a whole
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

const HOW: &str = "\
What is compared:
  A file is a run: put the processes of one together by `perfmark report --format json`. Marks
  are the same where path and name are; they may move in the source. What is on one side only is
  told, as are marks that one side never called, calls that were not measured, and other numbers
  of calls.

When a figure has changed:
  counts        the mean a call: by at least 0.1 %, and by more than what an empty call varies
                by; of several runs on a side, the median of the runs, where no run of one side
                lies among those of the other, except for the farthest one in five of each side
  time, cycles  the median a call: by more than the histograms' buckets tell (1 in 32), with each
                median outside of the middle half of the other side's calls (of 10 at least);
                with three runs or more on each side (five are better) the runs' medians are
                compared as the means of counts are, instead of the middle halves

Gates:
  --fail-on EVENT:PERCENT% fails if a value rose by more than that, and by more than it varies, so
  that instructions:0% fails on any rise. A run of the head that is slower still, or one of the
  base that is faster still, excuses nothing. The gate also fails if a mark that both sides called
  was not measured on one side, or next to nothing of it was: fewer than 10 calls of a mark that
  had more, or less than 10 % of the calls that should have been measured. It fails if no mark
  could be judged. Marks that one side lacks or never called, and marks with fewer than 10 calls
  if the event is a time, are listed, and pass.

  --fail-on coverage:PERCENT% fails for each mark of the head, new ones included, if less than that
  share of its calls was measured in any of its events. Calls that `every` left out, or that a
  panic or a drop ended, are not counted in; nor are events that neither side could count.

Exit status:
  0  no gate failed
  1  a gate failed
  2  a wrong argument, or a file that is no report";

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
        // A log shows it, whatever the form.
        for failure in &failures {
            output::say(&failure.text);
        }
    }
    Ok(if failures.is_empty() { ExitCode::SUCCESS } else { FAILED.into() })
}
