//! Switches of a thread: the lock of its ring's page, and the records.

use std::io::Read as _;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use perfmark_rdpmc::Target;
use perfmark_rdpmc::sample::{Body, Clock, Content, Records, Ring, Sampler, Switch};

use super::{for_each_record, gettid, open, process};

fn switches() -> Sampler {
    Sampler::dummy().records(Records::CONTEXT_SWITCH).content(Content::TIME | Content::THREAD).pages(1)
}

/// The switches in the ring, and when they were.
fn drained(ring: &Ring) -> Vec<(u64, Switch)> {
    let mut reader = ring.reader().expect("no other reader");
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

pub(super) fn the_lock_moves_with_each_switch() {
    const MOVED: usize = 30;
    const STILL: usize = 3_000;
    let ring = open(&switches().clock(Clock::Monotonic));
    let (mut still, mut moved, mut by_others) = (0, 0, 0);
    // Whether a region has a switch is the kernel's choice, also if it yields or sleeps.
    while moved < MOVED || still < STILL {
        drained(&ring);
        let outer = process::switches();
        let before = at_once(&ring);
        let inner = process::switches();
        if moved * 100 <= still {
            thread::yield_now();
            thread::sleep(Duration::from_micros(50));
        } else {
            let _ = perfmark_rdpmc::known_loop(2_000);
        }
        let has_switched = process::switches() != inner;
        let after = at_once(&ring);
        let may_have_switched = process::switches() != outer;
        let regions = format!("{still} regions on the CPU, {moved} with a switch, {by_others} with another event");
        match (after.0 != before.0, after.1 != before.1) {
            (true, true) => {
                assert!(may_have_switched, "{regions}");
                moved += 1;
            }
            (false, true) => panic!("a switch did not move the lock: {regions}"),
            (is_moved, false) => {
                assert!(!has_switched, "{regions}");
                // Another program, or another test, opened an event on the CPU.
                if is_moved { by_others += 1 } else { still += 1 }
            }
        }
    }
    println!("{still} regions on the CPU, {moved} with a switch, {by_others} with another event");
}

pub(super) fn a_wait_is_blocked_time() {
    let ring = open(&switches().clock(Clock::Monotonic));
    let this = gettid();
    let (mut end, start) = std::io::pipe().expect("descriptors are left");
    let before = process::now(libc::CLOCK_MONOTONIC);
    drained(&ring);
    let other = thread::spawn(move || {
        process::until_blocked(this, libc::SYS_read);
        let blocked = process::now(libc::CLOCK_MONOTONIC);
        drop(start);
        blocked
    });
    assert_eq!(end.read(&mut [0]).expect("a pipe"), 0);
    let (all, after) = (drained(&ring), process::now(libc::CLOCK_MONOTONIC));
    let blocked = other.join().expect("does not panic");
    println!("{all:?}: blocked at {blocked}");
    // It may also have been off the CPU before or after.
    let mut waits = all.windows(2).filter(|pair| pair[0].1.is_out && !pair[0].1.is_preempted);
    assert!(waits.any(|pair| (pair[0].0..pair[1].0).contains(&blocked)), "not at {blocked}: {all:?}");
    assert!(all.iter().all(|(time, _)| (before..after).contains(time)), "not from {before} to {after}: {all:?}");
}

pub(super) fn another_thread_is_sampled_and_its_records_outlive_it() {
    let (sender, receiver) = mpsc::channel();
    let (go, wait) = mpsc::channel::<()>();
    let other = thread::spawn(move || {
        sender.send(gettid()).expect("received");
        wait.recv().expect("sent");
    });
    let tid = receiver.recv().expect("sent");
    // So that at least its return to a CPU is recorded.
    process::until_blocked(tid, libc::SYS_futex);
    let ring = open(&switches().target(Target::thread(tid)).records(Records::TASK | Records::COMM));
    assert!(!ring.has_ended());
    go.send(()).expect("received");
    other.join().expect("does not panic");
    // The kernel ends the thread a little later than that.
    while !ring.has_ended() {
        perfmark_rdpmc::sample::wait(&[&ring], None).expect("readable");
    }
    let ended = perfmark_rdpmc::sample::wait(&[&ring], None).expect("readable");
    assert!(ended.len() == 1 && ended[0].ring == 0 && ended[0].has_ended, "{ended:?}");
    assert!(ring.count().is_ok());
    let (mut switches, mut exits) = (0, 0);
    for_each_record(&ring, |record| match record.body {
        Body::Switch(_) => switches += 1,
        Body::Exit(task) => {
            assert_eq!((task.thread.tid, task.thread.pid), (tid, std::process::id()));
            exits += 1;
        }
        other => panic!("{other:?}"),
    });
    assert!(switches > 0 && exits == 1, "{switches} {exits}");
}
