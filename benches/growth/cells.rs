//! Snapshots and reports of 10,000 marks that many threads have called.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use benches::process::private_memory;
use benches::row::{Goal, Row};
use perfmark::text::exact;
use perfmark::{Format, Report, snapshot};

use crate::calls::nanoseconds;
use crate::marks::ALL;

const THREADS: usize = 1_000;
/// The number of samples of a row, unless they take longer than [`TIME_LIMIT`].
const SAMPLES: usize = 5;
const TIME_LIMIT: Duration = Duration::from_secs(2);

/// A row in milliseconds.
fn row(name: String, work: impl Fn()) -> Row {
    let mut samples = Vec::with_capacity(SAMPLES);
    let began = Instant::now();
    while samples.len() < SAMPLES && (samples.is_empty() || began.elapsed() < TIME_LIMIT) {
        samples.push(nanoseconds(&work) / 1e6);
    }
    Row::new(name, "ms", samples)
}

fn snapshot_and_reports(content: &str) -> Vec<Row> {
    let taken = snapshot();
    let report = |format| drop(Report::new(&taken).format(format).to_string());
    vec![
        row(format!("snapshot of {content}"), || drop(snapshot())).goal(Goal::AtMost(50.0)),
        row("its report as text".into(), || report(Format::Table)).goal(Goal::AtMost(200.0)),
        row("its report as JSON".into(), || report(Format::Json)).goal(Goal::AtMost(200.0)),
    ]
}

/// The rows for each number of marks that each thread has called, in ascending order. This thread must have called all
/// marks before.
pub(crate) fn rows(marks_of_thread: &[usize]) -> Vec<Row> {
    let mut rows = snapshot_and_reports("10,000 marks, all called by 1 thread: 10,000 cells");
    let together = Barrier::new(THREADS + 1);
    // Each step includes the marks of the previous one. With 10 marks per thread, each mark is called by one thread.
    let first_of = |thread: usize| thread * ALL.marked.len() / THREADS;
    let work = |thread: usize| {
        for &marks in marks_of_thread {
            together.wait();
            ALL.marked.iter().cycle().skip(first_of(thread)).take(marks).for_each(|function| function(1));
            together.wait();
        }
        // All threads live until the last snapshot.
        together.wait();
    };
    let end = thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || work(thread))).collect();
        for marks in marks_of_thread {
            let before = private_memory();
            let began = Instant::now();
            together.wait();
            together.wait();
            let cells = THREADS * marks;
            let built = began.elapsed().as_secs_f64();
            let (marks, cells) = (exact(*marks as u64), exact(cells as u64));
            println!("1,000 threads have called {marks} marks each: {cells} cells, in {built:.1} s");
            let content = format!("10,000 marks, {marks} called by each of 1,000 live threads: {cells} cells");
            rows.extend(snapshot_and_reports(&content));
            if let Some((before, after)) = before.zip(private_memory()) {
                let mib = after.saturating_sub(before) as f64 / 1024.0;
                rows.push(Row::new("private memory that these calls added".into(), "MiB", vec![mib]));
            }
        }
        let began = Instant::now();
        together.wait();
        for thread in threads {
            thread.join().expect("the thread does not panic");
        }
        began.elapsed()
    });
    rows.push(Row::new(
        "end of these 1,000 threads, until they are joined".into(),
        "ms",
        vec![end.as_secs_f64() * 1e3],
    ));
    rows
}
