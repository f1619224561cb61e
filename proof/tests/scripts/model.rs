//! What the report must say, computed naively: each value is a difference of two moments.

use std::collections::BTreeMap;
use std::env;

use perfmark::Snapshot;
use perfmark::private::recording::{allocate, innermost};
use perfmark_rdpmc::script::{self, Kind};

use crate::compare::Number;
use crate::marks::{EVENTS, EventIndex, Exit, MARKS, MarkIndex, Source, events_of};

/// Nanoseconds. Readings by the kernel take much less, also those of calibration, so they hardly change estimates.
const LONG: u64 = 1 << 22;
/// The variable that is set where each reading of a counter counts.
pub const READINGS_COUNT: &str = "PERFMARK_TOP";
/// The part by which an estimate of a call that was counted in part may differ from the model's.
const ESTIMATE: f64 = 0.01;
pub type Costs<T> = [T; EVENTS.len()];

#[derive(Default)]
pub struct Model {
    /// Nanoseconds that have passed.
    now: u64,
    pub threads: Vec<Thread>,
    pub marks: BTreeMap<MarkIndex, Totals>,
    /// The calls and costs of each path of marks.
    pub graph: BTreeMap<Vec<MarkIndex>, (u64, Costs<Sums>)>,
    /// The mark that is off.
    pub off: Option<MarkIndex>,
    /// A snapshot, and the numbers that it must have.
    pub baseline: Option<(Snapshot, BTreeMap<MarkIndex, Vec<Number>>)>,
    /// How many calls of each mark are between two polls.
    pub suspended: BTreeMap<MarkIndex, u64>,
}

#[derive(Default)]
pub struct Thread {
    /// Nanoseconds off the CPU: all, blocked, preempted.
    off_cpu: [u64; 3],
    /// Allocated blocks, and their bytes.
    allocated: [u64; 2],
    counters: Vec<(Kind, Counter)>,
    pub open: Vec<Open>,
    /// Of each weight, the means by which calls that were not counted are imputed.
    means: BTreeMap<(MarkIndex, u64, EventIndex), Mean>,
    /// The marks that it has called.
    pub called: Vec<MarkIndex>,
    /// How many calls of marks with `every` began, and how many of them were measured.
    thinned: [u64; 2],
}

/// What an event has counted.
#[derive(Clone, Copy, Default)]
struct Counter {
    value: u64,
    /// How long other events used its counter, and since when they do.
    off: u64,
    off_since: Option<u64>,
}

/// How a call or a poll began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begun {
    Measured,
    Skipped,
    Off,
}

/// An event at one moment.
#[derive(Clone, Copy, Debug)]
struct Moment {
    value: u64,
    enabled: u64,
    running: u64,
    /// Whether other events use its counter.
    is_off: bool,
    /// Whether a call that begins then reads the times.
    has_times: bool,
}

/// An open call, or a poll.
pub struct Open {
    pub mark: MarkIndex,
    number: u64,
    weight: u64,
    began: Vec<Moment>,
    /// The cost of calls inside, and its error.
    inner: Costs<(i64, f64)>,
    is_nested: bool,
    /// Whether a call inside was skipped.
    has_skipped: bool,
    /// By how much its cost may differ because of perfmark's own work in it.
    of_own_work: f64,
}

/// What one call or poll cost in one event: with and without marked calls inside.
#[derive(Clone, Copy, Debug)]
struct Cost {
    net: i64,
    own: i64,
    /// By how much it may differ.
    error: f64,
    is_scaled: bool,
    /// By how much its estimate may differ from `own`, because calls inside were skipped: by the cost of those, and by
    /// that of measured ones in which calls of the same marks were taken to be skipped.
    of_skipped: i64,
}

/// An async call between its polls.
#[derive(Clone)]
pub struct Suspended {
    weight: u64,
    is_nested: bool,
    /// Whether a call inside was skipped.
    has_skipped: bool,
    costs: Vec<Option<Cost>>,
}

