//! Grouping of items by kind.

use crate::compact::Map;

/// Each kind with its items, in the order in which the kinds first occur.
pub(super) fn group<K: Copy + Ord, T>(all: impl IntoIterator<Item = (K, T)>) -> Vec<(K, Vec<T>)> {
    let mut indices = Map::new();
    let mut groups: Vec<(K, Vec<T>)> = Vec::new();
    for (kind, one) in all {
        let index = *indices.get_or_insert(kind, groups.len());
        if index == groups.len() {
            groups.push((kind, Vec::new()));
        }
        groups[index].1.push(one);
    }
    groups
}
