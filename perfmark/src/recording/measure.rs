//! Measuring one piece of work by itself.

use std::fmt::{self, Display, Formatter};
use std::hint::black_box;
use std::rc::Rc;

use once_cell::sync::OnceCell;
use perfmark_rdpmc::support::LoopCheck;
use perfmark_rdpmc::{Attr, Counter, Delta, EmulatedCounter, Event, OffCpu};

use super::allocated::ThreadCount;
use super::events::{is_known_of_a_loop, unreliable};
use super::mark::mark_settings::IN_HANDLER;
use super::recorder::own_work;
use super::start;
use crate::platform::per_process::PerProcess;
use crate::recording::reading::{EventReading, ReadMethod, Source};
use crate::settings::recording::{ReadMode, settings};
use crate::settings::{EventSpec, counter_access, find_event};
use crate::snapshot::Unit;

/// The result of a piece of work, and what it cost.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Measured<R> {
    /// What the work returned.
    pub value: R,
    /// The counts, in the order in which the events were given.
    pub counts: Vec<Count>,
}

/// The count of one event.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Count {
    /// The event's name, as perf writes it, or as perfmark does: `time`.
    pub event: String,
    /// The unit of the count.
    pub unit: Unit,
    /// The count, without the cost of measuring. `None` if other events used the counters all the time, or if the work
    /// closed the counter's descriptor or stopped it; of `on_cpu`, `off_cpu`, `blocked` and `preempted` also if it
    /// waited more than 512 times.
    pub count: Option<u64>,
    /// Whether other events used the counter for part of the time: the count is then an estimate.
    pub is_scaled: bool,
}

/// Why nothing was measured: an unknown event, or one that cannot be counted here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeasureError(String);

message_error!(MeasureError);

impl<R> Measured<R> {
    /// The count of that event, by any of its names: `branch-misses` or `branch_misses`.
    pub fn count(&self, event: &str) -> Option<u64> {
        find_event(&self.counts, |count| &count.event, event)?.count
    }

    /// The exact count of `instructions`, for a test that limits them:
    ///
    /// ```
    /// # fn parse(text: &str) -> Vec<&str> { text.split(' ').collect() }
    /// match perfmark::measure(&["instructions"], || parse("a b c")).and_then(|parsed| parsed.instructions()) {
    ///     Ok(instructions) => assert!(instructions <= 12_000, "{instructions} instructions"),
    ///     Err(why) => println!("skipped: {why}"),
    /// }
    /// ```
    ///
    /// On machines without a PMU, `perfmark run --emulate` counts them: the guide has the
    /// [command for `cargo test`](crate::guide::gate#in-tests).
    ///
    /// # Errors
    ///
    /// The event was not among those that were given, was not counted, or its count is an estimate.
    pub fn instructions(&self) -> Result<u64, MeasureError> {
        let refuse = |why: &str| Err(MeasureError(format!("instructions: {why}")));
        match self.counts.iter().find(|count| count.event == "instructions") {
            Some(Count { count: Some(count), is_scaled: false, .. }) => Ok(*count),
            Some(Count { count: Some(_), .. }) => refuse("other events used the counter for part of the time"),
            Some(_) => refuse("not counted"),
            None => refuse("not among the events that were measured"),
        }
    }
}

/// Writes `1234 instructions, 567 ns`; estimates have `about` before them.
impl<R> Display for Measured<R> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (n, count) in self.counts.iter().enumerate() {
            let what = if count.event == "time" { "" } else { &*count.event };
            let unit = if count.unit == Unit::Ns { " ns" } else { "" };
            let (gap, about) = (if n > 0 { ", " } else { "" }, if count.is_scaled { "about " } else { "" });
            match count.count {
                Some(number) if what.is_empty() => write!(f, "{gap}{about}{number}{unit}")?,
                Some(number) => write!(f, "{gap}{about}{number}{unit} {what}")?,
                None => write!(f, "{gap}{}: not counted", count.event)?,
            }
        }
        Ok(())
    }
}

