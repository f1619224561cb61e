//! Files that reports are written to.

use std::fs::{self, File};
use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, ErrorKind, Write as _};
use std::path::{self, Path, PathBuf};
use std::process;

use perfmark::Report;
use tempfile::NamedTempFile;

/// The file's name in this process: each `%p` becomes its number, each `%u` a token that no other process has.
pub(crate) fn named(file: &Path) -> PathBuf {
    match file.to_str().filter(|name| name.contains("%p") || name.contains("%u")) {
        Some(name) => {
            let token = RandomState::new().hash_one(process::id());
            name.replace("%p", &process::id().to_string()).replace("%u", &format!("{token:016x}")).into()
        }
        None => file.into(),
    }
}

/// Replaces a file atomically, so that nobody reads half a report. What is not a regular file, such as a device or a
/// pipe, is opened and written to.
pub(crate) fn write(file: &Path, text: &[u8]) -> io::Result<()> {
    if let Some(file) = replaced(file)? {
        return replace(&file, text, |draft| permissions_before(&file, draft));
    }
    // A link such as /dev/stdout may lead to a file that others write to as well.
    let is_descriptor = file.starts_with("/dev") || file.starts_with("/proc");
    File::options().write(true).append(is_descriptor).truncate(!is_descriptor).open(file)?.write_all(text)
}

/// Replaces a file atomically by a new one with these permissions, or with those of a new file.
pub(crate) fn replace(
    file: &Path,
    text: &[u8],
    permissions: impl FnOnce(&NamedTempFile) -> Option<fs::Permissions>,
) -> io::Result<()> {
    let mut draft = draft(file)?;
    if let Some(permissions) = permissions(&draft) {
        draft.as_file().set_permissions(permissions)?;
    }
    draft.write_all(text)?;
    draft.persist(file)?;
    Ok(())
}

/// Checks that a file can be written, as far as possible without writing it.
pub(crate) fn check(file: &Path) -> io::Result<()> {
    replaced(file)?.map_or(Ok(()), |file| draft(&file)?.close())
}

/// Removes a file that would be replaced. Returns whether there was one.
pub(crate) fn remove(file: &Path) -> io::Result<bool> {
    let removed = replaced(file)?.map(fs::remove_file);
    match removed {
        None => Ok(false),
        Some(Err(error)) if error.kind() == ErrorKind::NotFound => Ok(false),
        Some(removed) => removed.map(|()| true),
    }
}

/// The file that is replaced or created, where links lead to. `None` if the file is opened and written to.
fn replaced(file: &Path) -> io::Result<Option<PathBuf>> {
    let replaced = Report::check_file(file)?;
    if replaced.is_none() && fs::metadata(file)?.is_dir() {
        return Err(ErrorKind::IsADirectory.into());
    }
    Ok(replaced)
}

/// A new file beside that one, which is removed if it does not replace it. Others may read it if the umask allows.
fn draft(file: &Path) -> io::Result<NamedTempFile> {
    let file = path::absolute(file)?;
    let mut builder = tempfile::Builder::new();
    builder.prefix(".perfmark-");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644));
    builder.tempfile_in(file.parent().unwrap_or(&file))
}

/// The read and write permissions of an existing file of this user, which stay. Another user's file has no influence.
#[cfg(unix)]
fn permissions_before(file: &Path, draft: &NamedTempFile) -> Option<fs::Permissions> {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    const READ_AND_WRITE: u32 = 0o666;
    let user = draft.as_file().metadata().ok()?.uid();
    let before = fs::symlink_metadata(file).ok().filter(|before| before.uid() == user)?;
    Some(fs::Permissions::from_mode(before.mode() & READ_AND_WRITE))
}

#[cfg(not(unix))]
fn permissions_before(_: &Path, _: &NamedTempFile) -> Option<fs::Permissions> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_the_process_number_and_a_token() {
        let pid = process::id();
        assert_eq!(named(Path::new("a/%p/b-%p")), Path::new(&format!("a/{pid}/b-{pid}")));
        let [one, other] = ["%u", "%u"].map(|name| named(Path::new(name)));
        assert!(one != other && one.as_os_str().len() == 16, "{one:?} {other:?}");
        assert_eq!(named(Path::new("a%")), Path::new("a%"));
    }
}
