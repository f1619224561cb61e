//! Chooses the hooks of a mark on a thread. This is the one file that knows every path.

use perfmark_rdpmc::CounterSet;

use super::fast::{self, General, HookParams, SeveralSets, SingleSet};
use super::options;
use super::slow;
use super::thread::event_set::EventSet;
use super::thread::overhead::FAST_EVENT_SLOTS;
use super::thread::plan::{Hooks, Plan};
use super::thread::state::Recorder;
use crate::settings::recording::settings;

/// Binds the hooks of an event set on the thread with this recorder and this many event slots.
pub(super) fn bind_set(set: &EventSet, slots: usize, recorder: &Recorder) {
    let (events, has_time, off_cpu) = (set.len(), set.time().is_some(), set.off_cpu_events());
    let (has_graph, tracks_overhead) = (settings().has_call_graph, recorder.tracks_overhead.get());
    let is_general = has_graph || recorder.has_thinned.get();
    let hooks = match (tracks_overhead, is_general) {
        _ if !is_fast(set, slots, tracks_overhead) => None,
        (true, _) if off_cpu > 0 => hooks_with_off_cpu::<General>(events, has_time, off_cpu),
        (false, _) if off_cpu > 0 => hooks_with_off_cpu::<SingleSet>(events, has_time, off_cpu),
        (true, true) => hooks_of::<General>(events, has_time),
        (true, false) => hooks_of::<SeveralSets>(events, has_time),
        (false, true) => None,
        (false, false) => hooks_of::<SingleSet>(events, has_time),
    };
    set.is_fast.set(hooks.is_some());
    let mut hooks = hooks.unwrap_or(slow::HOOKS);
    if has_graph {
        (hooks.close_leaf, hooks.close) = (slow::HOOKS.close_leaf, slow::HOOKS.close);
    }
    set.base_hooks.set(hooks);
}

/// Whether all events of a set are read in user space and together.
fn is_fast(set: &EventSet, slots: usize, tracks_overhead: bool) -> bool {
    let counters = set.events().filter_map(|event| event.slot().counter()).count();
    let is_read_here = !set.events().any(|event| event.slot().is_read_by_kernel() || event.slot().is_suspended());
    is_read_here && (counters <= 1 || CounterSet::is_supported()) && !(tracks_overhead && slots > FAST_EVENT_SLOTS)
}

/// The fast hooks for that many events, of which none is an off-CPU event, if there are any.
pub(super) fn hooks_of<P: HookParams>(events: usize, has_time: bool) -> Option<Hooks> {
    Some(match (events, has_time) {
        (1, false) => hooks::<P, 1, 1, 0>(),
        (1, true) => hooks::<P, 1, 0, 0>(),
        (2, false) => hooks::<P, 2, 2, 0>(),
        (2, true) => hooks::<P, 2, 1, 0>(),
        (3, false) => hooks::<P, 3, 3, 0>(),
        (3, true) => hooks::<P, 3, 2, 0>(),
        (4, false) => hooks::<P, 4, 4, 0>(),
        (4, true) => hooks::<P, 4, 3, 0>(),
        _ => return None,
    })
}

/// The fast hooks for that many events, of which the last ones are off-CPU events, if such a set is likely.
pub(super) fn hooks_with_off_cpu<P: HookParams>(events: usize, has_time: bool, off_cpu: usize) -> Option<Hooks> {
    Some(match (events, has_time, off_cpu) {
        (1, false, 1) => hooks::<P, 1, 1, 1>(),
        (2, true, 1) => hooks::<P, 2, 1, 1>(),
        (3, true, 1) => hooks::<P, 3, 2, 1>(),
        (4, true, 1) => hooks::<P, 4, 3, 1>(),
        (3, false, 1) => hooks::<P, 3, 3, 1>(),
        (3, true, 2) => hooks::<P, 3, 2, 2>(),
        (4, true, 3) => hooks::<P, 4, 3, 3>(),
        _ => return None,
    })
}

fn hooks<P: HookParams, const N: usize, const K: usize, const W: usize>() -> Hooks {
    let calls = Hooks {
        begin: fast::begin::<P::Entry, N, K, W>,
        end_leaf: fast::end::<P, N, K, W, true>,
        end: fast::end::<P, N, K, W, false>,
        ..slow::HOOKS
    };
    // Threads with calls made of polls track overhead. With a call graph, each poll must be added to its node.
    if P::IS_SINGLE_SET || P::IS_GENERAL && W == 0 {
        return calls;
    }
    Hooks { close_leaf: fast::close::<P, N, K, W, true>, close: fast::close::<P, N, K, W, false>, ..calls }
}

/// Binds a plan's hooks: those of its event set, and those for its options.
pub(super) fn bind_plan(plan: &Plan) {
    let measured = options::measured(plan);
    let begin = match (plan.is_thinned(), plan.member()) {
        (true, _) if plan.is_skipped_by_function() => options::begin_thinned::<true>,
        (true, _) => options::begin_thinned::<false>,
        (false, Some(_)) => options::begin_rare,
        (false, None) => measured.begin,
    };
    plan.hooks.set(Hooks { begin, ..measured });
}
