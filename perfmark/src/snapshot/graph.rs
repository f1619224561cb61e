//! Call graphs: adding, subtracting and removing nodes.

use super::arithmetic::{ADD, Combine, SUBTRACT};
use super::data::{Mark, Node, NodeValues, Snapshot};
use super::tree::{self, Tree};
use crate::compact::Collect as _;

/// Calls and the events' values, by the mark's index.
type Nodes = Tree<usize, (u64, Vec<NodeValues>)>;

/// Adds a node's values to those of the same mark under the same caller. Returns its index.
fn add(nodes: &mut Nodes, parent: Option<usize>, mark: usize, node: &Node) -> usize {
    let (index, (calls, values)) = nodes.at(parent, mark);
    *calls = calls.saturating_add(node.calls);
    for (at, other) in node.values.iter().enumerate() {
        let is_it = |known: &NodeValues| known.event == other.event;
        // They are usually in the same order.
        let is_there = values.get(at).is_some_and(is_it);
        match if is_there { Some(at) } else { values.iter().position(is_it) } {
            Some(at) => values[at].combine(other, ADD),
            None => values.push(other.clone()),
        }
    }
    index
}

/// Adds a graph's nodes under the marks that `mark` returns. Nodes without a mark are left out, and their callees move
/// to their caller.
fn add_all(nodes: &mut Nodes, graph: &[Node], mark: impl Fn(usize, &Node) -> Option<usize>) {
    let mut moved: Vec<Option<usize>> = Vec::new();
    for (index, node) in graph.iter().enumerate() {
        let parent = node.parent.and_then(|parent| moved.get(parent).copied().flatten());
        moved.push(mark(index, node).map_or(parent, |mark| Some(add(nodes, parent, mark, node))));
    }
}

fn plain(nodes: Nodes) -> Vec<Node> {
    let node = |tree::Node { above, key, value: (calls, values) }| Node { parent: above, mark: key, calls, values };
    nodes.into_nodes().into_iter().map(node).collect()
}

impl NodeValues {
    fn combine(&mut self, other: &Self, with: Combine) {
        self.measured = (with.counts)(self.measured, other.measured);
        self.sum = (with.sums)(self.sum, other.sum);
        self.self_sum = self.self_sum.zip(other.self_sum).map(|(own, other)| (with.sums)(own, other));
    }
}

impl Node {
    fn since(&mut self, earlier: &Self) {
        self.calls = self.calls.saturating_sub(earlier.calls);
        for values in &mut self.values {
            if let Some(before) = earlier.values.iter().find(|before| before.event == values.event) {
                values.combine(before, SUBTRACT);
            }
        }
    }
}

impl Snapshot {
    /// Keeps only the marks for which `keep` returns `true`. In the [call graph](Self::call_graph), callees of the
    /// other marks move to those marks' callers. Samples directly in the other marks are removed, and
    /// [counted](crate::Samples::removed). [`overhead_ns`](Self::overhead_ns) is that of the marks that stay, without
    /// that of threads' first calls and ends.
    ///
    /// ```
    /// let mut snapshot = perfmark::snapshot();
    /// snapshot.retain(|mark| mark.calls > 0);
    /// # assert!(snapshot.marks.is_empty());
    /// ```
    pub fn retain(&mut self, mut keep: impl FnMut(&Mark) -> bool) {
        let mut next = 0..;
        let indices: Vec<Option<usize>> =
            self.marks.iter().map(|mark| if keep(mark) { next.next() } else { None }).collect();
        let mut kept = indices.iter();
        self.marks.retain(|_| kept.next().is_some_and(Option::is_some));
        self.overhead_ns = self.marks.iter().filter_map(|mark| mark.overhead_ns).reduce(u64::saturating_add);
        let mut nodes = Nodes::default();
        add_all(&mut nodes, &self.call_graph, |_, node| indices.get(node.mark).copied().flatten());
        self.call_graph = plain(nodes);
        self.samples.iter_mut().for_each(|samples| samples.retain(&indices));
    }

    /// Merges several graphs; for each, the indices that its marks have here.
    pub(super) fn set_graph(&mut self, graphs: &[(Vec<Node>, Vec<Option<usize>>)]) {
        let mut nodes = Nodes::default();
        for (graph, indices) in graphs {
            add_all(&mut nodes, graph, |_, node| indices.get(node.mark).copied().flatten());
        }
        self.call_graph = plain(nodes);
    }

