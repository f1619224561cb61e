//! The destination of a command's output.

use std::env;
use std::ffi::OsString;
use std::io::{self, ErrorKind, IsTerminal as _, Write};
use std::path::{Path, PathBuf};

use perfmark::text::sanitize;
use terminal_size::{Width, terminal_size_of};

use crate::file;

/// The exit status of an error before a command could give its answer; the same as for a wrong argument.
pub(crate) const TROUBLE: u8 = 2;

/// The variable's value. As in programs with perfmark, an empty one is not set.
pub(crate) fn variable(name: &str) -> Option<OsString> {
    env::var_os(name).filter(|value| !value.is_empty())
}

/// Writes a message on stderr, in which names are safe for a terminal; errors are ignored.
pub(crate) fn say(message: &str) {
    let lines: Vec<String> = message.lines().map(sanitize).collect();
    _ = writeln!(io::stderr(), "perfmark: {}", lines.join("\n"));
}

/// The destination of a report.
#[derive(Clone, Debug)]
pub(crate) enum Destination {
    Stdout,
    /// Separated from the program's output by an empty line.
    Stderr,
    /// A file, which is replaced atomically.
    File(PathBuf),
}

impl Destination {
    /// That file, where `-` is stdout; without a file, `otherwise`.
    pub(crate) fn new(file: Option<&Path>, otherwise: Self) -> Self {
        match file {
            Some(file) if file == Path::new("-") => Self::Stdout,
            Some(file) => Self::File(file::named(file)),
            None => otherwise,
        }
    }

    /// The columns that a table has there: those of the terminal, or of `COLUMNS`.
    pub(crate) fn columns(&self) -> Option<usize> {
        let size = match self {
            Self::Stdout => terminal_size_of(io::stdout()),
            Self::Stderr => terminal_size_of(io::stderr()),
            Self::File(_) => None,
        };
        let of_user = || env::var("COLUMNS").ok()?.parse::<usize>().ok().filter(|&columns| columns > 0);
        size.map(|(Width(columns), _)| usize::from(columns).clamp(80, 200)).or_else(of_user)
    }

    /// Whether a table has colours there, by the rule of [`perfmark::Report::color`].
    pub(crate) fn has_color(&self) -> bool {
        self.is_terminal() && variable("TERM").is_some_and(|term| term != "dumb") && variable("NO_COLOR").is_none()
    }

    /// Checks that a file can be created there, as far as possible without creating it.
    pub(crate) fn check(&self) -> Result<(), String> {
        let Self::File(file) = self else { return Ok(()) };
        file::check(file).map_err(|error| format!("writing {}: {error}", file.display()))
    }

    /// Whether what is written there appears on a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        match self {
            Self::Stdout => io::stdout().is_terminal(),
            Self::Stderr => io::stderr().is_terminal(),
            Self::File(_) => false,
        }
    }

    pub(crate) fn give(&self, text: &[u8]) -> Result<(), String> {
        match self {
            Self::Stdout => write("stdout", io::stdout().lock(), text),
            Self::Stderr => write("stderr", io::stderr().lock(), &[b"\n", text].concat()),
            Self::File(file) => file::write(file, text).map_err(|error| format!("writing {}: {error}", file.display())),
        }
    }

    /// Prints that no report was written to the file. An older one is removed: it would be taken for the new one.
    pub(crate) fn give_nothing(&self) {
        let Self::File(file) = self else { return };
        let older = match file::remove(file) {
            Ok(true) => "; the older file was removed".into(),
            Ok(false) => String::new(),
            Err(error) => format!("; removing the older file: {error}"),
        };
        say(&format!("no report was written to {}{older}", file.display()));
    }
}

/// Writes to stdout.
pub(crate) fn print(text: &str) -> Result<(), String> {
    write("stdout", io::stdout().lock(), text.as_bytes())
}

/// A reader that ends early, such as `head`, is not an error.
fn write(name: &str, mut to: impl Write, text: &[u8]) -> Result<(), String> {
    match to.write_all(text).and_then(|()| to.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(format!("writing to {name}: {error}")),
        _ => Ok(()),
    }
}
