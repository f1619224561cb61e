//! Samples, byte by byte as the kernel writes them.

use super::*;
use crate::flags::{Branches, Content, ReadFormat, TransactionFlags};
use crate::sys::{FORMAT_GROUP, FORMAT_TOTAL_TIME_ENABLED, FORMAT_TOTAL_TIME_RUNNING};

/// Parses a sample, and checks its beginnings.
fn with_sample(layout: &Layout, bytes: &Written, check: impl FnOnce(&Sample<'_>, &Origin)) {
    let record = bytes.as_record(9, BIT_14);
    let [record] = &layout.records(&record).collect::<Vec<_>>()[..] else { panic!("one") };
    let Body::Sample(sample) = record.body else { panic!("{record:?}") };
    assert!(sample.is_exact);
    check(&sample, &record.origin);
    beginnings(layout, 9, BIT_14, bytes);
}

/// `PERF_CONTEXT_USER`: user-mode addresses follow.
const USER: u64 = (-512_i64).cast_unsigned();

#[test]
fn a_sample_with_everything() {
    let layout = Layout {
        content: Content::ALL.iter().filter(|&&it| it != Content::WEIGHT).fold(Content::default(), |all, &it| all | it),
        read_format: FORMAT_TOTAL_TIME_ENABLED | FORMAT_TOTAL_TIME_RUNNING | FORMAT_ID | FORMAT_LOST,
        branches: Branches::ANY | Branches::HARDWARE_INDEX | Branches::COUNTERS,
        user_registers: 0b1010_0001,
        interrupt_registers: 0b1,
        has_origin: true,
    };
    let bytes = written()
        .u64s([1, 0x400]) // identifier, ip
        .u32(2)
        .u32(3) // process, thread
        .u64s([4, 0x500, 1, 5]) // time, address, id, stream
        .u32(6)
        .u32(0)
        .u64(7) // cpu, period
        .u64s([100, 90, 80, 1, 2]) // value, enabled, running, id, lost
        .u64s([2, USER, 0x400]) // call chain
        .u32(12)
        .bytes(b"raw contents") // raw
        .u64s([2, 9]) // branches, index
        .u64s([0x10, 0x20, 0b1 | 7 << 4 | 3 << 20, 0x30, 0x40, 0b10 | 15 << 20 | 1 << 24 | 2 << 26 | 1 << 30])
        .u64s([11, 12]) // counters
        .u64s([2, 0xa, 0xb, 0xc]) // user registers
        .u64(16)
        .bytes(b"0123456789abcdef")
        .u64(8) // stack
        .u32(70_000)
        .u16(2)
        .u16(3) // weight
        .u64s([2 | 1 << 33 | 1 << 37, 0x1234 << 32 | 0b1_0010]) // data source, transaction
        .u64s([1, 0xd]) // interrupt registers
        .u64s([0x600, 8, 4_096, 2_097_152]) // physical address, control group, page sizes
        .u64(8)
        .bytes(b"trace.me"); // AUX
    with_sample(&layout, &bytes, |sample, origin| {
        let thread = Some(ThreadId { pid: 2, tid: 3 });
        assert_eq!(*origin, Origin { thread, time: Some(4), id: Some(1), stream_id: Some(5), cpu: Some(6) });
        assert_eq!((sample.ip, sample.address, sample.period), (Some(0x400), Some(0x500), Some(7)));
        let values = sample.values.expect("requested");
        assert_eq!((values.enabled, values.running), (Some(90), Some(80)));
        assert_eq!(values.iter().collect::<Vec<_>>(), [Value { value: 100, id: Some(1), lost: Some(2) }]);
        let chain: Vec<_> = sample.callchain.expect("requested").iter().collect();
        assert_eq!(chain, [USER, 0x400]);
        assert_eq!(sample.raw, Some(&b"raw contents"[..]));
        let branches = sample.branches.expect("requested");
        assert_eq!(branches.hardware_index, Some(9));
        assert_eq!(branches.counters.expect("requested").iter().collect::<Vec<_>>(), [11, 12]);
        let first = Branch { from: 0x10, to: 0x20, mispredicted: true, cycles: 7, kind: 3, ..Branch::default() };
        let (from, to, predicted) = (0x30, 0x40, true);
        let second = Branch { from, to, predicted, kind: 18, speculation: 1, privilege: 1, ..Branch::default() };
        assert_eq!(branches.iter().collect::<Vec<_>>(), [first, second]);
        let registers = sample.user_registers.expect("requested");
        assert_eq!([0, 5, 7, 6, 64].map(|n| registers.get(n)), [Some(0xa), Some(0xb), Some(0xc), None, None]);
        assert_eq!(sample.user_stack, Some(Stack { bytes: b"0123456789abcdef", valid: 8 }));
        assert_eq!(sample.weight, cfg!(target_endian = "little").then_some(Weight::Parts(70_000, 2, 3)));
        let source = DataSource { operation: 2, level: 1, is_remote: true, ..DataSource::default() };
        assert_eq!(sample.data_source, Some(source));
        assert_eq!(source.to_string(), "OP_LOAD LVLNUM_L1 REMOTE_REMOTE");
        let flags = TransactionFlags::TRANSACTION | TransactionFlags::RETRY;
        assert_eq!(sample.transaction, Some(Transaction { flags, abort_code: 0x1234 }));
        let interrupted = sample.interrupt_registers.expect("requested");
        assert_eq!((registers.abi, interrupted.abi, interrupted.get(0)), (2, 1, Some(0xd)));
        assert_eq!((sample.physical_address, sample.cgroup), (Some(0x600), Some(8)));
        assert_eq!((sample.data_page_size, sample.code_page_size), (Some(4_096), Some(2_097_152)));
        assert_eq!(sample.aux, Some(&b"trace.me"[..]));
    });
}

#[test]
fn a_sample_without_registers_stack_and_branches() {
    let content = Content::BRANCHES | Content::USER_REGISTERS | Content::USER_STACK | Content::WEIGHT;
    let layout = Layout { content, user_registers: u64::MAX, ..Layout::default() };
    with_sample(&layout, &written().u64s([0, 0, 0, 9]), |sample, _| {
        assert_eq!(sample.branches.expect("requested").iter().count(), 0);
        assert_eq!(sample.user_registers.expect("requested").get(0), None);
        assert_eq!(sample.user_stack, Some(Stack::default()));
        assert_eq!(sample.weight, Some(Weight::Full(9)));
    });
}

#[test]
fn a_sample_with_the_counts_of_its_group() {
    let read_format = FORMAT_GROUP | FORMAT_TOTAL_TIME_ENABLED | FORMAT_ID;
    let layout = Layout { content: Content::READ, read_format, ..Layout::default() };
    with_sample(&layout, &written().u64s([2, 90, 100, 1, 200, 2]), |sample, _| {
        let values = sample.values.expect("requested");
        assert_eq!((values.enabled, values.running), (Some(90), None));
        let value = |value, id| Value { value, id: Some(id), lost: None };
        assert_eq!(values.iter().collect::<Vec<_>>(), [value(100, 1), value(200, 2)]);
    });
    let too_many = written().u64s([u64::MAX, 90, 100, 1]).as_record(9, 0);
    let [record] = &layout.records(&too_many).collect::<Vec<_>>()[..] else { panic!("one") };
    assert!(matches!(record.body, Body::Unknown { kind: 9, .. }));
}

/// `perf_event_open(2)`, "Reading results".
#[test]
fn saved_counts_of_every_read_format_are_parsed() {
    for bits in 0..32 {
        let format = ReadFormat::from_bits(bits);
        let given = |part, number| format.contains(part).then_some(number);
        let events = if format.contains(ReadFormat::GROUP) { 2 } else { 1 };
        let expected: Vec<Value> = (0..events)
            .map(|n| Value { value: 100 + n, id: given(ReadFormat::ID, 10 + n), lost: given(ReadFormat::LOST, 20 + n) })
            .collect();
        let (enabled, running) = (given(ReadFormat::TOTAL_TIME_ENABLED, 90), given(ReadFormat::TOTAL_TIME_RUNNING, 80));
        let times = enabled.into_iter().chain(running);
        let rest = |value: &Value| value.id.into_iter().chain(value.lost).collect::<Vec<_>>();
        let numbers: Vec<u64> = if format.contains(ReadFormat::GROUP) {
            let each = expected.iter().flat_map(|value| [vec![value.value], rest(value)].concat());
            [events].into_iter().chain(times).chain(each).collect()
        } else {
            [expected[0].value].into_iter().chain(times).chain(rest(&expected[0])).collect()
        };
        let layout = Layout { content: Content::READ, ..Layout::default() }.read_format(format);
        let record = numbers.iter().fold(written(), |written, &number| written.u64(number)).as_record(9, 0);
        let [record] = &layout.records(&record).collect::<Vec<_>>()[..] else { panic!("one") };
        let Body::Sample(Sample { values: Some(values), .. }) = record.body else { panic!("{format:?}: {record:?}") };
        assert_eq!((values.enabled, values.running), (enabled, running), "{format:?}");
        assert_eq!(values.iter().collect::<Vec<_>>(), expected, "{format:?}");
    }
}

/// The numbers are the header's `PERF_MEM_S(FIELD, NAME)`.
#[test]
fn the_fields_of_a_data_source_have_the_headers_names() {
    for (number, names) in [
        (0x1f, "OP_NA OP_LOAD OP_STORE OP_PFETCH OP_EXEC"),
        ((0x02 | 0x20) << 5, "LVL_HIT LVL_L2"),
        (
            0x3fff << 5,
            "LVL_NA LVL_HIT LVL_MISS LVL_L1 LVL_LFB LVL_L2 LVL_L3 LVL_LOC_RAM LVL_REM_RAM1 LVL_REM_RAM2 \
            LVL_REM_CCE1 LVL_REM_CCE2 LVL_IO LVL_UNC",
        ),
        (0x1f << 19, "SNOOP_NA SNOOP_NONE SNOOP_HIT SNOOP_MISS SNOOP_HITM"),
        (0x03 << 24, "LOCK_NA LOCK_LOCKED"),
        (0x7f << 26, "TLB_NA TLB_HIT TLB_MISS TLB_L1 TLB_L2 TLB_WK TLB_OS"),
        (0x03 << 38, "SNOOPX_FWD SNOOPX_PEER"),
        (0x07 << 40, "BLK_NA BLK_DATA BLK_ADDR"),
        (0, ""),
    ] {
        assert_eq!(DataSource::from(number).to_string(), names, "{number:#x}");
    }
    let levels = "L1 L2 L3 L4 L2_MHB MSC - UNC CXL IO ANY_CACHE LFB RAM PMEM NA";
    for (number, name) in (1_u64..).zip(levels.split(' ')) {
        let name = if name == "-" { String::new() } else { format!("LVLNUM_{name}") };
        assert_eq!(DataSource::from(number << 33).to_string(), name, "{number:#x}");
    }
    for hops in 1_u64..=4 {
        assert_eq!(DataSource::from(hops << 43).to_string(), format!("HOPS_{}", hops - 1));
    }
    assert_eq!(DataSource::from(1 << 37 | 9 << 46), DataSource { is_remote: true, region: 9, ..DataSource::default() });
}

/// The 15 kinds of branches (`PERF_BR_*`), of which the last one stands for the newer kinds (`PERF_BR_NEW_*`).
#[test]
fn branches_of_every_kind_speculation_and_privilege_are_distinguished() {
    let layout = Layout { content: Content::BRANCHES, ..Layout::default() };
    let branch = |flags: u64| {
        let record = written().u64s([1, 0x10, 0x20, flags]).as_record(9, 0);
        let [record] = &layout.records(&record).collect::<Vec<_>>()[..] else { panic!("one") };
        let Body::Sample(Sample { branches: Some(branches), .. }) = record.body else { panic!("{record:?}") };
        branches.iter().next().expect("one")
    };
    for n in 0..15_u8 {
        assert_eq!(branch(u64::from(n) << 20).kind, n);
        assert_eq!(branch(15 << 20 | u64::from(n) << 26).kind, 16 + n);
    }
    assert_eq!([0, 1, 2, 3].map(|n| branch(n << 24).speculation), [0, 1, 2, 3]);
    assert_eq!([0, 1, 2, 3, 4, 5, 6].map(|n| branch(n << 30).privilege), [0, 1, 2, 3, 4, 5, 6]);
    let all = branch(0b1100);
    assert!(all.in_transaction && all.aborted && !all.mispredicted && !all.predicted);
}
