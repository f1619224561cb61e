//! What is alike, told together.

use std::collections::BTreeMap;

/// Each kind with all that are of it, in the order in which the kinds came first.
pub(super) fn kinds<K: Copy + Ord, T>(all: impl IntoIterator<Item = (K, T)>) -> Vec<(K, Vec<T>)> {
    let mut places = BTreeMap::new();
    let mut kinds: Vec<(K, Vec<T>)> = Vec::new();
    for (kind, one) in all {
        let place = *places.entry(kind).or_insert(kinds.len());
        if place == kinds.len() {
            kinds.push((kind, Vec::new()));
        }
        kinds[place].1.push(one);
    }
    kinds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_and_what_is_of_them_stay_in_their_order() {
        assert_eq!(kinds([('b', 1), ('a', 2), ('b', 3)]), [('b', vec![1, 3]), ('a', vec![2])]);
        assert!(kinds::<char, u8>([]).is_empty());
    }
}
