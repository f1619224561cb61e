//! Takes a snapshot: merges every thread's cells, and converts ticks to nanoseconds.

use std::cell::OnceCell;
use std::io;
use std::mem;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};

use perfmark_rdpmc::{EmulatedCounter, Hardware, clock};

use super::cells::graph;
use super::cells::histogram::{scaled_edges, shown};
use super::cells::registry::{Merged, Registry, registry};
use super::cells::{EventTotals, Owner, Totals};
use super::events::{Entry, EventId, events, unreliable};
use super::mark::defaults;
use super::mark::linked;
use super::mark::mark_settings;
use super::mark::{self, Mark, Measured};
use super::recorder;
use super::sampling;
use super::start;
use crate::compact::{Collect as _, Map, Set, sort_by, sort_by_key};
use crate::platform::per_process::PerProcess;
use crate::platform::program;
use crate::platform::thread_id::{process_id, thread_name};
use crate::platform::token;
use crate::platform::usage::ProcessUsage;
use crate::settings::recording::{ReadMode, is_off, settings};
use crate::settings::{Budget, EventSpec};
use crate::snapshot::quantile::{P50, P90, P99, P999};
use crate::snapshot::tree;
use crate::snapshot::{self, Read, Snapshot, Thread, Values};
use crate::text::counted;

/// What was recorded when [`reset`] was called.
struct Baseline {
    snapshot: Snapshot,
    threads: Vec<OfThread>,
    resets: u32,
}

/// What one thread recorded, or all threads that ended, by the marks' indices.
#[derive(Clone)]
struct OfThread {
    owner: Option<Owner>,
    marks: Vec<(u32, snapshot::Mark)>,
}

static BASELINE: PerProcess<Mutex<Option<Arc<Baseline>>>> = PerProcess::new();
/// Whether there ever was a baseline. If not, nothing allocates memory for it.
static HAS_BASELINE: AtomicBool = AtomicBool::new(false);

/// Reads or changes the baseline. `None` in a signal handler that interrupted perfmark's own work.
fn with_baseline<R>(change: impl FnOnce(&mut Option<Arc<Baseline>>) -> R) -> Option<R> {
    recorder::own_work(|| Some(change(&mut *BASELINE.lock().ok()?)))?
}

fn baseline() -> Option<Arc<Baseline>> {
    if HAS_BASELINE.load(Relaxed) { with_baseline(|baseline| baseline.clone()).flatten() } else { None }
}

/// Makes what was recorded until now the baseline.
pub(crate) fn reset() {
    HAS_BASELINE.store(true, Relaxed);
    let (snapshot, threads) = (everything(), all_threads());
    with_baseline(|baseline| {
        let resets = baseline.as_ref().map_or(0, |before| before.resets) + 1;
        let fresh = Baseline { snapshot, threads, resets };
        // Of two concurrent resets, the later one applies.
        *baseline = Some(Arc::new(match baseline.take() {
            Some(other) if other.snapshot.wall_ns > fresh.snapshot.wall_ns => {
                Baseline { snapshot: other.snapshot.clone(), threads: other.threads.clone(), resets }
            }
            _ => fresh,
        }));
    });
}

pub(crate) fn snapshot() -> Snapshot {
    // First, so that the baseline is not later than what it is subtracted from.
    let baseline = baseline();
    let now = everything();
    match baseline {
        Some(before) => Snapshot { resets: before.resets, ..now.since(&before.snapshot) },
        None => now,
    }
}

pub(crate) fn threads() -> Vec<Thread> {
    let baseline = baseline();
    let mut now = all_threads();
    if let Some(before) = baseline {
        subtract(&mut now, &before.threads);
    }
    let in_public = |OfThread { owner, marks }: OfThread| {
        let id = owner.and_then(|owner| token::known(owner.id));
        let mut marks: Vec<_> = marks.into_iter().map(|(_, mark)| mark).collect();
        sort_by(&mut marks, snapshot::Mark::by_location);
        Thread { id, name: id.and_then(thread_name), marks }
    };
    now.into_iter().map(in_public).filter(|thread| !thread.marks.is_empty()).collect()
}

