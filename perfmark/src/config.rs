//! The settings: environment variables, read once before `main`.

use std::env;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use crate::defaults;
use crate::events::EventSpec;
use crate::filter::Filter;
use crate::mark::{Manner, Mark};
use crate::output::check_directory;
use crate::report::Format;
use crate::signals;

/// What is recorded, how, and where the report goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Config {
    pub(crate) on: bool,
    /// The events of a bare `#[perfmark]`, if set. [`time` alone](Self::is_time_only) applies to all marks.
    pub(crate) events: Option<Vec<EventSpec>>,
    /// The filter in force at the start.
    pub(crate) filter: Filter,
    pub(crate) output: Output,
    pub(crate) format: Format,
    /// Whether a table on a terminal may have colours.
    pub(crate) may_color: bool,
    pub(crate) dumps: DumpSettings,
    pub(crate) read: ReadMode,
    /// Whether the call graph is recorded.
    pub(crate) has_call_graph: bool,
}

/// When the report is also written before the process ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DumpSettings {
    pub(crate) interval: Option<Duration>,
    /// The signal's number.
    pub(crate) signal: Option<i32>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    Stderr,
    Stdout,
    File(PathBuf),
}

/// How hardware counters are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadMode {
    /// In user space or by read(2), whichever is cheaper on this machine.
    Auto,
    /// In user space wherever the kernel allows it.
    User,
    /// By read(2).
    Syscall,
}

/// The events of a bare `#[perfmark]`.
const DEFAULT_EVENTS: [&str; 3] = ["time", "cycles", "instructions"];

impl Default for Config {
    fn default() -> Self {
        Self {
            on: true,
            events: None,
            filter: Filter::default(),
            output: Output::Stderr,
            format: Format::Table,
            may_color: false,
            dumps: DumpSettings::default(),
            read: ReadMode::Auto,
            has_call_graph: false,
        }
    }
}

static CONFIG: OnceLock<Config> = OnceLock::new();

/// The settings in force: those of the environment at the start, and the defaults before it was read.
pub(crate) fn config() -> &'static Config {
    static BEFORE_THE_START: OnceLock<Config> = OnceLock::new();
    CONFIG.get().unwrap_or_else(|| BEFORE_THE_START.get_or_init(Config::default))
}

/// Whether nothing is recorded.
static OFF: AtomicBool = AtomicBool::new(false);

/// Whether nothing is recorded: because of `PERFMARK=off` or the build, which never changes, or because recording has
/// ended.
#[inline]
pub(crate) fn is_off() -> bool {
    OFF.load(SeqCst)
}

/// From now on nothing is recorded.
pub(crate) fn turn_off() {
    OFF.store(true, SeqCst);
}

/// The events that a mark records: those that it names, in their order, otherwise those of the environment, of its
/// crate, or the default set.
pub(crate) fn events_of(mark: &Mark) -> Vec<EventSpec> {
    let parse = |names: &'static str| names.lines().map(EventSpec::parse).collect();
    if !mark.events.is_empty() {
        return parse(mark.events);
    }
    match (&config().events, defaults::of(mark)) {
        (Some(events), _) => events.clone(),
        (None, Some(of_crate)) if !of_crate.events.is_empty() => parse(of_crate.events),
        (None, _) => DEFAULT_EVENTS.into_iter().map(EventSpec::parse).collect(),
    }
}

/// The mark's `every`: its own, or its crate's. One call in so many is measured.
pub(crate) fn every(mark: &Mark) -> u32 {
    let of_crate = || defaults::of(mark).map_or(0, |defaults| defaults.every);
    let every = if mark.every > 0 { mark.every } else { of_crate() };
    every.max(1)
}

/// The mark's mode: its own, or its crate's.
pub(crate) fn manner(mark: &Mark) -> Manner {
    let is_fenced = mark.manner.is_fenced || defaults::of(mark).is_some_and(|defaults| defaults.is_fenced);
    Manner { is_fenced, ..mark.manner }
}

