//! The cost of a marked call in pairs of tick reads, compared with lower bounds and with alternatives to perfmark.
//!
//! ```sh
//! cargo bench -p benches --bench call                                # lower bounds and marks
//! cargo bench -p benches --bench call --features peers               # also peers, which only this feature builds
//! cargo bench -p benches --bench call --features peers -- --record   # writes the complete table to records/
//! cargo bench -p benches --bench call -- self nested                 # only rows with these parts of names
//! ```
//!
//! A mark's cost is the time of a loop over calls of a marked function, minus that of the same loop over the same
//! function unmarked, divided by the number of calls.
//!
//! The contenders take turns with short batches, first on one thread, then on two at once. Each round gives a ratio to
//! the bare pair of that round. The table has the ratios' medians and quartiles, because other load on the machine
//! affects only few rounds. If the machine is always busy, the first quartile is closest to the value of an idle
//! machine: other work on the same core hardly affects tick reads, but it affects the rest of a mark.

use std::path::PathBuf;
use std::process::ExitCode;
use std::{env, io};

use perfmark_rdpmc::clock::Clock;

/// A function with these attributes that passes its argument through another function and is never inlined.
macro_rules! function {
    ($(#[$($mark:tt)*])* fn $name:ident => $inner:path) => {
        $(#[$($mark)*])*
        #[inline(never)]
        fn $name(n: u64) -> u64 {
            std::hint::black_box($inner(n))
        }
    };
}

mod pinned;
mod batch;
mod contender;
mod floors;
mod marks;
#[cfg(feature = "peers")]
mod peers;

use benches::record;
use benches::table::{self, cell};

use contender::Contender;

/// These rounds take half a minute with peers, and a few seconds without.
const ROUNDS: usize = if cfg!(feature = "peers") { 201 } else { 1001 };
/// Slow contenders take part in one of this many rounds.
const SLOW: usize = 5;

/// One contender's samples. Those that are not a number do not count.
struct Row {
    name: &'static str,
    /// Costs on one thread, in pairs of tick reads.
    alone: Vec<f64>,
    /// Costs on each of two threads, in pairs of tick reads on the same thread and in the same round.
    both: Vec<f64>,
    /// Costs on two threads, relative to those on one.
    growth: Vec<f64>,
}

fn lines(rows: &[Row]) -> Vec<[String; 4]> {
    let head = ["", "1 thread", "2 threads at once", "2 threads to 1"].map(str::to_owned);
    let cells = |row: &Row| [row.name.to_owned(), cell(&row.alone, 2), cell(&row.both, 2), cell(&row.growth, 2)];
    [head].into_iter().chain(rows.iter().map(cells)).collect()
}

fn contenders() -> Vec<Contender> {
    let mut all = floors::contenders();
    all.extend(marks::contenders());
    #[cfg(feature = "peers")]
    all.extend(peers::contenders());
    all
}

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> io::Result<ExitCode> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if let Some((name, threads)) = contender::requested(&arguments) {
        contender::answer(&contenders(), name, threads);
        return Ok(ExitCode::SUCCESS);
    }
    #[cfg(feature = "peers")]
    peers::set_environment();
    let mut contenders = contenders();
    contenders.retain(|contender| match &contender.absent {
        Some(error) => {
            println!("not measured: {}: {error}", contender.name);
            false
        }
        None => true,
    });
    // Parts of names select rows.
    let parts: Vec<&String> = arguments.iter().filter(|argument| !argument.starts_with("--")).collect();
    let is_selected = |name: &str| parts.is_empty() || parts.iter().any(|&part| name.contains(part));
    contenders.retain(|contender| contender.name == floors::BARE || is_selected(contender.name));
    let clock = Clock::start();
    let (rows, pair) = compare(&contenders)?;
    let caption = format!(
        "A mark's cost in pairs of tick reads of {:.1} ns: medians (quartiles) of {ROUNDS} interleaved rounds.",
        pair * clock.nanoseconds_per_tick()
    );
    let lines = lines(&rows);
    println!("{caption}\n\n{}", table::text(&lines));
    if parts.is_empty() && arguments.iter().any(|argument| argument == "--record") {
        println!("recorded in {}", record(&caption, &lines)?.display());
    }
    Ok(if is_complete(&contenders) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The table's rows, and the ticks of a bare pair.
fn compare(contenders: &[Contender]) -> io::Result<(Vec<Row>, f64)> {
    let mut rows: Vec<Row> = contenders
        .iter()
        .map(|contender| Row { name: contender.name, alone: Vec::new(), both: Vec::new(), growth: Vec::new() })
        .collect();
    let mut pairs = Vec::with_capacity(ROUNDS);
    for round in 0..ROUNDS {
        // The first contender is the bare pair.
        let (mut pair, mut pair_of_both) = (1.0, vec![1.0; 2]);
        for (at, (contender, row)) in contenders.iter().zip(&mut rows).enumerate() {
            if contender.is_slow() && round % SLOW != 0 {
                continue;
            }
            let (alone, both) = (contender.batch(1)?[0], contender.batch(2)?);
            if at == 0 {
                (pair, pair_of_both) = (alone, both.clone());
                pairs.push(pair);
            }
            row.alone.push(alone / pair);
            row.both.extend(both.iter().zip(&pair_of_both).map(|(cost, pair)| cost / pair));
            row.growth.extend(both.iter().map(|cost| cost / alone));
        }
    }
    Ok((rows, table::median(&pairs)))
}

fn record(caption: &str, lines: &[[String; 4]]) -> io::Result<PathBuf> {
    let features = if cfg!(feature = "peers") { " --features peers" } else { "" };
    let title = format!("A marked call: `cargo bench -p benches --bench call{features} -- --record`");
    record::write("call", &title, &format!("{caption}\n\n{}{}", table::markdown(lines), peers_versions()))
}

#[cfg(feature = "peers")]
fn peers_versions() -> String {
    format!("\n{}.\n", record::versions(&peers::CRATES))
}

#[cfg(not(feature = "peers"))]
fn peers_versions() -> String {
    String::new()
}

/// Whether each contender recorded its calls. Prints those that did not.
fn is_complete(contenders: &[Contender]) -> bool {
    let mut complete = true;
    for contender in contenders {
        if let Some((recorded, made)) = contender.case.mismatch() {
            eprintln!("{} recorded {recorded} of {made} calls", contender.name);
            complete = false;
        }
    }
    complete
}
