//! Entry and exit: acquires the thread's recorder and calls the mark's hooks.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::panicking;

use crate::platform::errno::KeepErrno;
#[cfg(feature = "sampling")]
use crate::platform::modules;
use crate::recording::cells::registry::registry;
use crate::recording::events::events;
use crate::recording::mark::Mark;
use crate::recording::recorder::hooks::reached::reach;
use crate::recording::recorder::hooks::slow;
use crate::recording::recorder::setup::calibrate;
use crate::recording::recorder::setup::first_call::first_call;
use crate::recording::recorder::setup::thread_end;
use crate::recording::recorder::thread::{
    Activity, CalibrationCalls, FRAME_EVENTS, FrameRef, HeldRecorder, NEEDS_SETUP, NO_FRAME, PANICKING, Plan, SERIAL,
    SLOW, ThreadState, Token, is_skipped, memory::RecorderPtr, own_work, with_thread,
};
use crate::settings::recording::is_off;

/// Begins a call of the mark with this slot, which is not off. If the token [needs setup](needs_setup), the marked
/// function calls [`enter_with_setup`]; so this function need not keep the mark in a register.
#[inline(never)]
pub(crate) fn enter(slot: u64) -> Token {
    match acquire(slot) {
        Some((recorder, plan)) => plan.hooks().begin(recorder),
        None => NEEDS_SETUP,
    }
}

/// Acquires the thread's recorder if it has a plan of the mark with this slot, which is not off.
#[inline]
#[allow(unsafe_code, reason = "finds the thread's plan of the mark")]
pub(super) fn acquire<'a>(slot: u64) -> Option<(HeldRecorder, &'a Plan)> {
    // SAFETY: CELLS: the plan is used while its recorder is held. A slot that is not off is below `mark::SLOTS`.
    HeldRecorder::acquire_if(|recorder| unsafe { recorder.find_plan(slot) })
}

/// Whether the marked function must call [`enter_with_setup`] instead.
#[inline]
pub(crate) fn needs_setup(token: Token) -> bool {
    token & (NEEDS_SETUP ^ NO_FRAME) != 0
}

/// Begins a call if the thread has no plan of the mark, or if its recorder cannot be acquired. This is the thread's
/// first call of the mark, or a call in perfmark's own work or in a signal handler. `None` if it is not recorded.
pub(crate) fn enter_with_setup(mark: &'static Mark, calibration_calls: &'static CalibrationCalls) -> Option<Token> {
    set_up_call(mark, calibration_calls, true).map(|(recorder, plan)| plan.hooks().begin(recorder))
}

/// Sets up what the call needs. `None` if the call is not recorded; it is then counted if `counts`.
pub(crate) fn set_up_call<'a>(
    mark: &'static Mark,
    calibration_calls: &'static CalibrationCalls,
    counts: bool,
) -> Option<(HeldRecorder, &'a Plan)> {
    // Comes before everything that makes a system call.
    if is_off() {
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
            Activity::Program if !thread.is_busy() => return first_call(thread, mark, calibration_calls, counts),
            Activity::OwnWork => {}
            Activity::Program | Activity::Calibration => count(&mark.interrupted),
            Activity::Ended => count(&mark.unrecorded),
        }
        None
    })
}

/// Notes in the frame of the call that began last that a panic is in progress. Returns the call's new token.
pub(crate) fn note_panic(token: Token) -> Token {
    let Some(recorder) = HeldRecorder::acquire() else { return token };
    let frame = recorder.stack.innermost();
    if let Some(frame) = frame {
        frame.serial.set(frame.serial.get() | PANICKING);
    }
    recorder.release();
    // Frame and token now differ, so the call ends on the slow path.
    frame.map_or(token, |_| token | SLOW)
}

/// Ends a call of the mark that was given a frame, and whose body ran to its end.
#[inline(never)]
#[allow(unsafe_code, reason = "finds the innermost frame")]
pub(crate) fn leave(token: Token, mark: &'static Mark) {
    let Some(recorder) = HeldRecorder::acquire() else { return leave_elsewhere(token, mark, true) };
    // SAFETY: the token came from a begin hook, which returns what `Stack::open` gave, perhaps with flags, or a token
    // without a frame.
    let Some(frame) = (unsafe { recorder.stack.begun_last(token) }) else { return leave_caller(token, mark, recorder) };
    frame.plan().hooks().end(frame, recorder, true);
}

