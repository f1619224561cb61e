//! Marks: one static for each marked function, known before `main` or from its first call on.

use std::any::TypeId;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicI64, AtomicPtr, AtomicU32, AtomicU64};
use std::{iter, ptr};

use super::by_type::{self, ByType};
use super::entry::{self, SLOTS};
use crate::snapshot::path;

/// One marked function. The attribute creates a static of this type.
#[derive(Debug)]
#[repr(C)]
pub struct Mark {
    head: Head,
    pub(crate) name: &'static str,
    path: Path,
    /// The module that contains it.
    pub(crate) module: &'static str,
    pub(crate) file: &'static str,
    /// Its events, one per line; empty for the default set.
    pub(crate) events: &'static str,
    pub(crate) line: u32,
    /// One call in so many is measured; 0 if the mark does not specify it.
    pub(crate) every: u32,
    pub(crate) mode: CallMode,
    /// A number from 1 on, assigned at the first call; 0 until then.
    index: AtomicU32,
    /// What its calls do: see [`entry`](super::entry).
    entry: AtomicI64,
    /// Its slot in every thread's table, or the slot that it had before it was switched off: the index, or one for
    /// other settings. 0 if it has none.
    slot: AtomicU64,
    /// The next mark in the list of called marks: the one called before this one.
    next: AtomicPtr<Self>,
    /// The marks of a generic function by its types so far, if they have separate marks.
    pub(crate) by_types: ByType<Self>,
    /// The number of calls while perfmark was at work on their thread: counted only.
    pub(crate) interrupted: AtomicU64,
    /// The number of calls on threads without a recorder: counted only.
    pub(crate) unrecorded: AtomicU64,
    /// The number of async calls that were dropped before they were ready.
    pub(crate) cancelled: AtomicU64,
    /// Of these and of the unrecorded ones, the number that a thread had counted as begun.
    pub(crate) gone: AtomicU64,
    /// The number of calls within budgets. A thread adds its own when it looks at its budget.
    pub(crate) within_budgets: AtomicU64,
}

/// The beginning of a mark.
///
/// Marks of several versions of perfmark are in the same section. So every version keeps this struct, its alignment of
/// 8 bytes, and the section's name. In every version, a zero word fills a gap and is not a mark.
#[derive(Debug)]
#[repr(C, align(8))]
pub(crate) struct Head {
    pub(crate) copy: Option<&'static CopyInfo>,
}

/// Identifies the copy of perfmark that created a mark, by the address of this value.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct CopyInfo {
    /// The size of its marks in bytes.
    pub(crate) size: usize,
}

/// The identity of this copy's marks.
pub(crate) static THIS_COPY: CopyInfo = CopyInfo { size: size_of::<Mark>() };

const _: () = assert!(size_of::<Head>() == 8 && align_of::<Mark>() == align_of::<Head>());

/// The source of the function's path, which only `type_name` knows.
#[derive(Clone, Copy, Debug)]
enum Path {
    /// The name of a type in the function.
    Within(fn() -> &'static str),
    /// The path itself, with the function's types.
    Complete(&'static Types),
}

/// The types of a generic function.
#[derive(Debug)]
struct Types {
    path: &'static str,
    hash: u32,
}

/// Which calls are measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Measured {
    #[default]
    All,
    /// Those that a budget allows.
    WithinBudget,
    /// Those in bursts.
    InBursts,
}

/// The mode of a mark's calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CallMode {
    /// Whether the processor finishes the instructions before each reading.
    pub(crate) is_fenced: bool,
    /// Whether a call consists of polls.
    pub(crate) is_polled: bool,
    pub(crate) measured: Measured,
    /// The number of the sampling that the calls take part in; 0 for none.
    pub(crate) sampling: u8,
}

/// Indices and slots up to this one are for marks that are in no list. 0 and 1 are none.
const HIDDEN: u32 = 11;
/// The slot in the entry of marks that have none. No thread has a plan there.
const NO_SLOT: u32 = HIDDEN;

/// The marks called so far, the last one first.
static CALLED: AtomicPtr<Mark> = AtomicPtr::new(ptr::null_mut());
static INDICES: AtomicU32 = AtomicU32::new(HIDDEN);

impl Mark {
    /// A mark of perfmark itself. Other marks copy the fields from it that are the same in all before their first call:
    /// otherwise the compiler would evaluate them for each mark.
    #[allow(clippy::declare_interior_mutable_const, reason = "it is copied only")]
    const OWN_MARK: Self = Self {
        head: Head { copy: None },
        name: "",
        path: Path::Complete(&Types { path: "", hash: 0 }),
        module: "",
        file: "",
        line: 0,
        events: "",
        every: 0,
        mode: CallMode { is_fenced: false, is_polled: false, measured: Measured::All, sampling: 0 },
        index: AtomicU32::new(0),
        entry: AtomicI64::new(NO_SLOT as i64),
        slot: AtomicU64::new(0),
        next: AtomicPtr::new(ptr::null_mut()),
        by_types: ByType::new(),
        interrupted: AtomicU64::new(0),
        unrecorded: AtomicU64::new(0),
        cancelled: AtomicU64::new(0),
        gone: AtomicU64::new(0),
        within_budgets: AtomicU64::new(0),
    };

    /// Called only by the attribute's expansion, with a type that is defined inside the function.
    ///
    /// It takes few references, and a type instead of a function or closure, because the compiler evaluates each of
    /// them for each mark.
    #[must_use]
    pub const fn new<Here>(
        name: &'static str,
        (module, file, line): (&'static str, &'static str, u32),
        events: &'static str,
        every: u32,
        is_fenced: bool,
    ) -> Self {
        Self {
            head: Head { copy: Some(&THIS_COPY) },
            name,
            path: Path::Within(std::any::type_name::<Here>),
            module,
            file,
            line,
            events,
            every,
            mode: CallMode { is_fenced, is_polled: false, measured: Measured::All, sampling: 0 },
            ..Self::OWN_MARK
        }
    }

