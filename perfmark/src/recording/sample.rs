//! Sampling, as a program starts and stops it.

use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use perfmark_rdpmc::sample::{self, Ring};

use super::mark::mark_settings;
use super::recorder;
use super::sampling::{self, Round, WakePipe};
use super::start;
use crate::platform::per_process::PerProcess;
use crate::platform::signals::background;
use crate::settings::recording::{is_off, settings};
use crate::settings::sampling::{Rate, SampleSettings, SampledEvent, Stacks};

/// Samples all threads: at regular moments, perfmark notes which instruction a thread executes, through which calls it
/// got there, and in which call of a mark. [`Snapshot::samples`](crate::Snapshot::samples) has the result.
///
/// It requires no right at the default level 2 of `kernel.perf_event_paranoid`, and works without a PMU. By default it
/// samples cycles in user mode, or CPU time where cycles cannot be sampled, 99 times a second of each thread's CPU
/// time. A call costs up to 18 instructions more while it is sampled, and nothing when it is not. A skipped call costs
/// up to 80 more, and 280 more with marked calls inside. Samples in calls that began before sampling are counted, and
/// belong to no mark.
///
/// The first period of each thread has a random length, so a thread that ends before a period is over has samples in
/// proportion to its CPU time. A frequency of cycles is the exception: the kernel adjusts their period from the first
/// cycle on. A thread is sampled from a millisecond or two after its first marked call. A thread that calls no marks is
/// found within 100 milliseconds, and sooner if others have begun just before.
///
/// ```
/// # #[perfmark::perfmark(time)]
/// # fn work() {}
/// match perfmark::Sampling::new().frequency(499).start() {
///     Ok(sampling) => {
///         work();
///         drop(sampling);
///     }
///     Err(why) => eprintln!("{why}"),
/// }
/// for samples in perfmark::snapshot().samples {
///     println!("{} samples of {}", samples.taken(), samples.event);
/// }
/// ```
///
/// `PERFMARK_SAMPLE` does the same without code, from the first call of a mark on.
#[derive(Clone, Debug)]
#[must_use = "it does nothing before it is started"]
pub struct Sampling {
    /// Each with the name of its event; at least one.
    events: Vec<(Option<String>, Rate)>,
    stacks: Stacks,
    timestamps: bool,
}

/// Samples the program as long as it lives. Its drop stops sampling, and returns when all samples are collected.
/// Threads that call marks keep their ring, stopped, until they end.
#[derive(Debug)]
#[must_use = "sampling ends when it is dropped"]
pub struct SamplingGuard {
    process: start::Process,
}

/// The reason why the program cannot be sampled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SamplingError(String);

message_error!(SamplingError);

impl Sampling {
    /// 99 samples a second, with short stacks.
    #[allow(clippy::new_without_default, reason = "as other builders")]
    pub fn new() -> Self {
        Self { events: vec![(None, Rate::DEFAULT)], stacks: Stacks::default(), timestamps: false }
    }

    /// Samples another event: any that the kernel or the processor counts, such as `cache_misses`, but not those that
    /// perfmark defines, such as `time`, `off_cpu` and `allocations`.
    pub fn event(mut self, event: impl Into<String>) -> Self {
        self.last().0 = Some(event.into());
        self
    }

    /// Takes so many samples a second of each thread's CPU time: at most 20,000, and at most
    /// `kernel.perf_event_max_sample_rate`. With more than the kernel's timer frequency, which is 250 on many systems,
    /// CPU time as the sampled event makes context switches slower: on a virtual machine by 4 µs at 1,000 samples a
    /// second, and by 0.9 µs at 99.
    pub fn frequency(mut self, samples: u64) -> Self {
        self.last().1 = Rate::Frequency(samples);
        self
    }

    /// Takes a sample whenever the event has occurred this many times; for clocks, after so many nanoseconds. Use a
    /// prime, so that samples do not stay in step with the program's loops. A period of a clock below 50,000
    /// nanoseconds is refused, because the kernel loses samples.
    pub fn period(mut self, occurrences: u64) -> Self {
        self.last().1 = Rate::Period(occurrences);
        self
    }

    /// Also samples another event, to whose rate the next calls of [`period`](Self::period) and
    /// [`frequency`](Self::frequency) refer. It has its own entry in
    /// [`Snapshot::samples`](crate::Snapshot::samples).
    ///
    /// ```
    /// # #[cfg(feature = "sampling")]
    /// let sampling = perfmark::Sampling::new().frequency(99).and("page_faults").period(101);
    /// ```
    pub fn and(mut self, event: impl Into<String>) -> Self {
        self.events.push((Some(event.into()), Rate::DEFAULT));
        self
    }

