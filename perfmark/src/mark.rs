//! A marked function: one static, known before `main`, or since its first call.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64};
use std::{iter, ptr};

use crate::by_address::ByAddress;
use crate::path;

/// One marked function. The attribute makes a static of it.
#[derive(Debug)]
#[repr(C)]
pub struct Mark {
    head: Head,
    pub(crate) name: &'static str,
    path: Path,
    /// The module that it is in.
    pub(crate) module: &'static str,
    pub(crate) file: &'static str,
    /// The events that it asks for, a line each; none means the default set.
    pub(crate) events: &'static str,
    pub(crate) line: u32,
    /// One call in so many is measured; 0 where it does not say.
    pub(crate) every: u32,
    pub(crate) manner: Manner,
    /// From 1 on, given at the first call; 0 until then.
    index: AtomicU32,
    /// Where every thread's table has it: the index, or 0 where that is unknown or beyond the table, or [`OFF`].
    slot: AtomicU64,
    /// The mark called before this one, in the list of those called.
    next: AtomicPtr<Self>,
    /// The marks of a generic function by its types, if it has them.
    by_types: ByAddress<Self>,
    /// Calls met while perfmark was at work on their thread: counted only.
    pub(crate) interrupted: AtomicU64,
    /// Calls on threads that have no recorder, or none any more: counted only.
    pub(crate) unrecorded: AtomicU64,
    /// Calls that are made of polls, and were dropped in their middle.
    pub(crate) cancelled: AtomicU64,
    /// Of these and of the unrecorded ones, those that a thread had counted as begun.
    pub(crate) gone: AtomicU64,
}

/// What a mark begins with.
///
/// Marks of several versions of perfmark lie side by side in one section. So this, that it is aligned to 8 bytes, that a word of zeroes is none but fills a
/// gap, and the section's name, are the same in every version.
#[derive(Debug)]
#[repr(C, align(8))]
pub(crate) struct Head {
    pub(crate) make: Option<&'static Make>,
}

/// Which of a program's copies of perfmark has made a mark: each has its own, known by its address.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Make {
    /// Of its marks, in bytes.
    pub(crate) size: usize,
}

/// Of the marks that the attribute makes.
pub(crate) static MAKE: Make = Make { size: size_of::<Mark>() };

const _: () = assert!(size_of::<Head>() == 8 && align_of::<Mark>() == align_of::<Head>());

/// What tells the function's path, which only `type_name` knows.
#[derive(Clone, Copy, Debug)]
enum Path {
    /// The name of a type in the function.
    Within(fn() -> &'static str),
    /// The function's own, with its types.
    Whole(&'static str),
}

/// How calls of a mark are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Manner {
    /// Whether the processor finishes what stands before each reading.
    pub(crate) is_fenced: bool,
    /// Whether a call is made of polls.
    pub(crate) is_polled: bool,
}

/// Places in a thread's table of marks. Calls of marks beyond it are recorded like others, at the cost of some thousand instructions each.
pub(crate) const SLOTS: usize = 1 << 14;

/// In the place's place, or together with it: calls of the mark do nothing. The highest bit, which is quick to test.
const OFF: u64 = 1 << 63;

/// The place that a mark has, or had before it was switched off; 0 for none.
#[expect(clippy::cast_possible_truncation, reason = "below `SLOTS`")]
pub(crate) fn last_slot(slot: u64) -> u32 {
    (slot & !OFF) as u32
}

/// Whether the place means that calls do nothing.
#[inline]
pub(crate) fn is_off(slot: u64) -> bool {
    slot.cast_signed() < 0
}

/// Indices and places up to it are of marks that are in no list.
pub(crate) const HIDDEN: u32 = 8;

/// The marks called so far, last first.
static CALLED: AtomicPtr<Mark> = AtomicPtr::new(ptr::null_mut());
static INDICES: AtomicU32 = AtomicU32::new(HIDDEN);

impl Mark {
    /// One of perfmark's own. Others take from it what is the same in all before their first call: the compiler would evaluate it anew for each.
    #[allow(clippy::declare_interior_mutable_const, reason = "it is copied only")]
    const OWN_MARK: Self = Self {
        head: Head { make: None },
        name: "",
        path: Path::Whole(""),
        module: "",
        file: "",
        line: 0,
        events: "",
        every: 0,
        manner: Manner { is_fenced: false, is_polled: false },
        index: AtomicU32::new(0),
        slot: AtomicU64::new(0),
        next: AtomicPtr::new(ptr::null_mut()),
        by_types: ByAddress::new(),
        interrupted: AtomicU64::new(0),
        unrecorded: AtomicU64::new(0),
        cancelled: AtomicU64::new(0),
        gone: AtomicU64::new(0),
    };