/// Ends a call of the mark that `return`, `?` or a panic ended, or whose guard is dropped.
#[inline(never)]
pub(crate) fn leave_early(token: Token, mark: &'static Mark) {
    let Some(recorder) = HeldRecorder::acquire() else { return leave_elsewhere(token, mark, true) };
    if panicking() {
        return leave_slow(token, mark, recorder, true);
    }
    let Some(frame) = innermost(&recorder, token) else { return leave_slow(token, mark, recorder, false) };
    let plan = frame.plan();
    if plan.set().len() <= FRAME_EVENTS {
        plan.set().overhead.exclude_early_exit(&frame, &frame.below());
    }
    // With one call of `end`, this takes two instructions more on arm64.
    if recorder.stack.serial.get() == token {
        plan.hooks().end(frame, recorder, true);
    } else {
        plan.hooks().end(frame, recorder, false);
    }
}

/// The innermost frame, if it belongs to the call with this token.
#[inline]
pub(super) fn innermost(recorder: &HeldRecorder, token: Token) -> Option<FrameRef> {
    recorder.stack.top().filter(|frame| frame.serial.get() == token)
}

/// Ends a call that has inner calls.
#[inline(never)]
fn leave_caller(token: Token, mark: &'static Mark, recorder: HeldRecorder) {
    let Some(frame) = innermost(&recorder, token) else { return leave_slow(token, mark, recorder, false) };
    frame.plan().hooks().end(frame, recorder, false);
}

/// Ends a call whose frame is not the innermost, or that has no frame on this thread, or while a panic is in progress.
#[cold]
#[inline(never)]
fn leave_slow(token: Token, mark: &'static Mark, recorder: HeldRecorder, panicking: bool) {
    reach(&recorder, || "end a call by a panic, or one that is not the innermost".into());
    let Some(frame) = slow::find_frame(&recorder, token) else {
        recorder.release();
        return leave_elsewhere(token, mark, true);
    };
    let plan = frame.plan();
    slow::store_counts(plan.set(), frame, &recorder.stack);
    slow::finish(plan, frame, recorder, panicking, true);
}

/// Ends a call that has no frame on this thread. The call is counted if `counts`.
///
/// If it began on this thread, it ends or is jumped over in a signal handler that interrupted entry or exit code. The
/// next call removes its frame. Otherwise it began on another thread, which may have ended.
#[cold]
#[inline(never)]
pub(crate) fn leave_elsewhere(token: Token, mark: &'static Mark, counts: bool) {
    // A forked child does not record its parent's calls. After recording has ended, no system call is allowed.
    if with_thread(ThreadState::is_forked) || is_off() {
        return;
    }
    if began_here(token) {
        // Whoever removes a frame counts its call. Polls are an exception, because their calls may continue.
        if counts && mark.mode.is_polled {
            mark.unrecorded.fetch_add(1, Relaxed);
        }
        return;
    }
    let _errno = KeepErrno::new();
    own_work(|| {
        // A call of a parent process is ignored.
        if let Ok(registry) = registry()
            && registry.has_begun(token & SERIAL)
        {
            let is_skipped = is_skipped(token);
            registry.end_elsewhere(Some(mark).filter(|_| !is_skipped), token & SERIAL, counts);
        }
    });
}

/// Whether the call with this token began on this thread, in this process.
pub(crate) fn began_here(token: Token) -> bool {
    let is_its = |recorder: RecorderPtr| recorder.cells().is_some_and(|cells| cells.switched.is_its(token & SERIAL));
    with_thread(ThreadState::recorder).is_some_and(is_its)
}

/// Whether a process that this one was forked from began the call with this token, whose frame was on some thread.
pub(crate) fn began_in_parent(token: Token) -> bool {
    own_work(registry).and_then(Result::ok).is_some_and(|registry| !registry.has_begun(token & SERIAL))
}

/// Creates what the process needs while it has one thread. A fork during this work on another thread would leave the
/// child waiting for a thread that it does not have.
pub(crate) fn prepare_process() {
    own_work(|| {
        // If it fails, the first call fails in the same way and reports it.
        _ = (registry(), events());
        calibrate::prepare();
        thread_end::prepare();
        #[cfg(feature = "sampling")]
        modules::prepare();
    });
}
