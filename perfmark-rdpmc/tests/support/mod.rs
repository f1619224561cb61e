//! Runs tests that need a PMU where there is one; otherwise reports them as ignored, with the reason.

use std::fmt::Display;
use std::panic::UnwindSafe;

use libtest_mimic::{Arguments, Failed, Trial};
use perfmark_rdpmc::{Attr, Counter, Delta, Error, Hardware};

/// A test that needs user-space reads of hardware counters.
pub(crate) type OnPmu = (&'static str, fn());

/// Runs the tests like cargo's own harness.
pub(crate) fn run(anywhere: Vec<Trial>, on_pmu: &[OnPmu]) -> ! {
    let arguments = Arguments::from_args();
    let missing = missing();
    if let Some(why) = missing.as_ref().filter(|_| !on_pmu.is_empty()) {
        eprintln!("tests that need a PMU that user space may read are ignored ({}), because {why}", on_pmu.len());
    }
    let on_pmu = on_pmu.iter().map(|&(name, test)| trial(name, test).with_ignored_flag(missing.is_some()));
    libtest_mimic::run(&arguments, anywhere.into_iter().chain(on_pmu).collect()).exit()
}

/// A test's name, what it requires, and the test.
#[allow(dead_code, reason = "not every test program uses it")]
pub(crate) type Case<E> = (&'static str, fn() -> Result<(), E>, fn());

/// Runs the tests whose requirements this machine meets. Reports the others as ignored, with the reason.
#[allow(dead_code, reason = "not every test program uses it")]
pub(crate) fn run_possible<E: Display>(cases: impl IntoIterator<Item = Case<E>>) -> ! {
    let trials = cases.into_iter().map(|(name, possible, test)| {
        let impossible = possible().err();
        if let Some(why) = &impossible {
            eprintln!("{name} is ignored: {why}");
        }
        trial(name, test).with_ignored_flag(impossible.is_some())
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit()
}

/// A test from a function that panics where it fails.
pub(crate) fn trial(name: &str, test: impl FnOnce() + UnwindSafe + Send + 'static) -> Trial {
    Trial::test(name, move || std::panic::catch_unwind(test).map_err(|_| Failed::without_message()))
}

/// A test that has the name of its function.
#[allow(dead_code, reason = "not every test program uses it")]
pub(crate) fn named<F: FnOnce() + UnwindSafe + Send + 'static>(test: F) -> Trial {
    let path = std::any::type_name::<F>();
    trial(path.rsplit("::").next().unwrap_or(path), test)
}

/// Tests that have the names of their functions, and need user-space reads of hardware counters.
#[allow(unused_macros, reason = "not every test program uses it")]
macro_rules! tests {
    ($($test:ident,)*) => { &[$((stringify!($test), $test)),*] };
}
#[allow(unused_imports, reason = "not every test program uses it")]
pub(crate) use tests;

/// Opens a counter. `None` on a target without counters; panics for any other error.
#[allow(dead_code, reason = "not every test program uses it")]
pub(crate) fn open_if_supported(attr: &Attr) -> Option<Counter> {
    if_supported(Counter::open(attr))
}

/// What was opened. On a target without counters, prints the reason and returns `None`; panics for any other error.
#[allow(dead_code, reason = "not every test program uses it")]
pub(crate) fn if_supported<T>(opened: Result<T, Error>) -> Option<T> {
    match opened {
        Ok(opened) => Some(opened),
        Err(error) if error.is_unsupported() => {
            println!("not run: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// A count that must be exact.
#[allow(dead_code, reason = "not every test program uses it")]
pub(crate) fn exact(delta: Delta) -> u64 {
    match delta {
        Delta::Exact(value) => value,
        other => panic!("not exact: {other:?}"),
    }
}

/// Whether this is the machine of `ci/pmu-machine`, which has six counters and rotates events every four milliseconds.
#[allow(dead_code, reason = "not every test program uses it")]
pub(crate) fn is_emulated() -> bool {
    std::fs::read_to_string("/proc/device-tree/compatible").is_ok_and(|machine| machine.contains("linux,dummy-virt"))
}

/// Why user space cannot read this machine's counters.
fn missing() -> Option<String> {
    match Counter::open(&Attr::new(Hardware::Instructions)) {
        Ok(counter) => counter.user_reads().err(),
        Err(error) => Some(error.to_string()),
    }
}
