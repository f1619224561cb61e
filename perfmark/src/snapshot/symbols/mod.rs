//! Names of sampled addresses: functions, and lines of their source.
//!
//! Samples are recorded as addresses in files, so that a program in production needs no debug information. This module
//! names them later, from the file itself or from its separate debug information:
//!
//! ```
//! use perfmark::symbols::Symbols;
//!
//! let mut snapshot = perfmark::snapshot();
//! for problem in Symbols::new().search("target/debug-files").name(&mut snapshot) {
//!     eprintln!("{problem}");
//! }
//! ```
//!
//! A file is used only if its build id is the one that was sampled. If the sampled file had none, the name must be the
//! same, and a problem says that it may be another build.

mod elf;
mod search;
mod naming;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display, Formatter};
use std::path::{Path, PathBuf};

use crate::snapshot::{Frame, Location, Module, Samples, Snapshot};

/// Names the addresses of samples.
///
/// Debug information is searched for in the files and directories that [`search`](Self::search) adds, in the sampled
/// file, in the file that its `.gnu_debuglink` section names, and in `/usr/lib/debug`. Separate debug information is
/// made by `objcopy --only-keep-debug`, or by `strip = true` with `split-debuginfo = "packed"` in a cargo profile.
#[derive(Clone, Debug, Default)]
#[must_use = "it names nothing before `name` is called"]
pub struct Symbols {
    places: Vec<PathBuf>,
    skips_system_lines: bool,
}

/// Why the addresses of a file have no lines, or may have those of another build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The sampled file.
    module: Module,
    /// The number of its samples, and of all.
    samples: [u64; 2],
    why: String,
}

impl Problem {
    /// The sampled file.
    #[must_use]
    pub fn module(&self) -> &Module {
        &self.module
    }

    /// The number of samples in the file.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.samples[0]
    }
}

/// Whether the module's file is still the one that was sampled, by its build id if it has one.
#[cfg(feature = "record")]
pub(crate) fn is_sampled_build(module: &Module) -> bool {
    elf::ElfFile::open(Path::new(&module.path)).is_ok_and(|file| file.build_id == module.build_id)
}

impl Display for Problem {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let [samples, all] = self.samples;
        let percent = samples as f64 / all.max(1) as f64 * 100.0;
        let path = crate::text::sanitize(&self.module.path);
        write!(f, "{path} ({percent:.0} % of the samples): {}", crate::text::sanitize(&self.why))
    }
}

impl std::error::Error for Problem {}

/// Whether the file has functions and none of them is Rust's, as libgcc, which panics execute. It contains no marked
/// function, so its lines are not necessary.
fn is_of_other_language(named: &BTreeMap<u64, Vec<Frame>>) -> bool {
    let mut functions = named.values().flatten().map(|frame| &frame.function).filter(|function| !function.is_empty());
    functions.clone().next().is_some() && !functions.any(|function| function.contains("::"))
}

/// Begins the notes of a snapshot about addresses that have no lines.
pub(crate) const NOTE: &str = "lines of samples in ";

/// Files with a smaller part of the samples have no lines of their own in a report: one in so many.
const RELEVANT: u64 = 100;

impl Symbols {
    /// Searches the usual places.
    pub fn new() -> Self {
        Self::default()
    }

    /// Searches here first. In a directory, a file is found by its build id (`.build-id/6c/01ab….debug`, as in
    /// `/usr/lib/debug`), or by the sampled file's name, with or without `.debug` at its end. If the sampled file had
    /// no build id, only files of that name are used.
    pub fn search(mut self, place: impl Into<PathBuf>) -> Self {
        self.places.push(place.into());
        self
    }

    /// Names functions only, and no lines, from debug information that distributions install, except for files that
    /// [`search`](Self::search) added. It is compressed, and its sources are usually not there: reading that of libc
    /// takes longer than that of many programs.
    #[cfg(feature = "record")]
    pub(crate) fn skip_system_lines(self) -> Self {
        Self { skips_system_lines: true, ..self }
    }

