//! The files to search.

use std::fs::{self, Metadata};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use perfmark::perfmark;

/// The largest size of a file to search, in bytes. Larger files are data or generated.
const LARGEST: u64 = 1 << 20;

/// Folders that are not searched. The last is this program's own, whose queries would match themselves best.
const SKIPPED: [&str; 3] = [".git", "target", "hot_functions"];

/// The start of a search, and its path in results.
pub(crate) struct Root {
    path: PathBuf,
    shown: PathBuf,
}

impl Root {
    pub(crate) fn named(path: PathBuf, shown: PathBuf) -> Self {
        Self { path, shown }
    }
}

pub(crate) struct File {
    pub(crate) path: PathBuf,
    pub(crate) shown: PathBuf,
    pub(crate) size: u64,
}

/// Files in the order of their paths, and errors of files that cannot be read.
#[derive(Default)]
pub(crate) struct Corpus {
    pub(crate) files: Vec<File>,
    pub(crate) errors: Vec<String>,
}

impl Corpus {
    /// Returns an error if a root cannot be found. Errors below a root are added to `errors`.
    pub(crate) fn gather(roots: &[Root]) -> io::Result<Self> {
        let mut corpus = Self::default();
        for Root { path, shown } in roots {
            let metadata = fs::metadata(path).map_err(|error| io::Error::new(error.kind(), explain(path, &error)))?;
            corpus.take(path.clone(), shown.clone(), &metadata);
        }
        corpus.files.sort_by(|a, b| a.path.cmp(&b.path));
        corpus.files.dedup_by(|a, b| a.path == b.path);
        Ok(corpus)
    }

    /// Adds a regular file, or the files of a folder. Links inside a folder are skipped, so there are no loops.
    fn take(&mut self, path: PathBuf, shown: PathBuf, metadata: &Metadata) {
        let size = metadata.len();
        if metadata.is_dir() {
            if let Err(error) = self.enter(&path, &shown) {
                self.add_error(&path, &error);
            }
        } else if metadata.is_file() && size <= LARGEST {
            self.files.push(File { path, shown, size });
        }
    }

    fn enter(&mut self, path: &Path, shown: &Path) -> io::Result<()> {
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            let name = entry.file_name();
            if SKIPPED.iter().any(|skipped| name == *skipped) {
                continue;
            }
            match entry.metadata() {
                Ok(metadata) => self.take(entry.path(), shown.join(&name), &metadata),
                Err(error) => self.add_error(&entry.path(), &error),
            }
        }
        Ok(())
    }

    fn add_error(&mut self, path: &Path, error: &io::Error) {
        // A file that was removed after its folder was listed is not an error.
        if error.kind() != ErrorKind::NotFound {
            self.errors.push(explain(path, error));
        }
    }
}

/// A file's text, or `None` if it is binary. Invalid UTF-8 becomes replacement characters.
#[perfmark]
pub(crate) fn read_text(path: &Path) -> io::Result<Option<String>> {
    let mut bytes = Vec::new();
    // The limit also applies to files that grow.
    fs::File::open(path)?.take(LARGEST).read_to_end(&mut bytes)?;
    if bytes.contains(&0) {
        return Ok(None);
    }
    let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let text = String::from_utf8(bytes).unwrap_or_else(|error| lossy(error.as_bytes()));
    Ok(Some(text))
}

pub(crate) fn explain(path: &Path, error: &io::Error) -> String {
    format!("{}: {error}", path.display())
}
