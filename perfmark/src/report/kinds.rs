//! Grouping of items by kind.

use std::collections::BTreeMap;

/// Each kind with its items, in the order in which the kinds first occur.
pub(super) fn kinds<K: Copy + Ord, T>(all: impl IntoIterator<Item = (K, T)>) -> Vec<(K, Vec<T>)> {
    let mut indices = BTreeMap::new();
    let mut kinds: Vec<(K, Vec<T>)> = Vec::new();
    for (kind, one) in all {
        let index = *indices.entry(kind).or_insert(kinds.len());
        if index == kinds.len() {
            kinds.push((kind, Vec::new()));
        }
        kinds[index].1.push(one);
    }
    kinds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_and_their_items_keep_their_order() {
        assert_eq!(kinds([('b', 1), ('a', 2), ('b', 3)]), [('b', vec![1, 3]), ('a', vec![2])]);
        assert!(kinds::<char, u8>([]).is_empty());
    }
}
