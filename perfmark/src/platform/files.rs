//! Files that reports are written to: they are replaced atomically, and no other user's file is touched.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf, is_separator};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use super::terminal;
use super::token::{number, number_or_unknown, token};

/// Replaces a file atomically, so that nobody ever reads half a report. What cannot be replaced, such as a device or a
/// pipe, is written to.
pub(crate) fn write_file(path: &Path, text: &str) -> io::Result<()> {
    let path = match target(std::path::absolute(path)?)? {
        Target::Replaced(path) => path,
        Target::Written { path, is_link } => return terminal::write_in_place(&path, is_link, text),
    };
    let (mut file, draft) = draft(&path).map_err(|why| {
        with_remedy(why, ErrorKind::PermissionDenied, "replacing a file requires a writable directory")
    })?;
    let _signals = terminal::SuppressedSignals::new();
    let mut write = || -> io::Result<()> {
        #[cfg(unix)]
        if let Some(permissions) = permissions_before(&path) {
            file.set_permissions(permissions)?;
        }
        file.write_all(text.as_bytes())?;
        fs::rename(&draft, &path).map_err(|why| {
            let remedy = "a file that is mounted cannot be replaced; mount its directory instead";
            with_remedy(why, ErrorKind::ResourceBusy, remedy)
        })
    };
    write().inspect_err(|_| _ = fs::remove_file(&draft))
}

/// The error, and what to do about it if it is of that kind.
fn with_remedy(why: io::Error, kind: ErrorKind, remedy: &str) -> io::Error {
    if why.kind() == kind { io::Error::new(kind, format!("{why}; {remedy}")) } else { why }
}

/// The read and write permissions of an existing file of this process's user, which stay. Another user's file has no
/// influence.
#[cfg(unix)]
fn permissions_before(path: &Path) -> Option<fs::Permissions> {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    const READ_AND_WRITE: u32 = 0o666;
    let before = fs::symlink_metadata(path).ok().filter(|before| before.is_file() && before.uid() == user())?;
    Some(fs::Permissions::from_mode(before.mode() & READ_AND_WRITE))
}

/// Creates a file beside that one, never opening an existing file or following a link. Others may read it if the umask
/// allows.
///
/// The process holds a lock on it (`flock(2)`) as long as it lives. So [`remove_left_drafts`] knows which drafts were
/// left, whatever the number and the namespace of their process.
///
/// `tempfile` 3.27 would replace only this loop and the removal after an error, for five more crates: it neither locks
/// files nor finds those that killed processes left.
fn draft(path: &Path) -> io::Result<(File, PathBuf)> {
    static DRAFTS: AtomicU32 = AtomicU32::new(0);
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o644);
    loop {
        let mut draft = path.to_owned().into_os_string();
        draft.push(format!(".perfmark-{}-{}.draft", number().unwrap_or(0), DRAFTS.fetch_add(1, Relaxed)));
        match options.open(&draft) {
            // Left by a killed process of the same number.
            Err(why) if why.kind() == ErrorKind::AlreadyExists => {}
            opened => {
                let file = opened?;
                if !is_taken(&file) {
                    return Ok((file, draft.into()));
                }
            }
        }
    }
}

/// Whether another process removed this draft before it was locked. Without locks, drafts are never removed.
#[cfg(unix)]
fn is_taken(file: &File) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    match lock(file) {
        Ok(true) => file.metadata().is_ok_and(|about| about.nlink() == 0),
        Ok(false) => true,
        Err(_) => false,
    }
}

#[cfg(not(unix))]
fn is_taken(_: &File) -> bool {
    false
}

/// Locks the file until it is closed, here and in children that were forked meanwhile. Returns whether it succeeded.
#[cfg(unix)]
#[allow(unsafe_code, reason = "flock(2), which std has as of Rust 1.89")]
fn lock(file: &File) -> io::Result<bool> {
    use std::os::fd::AsRawFd as _;
    // SAFETY: an open descriptor; no memory is touched.
    if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
        return Ok(true);
    }
    let why = io::Error::last_os_error();
    if why.kind() == ErrorKind::WouldBlock { Ok(false) } else { Err(why) }
}

/// Removes the drafts beside that file that killed processes left: those of this process's user that nobody has locked.
#[cfg(unix)]
pub(crate) fn remove_left_drafts(path: &Path) {
    let Ok(Target::Replaced(path)) = std::path::absolute(path).and_then(target) else { return };
    let Some(entries) = path.parent().and_then(|directory| fs::read_dir(directory).ok()) else { return };
    for entry in entries.flatten().filter(|entry| entry.file_name().to_str().is_some_and(is_draft)) {
        _ = remove_left(&entry.path());
    }
}

#[cfg(not(unix))]
pub(crate) fn remove_left_drafts(_: &Path) {}

