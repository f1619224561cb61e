//! Executes a script, and tells the model of each step.

use std::cell::{Cell, RefCell};
use std::env;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};
use std::thread::{self, JoinHandle};

use perfmark_rdpmc::script;

use crate::marks::{Exit, Form, Levels, MARKS, MarkIndex, Polled, hardware};
use crate::model::{self, Begun, Model, Suspended};
use crate::script::{FUTURES_AT_A_TIME, Mode, Script, Step};

/// A future, and the state of its call.
struct Future {
    mark: MarkIndex,
    future: Polled,
    call: Option<Suspended>,
}

/// The body of a poll.
struct NextPoll {
    mark: MarkIndex,
    inside: Arc<[Step]>,
    exit: Exit,
}

static MODEL: Mutex<Option<Model>> = Mutex::new(None);
static FUTURES: Mutex<Vec<Option<Future>>> = Mutex::new(Vec::new());
/// The marks of which futures are made.
static POLLED: Mutex<Vec<MarkIndex>> = Mutex::new(Vec::new());

thread_local! {
    static THREAD: Cell<usize> = const { Cell::new(0) };
    static NEXT_POLL: RefCell<Option<NextPoll>> = const { RefCell::new(None) };
}

pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The model, and this thread's number in it.
fn model<R>(change: impl FnOnce(&mut Model, usize) -> R) -> R {
    change(lock(&MODEL).get_or_insert_default(), THREAD.get())
}

fn run(steps: &[Step]) {
    for step in steps {
        match step {
            Step::Pass(nanoseconds) => model(|model, _| model.pass(*nanoseconds)),
            Step::Count(kind, times) => model(|model, thread| model.count(thread, *kind, *times)),
            Step::Allocate(bytes) => model(|model, thread| model.allocate(thread, *bytes)),
            Step::Move(by, value) => script::move_all(*by, |n| value.wrapping_mul(n as u64 | 1)),
            Step::TakeAway(kind) => model(|model, thread| model.take_away(thread, *kind)),
            Step::GiveBack(kind) => model(|model, thread| model.give_back(thread, *kind)),
            Step::Switch(nanoseconds, is_preempted) => {
                model(|model, thread| model.switch(thread, *nanoseconds, *is_preempted));
            }
            Step::Call(mark, inside, exit) => call(*mark, inside, *exit),
            Step::Poll(number, inside, exit) => poll(*number, inside, *exit),
            Step::Drop(number) => {
                let future = lock(&FUTURES)[*number].take();
                drop_future(future);
            }
            Step::Repeat(times, inside) => (0..*times).for_each(|_| run(inside)),
            Step::TurnOff(mark) => turn_off(*mark),
            Step::TakeBaseline => {
                let snapshot = perfmark::snapshot();
                model(|model, _| model.take_baseline(snapshot));
            }
            Step::Compare => {
                let snapshot = perfmark::snapshot();
                let differences = model(|model, _| model.differences(&snapshot));
                assert!(differences.is_empty(), "{}", differences.join("\n"));
            }
        }
    }
}

fn turn_off(mark: Option<MarkIndex>) {
    let filter = mark.map_or(String::new(), |mark| format!("{}=off", MARKS[mark].name));
    perfmark::set_filter(&filter.parse().expect("a filter")).expect("there are slots");
    model(|model, _| model.off = mark);
}

/// A thread's first call of a mark opens counters. That work is excluded from the calls around only if all counters are
/// on the PMU.
fn before_call(mark: MarkIndex) {
    model(|model, thread| {
        if !model.threads[thread].called.contains(&mark) {
            hardware().into_iter().for_each(|kind| model.give_back(thread, kind));
            model.threads[thread].called.push(mark);
        }
    });
}

/// How the code ended, and the panic that goes on to the call around, if one does.
fn exit_of(result: thread::Result<()>, exit: Exit) -> (Exit, Option<Levels>) {
    match result.map_err(|payload| payload.downcast::<Levels>()) {
        Ok(()) => (exit, None),
        Err(Ok(levels)) => (Exit::Panic(levels.0), levels.0.checked_sub(1).map(Levels)),
        Err(Err(other)) => resume_unwind(other),
    }
}

fn continue_panic(levels: Option<Levels>) {
    if let Some(levels) = levels {
        resume_unwind(Box::new(levels));
    }
}

