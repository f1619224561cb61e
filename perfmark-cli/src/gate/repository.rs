//! The git repository of the working directory: its commits, a checkout of one, and reports in its notes.

use std::env;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use perfmark::Snapshot;
use tempfile::{NamedTempFile, TempDir};

use crate::reports;
use crate::run::{private, stdout_of};

pub(super) struct Repository {
    /// The folder of its files.
    pub(super) root: PathBuf,
}

/// The name of a commit, for messages, and its hash.
pub(super) struct Commit {
    pub(super) name: String,
    hash: String,
}

impl Repository {
    pub(super) fn here() -> Result<Self, String> {
        let root = git(Path::new("."), &["rev-parse", "--show-toplevel"])
            .map_err(|why| format!("{why}; run the gate in a git repository, or compare with a file (--baseline)"))?;
        Ok(Self { root: root.trim_end_matches('\n').into() })
    }

    /// The commit of a branch, a tag or a hash.
    pub(super) fn commit(&self, name: &str) -> Result<Commit, String> {
        let hash = self.git(&["rev-parse", "--verify", "--quiet", &format!("{name}^{{commit}}")]).map_err(|_| {
            format!(
                "git knows no commit `{name}`; fetch it first, for example with `git fetch origin main`. In CI, check \
                 out with enough history (`fetch-depth`)"
            )
        })?;
        let hash = hash.trim().to_owned();
        Ok(Commit { name: format!("{name} ({})", hash.get(..10).unwrap_or(&hash)), hash })
    }

    /// The commit's files in a temporary folder.
    pub(super) fn checkout(&self, commit: &Commit) -> Result<Checkout, String> {
        let folder = private("perfmark-gate-")?;
        let checkout = Checkout { path: folder.path().join("base"), _folder: folder };
        let path = utf8(&checkout.path)?;
        // No hook runs: it would expect the user's own checkout.
        self.git(&["-c", "core.hooksPath=/dev/null", "worktree", "add", "--quiet", "--detach", path, &commit.hash])?;
        Ok(checkout)
    }

    /// Checks that the files are those of the commit `HEAD`, apart from files that git does not know.
    pub(super) fn check_unchanged(&self) -> Result<(), String> {
        match self.git(&["status", "--porcelain", "--untracked-files=no"])?.trim_end() {
            "" => Ok(()),
            changed => Err(format!(
                "the report of uncommitted changes cannot be saved as that of HEAD; commit or stash them, or save to a \
                 file (--save FILE):\n{changed}"
            )),
        }
    }

    /// The reports in the commit's note, if it has one.
    pub(super) fn reports(&self, commit: &Commit) -> Result<Vec<Snapshot>, String> {
        reports_in(self.note(commit)?, commit)
    }

    /// The commit's note, if it has one.
    pub(super) fn note(&self, commit: &Commit) -> Result<Option<String>, String> {
        if !self.git(&["notes", NOTES, "list"])?.contains(&commit.hash) {
            return Ok(None);
        }
        self.git(&["notes", NOTES, "show", &commit.hash]).map(Some)
    }

    /// Replaces the commit's note.
    pub(super) fn set_reports(&self, commit: &Commit, json: &str) -> Result<(), String> {
        let failed = |error: io::Error| format!("{}: {error}", env::temp_dir().display());
        let mut file = NamedTempFile::new().map_err(failed)?;
        file.write_all(json.as_bytes()).map_err(failed)?;
        let file = utf8(file.path())?;
        // It prints that it overwrites a note, and has no option against that.
        let mut add = git_in(&self.root);
        add.args(["notes", NOTES, "add", "--force", "--file", file, &commit.hash]);
        let output = add.stdin(Stdio::null()).output().map_err(|error| format!("git notes add: {error}"))?;
        if output.status.success() {
            return Ok(());
        }
        Err(format!("git notes add: {}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim()))
    }

    fn git(&self, arguments: &[&str]) -> Result<String, String> {
        git(&self.root, arguments)
    }
}

fn utf8(path: &Path) -> Result<&str, String> {
    path.to_str().ok_or_else(|| format!("{} is not in UTF-8; set TMPDIR to another directory", path.display()))
}

/// `refs/notes/perfmark`.
const NOTES: &str = "--ref=perfmark";

/// What git prints in that folder. It explains an error on stderr.
fn git(folder: &Path, arguments: &[&str]) -> Result<String, String> {
    let failed = |why| format!("git {}: {why}", arguments.join(" "));
    stdout_of(git_in(folder).args(arguments)).map_err(failed)
}

/// git in that folder. In a hook, a variable names the user's index, which `worktree add` would overwrite.
fn git_in(folder: &Path) -> Command {
    let mut git = Command::new("git");
    git.arg("-C").arg(folder).env_remove("GIT_INDEX_FILE");
    git
}

/// A commit's files, removed when dropped.
pub(super) struct Checkout {
    pub(super) path: PathBuf,
    _folder: TempDir,
}

impl Drop for Checkout {
    fn drop(&mut self) {
        // Removes the files, and what git knows about them. If this fails, the folder is nevertheless removed.
        let mut remove = git_in(Path::new("."));
        remove.args(["worktree", "remove", "--force"]).arg(&self.path);
        _ = remove.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    }
}

/// The reports in the commit's note, if it has one.
pub(super) fn reports_in(note: Option<String>, commit: &Commit) -> Result<Vec<Snapshot>, String> {
    let Some(note) = note else { return Ok(Vec::new()) };
    reports::parse(note.as_bytes()).map_err(|why| format!("the note of {} {why}", commit.name))
}
