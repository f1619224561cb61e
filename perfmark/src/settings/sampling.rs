//! What is sampled, and how often. The language of `PERFMARK_SAMPLE`.

use perfmark_rdpmc::Event;

use super::EventSpec;
use super::event_list;

/// What is sampled, and how often.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SampleSettings {
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

/// Reads `99`, samples a second, or `cycles:1000003`, an event and the number of its occurrences between two samples.
pub(crate) fn parse(text: &str) -> Result<SampleSettings, String> {
    let positive = |number: &str| number.parse().ok().filter(|&number: &u64| number > 0);
    if let Some(frequency) = positive(text) {
        return Ok(SampleSettings { event: None, rate: Rate::Frequency(frequency) });
    }
    let expected = "expected `off`, a number of samples a second such as `99`, or an event and a period such as \
                    `cycles:1000003`";
    let (event, period) = text.rsplit_once(':').ok_or(expected)?;
    let period = positive(period).ok_or(expected)?;
    match &event_list::known(event)?[..] {
        [EventSpec::Counter(event)] => Ok(SampleSettings { event: Some(event.clone()), rate: Rate::Period(period) }),
        _ => Err(expected.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perfmark_rdpmc::{Hardware, Software};

    #[test]
    fn frequencies_and_periods_are_read() {
        let settings = |event: Option<Event>, rate| Ok(SampleSettings { event, rate });
        assert_eq!(parse("99"), settings(None, Rate::Frequency(99)));
        assert_eq!(parse("cycles:1000003"), settings(Some(Hardware::Cycles.into()), Rate::Period(1_000_003)));
        assert_eq!(parse("page_faults:1"), settings(Some(Software::PageFaults.into()), Rate::Period(1)));
    }

    #[test]
    fn other_values_are_refused() {
        for text in ["", "0", "-1", "cycles", "cycles:", "cycles:0", "cycles:often", "99hz", "time:9"] {
            assert!(parse(text).unwrap_err().contains("expected `off`, a number"), "{text}");
        }
        assert!(parse("cycels:1000").unwrap_err().contains("cycles"));
    }
}
