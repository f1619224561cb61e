//! Calls of every kind: recursive, left by a panic, skipped by `every`, async, and none.

use std::env;
use std::fs::{self, File};
use std::panic::catch_unwind;
use std::process::Command;
use std::sync::Barrier;
use std::thread::{self, ScopedJoinHandle};

use perfmark::{Budget, Sampling, perfmark};

use crate::loops::{about, spin_seven, spin_three};
use crate::passed_alone;
use crate::sampled::{sampled, until_sampled, until_samples_in_marks, wait_until_sampled};

const POINTS: f64 = 2.0;

fn sampling() -> Sampling {
    Sampling::new().frequency(4_000)
}

#[perfmark(time)]
#[inline(never)]
fn recursive_three(depth: u64, turns: u64) {
    if depth > 0 {
        recursive_three(depth - 1, turns);
    }
    spin_three(turns);
}

#[perfmark(time)]
#[inline(never)]
fn recursive_seven(depth: u64, turns: u64) {
    spin_seven(turns);
    if depth > 0 {
        recursive_seven(depth - 1, turns);
        recursive_three(0, turns);
    }
}

#[test]
fn samples_of_recursive_calls_belong_to_their_mark() {
    if passed_alone() {
        return;
    }
    let work = || {
        wait_until_sampled();
        for _ in 0..2_000 {
            let turns = about(125);
            recursive_three(5, turns);
            recursive_seven(9, turns);
            (0..4).for_each(|_| recursive_seven(0, turns));
            spin_three(turns);
        }
    };
    // 6 and 9 calls of the one, 14 of the other; one loop outside of marks.
    let Some(sampled) = sampled(sampling(), work) else { return };
    let [[three, no_seven], [no_three, seven]] =
        ["recursive_three", "recursive_seven"].map(|mark| sampled.in_loops(Some(mark)));
    assert_eq!((no_seven, no_three), (0, 0));
    let [outside, _] = sampled.in_loops(None);
    let all = (three + seven + outside) as f64;
    println!("{three} {seven} {outside}, {} lost", sampled.samples().lost);
    assert!(three > 0 && seven > 0);
    if sampled.samples().lost > 0 {
        // The remaining samples are biased.
        return;
    }
    for (samples, truth) in [(three, 45.0), (seven, 98.0), (outside, 3.0)] {
        let (share, truth) = (samples as f64 / all, truth / 146.0);
        let error = (truth * (1.0 - truth) / all).sqrt();
        assert!((share - truth).abs() <= (POINTS / 100.0_f64).max(5.0 * error), "{share} {truth}");
    }
}

#[perfmark(time)]
#[inline(never)]
fn panicking_three(turns: u64) {
    spin_three(turns);
    std::panic::resume_unwind(Box::new(()));
}

#[perfmark(time)]
#[inline(never)]
fn catching_seven(turns: u64) {
    assert!(catch_unwind(|| panicking_three(turns)).is_err());
    spin_seven(turns);
}

#[test]
fn samples_of_calls_that_unwind_belong_to_their_mark() {
    if passed_alone() {
        return;
    }
    let work = || {
        wait_until_sampled();
        (0..1_500).for_each(|_| catching_seven(about(1_250)));
    };
    if let Some(sampled) = sampled(sampling(), work) {
        sampled.check(["panicking_three", "catching_seven"], POINTS);
    }
}

#[perfmark(time, every = 16)]
#[inline(never)]
fn skipped_three(times: u64) {
    spin_three(times);
}

#[perfmark(time)]
#[inline(never)]
fn around_seven(times: u64) {
    skipped_three(times);
    spin_seven(times);
}

#[test]
fn samples_of_skipped_calls_belong_to_their_mark() {
    const CALLS: u64 = 15_000;
    if passed_alone() {
        return;
    }
    let work = || {
        wait_until_sampled();
        (0..CALLS).for_each(|_| around_seven(about(42)));
    };
    if let Some(sampled) = sampled(sampling(), work) {
        sampled.check(["skipped_three", "around_seven"], POINTS);
        assert_eq!(sampled.0.marks[sampled.mark("skipped_three")].calls, CALLS);
        assert_eq!(!sampled.0.call_graph.is_empty(), env::var_os("PERFMARK_CALL_GRAPH").is_some_and(|set| set == "on"));
    }
}

