//! A map from types to values. Any thread reads and adds without a lock, so that a fork at any moment leaves it
//! consistent. Nothing is ever freed, as readers may be anywhere.
#![allow(unsafe_code, reason = "pointers come from leaked boxes")]

use std::any::TypeId;
use std::hash::{Hash, Hasher};
use std::iter;
use std::panic::RefUnwindSafe;
use std::ptr;
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use once_cell::race::OnceRef;

/// The values of some types. There is no table of lists before the first value.
#[derive(Debug)]
pub(crate) struct ByType<T: 'static, K: 'static = TypeId>(OnceRef<'static, [List<K, T>; LISTS]>);

// `OnceRef` does not implement it. The table is set once, so no panic leaves it half changed.
impl<T, K> RefUnwindSafe for ByType<T, K> {}

/// The entries whose keys have the same hash, the last one first.
type List<K, T> = AtomicPtr<Entry<K, T>>;

/// A power of two. With some hundred types, a list has an entry or two.
const LISTS: usize = 256;

#[derive(Debug)]
struct Entry<K: 'static, T: 'static> {
    key: K,
    value: &'static T,
    next: *const Self,
}

/// The last word of a key. A `TypeId` is a hash itself, which is known when the program is compiled.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "a part of a hash is a hash, too")]
pub(super) fn hash(key: &impl Hash) -> u32 {
    struct LastWord(u64);

    impl Hasher for LastWord {
        #[inline]
        fn write_u64(&mut self, word: u64) {
            self.0 = word;
        }

        #[inline]
        fn write(&mut self, bytes: &[u8]) {
            for &byte in bytes {
                self.0 = self.0 << 8 | u64::from(byte);
            }
        }

        #[inline]
        fn finish(&self) -> u64 {
            self.0
        }
    }

    let mut hasher = LastWord(0);
    key.hash(&mut hasher);
    hasher.finish() as u32
}

impl<K: Copy + Eq + Hash, T> ByType<T, K> {
    pub(crate) const fn new() -> Self {
        Self(OnceRef::new())
    }

    /// The value of the type, in about ten instructions.
    #[inline]
    pub(crate) fn find(&self, key: K) -> Option<&'static T> {
        let first = self.0.get()?[hash(&key) as usize % LISTS].load(Acquire);
        // SAFETY: null, or a leaked entry.
        let entry = unsafe { first.as_ref() }?;
        if entry.key == key { Some(entry.value) } else { entry.find_further(key) }
    }

    /// All values.
    pub(crate) fn values(&self) -> impl Iterator<Item = &'static T> {
        let lists = self.0.get().into_iter().flatten();
        lists.flat_map(|list| entries(list.load(Acquire))).map(|entry| entry.value)
    }

    /// The value of the type, created if there is none. It allocates.
    pub(crate) fn find_or_add(&self, key: K, make: impl Fn() -> &'static T) -> &'static T {
        // Of threads that create it at the same time, all but one leak theirs.
        let fresh = || &*Box::leak(Box::new([const { AtomicPtr::new(ptr::null_mut()) }; LISTS]));
        let lists = self.0.get_or_init(fresh);
        let list = &lists[hash(&key) as usize % LISTS];
        loop {
            let first = list.load(Acquire);
            if let Some(known) = entries(first).find(|entry| entry.key == key) {
                return known.value;
            }
            let value = make();
            let entry = Box::into_raw(Box::new(Entry { key, value, next: first }));
            // It fails if another thread was first.
            if list.compare_exchange(first, entry, AcqRel, Relaxed).is_ok() {
                return value;
            }
            // SAFETY: nobody else has seen it.
            drop(unsafe { Box::from_raw(entry) });
        }
    }
}

impl<K: Copy + Eq, T> Entry<K, T> {
    /// The value of the type, which is not this entry's.
    #[inline(never)]
    fn find_further(&self, key: K) -> Option<&'static T> {
        entries(self.next).find(|entry| entry.key == key).map(|entry| entry.value)
    }
}

fn entries<K, T>(first: *const Entry<K, T>) -> impl Iterator<Item = &'static Entry<K, T>> {
    // SAFETY: null, or a leaked entry.
    let deref = |entry: *const Entry<K, T>| unsafe { entry.as_ref::<'static>() };
    iter::successors(deref(first), move |entry| deref(entry.next))
}

#[cfg(all(test, not(perfmark_loom)))]
mod tests {
    use std::thread;

    use super::*;

    fn leaked(key: u64) -> &'static u64 {
        Box::leak(Box::new(key))
    }

    #[test]
    fn each_type_keeps_its_value_while_others_are_added() {
        let map = ByType::new();
        assert_eq!(map.find(0), None);
        // They are in the same list.
        let keys = || (0..1_000).map(|n| n << 32);
        for key in keys() {
            assert_eq!(map.find_or_add(key, || leaked(key)), &key);
            assert_eq!(map.find(key), Some(&key));
        }
        assert!(keys().all(|key| map.find(key) == Some(&key)));
        assert!(map.values().copied().eq(keys().rev()));
    }

    #[test]
    fn the_hash_of_a_type_is_a_part_of_its_id() {
        assert_ne!(hash(&TypeId::of::<u8>()), hash(&TypeId::of::<u16>()));
        assert_eq!(hash(&TypeId::of::<u8>()), hash(&TypeId::of::<u8>()));
    }

    #[test]
    fn threads_that_add_the_same_types_agree() {
        let count = if cfg!(miri) { 20 } else { 500 };
        let map = &ByType::new();
        let found: Vec<Vec<&u64>> = thread::scope(|scope| {
            let add = move || (0..count).map(|key| map.find_or_add(key, || leaked(key))).collect();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(add)).collect();
            threads.into_iter().map(|thread| thread.join().expect("it does not panic")).collect()
        });
        for (at, key) in (0..count).enumerate() {
            let value = map.find_or_add(key, || unreachable!("it is there"));
            assert!(found.iter().all(|found| ptr::eq(found[at], value)), "{key}");
        }
        assert_eq!(map.values().count() as u64, count);
    }
}
