//! Sorting.

use std::cmp::Ordering;
use std::mem;

/// Sorts items; equal ones keep their order.
pub(crate) fn sort_by<T>(items: &mut [T], compare: impl Fn(&T, &T) -> Ordering) {
    let order = order(items.len(), &|one, other| compare(&items[one], &items[other]));
    arrange(order, |one, other| items.swap(one, other));
}

/// Sorts items by a key; those with equal keys keep their order.
#[cfg(feature = "record")]
pub(crate) fn sort_by_key<T, K: Ord>(items: &mut [T], key: impl Fn(&T) -> K) {
    sort_by(items, |one, other| key(one).cmp(&key(other)));
}

/// The indices of items in their order, in parts, so that inserting one moves few.
#[derive(Clone, Debug)]
pub(super) struct Order(pub(super) Vec<Vec<usize>>);

/// Where an index is in the order, or belongs: its part, and the place in it.
pub(super) type Place = (usize, usize);

impl Order {
    /// The most indices of a part.
    const MOST: usize = 256;

    /// Finds the item that is `Equal`. `compare` says whether an item is less or greater.
    #[inline(never)]
    pub(super) fn find(&self, compare: &dyn Fn(usize) -> Ordering) -> Result<usize, Place> {
        let is_before = |part: &Vec<usize>| part.first().is_none_or(|&first| compare(first).is_le());
        let part = self.0.partition_point(is_before).saturating_sub(1);
        let Some(indices) = self.0.get(part) else { return Err((0, 0)) };
        indices.binary_search_by(|&index| compare(index)).map(|at| indices[at]).map_err(|at| (part, at))
    }

    #[inline(never)]
    pub(super) fn insert(&mut self, (part, at): Place, index: usize) {
        if self.0.is_empty() {
            self.0.push(Vec::new());
        }
        let indices = &mut self.0[part];
        indices.insert(at, index);
        if indices.len() > Self::MOST {
            let upper = indices.split_off(Self::MOST / 2);
            self.0.insert(part + 1, upper);
        }
    }

    #[inline(never)]
    pub(super) fn indices(&self) -> Vec<usize> {
        self.0.concat()
    }
}

/// The indices of `count` items in their order.
#[inline(never)]
fn order(count: usize, compare: &dyn Fn(usize, usize) -> Ordering) -> Vec<usize> {
    let mut order = Order(Vec::new());
    for index in 0..count {
        // After those that are equal.
        if let Err(place) = order.find(&|other| compare(other, index).then(Ordering::Less)) {
            order.insert(place, index);
        }
    }
    order.indices()
}

/// Puts items in an order, which has the index of each item, by swapping two at a time.
pub(super) fn arrange(mut order: Vec<usize>, mut swap: impl FnMut(usize, usize)) {
    for first in 0..order.len() {
        let mut at = first;
        loop {
            let from = mem::replace(&mut order[at], at);
            if from == first {
                break;
            }
            swap(at, from);
            at = from;
        }
    }
}

#[cfg(all(test, feature = "record"))]
mod tests {
    use super::*;

    #[test]
    fn sorting_keeps_the_order_of_equal_items() {
        let mut items = vec![(2, 'a'), (1, 'b'), (2, 'c'), (1, 'd'), (0, 'e'), (3, 'f')];
        sort_by_key(&mut items, |item| item.0);
        assert_eq!(items, [(0, 'e'), (1, 'b'), (1, 'd'), (2, 'a'), (2, 'c'), (3, 'f')]);
    }
}
