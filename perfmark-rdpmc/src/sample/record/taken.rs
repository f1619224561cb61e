//! Samples.

use super::bytes::{Bytes, Words};
use super::contents::{BranchStack, DataSource, Registers, Stack, Transaction, Weight};
use super::layout::Layout;
use super::origin::{Origin, ThreadId};
use super::values::Values;
use crate::flags::{Branches, Content};

/// A sample: what was requested by [`Sampler::content`](super::super::Sampler::content) and its other methods. When and
/// where it was taken is in its [`Record`](super::Record).
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Sample<'a> {
    /// Whether the address is exactly that of the instruction that caused the sample.
    pub is_exact: bool,
    /// The address of the instruction.
    pub ip: Option<u64>,
    /// The address that was accessed.
    pub address: Option<u64>,
    /// The number of events since the previous sample.
    pub period: Option<u64>,
    /// The counts of the event or its group.
    pub values: Option<Values<'a>>,
    /// The call chain, the innermost function first. Numbers of -4095 (as `u64`) and above are no addresses: they name
    /// the mode of those that follow (`enum perf_callchain_context`).
    pub callchain: Option<Words<'a>>,
    /// Data that the event defines.
    pub raw: Option<&'a [u8]>,
    /// The last branches.
    pub branches: Option<BranchStack<'a>>,
    /// The registers in user mode.
    pub user_registers: Option<Registers<'a>>,
    /// The stack in user mode.
    pub user_stack: Option<Stack<'a>>,
    /// The weight.
    pub weight: Option<Weight>,
    /// Where the data came from.
    pub data_source: Option<DataSource>,
    /// Why a hardware transaction aborted. Not tested on a processor that has transactions.
    pub transaction: Option<Transaction>,
    /// The registers of the interrupted code.
    pub interrupt_registers: Option<Registers<'a>>,
    /// The physical address that was accessed.
    pub physical_address: Option<u64>,
    /// The id of the control group.
    pub cgroup: Option<u64>,
    /// The size of the page that was accessed.
    pub data_page_size: Option<u64>,
    /// The size of the page of the instruction.
    pub code_page_size: Option<u64>,
    /// A part of the AUX area.
    pub aux: Option<&'a [u8]>,
}

impl<'a> Sample<'a> {
    /// The fields are in the order of `perf_output_sample` (`kernel/events/core.c`, linux 6.12).
    pub(super) fn parse(mut bytes: Bytes<'a>, layout: &Layout, is_exact: bool) -> Option<(Self, Origin)> {
        let has = |content| layout.has(content);
        let identifier = bytes.given(has(Content::IDENTIFIER), Bytes::u64)?;
        let ip = bytes.given(has(Content::IP), Bytes::u64)?;
        let thread = bytes.given(has(Content::THREAD), ThreadId::parse)?;
        let time = bytes.given(has(Content::TIME), Bytes::u64)?;
        let address = bytes.given(has(Content::ADDRESS), Bytes::u64)?;
        let id = bytes.given(has(Content::ID), Bytes::u64)?.or(identifier);
        let stream_id = bytes.given(has(Content::STREAM_ID), Bytes::u64)?;
        let cpu = bytes.given(has(Content::CPU), Origin::parse_cpu)?;
        let registers = |mask| move |bytes: &mut Bytes<'a>| Registers::parse(bytes, mask);
        let sample = Self {
            is_exact,
            ip,
            address,
            period: bytes.given(has(Content::PERIOD), Bytes::u64)?,
            values: bytes.given(has(Content::READ), |bytes| Values::parse(bytes, layout))?,
            callchain: bytes.given(has(Content::CALLCHAIN), counted_words)?,
            raw: bytes
                .given(has(Content::RAW), |bytes| bytes.u32().and_then(|size| bytes.take_counted(size.into())))?,
            branches: bytes.given(has(Content::BRANCHES), |bytes| branches(bytes, layout))?,
            user_registers: bytes.given(has(Content::USER_REGISTERS), registers(layout.user_registers))?,
            user_stack: bytes.given(has(Content::USER_STACK), Stack::parse)?,
            weight: match bytes.given(has(Content::WEIGHT_PARTS), weight_parts)? {
                None => bytes.given(has(Content::WEIGHT), Bytes::u64)?.map(Weight::Full),
                parts => parts,
            },
            data_source: bytes.given(has(Content::DATA_SOURCE), Bytes::u64)?.map(DataSource::from),
            transaction: bytes.given(has(Content::TRANSACTION), Bytes::u64)?.map(Transaction::from),
            interrupt_registers: bytes
                .given(has(Content::INTERRUPT_REGISTERS), registers(layout.interrupt_registers))?,
            physical_address: bytes.given(has(Content::PHYSICAL_ADDRESS), Bytes::u64)?,
            cgroup: bytes.given(has(Content::CGROUP), Bytes::u64)?,
            data_page_size: bytes.given(has(Content::DATA_PAGE_SIZE), Bytes::u64)?,
            code_page_size: bytes.given(has(Content::CODE_PAGE_SIZE), Bytes::u64)?,
            aux: bytes.given(has(Content::AUX), |bytes| bytes.u64().and_then(|size| bytes.take_counted(size)))?,
        };
        Some((sample, Origin { thread, time, id, stream_id, cpu }))
    }
}

fn counted_words<'a>(bytes: &mut Bytes<'a>) -> Option<Words<'a>> {
    let count = bytes.u64()?;
    bytes.words(count)
}

fn branches<'a>(bytes: &mut Bytes<'a>, layout: &Layout) -> Option<BranchStack<'a>> {
    let has = |branches| layout.branches.contains(branches);
    BranchStack::parse(bytes, has(Branches::HARDWARE_INDEX), has(Branches::COUNTERS))
}

fn weight_parts(bytes: &mut Bytes<'_>) -> Option<Weight> {
    let whole = bytes.u64()?;
    let part = |shift: u32| u16::try_from(whole >> shift & 0xffff).unwrap_or(0);
    let first = u32::from(part(16)) << 16 | u32::from(part(0));
    Some(Weight::Parts(first, part(32), part(48)))
}
