//! The sources of other crates that cargo has unpacked on this machine.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use crate::corpus::Root;

/// The folders of the packages in the repository's Cargo.lock that cargo has unpacked. Having none is not an error.
pub(crate) fn unpacked(repository: &Path) -> Vec<Root> {
    let lock = fs::read_to_string(repository.join("Cargo.lock")).unwrap_or_default();
    let registries = registries();
    let root = |package: String| {
        let mut folders = registries.iter().map(|registry| registry.join(&package));
        let path = folders.find(|path| path.is_dir())?;
        Some(Root::named(path, package.into()))
    };
    packages(&lock).filter_map(root).collect()
}

/// One folder for each registry from which cargo has unpacked crates.
fn registries() -> Vec<PathBuf> {
    let given = env::var_os("CARGO_HOME").filter(|home| !home.is_empty());
    let home = given.map(PathBuf::from);
    let Some(home) = home.or_else(|| Some(env::home_dir()?.join(".cargo"))) else {
        return Vec::new();
    };
    let entries = fs::read_dir(home.join("registry/src"));
    let mut folders: Vec<PathBuf> =
        entries.into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path())).collect();
    folders.sort();
    folders
}

/// `name-version` of each package. In a lock file, the line of the version follows that of the name.
fn packages(lock: &str) -> impl Iterator<Item = String> {
    let mut name = "";
    lock.lines().filter_map(move |line| {
        name = value(line, "name").unwrap_or(name);
        Some(format!("{name}-{}", value(line, "version")?))
    })
}

fn value<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    let rest = line.strip_prefix(key)?.strip_prefix(" = \"")?;
    rest.strip_suffix('"')
}
