//! The costs of starting and ending processes and threads, and of first calls.

use std::env;
use std::hint::black_box;
use std::io;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use benches::process::Child;
use benches::row::{Case, Goal, Row, in_turn};
use perfmark::perfmark;

use crate::calls::nanoseconds;

const PROCESSES: usize = 41;
const THREADS: usize = 401;

#[perfmark(time)]
#[inline(never)]
fn marked() {
    black_box(());
}

#[perfmark(time)]
#[inline(never)]
fn other() {
    black_box(());
}

#[inline(never)]
fn unmarked() {
    black_box(());
}

/// Takes a sample on a new thread.
fn on_a_new_thread(sample: fn() -> f64) -> f64 {
    thread::spawn(sample).join().expect("the thread does not panic")
}

/// The microseconds of a thread that makes this call, from before its creation until it is joined.
fn thread_with(call: fn()) -> f64 {
    nanoseconds(|| thread::spawn(call).join().expect("the thread does not panic")) / 1e3
}

fn threads() -> Vec<Row> {
    // Sets up what the process needs only once.
    marked();
    let lifetimes = in_turn(
        THREADS,
        "µs",
        vec![
            ("create and join a thread with an unmarked call".into(), Box::new(|| thread_with(unmarked))),
            ("the same with a marked call".into(), Box::new(|| thread_with(marked))),
        ],
    );
    let first_calls = in_turn(
        THREADS,
        "µs",
        vec![
            ("a thread's first call of a mark".into(), Box::new(|| on_a_new_thread(|| nanoseconds(marked) / 1e3))),
            ("its first call of a second mark with the same events".into(), Box::new(|| on_a_new_thread(second_mark))),
        ],
    );
    let with_goal = |(at, row): (usize, Row)| if at == 1 { row.goal(Goal::Times(1.1)) } else { row };
    lifetimes.into_iter().enumerate().map(with_goal).chain(first_calls).collect()
}

fn second_mark() -> f64 {
    marked();
    nanoseconds(other) / 1e3
}

/// A program to measure as a child process: its name in the table, its file, and whether its marks are on.
type Program<'a> = (&'static str, &'a Path, bool);

/// A case for each program, with a value of its child processes.
fn cases<'a>(programs: &[Program<'a>], value: &'a dyn Fn(&Child) -> f64) -> io::Result<Vec<Case<'a>>> {
    let case = |&(name, file, is_on): &Program<'a>| -> io::Result<Case<'a>> {
        let run = move || Child::of(Command::new(file).env_clear().env("PERFMARK", if is_on { "on" } else { "off" }));
        // Returns the error if the program does not run at all. Later, a failed run gives a sample that does not count.
        run()?;
        Ok((name.into(), Box::new(move || run().map_or(f64::NAN, |child| value(&child)))))
    };
    programs.iter().map(case).collect()
}

fn processes() -> io::Result<Vec<Row>> {
    let [bare, linked] = [env!("CARGO_BIN_EXE_bare"), env!("CARGO_BIN_EXE_unmarked")].map(Path::new);
    let this = &*env::current_exe()?;
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let (start, exit) = (|child: &Child| ms(child.start), |child: &Child| ms(child.end));
    let starts = cases(
        &[
            ("start of a process without perfmark, until main", bare, true),
            ("the same with perfmark linked, without a mark", linked, true),
            ("the same with 10,000 marks", this, true),
        ],
        &start,
    )?;
    let exits = cases(
        &[
            ("exit of a process without perfmark, from the end of main", bare, true),
            ("the same with perfmark linked, without a mark, so without a report", linked, true),
            ("the same with 10,000 marks, PERFMARK=off, so without a report", this, false),
            ("the same with 10,000 marks that were not called, with the report", this, true),
        ],
        &exit,
    )?;
    let mut rows = in_turn(PROCESSES, "ms", starts);
    let with_goal = |(at, row): (usize, Row)| if [1, 2].contains(&at) { row.goal(Goal::More(1.0)) } else { row };
    rows.extend(in_turn(PROCESSES, "ms", exits).into_iter().enumerate().map(with_goal));
    Ok(rows)
}

pub(crate) fn rows() -> io::Result<Vec<Row>> {
    let mut rows = processes()?;
    rows.extend(threads());
    Ok(rows)
}
