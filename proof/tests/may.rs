//! Coroutines of `may`, whose workers take them from one another in the middle of a call.
#![cfg(all(feature = "record", any(target_arch = "x86_64", target_arch = "aarch64")))]
#![forbid(unsafe_code)]

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

use may::coroutine;
use perfmark::{Mark, perfmark, snapshot};

const COROUTINES: u64 = 200_000;
/// How many are alive at a time. Each has a stack.
const TOGETHER: u64 = 1_000;

/// Calls that ended on another thread than the one they began on.
static MOVED: AtomicU64 = AtomicU64::new(0);

#[perfmark(time)]
fn yields(n: u64) {
    let thread = thread::current().id();
    inner();
    coroutine::yield_now();
    inner();
    if n.is_multiple_of(3) {
        coroutine::yield_now();
    }
    MOVED.fetch_add(u64::from(thread != thread::current().id()), Relaxed);
}

#[perfmark(time)]
fn inner() {}

fn find_mark(name: &str) -> Mark {
    snapshot().marks.into_iter().find(|mark| mark.name == name).expect("it is known")
}

#[test]
fn calls_of_200_000_coroutines_on_4_workers_are_exact() {
    may::config().set_workers(4).set_stack_size(64 << 10 >> 3);
    may::config().set_worker_pin(false);
    for _ in 0..COROUTINES / TOGETHER {
        coroutine::scope(|scope| {
            for n in 0..TOGETHER {
                may::go!(scope, move || yields(n));
            }
        });
    }
    let moved = MOVED.load(Relaxed);
    println!("{moved} of {COROUTINES} calls ended on another thread than they began on");
    for (name, calls) in [("yields", COROUTINES), ("inner", 2 * COROUTINES)] {
        let mark = find_mark(name);
        assert_eq!((mark.calls, mark.in_flight, mark.interrupted), (calls, 0, 0), "{mark:?}");
        let values = &mark.values[0];
        assert_eq!(values.measured + values.unmeasured, calls, "{mark:?}");
    }
    if moved == 0 {
        println!("not run: no coroutine moved to another worker");
    }
}
