//! The command line.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

pub(crate) const HELP: &str = "\
Searches documents for words over HTTP on 127.0.0.1, and measures itself.

usage: service [--port N] [--dumps FILE] [PATH]...

  PATH           a text, or a folder of texts, to load at the start
  --port N       the port (default: any free port); the address is printed
  --dumps FILE   write perfmark's report every minute and on SIGUSR1; %p in the
                 name is the process id
  -h, --help     print this text

The service ends on SIGTERM and SIGINT, after it has answered open requests.
";

#[derive(Default)]
pub(crate) struct Options {
    pub(crate) port: u16,
    pub(crate) dumps: Option<PathBuf>,
    pub(crate) paths: Vec<PathBuf>,
}

impl Options {
    /// Returns `None` if the arguments ask for help.
    pub(crate) fn parse(mut args: impl Iterator<Item = OsString>) -> io::Result<Option<Self>> {
        let mut options = Self::default();
        while let Some(arg) = args.next() {
            match arg.to_str() {
                Some("-h" | "--help") => return Ok(None),
                Some("--port") => {
                    let port = args.next().and_then(|port| port.to_str()?.parse().ok());
                    options.port = port.ok_or_else(|| io::Error::other("--port requires a number up to 65535"))?;
                }
                Some("--dumps") => {
                    let file = args.next().ok_or_else(|| io::Error::other("--dumps requires a file"))?;
                    options.dumps = Some(file.into());
                }
                _ if arg.as_encoded_bytes().starts_with(b"-") => {
                    return Err(io::Error::other(format!("unknown option {}; see --help", arg.display())));
                }
                _ => options.paths.push(arg.into()),
            }
        }
        Ok(Some(options))
    }
}
