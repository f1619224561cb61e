//! What marks record, seen through snapshots, and guards that are used as no program should use them.

use std::cell::RefCell;
use std::hint::black_box;
use std::panic::catch_unwind;
use std::sync::Barrier;

use perfmark::private::{Guard, Mark, enter};
use perfmark::{perfmark, region, snapshot};

/// The current state of a mark.
fn find_mark(name: &str) -> perfmark::Mark {
    snapshot().marks.into_iter().find(|mark| mark.name == name).unwrap_or_else(|| panic!("no mark {name}"))
}

/// Calls, calls in flight, unwound calls, and calls that the first event measured.
fn counts(name: &str) -> (u64, u64, u64, u64) {
    let mark = find_mark(name);
    (mark.calls, mark.in_flight, mark.unwound, mark.values.first().map_or(0, |values| values.measured))
}

#[perfmark(time)]
fn deep(depth: u32) {
    if depth > 0 {
        deep(depth - 1);
        black_box(depth);
    }
}

#[test]
fn calls_deeper_than_the_stack_are_counted_and_unmeasured() {
    deep(2_000);
    let (calls, in_flight, _, measured) = counts("deep");
    assert_eq!((calls, in_flight), (2_001, 0));
    assert_eq!(measured, 1_170, "as the guide says");
    let deep = find_mark("deep").values.remove(0);
    assert_eq!((deep.unmeasured, deep.imputed), (2_001 - measured, 0));
    let own = deep.self_sum.expect("known") as f64;
    assert_eq!(deep.self_mean(), Some(own / measured as f64), "self includes nothing for the others: {deep:?}");
}

#[perfmark(task_clock, time)]
fn named_in_an_order() {}

#[test]
fn values_are_in_the_order_in_which_the_mark_names_its_events() {
    named_in_an_order();
    let values = find_mark("named_in_an_order").values;
    let events: Vec<_> = values.iter().map(|values| values.event.as_str()).collect();
    // Without the kernel's clock, there is only one of them.
    assert!(["task-clock", "time"].ends_with(&events), "{events:?}");
}

#[perfmark(time)]
fn while_unwinding() {}

/// A guard ends this call, as it ends a region without a block.
#[perfmark(time)]
fn hidden_while_unwinding(is_early: bool) -> impl Sized {
    if is_early {
        return 1;
    }
    let _guard = region!("guard while unwinding", time);
    2
}

#[perfmark(time)]
fn left_while_unwinding(is_early: bool) {
    if is_early {
        return;
    }
    black_box(());
}

#[test]
fn a_call_made_by_a_destructor_during_a_panic_counts_as_usual() {
    struct CallsWhenDropped;
    impl Drop for CallsWhenDropped {
        fn drop(&mut self) {
            while_unwinding();
            hidden_while_unwinding(false);
            hidden_while_unwinding(true);
            left_while_unwinding(false);
            left_while_unwinding(true);
        }
    }
    let result = catch_unwind(|| {
        let _calls = CallsWhenDropped;
        panic!("on purpose");
    });
    assert!(result.is_err());
    assert_eq!(counts("while_unwinding"), (1, 0, 0, 1));
    assert_eq!(counts("hidden_while_unwinding"), (2, 0, 0, 2));
    // As the guide says, a call that is left by `return` counts as unwound here.
    assert_eq!(counts("left_while_unwinding"), (2, 0, 1, 1));
    assert_eq!(counts("guard while unwinding"), (1, 0, 0, 1));
}

/// A mark made by hand, as the attribute's expansion makes it.
macro_rules! by_hand {
    ($static:ident, $name:literal) => {
        static $static: Mark = Mark::new::<()>($name, (module_path!(), file!(), line!()), "time", 0, false);
    };
}

#[test]
fn a_guard_dropped_out_of_order_corrupts_nothing() {
    by_hand!(OUTER, "outer out of order");
    by_hand!(INNER, "inner out of order");
    let outer = enter(&OUTER);
    let inner = enter(&INNER);
    drop(outer);
    assert_eq!(counts("outer out of order"), (1, 0, 0, 1));
    assert_eq!(counts("inner out of order"), (1, 0, 0, 0), "ended with the call around it");
    drop(inner);
    assert_eq!(counts("inner out of order"), (1, 0, 0, 0), "it does not end twice");
    drop(enter(&INNER));
    assert_eq!(counts("inner out of order"), (2, 0, 0, 1));
}

#[test]
fn a_forgotten_guard_ends_with_the_call_around_it() {
    by_hand!(AROUND, "around a forgotten one");
    by_hand!(FORGOTTEN, "forgotten");
    let around = enter(&AROUND);
    std::mem::forget(enter(&FORGOTTEN));
    assert_eq!(counts("forgotten"), (0, 1, 0, 0));
    drop(around);
    assert_eq!(counts("forgotten"), (1, 0, 0, 0));
    assert_eq!(counts("around a forgotten one"), (1, 0, 0, 1));
}

#[test]
fn a_guard_that_a_thread_leaves_open_ends_with_the_thread() {
    by_hand!(OPEN, "open at the end of its thread");
    let thread = std::thread::spawn(|| std::mem::forget(enter(&OPEN)));
    thread.join().expect("does not panic");
    assert_eq!(counts("open at the end of its thread"), (1, 0, 0, 0));
}

