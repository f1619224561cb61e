//! Formats of samples that other tools read.

mod stacks;
mod folded;
mod pprof;
mod firefox;

use perfmark::Snapshot;

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

/// The samples of the snapshot.
pub(crate) fn render(snapshot: &Snapshot, format: SampleFormat) -> Result<Vec<u8>, String> {
    let Some(samples) = snapshot.samples.as_ref().filter(|samples| !samples.paths.is_empty()) else {
        let why = "the report has no samples; a program takes some with the feature `sampling` and PERFMARK_SAMPLE=99";
        return Err(why.into());
    };
    let names = snapshot.names();
    let stacks = stacks::of(snapshot, &names, samples);
    Ok(match format {
        SampleFormat::Folded => folded::render(&stacks).into_bytes(),
        SampleFormat::Pprof => pprof::render(snapshot, samples, &stacks),
        SampleFormat::Firefox => firefox::render(snapshot, samples, &stacks)?,
    })
}
