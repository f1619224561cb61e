//! Samples of page faults, whose addresses are known.

use std::os::fd::{AsFd as _, AsRawFd as _, FromRawFd as _, OwnedFd};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

use perfmark_rdpmc::sample::{self, Body, Clock, Content, ReadFormat, Ring, Sampler};
use perfmark_rdpmc::{Access, Attr, Breakpoint, Counter, Field, Software, Target, TargetCounter};

use super::memory::{Memory, page_size};
use super::{for_each_record, for_each_sample, gettid, open};

pub(super) fn faults() -> Sampler {
    Sampler::new(Attr::new(Software::PageFaults)).content(Content::ADDRESS)
}

/// Touches that many new pages, and returns their addresses.
pub(super) fn touch(pages: usize) -> Vec<u64> {
    let memory = Memory::new(pages);
    memory.touch();
    (0..pages).map(|page| (memory.address() + page * page_size()) as u64).collect()
}

/// The addresses in the samples. What was lost while the output was paused is no sample.
pub(super) fn addresses(ring: &Ring) -> Vec<u64> {
    let mut all = Vec::new();
    for_each_record(ring, |record| match record.body {
        Body::Sample(sample) => all.push(sample.address.expect("requested")),
        Body::Lost { .. } => {}
        other => panic!("{other:?}"),
    });
    all
}

/// Those of them that are among `touched`. The list of addresses, and the reader, are memory as well.
pub(super) fn sampled(ring: &Ring, touched: &[u64]) -> Vec<u64> {
    let mut sampled = addresses(ring);
    sampled.retain(|address| touched.contains(address));
    sampled
}

/// The number of samples, and of lost records.
fn drained(ring: &Ring) -> (u64, u64) {
    let (mut samples, mut all_lost) = (0, 0);
    for_each_record(ring, |record| match record.body {
        Body::Sample(_) => samples += 1,
        Body::Lost { lost, .. } => all_lost += lost,
        other => panic!("{other:?}"),
    });
    (samples, all_lost)
}

pub(super) fn every_fault_has_its_exact_address() {
    let ring = open(&faults());
    // The reader's own memory.
    touch(1);
    let _ = addresses(&ring);
    let mut touched = Vec::new();
    for _ in 0..2 {
        touched.extend(touch(500));
    }
    let sampled = sampled(&ring, &touched);
    println!("{} of {} exact", sampled.len(), touched.len());
    assert_eq!(sampled, touched);
    assert_eq!(ring.count().expect("readable").lost.unwrap_or(0), 0);
}

/// Each fault is a record or a lost one: the kernel does not throttle an event with a period of 1.
pub(super) fn lost_records_are_counted_exactly() {
    const LOST: usize = 1_000;
    let ring = open(&faults().pages(1));
    // The kernel leaves one byte free.
    let capacity = ring.bytes() / 16 - 1;
    touch(capacity + LOST);
    ring.disable().expect("allowed");
    assert_eq!(drained(&ring), (capacity as u64, 0), "the loss is reported once there is room");
    ring.enable().expect("allowed");
    touch(10);
    ring.disable().expect("allowed");
    let (samples, lost) = drained(&ring);
    let count = ring.count().expect("readable");
    println!("{capacity} samples, {samples} more, {lost} lost: {count:?}");
    assert_eq!(capacity as u64 + samples + lost, count.value);
    assert!(lost >= LOST as u64, "{lost}");
    match count.lost {
        Some(counted) => assert_eq!(lost, counted),
        None => println!("linux before 6.0 does not count lost records"),
    }
}

pub(super) fn records_that_wrap_are_whole() {
    // Records of 40 bytes, which is no divisor of a page.
    let content = Content::IP | Content::THREAD | Content::TIME;
    let ring = open(&faults().content(content).pages(1));
    let mut last = 0;
    while ring.head() < 5 * ring.bytes() as u64 {
        let touched = touch(20);
        let mut sampled = Vec::new();
        for_each_sample(&ring, |sample, origin| {
            let (thread, time) = (origin.thread.expect("requested"), origin.time.expect("requested"));
            assert_eq!((thread.pid, thread.tid), (std::process::id(), gettid()));
            assert!(time >= last, "{time} after {last}");
            last = time;
            sampled.extend(sample.address.filter(|address| touched.contains(address)));
        });
        assert_eq!(sampled, touched);
    }
}

