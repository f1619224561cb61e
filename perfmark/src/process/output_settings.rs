//! The environment's settings for the report: where it goes, in which format, and when. They are read once, before
//! `main`.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crate::platform::files::{check_file, in_this_process};
use crate::platform::signals;
use crate::platform::terminal::{remember_named, say};
use crate::report::{Format, Report, View};
use crate::settings::environment::{self, Environment, choice};
use crate::settings::{Filter, FilterError};
use crate::snapshot::Snapshot;

/// Where the report goes, in which format, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a setting of its own")]
pub(super) struct OutputSettings {
    /// Whether the environment has a variable of perfmark's, even one that is wrong or unknown.
    pub(super) is_in_environment: bool,
    pub(super) output: Output,
    pub(super) format: Format,
    /// Whether a table on a terminal may have colours.
    pub(super) may_color: bool,
    /// What the report shows, in the width of a table that does not go to a terminal.
    view: View,
    /// Whether readers of a report in JSON get the source text of hot lines from it, and not from files.
    embeds_sources: bool,
    pub(super) dumps: DumpSettings,
    /// Whether SIGINT ends the process after the report.
    pub(super) reports_on_sigint: bool,
}

/// When the report is also written before the process ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct DumpSettings {
    pub(super) interval: Option<Duration>,
    /// The signal's number.
    pub(super) signal: Option<i32>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Output {
    Stderr,
    Stdout,
    File(PathBuf),
}

const DEFAULT: OutputSettings = OutputSettings {
    is_in_environment: false,
    output: Output::Stderr,
    format: Format::Table,
    may_color: false,
    view: View::DEFAULT,
    embeds_sources: false,
    dumps: DumpSettings { interval: None, signal: None },
    reports_on_sigint: false,
};

static SETTINGS: OnceLock<OutputSettings> = OnceLock::new();
/// The environment's errors, a sentence each.
static WRONG: OnceLock<Vec<String>> = OnceLock::new();

/// The settings in force: those of the environment at the start, and the defaults before it was read.
pub(super) fn output_settings() -> &'static OutputSettings {
    SETTINGS.get().unwrap_or(&DEFAULT)
}

/// Reads the environment. The default applies to each wrong setting.
pub(super) fn read_environment() {
    let (settings, wrong) = environment::read(OutputSettings::read);
    // Once, as the process starts once.
    _ = SETTINGS.set(OutputSettings { is_in_environment: environment::has_any(), ..settings });
    _ = WRONG.set(wrong);
}

/// Prints the environment's errors once. A program without marks, such as one that only starts others, does not come
/// here: the others may have features that it lacks.
pub(super) fn say_wrong() {
    static IS_SAID: AtomicBool = AtomicBool::new(false);
    if !IS_SAID.swap(true, Relaxed) {
        WRONG.get().into_iter().flatten().for_each(|wrong| say(wrong));
    }
}

impl OutputSettings {
    fn read(environment: &mut Environment<'_>) -> Self {
        let output = environment.parsed("PERFMARK_OUTPUT", output).unwrap_or(Output::Stderr);
        let format = environment.text("PERFMARK_FORMAT", "using table", Format::from_name).unwrap_or_default();
        let dumps = DumpSettings {
            interval: environment.text("PERFMARK_DUMP_INTERVAL", "writing no dumps at intervals", seconds),
            signal: environment.text("PERFMARK_DUMP_SIGNAL", "writing no dumps at signals", signals::from_name),
        };
        let is_terminal_with_colors = environment.value("TERM").is_some_and(|terminal| terminal != "dumb");
        let may_color = is_terminal_with_colors && environment.value("NO_COLOR").is_none();
        let columns = environment.value("COLUMNS").and_then(|columns| columns.to_str()?.parse::<usize>().ok());
        // Some environments set it to 0 where there is no terminal.
        let columns = columns.filter(|&columns| columns > 0);
        let view = View {
            columns: columns.unwrap_or(View::DEFAULT.columns),
            is_limited: columns.is_some(),
            top: environment.text("PERFMARK_TOP", "using 20", number).unwrap_or(View::DEFAULT.top),
            lines: environment.text("PERFMARK_LINES", "using 3", number).unwrap_or(View::DEFAULT.lines),
            details: environment.text("PERFMARK_DETAILS", "showing no details", details).flatten(),
            ..View::DEFAULT
        };
        let at_sigint = [("end", false), ("report", true)];
        let reports_on_sigint = environment.parsed("PERFMARK_ON_SIGINT", |value| choice(value, &at_sigint));
        let sources = [("read", false), ("embed", true)];
        let embeds_sources = environment.parsed("PERFMARK_SOURCES", |value| choice(value, &sources));
        Self {
            output,
            format,
            may_color,
            view,
            embeds_sources: embeds_sources.unwrap_or(false),
            dumps,
            reports_on_sigint: reports_on_sigint.unwrap_or(false),
            ..DEFAULT
        }
    }

