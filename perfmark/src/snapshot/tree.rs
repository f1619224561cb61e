//! A tree whose nodes are found by their parent and a key.

use crate::compact::Map;

/// Nodes in the order of insertion: each after its parent.
#[derive(Clone, Debug)]
pub(crate) struct Tree<K, V> {
    nodes: Vec<Node<K, V>>,
    known: Map<(Option<usize>, K), usize>,
}

#[derive(Clone, Debug)]
pub(crate) struct Node<K, V> {
    pub(crate) above: Option<usize>,
    pub(crate) key: K,
    pub(crate) value: V,
}

impl<K, V> Default for Tree<K, V> {
    fn default() -> Self {
        Self { nodes: Vec::new(), known: Map::new() }
    }
}

impl<K: Copy + Ord, V: Default> Tree<K, V> {
    /// The node with that key under that parent, created if necessary, with its index.
    pub(crate) fn at(&mut self, above: Option<usize>, key: K) -> (usize, &mut V) {
        let index = *self.known.get_or_insert((above, key), self.nodes.len());
        if index == self.nodes.len() {
            self.nodes.push(Node { above, key, value: V::default() });
        }
        (index, &mut self.nodes[index].value)
    }

    /// The index of the node with that key under that parent.
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

    #[cfg(feature = "sampling")]
    pub(crate) fn value_mut(&mut self, index: usize) -> &mut V {
        &mut self.nodes[index].value
    }

    pub(crate) fn into_nodes(self) -> Vec<Node<K, V>> {
        self.nodes
    }
}
