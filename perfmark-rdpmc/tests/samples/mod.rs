//! Events that sample, and the buffer to which the kernel writes their samples (`perf_event_open(2)`, "MMAP layout").
//! This crate opens such events and controls them; the buffer is mapped here.

use std::os::fd::RawFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Acquire;

use perfmark_rdpmc::{Attr, Counter, Field, Software};

#[path = "../process/mod.rs"]
#[allow(dead_code, reason = "only its memory is used")]
mod process;

/// The page faults of each test: few enough for the kernel not to throttle the samples.
const FAULTS: usize = 20;

const PERF_SAMPLE_IDENTIFIER: u64 = 1 << 16;
const PERF_EVENT_IOC_ID: libc::Ioctl = 0x8008_2407_u32 as libc::Ioctl;
const PERF_RECORD_SAMPLE: u32 = 9;
/// The offset of `data_head` in `struct perf_event_mmap_page`.
const DATA_HEAD: usize = 1024;

/// The event with a sample at every occurrence, which contains the event's id. `None` on a target without counters.
fn sampling(event: Software) -> Option<Attr> {
    let attr = Attr::new(event).field(Field::SamplePeriod, 1).field(Field::SampleType, PERF_SAMPLE_IDENTIFIER);
    match Counter::open(&attr) {
        Ok(_) => Some(attr),
        Err(error) if error.is_unsupported() => None,
        Err(error) => panic!("{error}"),
    }
}

fn open(attr: &Attr) -> Counter {
    Counter::open(attr).unwrap_or_else(|error| panic!("{error}"))
}

/// The descriptor of the event with that id.
fn descriptor(counter: &Counter) -> RawFd {
    let expected = counter.id().expect("known");
    let entries = std::fs::read_dir("/proc/self/fd").expect("there").flatten();
    let mut numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<RawFd>().ok());
    let is_event = |fd: &RawFd| {
        let mut id = 0_u64;
        // SAFETY: any file may get this request; only perf events support it, and write a number.
        unsafe { libc::ioctl(*fd, PERF_EVENT_IOC_ID, &raw mut id) == 0 && id == expected }
    };
    numbers.find(is_event).expect("open")
}

/// An event's buffer: a metadata page, and eight pages with records.
struct Buffer {
    start: NonNull<u64>,
    page: usize,
}

const PAGES: usize = 8;

impl Buffer {
    fn of(counter: &Counter) -> Self {
        // SAFETY: no preconditions; then a new mapping at an address of the kernel's choice.
        unsafe {
            let page = usize::try_from(libc::sysconf(libc::_SC_PAGESIZE)).expect("a size");
            let access = libc::PROT_READ | libc::PROT_WRITE;
            let fd = descriptor(counter);
            let start = libc::mmap(ptr::null_mut(), (1 + PAGES) * page, access, libc::MAP_SHARED, fd, 0);
            assert_ne!(start, libc::MAP_FAILED, "{}", std::io::Error::last_os_error());
            let buffer = Self { start: NonNull::new(start.cast()).expect("not at 0"), page };
            // Touches each page now, so that its fault is not counted later.
            (0..=PAGES).for_each(|n| _ = buffer.start.as_ptr().byte_add(n * page).read_volatile());
            buffer
        }
    }

    /// The ids in the samples that are taken while pages are touched.
    fn of_faults(&self) -> Vec<u64> {
        let before = self.ids().len();
        process::Memory::new(FAULTS).touch();
        self.ids().split_off(before)
    }

    /// The ids in all samples so far. They are too few to wrap around.
    fn ids(&self) -> Vec<u64> {
        // SAFETY: inside the mapping. The kernel writes `data_head` last; everything is aligned to 8.
        let word = |offset: usize| unsafe { self.start.as_ptr().byte_add(offset).read_volatile() };
        // SAFETY: as above.
        let head = unsafe { AtomicU64::from_ptr(self.start.as_ptr().byte_add(DATA_HEAD)).load(Acquire) };
        let (mut at, mut ids) = (0, Vec::new());
        while at < usize::try_from(head).expect("small") {
            // `struct perf_event_header`: type, misc, size.
            let header = word(self.page + at).to_ne_bytes();
            let kind = u32::from_ne_bytes(header[..4].try_into().expect("4"));
            if kind == PERF_RECORD_SAMPLE {
                ids.push(word(self.page + at + 8));
            }
            at += usize::from(u16::from_ne_bytes(header[6..].try_into().expect("2")));
        }
        ids
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: our own mapping.
        unsafe { libc::munmap(self.start.as_ptr().cast(), (1 + PAGES) * self.page) };
    }
}

pub(super) fn paused() {
    let Some(attr) = sampling(Software::MinorFaults) else { return };
    let counter = open(&attr);
    let buffer = Buffer::of(&counter);
    for (pause, samples) in [(true, 0), (false, FAULTS), (true, 0), (false, FAULTS)] {
        counter.pause_output(pause).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(buffer.of_faults().len(), samples);
    }
    assert!(counter.read().expect("readable").value >= 4 * FAULTS as u64, "it still counts");
}

pub(super) fn not_suited() {
    let Some(attr) = sampling(Software::MinorFaults) else { return };
    let counter = open(&attr);
    let _buffer = Buffer::of(&counter);
    let error = counter.set_output(None).expect_err("it has a ring of its own").to_string();
    assert!(error.contains("failed with EINVAL: the counter's page is mapped"), "{error}");
}

pub(super) fn period_changed() {
    let Some(attr) = sampling(Software::MinorFaults) else { return };
    let counter = open(&attr);
    let buffer = Buffer::of(&counter);
    assert_eq!(buffer.of_faults().len(), FAULTS);
    counter.period(5).unwrap_or_else(|error| panic!("{error}"));
    // The kernel completes the old period first (`perf_swevent_set_period`).
    let _ = buffer.of_faults();
    assert_eq!(buffer.of_faults().len(), FAULTS / 5);
}

pub(super) fn a_few_more() {
    let Some(attr) = sampling(Software::MinorFaults) else { return };
    let counter = open(&attr.disabled(true));
    let buffer = Buffer::of(&counter);
    assert_eq!(buffer.of_faults(), [], "opened stopped");
    for _ in 0..2 {
        counter.refresh(3).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(buffer.of_faults().len(), 3, "stopped after three");
    }
}