/// `NAME.perfmark-NUMBER-NUMBER.draft`.
#[cfg(unix)]
fn is_draft(name: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let numbers = name.strip_suffix(".draft").and_then(|name| name.rsplit_once(".perfmark-"));
    let numbers = numbers.and_then(|(file, numbers)| numbers.split_once('-').filter(|_| !file.is_empty()));
    numbers.is_some_and(|(process, draft)| is_number(process) && is_number(draft))
}

#[cfg(unix)]
fn remove_left(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
    let file = File::options().write(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)?;
    let opened = file.metadata()?;
    if !opened.is_file() || opened.uid() != user() || !lock(&file)? {
        return Ok(());
    }
    // With the lock, nobody else removes it. But it may have been removed before, and another file may have its name.
    let there = fs::symlink_metadata(path)?;
    if (there.dev(), there.ino()) == (opened.dev(), opened.ino()) { fs::remove_file(path) } else { Ok(()) }
}

/// Checks that no part of the path, and of those that its links lead to, is an untrusted link. Returns the file that
/// [`write_file`] would replace or create.
pub(crate) fn replaced_file(file: &Path) -> io::Result<Option<PathBuf>> {
    Ok(match target(std::path::absolute(file)?)? {
        Target::Replaced(path) => Some(path),
        Target::Written { .. } => None,
    })
}

/// Checks that the path is not that of a directory, and that the file's directory exists and is accessible.
pub(crate) fn check_file(file: &Path) -> io::Result<()> {
    if file.is_dir() {
        return Err(io::Error::new(ErrorKind::IsADirectory, "is a directory"));
    }
    refuse_separator(file)?;
    let folder = file.parent().unwrap_or(file);
    let (kind, why) = match fs::metadata(folder) {
        Ok(there) if there.is_dir() => return Ok(()),
        Err(error) if error.kind() != ErrorKind::NotFound => (error.kind(), format!("{}: {error}", folder.display())),
        _ => (ErrorKind::NotFound, format!("the directory {} does not exist", folder.display())),
    };
    Err(io::Error::new(kind, why))
}

/// Refuses a path that can only be that of a directory.
fn refuse_separator(file: &Path) -> io::Result<()> {
    match file.as_os_str().as_encoded_bytes().last() {
        Some(&last) if is_separator(last.into()) => {
            let why = format!("the name of a file does not end with `{}`", char::from(last));
            Err(io::Error::new(ErrorKind::InvalidInput, why))
        }
        _ => Ok(()),
    }
}

/// The file's name in this process: each `%p` becomes its number, each `%u` its token, which no other process has.
/// Without either, a forked child appends its number, so that it does not replace its parent's file.
pub(crate) fn in_this_process(path: &Path, is_child: bool) -> PathBuf {
    if let Some(text) = path.to_str().filter(|text| text.contains("%p") || text.contains("%u")) {
        let mut name = text.replace("%p", &number_or_unknown());
        if name.contains("%u") {
            name = name.replace("%u", &token());
        }
        return name.into();
    }
    if is_child { with_suffix(path, &format!(".{}", number_or_unknown())) } else { path.to_owned() }
}

/// The file of one of several copies of perfmark in a process. The first has the plain name.
pub(crate) fn of_copy(path: PathBuf, before: usize) -> PathBuf {
    if before == 0 { path } else { with_suffix(&path, &format!(".copy-{}", before + 1)) }
}

/// What is written to and not replaced, such as a device or a pipe, keeps its name.
fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    if !matches!(replaced_file(path), Ok(None)) {
        name.push(suffix);
    }
    name.into()
}

/// Where a path leads to.
enum Target {
    /// A regular file, or one that does not exist yet.
    Replaced(PathBuf),
    /// Something else, or a link that represents a descriptor.
    Written { path: PathBuf, is_link: bool },
}

fn target(mut path: PathBuf) -> io::Result<Target> {
    /// As many as the kernel follows (`path_resolution(7)`).
    const LINKS: usize = 40;
    for _ in 0..LINKS {
        if path.starts_with("/proc") || path.starts_with("/dev/fd") {
            return Ok(Target::Written { path, is_link: true });
        }
        for part in path.ancestors().skip(1) {
            refuse_untrusted_link(part)?;
        }
        match fs::symlink_metadata(&path) {
            Ok(at) if at.is_symlink() => {
                refuse_untrusted_link(&path)?;
                let parent = path.parent().unwrap_or(Path::new("/"));
                path = parent.join(fs::read_link(&path)?);
            }
            Ok(at) if !at.is_file() => return Ok(Target::Written { path, is_link: false }),
            _ => return refuse_separator(&path).map(|()| Target::Replaced(path)),
        }
    }
    Ok(Target::Written { path, is_link: false })
}