    /// Called by the attribute's expansion alone, with a type that stands in the function.
    ///
    /// Few references, one call and a type instead of a function or closure: each of them is evaluated by the compiler anew for each mark.
    #[must_use]
    pub const fn new<Here>(
        name: &'static str,
        (module, file, line): (&'static str, &'static str, u32),
        events: &'static str,
        every: u32,
        is_fenced: bool,
    ) -> Self {
        Self {
            head: Head { make: Some(&MAKE) },
            name,
            path: Path::Within(std::any::type_name::<Here>),
            module,
            file,
            line,
            events,
            every,
            manner: Manner { is_fenced, is_polled: false },
            ..Self::OWN_MARK
        }
    }

    /// The same, with calls that are made of polls.
    #[must_use]
    pub const fn polled(self) -> Self {
        Self { manner: Manner { is_polled: true, ..self.manner }, ..self }
    }

    /// Forgets what was counted beside threads' cells.
    pub(crate) fn forget(&self) {
        for count in [&self.interrupted, &self.unrecorded, &self.cancelled, &self.gone] {
            count.store(0, Relaxed);
        }
    }

    /// A mark of perfmark's own, in no list, with that index and place.
    pub(crate) const fn hidden(index: u32) -> Self {
        Self { index: AtomicU32::new(index), slot: AtomicU64::new(index as u64), ..Self::OWN_MARK }
    }

    /// The mark's number in this process; 0 before its first call.
    pub(crate) fn index(&self) -> u32 {
        self.index.load(Relaxed)
    }

    /// The mark's place in every thread's table, below [`SLOTS`]; 0 where it has none; or [`OFF`].
    #[inline]
    pub(crate) fn slot(&self) -> u64 {
        self.slot.load(Relaxed)
    }

    /// The place that it has where it records what it says itself; 0 where that is none.
    pub(crate) fn own_slot(&self) -> u32 {
        let index = self.index();
        if (index as usize) < SLOTS { index } else { 0 }
    }

    /// Where its calls find their plans from now on. With none they do nothing.
    pub(crate) fn set_slot(&self, slot: Option<u32>) {
        self.slot.store(slot.map_or(OFF, u64::from), SeqCst);
    }

    /// From now on its calls do nothing. What it recorded last is still known by its place.
    pub(crate) fn switch_off(&self) {
        self.slot.fetch_or(OFF, SeqCst);
    }

    /// Gives the mark its index and lists it as called, once.
    ///
    /// The list is threaded through the marks themselves, without a lock, so that a fork in the middle leaves it whole.
    pub(crate) fn register(&'static self) {
        if self.index() != 0 {
            return;
        }
        let fresh = INDICES.fetch_add(1, Relaxed) + 1;
        if self.index.compare_exchange(0, fresh, Relaxed, Relaxed).is_err() {
            return;
        }
        let this = ptr::from_ref(self).cast_mut();
        let mut head = CALLED.load(Relaxed);
        loop {
            self.next.store(head, Relaxed);
            // In one order with the filters that are set: whoever sets one meets the mark here, or the mark's first call meets the filter.
            match CALLED.compare_exchange_weak(head, this, SeqCst, Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// The full path of the marked function.
    pub(crate) fn full_path(&self) -> String {
        path::readable(match self.path {
            Path::Within(item) => item().rsplit_once("::").map_or("", |(function, _)| function),
            Path::Whole(path) => path,
        })
    }

    /// What filters are compared with: the path, and the name where that is another one.
    pub(crate) fn target(&self) -> String {
        path::target(self.full_path(), self.name)
    }

    /// The marks of a generic function by its types, so far.
    #[inline]
    pub(crate) fn by_types(&self) -> &ByAddress<Self> {
        &self.by_types
    }

    /// The mark for these types: a new one, if there is none. It allocates.
    pub(crate) fn add_types(&'static self, types: &'static str) -> &'static Self {
        self.by_types.find_or_add(types, || Box::leak(Box::new(self.for_types(types))))
    }

    fn for_types(&self, types: &'static str) -> Self {
        let path = path::readable(types);
        let arguments =
            path::end(&path, 1).split_once('<').map_or(String::new(), |(_, arguments)| format!("<{arguments}"));
        let name = format!("{}{arguments}", self.name).leak();
        let location = (self.module, self.file, self.line);
        let fresh = Self::new::<()>(name, location, self.events, self.every, self.manner.is_fenced);
        Self { path: Path::Whole(types), manner: self.manner, ..fresh }
    }
}

/// A place that is nobody's yet.
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