    /// Names the addresses of the samples: [`Location::frames`](crate::Location::frames). Names that they have
    /// are kept where none are found. Removes the snapshot's notes about lines that were missing. Returns why addresses
    /// of files with one in 100 samples or more have no lines, or may have those of another build. Lines of files
    /// whose known functions are of other languages than Rust are not necessary.
    ///
    /// 1,000 addresses of a program of 46 MB take 0.25 s and 27 MB of memory. Besides, 28 MB of the file are mapped
    /// meanwhile, which the kernel can take back at any time.
    #[must_use = "it contains the reasons why addresses have no names"]
    pub fn name(&self, snapshot: &mut Snapshot) -> Vec<Problem> {
        // Those of an earlier attempt.
        snapshot.notes.retain(|note| !note.starts_with(NOTE));
        let mut problems: Vec<Problem> = Vec::new();
        for problem in snapshot.samples.iter_mut().flat_map(|samples| self.name_samples(samples)) {
            if !problems.iter().any(|known| known.module == problem.module) {
                problems.push(problem);
            }
        }
        problems
    }

    /// Whether lines of the module are read from that file.
    fn reads_lines(&self, file: &Path, module: &Module) -> bool {
        let is_added = self.places.iter().any(|place| *place == Path::new(&module.path));
        !self.skips_system_lines || is_added || !file.starts_with(search::SYSTEM)
    }

    fn name_samples(&self, samples: &mut Samples) -> Vec<Problem> {
        // Many locations may share a frame.
        let frames = std::mem::take(&mut samples.frames);
        let mut addresses: BTreeMap<usize, BTreeSet<u64>> = BTreeMap::new();
        for location in &samples.locations {
            addresses.entry(location.module).or_default().insert(location.address);
        }
        let mut counts: BTreeMap<usize, u64> = BTreeMap::new();
        for stack in samples.paths.iter().flat_map(|path| &path.stacks) {
            let locations = stack.locations.iter().filter_map(|&at| samples.locations.get(at));
            for module in locations.map(|location| location.module).collect::<BTreeSet<_>>() {
                let count = counts.entry(module).or_default();
                *count = count.saturating_add(stack.samples);
            }
        }
        let all = samples.taken();
        let known = |location: &Location| {
            let frames = location.frames.iter().filter_map(|&at| frames.get(at)).map(Cow::Borrowed);
            ((location.module, location.address), frames.collect())
        };
        let mut named: BTreeMap<(usize, u64), Vec<Cow<'_, Frame>>> =
            samples.locations.iter().map(known).filter(|(_, frames): &(_, Vec<_>)| !frames.is_empty()).collect();
        let mut problems = Vec::new();
        for (index, addresses) in addresses {
            let count = counts.get(&index).copied().unwrap_or(0);
            // Code that is in no file, such as the kernel's vDSO, has no name.
            let Some(module) = samples.modules.get(index).filter(|module| Path::new(&module.path).is_absolute()) else {
                continue;
            };
            let has_lines = |address: &u64| {
                named.get(&(index, *address)).is_some_and(|frames| frames.iter().any(|frame| frame.line.is_some()))
            };
            let addresses: BTreeSet<u64> = addresses.into_iter().filter(|address| !has_lines(address)).collect();
            if addresses.is_empty() {
                continue;
            }
            match search::best(module, &self.places) {
                Ok(mut found) => {
                    found.has_lines &= self.reads_lines(&found.path, module);
                    let frames = naming::frames(&found, &addresses);
                    let lacks = found.lacks.filter(|_| !frames.as_ref().is_ok_and(is_of_other_language));
                    let lacks = frames.as_ref().err().cloned().or(lacks);
                    let why: Vec<String> = found.unchecked.into_iter().chain(lacks).collect();
                    for (address, frames) in frames.unwrap_or_default() {
                        named.insert((index, address), frames.into_iter().map(Cow::Owned).collect());
                    }
                    if !why.is_empty() {
                        problems.push((module.clone(), count, why.join("; ")));
                    }
                }
                Err(why) => problems.push((module.clone(), count, why)),
            }
        }
        samples.set_names(&named);
        problems.retain(|(_, count, _)| count.saturating_mul(RELEVANT) >= all);
        problems.into_iter().map(|(module, count, why)| Problem { module, samples: [count, all], why }).collect()
    }
}