#[derive(Clone, Copy, Default)]
struct Mean {
    calls: i64,
    sum: i64,
    own: i64,
    of_skipped: i64,
    error: f64,
    unmeasured: u64,
    has_nested: bool,
    /// The mean in use, with and without marked calls inside, and how much of that may be of calls that were skipped.
    mean: Option<[i64; 3]>,
}

/// A mark's values in one event.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sums {
    pub measured: u64,
    pub weight: u64,
    pub scaled: u64,
    pub unmeasured: u64,
    pub imputed: u64,
    pub sum: i64,
    pub total: i64,
    pub own: i64,
    /// How much of that may be of calls that were skipped.
    pub of_skipped: i64,
    /// The same of the calls that a panic ended.
    pub unwound_of_skipped: i64,
    pub unwound_total: i64,
    pub unwound_own: i64,
    pub min: Option<u64>,
    pub max: Option<u64>,
    /// By how much these may differ.
    pub error: f64,
    /// By how much one call may differ.
    pub largest_error: f64,
}

/// A mark's calls.
#[derive(Default)]
pub struct Totals {
    pub calls: u64,
    pub skipped: u64,
    /// Calls inside which calls were skipped.
    pub estimated: u64,
    pub unwound: u64,
    pub cancelled: u64,
    pub polls: u64,
    pub has_nested: bool,
    pub events: Costs<Sums>,
}

impl Thread {
    /// A call of any mark begins or ends. Where each reading counts, leaving out perfmark's own work may leave some out
    /// of the open calls, or leave some in.
    fn add_own_work(&mut self) {
        if self.thinned[0] > 0 && env::var_os(READINGS_COUNT).is_some() {
            self.open.iter_mut().for_each(|open| open.of_own_work += 10.0);
        }
    }

    fn counter(&mut self, kind: Kind) -> &mut Counter {
        let at = self.counters.iter().position(|(known, _)| *known == kind).unwrap_or_else(|| {
            self.counters.push((kind, Counter::default()));
            self.counters.len() - 1
        });
        &mut self.counters[at].1
    }

    fn moment(&mut self, event: EventIndex, now: u64) -> Moment {
        let enabled = now - self.off_cpu[0];
        let of = |value| Moment { value, enabled, running: enabled, is_off: false, has_times: false };
        match EVENTS[event].1 {
            Source::Ticks => of(now),
            Source::OnCpu => of(enabled),
            Source::OffCpu(kind) => of(self.off_cpu[kind]),
            Source::Allocated(kind) => of(self.allocated[kind]),
            Source::Counter(kind) => {
                let Counter { value, off, off_since } = *self.counter(kind);
                let running = enabled - off - off_since.map_or(0, |since| enabled - since);
                // The fast path does not read the times. It is for events that were never off the PMU.
                let has_times = running < enabled || env::var("PERFMARK_READ").is_ok_and(|read| read == "syscall");
                Moment { running, is_off: off_since.is_some(), has_times, ..of(value) }
            }
        }
    }
}

impl Moment {
    /// What was counted until a later moment, and whether it is scaled.
    fn until(self, end: Self) -> Option<(i64, bool)> {
        let [value, enabled, running] =
            [end.value - self.value, end.enabled - self.enabled, end.running - self.running];
        // Only the kernel can read an event that is off the PMU, which takes time.
        if enabled == running && !end.is_off {
            return Some((value.cast_signed(), false));
        }
        (running > 0 && self.has_times).then(|| ((value * enabled / running).cast_signed(), true))
    }
}

impl Cost {
    fn plus(self, other: Self) -> Self {
        let is_scaled = self.is_scaled || other.is_scaled;
        let (net, own, of_skipped) = (self.net + other.net, self.own + other.own, self.of_skipped + other.of_skipped);
        Self { net, own, error: self.error + other.error, is_scaled, of_skipped }
    }
}

