//! Each kind of record, byte by byte as the kernel writes it.

mod samples;

use super::*;
use crate::flags::Content;
use crate::sys::{FORMAT_ID, FORMAT_LOST};

/// The bytes of a record.
#[derive(Default)]
struct Written(Vec<u8>);

impl Written {
    fn u16(mut self, number: u16) -> Self {
        self.0.extend(number.to_ne_bytes());
        self
    }

    fn u32(mut self, number: u32) -> Self {
        self.0.extend(number.to_ne_bytes());
        self
    }

    fn u64(self, number: u64) -> Self {
        self.u64s([number])
    }

    fn u64s(mut self, numbers: impl IntoIterator<Item = u64>) -> Self {
        self.0.extend(numbers.into_iter().flat_map(u64::to_ne_bytes));
        self
    }

    fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend(bytes);
        self
    }

    /// With a zero at its end, and padded to 8 bytes.
    fn text(mut self, text: &str) -> Self {
        self.0.extend(text.bytes());
        self.0.resize((self.0.len() + 1).next_multiple_of(8), 0);
        self
    }

    fn as_record(&self, kind: u32, misc: u16) -> Vec<u8> {
        let size = u16::try_from(8 + self.0.len()).expect("small");
        Self::default().u32(kind).u16(misc).u16(size).bytes(&self.0).0
    }
}

fn written() -> Written {
    Written::default()
}

const ORIGIN: Content = Content::IDENTIFIER;

/// A layout in which records other than samples have an origin.
fn layout() -> Layout {
    let content =
        [Content::THREAD, Content::TIME, Content::STREAM_ID, Content::CPU].into_iter().fold(ORIGIN, |a, b| a | b);
    Layout { content, has_origin: true, read_format: FORMAT_ID | FORMAT_LOST, ..Layout::default() }
}

