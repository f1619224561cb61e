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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_and_their_items_keep_their_order() {
        assert_eq!(group([('b', 1), ('a', 2), ('b', 3)]), [('b', vec![1, 3]), ('a', vec![2])]);
        assert!(group::<char, u8>([]).is_empty());
    }
}
