//! A small code search engine whose hot functions are marked.
//!
//! ```text
//! cargo run --release --example hot_functions           # the sources of perfmark
//! cargo run --release --example hot_functions -- src    # the text files under src
//! ```
//!
//! The program reads and indexes files on two threads, answers queries with the best locations, and ends. It calls no
//! function of perfmark. Still, it prints a report at exit with the cost of each call of the marked functions. The
//! report shows:
//!
//! - nested marks: `add_file` calls `tokenize` for each line, and `snippet` calls `read_text`, so that the inclusive
//!   and the self cost of a call differ;
//! - calls of every size: a call of `score` takes a hundred nanoseconds, the only call of `merge` takes milliseconds;
//! - a mark that never ran: only `--exact` uses `phrase_line`.

mod tokens;
mod corpus;
mod index;
mod options;
mod search;

use std::io::{self, BufWriter, ErrorKind, Write};
use std::process::ExitCode;

use corpus::Corpus;
use index::Index;
use options::{HELP, Options, QUERIES};

/// Results shown for one query.
const SHOWN: usize = 3;

fn main() -> ExitCode {
    match run() {
        Ok(status) => status,
        // The reader of the output has closed it.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            print_error(&error.to_string());
            ExitCode::from(2)
        }
    }
}

fn run() -> io::Result<ExitCode> {
    let mut out = BufWriter::new(io::stdout().lock());
    let Some(options) = Options::parse(std::env::args_os().skip(1))? else {
        out.write_all(HELP.as_bytes())?;
        out.flush()?;
        return Ok(ExitCode::SUCCESS);
    };

    let corpus = Corpus::gather(&options.roots())?;
    let index = Index::build(&corpus.files)?;
    let errors = [&corpus.errors[..], &index.errors].concat();
    for error in &errors {
        print_error(error);
    }
    if index.texts == 0 {
        return Err(io::Error::other("no text files found; --help lists which files are skipped"));
    }

    let (files, lines, terms) = (index.texts, index.lines, index.terms());
    writeln!(out, "files: {files}, lines: {lines}, terms: {terms}")?;
    let mut found = false;
    for words in QUERIES {
        let mut hits = search::search(&index, words);
        if options.exact {
            hits = search::only_exact(hits, &corpus.files, words);
        }
        found |= !hits.is_empty();
        writeln!(out, "\n{words} (files: {})", hits.len())?;
        for hit in hits.iter().take(SHOWN) {
            writeln!(out, "  {}", search::snippet(hit, &corpus.files))?;
        }
    }
    out.flush()?;

    Ok(match (errors.is_empty(), found) {
        (false, _) => ExitCode::from(2),
        (true, false) => ExitCode::from(1),
        (true, true) => ExitCode::SUCCESS,
    })
}

/// Prints to stderr. Unlike `eprintln!`, does not panic if stderr is closed.
fn print_error(message: &str) {
    let _ = writeln!(io::stderr(), "hot_functions: {message}");
}