pub(super) fn the_newest_records_of_an_overwritten_ring_are_read_first() {
    let ring = open(&faults().pages(1).overwrite(true));
    let room = ring.bytes() / 16;
    for _ in 0..2 {
        let touched = touch(4 * room);
        let sampled = sampled(&ring, &touched);
        let newest: Vec<u64> = touched.into_iter().rev().take(sampled.len()).collect();
        println!("{} of {}", sampled.len(), 4 * room);
        assert!((room * 3 / 4..=room).contains(&sampled.len()), "{}", sampled.len());
        assert_eq!(sampled, newest);
    }
}

pub(super) fn a_reader_of_an_overwritten_ring_keeps_its_pause() {
    let ring = open(&faults().pages(1).overwrite(true));
    let pause = |pause| ring.pause_output(pause).expect("allowed");
    let written = || {
        let before = ring.head();
        touch(10);
        ring.head() != before
    };
    pause(true);
    drop(ring.reader());
    assert!(!written(), "paused by the program");
    pause(false);
    assert!(written());
    let reader = ring.reader();
    pause(true);
    pause(false);
    assert!(!written(), "being read");
    pause(true);
    drop(reader);
    assert!(!written(), "paused while it was read");
    pause(false);
    assert!(written());
}

pub(super) fn a_reader_that_was_refused_pauses_nothing() {
    let ring = open(&faults().pages(1).overwrite(true));
    let own = ring.as_fd().try_clone_to_owned().expect("a descriptor is left");
    let other = std::fs::File::open("/dev/null").expect("there");
    // SAFETY: the ring's number is another file's for a while, as if other code had closed it.
    let replace = |by: i32| unsafe { libc::dup3(by, ring.as_fd().as_raw_fd(), libc::O_CLOEXEC) };
    assert!(replace(other.as_raw_fd()) >= 0);
    assert!(ring.reader().is_err());
    assert!(replace(own.as_raw_fd()) >= 0);
    ring.pause_output(false).expect("allowed");
    let before = ring.head();
    touch(10);
    assert_ne!(ring.head(), before);
}

pub(super) fn samples_contain_what_was_requested() {
    // Unprivileged, without a PMU, on x86-64 and arm64: the stack pointer's number differs.
    let stack_pointer = if cfg!(target_arch = "x86_64") { 7 } else { 31 };
    let content = [
        Content::IP,
        Content::THREAD,
        Content::TIME,
        Content::READ,
        Content::CALLCHAIN,
        Content::ID,
        Content::CPU,
        Content::PERIOD,
        Content::STREAM_ID,
        Content::IDENTIFIER,
        Content::TRANSACTION,
        Content::DATA_SOURCE,
        Content::WEIGHT,
        Content::RAW,
    ];
    let all = content.into_iter().fold(Content::default(), |all, one| all | one);
    let sampler = faults().content(all).user_stack(512).user_registers(1 << stack_pointer);
    let ring = open(&sampler.interrupt_registers(1 << stack_pointer).group([Attr::new(Software::TaskClock)]));
    let on_the_stack = 0xfeed_f00d_dead_beef_u64;
    let touched = touch(3);
    std::hint::black_box(&on_the_stack);
    let id = ring.id().expect("readable");
    let (mut counts, mut last_time) = (Vec::new(), 0);
    for_each_sample(&ring, |sample, origin| {
        if !touched.contains(&sample.address.expect("requested")) {
            return;
        }
        let [event, clock] = sample.values.expect("requested").iter().collect::<Vec<_>>()[..] else { panic!("two") };
        assert_eq!((event.id, origin.id, origin.stream_id), (Some(id), Some(id), Some(id)));
        assert!(clock.value >= last_time && clock.id != Some(id));
        last_time = clock.value;
        counts.push(event.value);
        assert_eq!(sample.period, Some(1));
        assert!(sample.callchain.expect("requested").iter().any(|ip| Some(ip) == sample.ip));
        let stack = sample.user_stack.expect("requested");
        assert!((1..=512).contains(&stack.valid) && stack.bytes.len() == 512, "{}", stack.valid);
        let pointer = sample.user_registers.expect("requested").get(stack_pointer).expect("requested");
        assert_eq!(sample.interrupt_registers.expect("requested").get(stack_pointer), Some(pointer));
        let here = std::ptr::from_ref(&on_the_stack).addr() as u64;
        assert!(pointer < here && here - pointer < 1 << 16, "{pointer:#x} {here:#x}");
        assert!(origin.cpu.is_some() && sample.weight.is_some() && sample.data_source.is_some());
    });
    println!("{counts:?}");
    assert!(counts.len() == 3 && counts.is_sorted_by(|a, b| a + 1 == *b), "{counts:?}");
}

