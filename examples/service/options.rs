//! The command line.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

pub(crate) const HELP: &str = "\
Searches documents for words, over HTTP on 127.0.0.1, and measures itself.

usage: service [--port N] [--dumps FILE] [PATH]...

  PATH           a text, or a folder of texts, to begin with
  --port N       without it, any free one; the address is printed
  --dumps FILE   perfmark's report, each minute and on SIGUSR1; %p in the name is
                 the process's number
  -h, --help     this text

It ends on SIGTERM and SIGINT, after the requests that it has.
";

#[derive(Default)]
pub(crate) struct Options {
    pub(crate) port: u16,
    pub(crate) dumps: Option<PathBuf>,
    pub(crate) paths: Vec<PathBuf>,
}

impl Options {
    /// None if it is help that was asked for.
    pub(crate) fn parse(mut args: impl Iterator<Item = OsString>) -> io::Result<Option<Self>> {
        let mut options = Self::default();
        while let Some(arg) = args.next() {
            match arg.to_str() {
                Some("-h" | "--help") => return Ok(None),
                Some("--port") => {
                    let port = args.next().and_then(|port| port.to_str()?.parse().ok());
                    options.port = port.ok_or_else(|| io::Error::other("--port needs a number up to 65535"))?;
                }
                Some("--dumps") => {
                    let file = args.next().ok_or_else(|| io::Error::other("--dumps needs a file"))?;
                    options.dumps = Some(file.into());
                }
                _ if arg.as_encoded_bytes().starts_with(b"-") => {
                    return Err(io::Error::other(format!("unknown option {} (--help lists them)", arg.display())));
                }
                _ => options.paths.push(arg.into()),
            }
        }
        Ok(Some(options))
    }
}
