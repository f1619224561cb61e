//! Runs a program while it is sampled, and counts its samples.

use std::hint::black_box;
use std::ops::Range;
use std::{fs, thread};

use perfmark::{SampledPath, SampledStack, Samples, Sampling, Snapshot};

use crate::loops::{code_of_seven, code_of_three};

/// The samples of `work` alone. Waits until the sampling has no thread any more. `None` if the program cannot be
/// sampled, whose reason is printed.
pub(crate) fn sampled(sampling: Sampling, work: impl FnOnce()) -> Option<Sampled> {
    let before = perfmark::snapshot();
    match sampling.start() {
        Ok(guard) => {
            work();
            drop(guard);
            while collectors() > 0 {
                // The kernel lists a thread for a moment after it was joined.
                thread::yield_now();
            }
            Some(Sampled(perfmark::snapshot().since(&before)))
        }
        Err(why) => {
            println!("skipped: {why}");
            None
        }
    }
}

/// Computes, in none of the loops, until the calling thread is sampled.
pub(crate) fn wait_until_sampled() {
    until_sampled(|| _ = (0..10_000).fold(0_u64, |sum, n| black_box(sum + n)));
}

/// Repeats `work` until the thread that does it is sampled: its ring is opened by another thread, at any time. No other
/// thread computes meanwhile.
pub(crate) fn until_sampled(work: impl Fn()) {
    repeat(1, work, || perfmark::snapshot().samples.iter().map(|samples| samples.taken() + samples.lost).sum());
}

/// Repeats `work` until there are that many more samples in marks: others may be of this function, which takes
/// snapshots.
pub(crate) fn until_samples_in_marks(count: u64, work: impl Fn()) {
    repeat(count, work, || {
        let snapshot = perfmark::snapshot();
        let paths = snapshot.samples.iter().flat_map(|samples| &samples.paths);
        let in_marks = paths.filter(|path| !path.marks.is_empty()).flat_map(|path| &path.stacks);
        in_marks.map(|stack| stack.samples).sum()
    });
}

/// Repeats `work` until `taken` is that much more.
fn repeat(more: u64, work: impl Fn(), taken: impl Fn() -> u64) {
    let enough = taken() + more;
    while taken() < enough {
        work();
    }
}

/// The number of threads that read samples.
pub(crate) fn collectors() -> usize {
    let tasks = fs::read_dir("/proc/self/task").expect("threads").flatten();
    let names = tasks.filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
    names.filter(|name| name.starts_with("perfmark-sample")).count()
}

pub(crate) struct Sampled(pub(crate) Snapshot);

impl Sampled {
    /// The samples of the only sampling that took some.
    pub(crate) fn samples(&self) -> &Samples {
        let taken: Vec<&Samples> = self.0.samples.iter().filter(|samples| samples.taken() > 0).collect();
        let [samples] = taken[..] else { panic!("{:?}", self.0.samples) };
        samples
    }

    pub(crate) fn mark(&self, name: &str) -> usize {
        self.0.marks.iter().position(|mark| mark.name == name).expect("a mark")
    }

    fn paths(&self, mark: Option<&str>) -> impl Iterator<Item = &SampledPath> {
        let mark = mark.map(|name| self.mark(name));
        self.samples().paths.iter().filter(move |path| path.marks.last().copied() == mark)
    }

    fn in_code(&self, mark: Option<&str>, code: &Range<u64>) -> u64 {
        let (samples, base) = (self.samples(), base());
        let address = |stack: &SampledStack| samples.locations[stack.locations[0]].address + base;
        let stacks = self.paths(mark).flat_map(|path| &path.stacks);
        stacks.filter(|stack| code.contains(&address(stack))).map(|stack| stack.samples).sum()
    }

    /// The samples directly in a mark, or outside of all, that are in the loop `spin_three`, and those in `spin_seven`.
    pub(crate) fn in_loops(&self, mark: Option<&str>) -> [u64; 2] {
        [code_of_three(), code_of_seven()].map(|code| self.in_code(mark, &code))
    }

    /// Checks that three of ten samples are in the mark `three`, and the others in `seven`, each in its own loop. The
    /// shares may differ by that many percentage points, or five standard errors if that is more. If samples were lost,
    /// because the collector did not run for long, the remaining samples are biased.
    #[track_caller]
    pub(crate) fn check(&self, [three, seven]: [&str; 2], points: f64) {
        let [[three, wrong], [wrong_too, seven]] = [three, seven].map(|mark| self.in_loops(Some(mark)));
        let samples = self.samples();
        let all = (three + seven) as f64;
        let (share, error) = (100.0 * three as f64 / all, 100.0 * (0.21 / all).sqrt());
        println!("{} samples of {}, {} lost: {share:.2} ± {error:.2} %", samples.taken(), samples.event, samples.lost);
        assert_eq!((wrong, wrong_too), (0, 0), "in the wrong mark");
        assert!(three > 0 && seven > 0, "{three} {seven}");
        // Without optimization, most of the time is in the code around, and samples may be in step with the calls.
        if cfg!(not(debug_assertions)) && samples.lost == 0 {
            assert!((share - 30.0).abs() <= points.max(5.0 * error), "{share} ± {error}");
        }
    }
}

/// The address at which the program is mapped; 0 if its file has the addresses that it has in memory.
fn base() -> u64 {
    const TYPE: usize = 16;
    const EXECUTABLE: u8 = 2;
    if fs::read("/proc/self/exe").expect("the program")[TYPE] == EXECUTABLE {
        return 0;
    }
    let maps = fs::read_to_string("/proc/self/maps").expect("maps");
    let program = std::env::current_exe().expect("a path").display().to_string();
    let line = maps.lines().find(|line| line.ends_with(&program)).expect("the program");
    u64::from_str_radix(line.split('-').next().expect("a start"), 16).expect("a number")
}
