//! Who was called under whom: `PERFMARK_CALL_GRAPH=on`.
//!
//! Each scenario is this same program, started anew with `PERFMARK_TEST_SCENARIO`.

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
        ("each_caller_has_a_node_of_its_own_for_what_it_calls", each_caller_has_its_own),
        ("a_threads_nodes_outlive_it_and_go_with_those_of_others", threads),
        ("what_is_lost_or_unwound_does_not_move_what_follows", what_is_lost_or_unwound),
        ("a_future_is_under_the_one_that_polls_it", futures),
        ("nodes_are_bounded_and_what_has_none_is_told", bounded),
        ("a_reset_begins_the_graph_anew", reset),
        ("a_forked_child_has_a_graph_of_its_own", fork),
        ("nobody_asked_and_nothing_is_recorded", nobody_asked),
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

/// Another set of events, and another caller of the same.
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
    // No message, and no hook that prints one.
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

/// Pending once.
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

/// A region's place in the source is a mark: so each is one.
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
            // One that still runs when the report is written.
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
            // Noticed by the one below it, of which there is none but this.
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
            // The second poll is nobody's.
            assert!(future.poll(&mut Context::from_waker(Waker::noop())).is_ready());
        }
        "bounded" => {
            let digits = regions!["0" "1" "2" "3" "4" "5" "6" "7" "8" "9"];
            for n in 0..10_000_usize {
                let [one, two, three, four] = [n / 1000, n / 100 % 10, n / 10 % 10, n % 10].map(|digit| digits[digit]);
                one(&|| two(&|| three(&|| four(&|| ()))));
            }
            // Deeper than a thread has room for.
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
            // SAFETY: the child calls marks, and ends.
            match unsafe { libc::fork() } {
                0 => {
                    leaf(1);
                    std::process::exit(0);
                }
                child => {
                    // SAFETY: a child of ours.
                    unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
                }
            }
            drop(around);
        }
        _ => panic!("no scenario {scenario}"),
    }
}

/// The reports of that scenario, the program's own last.
fn reports(scenario: &str, asks: bool) -> Vec<Value> {
    let variables =
        [("PERFMARK_FORMAT", "json"), ("PERFMARK_OUTPUT", "-"), ("PERFMARK_CALL_GRAPH", if asks { "on" } else { "" })];
    let output = program::scenario(scenario, &variables);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let reports = serde_json::Deserializer::from_str(text(&output.stdout)).into_iter();
    reports.collect::<Result<_, _>>().expect("JSON alone")
}

/// A stack of marks' names, and its calls.
type Calls = BTreeMap<String, u64>;

/// The graph's stacks; after the promises that hold for every graph.
fn stacks(report: &Value) -> Calls {
    let marks = report["marks"].as_array().expect("a list");
    let mut stacks: Vec<(String, u64)> = Vec::new();
    let mut sums: BTreeMap<(usize, &str), [i64; 4]> = BTreeMap::new();
    for node in report["call_graph"].as_array().expect("a list") {
        let place = usize::try_from(node["mark"].as_u64().expect("a place")).expect("small");
        let name = marks[place]["name"].as_str().expect("a name");
        let above = node["parent"].as_u64().map(|parent| &stacks[usize::try_from(parent).expect("small")].0);
        let stack = above.map_or_else(|| name.to_owned(), |above| format!("{above};{name}"));
        stacks.push((stack, node["calls"].as_u64().expect("a number")));
        for (event, values) in node["values"].as_object().expect("a map") {
            let sum = sums.entry((place, event)).or_default();
            sum[0] += values["measured"].as_i64().expect("a number");
            sum[1] += values["sum"].as_i64().expect("a number");
            sum[2] += values["self"].as_i64().expect("a number");
            sum[3] += 1;
        }
    }
    let is_whole = report["call_graph_lacks"] == 0;
    for ((place, event), [measured, sum, own, nodes]) in sums.into_iter().filter(|_| is_whole) {
        let values = &marks[place]["values"][event];
        let number = |key: &str| values[key].as_i64().expect("a number");
        assert_eq!(measured, number("measured"), "{event} of {}", marks[place]["name"]);
        // Each node is rounded by itself.
        let off = if event == "time" { nodes.unsigned_abs() } else { 0 };
        // Calls that were not counted are in the mark's self as if they were like the others, and in no node.
        let is_so = |sum: i64, whole: i64| sum.abs_diff(whole) <= off || values["unmeasured"] != 0;
        assert!(is_so(sum, number("sum")), "{event} of {}: {sum} in nodes, {values}", marks[place]["name"]);
        assert!(is_so(own, number("self")), "{event} of {}: {own} in nodes, {values}", marks[place]["name"]);
    }
    let all = stacks.len();
    let by_stack: Calls = stacks.into_iter().collect();
    assert_eq!(by_stack.len(), all, "no stack is there twice");
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

fn each_caller_has_its_own() {
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

fn what_is_lost_or_unwound() {
    let report = only(reports("lost", true));
    // Calls that were forgotten did not end.
    let expected = calls([
        ("caller", 1),
        ("caller;leaf", 2),
        ("forgotten", 0),
        // Behind itself, `around` and `unwinds`.
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
        // A call's polls are in two nodes, and its whole in none: so they are not compared with the mark's.
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

fn nobody_asked() {
    let report = only(reports("callers", false));
    assert_eq!(report["call_graph"].as_array().map(Vec::len), Some(0));
}

/// As the other test has it, of an event that is exact.
fn instructions_add_up() {
    let report = only(reports("callers", true));
    assert!(mark(&report, "leaf")["values"]["instructions"]["sum"].as_u64() > Some(0));
    assert!(!stacks(&report).is_empty());
}