    /// Sets how callers of the sampled code are found. By default, each sample has 512 bytes of the stack.
    pub fn stacks(self, stacks: Stacks) -> Self {
        Self { stacks, ..self }
    }

    /// Keeps the [times](crate::SampledStack::times) of the first 131,072 samples of each event, for a timeline: about
    /// 16 bytes of memory for each, and 20 in a JSON report.
    pub fn timestamps(self, on: bool) -> Self {
        Self { timestamps: on, ..self }
    }

    fn last(&mut self) -> &mut (Option<String>, Rate) {
        let last = self.events.len() - 1;
        &mut self.events[last]
    }

    /// Starts to sample.
    ///
    /// # Errors
    ///
    /// The event is unknown or cannot be sampled, the program is being sampled already, recording is off, or no thread
    /// can be created.
    pub fn start(self) -> Result<SamplingGuard, SamplingError> {
        start::note_api_use();
        let event = |(event, rate): (Option<String>, Rate)| {
            let event = event.map(|event| event.parse()).transpose();
            event.map(|event| SampledEvent { event, rate })
        };
        let events: Result<_, perfmark_rdpmc::Error> = self.events.into_iter().map(event).collect();
        let events = events.map_err(|why| SamplingError(why.to_string()))?;
        begin(&SampleSettings { events, stacks: self.stacks, timestamps: self.timestamps })
    }
}

/// The thread that reads the rings, if the program is being sampled. The lock is held while sampling starts or stops. A
/// forked child has none.
static COLLECTOR: PerProcess<Mutex<Option<JoinHandle<()>>>> = PerProcess::new();

fn begin(settings: &SampleSettings) -> Result<SamplingGuard, SamplingError> {
    recorder::own_work(|| begin_in_own_work(settings))
        .unwrap_or_else(|| Err(mark_settings::IN_HANDLER.into()))
        .map_err(SamplingError)
}

fn begin_in_own_work(settings: &SampleSettings) -> Result<SamplingGuard, String> {
    start::start();
    if is_off() {
        return Err("recording is off, by PERFMARK=off or because it has ended".into());
    }
    let mut collector = COLLECTOR.lock().map_err(|_| mark_settings::NO_MEMORY)?;
    let number = sampling::enable(settings)?;
    let thread = mark_settings::set_sampling(number).map_err(|why| why.to_string()).and_then(|()| {
        sampling::restart(number);
        start_thread()
    });
    // What has begun must end again.
    *collector = Some(thread.inspect_err(|_| end())?);
    Ok(SamplingGuard { process: start::this_process() })
}

fn start_thread() -> Result<JoinHandle<()>, String> {
    let no_pipe = |why| format!("pipe2 failed: {why}; raise RLIMIT_NOFILE (`ulimit -n`)");
    let wake = Arc::new(WakePipe::new().map_err(no_pipe)?);
    let waits_for = Arc::clone(&wake);
    let thread = background::spawn("perfmark-samples", move || read_rings(&waits_for))
        .map_err(|why| format!("no thread can be created that reads the samples: {why}"))?;
    sampling::set_wake(Some(wake));
    Ok(thread)
}

/// The time until the collector's next round.
struct Pause(Duration);

impl Pause {
    const SHORTEST: Duration = Duration::from_millis(1);
    const LONGEST: Duration = Duration::from_millis(100);

    /// The shortest after a round that found new threads, because others may follow, and then longer and longer.
    fn after(&mut self, has_new_threads: bool) -> Duration {
        self.0 = if has_new_threads { Self::SHORTEST } else { (self.0 * 3 / 2).min(Self::LONGEST) };
        self.0
    }
}

/// Reads all rings whenever one is half full, and from time to time: soon after new threads, whose first periods end,
/// and then less and less often. So few samples with a first period follow the first one. The pipe announces threads
/// that call marks, and the end of sampling.
fn read_rings(wake: &WakePipe) {
    let wait = |rings: &[&Ring], time| match wake.reader() {
        Some(pipe) => sample::wait_or_wake(rings, pipe, Some(time)),
        // The program closed it. The next round sees that sampling has stopped.
        None => sample::wait(rings, Some(time)),
    };
    let (mut was_ready, mut has_ended, mut was_woken) = (false, false, false);
    let mut pause = Pause(Pause::SHORTEST);
    while let Some(Round { rings, has_new_threads }) = recorder::own_work(|| sampling::round(has_ended)).flatten() {
        let pause = pause.after(has_new_threads);
        if was_ready || was_woken {
            // Rings that are full again at once, and many new threads, must not take all CPU time.
            _ = sample::wait(&[], Some(Pause::SHORTEST));
        }
        let rings: Vec<&Ring> = rings.iter().map(|ring| &**ring).collect();
        let mut reported = wait(&rings, pause);
        let errors = reported.iter().flatten().map(|ready| (ready.ring, !ready.is_ready && !ready.has_ended));
        if let Some(others) = without_errors(&rings, errors) {
            reported = wait(&others, pause);
        }
        has_ended = reported.as_ref().map_or(true, |reported| reported.iter().any(|ready| ready.has_ended));
        was_ready = has_ended || reported.iter().flatten().any(|ready| ready.is_ready);
        if reported.is_err() {
            // The process may have fewer descriptors than there are rings.
            thread::sleep(pause);
        }
        was_woken = wake.was_woken();
    }
}

