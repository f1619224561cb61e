//! Tests that need a PMU: run where there is one, told with the reason where there is none.

use std::panic::UnwindSafe;

use libtest_mimic::{Arguments, Failed, Trial};
use perfmark_rdpmc::{Attr, Counter, Hardware};

/// A test that needs user-space reads of hardware counters.
pub(crate) type OnPmu = (&'static str, fn());

/// Runs the tests as cargo's own harness would.
pub(crate) fn run(anywhere: Vec<Trial>, on_pmu: &[OnPmu]) -> ! {
    let arguments = Arguments::from_args();
    let missing = missing();
    if let Some(why) = &missing {
        eprintln!("{} tests need a PMU that user space may read, and are ignored: {why}", on_pmu.len());
    }
    let on_pmu = on_pmu.iter().map(|&(name, test)| trial(name, test).with_ignored_flag(missing.is_some()));
    libtest_mimic::run(&arguments, anywhere.into_iter().chain(on_pmu).collect()).exit()
}

/// A test from a function that panics where it fails.
pub(crate) fn trial(name: &str, test: impl FnOnce() + UnwindSafe + Send + 'static) -> Trial {
    Trial::test(name, move || std::panic::catch_unwind(test).map_err(|_| Failed::without_message()))
}

/// Whether this is the machine of `ci/pmu-machine`, whose six counters and one rotation in four milliseconds are known.
#[allow(dead_code, reason = "not every test program asks")]
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