pub(super) fn members_of_a_group_that_sample_write_to_the_ring() {
    let clock = Sampler::new(Attr::new(Software::TaskClock)).content(Content::ADDRESS).period(1 << 40);
    let ring = open(&clock.group([faults().attr().clone()]));
    let touched = touch(20);
    assert_eq!(sampled(&ring, &touched), touched);
}

pub(super) fn flags_of_a_field_are_as_those_of_methods() {
    const DISABLED: u64 = 1;
    const WRITE_BACKWARD: u64 = 1 << 27;
    let stopped = open(&Sampler::new(Attr::new(Software::PageFaults).field(Field::Flags, DISABLED)));
    touch(5);
    assert_eq!(stopped.count().expect("readable").value, 0);
    let attr = Attr::new(Software::PageFaults).field(Field::Flags, WRITE_BACKWARD);
    let ring = open(&Sampler::new(attr).content(Content::ADDRESS));
    let touched = touch(5);
    assert_eq!(sampled(&ring, &touched), touched.into_iter().rev().collect::<Vec<_>>());
}

pub(super) fn two_events_share_a_ring() {
    let content = Content::IDENTIFIER;
    let mut ring = open(&faults().content(content));
    let clock = Sampler::new(Attr::new(Software::TaskClock)).content(content | Content::ADDRESS).period(1_000_000);
    let added = ring.add(&clock).expect("allowed");
    let own = ring.id().expect("readable");
    // Software events are the same on all kinds of core.
    assert_eq!(ring.ids().expect("readable"), [[own], [added]]);
    let (mut faults, mut ticks) = (0, 0);
    while faults == 0 || ticks == 0 {
        touch(10);
        let _ = perfmark_rdpmc::known_loop(100_000);
        for_each_record(&ring, |record| match record.origin.id.expect("requested") {
            id if id == own => faults += 1,
            id if id == added => ticks += 1,
            id => panic!("{id}"),
        });
    }
    for (other, why) in [
        (clock.clone().overwrite(true), "only one of it and the ring is overwritten"),
        (clock.clone().clock(Clock::Monotonic), "of another clock than the ring's"),
    ] {
        let error = ring.add(&other).expect_err("of another kind").to_string();
        assert!(error.contains(why), "{error}");
    }
    for target in [Target::thread(1), Target::cpu(0), Target::this_thread().on_cpu(0)] {
        let error = ring.add(&clock.clone().target(target)).expect_err("of another target").to_string();
        assert!(error.contains("its target is not given as that of the ring's event"), "{error}");
    }
    let other = clock.content(Content::TIME);
    let error = ring.add(&other).expect_err("its records are longer");
    assert!(error.to_string().contains("another layout"), "{error}");
}

pub(super) fn a_refused_period_leaves_the_event_running() {
    let ring = open(&faults());
    for event in [1, usize::MAX] {
        let error = ring.restart_with_period(event, 1).expect_err("no such event").to_string();
        assert!(error.contains(&format!("the ring has no event {event}; it has 1")), "{error}");
    }
    let error = ring.restart_with_period(0, 0).expect_err("no period").to_string();
    assert!(error.contains("ioctl(PERIOD) failed with EINVAL"), "{error}");
    let touched = touch(1);
    assert!(addresses(&ring).contains(&touched[0]));
}

pub(super) fn the_counts_in_samples_contain_what_was_chosen() {
    for bits in 0..16 {
        // The bits of groups are not consecutive with the others.
        let format = ReadFormat::from_bits(bits & 0b111 | (bits & 0b1000) << 1);
        let sampler = faults().content(Content::READ).read_format(format);
        for (sampler, events) in [(sampler.clone(), 1), (sampler.group([Attr::new(Software::TaskClock)]), 2)] {
            let ring = open(&sampler);
            touch(3);
            let id = ring.id().expect("readable");
            let chosen = |part| format.contains(part);
            let mut last = 0;
            for_each_sample(&ring, |sample, _| {
                let values = sample.values.expect("requested");
                assert_eq!(values.enabled.is_some(), chosen(ReadFormat::TOTAL_TIME_ENABLED), "{format:?}");
                assert_eq!(values.running.is_some(), chosen(ReadFormat::TOTAL_TIME_RUNNING), "{format:?}");
                let all: Vec<_> = values.iter().collect();
                assert_eq!((all.len(), all[0].value), (events, last + 1), "{format:?}");
                assert_eq!(all[0].id, chosen(ReadFormat::ID).then_some(id), "{format:?}");
                // Linux before 6.0 does not have it.
                assert!(all[0].lost.is_none_or(|lost| lost == 0 && chosen(ReadFormat::LOST)), "{format:?}");
                last += 1;
            });
            assert!(last >= 3, "{last}");
            assert_eq!(ring.count().is_ok(), bits & 0b111 == 0b111, "{format:?}");
        }
    }
}