/// Among them are calls that are measured before a burst, but not recorded.
#[test]
fn samples_of_skipped_calls_belong_to_their_mark_in_a_call_graph() {
    if passed_alone() {
        return;
    }
    let test = "calls::samples_of_skipped_calls_belong_to_their_mark";
    let mut program = Command::new(env::current_exe().expect("its path"));
    let run = program.args(["--exact", test, "--nocapture"]).env("PERFMARK_CALL_GRAPH", "on").output().expect("runs");
    let output = [run.stdout, run.stderr].map(|output| String::from_utf8_lossy(&output).into_owned());
    assert!(run.status.success() && output[0].contains("1 passed"), "{}", output.concat());
}

#[perfmark(time)]
#[inline(never)]
fn read_inside(work: impl Fn()) {
    work();
}

#[perfmark(time, every = 1_000_000)]
#[inline(never)]
fn read_inside_skipped(work: impl Fn()) {
    work();
}

#[test]
fn samples_of_a_thread_without_open_calls_are_outside_of_marks_at_once() {
    const SKIPPED: usize = 50;
    if passed_alone() {
        return;
    }
    let barrier = Barrier::new(2);
    // Waits until the other thread has read all samples.
    let is_read = || [barrier.wait(), barrier.wait()];
    let in_three = |turns| {
        spin_three(turns);
        is_read();
    };
    let worker = || {
        wait_until_sampled();
        read_inside(|| ());
        spin_seven(500_000);
        is_read();
        read_inside(|| in_three(500_000));
        spin_seven(500_000);
        is_read();
        (0..SKIPPED).for_each(|_| read_inside_skipped(|| in_three(20_000)));
    };
    let read = || {
        barrier.wait();
        let samples = perfmark::snapshot().samples;
        barrier.wait();
        samples.iter().map(|samples| samples.in_open_calls).sum::<u64>()
    };
    let mut counts = [0; 3];
    let work = || {
        thread::scope(|scope| {
            let worker = scope.spawn(worker);
            counts = [(); 3].map(|()| read());
            (0..SKIPPED).for_each(|_| _ = read());
            worker.join().expect("no panic");
        });
    };
    let Some(sampled) = sampled(sampling(), work) else { return };
    let [[in_call, _], [skipped, _]] = ["read_inside", "read_inside_skipped"].map(|mark| sampled.in_loops(Some(mark)));
    let [wrong, outside] = sampled.in_loops(None);
    println!("{outside} samples outside, {in_call} and {skipped} in calls, {counts:?} in open calls");
    assert!(outside > 0 && in_call > 0 && skipped > 0 && counts[1] > 0);
    assert_eq!((counts[0], counts[2], wrong), (0, 0, 0), "no call was open, and calls were");
}

#[perfmark(time)]
#[inline(never)]
fn budgeted_three(times: u64) {
    spin_three(times);
}

#[perfmark(time)]
#[inline(never)]
fn budgeted_seven(times: u64) {
    budgeted_three(times);
    spin_seven(times);
}

/// Ends the budget when dropped.
struct Within;

impl Drop for Within {
    fn drop(&mut self) {
        perfmark::set_budget(None).expect("it takes no slot");
    }
}

#[test]
fn samples_of_calls_that_a_budget_skips_belong_to_their_mark() {
    const CALLS: u64 = 6_000;
    if passed_alone() {
        return;
    }
    let within = Within;
    perfmark::set_budget(Budget::percent(0.01).ok()).expect("there are slots");
    let work = || {
        wait_until_sampled();
        (0..CALLS).for_each(|_| budgeted_seven(about(400)));
    };
    let sampled = sampled(sampling(), work);
    drop(within);
    if let Some(sampled) = sampled {
        sampled.check(["budgeted_three", "budgeted_seven"], POINTS);
        let three = &sampled.0.marks[sampled.mark("budgeted_three")];
        assert!(three.calls == CALLS && three.values[0].measured < CALLS, "{three:?}");
    }
}

#[perfmark(time, every = 4)]
#[inline(never)]
fn inside_skipped(times: u64) {
    spin_three(times);
}