    /// The same mark with calls that consist of polls.
    #[must_use]
    pub const fn polled(self) -> Self {
        Self { mode: CallMode { is_polled: true, ..self.mode }, ..self }
    }

    /// Forgets the calls that are counted here and not in threads' cells.
    pub(crate) fn forget(&self) {
        for count in [&self.interrupted, &self.unrecorded, &self.cancelled, &self.gone, &self.within_budgets] {
            count.store(0, Relaxed);
        }
    }

    /// A mark of perfmark itself, in no list, with that index and slot.
    pub(crate) const fn hidden(index: u32) -> Self {
        let (entry, slot) = (AtomicI64::new(index as i64), AtomicU64::new(index as u64));
        Self { index: AtomicU32::new(index), entry, slot, ..Self::OWN_MARK }
    }

    /// The mark's number in this process; 0 before its first call.
    pub(crate) fn index(&self) -> u32 {
        self.index.load(Relaxed)
    }

    /// What its calls do: see [`entry`](super::entry).
    #[inline]
    pub(crate) fn entry(&self) -> i64 {
        self.entry.load(Relaxed)
    }

    /// The mark's slot in every thread's table, below [`SLOTS`], or the one that it had before it was switched off; 0
    /// if it has none.
    #[inline]
    pub(crate) fn slot(&self) -> u64 {
        self.slot.load(Relaxed)
    }

    /// Whether its calls do nothing.
    #[inline]
    pub(crate) fn is_off(&self) -> bool {
        entry::is_off(self.entry())
    }

    /// The slot for the mark's own settings; 0 if there is none.
    pub(crate) fn own_slot(&self) -> u32 {
        let index = self.index();
        if (index as usize) < SLOTS { index } else { 0 }
    }

    /// Sets the slot in which calls find their plans from now on. If it `skips`, the marked function skips calls in
    /// gaps itself, where it can.
    pub(crate) fn set_slot(&self, slot: u32, skips: bool) {
        self.slot.store(slot.into(), SeqCst);
        let entry = match slot {
            0 => NO_SLOT.into(),
            slot if skips => entry::skipping(slot),
            slot => slot.into(),
        };
        self.entry.store(entry, SeqCst);
    }

    /// From now on its calls do nothing. The slot still identifies the settings of what it recorded last.
    pub(crate) fn switch_off(&self) {
        self.entry.store(entry::OFF, SeqCst);
    }

    /// Gives the mark its index and lists it as called, once.
    ///
    /// The list is threaded through the marks themselves, without a lock, so that a fork at any moment leaves it
    /// consistent. In the child, only a mark that another thread registered at that moment may be missing.
    pub(crate) fn register(&'static self) {
        if self.index() != 0 {
            return;
        }
        let fresh = INDICES.fetch_add(1, Relaxed) + 1;
        if self.index.compare_exchange(0, fresh, Relaxed, Relaxed).is_err() {
            return;
        }
        let this = ptr::from_ref(self).cast_mut();
        // Sequentially consistent with setting a filter: either the filter is applied to the listed mark, or the mark's
        // first call finds the filter.
        _ = CALLED.fetch_update(SeqCst, Relaxed, |head| {
            self.next.store(head, Relaxed);
            Some(this)
        });
    }

    /// The full path of the marked function.
    pub(crate) fn full_path(&self) -> String {
        path::readable(match self.path {
            Path::Within(item) => item().rsplit_once("::").map_or("", |(function, _)| function),
            Path::Complete(types) => types.path,
        })
    }

    /// The text that filters are compared with: the path, with the name appended if it differs.
    pub(crate) fn target(&self) -> String {
        path::target(self.full_path(), self.name)
    }

    /// The mark for these types, of that name, created if there is none. It allocates.
    pub(crate) fn add_types(&'static self, id: TypeId, types: &'static str) -> &'static Self {
        self.by_types.find_or_add(id, || Box::leak(Box::new(self.for_types(id, types))))
    }

    /// A hash of its types; 0 if it has none.
    pub(crate) fn type_hash(&self) -> u32 {
        match self.path {
            Path::Within(_) => 0,
            Path::Complete(types) => types.hash,
        }
    }

    fn for_types(&self, id: TypeId, types: &'static str) -> Self {
        let path = path::readable(types);
        let arguments =
            path::end(&path, 1).split_once('<').map_or(String::new(), |(_, arguments)| format!("<{arguments}"));
        let name = format!("{}{arguments}", self.name).leak();
        let location = (self.module, self.file, self.line);
        let fresh = Self::new::<()>(name, location, self.events, self.every, self.mode.is_fenced);
        let types = Box::leak(Box::new(Types { path: types, hash: by_type::hash(&id) }));
        Self { path: Path::Complete(types), mode: self.mode, ..fresh }
    }
}

/// Takes a free slot; `None` if there is none.
pub(crate) fn new_slot() -> Option<u32> {
    let last = u32::try_from(SLOTS).ok()?;
    INDICES
        .fetch_update(Relaxed, Relaxed, |index| (index + 1 < last).then_some(index + 1))
        .ok()
        .map(|before| before + 1)
}

/// Every mark called so far.
#[allow(unsafe_code, reason = "the list's pointers come from static references")]
pub(crate) fn called() -> impl Iterator<Item = &'static Mark> {
    // SAFETY: null, or a `&'static Mark` stored by `register`.
    let deref = |mark: *mut Mark| unsafe { mark.as_ref::<'static>() };
    iter::successors(deref(CALLED.load(SeqCst)), move |mark| deref(mark.next.load(Relaxed)))
}
