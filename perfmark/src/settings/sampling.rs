//! What is sampled, and how often. The language of `PERFMARK_SAMPLE`.

use perfmark_rdpmc::Event;

use super::{EventSpec, event_list};
use crate::text::exact;

/// What is sampled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SampleSettings {
    /// At least one. They share each thread's ring.
    pub(crate) events: Vec<SampledEvent>,
    pub(crate) stacks: Stacks,
    pub(crate) timestamps: bool,
}

/// An event that is sampled, and how often.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SampledEvent {
    /// By default cycles, or CPU time where they cannot be sampled.
    pub(crate) event: Option<Event>,
    pub(crate) rate: Rate,
}

/// How often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rate {
    /// Samples a second of the thread's CPU time.
    Frequency(u64),
    /// The number of events between two samples.
    Period(u64),
}

impl Rate {
    /// Twice a second, a program's timer and the samples are at the same time. With 100 they would always be.
    pub(crate) const DEFAULT: Self = Self::Frequency(99);
}

impl Default for Rate {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// How callers of the sampled code are found, so that time in a function counts at the line that called it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stacks {
    /// Only the executed instruction is known.
    Off,
    /// From the innermost 512 bytes of the stack. In nearly all samples this reaches the marked function, unless it
    /// called functions with large frames. On x86-64 and arm64; elsewhere only the executed instruction is known.
    #[default]
    Short,
    /// From this many bytes of the stack, rounded up to a multiple of 8, and 65,520 at most. More bytes reach further
    /// and cost more: 8 KiB about 1.2 µs for each sample on a virtual machine.
    Bytes(u32),
    /// By frame pointers: all code must be compiled with `-C force-frame-pointers=yes`. The kernel follows them.
    FramePointers,
}

impl Stacks {
    /// The bytes of stack that each sample has.
    pub(crate) fn bytes(self) -> u32 {
        match self {
            Self::Off | Self::FramePointers => 0,
            Self::Short => 512,
            Self::Bytes(bytes) => bytes.clamp(FEWEST_BYTES, MOST_BYTES).next_multiple_of(8),
        }
    }
}

/// How many bytes of the stack a sample may have.
const FEWEST_BYTES: u32 = 8;
/// The kernel writes the size in 16 bits.
const MOST_BYTES: u32 = 65_520;

const EXPECTED: &str = "expected `off`, a number of samples a second such as `99`, or an event and a period such as \
                        `cycles:1000003`; several are separated by commas, and `stack=2048` (8 to 65520 bytes), \
                        `stack=fp` or `stack=off` sets how callers are found, and `timestamps` adds when samples were \
                        taken";

const NO_RATE: &str = "expected how often samples are taken, too, such as `99,timestamps` for 99 a second";

/// Reads `99`, samples a second, or `cycles:1000003`, an event and the number of its occurrences between two samples;
/// `stack=…`, and `timestamps`.
pub(crate) fn parse(text: &str) -> Result<SampleSettings, String> {
    let mut settings = SampleSettings { events: Vec::new(), stacks: Stacks::default(), timestamps: false };
    let mut has_stacks = false;
    if text.trim().is_empty() {
        return Err(EXPECTED.into());
    }
    for item in event_list::split(text).into_iter().map(str::trim) {
        let expected = || if item == text { EXPECTED.into() } else { format!("`{item}`: {EXPECTED}") };
        match item.strip_prefix("stack=") {
            _ if item.is_empty() => return Err("an item is empty; remove a comma".into()),
            Some(_) if has_stacks => return Err("`stack=` is there twice; choose one".into()),
            Some(stacks) => (settings.stacks, has_stacks) = (self::stacks(stacks).ok_or_else(expected)?, true),
            None if item == "timestamps" => settings.timestamps = true,
            None => settings.events.push(event(item, expected)?),
        }
    }
    if settings.events.is_empty() {
        return Err(NO_RATE.into());
    }
    settings.check()?;
    Ok(settings)
}

impl SampleSettings {
    /// Refuses an event that is named twice, and periods that the kernel does not keep.
    pub(crate) fn check(&self) -> Result<(), String> {
        let events = &self.events;
        let is_again = |n: usize| events[..n].iter().any(|known| known.event == events[n].event);
        if (1..events.len()).any(is_again) {
            return Err("an event is sampled twice; name each event once".into());
        }
        events.iter().try_for_each(SampledEvent::check)
    }

