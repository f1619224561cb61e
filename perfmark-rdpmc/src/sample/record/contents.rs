//! What a sample contains, beyond plain numbers.

use std::fmt;

use super::bytes::{Bytes, Words};
use crate::flags::TransactionFlags;

/// Registers at the time of a sample.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Registers<'a> {
    /// Whether the code was of 64 bits (2), of 32 bits (1), or there are no registers (0).
    pub abi: u64,
    /// A bit for each register in `values` (`asm/perf_regs.h`).
    pub mask: u64,
    /// The registers, in the order of their bits.
    pub values: Words<'a>,
}

impl<'a> Registers<'a> {
    pub(super) fn parse(bytes: &mut Bytes<'a>, mask: u64) -> Option<Self> {
        let abi = bytes.u64()?;
        let mask = if abi == 0 { 0 } else { mask };
        Some(Self { abi, mask, values: bytes.words(mask.count_ones().into())? })
    }

    /// The register with that number in `asm/perf_regs.h`.
    #[must_use]
    pub fn get(&self, register: u32) -> Option<u64> {
        let bit = 1_u64.checked_shl(register)?;
        let before = usize::try_from((self.mask & (bit - 1)).count_ones()).ok()?;
        if self.mask & bit != 0 { self.values.get(before) } else { None }
    }
}

/// The stack at the time of a sample, from the stack pointer up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stack<'a> {
    /// As many bytes as were requested, or as the kernel could copy.
    pub bytes: &'a [u8],
    /// The number of bytes that are the stack's.
    pub valid: u64,
}

impl<'a> Stack<'a> {
    pub(super) fn parse(bytes: &mut Bytes<'a>) -> Option<Self> {
        let size = bytes.u64()?;
        let stack = bytes.take_counted(size)?;
        let valid = if size == 0 { 0 } else { bytes.u64()? };
        Some(Self { bytes: stack, valid })
    }
}

/// The last branches before a sample, the newest first.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct BranchStack<'a> {
    /// The index of the newest branch in the hardware's list.
    pub hardware_index: Option<u64>,
    /// The occurrences of other events, a number for each branch, as the PMU's `branch_counter_nr` and
    /// `branch_counter_width` in sysfs describe.
    pub counters: Option<Words<'a>>,
    words: Words<'a>,
}

/// A branch that the processor recorded (`struct perf_branch_entry`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
#[expect(clippy::struct_excessive_bools, reason = "independent bits, each as the processor reports it")]
pub struct Branch {
    /// The address of the branch, in most cases.
    pub from: u64,
    /// Its target.
    pub to: u64,
    /// Whether its target was mispredicted.
    pub mispredicted: bool,
    /// Whether its target was predicted. If neither is set, the processor does not report it.
    pub predicted: bool,
    /// Whether it was in a hardware transaction.
    pub in_transaction: bool,
    /// Whether it aborted a hardware transaction.
    pub aborted: bool,
    /// Cycles since the previous branch; 0 if the processor does not report them.
    pub cycles: u16,
    /// Its kind (`PERF_BR_*`); from 16 on, 16 plus one of the newer kinds (`PERF_BR_NEW_*`).
    pub kind: u8,
    /// What became of its speculation (`PERF_BR_SPEC_*`).
    pub speculation: u8,
    /// Its privilege level (`PERF_BR_PRIV_*`).
    pub privilege: u8,
}

impl<'a> BranchStack<'a> {
    pub(super) fn parse(bytes: &mut Bytes<'a>, has_index: bool, has_counters: bool) -> Option<Self> {
        let count = bytes.u64()?;
        // The kernel leaves out the rest if there is no branch stack at all, in the middle of other data. Like perf,
        // expects the index all the same.
        let hardware_index = bytes.given(has_index, Bytes::u64)?;
        let words = bytes.words(count.checked_mul(3)?)?;
        let counters = bytes.given(has_counters, |bytes| bytes.words(count))?;
        Some(Self { hardware_index, counters, words })
    }