/// Reads the environment. Returns its errors, a sentence each; the default applies to each wrong setting.
///
/// A program that runs with more rights than its caller (setuid; `AT_SECURE` of getauxval(3)) takes no settings from
/// the environment, because it would write files with these rights.
pub(crate) fn read_environment() -> Vec<String> {
    if has_more_rights_than_its_caller() {
        return Vec::new();
    }
    let (config, wrong) = Config::parse(&|name| env::var_os(name));
    // Once, as the process starts once.
    _ = CONFIG.set(config);
    wrong
}

#[cfg(any(target_os = "linux", target_os = "android"))]
#[allow(unsafe_code, reason = "asks libc")]
fn has_more_rights_than_its_caller() -> bool {
    // SAFETY: getauxval only reads what the kernel passed to the process. Miri does not support it.
    !cfg!(miri) && unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn has_more_rights_than_its_caller() -> bool {
    false
}

impl Config {
    /// Whether the environment sets `time` alone: no counter is then opened, whatever events marks name.
    pub(crate) fn is_time_only(&self) -> bool {
        self.events.as_deref() == Some(&[EventSpec::Time])
    }

    fn parse<V: AsRef<OsStr>>(variable: &dyn Fn(&str) -> Option<V>) -> (Self, Vec<String>) {
        let (mut config, mut wrong) = (Self::default(), Vec::new());
        let mut setting = |name: &str, set: &mut dyn FnMut(&OsStr) -> Result<(), String>| {
            let Some(value) = variable(name) else { return };
            let value = value.as_ref();
            if value.is_empty() {
                return;
            }
            if let Err(why) = set(value) {
                wrong.push(format!("{name}={}: {why}", value.to_string_lossy()));
            }
        };
        setting("PERFMARK", &mut |value| {
            config.on = choice(value, &[("on", true), ("off", false)])?;
            Ok(())
        });
        setting("PERFMARK_EVENTS", &mut |value| {
            config.events = Some(events(value)?);
            Ok(())
        });
        setting("PERFMARK_FILTER", &mut |value| {
            let filter = value.to_str().ok_or("not valid UTF-8; recording all marks")?;
            config.filter = filter.parse().map_err(|why| format!("{why}; recording all marks"))?;
            Ok(())
        });
        setting("PERFMARK_OUTPUT", &mut |value| {
            config.output = output(value)?;
            Ok(())
        });
        setting("PERFMARK_FORMAT", &mut |value| {
            config.format = Format::from_name(&value.to_string_lossy()).map_err(|why| format!("{why}; using table"))?;
            Ok(())
        });
        setting("PERFMARK_DUMP_INTERVAL", &mut |value| {
            config.dumps.interval = Some(seconds(value)?);
            Ok(())
        });
        setting("PERFMARK_DUMP_SIGNAL", &mut |value| {
            let signal = signals::from_name(&value.to_string_lossy());
            config.dumps.signal = Some(signal.map_err(|why| format!("{why}; writing no dumps at signals"))?);
            Ok(())
        });
        setting("PERFMARK_CALL_GRAPH", &mut |value| {
            config.has_call_graph = choice(value, &[("off", false), ("on", true)])?;
            Ok(())
        });
        setting("PERFMARK_READ", &mut |value| {
            let modes = [("auto", ReadMode::Auto), ("user", ReadMode::User), ("syscall", ReadMode::Syscall)];
            config.read = choice(value, &modes)?;
            Ok(())
        });
        let is_set = |name: &str| variable(name).is_some_and(|value| !value.as_ref().is_empty());
        let is_dumb = variable("TERM").is_some_and(|value| value.as_ref() == "dumb");
        config.may_color = is_set("TERM") && !is_dumb && !is_set("NO_COLOR");
        if config.dumps != DumpSettings::default() && !matches!(config.output, Output::File(_)) {
            let why = "PERFMARK_OUTPUT names no file; writing no dumps; set PERFMARK_OUTPUT to a file";
            wrong.push(format!("PERFMARK_DUMP_INTERVAL and PERFMARK_DUMP_SIGNAL: {why}"));
            config.dumps = DumpSettings::default();
        }
        (config, wrong)
    }
}

/// The first of `choices` is the default.
fn choice<T: Copy>(value: &OsStr, choices: &[(&str, T)]) -> Result<T, String> {
    let chosen = choices.iter().find(|(name, _)| value == *name);
    chosen.map(|&(_, choice)| choice).ok_or_else(|| {
        let names: Vec<_> = choices.iter().map(|(name, _)| format!("`{name}`")).collect();
        let default = names.first().cloned().unwrap_or_default();
        let names = match names.split_last() {
            Some((last, [])) => last.clone(),
            Some((last, others)) => format!("{} or {last}", others.join(", ")),
            None => String::new(),
        };
        format!("expected {names}; using {default}")
    })
}

fn seconds(value: &OsStr) -> Result<Duration, String> {
    let seconds: Option<f64> = value.to_str().and_then(|text| text.trim().parse().ok());
    let interval = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let expected = "expected seconds, such as 60 or 0.5; writing no dumps at intervals";
    interval.filter(|interval| !interval.is_zero()).ok_or_else(|| expected.into())
}

fn events(value: &OsStr) -> Result<Vec<EventSpec>, String> {
    let list = value.to_str().ok_or_else(|| "not valid UTF-8".to_owned());
    list.and_then(known).map_err(|why| format!("{why}; using {}", DEFAULT_EVENTS.join(",")))
}

/// Checks a list of events.
pub(crate) fn check_events(list: &str) -> Result<(), String> {
    known(list).map(drop)
}

fn known(list: &str) -> Result<Vec<EventSpec>, String> {
    let mut events = Vec::new();
    for name in split(list).into_iter().map(str::trim).filter(|name| !name.is_empty()) {
        let event = EventSpec::known(name).map_err(|error| error.to_string())?;
        if !events.contains(&event) {
            events.push(event);
        }
    }
    if events.is_empty() { Err("expected at least one event".into()) } else { Ok(events) }
}

/// Splits a list at its commas, except those between the slashes of `pmu/term,term/`.
fn split(list: &str) -> Vec<&str> {
    let (mut events, mut start) = (Vec::new(), 0);
    for (at, _) in list.match_indices(',') {
        let event = &list[start..at];
        let is_pmus = event.split('/').next().is_some_and(|pmu| !pmu.contains(':'));
        if !is_pmus || event.matches('/').count() != 1 {
            events.push(event);
            start = at + 1;
        }
    }
    events.push(&list[start..]);
    events
}

fn output(value: &OsStr) -> Result<Output, String> {
    if value == "-" {
        return Ok(Output::Stdout);
    }
    // Made absolute now, because the program may change its directory.
    let path = std::path::absolute(value).map_err(|error| format!("{error}; writing to stderr"))?;
    if path.is_dir() {
        return Err("is a directory; writing to stderr; set it to a file, or to - for stdout".into());
    }
    check_directory(&path).map_err(|why| format!("{why}; writing to stderr"))?;
    Ok(Output::File(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use perfmark_rdpmc::{Hardware, Software};

    fn parse(variables: &[(&str, &str)]) -> (Config, Vec<String>) {
        Config::parse(&|name| {
            variables.iter().find(|(variable, _)| *variable == name).map(|(_, value)| OsStr::new(*value).to_owned())
        })
    }

    #[test]
    fn an_empty_environment_and_empty_values_give_the_defaults() {
        assert_eq!(parse(&[]), (Config::default(), vec![]));
        let empty = ["PERFMARK", "PERFMARK_EVENTS", "PERFMARK_OUTPUT", "PERFMARK_FORMAT", "PERFMARK_READ"];
        assert_eq!(parse(&empty.map(|name| (name, ""))), (Config::default(), vec![]));
    }

    #[test]
    fn each_setting_takes_its_values() {
        let (config, wrong) = parse(&[
            ("PERFMARK", "off"),
            ("PERFMARK_EVENTS", "page_faults, time,branch-misses,time"),
            ("PERFMARK_OUTPUT", "/tmp/../report"),
            ("PERFMARK_DUMP_INTERVAL", "0.5"),
            ("PERFMARK_READ", "syscall"),
        ]);
        assert_eq!(wrong, [""; 0]);
        assert_eq!(config.dumps, DumpSettings { interval: Some(Duration::from_millis(500)), signal: None });
        assert!(!config.on);
        let counters = [Software::PageFaults.into(), Hardware::BranchMisses.into()].map(EventSpec::Counter);
        let [faults, misses] = counters;
        assert_eq!(config.events, Some(vec![faults, EventSpec::Time, misses]));
        assert_eq!(config.output, Output::File("/tmp/../report".into()));
        assert_eq!(config.read, ReadMode::Syscall);
        assert_eq!(parse(&[("PERFMARK_OUTPUT", "-")]).0.output, Output::Stdout);
    }

    #[test]
    fn colours_are_for_terminals_that_support_them_unless_the_user_disables_them() {
        let may_color = |variables| parse(variables).0.may_color;
        assert!(may_color(&[("TERM", "xterm-256color")]) && may_color(&[("TERM", "screen"), ("NO_COLOR", "")]));
        assert!(!may_color(&[("TERM", "xterm"), ("NO_COLOR", "0")]));
        assert!(!may_color(&[("TERM", "dumb")]) && !may_color(&[("TERM", "")]) && !may_color(&[]));
    }

    #[test]
    fn dumps_need_a_file() {
        let (config, wrong) = parse(&[("PERFMARK_DUMP_INTERVAL", "60")]);
        assert_eq!(config, Config::default());
        assert!(wrong.len() == 1 && wrong[0].contains("PERFMARK_OUTPUT names no file"), "{wrong:?}");
    }

    #[test]
    fn commas_between_a_pmus_slashes_are_its_own() {
        let list = "cycles,cpu/event=0xc2,umask=1/u,mem:0x1000/4:w,time,cpu/x";
        assert_eq!(split(list), ["cycles", "cpu/event=0xc2,umask=1/u", "mem:0x1000/4:w", "time", "cpu/x"]);
    }

    #[test]
    fn a_wrong_value_is_reported_with_the_valid_ones_and_the_default_is_used() {
        for (name, value, reported) in [
            ("PERFMARK", "of", "expected `on` or `off`; using `on`"),
            ("PERFMARK_READ", "fast", "expected `auto`, `user` or `syscall`; using `auto`"),
            ("PERFMARK_FORMAT", "xml", "using table"),
            ("PERFMARK_EVENTS", "cycels", "did you mean cycles"),
            ("PERFMARK_EVENTS", ",", "expected at least one event"),
            ("PERFMARK_DUMP_INTERVAL", "0", "expected seconds, such as 60 or 0.5"),
            ("PERFMARK_DUMP_INTERVAL", "-1", "expected seconds"),
            ("PERFMARK_DUMP_INTERVAL", "inf", "expected seconds"),
            ("PERFMARK_DUMP_SIGNAL", "USR3", "writing no dumps at signals"),
            ("PERFMARK_OUTPUT", "/", "is a directory"),
            ("PERFMARK_OUTPUT", "/no/such/folder/report", "no directory /no/such/folder"),
        ] {
            let (config, wrong) = parse(&[(name, value)]);
            assert_eq!(config, Config::default(), "{name}={value}");
            assert_eq!(wrong.len(), 1, "{name}={value}");
            assert!(wrong[0].starts_with(&format!("{name}={value}: ")), "{wrong:?}");
            assert!(wrong[0].contains(reported), "{wrong:?}");
        }
    }
}
