//! Formats of samples that other tools read.

mod stacks;
mod folded;
mod pprof;
mod firefox;

use perfmark::text::exact;
use perfmark::{Samples, Snapshot};

use self::stacks::Sampled;
use crate::output;
use crate::reports::is_same_event;

/// A format in which samples are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SampleFormat {
    /// Lines `mark;function N`, for flame graphs.
    Folded,
    /// A message of `profile.proto`, for `go tool pprof`, Pyroscope and Parca.
    Pprof,
    /// A profile in the processed format of the Firefox Profiler.
    Firefox,
}

impl SampleFormat {
    /// All formats, with the names by which users choose them.
    pub(crate) const ALL: [(&str, Self); 3] =
        [("folded-samples", Self::Folded), ("pprof", Self::Pprof), ("firefox", Self::Firefox)];

    /// Whether a terminal cannot show it.
    pub(crate) fn is_binary(self) -> bool {
        self == Self::Pprof
    }
}

/// The samples of the snapshot, or those of one event.
pub(crate) fn render(snapshot: &Snapshot, format: SampleFormat, event: Option<&str>) -> Result<Vec<u8>, String> {
    let all: Vec<&Samples> = snapshot.samples.iter().filter(|samples| !samples.paths.is_empty()).collect();
    if all.is_empty() {
        let removed = snapshot.samples.iter().filter_map(|samples| samples.removed).fold(0, u64::saturating_add);
        if removed > 0 {
            let samples = if removed == 1 { "sample is" } else { "samples are" };
            return Err(format!("the chosen marks have no samples; {} {samples} in other marks", exact(removed)));
        }
        let why = "the report has no samples; a program takes some with the feature `sampling` and PERFMARK_SAMPLE=99";
        return Err(why.into());
    }
    let names = snapshot.names();
    let chosen = all.iter().filter(|samples| event.is_none_or(|event| is_same_event(&samples.event, event)));
    let chosen: Vec<Sampled<'_>> = chosen.map(|samples| Sampled::new(snapshot, &names, samples)).collect();
    let Some(first) = chosen.first() else {
        return Err(format!("--event {}: the report has samples of {}", event.unwrap_or_default(), rates(&all)));
    };
    Ok(match format {
        SampleFormat::Folded => {
            if chosen.len() > 1 {
                let (shown, all) = (first.samples.rate(), rates(&all));
                output::say(&format!("the stacks are those of {shown}; the report has {all}, which --event chooses"));
            }
            folded::render(first)?.into_bytes()
        }
        SampleFormat::Pprof => pprof::render(snapshot, &chosen),
        SampleFormat::Firefox => {
            chosen.iter().filter_map(|one| lacks_times(one.samples)).for_each(|why| output::say(&why));
            firefox::render(snapshot, &chosen)?
        }
    })
}

/// Which samples are not on the timeline, if some are not.
fn lacks_times(samples: &Samples) -> Option<String> {
    let stacks = samples.paths.iter().flat_map(|path| &path.stacks);
    let all = stacks.clone().map(|stack| stack.samples).fold(0, u64::saturating_add);
    let without = all.saturating_sub(stacks.map(|stack| stack.times.len() as u64).sum());
    match (samples.timestamps, without) {
        (_, 0) => None,
        (true, _) => Some(format!(
            "{} of {} samples of {} are not on the timeline: perfmark keeps the times of the first ones",
            exact(without),
            exact(all),
            samples.rate()
        )),
        (false, _) => Some(format!(
            "the samples of {} have no times, and are in the order of marks; PERFMARK_SAMPLE=99,timestamps records a \
             timeline",
            samples.rate()
        )),
    }
}

fn rates(all: &[&Samples]) -> String {
    all.iter().map(|samples| samples.rate()).collect::<Vec<_>>().join("; ")
}