/// Follows a link in a directory where everybody may create one, such as /tmp, only if this process's user or the
/// directory's owner created it. This is the rule of `fs.protected_symlinks` (`proc_sys_fs(5)`), which may be off.
#[cfg(unix)]
fn refuse_untrusted_link(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt as _;
    const STICKY: u32 = 0o1000;
    const WRITABLE_BY_ALL: u32 = 0o002;
    let Some(parent) = path.parent() else { return Ok(()) };
    let Some(link) = fs::symlink_metadata(path).ok().filter(fs::Metadata::is_symlink) else { return Ok(()) };
    let directory = fs::metadata(parent)?;
    let is_shared = directory.mode() & (STICKY | WRITABLE_BY_ALL) == STICKY | WRITABLE_BY_ALL;
    if !is_shared || link.uid() == user() || link.uid() == directory.uid() {
        return Ok(());
    }
    let (path, user) = (path.display(), link.uid());
    let why =
        format!("{path} is a symbolic link of user {user} in a world-writable directory; perfmark does not follow it");
    Err(io::Error::new(ErrorKind::PermissionDenied, why))
}

/// The process's effective user.
#[cfg(unix)]
#[allow(unsafe_code, reason = "asks libc")]
fn user() -> u32 {
    // SAFETY: it has no arguments, and always succeeds.
    unsafe { libc::geteuid() }
}

#[cfg(not(unix))]
#[allow(clippy::unnecessary_wraps, reason = "as on unix")]
fn refuse_untrusted_link(_: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::process;

    use super::*;

    #[cfg(unix)]
    #[test]
    fn only_drafts_that_nobody_writes_are_removed() {
        let folder = std::env::temp_dir().join(format!("perfmark-output-{}", process::id()));
        fs::create_dir(&folder).expect("made");
        let report = folder.join("report");
        let (file, held) = draft(&report).expect("made");
        let others =
            ["report.perfmark-1.draft", "report.perfmark-1-x.draft", ".perfmark-1-2.draft", "report.1.2.draft"];
        for name in others {
            fs::write(folder.join(name), "").expect("written");
        }
        std::os::unix::fs::symlink(&held, folder.join("link.perfmark-1-2.draft")).expect("linked");
        fs::create_dir(folder.join("folder.perfmark-1-2.draft")).expect("made");
        let left = ["report.perfmark-1-2.draft", "another.json.perfmark-4294967296-0.draft"];
        for name in left {
            fs::write(folder.join(name), "half").expect("written");
        }
        let count = || fs::read_dir(&folder).expect("there").count();
        remove_left_drafts(&report);
        assert_eq!(count(), 1 + others.len() + 2, "those that are left, and no other");
        assert!(left.iter().all(|name| !folder.join(name).exists()));
        drop(file);
        remove_left_drafts(&report);
        assert!(!held.exists() && count() == others.len() + 2);
        fs::remove_dir_all(&folder).expect("there");
    }

    #[cfg(target_os = "linux")]
    #[test]
    #[allow(unsafe_code, reason = "setfsuid(2): root may write to every directory")]
    fn an_error_of_the_directory_says_so() {
        use std::os::unix::fs::PermissionsExt as _;
        const NOBODY: u32 = 65_534;
        let folder = std::env::temp_dir().join(format!("perfmark-read-only-{}", process::id()));
        let file = folder.join("report");
        fs::create_dir(&folder).expect("made");
        fs::write(&file, "before").expect("written");
        let set_mode = |mode| fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).expect("set");
        set_mode(0o555);
        // SAFETY: it takes no pointers, and concerns this thread only.
        unsafe { libc::setfsuid(NOBODY) };
        let why = write_file(&file, "after").expect_err("the directory is not writable");
        // SAFETY: the same.
        unsafe { libc::setfsuid(user()) };
        set_mode(0o755);
        fs::remove_dir_all(&folder).expect("there");
        assert!(why.to_string().ends_with("; replacing a file requires a writable directory"), "{why}");
        assert_eq!(why.kind(), ErrorKind::PermissionDenied);
    }

    #[test]
    fn a_file_is_named_after_its_process() {
        let pid = process::id();
        let name = |path: &str, is_child| in_this_process(Path::new(path), is_child).display().to_string();
        assert_eq!(name("/a/%p/b-%p.json", false), format!("/a/{pid}/b-{pid}.json"));
        assert_eq!(name("/a/%p", true), format!("/a/{pid}"));
        assert_eq!(name("/a/%p-%u", true), format!("/a/{pid}-{}", token()));
        assert_eq!((name("/a", false), name("/a", true)), ("/a".to_owned(), format!("/a.{pid}")));
        assert_eq!(
            [0, 1, 2].map(|before| of_copy("/a".into(), before)),
            ["/a", "/a.copy-2", "/a.copy-3"].map(PathBuf::from)
        );
        // Nothing beside a device can be created.
        #[cfg(unix)]
        assert_eq!(of_copy(in_this_process(Path::new("/dev/null"), true), 1), Path::new("/dev/null"));
    }
}
