//! `perfmark gate`: builds and runs a program before and after a change, and compares its counts.

mod repository;
mod program;

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::str::FromStr;

use clap::{ArgGroup, Args};
use perfmark::text::sentence_in_markdown;
use perfmark::{Filter, Format, Read, Report, Snapshot};
use perfmark_rdpmc::EmulatedCounter;

use self::program::{Build, Program, Project, manifest};
use self::repository::{Checkout, Commit, Repository, reports_in};
use crate::diff::{self, Design, Gate, SEVERAL, Side, UNDECIDED};
use crate::doctor::counts_instructions;
use crate::events::{depends_on_machine, is_time_or_cycles};
use crate::output::{Destination, say, variable};
use crate::report;
use crate::reports::{self, canonical, dashed, is_same_event};
use crate::run;

/// Compare a program's counts with those of another commit, and fail if they rose
///
/// Builds the program as it was at the commit BASE, and as it is in the working directory, with uncommitted changes.
/// Runs both here with the same arguments, compares them as `perfmark diff` does, and prints Markdown.
#[derive(Args, Debug)]
#[command(after_long_help = HOW)]
#[command(group(ArgGroup::new("compared").args(["base", "baseline", "save"]).required(true).multiple(true)))]
pub(crate) struct Arguments {
    /// Compare with this commit: a branch, a tag or a hash
    #[arg(long, value_name = "REF")]
    base: Option<String>,
    /// Fail with status 1 if a mark's cost in the event rose by more than this, or as `coverage:90%`; may be repeated
    #[arg(long, value_name = "EVENT:PERCENT%", default_value = "instructions:1%")]
    fail_on: Vec<Gate>,
    /// Run the programs in QEMU's user-mode emulator, also where a PMU counts instructions
    #[arg(long)]
    emulate: bool,
    /// Runs of each program; several if its counts differ from run to run
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = run::number_of_runs())]
    times: usize,
    /// Do not build BASE: compare with its report in git's notes, or with this file
    #[arg(long, value_name = "notes|FILE", num_args = 0..=1, default_missing_value = "notes")]
    baseline: Option<Place>,
    /// Compare nothing: save the report of this commit, HEAD, in git's notes, or in this file
    #[arg(
        long,
        value_name = "notes|FILE",
        num_args = 0..=1,
        default_missing_value = "notes",
        conflicts_with_all = ["base", "baseline", "output", "times"]
    )]
    save: Option<Place>,
    /// Write the comparison to this file, which is replaced atomically
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    build: Build,
    /// Arguments of the program
    #[arg(last = true, value_name = "ARGS")]
    given: Vec<OsString>,
}

const HOW: &str = "\
What is compared:
  BASE is checked out in a temporary folder, which is removed at the end. Submodules are not checked out, \
and a dependency by a path outside the repository is not found. Head is the working directory as it is: in a clean \
checkout, that is HEAD. To compare with the commit where a branch began, pass --base $(git merge-base origin/main HEAD).
  Both sides are built with the same compiler, the same configuration of cargo and head's Cargo.lock, to which cargo \
adds what only the base depends on. Builds are kept in target/perfmark-gate. The programs run in the working \
directory, on the same files, with empty stdin. Their stdout is discarded.
  Each mark records the events of --fail-on, unless PERFMARK_FILTER or PERFMARK_EVENTS is set.

How it counts:
  If --fail-on has `instructions`, `branches`, `L1-dcache-loads` or `L1-dcache-stores`, this machine's PMU counts \
them if `perfmark doctor` finds that it counts instructions. Otherwise, QEMU's user-mode emulator counts them (see \
`perfmark run --help`). A remark in the comparison says which.

Baselines:
  `perfmark gate --save` keeps the report of HEAD in refs/notes/perfmark, beside those of other programs, options \
and arguments. `perfmark gate --base REF --baseline` compares with the one of the same program, options and \
arguments. Share it with `git push origin refs/notes/perfmark`, and get it with `git fetch origin \
refs/notes/perfmark:refs/notes/perfmark`. Instructions that a PMU counted are not compared with those of an emulator, \
nor those of two versions of an emulator. Use a baseline only with the same compiler and kind of machine.

Exit status:
  0  no gate failed
  1  a gate failed
  2  an error: a wrong argument, an unknown commit, a build or a program that failed
  3  no gate failed, but one cannot be judged, for example because the event cannot be counted here, or the base has \
