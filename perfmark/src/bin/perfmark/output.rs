//! The destination of a command's output.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::process;

// Shared with reports; the library does not export them.
#[path = "../../report/signs.rs"]
mod signs;
#[path = "../../report/count.rs"]
mod count;

pub(crate) use count::{counted, exact, grouped};
pub(crate) use signs::{clean, markdown};

/// Writes one line on stderr; errors are ignored.
pub(crate) fn say(message: &str) {
    _ = writeln!(io::stderr(), "perfmark: {message}");
}

/// The destination of a report.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Destination<'a> {
    Stdout,
    /// Separated from the program's output by an empty line.
    Stderr,
    /// A file, which is replaced atomically.
    File(&'a Path),
}

impl<'a> Destination<'a> {
    /// That file, where `-` is stdout; without a file, `otherwise`.
    pub(crate) fn new(file: Option<&'a Path>, otherwise: Self) -> Self {
        match file {
            Some(file) if file == Path::new("-") => Self::Stdout,
            Some(file) => Self::File(file),
            None => otherwise,
        }
    }

    /// The columns that a table has there.
    pub(crate) fn columns(self) -> usize {
        perfmark::private::columns(self.descriptor())
    }

    /// Whether a table has colours there.
    pub(crate) fn has_color(self) -> bool {
        perfmark::private::has_color(self.descriptor())
    }

    fn descriptor(self) -> i32 {
        match self {
            Self::Stdout => 1,
            Self::Stderr => 2,
            // Not an open descriptor.
            Self::File(_) => -1,
        }
    }

    /// Checks that a file can be created there, as far as possible without creating it.
    pub(crate) fn check(self) -> Result<(), String> {
        let Self::File(file) = self else { return Ok(()) };
        can_be_made(file).map_err(|error| format!("writing {}: {error}", file.display()))
    }

    pub(crate) fn give(self, text: &str) -> Result<(), String> {
        match self {
            Self::Stdout => print(text),
            Self::Stderr => write("stderr", io::stderr().lock(), &format!("\n{text}")),
            Self::File(file) => perfmark::private::write_file(file, text)
                .map_err(|error| format!("writing {}: {error}", file.display())),
        }
    }
}

fn can_be_made(file: &Path) -> io::Result<()> {
    let file = std::path::absolute(file)?;
    match fs::symlink_metadata(&file) {
        Ok(there) if there.is_dir() => return Err(ErrorKind::IsADirectory.into()),
        // A device is written to, and a link may lead to one.
        Ok(there) if !there.is_file() => return Ok(()),
        _ => {}
    }
    let trial = file.with_file_name(format!(".perfmark-{}", process::id()));
    match File::create_new(&trial) {
        Ok(_) => fs::remove_file(&trial),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// Writes to stdout.
pub(crate) fn print(text: &str) -> Result<(), String> {
    write("stdout", io::stdout().lock(), text)
}

/// A reader that ends early, such as `head`, is not an error.
fn write(name: &str, mut to: impl Write, text: &str) -> Result<(), String> {
    match to.write_all(text.as_bytes()).and_then(|()| to.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(format!("writing to {name}: {error}")),
        _ => Ok(()),
    }
}

/// Writes to that file, which is replaced atomically, or to stdout.
pub(crate) fn give(text: &str, file: Option<&Path>) -> Result<(), String> {
    Destination::new(file, Destination::Stdout).give(text)
}
