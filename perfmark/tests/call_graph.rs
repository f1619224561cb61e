//! `PERFMARK_CALL_GRAPH=on` records the call graph.
//!
//! Each scenario is this program, started again with `PERFMARK_TEST_SCENARIO`.

#[path = "../../perfmark-rdpmc/tests/support/mod.rs"]
mod support;
mod program;

use std::collections::BTreeMap;
use std::env;
use std::future::Future;
use std::hint::black_box;
use std::mem;
use std::panic::catch_unwind;
use std::pin::{Pin, pin};
use std::process::ExitCode;
use std::task::{Context, Poll, Waker};
use std::thread;

use perfmark::{perfmark, region};
use program::{SCENARIO, mark, text};
use serde_json::Value;

fn main() -> ExitCode {
    if let Ok(scenario) = env::var(SCENARIO) {
        run_scenario(&scenario);
        return ExitCode::SUCCESS;
    }
    let tests: &[(&str, fn())] = &[
        ("a_callee_has_one_node_per_caller", a_callee_has_one_node_per_caller),
        ("nodes_of_ended_threads_are_merged_with_those_of_others", threads),
        ("forgotten_and_unwound_calls_do_not_misplace_later_ones", forgotten_and_unwound_calls),
        ("a_future_is_a_child_of_its_poller", futures),
        ("nodes_are_bounded_and_calls_without_one_are_counted", bounded),
        ("a_reset_starts_a_new_graph", reset),
        ("a_forked_child_has_a_graph_of_its_own", fork),
        ("no_graph_is_recorded_unless_asked_for", no_graph_is_recorded),
    ];
    let on_pmu: &[support::OnPmu] = &[("instructions_of_nodes_add_up_to_those_of_marks", instructions_add_up)];
    support::run(tests.iter().map(|&(name, test)| support::trial(name, test)).collect(), on_pmu)
}

#[perfmark(time, instructions)]
fn leaf(n: u64) -> u64 {
    (0..n).map(black_box).sum()
}

#[perfmark(time, instructions)]
fn caller() {
    black_box(leaf(100));
    black_box(leaf(200));
}

/// Has another set of events, and is a second caller of `leaf`.
#[perfmark(time)]
fn other() {
    black_box(leaf(50));
    caller();
}

#[perfmark(time)]
fn recursive(depth: u32) {
    if depth > 0 {
        recursive(depth - 1);
        leaf(1);
    }
}

#[perfmark(time)]
fn unwinds() {
    leaf(1);
    // `resume_unwind` does not run the panic hook, so nothing is printed.
    std::panic::resume_unwind(Box::new(()));
}

#[perfmark(time)]
async fn waits(times: u32) {
    leaf(1);
    for _ in 0..times {
        Later(false).await;
        leaf(1);
    }
}

/// Pending at its first poll, then ready.
struct Later(bool);

impl Future for Later {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if mem::replace(&mut self.0, true) { Poll::Ready(()) } else { Poll::Pending }
    }
}

