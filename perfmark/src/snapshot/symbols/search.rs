//! The file that names a sampled file's addresses.

use std::path::{Path, PathBuf};

use super::elf::ElfFile;
use crate::snapshot::Module;

/// Where distributions install debug information.
pub(super) const SYSTEM: &str = "/usr/lib/debug";

/// A file that names addresses.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) path: PathBuf,
    /// The file with debug information that it shares with others.
    pub(super) shared: Option<PathBuf>,
    /// Whether it names lines, too.
    pub(super) has_lines: bool,
    /// What it does not name.
    pub(super) lacks: Option<String>,
    /// Why it may be another build.
    pub(super) unchecked: Option<String>,
}

/// The file with the most debug information; an error says what was searched for and found.
pub(super) fn best(module: &Module, places: &[PathBuf]) -> Result<Found, String> {
    let mut search = Search { module, functions: None, debug_link: None, refused: Vec::new() };
    let own = Path::new(&module.path);
    let in_places = places.iter().flat_map(|place| candidates(place, module));
    for path in in_places {
        if module.build_id.is_none() && !has_name_of(&path, module) {
            let why = format!("without a build id, {} must have the name of the sampled file", path.display());
            search.refused.push(why);
        } else if let Some(found) = search.look(&path, false) {
            return Ok(found);
        }
    }
    if let Some(found) = search.look(own, true) {
        return Ok(found);
    }
    let links = search.debug_link.take();
    let directory = own.parent().unwrap_or(Path::new("/"));
    let in_system = Path::new(SYSTEM).join(directory.strip_prefix("/").unwrap_or(directory));
    let linked = links
        .into_iter()
        .flat_map(|link| [directory.join(&link), directory.join(".debug").join(&link), in_system.join(&link)]);
    let by_id = module.build_id.as_deref().and_then(|id| by_build_id(Path::new(SYSTEM), id));
    for path in linked.chain(by_id) {
        if let Some(found) = search.look(&path, false) {
            return Ok(found);
        }
    }
    search.rest()
}

struct Search<'a> {
    module: &'a Module,
    /// The best file so far: it has functions and no lines. And why it may be another build.
    functions: Option<(ElfFile, Option<String>)>,
    /// The name of the file with the sampled file's debug information.
    debug_link: Option<PathBuf>,
    /// Files that are not usable, each with the reason.
    refused: Vec<String>,
}

impl Search<'_> {
    /// The file, if it is the sampled one or its debug information, and has lines. `is_own` is for the sampled file's
    /// own path.
    fn look(&mut self, path: &Path, is_own: bool) -> Option<Found> {
        if !path.exists() {
            if is_own {
                self.refused.push("the file does not exist here".into());
            }
            return None;
        }
        let file = match ElfFile::open(path) {
            Ok(file) => file,
            Err(why) => {
                self.refused.push(why);
                return None;
            }
        };
        let unchecked = match (&self.module.build_id, &file.build_id) {
            (Some(sampled), Some(id)) if sampled == id => None,
            (Some(sampled), Some(id)) => {
                self.refused.push(format!("{} is another build: build id {id}, sampled {sampled}", path.display()));
                return None;
            }
            (Some(sampled), None) => {
                self.refused.push(format!("{} has no build id, sampled {sampled}", path.display()));
                return None;
            }
            (None, _) => Some(format!(
                "it had no build id when it was sampled, so it is unknown whether {} is the same build; link with \
                 -Wl,--build-id",
                path.display()
            )),
        };
        if file.has_lines {
            let shared = file.shared.as_ref().and_then(|(link, id)| shared(path, link, id));
            return Some(Found { path: file.path, shared, has_lines: true, lacks: None, unchecked });
        }
        // That of the sampled file replaces those of the places.
        self.debug_link = file.debug_link.clone().or(self.debug_link.take());
        let known = self.functions.as_ref();
        if file.has_functions && known.is_none_or(|(known, _)| file.has_all_functions && !known.has_all_functions) {
            self.functions = Some((file, unchecked));
        }
        None
    }

    fn rest(self) -> Result<Found, String> {
        let id = self.module.build_id.as_deref().map_or_else(String::new, |id| format!(" (build id {id})"));
        let refused = self.refused.join("; ");
        match self.functions {
            Some((file, unchecked)) => {
                let more = if refused.is_empty() { refused } else { format!("; {refused}") };
                let remedy = "build with `debug = \"line-tables-only\"` and without `strip` in the profile";
                let lacks = format!("no debug information was found{id}, so lines are unknown; {remedy}{more}");
                Ok(Found { path: file.path, shared: None, has_lines: false, lacks: Some(lacks), unchecked })
            }
            None if refused.is_empty() => Err(format!("no symbols and no debug information were found{id}")),
            None => Err(format!("no symbols were found{id}: {refused}")),
        }
    }
}

/// The files that a place may have for a module.
fn candidates(place: &Path, module: &Module) -> Vec<PathBuf> {
    if !place.is_dir() {
        return vec![place.to_owned()];
    }
    let mut found: Vec<PathBuf> = module.build_id.iter().filter_map(|id| by_build_id(place, id)).collect();
    if let Some(name) = Path::new(&module.path).file_name() {
        let mut debug = name.to_owned();
        debug.push(".debug");
        found.extend([place.join(debug), place.join(name)]);
    }
    found
}

/// Whether a file has the module's name, with or without `.debug` at its end.
fn has_name_of(path: &Path, module: &Module) -> bool {
    let name = Path::new(&module.path).file_name();
    path.file_name() == name || path.extension().is_some_and(|end| end == "debug") && path.file_stem() == name
}

/// `.build-id/6c/01ab….debug` for the build id `6c01ab…`.
fn by_build_id(directory: &Path, id: &str) -> Option<PathBuf> {
    let (first, rest) = id.split_at_checked(2).filter(|(_, rest)| !rest.is_empty())?;
    // It comes from a report, and must not lead out of the directory.
    let is_id = id.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_id.then(|| directory.join(".build-id").join(first).join(format!("{rest}.debug")))
}

/// The file with shared debug information to which a `.gnu_debugaltlink` section refers.
fn shared(file: &Path, link: &Path, id: &str) -> Option<PathBuf> {
    // A link that is not absolute is relative to the file with the section, wherever that is linked from.
    let directory = std::fs::canonicalize(file).ok()?;
    let linked = directory.parent()?.join(link);
    let candidates = [Some(linked), by_build_id(Path::new(SYSTEM), id)];
    candidates
        .into_iter()
        .flatten()
        .find(|path| ElfFile::open(path).is_ok_and(|found| found.build_id.as_deref() == Some(id)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_id_that_is_none_leads_nowhere() {
        let path = |id| by_build_id(Path::new("/d"), id);
        assert_eq!(path("6c01ab"), Some("/d/.build-id/6c/01ab.debug".into()));
        for id in ["", "6", "6c", "../../etc", "6c/../x", "é1"] {
            assert_eq!(path(id), None, "{id}");
        }
    }
}
