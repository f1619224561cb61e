//! `cargo perfmark`: the same commands, as a subcommand of cargo.

use std::env;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = env::args_os().skip(1).peekable();
    // cargo passes the name of the subcommand first.
    arguments.next_if(|first| first == "perfmark");
    perfmark_cli::main("cargo perfmark", arguments)
}