pub(super) fn the_samples_of_counters_go_to_a_ring() {
    let content = Content::IDENTIFIER | Content::ADDRESS;
    let (ring, faults) = (open(&Sampler::dummy().content(content)), faults().content(content));
    // Another event, because of the limit of `Content::IDENTIFIER`.
    let minor = Sampler::new(Attr::new(Software::MinorFaults)).content(content);
    // The samples of an event for the pages that are touched now.
    let sampled = |id: u64| {
        let touched = touch(20);
        let mut all = Vec::new();
        for_each_sample(&ring, |sample, origin| {
            all.extend(sample.address.filter(|at| origin.id == Some(id) && touched.contains(at)));
        });
        (all == touched, all.is_empty())
    };
    let own = Counter::open(minor.attr()).expect("opens");
    let of_thread = TargetCounter::open(faults.attr(), &Target::thread(gettid())).expect("opens");
    let ids = [own.id(), of_thread.id()].map(|id| id.expect("readable"));
    assert_eq!(ids.map(sampled), [(false, true); 2], "neither has a ring");
    own.set_output(Some(&ring)).expect("allowed");
    assert_eq!(ids.map(sampled), [(true, false), (false, true)]);
    of_thread.set_output(Some(&ring)).expect("allowed");
    assert_eq!(ids.map(sampled), [(true, false); 2]);
    own.set_output(None).expect("allowed");
    assert_eq!(ids.map(sampled), [(false, true), (true, false)]);
    let refused = |attr: &Attr, ring: &Ring| {
        let counter = Counter::open(attr).expect("opens");
        counter.set_output(Some(ring)).expect_err("not to this ring").to_string()
    };
    let message = refused(faults.clone().content(Content::TIME).attr(), &ring);
    assert!(message.contains("another layout than the ring's"), "{message}");
    let reads = Sampler::dummy().content(content | Content::READ);
    assert!(refused(faults.clone().content(Content::READ).attr(), &open(&reads)).contains("leave out Content::READ"));
    let message = refused(faults.attr(), &open(&Sampler::dummy().content(content).clock(Clock::Monotonic)));
    assert!(message.contains("of another clock than the ring's"), "{message}");
    let message = thread::scope(|scope| scope.spawn(|| refused(faults.attr(), &ring)).join().expect("refused"));
    assert!(
        message.contains("ioctl(SET_OUTPUT) failed with EINVAL: the ring is of another thread or CPU"),
        "{message}"
    );
}

pub(super) fn a_ring_is_ready_after_as_many_samples_as_requested() {
    // More than the faults of the waiting itself, whose code and stack may not be mapped yet.
    const SAMPLES: u32 = 50;
    // A sample has a header and an address. The ring is ready after more bytes than requested.
    for sampler in [faults().wakeup_events(SAMPLES), faults().wakeup_watermark(SAMPLES * 16 - 1)] {
        let (ring, idle) = (open(&sampler), open(&Sampler::dummy()));
        let ready = || {
            let ready = sample::wait(&[&idle, &ring], Some(Duration::ZERO)).expect("readable");
            ready.iter().map(|ready| (ready.ring, ready.is_ready, ready.has_ended)).collect::<Vec<_>>()
        };
        assert_eq!(ready(), []);
        touch(SAMPLES as usize);
        assert_eq!(ready(), [(1, true, false)]);
        assert_eq!(ready(), [], "until as many more");
    }
}

pub(super) fn call_chains_leave_out_what_is_excluded() {
    /// Smaller numbers are addresses (`PERF_CONTEXT_MAX`).
    const CONTEXTS: u64 = (-4_095_i64).cast_unsigned();
    let sampler = faults().content(Content::CALLCHAIN | Content::IP);
    // The addresses in the call chain of a page fault, and its own.
    let chain = |sampler: &Sampler| {
        let (ring, touched) = (open(sampler), touch(1));
        let mut found = None;
        for_each_sample(&ring, |sample, _| {
            if sample.address == Some(touched[0]) {
                let chain = sample.callchain.expect("requested").iter().filter(|&address| address < CONTEXTS);
                found = Some((chain.collect::<Vec<_>>(), sample.ip.expect("requested")));
            }
        });
        found.expect("a sample")
    };
    let (whole, ip) = chain(&sampler.clone().exclude_callchain_kernel(true));
    assert!(whole.len() > 1 && whole[0] == ip, "{whole:x?} at {ip:x}");
    assert_eq!(chain(&sampler.clone().exclude_callchain_user(true)).0, [], "it happened in user mode");
    let (first, ip) = chain(&sampler.max_stack(1));
    assert_eq!(first, [ip]);
}

