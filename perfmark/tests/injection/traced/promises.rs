//! What a scenario's user was promised, whatever fails.

use std::fs;
use std::path::Path;

use libc::c_int;
use serde_json::{Deserializer, Value};

use super::calls::Answer;
use super::program::mark;
use super::tracer::{Fault, Run};

pub(super) struct Promises {
    pub(super) scenario: &'static str,
    /// The host's own output.
    stdout: &'static str,
    /// The marks' calls in the program's reports, and in its child's.
    calls: &'static [(&'static str, u64)],
    childs_calls: &'static [(&'static str, u64)],
    pub(super) to: To,
    /// What its environment says beside that.
    pub(super) variables: &'static [(&'static str, &'static str)],
    /// Whether it has marks of events that only the kernel can read.
    pub(super) reads_events: bool,
    /// Whether it asks for events of the PMU.
    pub(super) has_hardware: bool,
    /// Whether all its threads but the main one are perfmark's.
    pub(super) has_own_threads: bool,
}

/// Where the report goes.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum To {
    Stderr,
    Stdout,
    File,
}

/// One that asks for nothing.
const PLAIN: Promises = Promises {
    scenario: "",
    stdout: "",
    calls: &[],
    childs_calls: &[],
    to: To::Stderr,
    variables: &[],
    reads_events: false,
    has_hardware: false,
    has_own_threads: false,
};

pub(super) const ALL: &[Promises] = &[
    Promises {
        scenario: "threads",
        stdout: "a thread has ended\na thread has ended\n",
        calls: &[("plain", 0), ("hardware", 0), ("software", 6)],
        reads_events: true,
        ..PLAIN
    },
    Promises {
        scenario: "sets",
        stdout: "half way\n",
        calls: &[("plain", 2), ("hardware", 1), ("software", 0)],
        has_hardware: true,
        ..PLAIN
    },
    Promises {
        scenario: "file",
        stdout: "half way\ncounted\n",
        calls: &[("plain", 0), ("hardware", 0), ("software", 2)],
        to: To::File,
        ..PLAIN
    },
    Promises {
        scenario: "fork",
        stdout: "it forks\nthe child goes on\nit ended well\n",
        calls: &[("plain", 0), ("hardware", 0), ("software", 2)],
        childs_calls: &[("plain", 0), ("hardware", 0), ("software", 2)],
        to: To::File,
        reads_events: true,
        ..PLAIN
    },
    Promises {
        scenario: "dumps",
        stdout: "dumped\n",
        calls: &[("plain", 1), ("hardware", 0), ("software", 0)],
        has_own_threads: true,
        ..PLAIN
    },
    Promises {
        scenario: "asked",
        stdout: "half way\n",
        calls: &[("plain", 2), ("hardware", 0), ("software", 0)],
        to: To::File,
        variables: ASKED,
        has_own_threads: true,
        ..PLAIN
    },
    #[cfg(feature = "signal")]
    Promises {
        scenario: "signal",
        stdout: "dumped\n",
        calls: &[("plain", 1), ("hardware", 0), ("software", 0)],
        has_own_threads: true,
        ..PLAIN
    },
    Promises {
        scenario: "stdout",
        stdout: "half way\n",
        calls: &[("plain", 2), ("hardware", 0), ("software", 0)],
        to: To::Stdout,
        ..PLAIN
    },
    Promises {
        scenario: "counters",
        stdout: "a counter\na counter\na group\n",
        calls: &[("plain", 0), ("hardware", 0), ("software", 0)],
        reads_events: true,
        has_hardware: true,
        ..PLAIN
    },
];

pub(super) const SANDBOX: &Promises = &Promises {
    scenario: "sandbox",
    stdout: "a step\na step\na step\na step\na step\na step\n",
    calls: &[("plain", 0), ("hardware", 6), ("software", 6)],
    to: To::File,
    reads_events: true,
    has_hardware: true,
    ..PLAIN
};

/// Dumps at intervals and, where this build has it, at a signal: none comes, as an older dump would stand where the report cannot be written.
const ASKED: &[(&str, &str)] = if cfg!(feature = "signal") {
    &[("PERFMARK_DUMP_INTERVAL", "1000"), ("PERFMARK_DUMP_SIGNAL", "USR1")]
} else {
    &[("PERFMARK_DUMP_INTERVAL", "1000")]
};

/// The report's file, in the scenario's directory, and what is in it before.
pub(super) const REPORT: &str = "report";
pub(super) const OLDER: &str = "an older report";

impl Promises {
    /// Whether it ends also if a call fails for good: not where it waits for it to be tried again.
    pub(super) fn ends(&self) -> bool {
        !["dumps", "signal"].contains(&self.scenario)
    }

