//! Chooses the hooks of a mark on a thread. This is the one file that knows every path.

use perfmark_rdpmc::CounterSet;

use super::fast::{self, HookParams, SeveralSets, SingleSet, Weighted, WithGraph};
use super::options;
use super::slow;
use super::thread::event_set::EventSet;
use super::thread::overhead::FAST_EVENT_SLOTS;
use super::thread::plan::{Hooks, Plan};
use crate::settings::recording::settings;

/// Binds the hooks of an event set on a thread with this many event slots.
pub(super) fn bind_set(set: &EventSet, slots: usize, tracks_overhead: bool) {
    let hooks = |is_weighted| match (settings().has_call_graph, tracks_overhead, is_weighted) {
        _ if !is_fast(set, slots, tracks_overhead) => slow::HOOKS,
        (true, ..) => hooks_for::<WithGraph>(set),
        (_, true, true) => hooks_for::<Weighted>(set),
        (_, true, false) => hooks_for::<SeveralSets>(set),
        (_, false, _) => hooks_for::<SingleSet>(set),
    };
    set.base_hooks.set(hooks(false));
    set.weighted_hooks.set(hooks(true));
}

/// Whether all events of a set are read in user space and together.
fn is_fast(set: &EventSet, slots: usize, tracks_overhead: bool) -> bool {
    let counters = set.events().filter_map(|event| event.slot().counter()).count();
    let is_read_here = !set.events().any(|event| event.slot().is_read_by_kernel() || event.slot().is_suspended());
    is_read_here && (counters <= 1 || CounterSet::is_supported()) && !(tracks_overhead && slots > FAST_EVENT_SLOTS)
}

fn hooks_for<P: HookParams>(set: &EventSet) -> Hooks {
    hooks_of::<P>(set.len(), set.time().is_some(), set.off_cpu_events()).unwrap_or(slow::HOOKS)
}

/// The fast hooks for that many events, if there are any.
pub(super) fn hooks_of<P: HookParams>(events: usize, has_time: bool, off_cpu: usize) -> Option<Hooks> {
    Some(match (events, has_time, off_cpu) {
        (1, false, 0) => hooks::<P, 1, 1, 0>(),
        (1, true, 0) => hooks::<P, 1, 0, 0>(),
        (2, false, 0) => hooks::<P, 2, 2, 0>(),
        (2, true, 0) => hooks::<P, 2, 1, 0>(),
        (3, false, 0) => hooks::<P, 3, 3, 0>(),
        (3, true, 0) => hooks::<P, 3, 2, 0>(),
        (4, false, 0) => hooks::<P, 4, 4, 0>(),
        (4, true, 0) => hooks::<P, 4, 3, 0>(),
        // Of the sets with off-CPU events, those that are likely.
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
        begin: fast::begin::<P, N, K, W>,
        end_leaf: fast::end::<P, N, K, W, true>,
        end: fast::end::<P, N, K, W, false>,
        ..slow::HOOKS
    };
    // Threads with calls made of polls track overhead. With a call graph, each poll must be added to its node.
    if P::IS_SINGLE_SET || P::HAS_GRAPH {
        return calls;
    }
    Hooks { close_leaf: fast::close::<P, N, K, W, true>, close: fast::close::<P, N, K, W, false>, ..calls }
}

/// Binds a plan's hooks: those of its event set, and those for its options.
pub(super) fn bind_plan(plan: &Plan) {
    let (set, is_weighted) = (plan.set(), plan.cells.weight > 1);
    plan.base_hooks.set(if is_weighted { set.weighted_hooks.get() } else { set.base_hooks.get() });
    let measured = options::measured(plan);
    let begin = match (is_weighted, set.mode.is_polled) {
        _ if set.mode.is_budgeted => options::budgeted_begin(plan),
        (false, _) => measured.begin,
        (true, false) if plan.skipped().is_some() => options::begin_every::<true>,
        (true, false) => options::begin_every::<false>,
        (true, true) => options::begin_first_poll_of_every,
    };
    plan.hooks.set(Hooks { begin, ..measured });
}