pub(super) fn an_event_loop_waits_for_a_rings_descriptor() {
    const SAMPLES: u32 = 50;
    let ring = open(&faults().wakeup_events(SAMPLES));
    // SAFETY: takes nothing; a new descriptor.
    let events = unsafe { OwnedFd::from_raw_fd(libc::epoll_create1(libc::EPOLL_CLOEXEC)) };
    let interest = libc::EPOLLIN | libc::EPOLLET;
    let mut event = libc::epoll_event { events: interest.cast_unsigned(), u64: 7 };
    let (epoll, fd) = (events.as_raw_fd(), ring.as_fd().as_raw_fd());
    // SAFETY: live structures.
    assert_eq!(unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, fd, &raw mut event) }, 0);
    let ready = || {
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        // SAFETY: room for one event.
        let count = unsafe { libc::epoll_wait(epoll, &raw mut event, 1, 0) };
        (count, event.u64)
    };
    assert_eq!(ready().0, 0);
    touch(SAMPLES as usize);
    assert_eq!(ready(), (1, 7));
    assert_eq!(ring.as_raw_fd(), fd);
}

pub(super) fn requests_change_what_is_sampled() {
    let ring = open(&Sampler::new(Attr::new(Software::PageFaults).disabled(true)).content(Content::ADDRESS));
    let sampled = |touched: Vec<u64>| sampled(&ring, &touched).len();
    assert_eq!(sampled(touch(10)), 0, "opened stopped");
    ring.refresh(3).expect("allowed");
    touch(10);
    assert_eq!(addresses(&ring).len(), 3, "stopped after three");
    ring.enable().expect("allowed");
    assert_eq!(sampled(touch(10)), 10);
    ring.pause_output(true).expect("allowed");
    touch(10);
    ring.pause_output(false).expect("allowed");
    assert!(ring.count().is_ok_and(|count| count.lost.is_none_or(|lost| lost >= 10)));
    assert_eq!(sampled(touch(10)), 10);
    ring.set_period(5).expect("allowed");
    // The kernel completes the old period first.
    touch(10);
    let counted = || ring.count().expect("readable").value;
    let (_, before) = (addresses(&ring), counted());
    touch(50);
    let (few, counted) = (addresses(&ring).len() as u64, counted() - before);
    assert!(counted >= 50 && few.abs_diff(counted / 5) <= 1, "{few} of {counted} with a period of 5");
    ring.disable().expect("allowed");
    assert_eq!(sampled(touch(10)), 0);
    ring.reset().expect("allowed");
    assert_eq!(ring.count().map(|count| (count.value, count.enabled > 0)), Ok((0, true)), "the times continue");
    let error = ring.refresh(0).expect_err("no limit");
    assert!(error.to_string().contains("without a limit if asked for 0 more samples"), "{error}");
    let error = ring.set_filter("address > 0").expect_err("it has no filters");
    assert!(error.to_string().contains("ioctl(SET_FILTER) failed with EINVAL"), "{error}");
}

pub(super) fn a_sampled_breakpoint_can_be_moved_to_another_variable() {
    static VARIABLES: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];
    let on = |n: usize| {
        let breakpoint = Breakpoint::on(&VARIABLES[n], Access::Write).expect("8 bytes");
        Sampler::new(Attr::new(breakpoint)).content(Content::ADDRESS).pages(1)
    };
    let mut ring = match on(0).open() {
        Ok(ring) => ring,
        Err(error) => return println!("skipped: {error}"),
    };
    let write = || VARIABLES.iter().for_each(|variable| (0..7).for_each(|n| variable.store(n, Relaxed)));
    let address = |n: usize| std::ptr::from_ref(&VARIABLES[n]).addr() as u64;
    write();
    assert_eq!(addresses(&ring), [address(0); 7]);
    ring.modify_attributes(&on(1)).expect("allowed");
    write();
    assert_eq!(addresses(&ring), [address(1); 7]);
    let error = ring.modify_attributes(&on(0).content(Content::IP)).expect_err("more than the address").to_string();
    assert!(error.contains("EINVAL: only the address, length and access of an open breakpoint"), "{error}");
    assert!(open(&faults()).modify_attributes(&on(0)).is_err(), "not a breakpoint");
}
