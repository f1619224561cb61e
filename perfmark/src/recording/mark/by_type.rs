//! A map from static strings of the program to values, by the string's address. Any thread reads and adds without a
//! lock, so that a fork at any moment leaves it consistent.
//!
//! A list has all entries. A hash table of addresses may lack some: these are found in the list, and added to the table
//! again. A full table is replaced by one of twice its size. Nothing is ever freed, as readers may be anywhere.
#![allow(unsafe_code, reason = "pointers come from leaked boxes")]

use std::iter;
use std::ptr;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicPtr, AtomicUsize};

/// The values of some strings.
#[derive(Debug)]
pub(crate) struct ByAddress<T: 'static>(AtomicPtr<Table<T>>);

/// The same text may be at several addresses, each of which has an entry.
#[derive(Debug)]
struct Entry<T: 'static> {
    text: &'static str,
    value: &'static T,
    next: *const Self,
}

#[derive(Debug)]
struct Table<T: 'static> {
    /// Their number is a power of two, and at least half of them are null. An entry is in the first free slot, starting
    /// from its address's hash.
    slots: Box<[AtomicPtr<Entry<T>>]>,
    /// Their number minus one.
    mask: usize,
    /// The number of entries that were added, or are about to be.
    used: AtomicUsize,
    /// All entries, the last one first; the same for all tables.
    all: &'static AtomicPtr<Entry<T>>,
    /// The previous table, for leak checkers.
    #[allow(dead_code, reason = "keeps it reachable")]
    smaller: *const Self,
}

/// Slots of the first table.
const FIRST: usize = 8;

/// Strings are stored one after another, and are about ten bytes long.
#[inline]
fn hash(text: &str) -> usize {
    let address = text.as_ptr().addr();
    address ^ (address >> 5)
}

