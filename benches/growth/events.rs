//! The cost of a call with more events: events that user space can read, and events that require a system call.

use std::hint::black_box;
use std::thread;

use benches::row::{Case, Row, in_turn};
use perfmark::{Read, perfmark, snapshot};

use crate::calls::cost;
use crate::marks::Function;

const ROUNDS: usize = 31;
const CALLS: usize = 1_000;

/// A function for each set of events. Each has one event more than the previous one.
macro_rules! functions {
    ($list:ident: [$($so_far:ident),*]) => {};
    ($list:ident: [$($so_far:ident),*] $event:ident $($more:ident)*) => {
        $list.push({
            #[perfmark($($so_far,)* $event)]
            #[inline(never)]
            fn marked(n: usize) {
                black_box(n);
            }
            (stringify!($event), marked as Function)
        });
        functions! { $list: [$($so_far,)* $event] $($more)* }
    };
}

#[inline(never)]
fn unmarked(n: usize) {
    black_box(n);
}

/// The nanoseconds that a mark adds to a call on a thread without other marks, whose events would add to the cost.
fn alone(marked: Function) -> f64 {
    let calls = |function: Function| (0..CALLS).for_each(|_| function(black_box(1)));
    let work = || {
        marked(1);
        cost(CALLS, || calls(marked), || calls(unmarked))
    };
    thread::scope(|scope| scope.spawn(work).join().expect("the thread does not panic"))
}

/// The rows of the sets whose events this machine has and reads in this way. Adds a note for each missing event.
fn rows_of(functions: &[(&'static str, Function)], read: Read, missing: &mut Vec<String>) -> Vec<Row> {
    let mut cases: Vec<Case<'_>> = Vec::new();
    for &(event, function) in functions {
        thread::scope(|scope| _ = scope.spawn(move || function(1)));
        let events = snapshot().events;
        let found = events.iter().find(|known| known.name.replace('-', "_") == event);
        match found {
            Some(known) if known.read == read || known.read == Read::Ticks => {
                let name = match (cases.len(), read) {
                    (0, _) => "a call, events: `time` alone".into(),
                    (more, Read::Syscall) => format!("a call, events: `time` and {more} by system calls"),
                    (more, _) => format!("a call, events: `time` and {more} read in user space"),
                };
                cases.push((name, Box::new(move || alone(function))));
            }
            known => {
                let reason = known.and_then(|known| known.reason.clone()).unwrap_or_else(|| "unknown".into());
                missing.push(format!("Not measured: {event} and the sets that include it:\n{reason}"));
                break;
            }
        }
    }
    // The only case would be `time`, which every machine has. There would be nothing to compare.
    if cases.len() > 1 { in_turn(ROUNDS, "ns", cases) } else { Vec::new() }
}

/// The rows, and notes about missing events.
pub(crate) fn rows() -> (Vec<Row>, Vec<String>) {
    let (mut in_user_space, mut by_kernel, mut missing) = (Vec::new(), Vec::new(), Vec::new());
    functions! {
        in_user_space: [] time instructions cycles branches branch_misses cache_references cache_misses ref_cycles
    }
    functions! {
        by_kernel: []
        time page_faults minor_faults major_faults task_clock cpu_clock alignment_faults emulation_faults
    }
    let mut rows = rows_of(&in_user_space, Read::User, &mut missing);
    rows.extend(rows_of(&by_kernel, Read::Syscall, &mut missing));
    (rows, missing)
}