    /// The branches.
    pub fn iter(&self) -> impl Iterator<Item = Branch> + use<'a> {
        let mut words = self.words.iter();
        std::iter::from_fn(move || Some(Branch::of(words.next()?, words.next()?, words.next()?)))
    }
}

impl Branch {
    fn of(from: u64, to: u64, flags: u64) -> Self {
        /// The kind that says that there is another one.
        const EXTENDED: u8 = 15;
        let bit = |n: u32| flags >> n & 1 == 1;
        let kind = bits(flags, 20, 4);
        Self {
            from,
            to,
            mispredicted: bit(0),
            predicted: bit(1),
            in_transaction: bit(2),
            aborted: bit(3),
            cycles: u16::try_from(flags >> 4 & 0xffff).unwrap_or(0),
            kind: if kind == EXTENDED { 16 + bits(flags, 26, 4) } else { kind },
            speculation: bits(flags, 24, 2),
            privilege: bits(flags, 30, 3),
        }
    }
}

/// A few bits of a number.
fn bits(number: u64, from: u32, count: u32) -> u8 {
    u8::try_from(number >> from & ((1 << count) - 1)).unwrap_or(u8::MAX)
}

/// The weight of a sample. What it means depends on the processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Weight {
    /// One number.
    Full(u64),
    /// Three numbers: on Intel's processors latencies of the cache, of the instruction, and others.
    Parts(u32, u16, u16),
}

/// Where the data of a load or store came from: the fields of `union perf_mem_data_src`, whose bits are the header's
/// `PERF_MEM_*`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DataSource {
    /// Load, store, prefetch (`PERF_MEM_OP_*`).
    pub operation: u8,
    /// The level that had the data, in the old encoding (`PERF_MEM_LVL_*`).
    pub level_bits: u16,
    /// The state in another cache (`PERF_MEM_SNOOP_*`).
    pub snoop: u8,
    /// Whether the access was locked (`PERF_MEM_LOCK_*`).
    pub lock: u8,
    /// The level that had the translation (`PERF_MEM_TLB_*`).
    pub tlb: u8,
    /// The level that had the data (`PERF_MEM_LVLNUM_*`).
    pub level: u8,
    /// Whether the data came from another node.
    pub is_remote: bool,
    /// More about the other cache (`PERF_MEM_SNOOPX_*`).
    pub snoop_more: u8,
    /// Why the access was blocked (`PERF_MEM_BLK_*`).
    pub blocked: u8,
    /// How far away the data was (`PERF_MEM_HOPS_*`).
    pub hops: u8,
    /// The region of memory or cache (`PERF_MEM_REGION_*`, on kernels newer than 6.18).
    pub region: u8,
}

impl From<u64> for DataSource {
    fn from(number: u64) -> Self {
        Self {
            operation: bits(number, 0, 5),
            level_bits: u16::try_from(number >> 5 & 0x3fff).unwrap_or(0),
            snoop: bits(number, 19, 5),
            lock: bits(number, 24, 2),
            tlb: bits(number, 26, 7),
            level: bits(number, 33, 4),
            is_remote: number >> 37 & 1 == 1,
            snoop_more: bits(number, 38, 2),
            blocked: bits(number, 40, 3),
            hops: bits(number, 43, 3),
            region: bits(number, 46, 5),
        }
    }
}

