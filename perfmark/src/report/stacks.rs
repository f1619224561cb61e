//! Folded stacks, the input of flame graphs: `caller;callee N`, where N is the self cost of the callee's calls.
//!
//! Marks have the names of the table. Without a call graph, each mark is a stack by itself, which includes the cost of
//! calls that a panic ended or that are in flight. The nodes of a call graph do not include that.
//!
//! A deep call graph has long stacks. If all of them are longer than a limit, the deepest calls of a stack are together
//! in one frame, `…`.

use std::fmt::Write as _;

use super::share::{Shares, unfinished};
use crate::compact::{Map, sort_by};
use crate::snapshot::{Mark, Node, Snapshot};

/// The stacks with their self cost in the event that orders the table. They are in the order of their frames' names, so
/// that those with the same callers are together. Stacks without cost are left out.
pub(super) fn folded(snapshot: &Snapshot) -> Vec<(String, u64)> {
    let event = Shares::new(snapshot).leading();
    let names: Vec<String> = snapshot.names().iter().map(|label| frame(label)).collect();
    let own = |node: &Node| {
        let own = node.values.iter().find(|values| Some(&*values.event) == event)?;
        u64::try_from(own.self_sum.unwrap_or(own.sum)).ok()
    };
    let alone = |(mark, name): (&Mark, &String)| {
        let values = mark.values.iter().find(|values| Some(&*values.event) == event)?;
        let (total, own) = unfinished(values);
        let sum = values.self_sum.map_or(i128::from(values.total) + total, |sum| i128::from(sum) + own);
        Some((name.clone(), u64::try_from(sum.min(u64::MAX.into())).ok()?))
    };
    let mut stacks: Vec<(String, u64)> = if has_callers(snapshot) {
        of_graph(&snapshot.call_graph, &names, own)
    } else {
        snapshot.marks.iter().zip(&names).filter_map(alone).collect()
    };
    stacks.retain(|(_, own)| *own > 0);
    sort_by(&mut stacks, |one, other| one.0.split(';').cmp(other.0.split(';')).then(one.1.cmp(&other.1)));
    stacks
}

/// Whether the snapshot has a call graph.
pub(super) fn has_callers(snapshot: &Snapshot) -> bool {
    !snapshot.call_graph.is_empty()
}

/// One line for each stack.
pub(super) fn render(snapshot: &Snapshot) -> String {
    let mut out = String::new();
    for (stack, own) in folded(snapshot) {
        _ = writeln!(out, "{stack} {own}");
    }
    out
}

/// The most bytes of all stacks, unless the outermost marks alone have more.
const MOST: usize = 8 << 20;

/// The stack of each node, from the outermost caller, and the own cost. A mark that the snapshot lacks is written like
/// one without a name.
fn of_graph(graph: &[Node], names: &[String], own: impl Fn(&Node) -> Option<u64>) -> Vec<(String, u64)> {
    let name = |node: &Node| names.get(node.mark).map_or(NAMELESS, String::as_str);
    // Callers come first; a snapshot that violates this would loop.
    let caller = |at: usize| graph[at].parent.filter(|&parent| parent < at);
    // The length of each stack, its depth, and the length of all stacks of each depth.
    let (mut sizes, mut depths) = (Vec::<usize>::new(), Vec::<usize>::new());
    let mut of_depths: Vec<usize> = Vec::new();
    for (at, node) in graph.iter().enumerate() {
        let caller = caller(at);
        sizes.push(caller.map_or(0, |caller| sizes[caller]).saturating_add(name(node).len() + 1));
        depths.push(caller.map_or(0, |caller| depths[caller] + 1));
        of_depths.resize(of_depths.len().max(depths[at] + 1), 0);
        of_depths[depths[at]] = of_depths[depths[at]].saturating_add(sizes[at]);
    }
    let mut sum = 0_usize;
    let within = of_depths.iter().take_while(|&&size| {
        sum = sum.saturating_add(size);
        sum <= MOST
    });
    let deepest = within.count().max(1);
    // Each node that is too deep is shown below the last caller that is not.
    let (mut shown, mut costs) = (Vec::<usize>::new(), Map::<(usize, bool), u64>::new());
    for (at, node) in graph.iter().enumerate() {
        let is_deeper = depths[at] >= deepest;
        shown.push(caller(at).filter(|_| is_deeper).map_or(at, |caller| shown[caller]));
        if let Some(own) = own(node) {
            let cost = costs.get_or_default((shown[at], is_deeper));
            *cost = cost.saturating_add(own);
        }
    }
    let stack = |((at, is_deeper), cost): ((usize, bool), u64)| {
        let callers = std::iter::successors(Some(at), |&at| caller(at));
        let mut frames: Vec<&str> = callers.map(|at| name(&graph[at])).collect();
        frames.reverse();
        frames.extend(is_deeper.then_some("…"));
        (frames.join(";"), cost)
    };
    costs.into_iter().filter(|(_, cost)| *cost > 0).map(stack).collect()
}

const NAMELESS: &str = "?";

