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

/// Parses what is requested; `None` at the end of the bytes.
macro_rules! if_has {
    ($layout:ident, $content:ident, $parsed:expr) => {
        if $layout.has(Content::$content) { Some($parsed?) } else { None }
    };
}

impl<'a> Sample<'a> {
    /// The fields are in the order of `perf_output_sample` (`kernel/events/core.c`, linux 6.12).
    pub(super) fn parse(mut bytes: Bytes<'a>, layout: &Layout, is_exact: bool) -> Option<(Self, Origin)> {
        let bytes = &mut bytes;
        let identifier = if_has!(layout, IDENTIFIER, bytes.u64());
        let ip = if_has!(layout, IP, bytes.u64());
        let thread = if_has!(layout, THREAD, ThreadId::parse(bytes));
        let time = if_has!(layout, TIME, bytes.u64());
        let address = if_has!(layout, ADDRESS, bytes.u64());
        let id = if_has!(layout, ID, bytes.u64()).or(identifier);
        let stream_id = if_has!(layout, STREAM_ID, bytes.u64());
        let cpu = if_has!(layout, CPU, Origin::parse_cpu(bytes));
        let sample = Self {
            is_exact,
            ip,
            address,
            period: if_has!(layout, PERIOD, bytes.u64()),
            values: if_has!(layout, READ, Values::parse(bytes, layout)),
            callchain: if_has!(layout, CALLCHAIN, counted_words(bytes)),
            raw: if_has!(layout, RAW, bytes.u32().and_then(|size| bytes.take_counted(size.into()))),
            branches: if_has!(layout, BRANCHES, branches(bytes, layout)),
            user_registers: if_has!(layout, USER_REGISTERS, Registers::parse(bytes, layout.user_registers)),
            user_stack: if_has!(layout, USER_STACK, Stack::parse(bytes)),
            weight: match if_has!(layout, WEIGHT_PARTS, weight_parts(bytes)) {
                None => if_has!(layout, WEIGHT, bytes.u64().map(Weight::Full)),
                parts => parts,
            },
            data_source: if_has!(layout, DATA_SOURCE, bytes.u64().map(DataSource::from)),
            transaction: if_has!(layout, TRANSACTION, bytes.u64().map(Transaction::from)),
            interrupt_registers: if_has!(
                layout,
                INTERRUPT_REGISTERS,
                Registers::parse(bytes, layout.interrupt_registers)
            ),
            physical_address: if_has!(layout, PHYSICAL_ADDRESS, bytes.u64()),
            cgroup: if_has!(layout, CGROUP, bytes.u64()),
            data_page_size: if_has!(layout, DATA_PAGE_SIZE, bytes.u64()),
            code_page_size: if_has!(layout, CODE_PAGE_SIZE, bytes.u64()),
            aux: if_has!(layout, AUX, bytes.u64().and_then(|size| bytes.take_counted(size))),
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