    /// What to say before so many samples are taken that the program becomes much slower.
    pub(crate) fn warning(&self) -> Option<String> {
        let a_second = self.events.iter().filter_map(SampledEvent::most_a_second).fold(0, u64::saturating_add);
        (a_second > MANY).then(|| {
            format!(
                "up to {} samples a second may make a thread more than 10 % slower; use {} or fewer",
                exact(a_second),
                exact(MANY)
            )
        })
    }
}

/// On a virtual machine, 997 samples a second made calls 2.1 % slower (`benches/records/sampling.md`).
const MANY: u64 = 4_500;

impl SampledEvent {
    /// Whether its unit is nanoseconds.
    fn is_clock(&self) -> bool {
        self.event.as_ref().is_some_and(Event::is_time)
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        /// The least time between two samples of a clock, in nanoseconds. The kernel's limit is 10,000
        /// (`perf_swevent_start_hrtimer` in `kernel/events/core.c`), but it loses some samples that are less than this
        /// apart (`benches/records/sampling.md` has the deviations from here on).
        const SHORTEST: u64 = 50_000;
        let most = 1_000_000_000 / SHORTEST;
        match (self.rate, &self.event) {
            (Rate::Frequency(0) | Rate::Period(0), _) => {
                Err("0 takes no samples; use a number of samples a second such as `99`, or a period from 1 on".into())
            }
            (Rate::Period(period), Some(event)) if self.is_clock() && period < SHORTEST => Err(format!(
                "the kernel loses samples of a clock that are less than {} ns apart; use `{event}:50021` or more, or a \
                 number of samples a second such as `99`",
                exact(SHORTEST)
            )),
            (Rate::Frequency(frequency), _) if frequency > most => Err(format!(
                "the kernel loses samples if it takes {} a second; use at most {}, such as `99`",
                exact(frequency),
                exact(most)
            )),
            _ => Ok(()),
        }
    }

    /// The most samples of a thread in a second, if that is known.
    fn most_a_second(&self) -> Option<u64> {
        match self.rate {
            Rate::Frequency(frequency) => Some(frequency),
            Rate::Period(period) => self.is_clock().then(|| 1_000_000_000 / period.max(1)),
        }
    }
}

/// `99`, or an event and its period.
fn event(text: &str, expected: impl Fn() -> String) -> Result<SampledEvent, String> {
    let positive = |number: &str| number.parse().ok().filter(|&number: &u64| number > 0);
    if let Some(frequency) = positive(text) {
        return Ok(SampledEvent { event: None, rate: Rate::Frequency(frequency) });
    }
    let (name, period) = text.rsplit_once(':').unwrap_or((text, ""));
    match (EventSpec::known(name), positive(period)) {
        (Ok(EventSpec::Counter(event)), Some(period)) => {
            Ok(SampledEvent { event: Some(event), rate: Rate::Period(period) })
        }
        (Ok(EventSpec::Counter(_)), None) => Err(format!(
            "`{text}` lacks its period, the number of its occurrences between two samples, from 1 on, as in \
             `cycles:1000003` or `page_faults:101`"
        )),
        (Ok(_), _) => Err(format!("`{name}` cannot be sampled; `cpu-clock:1000003` samples CPU time")),
        (Err(why), period) if period.is_some() && !name.is_empty() => Err(why.to_string()),
        (Err(why), _) if !why.suggestion().is_empty() || name.contains('/') => Err(why.to_string()),
        (Err(_), _) if text == "off" => Err("`off` cannot be combined with other items; remove them, or `off`".into()),
        _ => Err(expected()),
    }
}

