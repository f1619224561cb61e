//! Dumps: reports that are written repeatedly while the program runs.

use std::io;
use std::mem;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::copies;
use super::naming::Names;
use super::output_settings::{DumpSettings, Output, OutputSettings, output_settings};
use crate::platform::alarm::Alarm;
use crate::platform::files::{check_file, in_this_process, of_copy, remove_left_drafts};
use crate::platform::signals::background;
#[cfg(feature = "signal")]
use crate::platform::signals::{Listener, leave_to_dumps, outlive, set_blocked};
use crate::platform::terminal::say;
use crate::recording::collect;
#[cfg(feature = "signal")]
use crate::recording::recorder;
#[cfg(feature = "sampling")]
use crate::recording::sample::Sampling;
use crate::recording::start::{self, Process, is_forked_child, this_process};
use crate::report::Format;
use crate::settings::recording::settings;

/// Writes the report to a file while the program runs: at intervals, and with the feature `signal` also when the
/// process receives a signal.
///
/// The file is [replaced atomically](crate::Report::write_to), so that a reader always sees one complete report. If the
/// program is killed or aborts, the last dump has what it recorded. If it is killed during a dump, a file
/// `….perfmark-….draft` is left. The next process that dumps into the directory removes it.
///
/// `PERFMARK_DUMP_INTERVAL` and `PERFMARK_DUMP_SIGNAL` do the same without code. Dumps use one thread, which ends when
/// the [`Dumping`] that `start` returns is dropped. A forked child has none. With `PERFMARK=off`, there is no thread,
/// and nothing is written. The signals are handled all the same, so that they do not end the program.
///
/// ```
/// use std::time::Duration;
///
/// let file = std::env::temp_dir().join("service-%p.txt");
/// let dumping = perfmark::Dumps::new(file).every(Duration::from_secs(60)).start()?;
/// // … the program …
/// drop(dumping);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "it does nothing before it is started"]
pub struct Dumps {
    file: PathBuf,
    format: Format,
    interval: Option<Duration>,
    #[cfg(feature = "signal")]
    signals: Vec<i32>,
    #[cfg(feature = "sampling")]
    sampling: Option<(Sampling, Duration)>,
}

/// Dumps as long as it lives.
#[derive(Debug)]
#[must_use = "dumping ends when it is dropped"]
pub struct Dumping {
    /// The process that started the thread.
    process: Process,
    requests: Requests,
    writer: Option<JoinHandle<()>>,
    #[cfg(feature = "signal")]
    listener: Option<Listener>,
}

/// The least time between two dumps.
const SHORTEST: Duration = Duration::from_millis(1);

/// What the writing thread waits for.
#[derive(Clone, Debug)]
struct Requests {
    /// Wakes the thread when a dump is requested, and at the end.
    alarm: Arc<Alarm>,
    is_over: Arc<AtomicBool>,
}

impl Dumps {
    /// Dumps to that file, as tables. In its name, `%p` is the process number and `%u` a token that no other process
    /// has.
    pub fn new(file: impl Into<PathBuf>) -> Self {
        Self {
            file: file.into(),
            format: Format::default(),
            interval: None,
            #[cfg(feature = "signal")]
            signals: Vec::new(),
            #[cfg(feature = "sampling")]
            sampling: None,
        }
    }

    /// Dumps in another format.
    pub fn format(mut self, format: Format) -> Self {
        self.format = format;
        self
    }

    /// Also dumps whenever this time has passed since the last dump; at least one millisecond.
    pub fn every(mut self, interval: Duration) -> Self {
        self.interval = Some(interval.max(SHORTEST));
        self
    }

    /// Also dumps when the process receives this signal, such as `libc::SIGUSR1`. Other handlers of the signal stay.
    /// Its default action no longer takes place, even after dumping has ended.
    ///
    /// The kernel gives the signal to any thread that does not block it, and a `poll(2)` or `nanosleep(2)` of this
    /// thread then fails with EINTR. Block the signal (`pthread_sigmask(3)`) before threads start, and perfmark's own
    /// thread gets it. `PERFMARK_DUMP_SIGNAL` does so before `main`.
    #[cfg(feature = "signal")]
    pub fn on_signal(mut self, signal: i32) -> Self {
        self.signals.push(signal);
        self
    }