nothing to compare with, such as before the first mark";

/// Where a report is saved.
#[derive(Clone, Debug)]
enum Place {
    Notes,
    File(PathBuf),
}

impl FromStr for Place {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Ok(if name == "notes" { Self::Notes } else { Self::File(name.into()) })
    }
}

/// Why nothing was compared.
enum Ended {
    Error(String),
    /// The base has no such program, it has no marks, or no report of it was saved.
    NothingThere(String),
}

impl Ended {
    fn nothing_in_commit(why: &str) -> Self {
        Self::NothingThere(format!("{why}. Merge this change first; the gate judges the next ones"))
    }

    fn nothing_saved(why: &str) -> Self {
        let remedy = "Save one by `perfmark gate --save` with the same options, at the commit to compare with";
        Self::NothingThere(format!("{why}. {remedy}"))
    }
}

impl From<String> for Ended {
    fn from(why: String) -> Self {
        Self::Error(why)
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, String> {
    let destination = Destination::new(arguments.output.as_deref(), Destination::Stdout);
    destination.check()?;
    // Before there is anything to remove.
    #[cfg(unix)]
    run::pass_on();
    match arguments.run(&destination) {
        Ok(status) => Ok(status),
        Err(Ended::Error(why)) => Err(why),
        Err(Ended::NothingThere(why)) => {
            let why = format!("nothing was compared: {why}");
            say(&why);
            destination.give(format!("⚠️ **perfmark**: {}\n", sentence_in_markdown(&why)).as_bytes())?;
            Ok(UNDECIDED.into())
        }
    }
}

impl Arguments {
    fn run(&self, destination: &Destination) -> Result<ExitCode, Ended> {
        let counting = Counting::of(self)?;
        if let Some(place) = &self.save {
            return Ok(self.save(place, &counting)?);
        }
        let top = report::top(None)?;
        let (before, files) = self.before()?;
        let project = Project::of(&manifest()?)?;
        self.build.check(&project)?;
        // A checkout is removed when this returns.
        let base = match &before {
            Before::Commit(repository, commit) => Some(self.checkout(repository, commit, &project)?),
            Before::Reports(_) => None,
        };
        let head = self.head(&project)?;
        let base = match base {
            Some((checkout, base)) => Some((checkout, self.base(&files[0], &base, &project, &head)?)),
            None => None,
        };
        let mut runs = [Vec::new(), Vec::new()];
        for _ in 0..self.times {
            // First, because what prevents its report may prevent that of the base, too.
            runs[1].push(self.report_of_head(&head, &counting)?);
            if let Some((_, program)) = &base {
                let name = &files[0];
                let report = self.report_of(program, &head, &counting).map_err(|why| format!("base {name}: {why}"))?;
                runs[0]
                    .push(marked(report).ok_or_else(|| Ended::nothing_in_commit(&format!("base {name} {UNMARKED}")))?);
            }
        }
        if let Before::Reports(reports) = before {
            runs[0].push(self.saved(reports, &head, &project, &files[0])?);
        }
        check_origins(&mut runs)?;
        let ([base, head], [base_file, head_file]) = (runs, files);
        let sides = [("base", base_file, base), ("head", head_file, head)];
        let sides = sides.map(|(name, file, runs)| Side { name, files: vec![file], runs });
        let format = diff::Format::Markdown;
        Ok(diff::compare(&sides, None, Design::Commits, &self.fail_on, format, top, destination)?)
    }

    /// What the change is compared with, and the names of base and head.
    fn before(&self) -> Result<(Before, [String; 2]), Ended> {
        let head = "working directory".to_owned();
        if let Some(Place::File(file)) = &self.baseline {
            if self.base.is_some() {
                let why = "--base has no meaning with --baseline FILE, which is the base; leave one of them out";
                return Err(why.to_owned().into());
            }
            let reports = reports::read_each(file)?.into_iter().map(|(_, report)| report).collect();
            return Ok((Before::Reports(reports), [file.display().to_string(), head]));
        }
        let name = self.base.as_deref();
        let name = name.ok_or_else(|| "--baseline: add --base REF, the commit whose note has the report".to_owned())?;
        let repository = Repository::here()?;
        let commit = repository.commit(name)?;
        let files = [commit.name.clone(), head];
        if self.baseline.is_none() {
            return Ok((Before::Commit(repository, commit), files));
        }
        let reports = repository.reports(&commit)?;
        if reports.is_empty() {
            return Err(Ended::nothing_saved(&format!(
                "{} has no report in refs/notes/perfmark, or the notes are not here: `git fetch origin \
                 refs/notes/perfmark:refs/notes/perfmark` gets them",
                commit.name
            )));
        }
        Ok((Before::Reports(reports), files))
    }

    /// The files of the base, and its project, which has the program.
    fn checkout(&self, repository: &Repository, base: &Commit, head: &Project) -> Result<(Checkout, Project), Ended> {
        let manifest = head.manifest.strip_prefix(&repository.root).map_err(|_| {
            format!("{} is not in the repository {}", head.manifest.display(), repository.root.display())
        })?;
        let nothing = |what: &str| Ended::nothing_in_commit(&format!("base {} has {what}", base.name));
        let checkout = repository.checkout(base)?;
        let path = checkout.path.join(manifest);
        if !path.exists() {
            return Err(nothing(&format!("no {}", manifest.display())));
        }
        let project = Project::of(&path).map_err(|why| format!("base {}: {why}", base.name))?;
        match self.build.missing(&project) {
            Some(missing) => Err(nothing(&missing)),
            None => Ok((checkout, project)),
        }
    }

    fn head(&self, project: &Project) -> Result<Program, String> {
        say("building head, the working directory");
        self.build.build(project, &project.target_directory("head")).map_err(|why| format!("head: {why}"))
    }

    fn base(&self, name: &str, base: &Project, head: &Project, program: &Program) -> Result<Program, Ended> {
        if let Some(missing) = self.build.missing_in_base(base, head, program) {
            return Err(Ended::nothing_in_commit(&format!("base {name} has {missing}")));
        }
        let lock = head.lock_file();
        fs::copy(&lock, base.lock_file()).map_err(|error| format!("copying {} to base: {error}", lock.display()))?;
        say(&format!("building base, {name}, with {}", lock.display()));
        let built = self.build.build(base, &head.target_directory("base"));
        Ok(built.map_err(|why| format!("base {name}: {why}"))?)
    }

    /// The report of a run. It runs where head would.
    fn report_of(&self, program: &Program, head: &Program, counting: &Counting) -> Result<Option<Snapshot>, String> {
        let report = run::report_of(&program.path, counting.emulates, |command| {
            if head.is_benchmark {
                command.arg("--bench").current_dir(&head.package);
            }
            command.args(&self.given);
            counting.set_on(command);
        })?;
        // The file of a benchmark has a hash in its name.
        Ok(report.map(|mut report| {
            report.program.clone_from(&head.name);
            report
        }))
    }

    fn report_of_head(&self, head: &Program, counting: &Counting) -> Result<Snapshot, String> {
        let report = self.report_of(head, head, counting).map_err(|why| format!("head: {why}"))?;
        marked(report).ok_or_else(|| {
            let remedy = match env::var("PERFMARK") {
                Ok(value) if value.trim() == "off" => ", because PERFMARK=off is set; unset it",
                _ => {
                    "; put #[perfmark] on a function that the program calls, and turn recording on if it is off by \
                     default (--features)"
                }
            };
            format!("head {UNMARKED}{remedy}")
        })
    }

    /// What is run, for the notes of a saved report.
    fn variant(&self, program: &Program, project: &Project) -> String {
        let given = self.given.iter().map(|argument| format!(" {}", argument.display()));
        let gates = self.fail_on.iter().filter(|gate| !gate.is_of_coverage());
        let events: BTreeSet<String> = gates.map(|gate| format!("--fail-on={}", canonical(&gate.event))).collect();
        let emulate = self.emulate.then(|| "--emulate".to_owned());
        let options: Vec<String> = self.build.variant(program, project).chain(events).chain(emulate).collect();
        format!("{SAVED_WITH}{} --{}", options.join(" "), given.collect::<String>())
    }

    /// The saved report of this program with these options and arguments, without the note about them.
    fn saved(&self, reports: Vec<Snapshot>, head: &Program, project: &Project, file: &str) -> Result<Snapshot, Ended> {
        let of_program = reports.into_iter().filter(|report| report.program == head.name);
        let here = self.variant(head, project);
        // `perfmark run` adds no note.
        let is_it = |report: &Snapshot| variant_of(report).is_none_or(|saved| saved == here);
        let (mut found, others): (Vec<Snapshot>, Vec<Snapshot>) = of_program.partition(is_it);
        let Some(mut saved) = found.pop() else {
            let saved: Vec<&str> = others.iter().filter_map(variant_of).map(|note| &note[SAVED_WITH.len()..]).collect();
            let why = format!("{file} has no report of `{}`", &here[SAVED_WITH.len()..]);
            let known = if saved.is_empty() { String::new() } else { format!(", but of `{}`", saved.join("`, `")) };
            return Err(Ended::nothing_saved(&format!("{why}{known}")));
        };
        if !found.is_empty() {
            return Err(Ended::Error(format!(
                "{file} has {} reports of {}, but a baseline is one report; merge those of a run with `perfmark report \
                 --format json`",
                found.len() + 1,
                head.name
            )));
        }
        saved.notes.retain(|note| !note.starts_with(SAVED_WITH));
        let has = |event: &str| saved.events.iter().any(|known| is_same_event(&known.name, event));
        match self.fail_on.iter().find(|gate| !gate.is_of_coverage() && !has(&gate.event)) {
            Some(Gate { event, .. }) => Err(Ended::Error(format!(
                "{file} has no {event}, which --fail-on limits; save it again with the same --fail-on"
            ))),
            None => Ok(saved),
        }
    }

    fn save(&self, place: &Place, counting: &Counting) -> Result<ExitCode, String> {
        let json = |report: &Snapshot| Report::new(report).format(Format::Json).to_string();
        let report = || -> Result<Snapshot, String> {
            let project = Project::of(&manifest()?)?;
            self.build.check(&project)?;
            let head = self.head(&project)?;
            let mut report = self.report_of_head(&head, counting)?;
            report.notes.push(self.variant(&head, &project));
            Ok(report)
        };
        let name = match place {
            Place::File(file) => {
                let destination = Destination::new(Some(file), Destination::Stdout);
                destination.check()?;
                destination.give(json(&report()?).as_bytes())?;
                file.display().to_string()
            }
            Place::Notes => {
                let repository = Repository::here()?;
                repository.check_unchanged()?;
                let commit = repository.commit("HEAD")?;
                let report = report()?;
                // The note has one report of each program, with the same options and arguments.
                let mut all = reports_in(repository.note(&commit)?, &commit).unwrap_or_else(|why| {
                    say(&format!("{why}; the new report replaces it"));
                    Vec::new()
                });
                all.retain(|other| variant_of(other) != variant_of(&report));
                all.push(report);
                repository.set_reports(&commit, &all.iter().map(json).collect::<String>())?;
                format!("the note of {}; `git push origin refs/notes/perfmark` shares it", commit.name)
            }
        };
        say(&format!("saved the report in {name}"));
        Ok(ExitCode::SUCCESS)
    }
}

/// What a change is compared with.
enum Before {
    Commit(Repository, Commit),
    Reports(Vec<Snapshot>),
}

/// Begins the note of a saved report about what was run.
const SAVED_WITH: &str = "saved by `perfmark gate` with ";

fn variant_of(saved: &Snapshot) -> Option<&str> {
    saved.notes.iter().map(|note| &**note).find(|note| note.starts_with(SAVED_WITH))
}

const UNMARKED: &str = "recorded no call of a mark";

/// The report, if a marked function was called.
fn marked(report: Option<Snapshot>) -> Option<Snapshot> {
    report.filter(|report| report.marks.iter().any(|mark| mark.calls > 0))
}

/// How the events of the gates are counted.
struct Counting {
    emulates: bool,
    /// Lets each mark record them.
    filter: Option<String>,
}

impl Counting {
    fn of(arguments: &Arguments) -> Result<Self, String> {
        let gates = arguments.fail_on.iter().filter(|gate| !gate.is_of_coverage());
        let mut events: Vec<&str> = gates.map(|gate| &*gate.event).collect();
        events.sort_unstable();
        events.dedup();
        let in_emulator: Vec<&str> = events.iter().copied().filter(|event| is_emulated(event)).collect();
        let emulates = arguments.emulate || !in_emulator.is_empty() && !counts_instructions(perfmark_rdpmc::support());
        let mut timed = arguments.fail_on.iter().filter(|gate| is_time_or_cycles(&gate.event));
        if let Some(Gate { event, .. }) = timed.clone().next().filter(|_| emulates) {
            let why = if event.contains("cycles") {
                "an emulator has no cycles; compare them on a machine with a PMU, without --emulate"
            } else {
                "time in an emulator means nothing; compare it with `perfmark run --against`"
            };
            return Err(format!("--fail-on {event}: {why}"));
        }
        let is_one_run = arguments.times < SEVERAL || arguments.baseline.is_some();
        if let Some(event) = events.iter().find(|event| is_one_run && depends_on_machine(event)) {
            return Err(format!(
                "--fail-on {event}: it varies from run to run; compare it with `perfmark run --against`, or without a \
                 baseline and with --times {SEVERAL} or more"
            ));
        }
        timed.try_for_each(Gate::check_for_medians)?;
        let text = |name: &str| variable(name).map(|value| value.to_string_lossy().into_owned());
        let (of_marks, of_all) = (text("PERFMARK_FILTER"), text("PERFMARK_EVENTS"));
        if let Some(why) = of_marks.as_ref().and_then(|text| text.parse::<Filter>().err()) {
            return Err(format!("PERFMARK_FILTER: {why}"));
        }
        if let Some(list) = of_all.as_ref().filter(|_| of_marks.is_none()) {
            let known = perfmark::check_events(list).map_err(|why| format!("PERFMARK_EVENTS: {why}"))?;
            let is_known = |event: &str| known.iter().any(|known| is_same_event(known, event));
            if let Some(event) = events.iter().find(|event| !is_known(event)) {
                return Err(format!(
                    "PERFMARK_EVENTS={list} lacks {event}, which --fail-on limits; add it, or unset the variable"
                ));
            }
        }
        let filter = match &*events {
            [] => None,
            _ if of_marks.is_some() || of_all.is_some() => None,
            events => {
                let filter = Filter::default().events("*", events);
                Some(filter.map_err(|error| format!("--fail-on: {error}"))?.to_string())
            }
        };
        if emulates {
            let needed_for = if arguments.emulate {
                "--emulate"
            } else {
                "no PMU counts instructions here (`perfmark doctor` says why), so an emulator is required"
            };
            // Before anything is built.
            run::check_emulator().map_err(|why| format!("{needed_for}: {why}"))?;
            say("QEMU's user-mode emulator runs the programs and counts their events");
        } else if !in_emulator.is_empty() {
            say(&format!("this machine's PMU counts {}", in_emulator.join(", ")));
        }
        Ok(Self { emulates, filter })
    }

    fn set_on(&self, command: &mut Command) {
        if let Some(filter) = &self.filter {
            command.env("PERFMARK_FILTER", filter);
        }
    }
}

/// Whether the emulator counts the event. The others need a PMU, or the kernel counts them.
fn is_emulated(event: &str) -> bool {
    dashed(event).parse().is_ok_and(|event| EmulatedCounter::is_counted(&event))
}

/// Checks that these events of both sides were counted in one way, and notes it in the reports.
fn check_origins(runs: &mut [Vec<Snapshot>; 2]) -> Result<(), String> {
    let mut origins: Vec<(String, String)> = runs.iter().flatten().filter_map(origin).collect();
    origins.dedup_by(|(_, one), (_, other)| one == other);
    match &*origins {
        [] => Ok(()),
        [(event, one)] => {
            let note = format!("{event}: {one}");
            runs.iter_mut().flatten().for_each(|run| run.notes.push(note.clone()));
            Ok(())
        }
        [(event, base), (_, head), ..] => Err(format!(
            "the {event} of base were {base}, and those of head were {head}, so they are not compared; save the \
             baseline again on this machine"
        )),
    }
}

/// An event of the report that an emulator may have counted, and what did.
fn origin(report: &Snapshot) -> Option<(String, String)> {
    let event = report.events.iter().find(|event| is_emulated(&event.name) && event.read != Read::None)?;
    let emulator = event.reason.clone().filter(|_| event.read == Read::Emulated);
    Some((event.name.clone(), emulator.unwrap_or_else(|| "counted by a PMU".into())))
}
