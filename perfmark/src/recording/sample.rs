//! Sampling, as a program starts and stops it.

use std::fmt::{self, Display, Formatter};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::thread;
use std::time::Duration;

use perfmark_rdpmc::sample::{Ring, wait};

use super::api_use;
use super::mark::mark_settings;
use super::recorder;
use super::sampling;
use super::start;
use crate::platform::signals::background;
use crate::platform::terminal::say;
use crate::settings::recording::settings;
use crate::settings::sampling::{Rate, SampleSettings};

/// Samples the threads that call marks: at regular moments, perfmark notes which instruction a thread executes, and in
/// which call of a mark. [`Snapshot::samples`](crate::Snapshot::samples) has the result.
///
/// It requires no right at the default level 2 of `kernel.perf_event_paranoid`, and works without a PMU. By default it
/// samples cycles in user mode, or CPU time where cycles cannot be sampled, 99 times a second of each thread's CPU
/// time. A call costs up to 12 instructions more while it is sampled, and nothing when it is not.
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
/// if let Some(samples) = perfmark::snapshot().samples {
///     println!("{} samples of {}", samples.taken(), samples.event);
/// }
/// ```
///
/// `PERFMARK_SAMPLE` does the same without code, from the start of the program on.
#[derive(Clone, Debug)]
#[must_use = "it does nothing before it is started"]
pub struct Sampling {
    event: Option<String>,
    rate: Rate,
}

/// Samples as long as it lives.
#[derive(Debug)]
#[must_use = "sampling ends when it is dropped"]
pub struct SamplingGuard {
    process: start::Process,
    is_over: Arc<AtomicBool>,
}

/// The reason why the program cannot be sampled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SamplingError(String);

impl Display for SamplingError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SamplingError {}

/// The most and the least time between two looks at the rings.
const LONGEST: Duration = Duration::from_millis(100);
const SHORTEST: Duration = Duration::from_millis(2);

impl Sampling {
    /// 99 samples a second.
    #[allow(clippy::new_without_default, reason = "as other builders")]
    pub fn new() -> Self {
        Self { event: None, rate: Rate::DEFAULT }
    }

    /// Samples another event: any that a thread may count, by the names of marks.
    pub fn event(self, event: impl Into<String>) -> Self {
        Self { event: Some(event.into()), ..self }
    }

    /// Takes so many samples a second of each thread's CPU time, at most `kernel.perf_event_max_sample_rate`.
    pub fn frequency(self, samples: u64) -> Self {
        Self { rate: Rate::Frequency(samples), ..self }
    }

    /// Takes a sample whenever the event has occurred this many times; for clocks, after so many nanoseconds. Best use
    /// a prime, which is not in step with the program's loops.
    pub fn period(self, occurrences: u64) -> Self {
        Self { rate: Rate::Period(occurrences), ..self }
    }

    /// Starts to sample.
    ///
    /// # Errors
    ///
    /// The event is unknown or cannot be sampled, the program is being sampled already, or no thread can be created.
    pub fn start(self) -> Result<SamplingGuard, SamplingError> {
        api_use::note_call();
        let event = self.event.map(|event| event.parse()).transpose();
        let event = event.map_err(|why: perfmark_rdpmc::Error| SamplingError(why.to_string()))?;
        begin(&SampleSettings { event, rate: self.rate })
    }
}

fn begin(settings: &SampleSettings) -> Result<SamplingGuard, SamplingError> {
    let enabled = recorder::own_work(|| {
        start::start();
        let number = sampling::enable(settings)?;
        mark_settings::set_sampling(number).map_err(|why| why.to_string())
    });
    let in_handler = || Err("this was called in a signal handler that interrupted perfmark; call it elsewhere".into());
    enabled.unwrap_or_else(in_handler).map_err(SamplingError)?;
    let guard = SamplingGuard { process: start::this_process(), is_over: Arc::default() };
    let is_over = Arc::clone(&guard.is_over);
    // If there is no thread, the guard ends the sampling.
    background::spawn("perfmark-samples", move || read_rings(&is_over))
        .map_err(|why| SamplingError(format!("no thread can be created that reads the samples: {why}")))?;
    Ok(guard)
}

/// Reads all rings from time to time, and whenever one is half full.
fn read_rings(is_over: &AtomicBool) {
    while !is_over.load(SeqCst) {
        let rings = recorder::own_work(sampling::collect).unwrap_or_default();
        thread::sleep(SHORTEST);
        let rings: Vec<&Ring> = rings.iter().map(|ring| &**ring).collect();
        if rings.is_empty() || wait(&rings, Some(LONGEST)).is_err() {
            thread::sleep(LONGEST);
        }
    }
}

impl Drop for SamplingGuard {
    fn drop(&mut self) {
        self.is_over.store(true, SeqCst);
        if self.process.is_this() {
            recorder::own_work(|| {
                sampling::disable();
                // Marks that cannot get their former settings only go on looking at rings in which nothing happens.
                _ = mark_settings::set_sampling(0);
            });
        }
    }
}

/// Begins the sampling that the environment requests. It goes on until the program ends.
pub(crate) fn start_from_environment() {
    if let Some(sampling) = &settings().sampling {
        match begin(sampling) {
            Ok(guard) => std::mem::forget(guard),
            Err(why) => say(&format!("PERFMARK_SAMPLE: {why}; taking no samples")),
        }
    }
}
