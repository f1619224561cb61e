//! Switches of a thread: the lock of its ring's page, and the records.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use perfmark_rdpmc::sample::{Body, Clock, Content, Records, Ring, Sampler, Switch};

use super::{gettid, open};

fn switches() -> Sampler {
    Sampler::dummy().records(Records::CONTEXT_SWITCH).content(Content::TIME | Content::THREAD).pages(1)
}

/// The switches in the ring, and when they were.
fn drained(ring: &Ring) -> Vec<(u64, Switch)> {
    let mut reader = ring.reader().unwrap_or_else(|error| panic!("{error}"));
    let mut all = Vec::new();
    while let Some(record) = reader.read() {
        let Body::Switch(switch) = record.body else { panic!("{record:?}") };
        all.push((record.origin.time.expect("requested"), switch));
    }
    assert!(reader.position() <= ring.head());
    all
}

/// Lock and head, without a switch in between.
fn at_once(ring: &Ring) -> (u32, u64) {
    loop {
        let (lock, head) = (ring.lock(), ring.head());
        if ring.lock() == lock {
            return (lock, head);
        }
    }
}

pub(super) fn the_lock_moves_when_and_only_when_the_thread_is_off_its_cpu() {
    const REGIONS: usize = 3_000;
    let ring = open(&switches().clock(Clock::Monotonic));
    let (mut still, mut moved) = (0, 0);
    for n in 0..REGIONS {
        drained(&ring);
        let before = at_once(&ring);
        if n % 100 == 0 {
            thread::yield_now();
            thread::sleep(Duration::from_micros(50));
        } else {
            let _ = perfmark_rdpmc::known_loop(2_000);
        }
        let after = at_once(&ring);
        let (is_moved, written) = (after.0 != before.0, after.1 != before.1);
        assert_eq!(is_moved, written, "region {n}");
        if is_moved { moved += 1 } else { still += 1 }
    }
    println!("{still} regions on the CPU, {moved} with a switch");
    assert!(moved >= REGIONS / 100 && still > 0);
}

pub(super) fn a_sleep_is_blocked_time() {
    let ring = open(&switches().clock(Clock::Monotonic));
    drained(&ring);
    let start = Instant::now();
    thread::sleep(Duration::from_millis(50));
    let slept = start.elapsed();
    let all = drained(&ring);
    // Another thread may have taken the CPU before or after.
    let blocked = all.windows(2).filter(|pair| pair[0].1.is_out && !pair[0].1.is_preempted);
    let off: u64 = blocked.map(|pair| pair[1].0 - pair[0].0).sum();
    println!("{all:?}: {off} ns blocked of {slept:?}");
    assert!(Duration::from_nanos(off) <= slept && off > 40_000_000, "{off} of {slept:?}");
}

pub(super) fn another_thread_is_sampled_and_its_records_outlive_it() {
    let (sender, receiver) = mpsc::channel();
    let (go, wait) = mpsc::channel::<()>();
    let other = thread::spawn(move || {
        sender.send(gettid()).expect("received");
        wait.recv().expect("sent");
    });
    let tid = receiver.recv().expect("sent");
    let ring = open(&switches().thread(tid).records(Records::TASK | Records::COMM));
    assert!(!ring.has_ended());
    go.send(()).expect("received");
    other.join().expect("does not panic");
    // The kernel ends the thread a little later than that.
    perfmark_rdpmc::sample::wait(&[&ring], None).unwrap_or_else(|error| panic!("{error}"));
    assert!(ring.has_ended());
    assert!(ring.count().is_ok());
    let mut reader = ring.reader().unwrap_or_else(|error| panic!("{error}"));
    let (mut switches, mut exits) = (0, 0);
    while let Some(record) = reader.read() {
        match record.body {
            Body::Switch(_) => switches += 1,
            Body::Exit(task) => {
                assert_eq!((task.thread.tid, task.thread.pid), (tid, std::process::id()));
                exits += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(switches > 0 && exits == 1, "{switches} {exits}");
}
