//! The command line.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use crate::corpus::Root;

pub(crate) const HELP: &str = "\
Searches text files for some words about Rust code, and prints the cost of its
hot functions with perfmark.

usage: hot_functions [--exact] [PATH]...

  PATH          a file or folder to search (default: the sources of perfmark)
  --exact       find only lines that contain the words exactly as given
  -h, --help    print this text

The search skips binary files, files larger than 1 MiB, symbolic links, and
folders named .git, target, or hot_functions (this program's own), unless they
are given as PATH.

exit status: 0 if a query has results, 1 if none has, 2 after an error
";

/// Each query finds the files that contain all of its words.
pub(crate) const QUERIES: [&str; 5] = ["raw pointer", "parse error", "macro attribute", "thread local", "drop guard"];

/// The crates whose sources are searched by default. They are the same on all machines.
const CRATES: [&str; 4] = ["perfmark", "perfmark-cli", "perfmark-macros", "perfmark-rdpmc"];

#[derive(Default)]
pub(crate) struct Options {
    pub(crate) exact: bool,
    paths: Vec<PathBuf>,
}

impl Options {
    /// Returns `None` if the arguments ask for help.
    pub(crate) fn parse(mut args: impl Iterator<Item = OsString>) -> io::Result<Option<Self>> {
        let mut options = Self::default();
        while let Some(arg) = args.next() {
            match arg.to_str() {
                Some("-h" | "--help") => return Ok(None),
                Some("--exact") => options.exact = true,
                Some("--") => options.paths.extend(args.by_ref().map(PathBuf::from)),
                _ if arg.as_encoded_bytes().starts_with(b"-") => {
                    let arg = arg.display();
                    let message = format!("unknown option {arg}; see --help");
                    return Err(io::Error::other(message));
                }
                _ => options.paths.push(arg.into()),
            }
        }
        Ok(Some(options))
    }

    pub(crate) fn roots(&self) -> Vec<Root> {
        if self.paths.is_empty() {
            let examples = Path::new(env!("CARGO_MANIFEST_DIR"));
            let repository = examples.parent().unwrap_or(examples);
            return CRATES
                .map(|name| Root::named(repository.join(name).join("src"), Path::new(name).join("src")))
                .into();
        }
        let root = |path: &PathBuf| Root::named(path.clone(), path.clone());
        self.paths.iter().map(root).collect()
    }
}
