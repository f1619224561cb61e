//! Files that reports go to: replaced as a whole, and no other's.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process;

use crate::terminal;

/// Replaces a file as a whole, so that nobody ever reads half a report. What cannot be replaced (a device, a pipe) is written to.
pub(crate) fn write_file(path: &Path, text: &str) -> io::Result<()> {
    let Some(path) = replaceable(path)? else { return terminal::write_in_place(path, text) };
    let mut draft = path.clone().into_os_string();
    draft.push(format!(".{}.draft", process::id()));
    let write = || -> io::Result<()> {
        draft_options().open(&draft)?.write_all(text.as_bytes())?;
        fs::rename(&draft, &path)
    };
    write().inspect_err(|_| _ = fs::remove_file(&draft))
}

/// A new file, never one that stands there or that a link leads to; which others may read, as far as the umask lets them.
fn draft_options() -> fs::OpenOptions {
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o644);
    options
}

/// The file's name in this process: its number in the place of each `%p`; where there is none, a forked child's own has it at its end, so that it does not
/// replace its parent's.
pub(crate) fn in_this_process(path: &Path, is_child: bool) -> PathBuf {
    if let Some(text) = path.to_str().filter(|text| text.contains("%p")) {
        return text.replace("%p", &process::id().to_string()).into();
    }
    if !is_child {
        return path.to_owned();
    }
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}", process::id()));
    name.into()
}

/// The file that `path` leads to, if it is a regular one or none yet; not what lies in /dev and /proc, whose links stand for descriptors.
fn replaceable(path: &Path) -> io::Result<Option<PathBuf>> {
    /// As many as the kernel follows (`path_resolution(7)`).
    const LINKS: usize = 40;
    let mut path = path.to_owned();
    for _ in 0..LINKS {
        if path.starts_with("/dev") || path.starts_with("/proc") {
            return Ok(None);
        }
        match fs::symlink_metadata(&path) {
            Ok(at) if at.is_symlink() => {
                refuse_strangers_link(&path, &at)?;
                let parent = path.parent().unwrap_or(Path::new("/"));
                path = parent.join(fs::read_link(&path)?);
            }
            Ok(at) => return Ok(at.is_file().then_some(path)),
            Err(_) => return Ok(Some(path)),
        }
    }
    Ok(None)
}

/// A link in a directory where everybody may put one, as in /tmp, is followed only if this process's user or the directory's owner put it there: as
/// `fs.protected_symlinks` has it (`proc_sys_fs(5)`), which may be off.
#[cfg(unix)]
fn refuse_strangers_link(path: &Path, link: &fs::Metadata) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt as _;
    const STICKY: u32 = 0o1000;
    const WRITABLE_BY_ALL: u32 = 0o002;
    let directory = fs::metadata(path.parent().unwrap_or(Path::new("/")))?;
    let is_shared = directory.mode() & (STICKY | WRITABLE_BY_ALL) == STICKY | WRITABLE_BY_ALL;
    if !is_shared || link.uid() == user() || link.uid() == directory.uid() {
        return Ok(());
    }
    let why = format!("it is a link of user {} in a directory that all may write to, and is not followed", link.uid());
    Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
}

/// The user with whose rights the process runs.
#[cfg(unix)]
#[allow(unsafe_code, reason = "asks libc")]
fn user() -> u32 {
    // SAFETY: it has no arguments, and always succeeds.
    unsafe { libc::geteuid() }
}

#[cfg(not(unix))]
fn refuse_strangers_link(_: &Path, _: &fs::Metadata) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_named_after_its_process() {
        let pid = process::id();
        let name = |path: &str, is_child| in_this_process(Path::new(path), is_child).display().to_string();
        assert_eq!(name("/a/%p/b-%p.json", false), format!("/a/{pid}/b-{pid}.json"));
        assert_eq!(name("/a/%p", true), format!("/a/{pid}"));
        assert_eq!((name("/a", false), name("/a", true)), ("/a".to_owned(), format!("/a.{pid}")));
    }
}
