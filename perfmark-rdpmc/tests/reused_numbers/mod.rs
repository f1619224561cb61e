//! A program that closes all descriptors, and gets their numbers for files of its own.

use std::fs;
use std::os::fd::RawFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use perfmark_rdpmc::{Attr, Counter, Delta, Error, Group, Hardware, Region, Software, known_loop};

use super::{best_attr, open};

/// The first use of each counter after its number was reused.
type FirstUse = fn(&Counter) -> Result<(), Error>;

const FIRST_USES: &[FirstUse] = &[
    |counter| counter.read_syscall().map(|_| ()),
    Counter::reset,
    Counter::disable,
    Counter::enable,
    |counter| counter.id().map(|_| ()),
    |counter| counter.set_period(1),
    |counter| counter.pause_output(true),
];

/// Counters and groups, for each kind of file that can get a number.
pub(super) fn all_kinds() {
    for own in [sockets, events, events_like_ours] {
        let Some(mut regions) = open(&Attr::new(Software::TaskClock)) else { return };
        let losses = Arc::new(AtomicU64::new(0));
        regions.count_loss_in(losses.clone());
        let attr = best_attr();
        let counters: Vec<Counter> =
            FIRST_USES.iter().map(|_| open(&Attr::new(Software::TaskClock)).expect("opens")).collect();
        let best = open(&attr).expect("opens");
        let groups = [0; 3].map(|_| Group::open(&[attr.clone(), attr.clone()]).expect("opens"));
        // Three counters that are read at once.
        let leader = open(&Attr::new(Software::PageFaults)).expect("opens");
        let reader = Counter::open_reader(&Attr::new(Software::TaskClock), &leader).expect("opens");
        let member = Counter::open_member(&Attr::new(Software::CpuClock), &leader, &reader).expect("opens");
        let mut joined = [leader, reader, member];
        let losses_of_joined = Arc::new(AtomicU64::new(0));
        for counter in &mut joined {
            counter.count_loss_in(losses_of_joined.clone());
        }
        let [leader, reader, member] = &joined;
        let read = reader.read_group();
        let begun = [leader, reader, member].map(|counter| read.begin(counter));
        let mut before = Region::default();
        regions.begin(&mut before);
        // SAFETY: nothing that the standard library uses later is open beyond 2.
        (3..4_096).for_each(|fd| _ = unsafe { libc::close(fd) });
        let own = own();
        let values: Vec<_> = own.fds.iter().map(|&fd| value(fd)).collect();
        let _ = known_loop(100_000);
        // A region that began before, and one that begins afterwards.
        assert_eq!(regions.end(&before), Delta::Unmeasured);
        let mut after = Region::default();
        regions.begin(&mut after);
        assert_eq!(regions.end(&after), Delta::Unmeasured);
        assert_eq!(losses.load(Relaxed), 1, "counted once");
        for _ in 0..2 {
            let read = reader.read_group();
            assert!(joined.iter().zip(&begun).all(|(counter, region)| read.end(counter, region) == Delta::Unmeasured));
        }
        assert_eq!(losses_of_joined.load(Relaxed), 3, "each counter once");
        let refused = Counter::open_member(&Attr::new(Software::TaskClock), leader, reader);
        assert_closed(&refused.expect_err("the group no longer exists"), 104);
        for (n, (counter, first_use)) in counters.iter().zip(FIRST_USES).enumerate() {
            assert_closed(&first_use(counter).expect_err("it is another file's"), n);
            assert_closed(&counter.read().expect_err("given up"), n);
        }
        assert_eq!(best.read().is_ok(), best.user_reads().is_ok(), "user-space reads continue");
        assert_closed(&best.read_syscall().expect_err("another file's"), 100);
        assert_closed(&groups[0].read_syscall().expect_err("another file's"), 101);
        assert_closed(&groups[1].reset().expect_err("another file's"), 102);
        assert_closed(&groups[2].disable().expect_err("another file's"), 103);
        drop((regions, counters, best, groups, joined));
        for ((&fd, file), before) in own.fds.iter().zip(&own.files).zip(values) {
            assert_eq!(&file_of(fd), file, "{fd} was closed");
            assert!(value(fd) >= before, "{fd} was read or reset");
        }
        // Counters that are opened now work.
        assert!(open(&attr).expect("opens").read_syscall().is_ok());
        // SAFETY: this function's.
        own.fds.iter().for_each(|&fd| _ = unsafe { libc::close(fd) });
    }
}

