//! Sorting and collecting with little code.
//!
//! The standard library's sort is compiled for each type and each order, and collecting into a `BTreeMap` or `BTreeSet`
//! sorts as well. In every program with a mark, each of them would take about 5 KB.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::mem;

/// Sorts items; equal ones keep their order.
pub(crate) fn sort_by<T>(items: &mut Vec<T>, compare: impl Fn(&T, &T) -> Ordering) {
    let order = order(items.len(), &|one, other| compare(&items[one], &items[other]));
    let mut unsorted: Vec<Option<T>> = mem::take(items).into_iter().map(Some).collect();
    items.extend(order.into_iter().filter_map(|index| unsorted[index].take()));
}

/// Sorts items by a key; those with equal keys keep their order.
#[cfg(feature = "record")]
pub(crate) fn sort_by_key<T, K: Ord>(items: &mut Vec<T>, key: impl Fn(&T) -> K) {
    sort_by(items, |one, other| key(one).cmp(&key(other)));
}

/// The indices of `count` items in their order.
fn order(count: usize, compare: &dyn Fn(usize, usize) -> Ordering) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by(|&one, &other| compare(one, other));
    order
}

/// Collects into ordered collections.
pub(crate) trait Collect: Iterator + Sized {
    /// Of the values with the same key, the last one stays.
    fn collect_map<K: Ord, V>(self) -> BTreeMap<K, V>
    where
        Self: Iterator<Item = (K, V)>,
    {
        let mut map = BTreeMap::new();
        self.for_each(|(key, value)| _ = map.insert(key, value));
        map
    }

    fn collect_set(self) -> BTreeSet<Self::Item>
    where
        Self::Item: Ord,
    {
        let mut set = BTreeSet::new();
        self.for_each(|item| _ = set.insert(item));
        set
    }
}

impl<I: Iterator> Collect for I {}

#[cfg(all(test, feature = "record"))]
mod tests {
    use super::*;

    #[test]
    fn sorting_keeps_the_order_of_equal_items() {
        let mut items = vec![(2, 'a'), (1, 'b'), (2, 'c'), (1, 'd')];
        sort_by_key(&mut items, |item| item.0);
        assert_eq!(items, [(1, 'b'), (1, 'd'), (2, 'a'), (2, 'c')]);
    }

    #[test]
    fn the_last_value_of_a_key_stays() {
        assert_eq!([(1, 'a'), (0, 'b'), (1, 'c')].into_iter().collect_map(), BTreeMap::from([(0, 'b'), (1, 'c')]));
        assert_eq!([1, 0, 1].into_iter().collect_set(), BTreeSet::from([0, 1]));
    }
}