/// Subtracts what threads had recorded before. The values of threads that have ended since are subtracted from those of
/// all ended threads.
fn subtract(now: &mut [OfThread], before: &[OfThread]) {
    let number = |thread: &OfThread| thread.owner.map(|owner| owner.number);
    let alive: Set<Option<u64>> = now.iter().map(number).collect_set();
    let mut earlier: Map<Option<u64>, Map<u32, snapshot::Mark>> = Map::new();
    for thread in before {
        let marks = earlier.get_or_default(number(thread).filter(|&number| alive.contains(&Some(number))));
        for (index, mark) in &thread.marks {
            match marks.get_mut(index) {
                Some(known) => known.merge(mark),
                None => marks.insert(*index, mark.clone()),
            }
        }
    }
    for thread in now {
        if let Some(earlier) = earlier.get(&number(thread)) {
            for (index, mark) in &mut thread.marks {
                *mark = mark.since(earlier.get(index));
            }
            // A dropped future leaves only what its polls cost.
            let has_unwound = |values: &Values| values.unwound_total != 0 || values.unwound_self != 0;
            let is_new = |mark: &snapshot::Mark| mark.calls + mark.in_flight + mark.polls > 0;
            thread.marks.retain(|(_, mark)| is_new(mark) || mark.values.iter().any(has_unwound));
        }
    }
}

/// Reads the registry, and the events. `None` if this thread is already inside perfmark, in a signal handler: its locks
/// may be held.
fn recorded<R: Default>(read: fn(&Registry) -> R) -> Option<io::Result<(R, Vec<Entry>)>> {
    recorder::own_work(|| {
        start::start();
        if settings().is_off { Ok(Default::default()) } else { Ok((read(registry()?), events()?.all())) }
    })
}

/// Every thread that recorded anything since the process's start.
fn all_threads() -> Vec<OfThread> {
    let by_thread = |registry: &Registry| {
        let mut threads = registry.by_thread();
        if let Some((number, open)) = recorder::in_flight() {
            let is_this = |owner: &Option<Owner>| owner.is_some_and(|owner| owner.number == number);
            threads.iter_mut().filter(|(owner, _)| is_this(owner)).for_each(|(_, merged)| merged.add_in_flight(&open));
        }
        threads
    };
    let Some(Ok((threads, events))) = recorded(by_thread) else { return Vec::new() };
    let units = Units::of(events);
    let one = |(owner, merged): (Option<Owner>, Merged)| {
        let called = mark::called().filter_map(|mark| Some((mark, merged.totals(mark)?)));
        let of = |(mark, totals): (&'static Mark, &Totals)| {
            (mark.index(), mark_values(mark, mark.full_path(), totals, &units, [0; 4]))
        };
        // A thread may have taken over the cells of an ended thread, with marks that only that one called.
        let was_called = |(_, mark): &(u32, snapshot::Mark)| mark.calls + mark.in_flight + mark.polls > 0;
        OfThread { owner, marks: called.map(of).filter(was_called).collect() }
    };
    threads.into_iter().map(one).collect()
}

/// The process's events, and the conversion of their recorded values to the units of a snapshot.
struct Units {
    events: Vec<Entry>,
    /// Nanoseconds per tick.
    nanoseconds: f64,
    /// The buckets of ticks in nanoseconds, computed at the first use.
    edges: OnceCell<Vec<u64>>,
}

impl Units {
    fn of(events: Vec<Entry>) -> Self {
        let has_ticks = events.iter().any(|event| event.spec.is_in_ticks());
        let nanoseconds = if has_ticks { start::nanoseconds_per_tick() } else { 1.0 };
        Self { events, nanoseconds, edges: OnceCell::new() }
    }

    /// The event, if its values can be converted. One that was first recorded after the table was copied is in the next
    /// snapshot.
    fn event(&self, id: EventId) -> Option<&Entry> {
        id.entry(&self.events).filter(|event| self.are_known(event))
    }

    /// Whether the event's values can be converted. Ticks cannot if the clock stands still.
    fn are_known(&self, event: &Entry) -> bool {
        self.nanoseconds > 0.0 || !event.spec.is_in_ticks()
    }

    /// The factor for the event's values; `None` for 1.
    fn scale(&self, event: &Entry) -> Option<f64> {
        event.spec.is_in_ticks().then_some(self.nanoseconds)
    }

    fn edges(&self) -> &[u64] {
        self.edges.get_or_init(|| scaled_edges(self.nanoseconds))
    }
}