#[cfg(feature = "record")]
impl Samples {
    /// The locations with their names alone.
    pub(crate) fn names(&self) -> Self {
        let Self { locations, modules, frames, .. } = self.clone();
        Self { locations, modules, frames, ..Self::default() }
    }

    fn frames_of(&self, location: &Location) -> Vec<Frame> {
        location.frames.iter().filter_map(|&at| self.frames.get(at)).cloned().collect()
    }
}

#[cfg(feature = "record")]
impl Snapshot {
    /// Gives locations without names those that they have in other samples. Returns whether these have all locations.
    pub(crate) fn take_names(&mut self, others: &[Samples]) -> bool {
        let locations = others.iter().flat_map(|other| other.locations.iter().map(move |location| (other, location)));
        let known: BTreeMap<_, _> = locations
            .map(|(other, location)| ((other.modules.get(location.module), location.address), (other, location)))
            .collect();
        let mut has_all = true;
        for samples in &mut self.samples {
            let named: BTreeMap<(usize, u64), Vec<Frame>> = samples
                .locations
                .iter()
                .map(|location| {
                    let found = known.get(&(samples.modules.get(location.module), location.address));
                    has_all &= found.is_some();
                    let (of, at) = found.filter(|_| location.frames.is_empty()).copied().unwrap_or((samples, location));
                    ((location.module, location.address), of.frames_of(at))
                })
                .collect();
            samples.set_names(&named);
        }
        has_all
    }
}

#[cfg(all(test, feature = "record"))]
mod tests {
    use super::*;

    #[test]
    fn debug_information_of_distributions_names_lines_of_the_program_only() {
        let debug = Path::new("/usr/lib/debug/.build-id/6c/01ab.debug");
        let reads_lines = |symbols: &Symbols, file: &Path, path: &str| {
            symbols.reads_lines(file, &Module { path: path.into(), build_id: None })
        };
        let at_exit = Symbols::new().search("/usr/bin/app").skip_system_lines();
        assert!(!reads_lines(&at_exit, debug, "/lib/libc.so.6"));
        assert!(reads_lines(&at_exit, debug, "/usr/bin/app"));
        assert!(reads_lines(&at_exit, Path::new("/opt/lib.so"), "/opt/lib.so"));
        assert!(reads_lines(&Symbols::new(), debug, "/lib/libc.so.6"), "on request");
    }

    #[test]
    fn names_are_those_of_the_same_address_in_the_same_file() {
        let module = |path: &str| Module { path: path.into(), build_id: None };
        let location = |module, address, frames: &[usize]| Location { module, address, frames: frames.to_vec() };
        let known = Samples {
            modules: vec![module("/app"), module("/lib")],
            locations: vec![location(0, 8, &[0]), location(1, 8, &[1])],
            frames: ["a", "b"].map(|name| Frame { function: name.into(), ..Frame::default() }).into(),
            ..Samples::default()
        };
        let named = |locations: &[Location]| {
            let samples =
                Samples { modules: vec![module("/lib")], locations: locations.to_vec(), ..Samples::default() };
            let mut snapshot = Snapshot { samples: vec![samples], ..Snapshot::default() };
            let has_all = snapshot.take_names(&[known.names()]);
            let Samples { locations, frames, .. } = snapshot.samples.remove(0);
            let name = |location: Location| location.frames.iter().map(|&at| frames[at].function.clone()).collect();
            (has_all, locations.into_iter().map(name).collect::<Vec<String>>())
        };
        assert_eq!(named(&[location(0, 8, &[])]), (true, vec!["b".to_owned()]));
        assert_eq!(named(&[location(0, 8, &[]), location(0, 16, &[])]), (false, vec!["b".to_owned(), String::new()]));
    }
}
