//! A call's cost on more threads, with more marks, and at a greater depth.

use std::hint::black_box;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use benches::clocks::cpu_time;
use benches::table::median;
use perfmark::perfmark;

use crate::marks::{ALL, Function};
use crate::row::{Case, Row, grouped, in_turn};

const ROUNDS: usize = 51;
/// Calls of a sample, of all functions together.
const CALLS: usize = 100_000;
/// Calls of a thread: so many that it is preempted while it makes them, if there are more threads than CPUs.
const CALLS_OF_THREAD: usize = 100_000;
/// Threads take longer, as all of them share the CPUs.
const ROUNDS_OF_THREADS: usize = 21;

macro_rules! pair {
    ($(#[$mark:meta])? $name:ident) => {
        $(#[$mark])?
        #[inline(never)]
        fn $name(depth: usize) {
            if depth > 1 {
                $name(depth - 1);
            }
            // So that it is on the stack while it calls.
            black_box(depth);
        }
    };
}
pair! { #[perfmark(time)] marked }
pair! { unmarked }

/// Nanoseconds that something takes.
pub(crate) fn nanoseconds(work: impl FnOnce()) -> f64 {
    let began = Instant::now();
    work();
    began.elapsed().as_nanos() as f64
}

/// Nanoseconds that a mark adds to each of so many calls, made with marks and without.
pub(crate) fn cost(calls: usize, marked: impl FnOnce(), unmarked: impl FnOnce()) -> f64 {
    let unmarked = nanoseconds(unmarked);
    (nanoseconds(marked) - unmarked) / calls as f64
}

/// A case for each size.
fn sizes<const N: usize>(what: &str, sizes: [usize; N], sample: fn(usize) -> f64) -> Vec<Case<'static>> {
    let case =
        |size| -> Case<'static> { (format!("a call, {what}: {}", grouped(size)), Box::new(move || sample(size))) };
    sizes.map(case).into()
}

/// The median of what a mark adds to a call on each of so many threads, in nanoseconds of the thread's CPU time.
fn on_threads(threads: usize) -> f64 {
    let together = Barrier::new(threads);
    let calls = |function: Function| {
        together.wait();
        let began = cpu_time();
        (0..CALLS_OF_THREAD).for_each(|_| function(black_box(1)));
        cpu_time().saturating_sub(began).as_nanos() as f64 / CALLS_OF_THREAD as f64
    };
    let work = || {
        marked(1);
        let unmarked = calls(unmarked);
        calls(marked) - unmarked
    };
    let costs: Vec<f64> = thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join().expect("it does not panic")).collect()
    });
    median(&costs)
}

/// Calls so many functions in turn.
fn call_in_turn(functions: &[Function]) {
    for _ in 0..CALLS / functions.len() {
        for function in functions {
            function(black_box(1));
        }
    }
}

/// Calls all marks about as often as the rows here do.
pub(crate) fn call_all_marks() {
    (0..ROUNDS).for_each(|_| call_in_turn(&ALL.marked));
}

/// What a mark adds to a call, where so many marks are called in turn.
fn with_marks(marks: usize) -> f64 {
    cost(CALLS, || call_in_turn(&ALL.marked[..marks]), || call_in_turn(&ALL.unmarked[..marks]))
}

/// What a call of the same functions takes without marks.
fn without_marks(functions: usize) -> f64 {
    nanoseconds(|| call_in_turn(&ALL.unmarked[..functions])) / CALLS as f64
}

/// What a mark adds to a call, where so many are inside one another.
fn deep(depth: usize, [marked, unmarked]: [Function; 2]) -> f64 {
    let calls = |function: Function| (0..CALLS / depth).for_each(|_| function(black_box(depth)));
    cost(CALLS, || calls(marked), || calls(unmarked))
}

pub(crate) fn rows() -> Vec<Row> {
    // All are called before: this thread's first calls are rows of their own.
    ALL.marked.iter().for_each(|function| function(1));
    let threads = sizes("threads at once", [1, 2, 4, 8, 16, 32, 64], on_threads);
    let counts = [1, 10, 100, 1_000, 10_000];
    let marks = sizes("marks called in turn", counts, with_marks);
    // A part of it is the wait for mispredicted branches, with which the work of a mark overlaps.
    let unmarked_functions = sizes("unmarked functions called in turn", counts, without_marks);
    let depths = [1, 10, 100, 1_000];
    let recursion = sizes("depth of recursion", depths, |depth| deep(depth, [marked, unmarked]));
    let nested = sizes("depth of different marks", depths, |depth| deep(depth, [ALL.marked[0], ALL.unmarked[0]]));
    let mut rows = in_turn(ROUNDS_OF_THREADS, "ns", threads);
    rows.extend(
        [marks, unmarked_functions, recursion, nested].into_iter().flat_map(|cases| in_turn(ROUNDS, "ns", cases)),
    );
    rows
}