/// Everything since the process's start.
fn everything() -> Snapshot {
    // If nothing is recorded, nothing is mapped either.
    let pid = if is_off() { process_id() } else { token::number().unwrap_or(0) };
    let perfmark = env!("CARGO_PKG_VERSION").to_owned();
    let mut snapshot = Snapshot { perfmark, program: program(), pid, ..Snapshot::default() };
    let everything = |registry: &Registry| {
        let mut merged = registry.merged();
        merged.add_in_flight(&recorder::in_flight().unwrap_or_default().1);
        merged
    };
    let (mut merged, events) = match recorded(everything) {
        Some(Ok(recorded)) => recorded,
        Some(Err(error)) => {
            snapshot.notes.push(format!(
                "nothing was recorded: perfmark cannot map memory with MADV_WIPEONFORK: {error}; \
                 it requires Linux 4.14 or later"
            ));
            Default::default()
        }
        None => {
            let why = "no values: this snapshot was taken in a signal handler that interrupted perfmark's own work";
            snapshot.notes.push(why.into());
            Default::default()
        }
    };
    snapshot.wall_ns = start::wall_ns();
    let units = Units::of(events);
    let events = &*units.events;
    snapshot.threads = merged.threads;
    snapshot.threads_at_once = Some(merged.threads_at_once);
    if let Some(ProcessUsage { cpu_ns, involuntary_switches, .. }) = start::process_usage() {
        (snapshot.cpu_ns, snapshot.involuntary_switches) = (Some(cpu_ns), Some(involuntary_switches));
    }
    let emulator = emulator(events);
    snapshot.events = events.iter().map(|entry| event(entry, &units, emulator.as_deref())).collect();
    let marks = linked::in_order();
    let of_graph = if merged.graph.tree.len() > 0 { &*marks } else { &[] };
    let indices: Map<u32, usize> = of_graph.iter().map(|(mark, _)| mark.index()).zip(0..).collect_map();
    snapshot.samples = samples(marks.iter().map(|(mark, _)| mark.index()));
    let probes = unknown_overhead(&merged, events);
    // Each mark's totals are dropped once they are in the snapshot, so their memory is reused at once.
    let of = |(mark, path): (&'static Mark, String)| {
        let totals = merged.marks.get_mut(&mark.index()).map(mem::take).unwrap_or_default();
        let counts = [&mark.interrupted, &mark.unrecorded, &mark.cancelled, &mark.gone];
        let [interrupted, unrecorded, cancelled, gone] = counts.map(|count| count.load(Relaxed));
        let outside_cells = [interrupted, unrecorded, cancelled, totals.suspended.wrapping_sub(gone)];
        mark_values(mark, path, &totals, &units, outside_cells)
    };
    snapshot.marks = marks.into_iter().map(of).collect();
    let of_setups = start::in_units(merged.setup_ticks, Some(units.nanoseconds));
    let of_marks = snapshot.marks.iter().filter_map(|mark| mark.overhead_ns).reduce(u64::saturating_add);
    snapshot.overhead_ns = of_marks.map(|of_marks| of_marks.saturating_add(of_setups));
    snapshot.call_graph_lacks = merged.graph.lost;
    snapshot.call_graph = call_graph(&merged.graph, &indices, &units);
    snapshot.notes.extend(events.iter().flat_map(partly));
    snapshot.notes.extend(probes);
    snapshot.notes.extend(saturated_sums(&snapshot));
    snapshot.notes.extend(events.iter().filter_map(|entry| unreliable(&entry.spec, entry.truth?)));
    let fallbacks = events.iter().filter(|entry| entry.is_fallback).map(|entry| &entry.spec);
    let instead = |spec| format!("marks whose events are all unavailable record {spec} instead");
    snapshot.notes.extend(fallbacks.map(instead));
    snapshot.notes.extend(defaults::wrong());
    snapshot.notes.extend(mark_settings::notes());
    snapshot.notes.extend(recorder::not_begun().iter().cloned());
    snapshot.notes.extend(sampling::snapshot_notes());
    if !clock::is_trusted() {
        let why = "the kernel does not trust this machine's tick counter: times may be wrong across CPUs";
        snapshot.notes.push(why.into());
    }
    snapshot
}

fn program() -> String {
    let path = program::program().or_else(|| std::env::args_os().next().map(Into::into));
    let name = path.as_deref().and_then(std::path::Path::file_name);
    name.map_or_else(|| "?".into(), |name| name.to_string_lossy().into_owned())
}

/// The emulator that runs the program, if it counts for perfmark.
fn emulator(events: &[Entry]) -> Option<String> {
    if settings().read != ReadMode::Emulated {
        return None;
    }
    let of_counter = events.iter().find_map(|entry| entry.emulator.clone());
    of_counter.or_else(|| Some(EmulatedCounter::open(&Hardware::Instructions.into()).ok()?.emulator()))
}

