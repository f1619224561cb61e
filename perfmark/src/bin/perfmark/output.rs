//! Where a command's answer goes.

use std::io::{self, ErrorKind, Write as _};
use std::path::Path;

// As reports have it: the library has no public place for it.
#[path = "../../report/signs.rs"]
mod signs;

pub(crate) use signs::{clean, markdown};

/// One line on stderr. Nobody has to hear it.
pub(crate) fn say(what: &str) {
    _ = writeln!(io::stderr(), "perfmark: {what}");
}

/// To stdout. A reader who has seen enough, as `head`, is no failure.
pub(crate) fn print(text: &str) -> Result<(), String> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(format!("writing to stdout: {error}")),
        _ => Ok(()),
    }
}

/// To that file, which is replaced as a whole, or else to stdout.
pub(crate) fn give(text: &str, file: Option<&Path>) -> Result<(), String> {
    match file.filter(|file| *file != Path::new("-")) {
        Some(file) => {
            perfmark::private::write_file(file, text).map_err(|error| format!("writing {}: {error}", file.display()))
        }
        None => print(text),
    }
}

/// `1 mark`, `2 marks`.
pub(crate) fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}
