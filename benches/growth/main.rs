//! How perfmark's costs grow: with threads, marks, depth and events; what starts and exits of processes and threads
//! cost; and snapshots of many cells.
//!
//! ```sh
//! cargo bench -p benches --bench growth                # less than a minute, with up to 100,000 cells
//! cargo bench -p benches --bench growth -- --record    # with up to 10,000,000 cells; kept in records/
//! cargo bench -p benches --bench growth -- cells       # one section: calls, events, starts or cells
//! ```
//!
//! A mark's cost is the time of a loop over calls of a marked function, minus that of the same loop over the same
//! function unmarked, divided by the number of calls. Cases with a ratio take turns in one process. The ratio is the
//! median of the rounds' ratios.
//!
//! The 10,000 marks are 10,000 functions with the attribute, which a macro writes. They take a minute and a half to
//! compile. A generic function is not used, as each call of it also looks up the mark of its types.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::{env, fs, thread};

use benches::{process, record};

mod row;
mod marks;
mod calls;
mod events;
mod starts;
mod cells;

/// How many of the marks each of 1,000 threads calls: by default, and for a record.
const FEW: &[usize] = &[10, 100];
const MANY: &[usize] = &[10, 100, 1_000, 10_000];
/// Free memory without which the most cells are not built.
const MANY_KIB: u64 = 16 << 20;

fn main() -> ExitCode {
    if process::answer() {
        return ExitCode::SUCCESS;
    }
    let ended = run();
    if let Err(why) = &ended {
        eprintln!("{why}");
    }
    _ = io::stdout().flush();
    // SAFETY: it ends the process. A report at exit would have 10,000 rows.
    unsafe { libc::_exit(i32::from(ended.is_err())) }
}

fn run() -> io::Result<()> {
    let is_recorded = env::args().skip(1).any(|argument| argument == "--record");
    let section = env::args().skip(1).find(|argument| !argument.starts_with("--"));
    let is_run = |name: &str| section.as_ref().is_none_or(|section| section == name);
    let (mut rows, mut notes) = (Vec::new(), Vec::new());
    if is_run("calls") {
        rows.extend(calls::rows());
    }
    if is_run("events") {
        let (of_events, missing) = events::rows();
        rows.extend(of_events);
        notes.extend(missing);
    }
    if is_run("starts") {
        rows.extend(starts::rows()?);
    }
    let mut cells = if is_recorded { MANY } else { FEW };
    if let ([fewer @ .., most], true) = (cells, is_recorded && available_kib() < MANY_KIB) {
        notes.push(format!(
            "Not measured: {most} marks called by each of 1,000 threads: less than {MANY_KIB} KiB free."
        ));
        cells = fewer;
    }
    if is_run("cells") {
        if section.is_some() {
            // As many calls as the section before has made.
            calls::call_all_marks();
        }
        rows.extend(cells::rows(cells));
    }
    let snapshot = perfmark::snapshot();
    let unmeasured = snapshot.marks.iter().flat_map(|mark| &mark.values).map(|values| values.unmeasured).sum::<u64>();
    if unmeasured > 0 {
        let made: u64 = snapshot.marks.iter().map(|mark| mark.calls).sum();
        notes.push(format!("{unmeasured} values of {made} calls were not measured."));
    }
    let cpus = thread::available_parallelism().map_or(0, usize::from);
    let mut caption = format!(
        "{cpus} CPUs. If there are more threads, they take turns, and their CPU time is measured. Each mark is a\n\
         function with `#[perfmark(time)]`, unless the row names other events. A call's cost is the time that the mark\n\
         adds to a call of the same function unmarked. Where many functions are called in turn, unmarked calls wait for\n\
         mispredicted branches, and the work of a mark overlaps with that wait. Stack: perfmark's `tests/stack.rs`\n\
         limits a thread's first call of a mark to 4 KiB, and later calls to 1 KiB."
    );
    for note in &notes {
        _ = write!(caption, "\n\n{note}");
    }
    println!("{caption}\n\n{}", row::text(&rows));
    if is_recorded {
        let title = "How costs grow: `cargo bench -p benches --bench growth -- --record`";
        let body = format!("{}.\n\n{caption}\n\n{}", record::machine(), row::markdown(&rows));
        println!("recorded in {}", record::write(title, &body)?.display());
    }
    Ok(())
}

/// Memory that programs can still have, in KiB; 0 if the system does not report it.
fn available_kib() -> u64 {
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let value = memory.lines().find_map(|line| line.strip_prefix("MemAvailable:")?.trim().strip_suffix(" kB"));
    value.and_then(|kib| kib.parse().ok()).unwrap_or(0)
}