fn event(entry: &Entry, units: &Units, emulator: Option<&str>) -> snapshot::Event {
    let unit = entry.spec.unit();
    let (read, reason) = match (entry, emulator) {
        _ if !units.are_known(entry) => {
            (Read::None, Some("the system's clock stands still, so ticks cannot be converted to time".into()))
        }
        (Entry { emulator: Some(emulator), .. }, _) => (Read::Emulated, Some(format!("counted by {emulator}"))),
        // No counter may be opened.
        (Entry { refused: 0, spec, .. }, Some(emulator)) if spec.is_in_ticks() => {
            (Read::Emulated, Some(format!("measured in {emulator}, which is slower than the processor")))
        }
        (Entry { spec: EventSpec::Time | EventSpec::Suspended, .. }, None) => (Read::Ticks, None),
        (Entry { user: 1.., .. }, _) => (Read::User, None),
        (Entry { syscall: 1.., why_syscall, .. }, _) => (Read::Syscall, why_syscall.clone()),
        (Entry { why_refused, .. }, _) => (Read::None, why_refused.clone()),
    };
    snapshot::Event { name: entry.spec.to_string(), unit, read, reason }
}

/// The note about events in which the probe overhead of some marks is unknown.
fn unknown_overhead(merged: &Merged, events: &[Entry]) -> Option<String> {
    let all = || merged.marks.iter().flat_map(|(_, totals)| &totals.events);
    let is_unknown = |number| all().any(|(event, totals)| event.number() == number && totals.overhead.is_unknown);
    let unknown = events.iter().zip(0..).filter(|(_, number)| is_unknown(*number));
    let names: Vec<String> = unknown.map(|(entry, _)| entry.spec.to_string()).collect();
    (!names.is_empty()).then(|| {
        let why = "because other events used the counters; the values of some marks include this overhead";
        format!("the probe overhead in {} was not measured, {why}", names.join(", "))
    })
}

/// The note about marks whose sums exceed 64 bits.
fn saturated_sums(snapshot: &Snapshot) -> Option<String> {
    let is_full = |mark: &&snapshot::Mark| mark.values.iter().any(|values| values.sum == i64::MAX);
    let names: Vec<&str> = snapshot.marks.iter().filter(is_full).map(|mark| mark.name.as_str()).collect();
    (!names.is_empty()).then(|| format!("sums of these marks exceed the maximum of {}: {}", i64::MAX, names.join(", ")))
}

/// The call graph, with the marks' indices in the snapshot.
fn call_graph(merged: &graph::Merged, indices: &Map<u32, usize>, units: &Units) -> Vec<snapshot::Node> {
    let values = |sums: &graph::EventSums| {
        let entry = units.event(sums.event)?;
        let scale = units.scale(entry);
        Some(snapshot::NodeValues {
            event: entry.spec.to_string(),
            measured: sums.measured,
            sum: start::sum_in_units(sums.net.cast_signed().into(), scale),
            self_sum: Some(start::sum_in_units(sums.net.wrapping_sub(sums.inside).cast_signed().into(), scale)),
        })
    };
    let node = |node: &tree::Node<u32, graph::NodeTotals>| snapshot::Node {
        parent: node.above,
        // All marks that were called are in the snapshot.
        mark: indices.get(&node.key).copied().unwrap_or(usize::MAX),
        calls: node.value.calls,
        values: node.value.events.iter().filter_map(values).collect(),
    };
    merged.tree.nodes().iter().map(node).collect()
}

/// The samples until now. `marks` are those of the snapshot.
fn samples(marks: impl Iterator<Item = u32>) -> Vec<snapshot::Samples> {
    let collected = recorder::own_work(|| {
        recorder::note_samples();
        sampling::collect(..);
        sampling::samples(marks)
    });
    collected.unwrap_or_default()
}

/// Notes about events that only some of the threads could read, or read in user space.
fn partly(entry: &Entry) -> Vec<String> {
    let threads = |n: u64| counted(n, "thread");
    let name = &entry.spec;
    let mut notes = Vec::new();
    if let (1.., 1.., Some(why)) = (entry.user, entry.syscall, &entry.why_syscall) {
        notes.push(format!("{name}: read by a system call on {}: {why}", threads(entry.syscall)));
    }
    if let (1.., 1.., Some(why)) = (entry.user + entry.syscall, entry.refused, &entry.why_refused) {
        notes.push(format!("{name}: not counted on {}: {why}", threads(entry.refused)));
    }
    notes
}

