//! The marks known before `main`: those that are linked into the program or the library that contains perfmark.
//!
//! If the linker defines symbols for the start and the end of a section, marks are in a section of their own, and
//! inventory lists the complete section. Otherwise it lists each mark. That requires two more statics and a constructor
//! for each mark, which take the compiler longer than everything else in a mark.

use std::sync::atomic::AtomicU64;
use std::{iter, ptr};

use super::definition::{self, Head, Mark};
use crate::compact::{Collect as _, sort_by};

/// Marks in a row in memory, perhaps with gaps, and with marks of another version of perfmark between them.
#[derive(Debug)]
pub struct Batch {
    first: *const Head,
    end: *const Head,
    /// Keeps the section from being empty.
    _gap: Option<&'static AtomicU64>,
}

inventory::collect!(Batch);

#[allow(unsafe_code, reason = "pointers to statics that may be shared")]
// SAFETY: the pointers refer to marks, which are `Sync`.
unsafe impl Sync for Batch {}

impl Batch {
    /// A batch of one mark. Called only by the attribute's expansion.
    #[must_use]
    pub const fn of(mark: &'static Mark) -> Self {
        let first = ptr::from_ref(mark);
        Self { first: first.cast(), end: first.wrapping_add(1).cast(), _gap: None }
    }

    #[allow(unsafe_code, reason = "only the heads of the section's content are known")]
    fn marks(&self) -> impl Iterator<Item = &'static Mark> {
        let (mut next, end) = (self.first, self.end);
        let all = iter::from_fn(move || {
            let here = next;
            // SAFETY: up to the end there are marks of any version in a row, with zeroes between them.
            let copy = (here < end).then(|| unsafe { (*here).copy })?;
            next = here.wrapping_byte_add(copy.map_or(size_of::<Head>(), |copy| copy.size));
            Some((here, copy))
        });
        let ours = all.filter(|&(_, copy)| copy.is_some_and(|copy| ptr::eq(copy, &raw const definition::THIS_COPY)));
        // SAFETY: `Mark::new` of this copy of perfmark created it, in a static that the attribute defines.
        ours.map(|(here, _)| unsafe { &*here.cast::<Mark>() })
    }
}

#[cfg(all(target_os = "linux", not(miri)))]
mod section {
    use std::sync::atomic::AtomicU64;

    use super::Batch;

    #[allow(unsafe_code, reason = "the linker defines them")]
    unsafe extern "C" {
        #[link_name = "__start_perfmark_marks"]
        static FIRST: [u8; 0];
        #[link_name = "__stop_perfmark_marks"]
        static END: [u8; 0];
    }

    /// Without any content there would be no section, and its symbols would be undefined. It is writable, like marks.
    #[allow(unsafe_code, reason = "it is in the section of marks")]
    #[unsafe(link_section = "perfmark_marks")]
    static GAP: AtomicU64 = AtomicU64::new(0);

    inventory::submit! { Batch { first: (&raw const FIRST).cast(), end: (&raw const END).cast(), _gap: Some(&GAP) } }
}

/// The marks that inventory collected, including generic functions with a mark for each set of types.
pub(crate) fn collected() -> impl Iterator<Item = &'static Mark> {
    inventory::iter::<Batch>.into_iter().flat_map(Batch::marks)
}

/// Every known mark: those that inventory collected, and those that were called without being collected.
pub(crate) fn all() -> Vec<&'static Mark> {
    let mut all: Vec<_> = collected().collect();
    let collected = all.iter().map(|&mark| ptr::from_ref(mark)).collect_set();
    // The marks of a generic function's types replace its own.
    all.retain(|mark| !mark.by_types.values().any(|mark| mark.index() != 0));
    all.extend(definition::called().filter(|&mark| !collected.contains(&ptr::from_ref(mark))));
    all
}

/// Every known mark with its path, in the order of a snapshot.
pub(crate) fn in_order() -> Vec<(&'static Mark, String)> {
    let mut marks: Vec<_> = all().into_iter().map(|mark| (mark, mark.full_path())).collect();
    sort_by(&mut marks, |(one, path), (other, others_path)| {
        (one.file, one.line, path, one.type_hash()).cmp(&(other.file, other.line, others_path, other.type_hash()))
    });
    marks
}

#[cfg(test)]
mod tests {
    use std::ptr;

    use super::Batch;
    use crate::recording::mark::definition::{CopyInfo, Head, Mark};

    /// A mark as another version of perfmark might define it.
    #[repr(C)]
    struct OtherMark {
        head: Head,
        more: [u64; 5],
    }

    static OTHER_COPY: CopyInfo = CopyInfo { size: size_of::<OtherMark>() };

    #[repr(C)]
    struct Section {
        gap: u64,
        one: Mark,
        gap_before_others: [u64; 3],
        others: [OtherMark; 2],
        two: Mark,
        three: Mark,
        last_gap: [u64; 2],
    }

    const fn mark(name: &'static str) -> Mark {
        Mark::new::<()>(name, ("", "", 0), "", 0, false)
    }

    const fn others() -> OtherMark {
        OtherMark { head: Head { copy: Some(&OTHER_COPY) }, more: [u64::MAX; 5] }
    }

    static SECTION: Section = Section {
        gap: 0,
        one: mark("one"),
        gap_before_others: [0; 3],
        others: [others(), others()],
        two: mark("two"),
        three: mark("three"),
        last_gap: [0; 2],
    };

    #[test]
    fn marks_are_found_between_gaps_and_another_versions_marks() {
        let first = ptr::from_ref(&SECTION).cast();
        let section = Batch { first, end: ptr::from_ref(&SECTION).wrapping_add(1).cast(), _gap: None };
        assert_eq!(section.marks().map(|mark| mark.name).collect::<Vec<_>>(), ["one", "two", "three"]);
        assert_eq!(Batch::of(&SECTION.two).marks().map(|mark| mark.name).collect::<Vec<_>>(), ["two"]);
    }
}
