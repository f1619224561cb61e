//! Chooses the hooks of a mark on a thread: the one file that knows every path.

use perfmark_rdpmc::CounterSet;

use super::cost::PAID;
use super::fast::{self, Fit, Graphed, OneOfSeveral, OnlySet, Weighted};
use super::options;
use super::plan::{EventSet, Hooks, Plan};
use super::slow;
use crate::config::config;

/// Binds the hooks of a set's marks, on a thread of so many slots.
pub(super) fn bind_set(set: &EventSet, slots: usize, keeps_costs: bool) {
    let hooks = |is_weighted| match (config().has_call_graph, keeps_costs, is_weighted) {
        _ if !is_fast(set, slots, keeps_costs) => slow::HOOKS,
        (true, ..) => of::<Graphed>(set),
        (_, true, true) => of::<Weighted>(set),
        (_, true, false) => of::<OneOfSeveral>(set),
        (_, false, _) => of::<OnlySet>(set),
    };
    set.plain.set(hooks(false));
    set.weighted.set(hooks(true));
}

/// Whether all of a set's events are read in user space, at once.
fn is_fast(set: &EventSet, slots: usize, keeps_costs: bool) -> bool {
    let counters = set.events().filter_map(|event| event.slot().counter()).count();
    let is_read_here = !set.events().any(|event| event.slot().is_kernels());
    is_read_here && (counters <= 1 || CounterSet::is_supported()) && !(keeps_costs && slots > PAID)
}

fn of<F: Fit>(set: &EventSet) -> Hooks {
    match (set.len(), set.is_timed()) {
        (1, false) => hooks::<F, 1, 1>(),
        (1, true) => hooks::<F, 1, 0>(),
        (2, false) => hooks::<F, 2, 2>(),
        (2, true) => hooks::<F, 2, 1>(),
        (3, false) => hooks::<F, 3, 3>(),
        (3, true) => hooks::<F, 3, 2>(),
        (4, false) => hooks::<F, 4, 4>(),
        (4, true) => hooks::<F, 4, 3>(),
        _ => slow::HOOKS,
    }
}

fn hooks<F: Fit, const N: usize, const K: usize>() -> Hooks {
    let calls = Hooks {
        begin: fast::begin::<F, N, K>,
        end_leaf: fast::end::<F, N, K, true>,
        end: fast::end::<F, N, K, false>,
        ..slow::HOOKS
    };
    // Threads with marks of such calls keep costs; in a call graph each poll is added to its node.
    if F::IS_ONLY_SET || F::HAS_GRAPH {
        return calls;
    }
    Hooks { close_leaf: fast::close::<F, N, K, true>, close: fast::close::<F, N, K, false>, ..calls }
}

/// Binds a plan's hooks, as its set has them.
pub(super) fn bind_plan(plan: &Plan) {
    let (set, is_weighted) = (plan.set(), plan.cells.weight > 1);
    plan.choose_plain();
    let measured = options::measured(plan);
    let begin = match (is_weighted, set.manner.is_polled) {
        (false, _) => measured.begin,
        (true, false) => options::begin_every,
        (true, true) => options::begin_first_poll_of_every,
    };
    plan.hooks.set(Hooks { begin, ..measured });
}
