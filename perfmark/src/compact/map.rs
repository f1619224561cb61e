//! Maps and sets.

use std::borrow::Borrow;

use super::sort::{Order, Place, arrange};

/// A map, in the order of its keys.
#[derive(Clone, Debug)]
pub(crate) struct Map<K, V> {
    /// In the order in which they were inserted.
    entries: Vec<(K, V)>,
    order: Order,
}

/// A set, in the order of its keys.
#[derive(Clone, Debug)]
pub(crate) struct Set<K>(Map<K, ()>);

/// The index of the first item that `is_it`, or of a new one after the others.
pub(crate) fn index_or_push<T>(items: &mut Vec<T>, is_it: impl Fn(&T) -> bool, new: impl FnOnce() -> T) -> usize {
    items.iter().position(is_it).unwrap_or_else(|| {
        items.push(new());
        items.len() - 1
    })
}

impl<K, V> Map<K, V> {
    pub(crate) const fn new() -> Self {
        Self { entries: Vec::new(), order: Order(Vec::new()) }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    #[cfg(feature = "record")]
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.order.indices().into_iter().map(|index| &self.entries[index]).map(|(key, value)| (key, value))
    }
}

impl<K, V> Default for Map<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Ord, V> Map<K, V> {
    fn find<Q: Ord + ?Sized>(&self, key: &Q) -> Result<usize, Place>
    where
        K: Borrow<Q>,
    {
        self.order.find(&|index| self.entries[index].0.borrow().cmp(key))
    }

    pub(crate) fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.find(key).ok().map(|index| &self.entries[index].1)
    }

    #[cfg(feature = "record")]
    pub(crate) fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        self.find(key).ok().map(|index| &mut self.entries[index].1)
    }

    pub(crate) fn contains_key<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.find(key).is_ok()
    }

    /// Inserts a new key. Returns the index of its entry.
    fn add(&mut self, place: Place, key: K, value: V) -> usize {
        self.order.insert(place, self.entries.len());
        self.entries.push((key, value));
        self.entries.len() - 1
    }

    /// The value of the key: `new` if it is not known.
    pub(crate) fn get_or_insert(&mut self, key: K, new: V) -> &mut V {
        let index = self.find(&key).unwrap_or_else(|place| self.add(place, key, new));
        &mut self.entries[index].1
    }

    /// Sets the value of the key.
    pub(crate) fn insert(&mut self, key: K, value: V) {
        match self.find(&key) {
            Ok(index) => self.entries[index].1 = value,
            Err(place) => _ = self.add(place, key, value),
        }
    }

    /// The value of the key: the default if it is not known.
    pub(crate) fn get_or_default(&mut self, key: K) -> &mut V
    where
        V: Default,
    {
        self.get_or_insert(key, V::default())
    }
}

impl<K, V> IntoIterator for Map<K, V> {
    type Item = (K, V);
    type IntoIter = std::vec::IntoIter<(K, V)>;

    fn into_iter(mut self) -> Self::IntoIter {
        arrange(self.order.indices(), |one, other| self.entries.swap(one, other));
        self.entries.into_iter()
    }
}

impl<K: Ord> Set<K> {
    pub(crate) const fn new() -> Self {
        Self(Map::new())
    }

    /// Returns whether the key is a new one.
    pub(crate) fn insert(&mut self, key: K) -> bool {
        let before = self.0.len();
        self.0.get_or_insert(key, ());
        self.0.len() > before
    }

    pub(crate) fn contains<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.0.contains_key(key)
    }
}

/// Collects into maps and sets.
pub(crate) trait Collect: Iterator + Sized {
    /// Of the values with the same key, the last one stays.
    fn collect_map<K: Ord, V>(self) -> Map<K, V>
    where
        Self: Iterator<Item = (K, V)>,
    {
        let mut map = Map::new();
        self.for_each(|(key, value)| map.insert(key, value));
        map
    }

    fn collect_set(self) -> Set<Self::Item>
    where
        Self::Item: Ord,
    {
        let mut set = Set::new();
        self.for_each(|item| _ = set.insert(item));
        set
    }
}

impl<I: Iterator> Collect for I {}

#[cfg(all(test, feature = "record"))]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn entries_are_in_the_order_of_their_keys() {
        // Ascending, descending and mixed keys, enough for many parts, and some of them twice.
        for key in [|n: u32| n, |n: u32| 10_000 - n, |n: u32| n.wrapping_mul(0x9e37_79b9) % 4_099] {
            let (mut map, mut expected) = (Map::<u32, u32>::new(), BTreeMap::new());
            for n in 0..5_000 {
                *map.get_or_default(key(n)) += n;
                *expected.entry(key(n)).or_default() += n;
                assert_eq!((map.len(), map.get(&key(n))), (expected.len(), expected.get(&key(n))));
            }
            assert!((0..12_000).all(|n| map.get(&n) == expected.get(&n)));
            assert!(map.iter().eq(&expected));
            assert!(map.into_iter().eq(expected));
        }
    }

    #[test]
    fn the_last_value_of_a_key_stays() {
        let map = [("b", 1), ("a", 2), ("b", 3)].into_iter().collect_map();
        assert_eq!(map.into_iter().collect::<Vec<_>>(), [("a", 2), ("b", 3)]);
    }

    #[test]
    fn a_set_has_each_key_once() {
        let mut set = ["b", "a", "b"].into_iter().collect_set();
        assert_eq!(["a", "b", "c"].map(|key| set.contains(key)), [true, true, false]);
        assert_eq!([set.insert("a"), set.insert("c")], [false, true]);
    }
}
