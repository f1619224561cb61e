//! Counts events over a loop of known length. To run it: `cargo run --release -p perfmark-rdpmc --example count --
//! [--iterations N] [--regions N] [EVENT…]`.
//!
//! Events are in perf's grammar: `cycles`, `L1-dcache-load-misses`, `cpu/event=0xc0/`, `page-faults:u`,
//! `syscalls:sys_enter_read`. For each event that cannot be counted, the reason is printed.

use std::process::ExitCode;

use perfmark_rdpmc::{Attr, Counter, Delta, Event, Region, known_loop};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1).peekable();
    let (mut iterations, mut regions) = (1_000_000, 1_000);
    while let Some(option) = arguments.next_if(|argument| argument.starts_with("--")) {
        let value = arguments.next().and_then(|value| value.parse().ok()).filter(|&value| value > 0);
        match (option.as_str(), value) {
            ("--iterations", Some(given)) => iterations = given,
            ("--regions", Some(given)) => regions = given,
            _ => {
                eprintln!("count: {option}: expected --iterations NUMBER or --regions NUMBER");
                return ExitCode::from(2);
            }
        }
    }
    let mut events: Vec<String> = arguments.collect();
    if events.is_empty() {
        events = ["instructions", "cycles", "branch-misses", "page-faults", "task-clock"].map(String::from).to_vec();
    }
    let mut status = ExitCode::SUCCESS;
    for event in events {
        match event.parse::<Event>().and_then(|event| Counter::open(&Attr::new(event))) {
            Ok(counter) => count(&counter, iterations, regions),
            Err(why) => {
                println!("{why}");
                status = ExitCode::FAILURE;
            }
        }
    }
    status
}

/// Counts the loop in parts, each in its own region.
fn count(counter: &Counter, iterations: u64, regions: u64) {
    let (mut sum, mut scaled, mut unmeasured, mut length) = (0_u64, 0, 0, 0);
    let mut region = Region::default();
    for _ in 0..regions {
        counter.begin(&mut region);
        length += known_loop(iterations / regions);
        match counter.end(&region) {
            Delta::Exact(value) => sum += value,
            Delta::Scaled { estimate, .. } => {
                sum += estimate;
                scaled += 1;
            }
            Delta::Unmeasured => unmeasured += 1,
        }
    }
    let how = match counter.user_reads() {
        Ok(()) => "read in user space".into(),
        Err(why) => format!("read by read(2): {why}"),
    };
    println!("{sum} {} in {length} instructions; {how}", counter.event());
    if scaled + unmeasured > 0 {
        println!("  {regions} regions: {scaled} scaled, {unmeasured} unmeasured");
    }
}
