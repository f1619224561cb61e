//! Two implementations of the same: which is better here, and why, from the processor's own counters.
//!
//! `cargo run --release --example compare`; how many rows and columns: `… compare 4096`.
//!
//! A matrix is summed by rows, as it lies in memory, and by columns. Both do the same additions; where counters can be had, they tell that the second
//! waits for memory instead of computing.

use std::env;
use std::hint::black_box;
use std::process::ExitCode;

use perfmark::{Values, perfmark, snapshot};

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

/// Runs of each, in turns, so that whatever else the machine does meets both.
const RUNS: usize = 15;

fn main() -> ExitCode {
    let side = match env::args().nth(1).map(|side| side.parse()) {
        None => 2_048,
        Some(Ok(side @ 1..=16_384)) => side,
        Some(_) => {
            eprintln!("usage: compare [ROWS], from 1 to 16384");
            return ExitCode::FAILURE;
        }
    };
    let matrix = Matrix { side, cells: (0..(side * side) as u64).collect() };
    for _ in 0..RUNS {
        assert_eq!(matrix.sum_by_rows(), matrix.sum_by_columns());
    }
    tell();
    ExitCode::SUCCESS
}

/// The middle call of each, event by event, and how many times more the one is than the other. The whole table follows at the program's end.
fn tell() {
    let snapshot = snapshot();
    let values = |name: &str| {
        let mark = snapshot.marks.iter().find(|mark| mark.name == name);
        mark.map(|mark| &*mark.values).unwrap_or_default()
    };
    let (rows, columns) = (values("sum_by_rows"), values("sum_by_columns"));
    println!("{:18}{:>14}{:>14}", "a call", "by rows", "by columns");
    for by_rows in rows {
        let Some(by_columns) = columns.iter().find(|other| other.event == by_rows.event) else { continue };
        if let (Some(one), Some(other)) = (by_rows.p50, by_columns.p50) {
            let times = if one > 0 { format!("{:8.2} times", other as f64 / one as f64) } else { String::new() };
            let event = if by_rows.event == "time" { "time in ns" } else { &by_rows.event };
            println!("{event:18}{one:14}{other:14}{times}");
        }
    }
    let ratio = |values: &[Values]| {
        let sum = |event: &str| values.iter().find(|values| values.event == event).map(|values| values.sum as f64);
        sum("instructions").zip(sum("cycles")).map(|(instructions, cycles)| instructions / cycles)
    };
    match (ratio(rows), ratio(columns)) {
        (Some(rows), Some(columns)) => println!("by rows {rows:.2} instructions in a cycle, by columns {columns:.2}"),
        _ => println!("why, only a processor's counters tell: there are none here (see below)"),
    }
}