/// Runs some work once, on this thread, and counts these events during it: perf's names, or `time`, `on_cpu`,
/// `off_cpu`, `blocked`, `preempted`, `allocations`, `allocated_bytes`.
///
/// ```
/// match perfmark::measure(&["instructions", "branch-misses", "time"], || (1..=100_u64).product::<u64>()) {
///     Ok(measured) => println!("{}: {measured}", measured.value),
///     // No PMU, or no right to use it: what was tried, and what to do.
///     Err(why) => eprintln!("{why}"),
/// }
/// # let measured = perfmark::measure(&["time"], || 6 * 7).expect("there is always time");
/// # assert_eq!((measured.value, measured.counts.len()), (42, 1));
/// ```
///
/// Counts are of user mode; `instructions:k` is the kernel's part. The cost of measuring is determined just before, on
/// an empty closure, and subtracted; about ten instructions of it remain. Each call opens and closes the counters,
/// which takes tens of microseconds that are in no count. One run is a single sample: it includes cold caches and
/// predictors. For functions that are called often use the [attribute](macro@crate::perfmark); for statistics use a
/// benchmark harness.
///
/// If the work calls marks, the counts include the probe overhead of these marks, and what perfmark sets up at the
/// thread's first call of each: call them once before. In the emulator, that setup is left out, but for some thousand
/// instructions. `time` is then that of the emulator, which says nothing about the processor.
///
/// # Errors
///
/// An event is unknown or cannot be counted here, or the counter of `instructions` in user mode fails a check against a
/// loop of known length. The work is then not run.
pub fn measure<R>(events: &[&str], work: impl FnOnce() -> R) -> Result<Measured<R>, MeasureError> {
    start::note_api_use();
    let meters: Vec<Meter> = events.iter().map(|name| Meter::open(name)).collect::<Result<_, _>>()?;
    let own = overhead(&meters);
    let mut spans = vec![Span::default(); meters.len()];
    let (mut work, mut value) = (Some(work), None);
    run(&meters, &mut spans, &mut || value = work.take().map(|work| work()));
    let count = |((meter, span), own): ((&Meter, &Span), u64)| meter.count(span.delta(), own);
    let counts = meters.iter().zip(&spans).zip(own).map(count).collect();
    // It was run, and did not panic.
    value.map(|value| Measured { value, counts }).ok_or_else(|| MeasureError("the work was not done".into()))
}

/// An event that can be read at the beginning and the end of some work.
#[derive(Debug)]
pub(crate) struct Meter {
    pub(crate) event: EventSpec,
    source: Source,
}

/// The readings at the beginning and the end of some work.
#[derive(Clone, Debug, Default)]
pub(crate) struct Span {
    begun: Option<EventReading>,
    ended: Option<EventReading>,
}

impl Span {
    /// The count; `Unmeasured` before the end.
    pub(crate) fn delta(&self) -> Delta {
        self.begun.zip(self.ended).map_or(Delta::Unmeasured, |(begun, ended)| ended.since(begun))
    }
}

impl Meter {
    pub(crate) fn open(name: &str) -> Result<Self, MeasureError> {
        let switches = || check(name).and_then(|()| OffCpu::open().map(Rc::new).map_err(|why| refused(&why)));
        match EventSpec::own(name) {
            Some(event @ EventSpec::Time) => Ok(Self { event, source: Source::Ticks }),
            Some(event @ EventSpec::OnCpu) => Ok(Self { event, source: Source::OnCpu(switches()?) }),
            Some(event @ EventSpec::OffCpu(kind)) => {
                Ok(Self { event, source: Source::OffCpu { switches: switches()?, kind } })
            }
            Some(EventSpec::Suspended) => {
                let why = format!("{name}: only calls of async functions have time between polls; leave it out");
                Err(MeasureError(why))
            }
            Some(event @ EventSpec::Allocated(what)) => {
                let opened = own_work(|| ThreadCount::open(what)).unwrap_or(Err(IN_HANDLER));
                let count = opened.map_err(|why| MeasureError(format!("{name}: {why}")))?;
                Ok(Self { event, source: Source::Allocated(count) })
            }
            Some(EventSpec::Counter(_) | EventSpec::Unknown(_)) | None => Self::of_counter(name),
        }
    }

    fn of_counter(name: &str) -> Result<Self, MeasureError> {
        let event: Event = name.parse().map_err(|why| refused(&why))?;
        check(name)?;
        if settings().read == ReadMode::Emulated {
            let counter = EmulatedCounter::open(&event).map_err(|why| refused(&why))?;
            return Ok(Self { event: EventSpec::Counter(event), source: Source::Emulated(counter) });
        }
        let is_emulated = EmulatedCounter::is_counted(&event);
        // As for marks: with 64 bits, `cycles` may have no counter on arm64.
        let mut counter = Counter::open(&Attr::new(event).wide(false)).map_err(|why| {
            let is_refused = matches!(why.errno_name(), Some("ENOENT" | "EACCES" | "EPERM" | "ENODEV" | "EOPNOTSUPP"));
            let is_remedy = is_emulated && is_refused;
            let remedy = if is_remedy { "; `perfmark run --emulate` counts it without a PMU" } else { "" };
            MeasureError(format!("{why}{remedy}"))
        })?;
        counter.notice_stops(start::clock_since_sleep().nanoseconds_per_tick());
        let event = EventSpec::Counter(counter.event().clone());
        if is_known_of_a_loop(counter.event()) {
            // Checked once: an unreliable counter stays unreliable.
            static TRUTH: PerProcess<OnceCell<LoopCheck>> = PerProcess::new();
            let truth =
                TRUTH.get().ok().and_then(|truth| truth.get_or_try_init(|| LoopCheck::of(&counter)).ok().copied());
            if let Some(why) = truth.and_then(|truth| unreliable(&event, truth)) {
                return Err(MeasureError(why));
            }
        }
        Ok(Self { event, source: Source::Counter { counter, read_method: ReadMethod::User } })
    }