impl Sums {
    fn add(&mut self, cost: Cost, weight: u64, is_nested: bool) {
        let times = weight.cast_signed();
        self.measured += 1;
        self.weight += weight;
        self.scaled += u64::from(cost.is_scaled);
        self.sum += times * cost.net;
        self.total += if is_nested { 0 } else { times * cost.net };
        self.own += times * cost.own;
        self.of_skipped += times * cost.of_skipped;
        let value = cost.net.cast_unsigned();
        self.min = Some(self.min.map_or(value, |min| min.min(value)));
        self.max = Some(self.max.map_or(value, |max| max.max(value)));
        self.error += weight as f64 * cost.error;
        self.largest_error = self.largest_error.max(cost.error);
    }

    fn add_unwound(&mut self, cost: Cost, weight: u64, is_nested: bool) {
        let times = weight.cast_signed();
        self.unwound_total += if is_nested { 0 } else { times * cost.net };
        self.unwound_own += times * cost.own;
        self.unwound_of_skipped += times * cost.of_skipped;
        self.error += weight as f64 * cost.error;
    }
}

impl Mean {
    fn add(&mut self, cost: Cost, is_nested: bool) {
        self.calls += 1;
        self.sum += cost.net;
        self.own += cost.own;
        self.of_skipped += cost.of_skipped;
        self.error += cost.error;
        self.has_nested |= is_nested && cost.net != 0;
    }

    /// The cost that is imputed to a call that was not counted.
    fn impute(&mut self) -> Option<Cost> {
        if self.calls > 0 && (self.mean.is_none() || self.unmeasured.is_multiple_of(64)) {
            self.mean = Some([self.sum, self.own, self.of_skipped].map(|sum| sum / self.calls));
        }
        let error = if self.error > 0.0 { 1.0 + self.error / self.calls as f64 } else { 0.0 };
        let error = if self.of_skipped != 0 { error + 2.0 } else { error };
        self.mean.map(|[net, own, of_skipped]| Cost { net, own, error, is_scaled: false, of_skipped })
    }
}

impl Model {
    pub fn pass(&mut self, nanoseconds: u64) {
        script::pass(nanoseconds);
        self.now += nanoseconds;
    }

    pub fn count(&mut self, thread: usize, kind: Kind, times: u64) {
        script::count(kind, times);
        let counter = self.threads[thread].counter(kind);
        if counter.off_since.is_none() {
            counter.value += times;
        }
    }

    pub fn allocate(&mut self, thread: usize, bytes: usize) {
        allocate(bytes, false);
        let [blocks, all_bytes] = &mut self.threads[thread].allocated;
        (*blocks, *all_bytes) = (*blocks + 1, *all_bytes + bytes as u64);
    }

    pub fn take_away(&mut self, thread: usize, kind: Kind) {
        self.pass(LONG);
        if script::take_away(kind) {
            let of_thread = &mut self.threads[thread];
            of_thread.counter(kind).off_since = Some(self.now - of_thread.off_cpu[0]);
            self.pass(LONG);
        }
    }

    pub fn give_back(&mut self, thread: usize, kind: Kind) {
        if let Some(since) = self.threads[thread].counter(kind).off_since.take() {
            self.pass(LONG);
            script::give_back(kind);
            let of_thread = &mut self.threads[thread];
            of_thread.counter(kind).off += self.now - of_thread.off_cpu[0] - since;
            self.pass(LONG);
        }
    }

    pub fn switch(&mut self, thread: usize, nanoseconds: u64, is_preempted: bool) {
        if script::switch(nanoseconds, is_preempted) {
            self.now += nanoseconds;
            let [all, parts @ ..] = &mut self.threads[thread].off_cpu;
            *all += nanoseconds;
            parts[usize::from(is_preempted)] += nanoseconds;
        }
    }

