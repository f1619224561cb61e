//! The kernel's generic cache events: seven caches, three operations, two results.

use std::fmt;

macro_rules! cache_parts {
    ($(#[$meta:meta])* $part:ident: $($(#[$doc:meta])* $variant:ident = $id:literal, $($name:literal)|+;)+) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $part {
            $($(#[$doc])* $variant = $id,)+
        }

        impl $part {
            /// All of them, in the order of the kernel's numbers.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// The names of each that perf accepts, first the one that it shows.
            const NAMES: &[&[&str]] = &[$(&[$($name),+]),+];
        }
    };
}

/// Splits the longest matching name off the front of `text`, ignoring case. A hyphen or the end of the text must follow
/// it. Also returns which of the parts has this name.
fn take<'a>(names: &[&[&str]], text: &'a str) -> Option<(usize, &'a str)> {
    let fits = |name: &str| {
        text.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name))
            && matches!(text.as_bytes().get(name.len()), None | Some(b'-'))
    };
    let all = names.iter().enumerate().flat_map(|(part, names)| names.iter().map(move |name| (part, *name)));
    let (part, name) = all.filter(|(_, name)| fits(name)).max_by_key(|(_, name)| name.len())?;
    Some((part, text.get(name.len() + 1..).unwrap_or("")))
}

cache_parts! {
    /// A cache, or another unit that the kernel numbers among caches (`enum perf_hw_cache_id`).
    Cache:
    /// The first-level data cache.
    L1Data = 0, "L1-dcache" | "l1-d" | "l1d" | "L1-data";
    /// The first-level instruction cache.
    L1Instruction = 1, "L1-icache" | "l1-i" | "l1i" | "L1-instruction";
    /// The last-level cache.
    LastLevel = 2, "LLC" | "L2";
    /// The translation look-aside buffer for data.
    DataTlb = 3, "dTLB" | "d-tlb" | "Data-TLB";
    /// The translation look-aside buffer for instructions.
    InstructionTlb = 4, "iTLB" | "i-tlb" | "Instruction-TLB";
    /// The branch prediction unit.
    BranchPrediction = 5, "branch" | "bpu" | "btb" | "bpc";
    /// Memory of this NUMA node.
    Node = 6, "node";
}

cache_parts! {
    /// The operation on the cache (`enum perf_hw_cache_op_id`).
    CacheOp:
    /// Reads.
    Read = 0, "load" | "loads" | "read";
    /// Writes.
    Write = 1, "store" | "stores" | "write";
    /// Prefetches.
    Prefetch = 2, "prefetch" | "prefetches" | "speculative-read" | "speculative-load";
}

cache_parts! {
    /// The result of the operation (`enum perf_hw_cache_op_result_id`).
    CacheResult:
    /// All accesses: hits and misses.
    Access = 0, "refs" | "Reference" | "ops" | "access";
    /// Misses only.
    Miss = 1, "misses" | "miss";
}

/// One of the kernel's generic cache events.
///
/// ```
/// use perfmark_rdpmc::{Cache, CacheEvent, CacheOp, CacheResult, Event};
///
/// let misses = CacheEvent::new(Cache::L1Data, CacheOp::Read, CacheResult::Miss).expect("a valid combination");
/// assert_eq!("L1-dcache-load-misses".parse(), Ok(Event::from(misses)));
/// assert!(CacheEvent::new(Cache::InstructionTlb, CacheOp::Write, CacheResult::Miss).is_none());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CacheEvent {
    cache: Cache,
    op: CacheOp,
    result: CacheResult,
}