impl<T> ByAddress<T> {
    pub(crate) const fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// The value of the string at this address, in about ten instructions.
    #[inline]
    pub(crate) fn find(&self, text: &'static str) -> Option<&'static T> {
        // SAFETY: null, or a leaked table.
        let table = unsafe { self.0.load(Acquire).as_ref() }?;
        let entry = table.at(hash(text))?;
        if entry.is_of(text) { Some(entry.value) } else { table.find_further(text) }
    }

    /// All strings with their values.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'static str, &'static T)> {
        // SAFETY: null, or a leaked table.
        let table = unsafe { self.0.load(Acquire).as_ref::<'static>() };
        let first = table.map_or(ptr::null(), |table| table.all.load(Acquire).cast_const());
        entries(first).map(|entry| (entry.text, entry.value))
    }

    /// The value of the text, which is the same for all addresses of that text; created if there is none. It allocates.
    pub(crate) fn find_or_add(&self, text: &'static str, make: impl Fn() -> &'static T) -> &'static T {
        let all = self.table().all;
        loop {
            let first = all.load(Acquire);
            if let Some(known) = entries(first).find(|entry| ptr::eq(entry.text, text)) {
                self.put(known);
                return known.value;
            }
            let value = entries(first).find(|entry| entry.text == text).map_or_else(&make, |entry| entry.value);
            let entry = Box::into_raw(Box::new(Entry { text, value, next: first }));
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
    fn table(&self) -> &'static Table<T> {
        // SAFETY: null, or a leaked table.
        if let Some(table) = unsafe { self.0.load(Acquire).as_ref() } {
            return table;
        }
        let all = Box::leak(Box::new(AtomicPtr::new(ptr::null_mut())));
        self.replace(ptr::null_mut(), Table::new(FIRST, all, ptr::null()))
    }

    /// Replaces a table by another one, unless it was replaced already. Returns the current table.
    fn replace(&self, before: *mut Table<T>, fresh: Table<T>) -> &'static Table<T> {
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
    fn put(&self, entry: &'static Entry<T>) {
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

impl<T> Entry<T> {
    /// Whether it is this text at this address. `&` instead of `&&` compares both without a branch.
    #[inline]
    fn is_of(&self, text: &'static str) -> bool {
        (self.text.as_ptr() == text.as_ptr()) & (self.text.len() == text.len())
    }
}

impl<T> Table<T> {
    fn new(slots: usize, all: &'static AtomicPtr<Entry<T>>, smaller: *const Self) -> Self {
        let mask = slots - 1;
        let slots = iter::repeat_with(|| AtomicPtr::new(ptr::null_mut())).take(slots).collect();
        Self { slots, mask, used: AtomicUsize::new(0), all, smaller }
    }

    /// The entry at the slot of that hash.
    #[inline]
    fn at(&self, hash: usize) -> Option<&'static Entry<T>> {
        // SAFETY: there are as many slots as the mask says; null, or a leaked entry.
        unsafe { self.slots.get_unchecked(hash & self.mask).load(Acquire).as_ref() }
    }

    /// Continues the search if the first slot has another string's entry. It ends at a free slot, because at least half
    /// of them are free.
    #[inline(never)]
    fn find_further(&self, text: &'static str) -> Option<&'static T> {
        let mut at = hash(text);
        loop {
            at = at.wrapping_add(1);
            let entry = self.at(at)?;
            if entry.is_of(text) {
                return Some(entry.value);
            }
        }
    }

    /// `false` if that would fill more than half of the table.
    fn put(&self, entry: &'static Entry<T>) -> bool {
        let (mask, fresh) = (self.mask, ptr::from_ref(entry).cast_mut());
        let mut at = hash(entry.text);
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

fn entries<T>(first: *const Entry<T>) -> impl Iterator<Item = &'static Entry<T>> {
    // SAFETY: null, or a leaked entry.
    let deref = |entry: *const Entry<T>| unsafe { entry.as_ref::<'static>() };
    iter::successors(deref(first), move |entry| deref(entry.next))
}

#[cfg(all(test, not(perfmark_loom)))]
mod tests {
    use std::thread;

    use super::*;

    fn texts(count: usize) -> Vec<&'static str> {
        (0..count).map(|n| &*Box::leak(format!("a text, number {n}").into_boxed_str())).collect()
    }

    #[test]
    fn each_text_keeps_its_value_while_others_are_added() {
        let (map, texts) = (ByAddress::new(), texts(1_000));
        assert_eq!(map.find(texts[0]), None);
        for &text in &texts {
            assert_eq!(map.find_or_add(text, || Box::leak(Box::new(text.to_owned()))), text);
            assert_eq!(map.find(text).map(String::as_str), Some(text));
        }
        assert!(texts.iter().all(|&text| map.find(text).is_some_and(|value| value == text)));
        assert_eq!(map.iter().count(), texts.len());
    }

    #[test]
    fn a_text_has_one_value_at_all_addresses() {
        let (map, here, there) = (ByAddress::new(), texts(1)[0], texts(1)[0]);
        let make = || &*Box::leak(Box::new(0));
        let value = map.find_or_add(here, make);
        assert!(map.find(there).is_none());
        assert!(ptr::eq(map.find_or_add(there, make), value) && ptr::eq(map.find(there).expect("added"), value));
    }

    #[test]
    fn threads_that_add_the_same_texts_agree() {
        let count = if cfg!(miri) { 20 } else { 500 };
        let (map, texts) = (&ByAddress::new(), &texts(count));
        let found: Vec<Vec<&usize>> = thread::scope(|scope| {
            let add = move || texts.iter().map(|text| map.find_or_add(text, || Box::leak(Box::new(0)))).collect();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(add)).collect();
            threads.into_iter().map(|thread| thread.join().expect("it does not panic")).collect()
        });
        for (n, text) in texts.iter().enumerate() {
            let value = map.find_or_add(text, || unreachable!("it is there"));
            assert!(found.iter().all(|found| ptr::eq(found[n], value)), "{text}");
        }
        assert_eq!(map.iter().count(), count);
    }
}