/// More events than the PMU has counters: those that are off the PMU at the moment would be read by `read(2)`.
pub(super) fn multiplexed() {
    const EVENTS: usize = 12;
    const ITERATIONS: u64 = 10_000;
    let attr = Attr::new(Hardware::Instructions);
    let losses = Arc::new(AtomicU64::new(0));
    let counters: Vec<Counter> = std::iter::repeat_with(|| open(&attr).expect("there is a PMU"))
        .take(EVENTS)
        .map(|mut counter| {
            counter.count_loss_in(losses.clone());
            counter
        })
        .collect();
    // SAFETY: nothing that the standard library uses later is open beyond 2.
    (3..4_096).for_each(|fd| _ = unsafe { libc::close(fd) });
    let own = sockets();
    let mut regions = vec![Region::default(); EVENTS];
    let (mut measured, mut unmeasured) = (0, 0);
    for _ in 0..10_000 {
        counters.iter().zip(&mut regions).for_each(|(counter, region)| counter.begin(region));
        let length = known_loop(ITERATIONS);
        for (counter, region) in counters.iter().zip(&regions) {
            match counter.end(region) {
                Delta::Exact(value) => {
                    // If several CPUs are emulated, the time that the host takes away is counted as well.
                    assert!((length..length << 20).contains(&value), "{value} of {length}");
                    measured += 1;
                }
                Delta::Scaled { .. } => {}
                Delta::Unmeasured => unmeasured += 1,
            }
        }
        if losses.load(Relaxed) == EVENTS as u64 {
            break;
        }
    }
    println!("{measured} regions exact, {unmeasured} unmeasured; {} counters detected it", losses.load(Relaxed));
    assert!(measured > 0 && unmeasured > 0 && losses.load(Relaxed) > 0);
    drop(counters);
    own.fds.iter().zip(&own.files).for_each(|(&fd, file)| assert_eq!(&file_of(fd), file));
}

fn assert_closed(error: &Error, of: usize) {
    assert!(error.to_string().contains("closed by other code"), "{of}: {error}");
}

struct Own {
    fds: Vec<RawFd>,
    files: Vec<PathBuf>,
}

impl Own {
    fn new(fd: impl FnMut() -> RawFd) -> Self {
        const MANY: usize = 600;
        let fds: Vec<RawFd> = std::iter::repeat_with(fd).take(MANY).collect();
        assert!((512..530).all(|number| fds.contains(&number)), "ulimit -n?");
        let files = fds.iter().map(|&fd| file_of(fd)).collect();
        Self { fds, files }
    }
}

fn file_of(fd: RawFd) -> PathBuf {
    fs::read_link(format!("/proc/self/fd/{fd}")).unwrap_or_else(|error| panic!("{fd} is closed: {error}"))
}

/// Sockets without data, in which a read would block.
fn sockets() -> Own {
    // SAFETY: takes no pointer.
    Own::new(|| unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_DGRAM, 0) })
}

fn events() -> Own {
    Own::new(|| event(3))
}

/// Events like those of another copy of this crate.
fn events_like_ours() -> Own {
    Own::new(|| {
        let fd = event(7);
        // SAFETY: takes no pointer.
        assert_eq!(unsafe { libc::fcntl(fd, libc::F_SETFL, libc::O_APPEND | libc::O_NONBLOCK) }, 0);
        fd
    })
}

/// An event that counts this thread's time in user mode, with the first version of `struct perf_event_attr`.
fn event(read_format: u64) -> RawFd {
    let (software, size, task_clock, no_kernel_nor_hv) = (1, 64 << 32, 1, 0b11 << 5);
    let attr: [u64; 8] = [software | size, task_clock, 0, 0, read_format, no_kernel_nor_hv, 0, 0];
    // SAFETY: a live structure of that size.
    let fd = unsafe { libc::syscall(libc::SYS_perf_event_open, attr.as_ptr(), 0, -1, -1, 0) };
    RawFd::try_from(fd).expect("small")
}

/// An event's value; 0 for a socket, which has no data.
fn value(fd: RawFd) -> u64 {
    let mut numbers = [0_u64; 4];
    let is_event = file_of(fd).to_string_lossy().contains("perf_event");
    // SAFETY: live memory of that size.
    let n = if is_event { unsafe { libc::read(fd, numbers.as_mut_ptr().cast(), size_of_val(&numbers)) } } else { 0 };
    assert!(!is_event || n >= 24, "{fd}: {n}");
    numbers[0]
}
