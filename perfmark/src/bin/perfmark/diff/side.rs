//! One side of a comparison.

use std::path::PathBuf;

use perfmark::Snapshot;

use crate::reports;

/// The runs of one side.
pub(super) struct Side {
    pub(super) name: &'static str,
    pub(super) files: Vec<String>,
    pub(super) runs: Vec<Snapshot>,
}

impl Side {
    pub(super) fn read(name: &'static str, first: Option<&PathBuf>, more: &[PathBuf]) -> Result<Self, String> {
        let files: Vec<_> = first.into_iter().chain(more).collect();
        let runs = files.iter().map(|file| reports::read(file)).collect::<Result<_, _>>()?;
        Ok(Self { name, files: files.into_iter().map(|file| file.display().to_string()).collect(), runs })
    }
}