/// The other rings, if a wait reported only rings in error state, which end each wait at once. `reported` has the index
/// of each ring that the wait reported, in order, and whether it has only an error.
fn without_errors<R: Copy>(rings: &[R], reported: impl Iterator<Item = (usize, bool)>) -> Option<Vec<R>> {
    let errors = reported.map(|(ring, is_error)| is_error.then_some(ring)).collect::<Option<Vec<usize>>>()?;
    let others = rings.iter().enumerate().filter(|(ring, _)| errors.binary_search(ring).is_err());
    (!errors.is_empty()).then(|| others.map(|(_, ring)| *ring).collect())
}

/// Ends the sampling, if there is one, and collects its last samples. Does nothing in a signal handler that interrupted
/// perfmark's own work: the sampling then goes on.
pub(crate) fn stop() {
    recorder::own_work(|| {
        let Ok(mut collector) = COLLECTOR.lock() else { return };
        // The calling thread's samples until now belong to its innermost call.
        recorder::note_samples();
        end();
        if let Some(thread) = collector.take() {
            // A forked child may still have the pipe, so closing it is not enough.
            sampling::set_wake(None).inspect(|wake| wake.wake());
            // It has the reason of a panic, which nobody needs.
            _ = thread.join();
        }
    });
}

/// Stops taking samples.
fn end() {
    if sampling::disable() && !is_off() {
        // Marks that cannot get their former settings only go on looking at rings in which nothing happens.
        _ = mark_settings::set_sampling(0);
    }
}

impl Drop for SamplingGuard {
    fn drop(&mut self) {
        // If recording has ended, sampling has, too, and no system call is allowed.
        if !is_off() && self.process.is_this() {
            stop();
        }
    }
}

/// Begins the sampling that the environment requests, in perfmark's own work. It goes on until the program ends. Events
/// that cannot be sampled are left out, and are the error.
pub(crate) fn start_from_environment() -> Result<(), String> {
    let Some(sampling) = &settings().sampling else { return Ok(()) };
    let (guard, missing) = begin_in_own_work(sampling).map(|guard| (guard, Vec::new())).or_else(|why| {
        let (available, missing) = sampling::available(sampling);
        let is_less = !missing.is_empty() && !available.events.is_empty();
        let begun = if is_less { begin_in_own_work(&available) } else { Err(why) };
        let no_effect = |why: String| {
            // Without an event, CPU time is sampled where there is no PMU.
            let is_no_pmu = missing.iter().any(|error| error.errno_name() == Some("ENOENT"));
            let remedy = if is_no_pmu { "; `PERFMARK_SAMPLE=99` samples CPU time where there is no PMU" } else { "" };
            format!("PERFMARK_SAMPLE has no effect: {why}{remedy}")
        };
        let begun = begun.map_err(no_effect);
        begun.map(|guard| (guard, missing.iter().map(ToString::to_string).collect()))
    })?;
    std::mem::forget(guard);
    if missing.is_empty() { Ok(()) } else { Err(format!("PERFMARK_SAMPLE leaves out {}", missing.join("; "))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_in_error_state_do_not_end_each_wait() {
        let waited_for_again = |reported: &[(usize, bool)]| without_errors(&["a", "b", "c"], reported.iter().copied());
        assert_eq!(waited_for_again(&[(1, true)]), Some(vec!["a", "c"]));
        assert_eq!(waited_for_again(&[(0, true), (1, true), (2, true)]), Some(Vec::new()));
        assert_eq!(waited_for_again(&[(0, false), (1, true)]), None, "one has samples");
        assert_eq!(waited_for_again(&[]), None, "the time is over");
    }

    #[test]
    fn rounds_become_rare_soon_after_new_threads() {
        let mut pause = Pause(Pause::LONGEST);
        let pauses: Vec<Duration> = [true].into_iter().chain([false; 99]).map(|found| pause.after(found)).collect();
        assert!(pauses[0] == Pause::SHORTEST && pauses.is_sorted() && pauses[99] == Pause::LONGEST);
        assert!(pauses[..8].iter().sum::<Duration>() > Duration::from_millis(44));
    }
}