    /// Samples the program for this time before each dump, so that the dump has the hot lines. With the feature
    /// `symbols`, they have names. Samples of all dumps add up. If the program cannot be sampled, or is being sampled
    /// already, it dumps at once.
    ///
    /// With [`on_signal`](Self::on_signal), it samples on request: `kill -USR1`, and 30 seconds later the file has the
    /// hot lines. Another signal in this time ends the sampling early.
    ///
    /// ```
    /// # #[cfg(all(feature = "sampling", feature = "signal"))]
    /// # fn start() -> std::io::Result<()> {
    /// use perfmark::{Dumps, Sampling};
    /// use std::time::Duration;
    ///
    /// let dumps = Dumps::new("/run/app/samples.txt").on_signal(libc::SIGUSR2);
    /// let _dumping = dumps.sampling(Sampling::new(), Duration::from_secs(30)).start()?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "sampling")]
    pub fn sampling(mut self, sampling: Sampling, time: Duration) -> Self {
        self.sampling = Some((sampling, time));
        self
    }

    /// Starts the dumps.
    ///
    /// # Errors
    ///
    /// The path is that of a directory, or its directory does not exist or is not accessible; no thread can be created;
    /// or the signal cannot be handled (SIGKILL, and those that faults raise).
    pub fn start(mut self) -> io::Result<Dumping> {
        start::note_api_use();
        let dumping = self.prepare()?;
        self.start_thread(dumping)
    }

    /// Does all that needs no thread. Signals that come from now on are dumped once the thread has started.
    fn prepare(&mut self) -> io::Result<Dumping> {
        // The program may change its directory.
        self.file = std::path::absolute(&self.file)?;
        let file = in_this_process(&self.file, false);
        check_file(&file).map_err(|why| io::Error::new(why.kind(), format!("dumping to {}: {why}", file.display())))?;
        let requests = Requests { alarm: Arc::new(Alarm::new()), is_over: Arc::default() };
        Ok(Dumping {
            process: this_process(),
            #[cfg(feature = "signal")]
            listener: (!self.signals.is_empty()).then(|| Listener::new(&self.signals, &requests.alarm)).transpose()?,
            requests,
            writer: None,
        })
    }

    /// Starts the writing thread. With PERFMARK=off, there is none, but the signals still do not end the program.
    fn start_thread(self, mut dumping: Dumping) -> io::Result<Dumping> {
        // The process may have been forked meanwhile.
        dumping.process = this_process();
        if !settings().is_off {
            let requests = dumping.requests.clone();
            dumping.writer = Some(background::spawn("perfmark-dumps", move || self.write(&requests))?);
        }
        Ok(dumping)
    }

    /// Waits until a dump is requested, or for that time.
    #[cfg_attr(not(feature = "signal"), expect(clippy::unused_self, reason = "as with the feature"))]
    fn wait(&self, requests: &Requests, at_most: Option<Duration>) {
        // If all other threads block a signal, it comes here, and interrupts nothing.
        #[cfg(feature = "signal")]
        set_blocked(&self.signals, false);
        requests.alarm.wait(at_most);
        #[cfg(feature = "signal")]
        set_blocked(&self.signals, true);
    }

    fn write(&self, requests: &Requests) {
        let (mut reported, mut names) = (None, Names::default());
        #[cfg(feature = "sampling")]
        let mut reported_of_samples = None;
        let mut is_first = true;
        loop {
            self.wait(requests, self.interval);
            #[cfg(feature = "sampling")]
            say_once(&mut reported_of_samples, self.sample(requests));
            if requests.is_over.load(SeqCst) {
                return;
            }
            if mem::take(&mut is_first) {
                remove_left_drafts(&in_this_process(&self.file, false));
            }
            let mut snapshot = collect::snapshot();
            names.add_to(&mut snapshot);
            let report = output_settings().report(&snapshot, self.format);
            let error = report.write_in(&self.file, is_forked_child()).err();
            let skipping = |why| format!("{}: {why}; skipping dumps until writing succeeds", self.file.display());
            say_once(&mut reported, error.map(skipping));
        }
    }

    /// Samples the program as long as its dumps require, unless they are over. Returns why it could not.
    #[cfg(feature = "sampling")]
    fn sample(&self, requests: &Requests) -> Option<String> {
        let (sampling, time) = self.sampling.as_ref().filter(|_| !requests.is_over.load(SeqCst))?;
        match sampling.clone().start() {
            Ok(_sampling) => {
                self.wait(requests, Some(*time));
                None
            }
            Err(why) => {
                let file = self.file.display();
                Some(format!("{file}: the program cannot be sampled: {why}; dumping at once, without new samples"))
            }
        }
    }
}

/// Reports an error once, until it changes.
fn say_once(reported: &mut Option<String>, error: Option<String>) {
    if let Some(why) = error.as_ref().filter(|_| error != *reported) {
        say(why);
    }
    *reported = error;
}