    pub(crate) fn begin(&self, span: &mut Span) {
        span.begun = self.source.reading();
    }

    pub(crate) fn end(&self, span: &mut Span) {
        span.ended = self.source.reading();
    }

    fn count(&self, delta: Delta, own: u64) -> Count {
        let (counted, is_scaled) = match delta {
            Delta::Exact(counted) => (Some(counted), false),
            Delta::Scaled { estimate, .. } => (Some(estimate), true),
            Delta::Unmeasured => (None, false),
        };
        // Ticks cannot be converted if the clock stands still.
        let counted = counted.filter(|_| self.scale() != Some(0.0));
        let count = counted.map(|counted| start::in_units(counted.saturating_sub(own), self.scale()));
        Count { event: self.event.to_string(), unit: self.event.unit(), count, is_scaled }
    }

    /// The factor from the raw count to the event's unit; `None` if they are the same.
    pub(crate) fn scale(&self) -> Option<f64> {
        self.source.reads_ticks().then(start::nanoseconds_per_tick)
    }
}

fn refused(why: &perfmark_rdpmc::Error) -> MeasureError {
    MeasureError(why.to_string())
}

fn check(name: &str) -> Result<(), MeasureError> {
    counter_access::check().map_err(|why| MeasureError(format!("{name}: {why}")))
}

/// Does the work between the readings, with the same instructions around any work.
#[inline(never)]
fn run(meters: &[Meter], spans: &mut [Span], work: &mut dyn FnMut()) {
    for (meter, span) in meters.iter().zip(&mut *spans) {
        meter.begin(span);
    }
    work();
    for (meter, span) in meters.iter().zip(spans).rev() {
        meter.end(span);
    }
}

/// What measuring an empty closure counts in each event: the median of a few runs.
fn overhead(meters: &[Meter]) -> Vec<u64> {
    const TIMES: usize = 31;
    let mut spans = vec![Span::default(); meters.len()];
    let mut seen = vec![Vec::with_capacity(TIMES); meters.len()];
    for _ in 0..TIMES {
        run(meters, &mut spans, black_box(&mut || ()));
        for (seen, span) in seen.iter_mut().zip(&spans) {
            if let Delta::Exact(counted) = span.delta() {
                seen.push(counted);
            }
        }
    }
    let middle = |mut seen: Vec<u64>| {
        seen.sort_unstable();
        seen.get(seen.len() / 2).copied().unwrap_or(0)
    };
    seen.into_iter().map(middle).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(event: &str, unit: Unit, count: Option<u64>, is_scaled: bool) -> Count {
        Count { event: event.into(), unit, count, is_scaled }
    }

    #[test]
    fn counts_are_written_in_one_line() {
        let counts = vec![
            count("instructions", Unit::Count, Some(1_234), false),
            count("cycles", Unit::Count, Some(567), true),
            count("time", Unit::Ns, Some(89), false),
            count("cache-misses", Unit::Count, None, false),
        ];
        let measured = Measured { value: (), counts };
        assert_eq!(measured.to_string(), "1234 instructions, about 567 cycles, 89 ns, cache-misses: not counted");
        assert_eq!((measured.count("cycles"), measured.count("cache-misses")), (Some(567), None));
        assert_eq!([measured.count("cpu_cycles"), measured.count("time")], [Some(567), Some(89)]);
    }

    #[test]
    fn instructions_are_exact_or_an_error() {
        let of = |counts| Measured { value: (), counts }.instructions().map_err(|why| why.to_string());
        assert_eq!(of(vec![count("instructions", Unit::Count, Some(7), false)]), Ok(7));
        let estimate = of(vec![count("instructions", Unit::Count, Some(7), true)]).expect_err("an estimate");
        assert!(estimate.contains("part of the time"), "{estimate}");
        assert!(of(vec![count("instructions", Unit::Count, None, false)]).is_err());
        assert!(of(vec![count("time", Unit::Ns, Some(7), false)]).is_err());
    }

    #[test]
    fn the_work_runs_once_and_its_value_is_returned() {
        let mut times = 0;
        let measured = measure(&["time"], || {
            times += 1;
            "a value".to_owned()
        });
        let measured = measured.expect("there is always time");
        assert_eq!((times, measured.value.as_str()), (1, "a value"));
        assert_eq!((measured.counts.len(), measured.counts[0].unit), (1, Unit::Ns));
    }

    #[test]
    fn allocations_are_refused_if_the_allocator_does_not_count_them() {
        let why =
            measure(&["allocated_bytes"], || unreachable!("it is not done")).expect_err("it does not").to_string();
        assert!(why.starts_with("allocated_bytes: ") && why.contains("CountingAllocator"), "{why}");
    }

    #[test]
    fn the_time_between_polls_is_refused_because_a_closure_has_none() {
        let why = measure(&["suspended"], || unreachable!("it is not done")).expect_err("no polls").to_string();
        assert!(why.contains("suspended") && why.contains("async") && !why.contains("machine"), "{why}");
    }
}
