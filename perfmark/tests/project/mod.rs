//! Packages that cargo builds, for tests that need a complete build.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// A cargo command in a folder of that name, with these manifests and the lock file, so that nothing is downloaded.
/// Without cargo, prints the reason and returns None.
pub(crate) fn cargo(folder: &str, manifests: &[(&str, String)]) -> Option<Command> {
    if !Path::new(env!("CARGO")).exists() {
        println!("skipped: there is no cargo here, as in the machine with a PMU");
        return None;
    }
    let folder = target_folder(folder);
    for (path, text) in manifests {
        let manifest = folder.join(path).join("Cargo.toml");
        fs::create_dir_all(folder.join(path)).expect("a folder");
        fs::write(manifest, text).expect("written");
    }
    fs::copy(here().join("../Cargo.lock"), folder.join("Cargo.lock")).expect("the lock file");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(folder).env("CARGO_NET_OFFLINE", "true");
    for variable in ["CARGO_BUILD_TARGET", "CARGO_ENCODED_RUSTFLAGS", "CARGO_TARGET_DIR", "RUSTFLAGS"] {
        cargo.env_remove(variable);
    }
    Some(cargo)
}

/// The manifest of a package, up to its dependencies. `file` is the root of `target`, which is `[lib]` or
/// `[[bin]]`.
pub(crate) fn package(name: &str, edition: &str, target: &str, file: &Path) -> String {
    let file = file.display();
    format!(
        "[package]\nname = \"{name}\"\nversion = \"0.0.0\"\nedition = \"{edition}\"\n\n\
         {target}\nname = \"{name}\"\npath = '{file}'\n"
    )
}

/// A folder for what tests build.
pub(crate) fn target_folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// The folder of this package.
pub(crate) fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