/// The constants of a field's bits, from the lowest.
type BitNames = &'static [&'static str];
const OPERATIONS: BitNames = &["OP_NA", "OP_LOAD", "OP_STORE", "OP_PFETCH", "OP_EXEC"];
const LEVEL_BITS: BitNames = &[
    "LVL_NA",
    "LVL_HIT",
    "LVL_MISS",
    "LVL_L1",
    "LVL_LFB",
    "LVL_L2",
    "LVL_L3",
    "LVL_LOC_RAM",
    "LVL_REM_RAM1",
    "LVL_REM_RAM2",
    "LVL_REM_CCE1",
    "LVL_REM_CCE2",
    "LVL_IO",
    "LVL_UNC",
];
const SNOOPS: BitNames = &["SNOOP_NA", "SNOOP_NONE", "SNOOP_HIT", "SNOOP_MISS", "SNOOP_HITM"];
const LOCKS: BitNames = &["LOCK_NA", "LOCK_LOCKED"];
const TLBS: BitNames = &["TLB_NA", "TLB_HIT", "TLB_MISS", "TLB_L1", "TLB_L2", "TLB_WK", "TLB_OS"];
const SNOOPS_MORE: BitNames = &["SNOOPX_FWD", "SNOOPX_PEER"];
const BLOCKS: BitNames = &["BLK_NA", "BLK_DATA", "BLK_ADDR"];

impl DataSource {
    /// The header's constants that describe the access, without `PERF_MEM_`: `OP_LOAD`, `LVLNUM_L3`, `SNOOP_HITM`,
    /// `TLB_MISS`. Numbers without a constant in linux 6.18 are left out; the fields have them.
    ///
    /// ```
    /// use perfmark_rdpmc::sample::DataSource;
    ///
    /// // A load that found its line modified in another core's cache.
    /// let source = DataSource::from(0x02 | 0x10 << 19 | 0x03 << 33);
    /// assert!(source.names().any(|name| name == "SNOOP_HITM"));
    /// assert_eq!(source.to_string(), "OP_LOAD LVLNUM_L3 SNOOP_HITM");
    /// ```
    pub fn names(&self) -> impl Iterator<Item = &'static str> + use<> {
        let set =
            |names: BitNames, bits: u16| (0..).zip(names).filter(move |(n, _)| bits >> n & 1 == 1).map(|(_, &n)| n);
        let level = match self.level {
            0x01 => Some("LVLNUM_L1"),
            0x02 => Some("LVLNUM_L2"),
            0x03 => Some("LVLNUM_L3"),
            0x04 => Some("LVLNUM_L4"),
            0x05 => Some("LVLNUM_L2_MHB"),
            0x06 => Some("LVLNUM_MSC"),
            0x08 => Some("LVLNUM_UNC"),
            0x09 => Some("LVLNUM_CXL"),
            0x0a => Some("LVLNUM_IO"),
            0x0b => Some("LVLNUM_ANY_CACHE"),
            0x0c => Some("LVLNUM_LFB"),
            0x0d => Some("LVLNUM_RAM"),
            0x0e => Some("LVLNUM_PMEM"),
            0x0f => Some("LVLNUM_NA"),
            _ => None,
        };
        let hops = ["HOPS_0", "HOPS_1", "HOPS_2", "HOPS_3"].get(usize::from(self.hops).wrapping_sub(1)).copied();
        set(OPERATIONS, self.operation.into())
            .chain(set(LEVEL_BITS, self.level_bits))
            .chain(level)
            .chain(self.is_remote.then_some("REMOTE_REMOTE"))
            .chain(hops)
            .chain(set(SNOOPS, self.snoop.into()))
            .chain(set(SNOOPS_MORE, self.snoop_more.into()))
            .chain(set(LOCKS, self.lock.into()))
            .chain(set(TLBS, self.tlb.into()))
            .chain(set(BLOCKS, self.blocked.into()))
    }
}

impl fmt::Display for DataSource {
    /// The [names](Self::names), separated by spaces.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, name) in self.names().enumerate() {
            write!(f, "{}{name}", if n == 0 { "" } else { " " })?;
        }
        Ok(())
    }
}

/// Why a hardware transaction aborted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Transaction {
    /// The abort's flags.
    pub flags: TransactionFlags,
    /// The code that the program passed to the instruction that aborts (`PERF_TXN_ABORT_MASK`).
    pub abort_code: u32,
}

impl From<u64> for Transaction {
    fn from(number: u64) -> Self {
        let abort_code = u32::try_from(number >> 32).unwrap_or(0);
        Self { flags: TransactionFlags::from_bits(number & u64::from(u32::MAX)), abort_code }
    }
}
