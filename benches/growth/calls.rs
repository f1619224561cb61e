//! The cost of a call with more threads, with more marks, and at a greater depth.

use std::hint::black_box;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use benches::clocks::cpu_time;
use benches::row::{Case, Row, in_turn};
use benches::table::median;
use perfmark::perfmark;
use perfmark::text::exact;

use crate::marks::{ALL, Function};

const ROUNDS: usize = 51;
/// Calls per sample, over all functions.
const CALLS: usize = 100_000;
/// Calls per thread. They take long enough for preemption if there are more threads than CPUs.
const CALLS_OF_THREAD: usize = 100_000;
/// Fewer rounds, because threads share the CPUs and take longer.
const ROUNDS_OF_THREADS: usize = 21;

macro_rules! pair {
    ($(#[$mark:meta])? $name:ident) => {
        $(#[$mark])?
        #[inline(never)]
        fn $name(depth: usize) {
            if depth > 1 {
                $name(depth - 1);
            }
            // Keeps the function on the stack during its call.
            black_box(depth);
        }
    };
}
pair! { #[perfmark(time)] marked }
pair! { unmarked }

/// The duration of the work in nanoseconds.
pub(crate) fn nanoseconds(work: impl FnOnce()) -> f64 {
    let began = Instant::now();
    work();
    began.elapsed().as_nanos() as f64
}

/// The nanoseconds that a mark adds to each of this many calls.
pub(crate) fn cost(calls: usize, marked: impl FnOnce(), unmarked: impl FnOnce()) -> f64 {
    let unmarked = nanoseconds(unmarked);
    (nanoseconds(marked) - unmarked) / calls as f64
}

/// A case for each size.
fn sizes<const N: usize>(variable: &str, sizes: [usize; N], sample: fn(usize) -> f64) -> Vec<Case<'static>> {
    let case = |size| -> Case<'static> {
        (format!("a call, {variable}: {}", exact(size as u64)), Box::new(move || sample(size)))
    };
    sizes.map(case).into()
}

/// The nanoseconds of CPU time that a mark adds to a call, as the median of this many threads.
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
        threads.into_iter().map(|thread| thread.join().expect("the thread does not panic")).collect()
    });
    median(&costs)
}

/// Calls these functions in turn.
fn call_in_turn(functions: &[Function]) {
    for _ in 0..CALLS / functions.len() {
        for function in functions {
            function(black_box(1));
        }
    }
}

/// Calls all marks about as often as the rows of this module do.
pub(crate) fn call_all_marks() {
    (0..ROUNDS).for_each(|_| call_in_turn(&ALL.marked));
}

/// The nanoseconds that a mark adds to a call if this many marks are called in turn.
fn with_marks(marks: usize) -> f64 {
    cost(CALLS, || call_in_turn(&ALL.marked[..marks]), || call_in_turn(&ALL.unmarked[..marks]))
}

/// The nanoseconds of a call of the same functions without marks.
fn without_marks(functions: usize) -> f64 {
    nanoseconds(|| call_in_turn(&ALL.unmarked[..functions])) / CALLS as f64
}

/// The nanoseconds that a mark adds to a call if calls are nested this deeply.
fn deep(depth: usize, [marked, unmarked]: [Function; 2]) -> f64 {
    let calls = |function: Function| (0..CALLS / depth).for_each(|_| function(black_box(depth)));
    cost(CALLS, || calls(marked), || calls(unmarked))
}

pub(crate) fn rows() -> Vec<Row> {
    // Makes this thread's first calls, which other rows measure.
    ALL.marked.iter().for_each(|function| function(1));
    let threads = sizes("threads at once", [1, 2, 4, 8, 16, 32, 64], on_threads);
    let counts = [1, 10, 100, 1_000, 10_000];
    let marks = sizes("marks called in turn", counts, with_marks);
    // These calls also wait for mispredicted branches. The work of a mark overlaps with that wait.
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