/// The dumps that the environment sets.
#[derive(Debug)]
enum FromEnvironment {
    None,
    /// There is no file for them. Said at the first call, because a program without calls may start others that need
    /// the settings.
    WithoutFile,
    Prepared(Dumps, Dumping),
    Starting,
    Started(#[cfg_attr(not(feature = "signal"), expect(dead_code, reason = "its drop ends the dumps"))] Dumping),
}

static FROM_ENVIRONMENT: Mutex<FromEnvironment> = Mutex::new(FromEnvironment::None);

const VARIABLES: &str = "PERFMARK_DUMP_INTERVAL, PERFMARK_DUMP_SIGNAL";

/// Prepares the environment's dumps. They begin with [`start_from_environment`].
pub(crate) fn prepare_from_environment() {
    let OutputSettings { dumps: DumpSettings { interval, signal }, output, format, .. } = output_settings();
    if interval.is_none() && signal.is_none() {
        return;
    }
    let Output::File(file) = output else {
        outlive_signal();
        replace(FromEnvironment::WithoutFile);
        return;
    };
    let mut dumps = Dumps::new(of_copy(file.clone(), copies::before())).format(*format);
    dumps.interval = interval.map(|interval| interval.max(SHORTEST));
    #[cfg(feature = "signal")]
    if let &Some(signal) = signal {
        leave_to_dumps(signal);
        dumps.signals.push(signal);
    }
    match dumps.prepare() {
        Ok(dumping) => _ = replace(FromEnvironment::Prepared(dumps, dumping)),
        Err(why) => {
            outlive_signal();
            say(&format!("{VARIABLES}: {why}; writing no dumps"));
        }
    }
}

/// Lets the environment's signal for dumps do nothing where none are written.
pub(crate) fn outlive_signal() {
    #[cfg(feature = "signal")]
    if let Some(signal) = output_settings().dumps.signal {
        recorder::own_work(|| outlive(signal));
    }
}

/// Starts the environment's dumps, unless they have ended.
pub(crate) fn start_from_environment() -> Result<(), String> {
    let (dumps, dumping) = match replace(FromEnvironment::Starting) {
        Some(FromEnvironment::Prepared(dumps, dumping)) => (dumps, dumping),
        Some(FromEnvironment::WithoutFile) => {
            say(&format!(
                "{VARIABLES}: PERFMARK_OUTPUT names no file; writing no dumps; set PERFMARK_OUTPUT to a file"
            ));
            return Ok(());
        }
        _ => return Ok(()),
    };
    let dumping = dumps.start_thread(dumping).map_err(|why| format!("{VARIABLES}: {why}; no dumps were written"))?;
    // They may have ended meanwhile.
    if let Some(FromEnvironment::None) = replace(FromEnvironment::Started(dumping)) {
        end_from_environment();
    }
    Ok(())
}

/// Ends the environment's dumps, so that the report at exit is the last one.
pub(crate) fn end_from_environment() {
    #[cfg_attr(not(feature = "signal"), expect(unused_mut, reason = "as with the feature"))]
    let mut before = replace(FromEnvironment::None);
    // signal-hook removes no handler while it calls one, which may have ended the program. perfmark's stays, and wakes
    // no thread any more.
    #[cfg(feature = "signal")]
    if let Some(FromEnvironment::Prepared(_, dumping) | FromEnvironment::Started(dumping)) = &mut before {
        mem::forget(dumping.listener.take());
    }
    // A forked child has its parent's, whose locks may be held.
    if is_forked_child() {
        mem::forget(before);
    }
}

/// Returns the state before; `None` if the lock stays held. Threads hold it for a moment only, but a signal handler may
/// have interrupted this one, and a forked child may not have the thread that holds it.
fn replace(state: FromEnvironment) -> Option<FromEnvironment> {
    const YIELDS: u32 = 1_000;
    let try_lock = |_| {
        FROM_ENVIRONMENT.try_lock().ok().or_else(|| {
            thread::yield_now();
            None
        })
    };
    Some(mem::replace(&mut *(0..YIELDS).find_map(try_lock)?, state))
}

impl Drop for Dumping {
    fn drop(&mut self) {
        // A forked child does not have the thread, and must not wait for it.
        if !self.process.is_this() {
            mem::forget(self.writer.take());
            #[cfg(feature = "signal")]
            mem::forget(self.listener.take());
            return;
        }
        #[cfg(feature = "signal")]
        drop(self.listener.take());
        self.requests.is_over.store(true, SeqCst);
        self.requests.alarm.wake();
        // A handler that the program has for the signal runs on the writing thread, and may have ended the program.
        let is_other = |writer: &JoinHandle<()>| writer.thread().id() != thread::current().id();
        _ = self.writer.take().filter(is_other).map(JoinHandle::join);
    }
}