/// `interrupted` to `suspended` are the mark's calls that are in no thread's cells.
fn mark_values(
    mark: &'static Mark,
    path: String,
    totals: &Totals,
    units: &Units,
    [interrupted, unrecorded, cancelled, suspended]: [u64; 4],
) -> snapshot::Mark {
    let calls = totals.calls + interrupted + unrecorded + cancelled;
    let variant = mark_settings::of_slot(mark.slot());
    let settings = mark_settings::resolve(mark, variant);
    let had = totals.events.iter().filter(|(_, of_event)| of_event.is_had);
    let mut events: Vec<_> = had.filter_map(|(id, of_event)| Some((units.event(*id)?, of_event))).collect();
    if events.len() > 1 {
        // In the order in which the mark names them; `time` in place of unavailable events is last.
        let order = mark_settings::events(mark, variant);
        sort_by_key(&mut events, |(entry, _)| order.iter().position(|spec| *spec == entry.spec).unwrap_or(usize::MAX));
    }
    let time = events.iter().find(|(entry, _)| matches!(entry.spec, EventSpec::Time | EventSpec::OnCpu));
    let overhead_ns = time.map(|(entry, of_time)| start::in_units(of_time.cost_of_probes, units.scale(entry)));
    let values = events.into_iter().map(|(entry, of_event)| values(entry, of_event, interrupted + unrecorded, units));
    snapshot::Mark {
        overhead_ns,
        name: mark.name.into(),
        path,
        file: mark.file.into(),
        line: mark.line,
        type_hash: mark.type_hash(),
        calls,
        // Calls that began and have not ended. Negative if a call ended while threads were read in turn.
        in_flight: shown(totals.in_flight.wrapping_add(suspended)),
        unwound: totals.unwound,
        cancelled,
        polls: totals.polls,
        interrupted,
        every: settings.every,
        budget_percent: (settings.mode.measured == Measured::WithinBudget)
            .then(|| mark_settings::budget_of(mark))
            .flatten()
            .map(Budget::as_percent),
        on: mark_settings::is_on(mark),
        skipped: totals.skipped,
        values: values.collect(),
    }
}

/// `uncounted` calls are in no thread's cells.
fn values(event: &Entry, totals: &EventTotals, uncounted: u64, units: &Units) -> Values {
    let scale = units.scale(event);
    let unit = |value: u64| start::in_units(value, scale);
    let sum_unit = |sum: i128| start::sum_in_units(sum, scale);
    let frozen = &totals.values;
    let filled = frozen.filled();
    let quantiles = filled.quantiles([P50, P90, P99, P999]).map(|quantiles| quantiles.map(unit));
    let unmeasured = (totals.calls + uncounted).saturating_sub(totals.measured + totals.left_out);
    // The outermost calls of a recursive function contain the others, measured or not. The cost inside missing
    // outermost calls is unknown.
    let missing_outermost = if totals.is_recursive { unmeasured.saturating_sub(totals.unmeasured_nested) } else { 0 };
    Values {
        event: event.spec.to_string(),
        measured: totals.measured,
        weight: frozen.count,
        scaled: totals.scaled,
        unmeasured,
        imputed: totals.imputed,
        sum: sum_unit(frozen.sum),
        total: sum_unit(totals.sums.total),
        missing_outermost,
        extrapolated: unmeasured > 0 || totals.skipped > 0 || frozen.count != totals.measured,
        estimated: totals.estimated,
        self_sum: Some(sum_unit(totals.sums.own)),
        unwound_total: sum_unit(totals.unwound.total),
        unwound_self: sum_unit(totals.unwound.own),
        in_flight_total: sum_unit(totals.in_flight.total),
        in_flight_self: sum_unit(totals.in_flight.own),
        min: frozen.range.map(|(min, _)| unit(min)),
        max: frozen.range.map(|(_, max)| unit(max)),
        mean: (frozen.count > 0).then(|| frozen.sum as f64 * scale.unwrap_or(1.0) / frozen.count as f64),
        p50: quantiles.map(|quantiles| quantiles[0]),
        p90: quantiles.map(|quantiles| quantiles[1]),
        p99: quantiles.map(|quantiles| quantiles[2]),
        p999: quantiles.map(|quantiles| quantiles[3]),
        overhead: snapshot::Overhead {
            in_call: unit(totals.overhead.in_call),
            total: unit(totals.overhead.total),
            noise: unit(totals.overhead.noise),
        },
        buckets: match scale {
            None => filled.buckets().collect(),
            Some(_) => filled.scaled_buckets(units.edges()),
        },
    }
}