    /// After a run with that fault, if any, and one without.
    pub(super) fn are_kept_in(&self, run: &Run, fault: Option<(Fault, &Run)>, directory: &Path) {
        let failed = run.failed.map(|(call, answer)| (call.name, answer));
        let told =
            || format!("{} with {failed:?}, {:?}:\n{}", self.scenario, fault.map(|(fault, _)| fault), run.stderr);
        assert_eq!(run.status, 0 as c_int, "{}", told());
        // All that is behind it is the report.
        let behind = run.stdout.strip_prefix(self.stdout);
        assert!(behind.is_some_and(|rest| rest.is_empty() || self.to == To::Stdout), "{}: {}", run.stdout, told());
        assert!(!run.stderr.contains("panic"), "{}", told());
        let writes = if self.to == To::Stdout { "write to stdout" } else { "write to stderr" };
        let is_heard = !matches!(failed, Some((name, Answer::Fails(_))) if name == writes);
        let reports = reports(run, behind.unwrap_or_default(), directory, &told);
        let (own, childs): (Vec<_>, Vec<_>) = reports.iter().partition(|report| report["pid"] == run.pid);
        for (reports, expected) in [(own, self.calls), (childs, self.childs_calls)] {
            assert!(expected.is_empty() || !reports.is_empty() || !is_heard, "no report: {}", told());
            for report in reports {
                assert_eq!(exact(report, expected), Ok(()), "{}", told());
            }
        }
        if self.to == To::File && is_heard {
            let is_old = fs::read_to_string(directory.join(REPORT)).is_ok_and(|text| text == OLDER);
            assert!(!is_old || run.stderr.contains("perfmark: PERFMARK_OUTPUT="), "{}", told());
            // It is there, whatever keeps perfmark from looking.
            assert!(!run.stderr.contains("no directory"), "{}", told());
        }
        if let Some((_, calm)) = fault {
            assert_eq!(run.held.len(), calm.held.len(), "{}", told());
            // What the kernel did not unmap stays; and a descriptor that cannot be told from another file's is not closed.
            let left = if failed.is_some_and(|(name, _)| LEAVES.contains(&name)) { run.failures } else { 0 };
            for (held, calm) in run.held.iter().zip(&calm.held) {
                let excess = held.excess_over(calm);
                let may_block = failed.is_some_and(|(name, _)| name == "SYS_rt_sigprocmask")
                    && STAY_BLOCKED.contains(&&*held.blocked);
                assert!(held.blocked == calm.blocked || may_block, "{held:?}, without a fault {calm:?}: {}", told());
                assert!(excess <= left, "{held:?}, without a fault {calm:?}: {}", told());
            }
        }
    }
}

/// Where unblocking is refused: all signals but the C library's own, which perfmark holds back for a moment; what writing raises; all, around the making of a
/// thread; all but those that faults raise, during cold work.
const STAY_BLOCKED: [&str; 4] = ["fffffffe7ffbfeff", "0000000001001000", "fffffffffffbfeff", "fffffffe3ffbfa27"];
const LEAVES: [&str; 3] = ["SYS_munmap", "ioctl(PERF_EVENT_IOC_ID)", "fcntl(F_GETFL)"];

/// All of them, on stdout, on stderr among what perfmark says in lines, and in files; there is nothing else, and nothing half written.
fn reports(run: &Run, on_stdout: &str, directory: &Path, told: &dyn Fn() -> String) -> Vec<Value> {
    let on_stderr: Vec<&str> = run.stderr.lines().filter(|line| !line.starts_with("perfmark: ")).collect();
    let mut texts = vec![on_stdout.to_owned(), on_stderr.join("\n")];
    for entry in fs::read_dir(directory).expect("there") {
        let path = entry.expect("read").path();
        assert!(path.extension().is_none_or(|end| end != "draft"), "{} is left: {}", path.display(), told());
        texts.push(fs::read_to_string(path).expect("read"));
    }
    texts.retain(|text| text != OLDER);
    let parsed = |text| Deserializer::from_str(text).into_iter().collect::<Result<Vec<Value>, _>>();
    texts.iter().flat_map(|text| parsed(text).unwrap_or_else(|why| panic!("{why} in {text:?}: {}", told()))).collect()
}

/// Whether the report has these calls, each of which was measured or is told not to have been.
fn exact(report: &Value, expected: &[(&str, u64)]) -> Result<(), String> {
    let notes: Vec<&str> = report["notes"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    for &(name, calls) in expected {
        let mark = mark(report, name);
        if mark["calls"] != calls {
            return Err(format!("{name} has {} calls of {calls}", mark["calls"]));
        }
        for (event, values) in mark["values"].as_object().expect("a map") {
            let number = |key: &str| values[key].as_u64().expect("a number");
            // Where time stands in for what a thread could not have, it is of that thread's calls.
            let stands_in = "marks none of whose events is available record time instead";
            let is_told = event == "time" && notes.contains(&stands_in);
            if number("measured") + number("unmeasured") != calls && !is_told {
                return Err(format!("{name}: {event} of {calls} calls: {values}"));
            }
        }
    }
    Ok(())
}
