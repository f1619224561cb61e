//! Marks of all kinds, and the program's own counts of their calls.

use std::future::poll_fn;
use std::hint::black_box;
use std::panic::{catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, Waker};

use perfmark::{Mark, Snapshot, perfmark};

macro_rules! functions {
    ($($(#[$mark:meta])* fn $name:ident => $inner:path;)*) => {
        $(
            $(#[$mark])*
            #[inline(never)]
            fn $name(n: u64) -> u64 {
                black_box($inner(black_box(n)))
            }
        )*
    };
}

functions! {
    #[perfmark(time, every = 64)] fn hottest => same;
    #[perfmark(time)] fn plain => same;
    #[perfmark] fn counted => same;
    #[perfmark(page_faults, time)] fn faults => same;
    #[perfmark(time)] fn outer => inner;
    #[perfmark(cycles, time)] fn inner => same;
    // Filters set the events of these two. The second one is also off at times.
    #[perfmark(time)] fn filtered => same;
    #[perfmark(time)] fn switched => same;
}

fn same(n: u64) -> u64 {
    n
}

#[perfmark(time, instructions)]
#[inline(never)]
fn recursive(depth: u64) -> u64 {
    if depth == 0 { 0 } else { 1 + recursive(black_box(depth - 1)) }
}

#[perfmark(time)]
fn fails() {
    // Calls no panic hook and prints nothing.
    resume_unwind(Box::new(()));
}

#[perfmark(time, page_faults)]
async fn polled() {
    let mut waits = 3;
    poll_fn(move |_| {
        waits -= 1;
        if waits == 0 { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

type Call = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Async calls in flight, which any thread may continue.
static WAITING: Mutex<Vec<Call>> = Mutex::new(Vec::new());

fn waiting<R>(look: impl FnOnce(&mut Vec<Call>) -> R) -> R {
    look(&mut WAITING.lock().unwrap_or_else(PoisonError::into_inner))
}

/// The number of async calls in flight.
pub(crate) fn in_flight() -> u64 {
    waiting(|calls| calls.len() as u64)
}

/// A count of a mark.
type Count = fn(&Mark) -> u64;

const CALLS: Count = |mark| mark.calls;
/// Which calls are measured begins anew when sampling starts or stops, so only the sum is known.
const MEASURED_AND_SKIPPED: Count = |mark| mark.skipped + mark.values.first().map_or(0, |values| values.measured);

/// What [`Batch::run`] counts for marks that are always on, and how to read it from a snapshot.
pub(crate) const COUNTS: [(&str, &str, Count); 14] = [
    ("hottest", "calls", CALLS),
    ("hottest", "measured and skipped calls", MEASURED_AND_SKIPPED),
    ("plain", "calls", CALLS),
    ("counted", "calls", CALLS),
    ("faults", "calls", CALLS),
    ("outer", "calls", CALLS),
    ("inner", "calls", CALLS),
    ("filtered", "calls", CALLS),
    ("recursive", "calls", CALLS),
    ("fails", "calls", CALLS),
    ("fails", "unwound calls", |mark| mark.unwound),
    ("polled", "calls", CALLS),
    ("polled", "cancelled calls", |mark| mark.cancelled),
    ("polled", "polls", |mark| mark.polls),
];

/// The mark that is off at times, so that a snapshot may have fewer calls than were made.
pub(crate) const SWITCHED: &str = "switched";

/// The values of [`COUNTS`], followed by the calls of [`SWITCHED`].
pub(crate) type Counts = [u64; COUNTS.len() + 1];

/// The counts of all finished batches.
static MADE: [AtomicU64; COUNTS.len() + 1] = [const { AtomicU64::new(0) }; COUNTS.len() + 1];

/// The counts of all batches that have finished so far.
pub(crate) fn made() -> Counts {
    MADE.each_ref().map(|made| made.load(Relaxed))
}

/// The sum of all calls in these counts.
pub(crate) fn calls(counts: &Counts) -> u64 {
    let of_marks = COUNTS.iter().zip(counts).filter(|((_, quantity, _), _)| *quantity == "calls");
    of_marks.map(|(_, count)| count).sum::<u64>() + counts[COUNTS.len()]
}

/// The mark with this name.
pub(crate) fn find_mark<'a>(snapshot: &'a Snapshot, name: &str) -> Option<&'a Mark> {
    snapshot.marks.iter().find(|mark| mark.name == name)
}

/// The counts in a snapshot.
pub(crate) fn counts(snapshot: &Snapshot) -> Counts {
    let of = |name, count: Count| find_mark(snapshot, name).map_or(0, count);
    std::array::from_fn(|n| COUNTS.get(n).map_or_else(|| of(SWITCHED, CALLS), |&(name, _, count)| of(name, count)))
}

/// The numbers of calls of each mark.
pub(crate) struct Batch {
    /// Groups of 64 calls of `hottest`. About one call in each group is measured.
    pub(crate) sixty_fours: u64,
    pub(crate) each: u64,
    pub(crate) rare: u64,
}

const DEPTH: u64 = 10;

impl Batch {
    /// Makes the calls, then adds them to the counts.
    pub(crate) fn run(&self) {
        let Self { sixty_fours, each, rare } = *self;
        for n in 0..sixty_fours * 64 {
            hottest(n);
        }
        for n in 0..each {
            for function in [plain, counted, outer, filtered, switched] {
                function(n);
            }
        }
        for n in 0..rare {
            faults(n);
            recursive(DEPTH);
            _ = catch_unwind(fails);
        }
        let [ended, cancelled, polls] = self.polls();
        let made: Counts = [
            sixty_fours * 64,
            sixty_fours * 64,
            each,
            each,
            rare,
            each,
            each,
            each,
            rare * (DEPTH + 1),
            rare,
            rare,
            ended + cancelled,
            cancelled,
            polls,
            each,
        ];
        for (sum, made) in MADE.iter().zip(made) {
            sum.fetch_add(made, Relaxed);
        }
    }

    /// Polls calls that other threads have started, and leaves unfinished calls to other threads. Returns the numbers
    /// of finished calls, of cancelled calls, and of polls.
    fn polls(&self) -> [u64; 3] {
        let (mut ended, mut cancelled, mut polls) = (0, 0, 0);
        let mut context = Context::from_waker(Waker::noop());
        for n in 0..self.rare {
            let mut call = waiting(|calls| if calls.len() > 16 { calls.swap_remove(0) } else { Box::pin(polled()) });
            polls += 1;
            if call.as_mut().poll(&mut context).is_ready() {
                ended += 1;
            } else if n % 8 == 7 {
                cancelled += 1;
            } else {
                waiting(|calls| calls.push(call));
            }
        }
        [ended, cancelled, polls]
    }
}