    /// The report in that format that these settings describe, except for its destination.
    pub(super) fn report<'a>(&self, snapshot: &'a Snapshot, format: Format) -> Report<'a> {
        let report = Report::with_view(snapshot, format, self.view.clone());
        #[cfg(feature = "json")]
        if self.embeds_sources && format == Format::Json {
            return report.embed_sources();
        }
        report
    }
}

/// Separates a table from the program's output by an empty line.
pub(super) fn after_the_program(report: &Report<'_>, format: Format) -> String {
    if format == Format::Table { format!("\n{report}") } else { report.to_string() }
}

fn number(text: &str) -> Result<usize, &'static str> {
    if text == "all" { Ok(usize::MAX) } else { text.parse().map_err(|_| "expected a number or `all`") }
}

fn details(text: &str) -> Result<Option<Filter>, FilterError> {
    if text == "off" { Ok(None) } else { text.parse().map(Some) }
}

fn output(value: &OsStr) -> Result<Output, String> {
    if value == "-" {
        return Ok(Output::Stdout);
    }
    // Made absolute now, because the program may change its directory.
    let path = std::path::absolute(value).map_err(|error| format!("{error}; writing to stderr"))?;
    let here = in_this_process(&path, false);
    let remedy = "set it to a file in an accessible directory, or to - for stdout";
    check_file(&here).map_err(|why| format!("{why}; writing to stderr; {remedy}"))?;
    remember_named(&path);
    Ok(Output::File(path))
}

