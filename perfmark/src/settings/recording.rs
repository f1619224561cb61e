//! The environment's settings for what is recorded, and how. They are read once, before `main`.

use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;

use super::budget::Budget;
use super::environment::{self, Environment, choice};
use super::event_list::known;
use super::event_spec::EventSpec;
use super::filter::Filter;
#[cfg(feature = "sampling")]
use super::sampling::{self, SampleSettings};

/// What is recorded, and how.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RecordingSettings {
    pub(crate) is_off: bool,
    /// The events of a bare `#[perfmark]`, if set. [`time` alone](Self::is_time_only) applies to all marks.
    pub(crate) events: Option<Vec<EventSpec>>,
    /// The filter in force at the start.
    pub(crate) filter: Filter,
    /// The budget in force at the start.
    pub(crate) budget: Option<Budget>,
    pub(crate) read: ReadMode,
    /// Whether the call graph is recorded.
    pub(crate) has_call_graph: bool,
    /// What is sampled from the first call on.
    #[cfg(feature = "sampling")]
    pub(crate) sampling: Option<SampleSettings>,
    /// What to say at the first call of a mark if samples are asked for, which this build cannot take. A program that
    /// only starts others says nothing.
    #[cfg(not(feature = "sampling"))]
    pub(crate) cannot_sample: Option<String>,
}

/// How hardware counters are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ReadMode {
    /// In user space or by read(2), whichever is cheaper on this machine.
    #[default]
    Auto,
    /// In user space wherever the kernel allows it.
    User,
    /// By read(2).
    Syscall,
    /// As QEMU's user-mode emulator counts instructions, under `perfmark run --emulate`. There are no other counters.
    Emulated,
}

/// The events of a bare `#[perfmark]`.
pub(crate) const DEFAULT_EVENTS: [&str; 3] = ["time", "cycles", "instructions"];

static SETTINGS: OnceLock<RecordingSettings> = OnceLock::new();

/// The settings in force: those of the environment at the start, and the defaults before it was read.
pub(crate) fn settings() -> &'static RecordingSettings {
    static BEFORE_THE_START: OnceLock<RecordingSettings> = OnceLock::new();
    SETTINGS.get().unwrap_or_else(|| BEFORE_THE_START.get_or_init(RecordingSettings::default))
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

/// Reads the environment. Returns its errors, a sentence each; the default applies to each wrong setting.
pub(crate) fn read_environment() -> Vec<String> {
    let (settings, mut wrong) = environment::read(RecordingSettings::read);
    wrong.extend(environment::misspelled());
    // Once, as the process starts once.
    _ = SETTINGS.set(settings);
    wrong
}

impl RecordingSettings {
    /// Whether the environment sets `time` alone: no counter is then opened, whatever events marks name.
    pub(crate) fn is_time_only(&self) -> bool {
        self.events.as_deref() == Some(&[EventSpec::Time])
    }

    pub(crate) fn read(environment: &mut Environment<'_>) -> Self {
        let is_off = environment.parsed("PERFMARK", |value| choice(value, &[("on", false), ("off", true)]));
        let default_events = format!("using {}", DEFAULT_EVENTS.join(","));
        let events = environment.text("PERFMARK_EVENTS", &default_events, known);
        let filter = environment.text("PERFMARK_FILTER", "recording all marks", str::parse);
        let modes = [
            ("auto", ReadMode::Auto),
            ("user", ReadMode::User),
            ("syscall", ReadMode::Syscall),
            ("emulated", ReadMode::Emulated),
        ];
        let graph = [("off", false), ("on", true)];
        #[cfg(not(feature = "sampling"))]
        let cannot_sample = environment.parsed("PERFMARK_SAMPLE", |value| Ok(value.to_owned()));
        #[cfg(not(feature = "sampling"))]
        let cannot_sample = cannot_sample.filter(|value| value != "off").map(|value| {
            let value = crate::text::sanitize(&value.to_string_lossy());
            format!(
                "PERFMARK_SAMPLE={value}: this build of perfmark cannot sample: enable its feature `sampling`; taking \
                 no samples"
            )
        });
        #[cfg(feature = "sampling")]
        let sampling = environment.text("PERFMARK_SAMPLE", "taking no samples", |text| match text {
            "off" => Ok(None),
            text => sampling::parse(text).map(Some),
        });
        #[cfg(feature = "sampling")]
        let sampling = sampling.flatten();
        #[cfg(feature = "sampling")]
        if let Some(warning) = sampling.as_ref().and_then(SampleSettings::warning) {
            environment.report(format!("PERFMARK_SAMPLE: {warning}"));
        }
        Self {
            is_off: is_off.unwrap_or(false),
            events,
            filter: filter.unwrap_or_default(),
            budget: environment.text("PERFMARK_BUDGET", "measuring without this budget", str::parse),
            has_call_graph: environment.parsed("PERFMARK_CALL_GRAPH", |value| choice(value, &graph)).unwrap_or(false),
            #[cfg(feature = "sampling")]
            sampling,
            #[cfg(not(feature = "sampling"))]
            cannot_sample,
            read: environment.parsed("PERFMARK_READ", |value| choice(value, &modes)).unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perfmark_rdpmc::{Hardware, Software};

    fn parse(variables: &[(&str, &str)]) -> (RecordingSettings, Vec<String>) {
        environment::read_from(variables, RecordingSettings::read)
    }

    #[test]
    fn each_setting_takes_its_values() {
        let (settings, wrong) = parse(&[
            ("PERFMARK", "off"),
            ("PERFMARK_EVENTS", "page_faults, time,branch-misses,time"),
            ("PERFMARK_READ", "syscall"),
            ("PERFMARK_BUDGET", "0.5%"),
        ]);
        assert_eq!(wrong, [""; 0]);
        assert!(settings.is_off);
        let [faults, misses] = [Software::PageFaults.into(), Hardware::BranchMisses.into()].map(EventSpec::Counter);
        assert_eq!(settings.events, Some(vec![faults, EventSpec::Time, misses]));
        assert_eq!(settings.read, ReadMode::Syscall);
        assert_eq!(settings.budget, Budget::percent(0.5).ok());
    }

    #[cfg(feature = "sampling")]
    #[test]
    fn a_rate_that_makes_the_program_slow_is_announced_and_used() {
        let (settings, said) = parse(&[("PERFMARK_SAMPLE", "cpu-clock:50021")]);
        assert!(settings.sampling.is_some());
        assert!(said.concat().starts_with("PERFMARK_SAMPLE: up to 19,991 samples a second"), "{said:?}");
    }
}