#[perfmark(time, every = 1_000_000)]
#[inline(never)]
fn skipped_between(times: u64) {
    inside_skipped(times);
}

#[perfmark(time)]
#[inline(never)]
fn around_both(times: u64) {
    skipped_between(times);
}

#[test]
fn a_self_with_estimates_inside_skipped_calls_is_an_estimate_while_sampled() {
    const CALLS: u64 = 400;
    if passed_alone() {
        return;
    }
    let work = || (0..CALLS).for_each(|_| around_both(10));
    if let Some(sampled) = sampled(sampling(), work) {
        let values = &sampled.0.marks[sampled.mark("around_both")].values[0];
        assert_eq!(values.measured, CALLS);
        // In and beside bursts, some calls are measured without being recorded, so nothing inside the call was skipped.
        assert!((CALLS / 2..=CALLS).contains(&values.estimated), "{values:?}");
    }
}

#[perfmark(time)]
async fn async_three(turns: u64) {
    for _ in 0..3 {
        spin_three(turns / 3);
        tokio::task::yield_now().await;
    }
}

#[perfmark(time)]
async fn async_seven() {
    let turns = about(1_200);
    spin_seven(turns / 2);
    async_three(turns).await;
    spin_seven(turns / 2);
    tokio::task::yield_now().await;
}

#[test]
fn samples_of_async_calls_belong_to_their_mark_on_any_thread() {
    if passed_alone() {
        return;
    }
    let work = || {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(8).build().expect("threads");
        let run_tasks = || {
            runtime.block_on(async {
                let tasks: Vec<_> = (0..800).map(|_| tokio::spawn(async_seven())).collect();
                for task in tasks {
                    task.await.expect("no panic");
                }
            });
        };
        until_samples_in_marks(200, run_tasks);
    };
    if let Some(sampled) = sampled(sampling(), work) {
        sampled.check(["async_three", "async_seven"], POINTS);
    }
}

#[test]
fn threads_without_marks_are_sampled_outside_of_marks() {
    if passed_alone() {
        return;
    }
    let work = || {
        let thread = thread::spawn(|| {
            until_sampled(|| spin_three(100_000));
            spin_three(1_000_000);
        });
        thread.join().expect("no panic");
    };
    if let Some(sampled) = sampled(sampling(), work) {
        let [outside, _] = sampled.in_loops(None);
        println!("{outside} samples");
        assert!(outside > 0);
    }
}

#[perfmark(time)]
fn in_new_thread() {
    spin_seven(1_000);
}

/// The kernel's number of the calling thread.
fn thread_number() -> u32 {
    let link = fs::read_link("/proc/thread-self").expect("a thread");
    link.file_name().and_then(|name| name.to_str()?.parse().ok()).expect("a number")
}

#[test]
fn a_thread_with_the_number_of_an_ended_one_has_its_own_ring() {
    const LAST: &str = "/proc/sys/kernel/ns_last_pid";
    const MAY_CHANGE: &str = "PERFMARK_TEST_MAY_CHANGE_SYSCTLS";
    if passed_alone() {
        return;
    }
    // Numbers of processes that ended would soon be others', also in programs that do not expect it.
    if env::var_os(MAY_CHANGE).is_none() {
        return println!(
            "skipped: {MAY_CHANGE} is not set, which lets this test choose the machine's next thread number"
        );
    }
    if let Err(why) = File::options().write(true).open(LAST) {
        return println!("skipped: {LAST}, which chooses the number of the next thread: {why}");
    }
    let pair = || {
        let ended = thread::spawn(|| {
            until_sampled(|| spin_three(10_000));
            thread_number()
        });
        let ended = ended.join().expect("no panic");
        // Another process may take the number first.
        let is_next = || {
            fs::write(LAST, (ended - 1).to_string()).expect("root may");
            let next = thread::spawn(move || {
                let is_same = thread_number() == ended;
                if is_same {
                    until_sampled(in_new_thread);
                    (0..1_000).for_each(|_| in_new_thread());
                }
                is_same
            });
            next.join().expect("no panic")
        };
        (0..100).any(|_| is_next())
    };
    for _ in 0..5 {
        let Some(sampled) = sampled(sampling(), || while !pair() {}) else { return };
        let [wrong, right] = sampled.in_loops(Some("in_new_thread"));
        println!("{right} samples");
        assert!(wrong == 0 && right > 0, "{wrong} and {right}");
    }
}

