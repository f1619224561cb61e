//! Reports that are written again and again while the program runs.

use std::io;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::collect;
use crate::config::{Asked, Config, Output, config};
use crate::copies;
use crate::output::{check_directory, in_this_process, of_copy, remove_left_drafts};
use crate::report::{Format, Report};
#[cfg(feature = "signal")]
use crate::signals::Listener;
use crate::signals::background;
use crate::start::{Process, is_forked_child, this_process};
use crate::terminal::say;

/// Writes the report to a file while the program runs: at intervals, and with the feature `signal` when the process gets a signal.
///
/// The file is [replaced atomically](Report::write_to), so that a reader always sees one complete report. If the
/// program is killed or aborts, the last dump has what it recorded. If it is killed during a dump, a file
/// `….perfmark-….draft` is left. The next process that dumps into the directory removes it.
///
/// `PERFMARK_DUMP_INTERVAL` and `PERFMARK_DUMP_SIGNAL` do the same without code. Dumps take one thread, and one more
/// for signals, which end when the [`Dumping`] that `start` returns is dropped. A forked child has none.
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
}

/// Dumps as long as it lives.
#[derive(Debug)]
#[must_use = "dumping ends when it is dropped"]
pub struct Dumping {
    /// Whose threads these are.
    process: Process,
    wishes: SyncSender<Wish>,
    writer: Option<JoinHandle<()>>,
    #[cfg(feature = "signal")]
    listener: Option<Listener>,
}

/// Between two dumps.
const SHORTEST: Duration = Duration::from_millis(1);

/// What the writing thread is to do.
enum Wish {
    #[cfg_attr(not(feature = "signal"), allow(dead_code, reason = "signals wish for it"))]
    Dump,
    End,
}

impl Dumps {
    /// To that file, as tables. In its name, `%p` is the process's number and `%u` a token that no other process has.
    pub fn new(file: impl Into<PathBuf>) -> Self {
        Self {
            file: file.into(),
            format: Format::default(),
            interval: None,
            #[cfg(feature = "signal")]
            signals: Vec::new(),
        }
    }

    /// The same in another form.
    pub fn format(mut self, format: Format) -> Self {
        self.format = format;
        self
    }

    /// The same, also when so much time has passed since the last one: a millisecond at least.
    pub fn every(mut self, interval: Duration) -> Self {
        self.interval = Some(interval.max(SHORTEST));
        self
    }

    /// The same, also when the process gets this signal, such as `libc::SIGUSR1`. Other handlers of it stay; what it does to a process that handles it
    /// not it does no more, also when dumping has ended.
    #[cfg(feature = "signal")]
    pub fn on_signal(mut self, signal: i32) -> Self {
        self.signals.push(signal);
        self
    }

    /// Begins.
    ///
    /// # Errors
    ///
    /// There is no such directory, no thread to be had, or the signal cannot be handled (SIGKILL, and those that faults raise).
    pub fn start(mut self) -> io::Result<Dumping> {
        // The program may change its directory.
        self.file = std::path::absolute(&self.file)?;
        let file = in_this_process(&self.file, false);
        if let Err(why) = check_directory(&file) {
            let why = format!("dumping to {}: {why}", file.display());
            return Err(io::Error::new(io::ErrorKind::NotFound, why));
        }
        // Room for one wish: who wishes for a dump while one is wished for has it.
        let (wishes, heard) = mpsc::sync_channel(1);
        #[cfg(feature = "signal")]
        let signals = std::mem::take(&mut self.signals);
        let writer = background::spawn("perfmark-dumps", move || self.write(&heard))?;
        #[cfg_attr(not(feature = "signal"), allow(unused_mut, reason = "nobody listens"))]
        let mut dumping = Dumping {
            process: this_process(),
            wishes,
            writer: Some(writer),
            #[cfg(feature = "signal")]
            listener: None,
        };
        #[cfg(feature = "signal")]
        {
            let wishes = dumping.wishes.clone();
            dumping.listener = (!signals.is_empty())
                .then(|| Listener::start(&signals, move || _ = wishes.try_send(Wish::Dump)))
                .transpose()?;
        }
        Ok(dumping)
    }

    fn write(&self, heard: &Receiver<Wish>) {
        let mut told = None;
        let mut is_first = true;
        loop {
            let wish = match self.interval {
                Some(interval) => heard.recv_timeout(interval),
                None => heard.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match wish {
                Ok(Wish::Dump) | Err(RecvTimeoutError::Timeout) => {}
                Ok(Wish::End) | Err(RecvTimeoutError::Disconnected) => return,
            }
            if std::mem::take(&mut is_first) {
                remove_left_drafts(&in_this_process(&self.file, false));
            }
            let snapshot = collect::snapshot();
            let error = Report::new(&snapshot)
                .format(self.format)
                .write_in(&self.file, is_forked_child())
                .err()
                .map(|why| why.to_string());
            // Once, until it is another one.
            if let Some(why) = error.as_ref().filter(|_| error != told) {
                say(&format!("{}: {why}; nothing is dumped until that is over", self.file.display()));
            }
            told = error;
        }
    }
}

/// The dumps that the environment asks for.
static ASKED: Mutex<Option<Dumping>> = Mutex::new(None);

/// Starts them.
pub(crate) fn start_asked() {
    let Config { dumps: Asked { interval, signal }, output: Output::File(file), format, .. } = config() else { return };
    if interval.is_none() && signal.is_none() {
        return;
    }
    let mut dumps = Dumps::new(of_copy(file.clone(), copies::before())).format(*format);
    dumps.interval = interval.map(|interval| interval.max(SHORTEST));
    #[cfg(feature = "signal")]
    dumps.signals.extend(signal);
    match dumps.start() {
        Ok(dumping) => _ = ASKED.try_lock().map(|mut asked| *asked = Some(dumping)),
        Err(why) => say(&format!("PERFMARK_DUMP_INTERVAL, PERFMARK_DUMP_SIGNAL: {why}; nothing is dumped")),
    }
}

/// Ends them, so that the report at exit is the last one.
pub(crate) fn end_asked() {
    // Nobody has it locked, but in a process that was forked at this place.
    let asked = ASKED.try_lock().ok().and_then(|mut asked| asked.take());
    drop(asked);
}

impl Drop for Dumping {
    fn drop(&mut self) {
        // A forked child has not the threads, and must not wait for them.
        if !self.process.is_this() {
            std::mem::forget(self.writer.take());
            #[cfg(feature = "signal")]
            std::mem::forget(self.listener.take());
            return;
        }
        #[cfg(feature = "signal")]
        drop(self.listener.take());
        // It may have ended by itself only if it panicked.
        _ = self.wishes.send(Wish::End);
        _ = self.writer.take().map(JoinHandle::join);
    }
}
