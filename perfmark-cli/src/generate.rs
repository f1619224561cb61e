//! `perfmark completions` and `perfmark man`: for shells, and for packages.

use std::process::ExitCode;

use clap::{Args, Command};
use clap_complete::Shell;

use crate::output::Destination;

/// Write completions for a shell to stdout
///
/// bash: perfmark completions bash >~/.local/share/bash-completion/completions/perfmark
#[derive(Args, Debug)]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

/// Write the manual to stdout, as a page for man(1)
///
/// perfmark man | man -l -
#[derive(Args, Debug)]
pub(crate) struct Man {
    /// The command; without it, the page of the program
    command: Option<String>,
}

/// `program` is the complete command line.
pub(crate) fn completions(arguments: &Completions, mut program: Command) -> Result<ExitCode, String> {
    let mut text = Vec::new();
    clap_complete::generate(arguments.shell, &mut program, "perfmark", &mut text);
    Destination::Stdout.give(&text).map(|()| ExitCode::SUCCESS)
}

/// `program` is the complete command line.
pub(crate) fn man(arguments: &Man, mut program: Command) -> Result<ExitCode, String> {
    program.build();
    let page = match &arguments.command {
        None => program,
        Some(name) => {
            let names: Vec<_> = program.get_subcommands().map(|command| command.get_name().to_owned()).collect();
            let found = program.find_subcommand(name).cloned();
            found.ok_or_else(|| format!("unknown command `{name}`; expected one of {}", names.join(", ")))?
        }
    };
    let mut text = Vec::new();
    let page = clap_mangen::Man::new(page).source(concat!("perfmark ", env!("CARGO_PKG_VERSION")));
    page.render(&mut text).map_err(|error| error.to_string())?;
    Destination::Stdout.give(&text).map(|()| ExitCode::SUCCESS)
}