fn seconds(text: &str) -> Result<Duration, &'static str> {
    let interval = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    interval.filter(|interval| !interval.is_zero()).ok_or("expected seconds, such as 60 or 0.5")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::recording::RecordingSettings;

    fn parse(variables: &[(&str, &str)]) -> (OutputSettings, Vec<String>) {
        environment::read_from(variables, OutputSettings::read)
    }

    #[test]
    fn an_empty_environment_and_empty_values_give_the_defaults() {
        for variables in [None].into_iter().chain(environment::VARIABLES.map(|name| Some((name, "")))) {
            let (recording, wrong) = environment::read_from(variables.as_slice(), RecordingSettings::read);
            assert_eq!((recording, wrong), (RecordingSettings::default(), vec![]), "{variables:?}");
            assert_eq!(parse(variables.as_slice()), (DEFAULT, vec![]), "{variables:?}");
        }
    }

    #[test]
    fn each_setting_takes_its_values() {
        let (settings, wrong) = parse(&[("PERFMARK_OUTPUT", "/tmp/../report"), ("PERFMARK_DUMP_INTERVAL", "0.5")]);
        assert_eq!(wrong, [""; 0]);
        assert_eq!(settings.dumps, DumpSettings { interval: Some(Duration::from_millis(500)), signal: None });
        assert_eq!(settings.output, Output::File("/tmp/../report".into()));
        assert_eq!(parse(&[("PERFMARK_OUTPUT", "-")]).0.output, Output::Stdout);
    }

    #[test]
    fn spaces_around_a_value_are_ignored_except_in_the_name_of_a_file() {
        let with_spaces = [
            ("PERFMARK_FORMAT", "markdown"),
            ("PERFMARK_TOP", "5"),
            ("PERFMARK_LINES", "all"),
            ("PERFMARK_DETAILS", "off"),
            ("PERFMARK_DUMP_INTERVAL", "2"),
            ("PERFMARK_ON_SIGINT", "report"),
            ("PERFMARK_SOURCES", "embed"),
            ("PERFMARK", "off"),
            ("PERFMARK_CALL_GRAPH", "on"),
            ("PERFMARK_READ", "syscall"),
            ("PERFMARK_BUDGET", "2%"),
            ("PERFMARK_EVENTS", "time"),
        ];
        for (name, value) in with_spaces {
            let spaced = format!("\t{value} ");
            assert_eq!(parse(&[(name, &spaced)]), parse(&[(name, value)]), "{name}");
            let recording = |value| format!("{:?}", environment::read_from(&[(name, value)], RecordingSettings::read));
            assert_eq!(recording(&spaced), recording(value), "{name}");
        }
        assert_eq!(parse(&[("PERFMARK_FORMAT", " ")]), (DEFAULT, vec![]), "as if it were empty");
        assert_eq!(parse(&[("PERFMARK_OUTPUT", "/tmp/report ")]).0.output, Output::File("/tmp/report ".into()));
    }

    #[test]
    fn the_output_is_checked_under_its_name_in_this_process() {
        let name = |process: &str| std::env::temp_dir().join(format!("perfmark-output-of-{process}"));
        let folder = name(&std::process::id().to_string());
        std::fs::create_dir(&folder).expect("made");
        let file = name("%p").join("report");
        let (settings, wrong) = parse(&[("PERFMARK_OUTPUT", file.to_str().expect("UTF-8"))]);
        std::fs::remove_dir(&folder).expect("there");
        assert_eq!((settings.output, wrong), (Output::File(file.clone()), vec![]));
        let (_, wrong) = parse(&[("PERFMARK_OUTPUT", file.to_str().expect("UTF-8"))]);
        assert!(wrong[0].contains(&format!("the directory {} does not exist", folder.display())), "{wrong:?}");
    }

    #[test]
    fn zero_columns_are_as_no_columns() {
        let width = |value| {
            let view = parse(&[("COLUMNS", value)]).0.view;
            (view.columns, view.is_limited)
        };
        assert_eq!(["0", "x", "90"].map(width), [(100, false), (100, false), (90, true)]);
    }

    #[test]
    fn colours_are_for_terminals_that_support_them_unless_the_user_disables_them() {
        let may_color = |variables| parse(variables).0.may_color;
        assert!(may_color(&[("TERM", "xterm-256color")]) && may_color(&[("TERM", "screen"), ("NO_COLOR", "")]));
        assert!(!may_color(&[("TERM", "xterm"), ("NO_COLOR", "0")]));
        assert!(!may_color(&[("TERM", "dumb")]) && !may_color(&[("TERM", "")]) && !may_color(&[]));
    }

    #[test]
    fn a_wrong_value_gives_the_default_and_is_reported_with_what_applies_instead_and_what_to_do() {
        /// A misspelt value of each variable, and what its message says to do.
        const MISSPELT: [(&str, &str, &str); 16] = [
            ("PERFMARK", "of", "expected `on` or `off`; using `on`"),
            ("PERFMARK_EVENTS", "time,offcpu", "did you mean `off_cpu`? Using "),
            ("PERFMARK_FILTER", "app::run=cycels", "did you mean `cycles`? Recording "),
            ("PERFMARK_BUDGET", "2", "expected a percentage, such as `2%`; measuring without this budget"),
            ("PERFMARK_OUTPUT", "/no/such/folder/report", "set it to a file"),
            ("PERFMARK_FORMAT", "jsn", "expected one of table, "),
            ("PERFMARK_TOP", "al", "expected a number or `all`; using 20"),
            ("PERFMARK_LINES", "al", "expected a number or `all`; using 3"),
            ("PERFMARK_DETAILS", "app::run=cycels", "did you mean `cycles`? Showing "),
            ("PERFMARK_DUMP_INTERVAL", "1m", "expected seconds, such as 60"),
            ("PERFMARK_DUMP_SIGNAL", "URS1", if SIGNALS { "expected for example USR1" } else { "enable its feature" }),
            ("PERFMARK_ON_SIGINT", "reprot", "expected `end` or `report`; using `end`"),
            ("PERFMARK_CALL_GRAPH", "onn", "expected `off` or `on`"),
            ("PERFMARK_READ", "users", "expected `auto`, `user`, `syscall` or `emulated`; using `auto`"),
            ("PERFMARK_SAMPLE", "99hz", if SAMPLES { "expected `off`, a number" } else { "enable its feature" }),
            ("PERFMARK_SOURCES", "embedded", "expected `read` or `embed`"),
        ];
        /// Other wrong values.
        const WRONG: [(&str, &str, &str); 10] = [
            ("PERFMARK_EVENTS", "cycles instructions", "; separate events by commas; using time,"),
            ("PERFMARK_EVENTS", ",", "expected at least one event"),
            ("PERFMARK_BUDGET", "0%", "a budget of 0 % is not possible; it must be above 0 % and at most 100 %"),
            ("PERFMARK_OUTPUT", "/", "is a directory"),
            ("PERFMARK_OUTPUT", "/tmp/no-such-folder/", "the name of a file does not end with `/`"),
            ("PERFMARK_TOP", "-1", "expected a number or `all`"),
            ("PERFMARK_DETAILS", "a=every:0", "every:0"),
            ("PERFMARK_DUMP_INTERVAL", "0", "expected seconds"),
            ("PERFMARK_DUMP_INTERVAL", "-1", "expected seconds"),
            ("PERFMARK_DUMP_INTERVAL", "inf", "expected seconds"),
        ];
        const SIGNALS: bool = cfg!(all(feature = "signal", any(target_os = "linux", target_os = "android")));
        const SAMPLES: bool = cfg!(feature = "sampling");
        /// Values that require a feature, and whether this build has it.
        const REQUIRING: [(&str, &str, &str, bool); 7] = [
            ("PERFMARK_FORMAT", "json", "json", cfg!(feature = "json")),
            ("PERFMARK_FORMAT", "csv", "csv", cfg!(feature = "csv")),
            ("PERFMARK_FORMAT", "html", "html", cfg!(feature = "html")),
            ("PERFMARK_FORMAT", "svg", "flamegraph", cfg!(feature = "flamegraph")),
            ("PERFMARK_FORMAT", "openmetrics", "prometheus", cfg!(feature = "prometheus")),
            ("PERFMARK_DUMP_SIGNAL", "USR1", "signal", SIGNALS),
            ("PERFMARK_SAMPLE", "99", "sampling", SAMPLES),
        ];
        let read = |name: &str, value: &str| {
            #[cfg_attr(feature = "sampling", allow(unused_mut, reason = "only other builds say something later"))]
            let (mut recording, mut wrong) = environment::read_from(&[(name, value)], RecordingSettings::read);
            #[cfg(not(feature = "sampling"))]
            wrong.extend(recording.cannot_sample.take());
            let (output, wrong_output) = parse(&[(name, value)]);
            wrong.extend(wrong_output);
            if !wrong.is_empty() {
                assert_eq!((recording, output), (RecordingSettings::default(), DEFAULT), "{name}={value}");
            }
            wrong
        };
        assert_eq!(MISSPELT.map(|(name, ..)| name), environment::VARIABLES, "a new variable has a case here");
        for (name, value, remedy) in MISSPELT.into_iter().chain(WRONG) {
            assert_message(name, value, &read(name, value), remedy);
        }
        for (name, value, feature, has_feature) in REQUIRING {
            let wrong = read(name, value);
            if has_feature {
                assert_eq!(wrong, [""; 0], "{name}={value}");
            } else {
                assert_message(name, value, &wrong, &format!("enable its feature `{feature}`"));
            }
        }
    }

    fn assert_message(name: &str, value: &str, wrong: &[String], remedy: &str) {
        let [wrong] = wrong else { panic!("one message for {name}={value}: {wrong:?}") };
        assert!(wrong.starts_with(&format!("{name}={value}: ")) && wrong.contains(remedy), "{wrong}");
        let instead = ["using ", "recording all marks", "measuring without ", "writing ", "showing no ", "taking no "];
        assert!(instead.iter().any(|instead| wrong.to_lowercase().contains(instead)), "{wrong}");
    }
}