fn stacks(text: &str) -> Option<Stacks> {
    Some(match text {
        "off" => Stacks::Off,
        "fp" => Stacks::FramePointers,
        bytes => Stacks::Bytes(bytes.parse().ok().filter(|bytes| (FEWEST_BYTES..=MOST_BYTES).contains(bytes))?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use perfmark_rdpmc::{Hardware, Software};

    fn one(event: Option<Event>, rate: Rate) -> SampleSettings {
        SampleSettings { events: vec![SampledEvent { event, rate }], stacks: Stacks::Short, timestamps: false }
    }

    #[test]
    fn frequencies_and_periods_are_read() {
        assert_eq!(parse("99"), Ok(one(None, Rate::Frequency(99))));
        assert_eq!(parse("cycles:1000003"), Ok(one(Some(Hardware::Cycles.into()), Rate::Period(1_000_003))));
        assert_eq!(parse("page_faults:1"), Ok(one(Some(Software::PageFaults.into()), Rate::Period(1))));
    }

    #[test]
    fn several_events_and_the_stack_are_read() {
        let both = parse("99,page_faults:1,stack=2041").expect("valid");
        assert_eq!(both.events.len(), 2);
        assert_eq!(both.stacks.bytes(), 2_048);
        assert_eq!(parse("99,stack=off"), Ok(SampleSettings { stacks: Stacks::Off, ..one(None, Rate::DEFAULT) }));
        assert_eq!(parse("99, timestamps"), Ok(SampleSettings { timestamps: true, ..one(None, Rate::DEFAULT) }));
        assert_eq!(parse("stack=fp,99").map(|settings| settings.stacks), Ok(Stacks::FramePointers));
    }

    #[test]
    fn other_values_are_refused() {
        for text in ["", " ", "0", "-1", ":5", "99hz"] {
            assert!(parse(text).unwrap_err().starts_with("expected `off`, a number"), "{text}");
        }
        for (text, wrong) in [("99,fast,stack=fp", "fast"), ("99,stack=65521", "stack=65521")] {
            let expected = format!("`{wrong}`: expected `off`, a number");
            assert!(parse(text).unwrap_err().starts_with(&expected), "{text}");
        }
        for text in ["stack=fp", "timestamps", "stack=off,timestamps"] {
            assert!(parse(text).unwrap_err().contains("how often"), "{text}");
        }
        for text in ["99,stack=", "99,stack=0", "99,stack=short"] {
            assert!(parse(text).unwrap_err().contains("`stack=2048`"), "{text}");
        }
        for text in ["99,", ",99", "99,,timestamps"] {
            assert!(parse(text).unwrap_err().starts_with("an item is empty"));
        }
        for text in ["cycels:1000", "cycels", "99,cycels"] {
            assert!(parse(text).unwrap_err().contains("did you mean `cycles`"), "{text}");
        }
        for text in ["cycles", "99, cycles", "cycles:u", "cycles:", "cycles:0", "cycles:often", "99,cycles:-7"] {
            assert!(parse(text).unwrap_err().starts_with("`cycles"), "{text}");
            assert!(parse(text).unwrap_err().contains("` lacks its period"), "{text}");
        }
        for text in ["time:9", "99,on_cpu", "off_cpu:1000"] {
            assert!(parse(text).unwrap_err().contains("` cannot be sampled; `cpu-clock:"), "{text}");
        }
        assert!(parse("99,off").unwrap_err().starts_with("`off` cannot be combined"));
        assert!(parse("nothing/event=1,umask=2/").unwrap_err().contains("PMU"));
        assert!(parse("99,stack=off,stack=512").unwrap_err().contains("twice"));
    }

    #[test]
    fn a_period_that_the_kernel_does_not_keep_is_refused() {
        for text in ["cpu-clock:49999", "99,task-clock:1", "cpu-clock:20011,stack=off"] {
            assert!(parse(text).unwrap_err().contains("less than 50,000 ns apart; use `"), "{text}");
        }
        assert!(parse("20001").unwrap_err().contains("20,001 a second; use at most 20,000"));
        assert!(["cpu-clock:50021", "20000", "cycles:1000", "page_faults:1"].iter().all(|text| parse(text).is_ok()));
    }

    #[test]
    fn rates_that_make_a_program_slow_are_announced() {
        let warning = |text: &str| parse(text).expect("valid").warning();
        for text in ["99", "997,page_faults:1", "cpu-clock:1000003", "cycles:100003"] {
            assert_eq!(warning(text), None);
        }
        let expected = "up to 19,991 samples a second may make a thread more than 10 % slower; use 4,500 or fewer";
        assert_eq!(warning("cpu-clock:50021").as_deref(), Some(expected));
        assert!(warning("4000,task-clock:1000000").is_some_and(|text| text.starts_with("up to 5,000 samples")));
    }
}