#[perfmark(time)]
fn polls(future: Pin<&mut impl Future<Output = ()>>) -> bool {
    future.poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

/// Each region in the source is a mark. This makes one for each digit.
macro_rules! regions {
    ($($digit:literal)*) => {
        [$(|then: &dyn Fn()| region!($digit, time, { then() })),*]
    };
}

fn run_scenario(scenario: &str) {
    match scenario {
        "callers" => {
            leaf(10);
            (0..3).for_each(|_| caller());
            other();
            recursive(3);
        }
        "threads" => {
            for _ in 0..3 {
                thread::spawn(caller).join().expect("does not panic");
            }
            caller();
            // This thread still runs when the report is written.
            let (ready, is_ready) = std::sync::mpsc::channel();
            thread::spawn(move || {
                caller();
                ready.send(()).expect("main listens");
                loop {
                    thread::park();
                }
            });
            is_ready.recv().expect("it calls");
        }
        "lost" => {
            caller();
            mem::forget(region!("forgotten", time));
            leaf(1);
            // A forgotten call is noticed when a call below it ends. Only this one has a call below.
            let around = region!("around", time);
            mem::forget(region!("forgotten inside", time));
            leaf(1);
            drop(around);
            leaf(1);
            assert!(catch_unwind(unwinds).is_err());
            leaf(1);
        }
        "futures" => {
            let mut future = pin!(waits(1));
            assert!(!polls(future.as_mut()));
            // No marked call polls it the second time.
            assert!(future.poll(&mut Context::from_waker(Waker::noop())).is_ready());
        }
        "bounded" => {
            let digits = regions!["0" "1" "2" "3" "4" "5" "6" "7" "8" "9"];
            for n in 0..10_000_usize {
                let [one, two, three, four] = [n / 1000, n / 100 % 10, n / 10 % 10, n % 10].map(|digit| digits[digit]);
                one(&|| two(&|| three(&|| four(&|| ()))));
            }
            // Deeper than a thread's stack of frames.
            recursive(3_000);
        }
        "reset" => {
            caller();
            perfmark::reset();
            other();
        }
        "fork" => {
            caller();
            let around = region!("around", time);
            // SAFETY: the child only calls marks and exits.
            match unsafe { libc::fork() } {
                0 => {
                    leaf(1);
                    std::process::exit(0);
                }
                child => program::wait_for(child, 0),
            }
            drop(around);
        }
        _ => panic!("no scenario {scenario}"),
    }
}

/// The reports of a scenario. The program's own report is the last.
fn reports(scenario: &str, asks: bool) -> Vec<Value> {
    let variables =
        [("PERFMARK_FORMAT", "json"), ("PERFMARK_OUTPUT", "-"), ("PERFMARK_CALL_GRAPH", if asks { "on" } else { "" })];
    let output = program::scenario(scenario, &variables);
    program::assert_code(&output, 0);
    let reports = serde_json::Deserializer::from_str(text(&output.stdout)).into_iter();
    reports.collect::<Result<_, _>>().expect("JSON alone")
}

/// Calls by stack, which is a list of mark names.
type Calls = BTreeMap<String, u64>;

/// The stacks of the graph. Checks what holds for every graph.
fn stacks(report: &Value) -> Calls {
    let marks = report["marks"].as_array().expect("a list");
    let mut stacks: Vec<(String, u64)> = Vec::new();
    let mut sums: BTreeMap<(usize, &str), [i64; 4]> = BTreeMap::new();
    for node in report["call_graph"].as_array().expect("a list") {
        let index = usize::try_from(node["mark"].as_u64().expect("an index")).expect("small");
        let name = marks[index]["name"].as_str().expect("a name");
        let above = node["parent"].as_u64().map(|parent| &stacks[usize::try_from(parent).expect("small")].0);
        let stack = above.map_or_else(|| name.to_owned(), |above| format!("{above};{name}"));
        stacks.push((stack, node["calls"].as_u64().expect("a number")));
        for (event, values) in node["values"].as_object().expect("a map") {
            let sum = sums.entry((index, event)).or_default();
            sum[0] += values["measured"].as_i64().expect("a number");
            sum[1] += values["sum"].as_i64().expect("a number");
            sum[2] += values["self"].as_i64().expect("a number");
            sum[3] += 1;
        }
    }
    let is_complete = report["call_graph_lacks"] == 0;
    for ((index, event), [measured, sum, own, nodes]) in sums.into_iter().filter(|_| is_complete) {
        let values = &marks[index]["values"][event];
        let number = |key: &str| values[key].as_i64().expect("a number");
        assert_eq!(measured, number("measured"), "{event} of {}", marks[index]["name"]);
        // The time of each node is rounded.
        let tolerance = if event == "time" { nodes.unsigned_abs() } else { 0 };
        // The mark's self value includes estimates for calls that were not measured. Its nodes do not.
        let agrees = |sum: i64, expected: i64| sum.abs_diff(expected) <= tolerance || values["unmeasured"] != 0;
        assert!(agrees(sum, number("sum")), "{event} of {}: {sum} in nodes, {values}", marks[index]["name"]);
        assert!(agrees(own, number("self")), "{event} of {}: {own} in nodes, {values}", marks[index]["name"]);
    }
    let all = stacks.len();
    let by_stack: Calls = stacks.into_iter().collect();
    assert_eq!(by_stack.len(), all, "no stack occurs twice");
    by_stack
}

fn calls<const N: usize>(expected: [(&str, u64); N]) -> Calls {
    expected.map(|(stack, calls)| (stack.to_owned(), calls)).into()
}

fn only(mut reports: Vec<Value>) -> Value {
    let report = reports.pop().expect("a report");
    assert!(reports.is_empty());
    report
}

fn a_callee_has_one_node_per_caller() {
    let report = only(reports("callers", true));
    let expected = calls([
        ("leaf", 1),
        ("caller", 3),
        ("caller;leaf", 6),
        ("other", 1),
        ("other;leaf", 1),
        ("other;caller", 1),
        ("other;caller;leaf", 2),
        ("recursive", 1),
        ("recursive;recursive", 1),
        ("recursive;leaf", 1),
        ("recursive;recursive;recursive", 1),
        ("recursive;recursive;leaf", 1),
        ("recursive;recursive;recursive;recursive", 1),
        ("recursive;recursive;recursive;leaf", 1),
    ]);
    assert_eq!(stacks(&report), expected);
}

fn threads() {
    let report = only(reports("threads", true));
    assert_eq!(stacks(&report), calls([("caller", 5), ("caller;leaf", 10)]));
}

fn forgotten_and_unwound_calls() {
    let report = only(reports("lost", true));
    // Forgotten calls did not end.
    let expected = calls([
        ("caller", 1),
        ("caller;leaf", 2),
        ("forgotten", 0),
        // After `forgotten`, `around` and `unwinds`.
        ("forgotten;leaf", 3),
        ("forgotten;around", 1),
        ("forgotten;around;forgotten inside", 0),
        ("forgotten;around;forgotten inside;leaf", 1),
        ("forgotten;unwinds", 1),
        ("forgotten;unwinds;leaf", 1),
    ]);
    assert_eq!(stacks(&report), expected);
}

fn futures() {
    let report = only(reports("futures", true));
    let expected = calls([("polls", 1), ("polls;waits", 0), ("polls;waits;leaf", 1), ("waits", 1), ("waits;leaf", 1)]);
    let marks_calls = mark(&report, "waits")["calls"].as_u64();
    let nodes: Calls = {
        // The polls of one call are in two nodes, and no node has the complete call. So nodes and mark are not
        // compared.
        let mut report = report.clone();
        report["call_graph_lacks"] = 1.into();
        stacks(&report)
    };
    assert_eq!((nodes, marks_calls), (expected, Some(1)));
}

fn bounded() {
    let report = only(reports("bounded", true));
    let nodes = report["call_graph"].as_array().expect("a list").len();
    assert_eq!(nodes, 8_192);
    let in_nodes: u64 = stacks(&report).values().sum();
    let all: u64 =
        report["marks"].as_array().expect("a list").iter().map(|mark| mark["calls"].as_u64().expect("a number")).sum();
    assert_eq!(report["call_graph_lacks"].as_u64().expect("a number") + in_nodes, all);
}

fn reset() {
    let report = only(reports("reset", true));
    let expected = calls([("other", 1), ("other;leaf", 1), ("other;caller", 1), ("other;caller;leaf", 2)]);
    assert_eq!(stacks(&report), expected);
}

fn fork() {
    let [child, parent] = <[Value; 2]>::try_from(reports("fork", true)).expect("two reports");
    assert_eq!(stacks(&child), calls([("leaf", 1)]));
    assert_eq!(stacks(&parent), calls([("caller", 1), ("caller;leaf", 2), ("around", 1)]));
}

fn no_graph_is_recorded() {
    let report = only(reports("callers", false));
    assert_eq!(report["call_graph"].as_array().map(Vec::len), Some(0));
}

/// As `a_callee_has_one_node_per_caller`, for an event that is exact.
fn instructions_add_up() {
    let report = only(reports("callers", true));
    assert!(mark(&report, "leaf")["values"]["instructions"]["sum"].as_u64() > Some(0));
    assert!(!stacks(&report).is_empty());
}
