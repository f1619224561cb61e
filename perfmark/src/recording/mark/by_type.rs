//! A map from types to values. Any thread reads and adds without a lock, so that a fork at any moment leaves it
//! consistent.
//!
//! A list has all entries. A hash table may lack some: they are found in the list, and added to the table again. A full
//! table is replaced by one of twice its size. Nothing is ever freed, as readers may be anywhere.
#![allow(unsafe_code, reason = "pointers come from leaked boxes")]

use std::any::TypeId;
use std::hash::{Hash, Hasher};
use std::iter;
use std::ptr;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicPtr, AtomicUsize};

/// The values of some types.
#[derive(Debug)]
pub(crate) struct ByType<T: 'static, K: 'static = TypeId>(AtomicPtr<Table<K, T>>);

#[derive(Debug)]
struct Entry<K: 'static, T: 'static> {
    key: K,
    value: &'static T,
    next: *const Self,
}

#[derive(Debug)]
struct Table<K: 'static, T: 'static> {
    /// Their number is a power of two, and at least half of them are null. An entry is in the first free slot, starting
    /// from its key's hash.
    slots: Box<[AtomicPtr<Entry<K, T>>]>,
    /// Their number minus one.
    mask: usize,
    /// The number of entries that were added, or are about to be.
    used: AtomicUsize,
    /// All entries, the last one first; the same for all tables.
    all: &'static AtomicPtr<Entry<K, T>>,
    /// The previous table, for leak checkers.
    #[allow(dead_code, reason = "keeps it reachable")]
    smaller: *const Self,
}

/// Slots of the first table.
const FIRST: usize = 8;

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
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// The value of the type, in about ten instructions.
    #[inline]
    pub(crate) fn find(&self, key: K) -> Option<&'static T> {
        // SAFETY: null, or a leaked table.
        let table = unsafe { self.0.load(Acquire).as_ref() }?;
        let entry = table.at(hash(&key) as usize)?;
        if entry.key == key { Some(entry.value) } else { table.find_further(key) }
    }

    /// All values, that of the type added last first.
    pub(crate) fn values(&self) -> impl Iterator<Item = &'static T> {
        // SAFETY: null, or a leaked table.
        let table = unsafe { self.0.load(Acquire).as_ref::<'static>() };
        let first = table.map_or(ptr::null(), |table| table.all.load(Acquire).cast_const());
        entries(first).map(|entry| entry.value)
    }

    /// The value of the type, created if there is none. It allocates.
    pub(crate) fn find_or_add(&self, key: K, make: impl Fn() -> &'static T) -> &'static T {
        let all = self.table().all;
        loop {
            let first = all.load(Acquire);
            if let Some(known) = entries(first).find(|entry| entry.key == key) {
                self.put(known);
                return known.value;
            }
            let value = make();
            let entry = Box::into_raw(Box::new(Entry { key, value, next: first }));
            // It fails if another thread was first.
            if all.compare_exchange(first, entry, AcqRel, Relaxed).is_ok() {
                // SAFETY: leaked just now.
                self.put(unsafe { &*entry });
                return value;
            }
            // SAFETY: nobody else has seen it.
            drop(unsafe { Box::from_raw(entry) });
        }
    }

    /// The table, created if there is none.
    fn table(&self) -> &'static Table<K, T> {
        // SAFETY: null, or a leaked table.
        if let Some(table) = unsafe { self.0.load(Acquire).as_ref() } {
            return table;
        }
        let all = Box::leak(Box::new(AtomicPtr::new(ptr::null_mut())));
        self.replace(ptr::null_mut(), Table::new(FIRST, all, ptr::null()))
    }

    /// Replaces a table by another one, unless it was replaced already. Returns the current table.
    fn replace(&self, before: *mut Table<K, T>, fresh: Table<K, T>) -> &'static Table<K, T> {
        let fresh = Box::into_raw(Box::new(fresh));
        match self.0.compare_exchange(before, fresh, AcqRel, Acquire) {
            // SAFETY: leaked just now.
            Ok(_) => unsafe { &*fresh },
            Err(now) => {
                // SAFETY: nobody else has seen it; there is a leaked table, the one before or another thread's.
                unsafe {
                    drop(Box::from_raw(fresh));
                    &*now
                }
            }
        }
    }

    /// Adds an entry of the list to the table.
    fn put(&self, entry: &'static Entry<K, T>) {
        let mut table = self.table();
        while !table.put(entry) {
            let before = ptr::from_ref(table).cast_mut();
            let fresh = Table::new(2 * table.slots.len(), table.all, before);
            // If there are more entries by now than it has room for, the next table gets them.
            _ = entries(table.all.load(Acquire)).all(|entry| fresh.put(entry));
            table = self.replace(before, fresh);
        }
    }
}

impl<K: Copy + Eq + Hash, T> Table<K, T> {
    fn new(slots: usize, all: &'static AtomicPtr<Entry<K, T>>, smaller: *const Self) -> Self {
        let mask = slots - 1;
        let slots = iter::repeat_with(|| AtomicPtr::new(ptr::null_mut())).take(slots).collect();
        Self { slots, mask, used: AtomicUsize::new(0), all, smaller }
    }

    /// The entry at the slot of that hash.
    #[inline]
    fn at(&self, hash: usize) -> Option<&'static Entry<K, T>> {
        // SAFETY: there are as many slots as the mask says; null, or a leaked entry.
        unsafe { self.slots.get_unchecked(hash & self.mask).load(Acquire).as_ref() }
    }

    /// Continues the search if the first slot has another type's entry. It ends at a free slot, because at least half
    /// of them are free.
    #[inline(never)]
    fn find_further(&self, key: K) -> Option<&'static T> {
        let mut at = hash(&key) as usize;
        loop {
            at = at.wrapping_add(1);
            let entry = self.at(at)?;
            if entry.key == key {
                return Some(entry.value);
            }
        }
    }

    /// `false` if that would fill more than half of the table.
    fn put(&self, entry: &'static Entry<K, T>) -> bool {
        let (mask, fresh) = (self.mask, ptr::from_ref(entry).cast_mut());
        let mut at = hash(&entry.key) as usize;
        // An entry that is there already takes no more room.
        let is_there = || {
            let mut at = at;
            loop {
                let there = self.slots[at & mask].load(Acquire);
                if there.is_null() || ptr::eq(there, fresh) {
                    return !there.is_null();
                }
                at = at.wrapping_add(1);
            }
        };
        if is_there() {
            return true;
        }
        if 2 * (self.used.fetch_add(1, Relaxed) + 1) > self.slots.len() {
            return false;
        }
        loop {
            let slot = &self.slots[at & mask];
            match slot.compare_exchange(ptr::null_mut(), fresh, Release, Acquire) {
                Ok(_) => return true,
                Err(there) if ptr::eq(there, fresh) => return true,
                Err(_) => at = at.wrapping_add(1),
            }
        }
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
        // They begin at the same slot.
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