#[perfmark(time)]
fn in_a_destructor() {}

/// Calls a marked function when its thread-local is torn down.
struct Late(RefCell<Option<Guard>>);

impl Drop for Late {
    fn drop(&mut self) {
        in_a_destructor();
        drop(self.0.take());
    }
}

#[test]
fn marks_in_destructors_of_thread_locals_are_counted() {
    by_hand!(HELD, "held by a thread-local");
    thread_local!(static LATE: Late = const { Late(RefCell::new(None)) });
    for _ in 0..10 {
        let thread = std::thread::spawn(|| LATE.with(|late| *late.0.borrow_mut() = Some(enter(&HELD))));
        thread.join().expect("does not panic");
    }
    assert_eq!(counts("in_a_destructor"), (10, 0, 0, 10));
    // Its frame is still there: the thread's state outlives Rust's thread-locals.
    assert_eq!(counts("held by a thread-local"), (10, 0, 0, 10));
}

#[perfmark("no_machine_has_this", time)]
fn asks_for_an_unknown_event() {}

#[test]
fn promise_4_an_unavailable_event_is_named_with_its_reason() {
    asks_for_an_unknown_event();
    let snapshot = snapshot();
    let event = snapshot.events.iter().find(|event| event.name == "no_machine_has_this").expect("it was asked for");
    assert_eq!(event.read, perfmark::Read::None);
    assert!(event.reason.as_deref().is_some_and(|why| why.contains("no such event")), "{event:?}");
    let values = find_mark("asks_for_an_unknown_event").values;
    assert_eq!(values.iter().map(|values| values.event.as_str()).collect::<Vec<_>>(), ["time"]);
}

#[test]
fn one_event_under_two_names_is_counted_once() {
    // The attribute refuses this, but the default events may contain it.
    static TWICE: Mark = Mark::new::<()>("one_event_twice", ("", "", 0), "time\npage_faults\nfaults", 0, false);
    drop(enter(&TWICE));
    let values = find_mark("one_event_twice").values;
    assert!(values.iter().all(|values| (values.measured, values.unmeasured) == (1, 0)), "{values:?}");
    assert!(values.iter().filter(|values| values.event == "page-faults").count() <= 1);
}

#[test]
fn a_snapshot_misses_no_mark_during_the_first_calls_of_others() {
    macro_rules! many {
        ($($name:ident)*) => {
            $(#[perfmark(time)] fn $name() {})*
            const MARKS: &[(&str, fn())] = &[$((stringify!($name), $name)),*];
        };
    }
    many!(m00 m01 m02 m03 m04 m05 m06 m07 m08 m09 m10 m11 m12 m13 m14 m15 m16 m17 m18 m19 m20 m21 m22 m23 m24 m25);
    let start = Barrier::new(2);
    let calls = || {
        start.wait();
        for (_, call) in MARKS {
            call();
        }
    };
    std::thread::scope(|scope| {
        let caller = scope.spawn(calls);
        start.wait();
        let mut is_over = false;
        while !is_over {
            is_over = caller.is_finished();
            let snapshot = snapshot();
            let known = |name: &str| snapshot.marks.iter().filter(|mark| mark.name == name).count();
            assert!(MARKS.iter().all(|(name, _)| known(name) == 1));
        }
    });
}

/// A signal handler that calls a mark after each instruction of a call of the same mark.
#[cfg(all(target_os = "linux", target_arch = "x86_64", not(miri)))]
mod stepped {
    use std::arch::asm;
    use std::sync::atomic::AtomicU64;
    use std::sync::atomic::Ordering::Relaxed;
    use std::{mem, ptr};

    use perfmark::perfmark;

    #[perfmark(time, every = 64)]
    #[inline(never)]
    fn stepped() {}

    static HANDLED: AtomicU64 = AtomicU64::new(0);

    extern "C" fn handle(_: libc::c_int) {
        HANDLED.fetch_add(1, Relaxed);
        stepped();
    }

    #[test]
    fn no_skipped_call_is_lost_whatever_instruction_a_signal_handler_interrupts() {
        const CALLS: u64 = 300;
        // SAFETY: an all-zero `sigaction` is valid; the handler is a function without arguments of its own.
        unsafe {
            let mut action: libc::sigaction = mem::zeroed();
            action.sa_sigaction = handle as extern "C" fn(libc::c_int) as usize;
            assert_eq!(libc::sigaction(libc::SIGTRAP, &raw const action, ptr::null_mut()), 0);
        }
        stepped();
        for _ in 1..CALLS {
            // From here on, the processor traps after each instruction, but not in the handler (Intel SDM 3, 17.3.1.4).
            // SAFETY: sets the trap flag only.
            unsafe { asm!("pushfq", "or dword ptr [rsp], 0x100", "popfq") };
            stepped();
            // SAFETY: clears the trap flag only.
            unsafe { asm!("pushfq", "and dword ptr [rsp], 0xfffffeff", "popfq") };
        }
        let (mark, handled) = (super::find_mark("stepped"), HANDLED.load(Relaxed));
        assert!(handled > 10 * CALLS, "{handled} instructions");
        assert!(mark.skipped > CALLS, "{mark:?}");
        assert_eq!((mark.calls, mark.in_flight), (CALLS + handled, 0), "{mark:?}");
    }
}
