//! What a thread keeps: its recorder, the stack of open calls, and its plans of marks with their event sets. They own
//! each other, so these files import each other in any order.

pub(crate) mod tls;
pub(crate) mod call_token;
pub(crate) mod stack;
mod overhead;
mod state;
pub(crate) mod thinning;
mod event_set;
mod plan;
pub(crate) mod memory;

pub(crate) use call_token::{
    FRAME_OF_SKIPPED, NEEDS_SETUP, NO_FRAME, PANICKING, SERIAL, SLOW, STACK_FULL, Token, has_frame, is_skipped,
};
pub(crate) use event_set::{EventSet, SetEvent};
pub(crate) use overhead::{
    CalibrationCalls, FAST_EVENT_SLOTS, FEW_EVENT_SLOTS, InnerCalls, MeasuredOverhead, Numbers, OverheadKey,
    ProbeOverhead,
};
pub(crate) use plan::{Begin, FAST_EVENTS, Hooks, Plan, detach};
pub(crate) use stack::{FRAME_EVENTS, FrameRef, LOCKS_SPLIT, SPLIT, Stack, UNRECORDED};
pub(crate) use state::{
    Activity, ActivityGuard, HeldRecorder, Recorder, ThreadState, is_in_own_work, own_work, with_calibration_recorder,
    with_recorder, with_thread,
};
pub(crate) use thinning::Thinning;
