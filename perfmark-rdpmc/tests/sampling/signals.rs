//! Signals for samples.

use std::ptr;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicI32, AtomicU64, AtomicUsize};

use perfmark_rdpmc::sample::{Ring, Sampler};
use perfmark_rdpmc::{Attr, Software, Target};

use super::faults::{addresses, faults, touch};
use super::{gettid, open};

static SIGNALS: AtomicUsize = AtomicUsize::new(0);
static THREAD: AtomicU64 = AtomicU64::new(0);
static DATA: AtomicU64 = AtomicU64::new(0);
static CODE: AtomicI32 = AtomicI32::new(0);

/// `include/uapi/asm-generic/siginfo.h`.
const POLL_IN: i32 = 1;
const POLL_HUP: i32 = 6;

extern "C" fn handler(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    /// The offset of `si_perf_data` in `siginfo_t` (`include/uapi/asm-generic/siginfo.h`).
    const DATA_AT: usize = 24;
    SIGNALS.fetch_add(1, Relaxed);
    THREAD.store(gettid().into(), Relaxed);
    // SAFETY: the kernel's structure is longer, and its fields are aligned.
    CODE.store(unsafe { (*info).si_code }, Relaxed);
    // SAFETY: as above.
    DATA.store(unsafe { info.byte_add(DATA_AT).cast::<u64>().read() }, Relaxed);
}

fn handle(signal: libc::c_int) {
    // SAFETY: a zeroed structure is valid, and the handler uses atomics only.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = (handler as *const ()).addr();
        action.sa_flags = libc::SA_SIGINFO;
        assert_eq!(libc::sigaction(signal, &raw const action, ptr::null_mut()), 0);
    }
}

/// Samples page faults on another thread than the one that opens the ring.
fn sampled_elsewhere(sampler: impl Fn(Sampler) -> Sampler, pages: usize) -> (Ring, u32) {
    let (sender, receiver) = std::sync::mpsc::channel();
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || {
        sender.send(gettid()).expect("received");
        wait.recv().expect("sent");
        touch(pages);
    });
    let tid = receiver.recv().expect("sent");
    let ring = open(&sampler(faults().target(Target::thread(tid))));
    go.send(()).expect("received");
    thread.join().expect("does not panic");
    (ring, tid)
}

pub(super) fn for_each_sample() {
    handle(libc::SIGUSR1);
    let (ring, tid) = sampled_elsewhere(|sampler| sampler.signal(libc::SIGUSR1), 50);
    let (signals, samples) = (SIGNALS.load(Relaxed), addresses(&ring).len());
    println!("{signals} signals, {samples} samples");
    // Signals that are pending at once are one.
    assert!(samples >= 50 && (1..=samples).contains(&signals), "{signals} {samples}");
    assert_eq!((THREAD.load(Relaxed), CODE.load(Relaxed)), (tid.into(), POLL_IN));
    assert!(ring.count().is_ok(), "the descriptor is still known as the event's");
    drop(ring);
    let ring = open(&Sampler::new(Attr::new(Software::PageFaults).disabled(true)).signal(libc::SIGUSR1));
    ring.refresh(3).expect("allowed");
    touch(10);
    assert_eq!(CODE.load(Relaxed), POLL_HUP, "the signal for the last of three samples");
}

pub(super) fn before_the_next_instruction() {
    handle(libc::SIGTRAP);
    let (ring, tid) = sampled_elsewhere(|sampler| sampler.sigtrap(77).wakeup_events(1), 50);
    let (signals, samples) = (SIGNALS.load(Relaxed), addresses(&ring).len());
    println!("{signals} signals, {samples} samples");
    assert_eq!(signals, samples);
    assert_eq!((THREAD.load(Relaxed), DATA.load(Relaxed)), (tid.into(), 77));
}