/// Checks a record with and without an origin, and each of its beginnings.
fn check(kind: u32, misc: u16, written: &Written, check: impl Fn(&Body<'_>)) {
    for layout in [layout(), Layout { has_origin: false, ..layout() }] {
        let mut whole = Written(written.0.clone());
        if layout.has_origin {
            whole = whole.u32(10).u32(11).u64s([12, 13]).u32(14).u32(0).u64(15);
        }
        let bytes = whole.as_record(kind, misc);
        let all: Vec<_> = layout.records(&bytes).collect();
        let [record] = &all[..] else { panic!("{all:?}") };
        check(&record.body);
        let expected = Origin {
            thread: Some(ThreadId { pid: 10, tid: 11 }),
            time: Some(12),
            id: Some(15),
            stream_id: Some(13),
            cpu: Some(14),
        };
        assert_eq!(record.origin, if layout.has_origin { expected } else { Origin::default() });
        beginnings(&layout, kind, misc, &whole);
    }
}

/// A record that is cut off is none, and one that ends too early is kept as bytes or is shorter.
fn beginnings(layout: &Layout, kind: u32, misc: u16, whole: &Written) {
    let bytes = whole.as_record(kind, misc);
    for length in 0..bytes.len() {
        assert_eq!(layout.records(&bytes[..length]).count(), 0);
    }
    for length in 0..whole.0.len() {
        let bytes = Written(whole.0[..length].to_vec()).as_record(kind, misc);
        let [record] = &layout.records(&bytes).collect::<Vec<_>>()[..] else { panic!("one") };
        if let Body::Unknown { kind: unknown, bytes } = record.body {
            assert_eq!((unknown, bytes), (kind, &whole.0[..length]));
        }
    }
}

/// Checks the body of a record of one shape.
macro_rules! check {
    ($kind:literal, $misc:expr, $written:expr, $pattern:pat => $check:expr) => {
        check($kind, $misc, &$written, |body| {
            let $pattern = body else { panic!("{body:?}") };
            $check
        })
    };
}

const BIT_13: u16 = 1 << 13;
const BIT_14: u16 = 1 << 14;

#[test]
fn mappings() {
    let start = || written().u32(1).u32(2).u64s([0x1000, 0x2000, 0x3000]);
    check!(1, BIT_13, start().text("/bin/true"), Body::Mmap(mmap) => {
        assert_eq!((mmap.thread, mmap.address, mmap.length), (ThreadId { pid: 1, tid: 2 }, 0x1000, 0x2000));
        assert_eq!((mmap.offset, mmap.is_data, mmap.path), (0x3000, true, &b"/bin/true"[..]));
        assert!(mmap.more.is_none());
    });
    let inode = start().u32(8).u32(1).u64s([77, 78]).u32(5).u32(2).text("//anon");
    check!(10, 0, inode, Body::Mmap(mmap) => {
        let more = mmap.more.expect("MMAP2");
        assert_eq!(more.file, MappedFile::Inode { major: 8, minor: 1, inode: 77, generation: 78 });
        assert_eq!((more.protection, more.flags, mmap.is_data, mmap.path), (5, 2, false, &b"//anon"[..]));
    });
    let id: Vec<u8> = (1..=20).collect();
    let build_id = start().bytes(&[20, 0, 0, 0]).bytes(&id).u32(5).u32(2).text("/lib/libc.so");
    check!(10, BIT_14, build_id, Body::Mmap(mmap) => {
        assert_eq!(mmap.more.expect("MMAP2").file, MappedFile::BuildId(&(1..=20).collect::<Vec<u8>>()));
        assert_eq!(mmap.path, b"/lib/libc.so");
    });
}

#[test]
fn losses_and_throttling() {
    check!(2, 0, written().u64s([7, 5]), Body::Lost { id, lost } => assert_eq!((*id, *lost), (7, 5)));
    check!(13, 0, written().u64(5), Body::LostSamples { lost } => assert_eq!(*lost, 5));
    let throttle = Throttle { time: 1, id: 2, stream_id: 3 };
    check!(5, 0, written().u64s([1, 2, 3]), Body::Throttle(is) => assert_eq!(*is, throttle));
    check!(6, 0, written().u64s([1, 2, 3]), Body::Unthrottle(is) => assert_eq!(*is, throttle));
}

#[test]
fn threads() {
    check!(3, BIT_13, written().u32(1).u32(2).text("true"), Body::Comm(comm) => {
        assert_eq!(*comm, Comm { thread: ThreadId { pid: 1, tid: 2 }, is_exec: true, name: b"true" });
    });
    let task = Task { thread: ThreadId { pid: 1, tid: 3 }, parent: ThreadId { pid: 2, tid: 4 }, time: 5 };
    let bytes = || written().u32(1).u32(2).u32(3).u32(4).u64(5);
    check!(4, 0, bytes(), Body::Exit(is) => assert_eq!(*is, task));
    check!(7, 0, bytes(), Body::Fork(is) => assert_eq!(*is, task));
    let namespaces = written().u32(1).u32(2).u64s([2, 3, 4, 5, 6]);
    check!(16, 0, namespaces, Body::Namespaces(namespaces) => {
        assert_eq!(namespaces.thread, ThreadId { pid: 1, tid: 2 });
        assert_eq!(namespaces.iter().collect::<Vec<_>>(), [(3, 4), (5, 6)]);
    });
}

#[test]
fn switches() {
    for (misc, is_out, is_preempted) in [(0, false, false), (BIT_13, true, false), (BIT_13 | BIT_14, true, true)] {
        let switch = Switch { is_out, is_preempted, other: None };
        check!(14, misc, written(), Body::Switch(is) => assert_eq!(*is, switch));
        let switch = Switch { other: Some(ThreadId { pid: 8, tid: 9 }), ..switch };
        check!(15, misc, written().u32(8).u32(9), Body::Switch(is) => assert_eq!(*is, switch));
    }
}

#[test]
fn kernel_code_and_control_groups() {
    for (kind, flags) in [(1, 1), (2, 0)] {
        let symbol = Ksymbol { address: 0x1000, length: 64, kind, flags, name: b"bpf_prog_1" };
        let bytes = written().u64(0x1000).u32(64).u16(kind).u16(flags).text("bpf_prog_1");
        check!(17, 0, bytes, Body::Ksymbol(is) => assert_eq!(*is, symbol));
    }
    for kind in [1, 2] {
        let event = BpfEvent { kind, flags: 0, id: 9, tag: *b"12345678" };
        let bytes = written().u16(kind).u16(0).u32(9).bytes(b"12345678");
        check!(18, 0, bytes, Body::BpfEvent(is) => assert_eq!(*is, event));
    }
    let bytes = written().u64(6).text("/a/b");
    check!(19, 0, bytes, Body::Cgroup { id, path } => assert_eq!((*id, *path), (6, &b"/a/b"[..])));
    let poke = TextPoke { address: 0x1000, old: &[1, 2], new: &[3, 4, 5] };
    let bytes = written().u64(0x1000).u16(2).u16(3).bytes(&[1, 2, 3, 4, 5]).bytes(&[0; 7]);
    check!(20, 0, bytes, Body::TextPoke(is) => assert_eq!(*is, poke));
}

#[test]
fn every_mode_of_the_processor_is_known() {
    let modes =
        [Mode::Unknown, Mode::Kernel, Mode::User, Mode::Hypervisor, Mode::GuestKernel, Mode::GuestUser, Mode::Unknown];
    for (misc, mode) in (0..).zip(modes) {
        let bytes = written().u64(1).as_record(13, misc | BIT_13);
        assert_eq!(layout().records(&bytes).map(|record| record.mode).collect::<Vec<_>>(), [mode]);
    }
}

#[test]
fn traces() {
    let aux = Aux { offset: 0x1000, size: 64, flags: 0x101 };
    check!(11, 0, written().u64s([0x1000, 64, 0x101]), Body::Aux(is) => assert_eq!(*is, aux));
    check!(12, 0, written().u32(1).u32(2), Body::TraceStart(is) => assert_eq!(*is, ThreadId { pid: 1, tid: 2 }));
    check!(21, 0, written().u64(3), Body::AuxOutputHardwareId { hardware_id } => assert_eq!(*hardware_id, 3));
}

/// `PERF_AUX_FLAG_*`: truncated, overwritten, with gaps, collided; the format.
#[test]
fn flags_of_aux_data_are_kept() {
    for flags in [1, 2, 4, 8, 0x100, 0xff00] {
        check!(11, 0, written().u64s([0, 64, flags]), Body::Aux(is) => assert_eq!(is.flags, flags));
    }
}

#[test]
fn counts_of_ended_threads() {
    check!(8, 0, written().u32(1).u32(2).u64s([100, 7, 3]), Body::Read(read) => {
        assert_eq!(read.thread, ThreadId { pid: 1, tid: 2 });
        let value = Value { value: 100, id: Some(7), lost: Some(3) };
        assert_eq!(read.values.iter().collect::<Vec<_>>(), [value]);
    });
}

#[test]
fn other_kinds_are_kept_as_bytes() {
    let bytes = written().u64s([1, 2]);
    let record = bytes.as_record(4_000, 0b10);
    let [record] = &layout().records(&record).collect::<Vec<_>>()[..] else { panic!("one") };
    assert_eq!(record.mode, Mode::User);
    let Body::Unknown { kind: 4_000, bytes: kept } = record.body else { panic!("{record:?}") };
    assert_eq!(kept, bytes.0);
    // No record is shorter than its header.
    assert_eq!(layout().records(&written().u32(9).u16(0).u16(7).u64(0).0).count(), 0);
}