/// A mark's name, without the characters that separate frames, stacks and numbers, and those that are invalid in XML.
fn frame(label: &str) -> String {
    let harmless = |c: char| match c {
        ';' => ',',
        '\u{fffe}' | '\u{ffff}' => '\u{fffd}',
        c if c.is_whitespace() || c.is_control() => '_',
        c => c,
    };
    if label.is_empty() { NAMELESS.to_owned() } else { label.chars().map(harmless).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::sample::{self, mark, values};
    use crate::snapshot::{NodeValues, Values};

    fn node(parent: Option<usize>, mark: usize, own: Option<i64>) -> Node {
        let values = vec![
            NodeValues { event: "cycles".into(), measured: 1, sum: 90, self_sum: Some(80) },
            NodeValues { event: "time".into(), measured: 1, sum: 9, self_sum: own },
        ];
        Node { parent, mark, calls: 1, values }
    }

    #[test]
    fn a_stack_is_the_path_from_the_outermost_caller_with_its_self_cost() {
        let mut snapshot = sample::typical();
        // parse_line, run and lexer::next.
        snapshot.call_graph =
            vec![node(None, 1, Some(5)), node(Some(0), 0, Some(7)), node(Some(1), 2, None), node(None, 0, Some(0))];
        assert_eq!(render(&snapshot), "run 5\nrun;parse_line 7\nrun;parse_line;lexer::next 9\n");
    }

    #[test]
    fn without_callers_each_mark_is_a_stack_by_itself() {
        assert_eq!(render(&sample::typical()), "lexer::next 122000000\nparse_line 3104000000\nrun 1304000000\n");
    }

    #[test]
    fn without_callers_the_sum_of_all_stacks_is_the_sum_in_the_table() {
        let mut snapshot = sample::time_only();
        let event = |values: &&mut Values| values.event == "time";
        let mut values = snapshot.marks.iter_mut().flat_map(|mark| &mut mark.values).filter(event);
        let (first, second, third) = (values.next(), values.next(), values.next());
        let ([Some(first), Some(second), Some(third)], None) = ([first, second, third], values.next()) else {
            panic!("three marks");
        };
        (first.unwound_total, first.unwound_self) = (750, 700);
        (second.in_flight_total, second.in_flight_self) = (40, 50);
        // No call of it was measured, and calls in flight cost less than their callees.
        (third.self_sum, third.unwound_self, third.in_flight_self) = (Some(0), 30, -10);
        let shares = Shares::new(&snapshot);
        let sum = folded(&snapshot).into_iter().map(|(_, own)| u128::from(own)).sum::<u128>();
        assert_eq!((sum, shares.denominator("time").is_of_totals), (shares.denominator("time").sum, false));
        assert_eq!(render(&snapshot), "decode 2120000050\nflush 20\nhandle_request 3090000700\n");
    }

    #[test]
    fn a_name_separates_no_stack() {
        assert_eq!(frame("<[u8; 4] as A>::f"), "<[u8,_4]_as_A>::f");
        assert_eq!(frame("a\nb\u{a0}c\u{2028}\td\u{ffff}"), "a_b_c__d\u{fffd}");
        assert_eq!(frame(""), "?");
        for snapshot in sample::nasty() {
            for line in render(&snapshot).lines() {
                let (stack, number) = line.rsplit_once(' ').expect("a number");
                assert!(number.parse::<u64>().is_ok_and(|own| own > 0), "{line:?}");
                assert!(!stack.contains(char::is_whitespace), "{line:?}");
                assert!(stack.split(';').all(|frame| !frame.is_empty()), "{line:?}");
                let depth = if snapshot.call_graph.is_empty() { 1 } else { snapshot.call_graph.len() };
                assert!(stack.split(';').count() <= depth, "{line:?}");
            }
        }
    }

    #[test]
    fn calls_of_long_stacks_are_together_below_the_last_caller_that_is_shown() {
        let graph: Vec<Node> = (0..400).map(|n: usize| node(n.checked_sub(1), n % 2, Some(1))).collect();
        let names = ["a", "b"].map(|name| name.repeat(1_000));
        let stacks = of_graph(&graph, &names, |node| u64::try_from(node.values[1].self_sum?).ok());
        let (deepest, rest) = stacks.last().expect("stacks");
        // The stacks of 128 calls have 8.3 MB, of which each is 1 kB longer than the one before.
        assert_eq!((stacks.len(), *rest, deepest.ends_with(&format!("{};…", names[1]))), (129, 400 - 128, true));
        assert_eq!(stacks.iter().map(|(_, own)| own).sum::<u64>(), 400);
    }

    #[test]
    fn an_invalid_graph_does_not_loop() {
        let mut snapshot = sample::snapshot(&sample::time_only().events, &[mark("f", 1)]);
        snapshot.marks[0].values = vec![values("time", 1, 1)];
        snapshot.call_graph = vec![node(Some(0), 0, Some(1)), node(Some(9), 0, Some(2)), node(Some(1), 3, Some(3))];
        assert_eq!(render(&snapshot), "f 1\nf 2\nf;? 3\n");
    }
}