#[perfmark(time)]
fn leaf() {}

/// Joins the thread, so that perfmark has removed its state. A scope waits only for the thread's function.
fn join(thread: ScopedJoinHandle<'_, ()>) {
    thread.join().expect("no panic");
}

#[perfmark(time)]
fn older_inner(steps: &Barrier) {
    // Sampling begins between these two.
    steps.wait();
    steps.wait();
    wait_until_sampled();
    leaf();
    spin_seven(1_000_000);
}

#[perfmark(time)]
fn older_outer(steps: &Barrier) {
    older_inner(steps);
    leaf();
    spin_three(1_000_000);
    steps.wait();
}

#[test]
fn samples_in_calls_that_began_before_sampling_are_in_no_mark_and_not_outside() {
    if passed_alone() {
        return;
    }
    let steps = Barrier::new(2);
    thread::scope(|scope| {
        let thread = scope.spawn(|| older_outer(&steps));
        steps.wait();
        let work = || {
            steps.wait();
            steps.wait();
        };
        // With settings of its own, so that no earlier samples wait for the end of their call.
        let sampled = sampled(Sampling::new().frequency(3_989), work);
        if sampled.is_none() {
            work();
        }
        join(thread);
        let Some(sampled) = sampled else { return };
        println!("{} samples", sampled.samples().unattributed);
        assert!(sampled.samples().unattributed > 0);
        for mark in [None, Some("older_inner"), Some("older_outer"), Some("leaf")] {
            assert_eq!(sampled.in_loops(mark), [0, 0], "{mark:?}");
        }
    });
}

#[test]
fn a_thread_of_an_earlier_sampling_is_sampled_without_calling_marks() {
    if passed_alone() {
        return;
    }
    let Some(_) = sampled(sampling(), || ()) else { return };
    let steps = Barrier::new(2);
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            until_sampled(|| around_seven(100));
            steps.wait();
            steps.wait();
            until_sampled(|| spin_three(100_000));
            spin_three(1_000_000);
            steps.wait();
        });
        let first = sampled(Sampling::new().frequency(2_999), || _ = steps.wait());
        let second = sampled(sampling(), || {
            steps.wait();
            steps.wait();
        });
        join(thread);
        if let (Some(_), Some(mut second)) = (first, second) {
            second.0.samples.retain(|samples| samples.frequency == Some(4_000));
            let [outside, _] = second.in_loops(None);
            println!("{outside} samples");
            assert!(outside > 0);
        }
    });
}

#[perfmark(time)]
fn begun_in_a_pause(steps: &Barrier) {
    steps.wait();
    steps.wait();
    wait_until_sampled();
    spin_seven(1_000_000);
}

#[perfmark(time)]
fn around_the_pause(steps: &Barrier) {
    until_sampled(|| around_seven(100));
    steps.wait();
    steps.wait();
    begun_in_a_pause(steps);
    leaf();
    spin_three(1_000_000);
    leaf();
    steps.wait();
}

#[test]
fn calls_that_began_in_a_pause_of_sampling_give_their_samples_to_no_other_call() {
    if passed_alone() {
        return;
    }
    let again = || Sampling::new().frequency(2_003);
    let Some(_) = sampled(again(), || ()) else { return };
    let steps = Barrier::new(2);
    thread::scope(|scope| {
        let mut thread = None;
        let first = sampled(again(), || {
            thread = Some(scope.spawn(|| around_the_pause(&steps)));
            steps.wait();
        });
        steps.wait();
        steps.wait();
        let second = sampled(again(), || {
            steps.wait();
            steps.wait();
        });
        thread.into_iter().for_each(join);
        if let (Some(_), Some(second)) = (first, second) {
            let [_, wrong] = second.in_loops(Some("around_the_pause"));
            let outside = second.in_loops(None);
            println!("{} samples", second.samples().unattributed);
            assert_eq!((wrong, outside), (0, [0, 0]));
            assert!(second.samples().unattributed > 0);
        }
    });
}
