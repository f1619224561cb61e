//! The front door: how entry and exit of a marked call find the thread's recorder.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::panicking;

use super::calibrate::{self, CalibrationCalls};
use super::call_token::{NEEDS_SETUP, NO_FRAME, SERIAL, Token};
use super::first_call::first_call;
use super::memory::plan_entry;
use super::plan::Plan;
use super::slow;
use super::stack::FrameRef;
use super::state::{Activity, HeldRecorder, Recorder, ThreadState, own_work, with_thread};
use super::thread_end;
use crate::cells::OpenCall;
use crate::errno::KeepErrno;
use crate::events::events;
use crate::mark::Mark;
use crate::registry::registry;
use crate::start;

/// Begins a call of the mark with that place. Where that takes [`enter_unusual`], the token is [unusual](is_unusual):
/// the marked function calls it itself, so that the mark is not kept here.
#[inline(never)]
#[allow(unsafe_code, reason = "finds the thread's plan of the mark")]
pub(crate) fn enter(slot: u64) -> Token {
    // SAFETY: this thread's recorder.
    let plan = |recorder| unsafe { plan_entry(recorder, slot) }.get().plan();
    match HeldRecorder::acquire_if(plan) {
        Some((recorder, plan)) => (plan.hooks.get().begin)(plan, recorder),
        None => NEEDS_SETUP,
    }
}

/// Whether [`enter`] leaves the call to [`enter_unusual`].
#[inline]
pub(crate) fn needs_setup(token: Token) -> bool {
    token & (NEEDS_SETUP ^ NO_FRAME) != 0
}

/// Begins a call where there is no plan of its mark, or no recorder to be taken: the thread's first, or one made by
/// perfmark's own work, or by a signal handler.
pub(crate) fn enter_with_setup(mark: &'static Mark, calibration_calls: &'static CalibrationCalls) -> Option<Token> {
    let (plan, recorder) = set_up_call(mark, calibration_calls, true)?;
    Some((plan.hooks.get().begin)(plan, recorder))
}

/// Sets up what is missing. `None` if the call is not recorded; then it is counted, if it `counts`.
pub(super) fn set_up_call<'a>(
    mark: &'static Mark,
    calibration_calls: &'static CalibrationCalls,
    counts: bool,
) -> Option<(&'a Plan, HeldRecorder)> {
    // Before anything that takes a system call.
    if start::is_off() {
        mark.switch_off();
        return None;
    }
    let count = |count: &AtomicU64| {
        if counts {
            mark.register();
            count.fetch_add(1, Relaxed);
        }
    };
    with_thread(|thread| {
        match thread.activity.get() {
            Activity::Program if !thread.is_busy() => return first_call(thread, mark, calibration_calls),
            Activity::OwnWork => {}
            Activity::Program | Activity::Calibration => count(&mark.interrupted),
            Activity::Ended => count(&mark.unrecorded),
        }
        None
    })
}

/// Takes note that a panic was in progress when the call began, which is the one begun last.
pub(crate) fn note_panic(token: Token) -> Token {
    let Some(recorder) = HeldRecorder::acquire() else { return token };
    let token = slow::note_panic(&recorder, token);
    recorder.release();
    token
}

/// Ends a call of the mark that came to its end.
#[inline(never)]
#[allow(unsafe_code, reason = "finds the innermost frame")]
pub(crate) fn leave(token: Token, mark: &'static Mark) {
    let Some(recorder) = HeldRecorder::acquire() else { return leave_elsewhere(token, mark, true) };
    // SAFETY: a call that ends has a frame, or had one.
    let Some(frame) = (unsafe { recorder.stack.begun_last(token) }) else { return leave_caller(token, mark, recorder) };
    let plan = Plan::of(frame);
    (plan.hooks.get().end_leaf)(plan, frame, recorder);
}