    /// A call or a poll begins, inside of which this runs.
    pub fn begin(&mut self, thread: usize, mark: MarkIndex) -> Begun {
        if self.off == Some(mark) {
            return Begun::Off;
        }
        let now = self.now;
        let of_thread = &mut self.threads[thread];
        let around = of_thread.open.last().map_or(0, |open| open.number);
        let measured = innermost().filter(|(number, _)| *number != around);
        let every = MARKS[mark].every;
        if env::var_os("PERFMARK_BUDGET").is_none() {
            assert!(measured.is_none_or(|(_, weight)| weight == every || weight == 0 && every > 1), "{measured:?}");
            assert!(measured.is_some() || every > 1, "{}", MARKS[mark].name);
        }
        if every > 1 && env::var_os("PERFMARK_BUDGET").is_none() {
            // One call in `every` is in a burst. Bursts inside other calls have 16 calls, and later ones more.
            let [calls, in_bursts] = &mut of_thread.thinned;
            (*calls, *in_bursts) = (*calls + 1, *in_bursts + u64::from(measured.is_some_and(|(_, weight)| weight > 0)));
            let allowed = 18 + *calls / 32;
            assert!(in_bursts.abs_diff(*calls / every) <= allowed, "{in_bursts} of {calls}");
        }
        of_thread.add_own_work();
        if measured.is_none() {
            of_thread.open.iter_mut().for_each(|open| open.has_skipped = true);
        }
        let Some((number, weight)) = measured else {
            self.skip(mark);
            return Begun::Skipped;
        };
        let is_nested = of_thread.open.iter().any(|open| open.mark == mark);
        let began = events_of(mark).map(|event| of_thread.moment(event, now)).collect();
        of_thread.open.push(Open {
            mark,
            number,
            weight,
            began,
            inner: Default::default(),
            is_nested,
            has_skipped: false,
            of_own_work: 0.0,
        });
        Begun::Measured
    }

    fn skip(&mut self, mark: MarkIndex) {
        let totals = self.marks.entry(mark).or_default();
        (totals.calls, totals.skipped) = (totals.calls + 1, totals.skipped + 1);
    }

    /// The innermost call or poll ends. Returns its cost in each of its events.
    fn close(&mut self, thread: usize, exit: Exit) -> (Open, Vec<Option<Cost>>) {
        let of_thread = &mut self.threads[thread];
        of_thread.add_own_work();
        // Calls that are not recorded are in no node.
        let recorded = of_thread.open.iter().filter(|open| open.weight > 0);
        let path = recorded.map(|open| open.mark).collect();
        let open = of_thread.open.pop().expect("it began");
        let mut node = (open.weight > 0).then(|| self.graph.entry(path).or_default());
        if let Some((calls, _)) = &mut node {
            *calls += u64::from(exit != Exit::Pending);
        }
        let (mut costs, mut inner) = (Vec::new(), open.inner);
        for (event, began) in events_of(open.mark).zip(&open.began) {
            let counted = began.until(of_thread.moment(event, self.now));
            let cost = counted.map(|(net, is_scaled)| {
                let (of_inner, of_inner_error) = open.inner[event];
                let own_error = open.of_own_work + if is_scaled { 1.0 + ESTIMATE * net as f64 } else { 0.0 };
                let own = net - of_inner;
                let of_skipped = if open.has_skipped { own.max(of_inner) } else { 0 };
                Cost { net, own, error: own_error + of_inner_error, is_scaled, of_skipped }
            });
            if let Some(cost) = cost {
                inner[event].0 += cost.own;
                inner[event].1 += cost.error;
                if let Some((_, events)) = &mut node
                    && !matches!(exit, Exit::Panic(_))
                {
                    events[event].add(cost, open.weight, false);
                }
            }
            costs.push(cost);
        }
        self.add_inner(thread, inner);
        (open, costs)
    }

    fn add_inner(&mut self, thread: usize, costs: Costs<(i64, f64)>) {
        if let Some(around) = self.threads[thread].open.last_mut() {
            for (sum, cost) in around.inner.iter_mut().zip(costs) {
                *sum = (sum.0 + cost.0, sum.1 + cost.1);
            }
        }
    }