    /// Subtracts an earlier snapshot's nodes; `indices` are those that its marks have here.
    pub(super) fn subtract_graph(&mut self, earlier: &[Node], indices: &[Option<usize>]) {
        let indices_of_nodes =
            self.call_graph.iter().enumerate().map(|(index, node)| ((node.parent, node.mark), index));
        let known = indices_of_nodes.collect_map();
        let mut moved: Vec<Option<usize>> = Vec::new();
        for node in earlier {
            let parent = node.parent.map(|parent| moved.get(parent).copied().flatten());
            let mark = indices.get(node.mark).copied().flatten();
            // A node whose caller is not here is not here either.
            let is_possible = parent != Some(None);
            let found = mark.filter(|_| is_possible).and_then(|mark| known.get(&(parent.flatten(), mark)).copied());
            if let Some(node_here) = found.and_then(|index| self.call_graph.get_mut(index)) {
                node_here.since(node);
            }
            moved.push(found);
        }
        self.drop_idle_nodes();
    }

    /// Removes nodes without calls and costs that have no callees left.
    fn drop_idle_nodes(&mut self) {
        // Polls of a call that is not over have a cost.
        let has_cost =
            |values: &NodeValues| values.measured > 0 || values.sum != 0 || values.self_sum.unwrap_or(0) != 0;
        let is_kept = |node: &Node| node.calls > 0 || node.values.iter().any(has_cost);
        let mut is_kept: Vec<bool> = self.call_graph.iter().map(is_kept).collect();
        for (index, node) in self.call_graph.iter().enumerate().rev() {
            if let Some(parent) = node.parent.filter(|&parent| is_kept[index] && parent < index) {
                is_kept[parent] = true;
            }
        }
        let mut nodes = Nodes::default();
        add_all(&mut nodes, &self.call_graph, |index, node| is_kept[index].then_some(node.mark));
        self.call_graph = plain(nodes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(sum: i64, own: i64) -> Vec<NodeValues> {
        vec![NodeValues { event: "time".into(), measured: 1, sum, self_sum: Some(own) }]
    }

    fn node(parent: Option<usize>, mark: usize, sum: i64, own: i64) -> Node {
        Node { parent, mark, calls: 1, values: values(sum, own) }
    }

    fn mark(name: &str) -> Mark {
        Mark { name: name.into(), path: name.into(), ..Mark::default() }
    }

    /// a calls b, b calls c, and c is called by nobody, too.
    fn snapshot() -> Snapshot {
        Snapshot {
            marks: ["a", "b", "c"].map(mark).into(),
            call_graph: vec![node(None, 0, 9, 2), node(Some(0), 1, 7, 3), node(Some(1), 2, 4, 4), node(None, 2, 1, 1)],
            ..Snapshot::default()
        }
    }

    #[test]
    fn callees_of_a_removed_mark_move_to_its_caller() {
        let mut without = snapshot();
        without.retain(|mark| mark.name != "b");
        assert_eq!(without.call_graph, [node(None, 0, 9, 2), node(Some(0), 1, 4, 4), node(None, 1, 1, 1)]);
        without.retain(|mark| mark.name != "a");
        assert_eq!(
            without.call_graph,
            [Node {
                calls: 2,
                values: vec![NodeValues { measured: 2, ..values(5, 5).remove(0) }],
                ..node(None, 0, 0, 0)
            }]
        );
    }

    #[test]
    fn the_overhead_of_removed_marks_does_not_count() {
        let mut some = snapshot();
        (some.marks[0].overhead_ns, some.marks[1].overhead_ns, some.overhead_ns) = (Some(2), Some(40), Some(42));
        some.retain(|mark| mark.name != "b");
        assert_eq!(some.overhead_ns, Some(2));
        some.retain(|mark| mark.name != "a");
        assert_eq!(some.overhead_ns, None);
    }

    #[test]
    fn graphs_are_merged_by_caller_and_callee_and_subtracted_again() {
        let one = snapshot();
        let mut other = snapshot();
        other.marks.insert(0, mark("0"));
        other.call_graph = vec![node(None, 3, 5, 5), node(Some(0), 0, 1, 1)];
        let mut both = one.clone();
        both.merge(&other);
        assert_eq!(both.marks.iter().map(|mark| &*mark.name).collect::<Vec<_>>(), ["0", "a", "b", "c"]);
        let sums: Vec<_> =
            both.call_graph.iter().map(|node| (node.parent, node.mark, node.calls, node.values[0].sum)).collect();
        assert_eq!(
            sums,
            [(None, 1, 1, 9), (Some(0), 2, 1, 7), (Some(1), 3, 1, 4), (None, 3, 2, 6), (Some(3), 0, 1, 1)]
        );
        let mut later = one.clone();
        (later.call_graph[3].values[0].sum, later.call_graph[3].values[0].self_sum) = (3, Some(3));
        let polled = Node {
            calls: 0,
            values: vec![NodeValues { measured: 0, ..values(2, 2).remove(0) }],
            ..node(None, 2, 0, 0)
        };
        assert_eq!(later.since(&one).call_graph, [polled], "a poll of a call that is not over");
        let between = both.since(&one);
        let sums: Vec<_> = between.call_graph.iter().map(|node| (node.calls, node.values[0].sum)).collect();
        assert_eq!(sums, [(1, 5), (1, 1)]);
    }
}