/// Ends a call of the mark that was left by `return`, `?` or a panic, or whose guard is dropped.
#[inline(never)]
pub(crate) fn leave_early(token: Token, mark: &'static Mark) {
    if panicking() {
        return leave_panicking(token, mark);
    }
    let Some(recorder) = HeldRecorder::acquire() else { return leave_elsewhere(token, mark, true) };
    let Some(frame) = innermost(&recorder, token) else { return leave_slow(token, mark, recorder) };
    let plan = Plan::of(frame);
    plan.set().overhead.exclude_early_exit(&frame, &frame.below());
    let hooks = plan.hooks.get();
    let end = if recorder.stack.serial.get() == token { hooks.end_leaf } else { hooks.end };
    end(plan, frame, recorder);
}

/// The innermost frame, if it is that call's.
fn innermost(recorder: &HeldRecorder, token: Token) -> Option<FrameRef> {
    recorder.stack.top().filter(|frame| frame.serial.get() == token)
}

#[cold]
#[inline(never)]
fn leave_panicking(token: Token, mark: &'static Mark) {
    let is_found = HeldRecorder::acquire().is_some_and(|recorder| slow::leave(token, recorder, true));
    if !is_found {
        leave_elsewhere(token, mark, true);
    }
}

/// Ends a call in which others were begun.
#[inline(never)]
fn leave_caller(token: Token, mark: &'static Mark, recorder: HeldRecorder) {
    let Some(frame) = innermost(&recorder, token) else { return leave_slow(token, mark, recorder) };
    let plan = Plan::of(frame);
    (plan.hooks.get().end)(plan, frame, recorder);
}

/// Ends a call whose frame is not the innermost, or which did not begin here.
#[cold]
#[inline(never)]
fn leave_slow(token: Token, mark: &'static Mark, recorder: HeldRecorder) {
    if !slow::leave(token, recorder, false) {
        leave_elsewhere(token, mark, true);
    }
}

/// Ends a call that has no frame here. If it began on this thread, a signal handler interrupted entry or exit code and
/// ends a call here, or jumps: then the frame stays until the next call removes it. Otherwise it began on another
/// thread, which may have ended. The call is counted, if it `counts`.
#[cold]
#[inline(never)]
pub(super) fn leave_elsewhere(token: Token, mark: &'static Mark, counts: bool) {
    // A parent's calls are not a forked child's. When recording has ended no system call is made any more.
    if with_thread(ThreadState::is_forked) || start::is_off() {
        return;
    }
    if began_here(token) {
        // Whatever removes a frame counts its call, but for polls, whose calls may go on.
        if counts && mark.manner.is_polled {
            mark.unrecorded.fetch_add(1, Relaxed);
        }
        return;
    }
    let _errno = KeepErrno::new();
    own_work(|| {
        if let Ok(registry) = registry() {
            registry.end_elsewhere(mark, token & SERIAL, counts);
        }
    });
}

/// Whether a call with that token began on this thread.
pub(super) fn began_here(token: Token) -> bool {
    with_thread(|thread| thread.began_call(token & SERIAL))
}

/// What this thread's open calls cost so far, with its number among those that recorded. `None` if it recorded nothing,
/// or if a signal handler asks that interrupts entry or exit code. To be called in the thread's [own work](own_work).
pub(crate) fn in_flight() -> Option<(u64, Vec<OpenCall>)> {
    with_thread(|thread| {
        let recorder = thread.recorder().filter(|recorder| recorder.is_set_up() && !thread.interrupts_hook.get())?;
        // A call that ended on another thread goes on no more.
        slow::remove_ended_elsewhere(recorder);
        Some((recorder.cells()?.owner.number, Recorder::in_flight(recorder)))
    })
}

/// Makes what the process needs once while it has one thread: a fork in the middle of it would leave the child waiting
/// for a thread that it does not have.
pub(crate) fn prepare_process() {
    own_work(|| {
        // Where they cannot be had, the first call finds out, and says so.
        _ = (registry(), events());
        calibrate::prepare();
        thread_end::prepare();
    });
}
