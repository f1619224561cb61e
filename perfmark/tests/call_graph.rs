//! `PERFMARK_CALL_GRAPH=on` records the call graph.
//!
//! Each scenario is this program, started again with `PERFMARK_TEST_SCENARIO`.

#[path = "../../perfmark-rdpmc/tests/support/mod.rs"]
mod support;
mod program;

use std::collections::BTreeMap;
use std::env;
use std::hint::black_box;
use std::mem;
use std::panic::catch_unwind;
use std::process::ExitCode;

use perfmark::{perfmark, region};
use program::{SCENARIO, text};
use serde_json::Value;

fn main() -> ExitCode {
    if let Ok(scenario) = env::var(SCENARIO) {
        run_scenario(&scenario);
        return ExitCode::SUCCESS;
    }
    let tests: &[(&str, fn())] = &[
        ("forgotten_and_unwound_calls_do_not_misplace_later_ones", forgotten_and_unwound_calls),
        ("nodes_are_bounded_and_calls_without_one_are_counted", bounded),
        ("a_reset_starts_a_new_graph", reset),
        ("a_forked_child_has_a_graph_of_its_own", fork),
        ("no_graph_is_recorded_unless_asked_for", no_graph_is_recorded),
    ];
    support::run(tests.iter().map(|&(name, test)| support::trial(name, test)).collect(), &[])
}

#[perfmark(time, page_faults)]
fn leaf(n: u64) -> u64 {
    (0..n).map(black_box).sum()
}

#[perfmark(time, page_faults)]
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

/// Each region in the source is a mark. This makes one for each digit.
macro_rules! regions {
    ($($digit:literal)*) => {
        [$(|then: &dyn Fn()| region!($digit, time, { then() })),*]
    };
}

fn run_scenario(scenario: &str) {
    match scenario {
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

/// The stacks of the graph.
fn stacks(report: &Value) -> Calls {
    let index = |value: &Value| value.as_u64().map(|index| usize::try_from(index).expect("small"));
    let mut stacks: Vec<(String, u64)> = Vec::new();
    for node in report["call_graph"].as_array().expect("a list") {
        let name = report["marks"][index(&node["mark"]).expect("an index")]["name"].as_str().expect("a name");
        let above = index(&node["parent"]).map(|parent| &stacks[parent].0);
        let stack = above.map_or_else(|| name.to_owned(), |above| format!("{above};{name}"));
        stacks.push((stack, node["calls"].as_u64().expect("a number")));
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
    let report = only(reports("reset", false));
    assert_eq!(report["call_graph"].as_array().map(Vec::len), Some(0));
}
