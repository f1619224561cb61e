//! `perfmark`.

use std::env;
use std::process::ExitCode;

fn main() -> ExitCode {
    perfmark_cli::main("perfmark", env::args_os().skip(1))
}
