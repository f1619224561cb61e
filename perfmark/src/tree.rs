//! A tree whose nodes are found by the one above and a key.

use std::collections::BTreeMap;

/// Nodes in the order in which they came: each behind the one above it.
#[derive(Clone, Debug)]
pub(crate) struct Tree<K, V> {
    nodes: Vec<Node<K, V>>,
    known: BTreeMap<(Option<usize>, K), usize>,
}

#[derive(Clone, Debug)]
pub(crate) struct Node<K, V> {
    pub(crate) above: Option<usize>,
    pub(crate) key: K,
    pub(crate) value: V,
}

impl<K, V> Default for Tree<K, V> {
    fn default() -> Self {
        Self { nodes: Vec::new(), known: BTreeMap::new() }
    }
}

impl<K: Copy + Ord, V: Default> Tree<K, V> {
    /// The node with that key under that one, which is made where there is none; and its place.
    pub(crate) fn at(&mut self, above: Option<usize>, key: K) -> (usize, &mut V) {
        let place = *self.known.entry((above, key)).or_insert_with(|| {
            self.nodes.push(Node { above, key, value: V::default() });
            self.nodes.len() - 1
        });
        (place, &mut self.nodes[place].value)
    }

    /// The place of the node with that key under that one.
    #[cfg(feature = "record")]
    pub(crate) fn find(&self, above: Option<usize>, key: K) -> Option<usize> {
        self.known.get(&(above, key)).copied()
    }

    #[cfg(feature = "record")]
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    #[cfg(feature = "record")]
    pub(crate) fn nodes(&self) -> &[Node<K, V>] {
        &self.nodes
    }

    pub(crate) fn into_nodes(self) -> Vec<Node<K, V>> {
        self.nodes
    }
}