impl CacheEvent {
    /// `None` for an operation that the cache does not have: instruction caches are not written, and the instruction
    /// TLB and the branch prediction unit are only read (as in perf: `evsel__hw_cache_stat` in
    /// `tools/perf/util/evsel.c`).
    #[must_use]
    pub fn new(cache: Cache, op: CacheOp, result: CacheResult) -> Option<Self> {
        let known = match cache {
            Cache::L1Data | Cache::LastLevel | Cache::DataTlb | Cache::Node => true,
            Cache::L1Instruction => op != CacheOp::Write,
            Cache::InstructionTlb | Cache::BranchPrediction => op == CacheOp::Read,
        };
        known.then_some(Self { cache, op, result })
    }

    /// All valid combinations.
    pub fn all() -> impl Iterator<Item = Self> {
        let parts = Cache::ALL.iter().flat_map(|&cache| CacheOp::ALL.iter().map(move |&op| (cache, op)));
        let events =
            parts.flat_map(|(cache, op)| CacheResult::ALL.iter().map(move |&result| Self::new(cache, op, result)));
        events.flatten()
    }

    /// The cache.
    #[must_use]
    pub fn cache(self) -> Cache {
        self.cache
    }

    /// The operation.
    #[must_use]
    pub fn op(self) -> CacheOp {
        self.op
    }

    /// The result.
    #[must_use]
    pub fn result(self) -> CacheResult {
        self.result
    }

    /// The `config` of `PERF_TYPE_HW_CACHE`.
    pub(crate) fn config(self) -> u64 {
        self.cache as u64 | (self.op as u64) << 8 | (self.result as u64) << 16
    }

    /// Parses cache, operation and result by any of perf's names. The operation defaults to reads, the result to
    /// accesses. The last two may be swapped. A text that continues differently after a cache's name is not one of
    /// these events.
    pub(super) fn from_name(name: &str) -> Option<Self> {
        let (cache, mut rest) = take(Cache::NAMES, name)?;
        let (mut op, mut result) = (None, None);
        while !rest.is_empty() {
            if let Some((found, after)) = take(CacheOp::NAMES, rest).filter(|_| op.is_none()) {
                (op, rest) = (Some(CacheOp::ALL[found]), after);
            } else if let Some((found, after)) = take(CacheResult::NAMES, rest).filter(|_| result.is_none()) {
                (result, rest) = (Some(CacheResult::ALL[found]), after);
            } else {
                return None;
            }
        }
        if name.ends_with('-') {
            return None;
        }
        Self::new(Cache::ALL[cache], op.unwrap_or(CacheOp::Read), result.unwrap_or(CacheResult::Access))
    }
}

impl fmt::Display for CacheEvent {
    /// As perf shows it: `L1-dcache-loads`, `L1-dcache-load-misses`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (cache, op) = (Cache::NAMES[self.cache as usize][0], CacheOp::NAMES[self.op as usize]);
        match self.result {
            CacheResult::Access => write!(f, "{cache}-{}", op[1]),
            CacheResult::Miss => write!(f, "{cache}-{}-misses", op[0]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_that_perf_accepts_is_the_same_event_as_in_perf() {
        for event in CacheEvent::all() {
            assert_eq!(CacheEvent::from_name(&event.to_string()), Some(event));
            for cache in Cache::NAMES[event.cache as usize] {
                for op in CacheOp::NAMES[event.op as usize] {
                    for result in CacheResult::NAMES[event.result as usize] {
                        assert_eq!(CacheEvent::from_name(&format!("{cache}-{op}-{result}")), Some(event));
                        assert_eq!(CacheEvent::from_name(&format!("{cache}-{result}-{op}")), Some(event));
                    }
                }
            }
        }
        assert_eq!(CacheEvent::all().count(), 2 * (3 + 2 + 3 + 3 + 1 + 1 + 3));
    }

    #[test]
    fn names_that_perf_does_not_accept_are_none() {
        let names = "L1-icache-stores iTLB-prefetches l1d- l1d--loads L1 LLC-loads-loads LLC-miss-refs nodes é";
        for name in names.split(' ') {
            assert_eq!(CacheEvent::from_name(name), None, "{name}");
        }
    }
}
