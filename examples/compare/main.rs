//! Compares two implementations of the same function. The processor's counters show which is better and why.
//!
//! Run `cargo run --release --example compare`. Append `-- 4096` for 4096 rows and columns.
//!
//! The example sums a matrix by rows, in the order of memory, and by columns. Both do the same additions. If counters
//! are available, they show that the second waits for memory.

use std::env;
use std::hint::black_box;
use std::process::ExitCode;

use perfmark::{Mark, perfmark, snapshot};

struct Matrix {
    side: usize,
    cells: Vec<u64>,
}

#[perfmark(time, cycles, instructions, cache_references, cache_misses, branches, branch_misses)]
impl Matrix {
    fn sum_by_rows(&self) -> u64 {
        let mut sum: u64 = 0;
        for row in self.cells.chunks_exact(self.side) {
            for cell in row {
                sum = sum.wrapping_add(black_box(*cell));
            }
        }
        sum
    }

    fn sum_by_columns(&self) -> u64 {
        let mut sum: u64 = 0;
        for column in 0..self.side {
            for row in self.cells.chunks_exact(self.side) {
                sum = sum.wrapping_add(black_box(row[column]));
            }
        }
        sum
    }
}

/// The runs of each implementation. They alternate, so that other work on the machine affects both.
const RUNS: usize = 15;

fn main() -> ExitCode {
    let side = match env::args().nth(1).map(|side| side.parse()) {
        None => 2_048,
        Some(Ok(side @ 1..=16_384)) => side,
        Some(_) => {
            eprintln!("usage: compare [ROWS]\nROWS is a number from 1 to 16384");
            return ExitCode::FAILURE;
        }
    };
    let matrix = Matrix { side, cells: (0..(side * side) as u64).collect() };
    for _ in 0..RUNS {
        assert_eq!(matrix.sum_by_rows(), matrix.sum_by_columns());
    }
    print_comparison();
    ExitCode::SUCCESS
}

/// Prints each event's median of both implementations, and their ratio. perfmark prints the full table at exit.
fn print_comparison() {
    let snapshot = snapshot();
    let find = |name: &str| snapshot.marks.iter().find(|mark| mark.name == name);
    let (Some(rows), Some(columns)) = (find("sum_by_rows"), find("sum_by_columns")) else { return };
    println!("{:18}{:>14}{:>14}", "a call", "by rows", "by columns");
    for by_rows in &rows.values {
        let Some(by_columns) = columns.event(&by_rows.event) else { continue };
        if let (Some(one), Some(other)) = (by_rows.p50, by_columns.p50) {
            let times = if one > 0 { format!("{:8.2} times", other as f64 / one as f64) } else { String::new() };
            let event = if by_rows.event == "time" { "time in ns" } else { &by_rows.event };
            println!("{event:18}{one:14}{other:14}{times}");
        }
    }
    let ratio = |mark: &Mark| Some(mark.event("instructions")?.sum as f64 / mark.event("cycles")?.sum as f64);
    match (ratio(rows), ratio(columns)) {
        (Some(rows), Some(columns)) => println!("instructions per cycle: by rows {rows:.2}, by columns {columns:.2}"),
        _ => println!("the cause is unknown, because this machine's counters are not available (see below)"),
    }
}