fn call(mark: MarkIndex, inside: &[Step], exit: Exit) {
    let Form::Call(function) = MARKS[mark].form else { return };
    before_call(mark);
    let mut begun = Begun::Off;
    let mut body = || {
        begun = model(|model, thread| model.begin(thread, mark));
        run(inside);
        exit
    };
    let ended = catch_unwind(AssertUnwindSafe(|| _ = function(&mut body)));
    let (exit, levels) = exit_of(ended, exit);
    model(|model, thread| model.end(thread, mark, begun, exit));
    continue_panic(levels);
}

fn poll(number: usize, inside: &Arc<[Step]>, exit: Exit) {
    let polled = lock(&POLLED).clone();
    let mark = polled[number % polled.len()];
    let Form::Async(make) = MARKS[mark].form else { return };
    let taken = lock(&FUTURES)[number].take();
    let mut future = taken.unwrap_or_else(|| Future { mark, future: make(), call: None });
    if future.call.is_some() {
        model(|model, _| model.resume(mark));
    }
    before_call(mark);
    NEXT_POLL.set(Some(NextPoll { mark, inside: Arc::clone(inside), exit }));
    let polled = catch_unwind(AssertUnwindSafe(|| {
        _ = future.future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    }));
    let (exit, levels) = exit_of(polled, exit);
    model(|model, thread| model.end_poll(thread, mark, exit, &mut future.call));
    if exit == Exit::Pending {
        let other = lock(&FUTURES)[number].replace(future);
        drop_future(other);
    }
    continue_panic(levels);
}

/// The body of a poll.
pub fn run_poll() -> Exit {
    let NextPoll { mark, inside, exit } = NEXT_POLL.take().expect("it was set");
    let begun = model(|model, thread| model.begin(thread, mark));
    assert_eq!(begun, Begun::Measured);
    run(&inside);
    exit
}

fn drop_future(future: Option<Future>) {
    if let Some(Future { mark, future, call: Some(call) }) = future {
        drop(future);
        model(|model, thread| model.cancel(thread, mark, call));
    }
}

struct Worker {
    work: Sender<Box<dyn FnOnce() + Send>>,
    thread: JoinHandle<()>,
}

impl Worker {
    fn new(number: usize) -> Self {
        let (work, next) = channel::<Box<dyn FnOnce() + Send>>();
        let thread = thread::spawn(move || {
            THREAD.set(number);
            next.into_iter().for_each(|work| work());
        });
        Self { work, thread }
    }

    /// Runs it on this thread, while no other thread runs.
    fn run(&self, work: impl FnOnce() + Send + 'static) {
        let (end, ended) = channel();
        let work = move || {
            work();
            end.send(()).expect("it is awaited");
        };
        self.work.send(Box::new(work)).expect("the thread runs");
        ended.recv().expect("the script ends");
    }
}

/// Executes the script, and returns what differs from the model.
pub fn execute(seed: u64, mode: Mode) -> Vec<String> {
    let script = Script::new(seed, mode);
    let is_traced = env::var_os("PERFMARK_TEST_TRACE").is_some();
    turn_off(None);
    let first = {
        let mut model = lock(&MODEL);
        let threads = &mut model.get_or_insert_default().threads;
        let first = threads.len();
        threads.extend((0..script.threads).map(|_| model::Thread::default()));
        first
    };
    *lock(&FUTURES) = (0..FUTURES_AT_A_TIME).map(|_| None).collect();
    lock(&POLLED).clone_from(&script.polled);
    let workers: Vec<Worker> = (0..script.threads as usize).map(|n| Worker::new(first + n)).collect();
    if mode == Mode::ReadingsCount {
        script::let_readings_count(1);
        for worker in &workers {
            let calls = script.calls.clone();
            // The first measured call of a mark opens counters, and the next one of each mark reads their pages.
            worker.run(move || (0..6).for_each(|_| calls.iter().for_each(|&mark| call(mark, &[], Exit::End))));
        }
    }
    for (thread, step) in script.steps {
        if is_traced {
            println!("on thread {thread}: {step:?}");
        }
        workers[thread].run(move || {
            // A panic of more levels than there are calls ends here.
            if let Err(payload) = catch_unwind(|| run(&[step]))
                && !payload.is::<Levels>()
            {
                resume_unwind(payload);
            }
        });
        if is_traced {
            let found = lock(&MODEL).get_or_insert_default().differences(&perfmark::snapshot());
            found.iter().for_each(|difference| println!("    {difference}"));
        }
    }
    workers[0].run(|| {
        let futures = std::mem::take(&mut *lock(&FUTURES));
        futures.into_iter().for_each(drop_future);
    });
    for worker in workers {
        drop(worker.work);
        worker.thread.join().expect("it ended");
    }
    lock(&MODEL).get_or_insert_default().differences(&perfmark::snapshot())
}