    /// A call ends that is not made of polls.
    pub fn end(&mut self, thread: usize, mark: MarkIndex, begun: Begun, exit: Exit) {
        if begun != Begun::Measured {
            return;
        }
        let (open, costs) = self.close(thread, exit);
        if open.weight == 0 {
            return self.skip(mark);
        }
        let Open { weight, is_nested, has_skipped, .. } = open;
        let call = Suspended { weight, is_nested, has_skipped, costs };
        let imputed = self.add(thread, mark, call, exit);
        self.add_inner(thread, imputed);
    }

    /// A poll ends. `call` is its call before, and after it.
    pub fn end_poll(&mut self, thread: usize, mark: MarkIndex, exit: Exit, call: &mut Option<Suspended>) {
        self.marks.entry(mark).or_default().polls += 1;
        let (open, costs) = self.close(thread, exit);
        let Open { weight, is_nested, has_skipped, .. } = open;
        let earlier = call.take();
        let is_only = earlier.is_none();
        let so_far = match earlier {
            None => Suspended { weight, is_nested, has_skipped, costs },
            Some(earlier) => {
                let sum = |(one, other): (Option<Cost>, Option<Cost>)| Some(one?.plus(other?));
                let has_skipped = has_skipped || earlier.has_skipped;
                Suspended { has_skipped, costs: costs.into_iter().zip(earlier.costs).map(sum).collect(), ..earlier }
            }
        };
        match exit {
            Exit::Pending => {
                *self.suspended.entry(mark).or_default() += 1;
                *call = Some(so_far);
            }
            _ => {
                let imputed = self.add(thread, mark, so_far, exit);
                // Earlier polls of the call were not inside the call around.
                if is_only {
                    self.add_inner(thread, imputed);
                }
            }
        }
    }

    /// Adds a call that ends. Returns what is imputed to it.
    fn add(&mut self, thread: usize, mark: MarkIndex, call: Suspended, exit: Exit) -> Costs<(i64, f64)> {
        let Suspended { weight, is_nested, has_skipped, costs } = call;
        let (totals, mut all_imputed) = (self.marks.entry(mark).or_default(), Costs::default());
        let is_unwound = matches!(exit, Exit::Panic(_));
        totals.calls += 1;
        totals.unwound += u64::from(is_unwound);
        totals.estimated += u64::from(has_skipped && !is_unwound);
        totals.has_nested |= is_nested;
        for (event, cost) in events_of(mark).zip(costs) {
            let sums = &mut totals.events[event];
            let mean = self.threads[thread].means.entry((mark, weight, event)).or_default();
            match cost {
                Some(cost) if is_unwound => sums.add_unwound(cost, weight, is_nested),
                Some(cost) => {
                    sums.add(cost, weight, is_nested);
                    mean.add(cost, is_nested);
                }
                None if is_unwound => {}
                None => {
                    if let Some(cost) = mean.impute() {
                        let times = weight.cast_signed();
                        sums.imputed += weight;
                        sums.total += if is_nested || mean.has_nested { 0 } else { times * cost.net };
                        sums.own += times * cost.own;
                        sums.of_skipped += times * cost.of_skipped;
                        sums.error += weight as f64 * cost.error;
                        all_imputed[event] = (cost.own, cost.error + cost.of_skipped.abs() as f64);
                    }
                    mean.unmeasured += 1;
                    mean.has_nested |= is_nested;
                    sums.unmeasured += 1;
                }
            }
        }
        all_imputed
    }

    /// A suspended call is about to go on.
    pub fn resume(&mut self, mark: MarkIndex) {
        *self.suspended.entry(mark).or_default() -= 1;
    }

    /// A future is dropped whose call has begun.
    pub fn cancel(&mut self, thread: usize, mark: MarkIndex, call: Suspended) {
        self.resume(mark);
        let totals = self.marks.entry(mark).or_default();
        totals.calls += 1;
        totals.cancelled += 1;
        // A thread that never called the mark has no cells for the cost.
        if self.threads[thread].called.contains(&mark) {
            for (event, cost) in events_of(mark).zip(call.costs) {
                if let Some(cost) = cost {
                    totals.events[event].add_unwound(cost, call.weight, call.is_nested);
                }
            }
        }
    }
}
