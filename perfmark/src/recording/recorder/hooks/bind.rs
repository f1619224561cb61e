//! Chooses the hooks of a mark on a thread: slow or fast ones, and those of its options.
#![allow(unsafe_code, reason = "hooks must suit the plan")]

use perfmark_rdpmc::CounterSet;

use super::fast::{self, GENERAL, SEVERAL_SETS, SINGLE_SET};
use super::options;
use super::slow;
use crate::recording::recorder::thread::{Begin, EventSet, FAST_EVENT_SLOTS, FAST_EVENTS, Hooks, Plan, Recorder};
use crate::settings::recording::settings;

/// Binds the hooks of an event set on the thread with this recorder and this many event slots.
pub(crate) fn bind_set(set: &EventSet, slots: usize, recorder: &Recorder) {
    let (has_graph, tracks_overhead) = (settings().has_call_graph, recorder.tracks_overhead.get());
    let is_general = has_graph || recorder.has_thinned.get();
    let hooks = match (tracks_overhead, is_general) {
        _ if !is_fast(set, slots, tracks_overhead) => None,
        (true, true) => hooks_of::<GENERAL>(set),
        (true, false) => hooks_of::<SEVERAL_SETS>(set),
        (false, true) => None,
        (false, false) => hooks_of::<SINGLE_SET>(set),
    };
    set.is_fast.set(hooks.is_some());
    let hooks = hooks.unwrap_or(slow::HOOKS);
    // SAFETY: BINDING: they were chosen for the set above. Others suit all plans.
    unsafe { set.bind(hooks, if set.sampled().is_some() { options::SAMPLED } else { hooks }) };
}

/// Whether all events of a set are read in user space and together.
fn is_fast(set: &EventSet, slots: usize, tracks_overhead: bool) -> bool {
    let counters = set.with_counters().count();
    let ticks = set.events().filter(|event| event.slot().reads_ticks()).count();
    set.events().all(|event| event.slot().is_on_fast_path())
        && set.len() <= FAST_EVENTS
        && ticks <= 1
        && (counters <= 1 || CounterSet::is_supported())
        && !(tracks_overhead && slots > FAST_EVENT_SLOTS)
}

/// The fast hooks of a set with at most [`FAST_EVENTS`]. `None` if it has off-CPU events only.
fn hooks_of<const KIND: u8>(set: &EventSet) -> Option<Hooks> {
    Some(match (set.len() - set.off_cpu_events().len(), set.has_ticks()) {
        (1, false) => hooks::<KIND, 1, 1, false>(),
        (1, true) if set.switches().is_some() => hooks::<KIND, 1, 0, true>(),
        (1, true) => hooks::<KIND, 1, 0, false>(),
        (2, false) => hooks::<KIND, 2, 2, false>(),
        (2, true) => hooks::<KIND, 2, 1, false>(),
        (3, false) => hooks::<KIND, 3, 3, false>(),
        (3, true) => hooks::<KIND, 3, 2, false>(),
        (4, false) => hooks::<KIND, 4, 4, false>(),
        (4, true) => hooks::<KIND, 4, 3, false>(),
        _ => return None,
    })
}

fn hooks<const KIND: u8, const N: usize, const K: usize, const IS_WATCHED: bool>() -> Hooks {
    Hooks {
        begin: if KIND == GENERAL {
            fast::begin::<true, N, K, IS_WATCHED>
        } else {
            fast::begin::<false, N, K, IS_WATCHED>
        },
        end_leaf: fast::end::<KIND, N, K, IS_WATCHED, true>,
        end: fast::end::<KIND, N, K, IS_WATCHED, false>,
        // Threads with calls made of polls track overhead. With a call graph, each poll must be added to its node.
        close: if KIND == SEVERAL_SETS { fast::close::<KIND, N, K, IS_WATCHED> } else { slow::HOOKS.close },
    }
}

/// Binds a plan's hooks: those of its event set, and those for its options.
pub(crate) fn bind_plan(plan: &Plan) {
    let measured = options::measured(plan);
    let begin: Begin = match (plan.is_thinned(), plan.member()) {
        (true, _) if plan.is_skipped_by_function() => options::begin_thinned::<true>,
        (true, _) => options::begin_thinned::<false>,
        (false, Some(_)) => options::begin_rare,
        (false, None) => measured.begin,
    };
    // SAFETY: BINDING: it holds for those of the set and all its plans. Others suit all plans.
    unsafe { plan.bind(measured, begin) };
}
