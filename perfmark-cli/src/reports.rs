//! Reading reports from files.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use perfmark::Snapshot;
use perfmark_rdpmc::Event;
use serde::Deserialize;
use serde_json::error::Category;

/// The size limit of a file of reports, in bytes. Ten thousand marks with three full histograms each take half of it.
const LARGEST: u64 = 1 << 30;

/// An event's name with hyphens. Attributes have underscores instead, and perf accepts both.
pub(crate) fn dashed(event: &str) -> String {
    event.replace('_', "-")
}

/// Whether these are names of the same event, such as `branches`, `branch-instructions` and `branch_instructions`.
pub(crate) fn is_same_event(one: &str, other: &str) -> bool {
    canonical(one) == canonical(other)
}

/// The event's one name.
pub(crate) fn canonical(event: &str) -> String {
    // The parser keeps the names of perfmark's own events.
    dashed(&event.parse::<Event>().map_or_else(|_| event.into(), |event| event.to_string()))
}

/// A file's report; `-` is stdin. Several reports in a row are merged.
pub(crate) fn read(file: &Path) -> Result<Snapshot, String> {
    Ok(Merged::of(read_each(file)?.into_iter().map(|(_, one)| one)))
}

/// Merges reports in their order: each time, those of about as many. So each is copied a few times only.
#[derive(Default)]
pub(crate) struct Merged(Vec<(Snapshot, usize)>);

impl Merged {
    pub(crate) fn of(reports: impl IntoIterator<Item = Snapshot>) -> Snapshot {
        let mut all = Self::default();
        reports.into_iter().for_each(|report| all.add(report));
        all.finish()
    }

    pub(crate) fn add(&mut self, report: Snapshot) {
        let (mut merged, mut count) = (report, 1);
        while let Some((before, of_before)) = self.0.pop_if(|(_, of_before)| *of_before <= count) {
            (merged, count) = (sum(before, &merged), count + of_before);
        }
        self.0.push((merged, count));
    }

    pub(crate) fn finish(self) -> Snapshot {
        let parts = self.0.into_iter().map(|(part, _)| part).rev();
        parts.reduce(|merged, before| sum(before, &merged)).unwrap_or_default()
    }
}

fn sum(mut before: Snapshot, after: &Snapshot) -> Snapshot {
    before.merge(after);
    before
}

/// A file's reports, at least one, each with a name.
pub(crate) fn read_each(file: &Path) -> Result<Vec<(String, Snapshot)>, String> {
    let name = if is_stdin(file) { "stdin".into() } else { file.display().to_string() };
    let bytes = bytes(file).map_err(|why| format!("{name}: {why}"))?;
    let all = parse(&bytes).map_err(|why| format!("{name} {why}"))?;
    let count = all.len();
    let name = |number: usize| if count == 1 { name.clone() } else { format!("{name} · {number} of {count}") };
    Ok(all.into_iter().zip(1..).map(|(one, number)| (name(number), one)).collect())
}

/// Checks that at most one of the files is stdin.
pub(crate) fn check_stdin<'a, I: IntoIterator<Item = &'a PathBuf>>(files: I) -> Result<(), String> {
    match files.into_iter().filter(|file| is_stdin(file)).count() {
        0 | 1 => Ok(()),
        _ => Err("`-` is given twice, but stdin can be read only once".into()),
    }
}

fn is_stdin(file: &Path) -> bool {
    file == Path::new("-")
}

fn bytes(file: &Path) -> Result<Vec<u8>, String> {
    if is_stdin(file) {
        return limited(io::stdin().lock(), 0);
    }
    let opened = File::open(file).map_err(|error| error.to_string())?;
    let about = opened.metadata().map_err(|error| error.to_string())?;
    if about.is_dir() {
        return Err("is a directory; name the reports in it, for example as DIRECTORY/*".into());
    }
    limited(opened, about.len())
}

fn limited(from: impl Read, expected: u64) -> Result<Vec<u8>, String> {
    let too_large = || format!("larger than {} MiB, the limit for reports", LARGEST >> 20);
    if expected > LARGEST {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    from.take(LARGEST + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > LARGEST { Err(too_large()) } else { Ok(bytes) }
}

/// The reports in this text, at least one.
pub(crate) fn parse(bytes: &[u8]) -> Result<Vec<Snapshot>, String> {
    let all = serde_json::Deserializer::from_slice(bytes).into_iter();
    let all: Vec<Snapshot> = all.collect::<Result<_, _>>().map_err(|error| explain(bytes, &error))?;
    if all.is_empty() {
        return Err("is empty; its program may have ended without a report, or may still run".into());
    }
    Ok(all)
}

/// Explains an error, and what to do.
fn explain(bytes: &[u8], error: &serde_json::Error) -> String {
    /// The part that all versions have.
    #[derive(Deserialize)]
    struct Header {
        schema: Option<u64>,
    }
    const KNOWN: u64 = Snapshot::SCHEMA as u64;
    const NONE: &str =
        "a program writes a JSON report with PERFMARK_FORMAT=json, or under `perfmark run --format json`";
    match error.classify() {
        Category::Eof => format!("is truncated ({error}); it was cut off when it was written or copied"),
        Category::Io => error.to_string(),
        Category::Syntax => {
            let is_table = bytes.trim_ascii_start().starts_with("perfmark ·".as_bytes());
            let what = if is_table { "is a report in the format `table`, not JSON" } else { "is not a JSON report" };
            format!("{what} ({error}); {NONE}")
        }
        Category::Data => {
            let header = serde_json::Deserializer::from_slice(bytes).into_iter::<Header>().next();
            match header.and_then(Result::ok).map(|header| header.schema) {
                Some(Some(schema)) if schema != KNOWN => {
                    let what_to_do = if schema > KNOWN {
                        "install the version that wrote it (cargo install perfmark-cli)"
                    } else {
                        "an older version wrote it; write it again with this version of perfmark in the program"
                    };
                    let version = env!("CARGO_PKG_VERSION");
                    format!("has schema {schema}, but perfmark {version} reads schema {KNOWN}; {what_to_do}")
                }
                Some(Some(_)) => {
                    format!(
                        "is damaged, or is not a report of schema {KNOWN} ({error}); write it again, with \
                         this version of perfmark in the program"
                    )
                }
                _ => format!("is JSON, but not a perfmark report ({error}); {NONE}"),
            }
        }
    }
}
