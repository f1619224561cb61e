//! One side of a comparison.

use std::path::PathBuf;

use perfmark::Snapshot;

use super::judge::SEVERAL;
use super::paired::FEWEST_PAIRS;
use crate::reports;

/// How the runs were made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Design {
    /// In any order.
    Separate {
        /// Whether values that vary from run to run are judged with fewer than three runs on a side.
        allows_few_runs: bool,
    },
    /// Of a program at two commits. The marks of either may be new, so a gate may have nothing to judge.
    Commits,
    /// Alternated: the first runs of both sides are a pair, and so on.
    Paired,
}

impl Design {
    /// The fewest runs on each side that show how values that depend on the machine's state vary.
    pub(crate) fn fewest_runs(self) -> usize {
        match self {
            Self::Separate { .. } | Self::Commits => SEVERAL,
            Self::Paired => FEWEST_PAIRS,
        }
    }
}

/// The runs of one side.
pub(crate) struct Side {
    pub(crate) name: &'static str,
    pub(crate) files: Vec<String>,
    pub(crate) runs: Vec<Snapshot>,
}

impl Side {
    pub(crate) fn read(name: &'static str, first: Option<&PathBuf>, more: &[PathBuf]) -> Result<Self, String> {
        let files: Vec<_> = first.into_iter().chain(more).collect();
        let runs = files.iter().map(|file| reports::read(file)).collect::<Result<_, _>>()?;
        Ok(Self { name, files: files.into_iter().map(|file| file.display().to_string()).collect(), runs })
    }
}
