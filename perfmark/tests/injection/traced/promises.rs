//! What a scenario's user is promised, whatever fails.

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
    /// Calls of the marks in the program's reports, and in its child's.
    calls: &'static [(&'static str, u64)],
    childs_calls: &'static [(&'static str, u64)],
    pub(super) to: To,
    /// Further variables of its environment.
    pub(super) variables: &'static [(&'static str, &'static str)],
    /// Whether it has marks of software events.
    pub(super) reads_events: bool,
    /// Whether it asks for events of the PMU.
    pub(super) has_hardware: bool,
    /// Whether all its threads but the main one are perfmark's.
    pub(super) has_own_threads: bool,
}

/// The destination of the report.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum To {
    Stderr,
    Stdout,
    File,
}

/// A scenario that asks for nothing.
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
        calls: &[("plain", 2), ("hardware", 1), ("waiting", 1)],
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
        stdout: "it forks\nthe child continues\nit ended well\n",
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

/// Dumps at intervals and, where this build supports it, at a signal. No dump comes: an older one would remain where
/// the report cannot be written.
const ASKED: &[(&str, &str)] = if cfg!(feature = "signal") {
    &[("PERFMARK_DUMP_INTERVAL", "1000"), ("PERFMARK_DUMP_SIGNAL", "USR1")]
} else {
    &[("PERFMARK_DUMP_INTERVAL", "1000")]
};

/// The report's file in the scenario's directory, and its earlier content.
pub(super) const REPORT: &str = "report";
pub(super) const OLDER: &str = "an older report";

impl Promises {
    /// Whether the scenario ends even if a call fails for good. It does not if it waits for another try.
    pub(super) fn ends(&self) -> bool {
        !["dumps", "signal"].contains(&self.scenario)
    }

    /// Checks a run with that fault, if any, and the run without a fault.
    pub(super) fn are_kept_in(&self, run: &Run, fault: Option<(Fault, &Run)>, directory: &Path) {
        let failed = run.failed.map(|(call, answer)| (call.name, answer));
        let context =
            || format!("{} with {failed:?}, {:?}:\n{}", self.scenario, fault.map(|(fault, _)| fault), run.stderr);
        assert_eq!(run.status, 0 as c_int, "{}", context());
        // Everything after the host's output is the report.
        let after = run.stdout.strip_prefix(self.stdout);
        assert!(after.is_some_and(|rest| rest.is_empty() || self.to == To::Stdout), "{}: {}", run.stdout, context());
        assert!(!run.stderr.contains("panic"), "{}", context());
        let writes = if self.to == To::Stdout { "write to stdout" } else { "write to stderr" };
        let is_heard = !matches!(failed, Some((name, Answer::Fails(_))) if name == writes);
        let reports = reports(run, after.unwrap_or_default(), directory, &context);
        let (own, childs): (Vec<_>, Vec<_>) = reports.iter().partition(|report| report["pid"] == run.pid);
        for (reports, expected) in [(own, self.calls), (childs, self.childs_calls)] {
            assert!(expected.is_empty() || !reports.is_empty() || !is_heard, "no report: {}", context());
            for report in reports {
                assert_eq!(exact(report, expected), Ok(()), "{}", context());
            }
        }
        if self.to == To::File && is_heard {
            let is_old = fs::read_to_string(directory.join(REPORT)).is_ok_and(|text| text == OLDER);
            assert!(!is_old || run.stderr.contains("perfmark: PERFMARK_OUTPUT="), "{}", context());
            // It is there, whatever keeps perfmark from looking.
            assert!(!run.stderr.contains("does not exist; writing to stderr"), "{}", context());
        }
        if let Some((_, baseline)) = fault {
            assert_eq!(run.held.len(), baseline.held.len(), "{}", context());
            // What the kernel did not unmap stays. A descriptor that cannot be distinguished from another file's is not
            // closed.
            let left = if failed.is_some_and(|(name, _)| LEAVES.contains(&name)) { run.failures } else { 0 };
            for (held, baseline) in run.held.iter().zip(&baseline.held) {
                let excess = held.excess_over(baseline);
                let may_block = failed.is_some_and(|(name, _)| name == "SYS_rt_sigprocmask")
                    && STAY_BLOCKED.contains(&held.blocked);
                assert!(
                    held.blocked == baseline.blocked || may_block,
                    "{held:?}, without a fault {baseline:?}: {}",
                    context()
                );
                assert!(excess <= left, "{held:?}, without a fault {baseline:?}: {}", context());
            }
        }
    }
}

/// The signals that stay blocked where unblocking is refused: all while a thread is created, without and with the C
/// library's own; those that writing raises; all but those of faults during cold work, and the same with SIGTRAP while
/// the list of counters changes.
const STAY_BLOCKED: [u64; 5] =
    [0xffff_fffe_7ffb_feff, 0xffff_ffff_fffb_feff, 0x100_1200, 0xffff_fffe_3ffb_fa27, 0xffff_fffe_3ffb_fa37];
const LEAVES: [&str; 3] = ["SYS_munmap", "ioctl(PERF_EVENT_IOC_ID)", "fcntl(F_GETFL)"];

/// All reports: on stdout, on stderr among perfmark's own lines, and in files. There is nothing else, and nothing
/// incomplete.
fn reports(run: &Run, on_stdout: &str, directory: &Path, context: &dyn Fn() -> String) -> Vec<Value> {
    let on_stderr: Vec<&str> = run.stderr.lines().filter(|line| !line.starts_with("perfmark: ")).collect();
    let mut texts = vec![on_stdout.to_owned(), on_stderr.join("\n")];
    for entry in fs::read_dir(directory).expect("there") {
        let path = entry.expect("read").path();
        assert!(path.extension().is_none_or(|end| end != "draft"), "{} is left: {}", path.display(), context());
        texts.push(fs::read_to_string(path).expect("read"));
    }
    texts.retain(|text| text != OLDER);
    let parsed = |text| Deserializer::from_str(text).into_iter().collect::<Result<Vec<Value>, _>>();
    texts
        .iter()
        .flat_map(|text| parsed(text).unwrap_or_else(|why| panic!("{why} in {text:?}: {}", context())))
        .collect()
}

/// Whether the report has these calls, each of which was measured or is reported as unmeasured.
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
            let replacement = "marks whose events are all unavailable record time instead";
            let is_explained = event == "time" && notes.contains(&replacement);
            if number("measured") + number("unmeasured") != calls && !is_explained {
                return Err(format!("{name}: {event} of {calls} calls: {values}"));
            }
        }
    }
    Ok(())
}
