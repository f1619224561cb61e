//! A program whose only marks are in a downloaded crate prints no report, unless the user or the program uses perfmark.
//!
//! Each scenario is this program, started again with the scenario as its argument: a variable would be one of
//! perfmark's.

#[path = "../../perfmark-rdpmc/tests/support/mod.rs"]
mod support;
mod program;
#[path = "dependency/registry/src/index.crates.io-1949cf8c6b5b557f/parser-1.0.0/src/lib.rs"]
mod parser;

use std::process::{self, Command, ExitCode};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::{env, fs};

use perfmark::{Dumps, Filter, Session};

/// The argument before a scenario.
const SCENARIO: &str = "--scenario";

fn main() -> ExitCode {
    let mut arguments = env::args().skip(1);
    if arguments.next().as_deref() == Some(SCENARIO) {
        parser::parse();
        let scenario = arguments.next().expect("its name");
        if scenario != ALONE {
            let (_, use_it) = USES.iter().find(|(name, _)| *name == scenario).expect("known");
            use_it();
        }
        return ExitCode::SUCCESS;
    }
    let tests: [(&str, fn()); 3] = [
        ("marks_of_a_downloaded_crate_print_no_report", no_report),
        ("each_function_of_the_interface_lets_the_program_print_its_report", functions),
        ("each_variable_of_perfmark_lets_the_program_print_its_report", variables),
    ];
    support::run(tests.map(|(name, test)| support::trial(name, test)).into(), &[])
}

/// The program does not use perfmark itself.
const ALONE: &str = "alone";

/// The functions of the public interface that do not work on data alone.
const USES: &[(&str, fn())] = &[
    ("snapshot", || _ = perfmark::snapshot()),
    ("threads", || _ = perfmark::threads()),
    ("reset", perfmark::reset),
    ("finish", perfmark::finish),
    ("disable_counters", || _ = perfmark::disable_counters()),
    ("set_filter", || perfmark::set_filter(&Filter::default()).expect("set")),
    ("filter", || _ = perfmark::filter()),
    ("measure", || _ = perfmark::measure(&["time"], || ())),
    ("Session", || _ = Session::new().finish()),
    ("Dumps", || _ = Dumps::new(env::temp_dir().join("perfmark-none-%p")).start().expect("started")),
    #[cfg(feature = "prometheus")]
    ("Metrics", || _ = perfmark::Metrics::default()),
    #[cfg(feature = "exporter")]
    ("Exporter", || _ = perfmark::Exporter::new(0)),
    #[cfg(feature = "criterion")]
    ("Measure", || _ = perfmark::Measure::event("time").expect("available")),
];

/// What the scenario prints on stderr with these variables and no other variables of perfmark's.
fn printed(scenario: &str, variables: &[(&str, &str)]) -> String {
    // Under a name that is not one of a test: programs of `cargo test` print no report.
    static PROGRAMS: AtomicU32 = AtomicU32::new(0);
    let executable = env::current_exe().expect("known");
    let program = executable.with_file_name(format!("program_{}_{}", process::id(), PROGRAMS.fetch_add(1, Relaxed)));
    fs::hard_link(&executable, &program).expect("linked");
    let mut command = Command::new(&program);
    program::unset_variables(&mut command);
    let output = command.args([SCENARIO, scenario]).envs(variables.iter().copied()).output();
    fs::remove_file(&program).expect("there");
    let output = output.expect("started");
    assert!(output.status.success() && output.stdout.is_empty(), "{scenario}: {}", program::ending(&output));
    String::from_utf8(output.stderr).expect("UTF-8")
}

fn has_report(text: &str) -> bool {
    text.contains("perfmark · ") && text.contains("parse")
}

fn no_report() {
    assert_eq!(printed(ALONE, &[]), "");
    assert_eq!(printed(ALONE, &[("PERFMARK", "")]), "", "an empty variable counts as not set");
    assert_eq!(printed(ALONE, &[("PERFMARK", "off")]), "");
}

fn functions() {
    for (name, _) in USES {
        let text = printed(name, &[]);
        assert!(has_report(&text), "{name}: {text}");
    }
}

fn variables() {
    for (name, value) in
        [("PERFMARK", "on"), ("PERFMARK_FORMAT", "table"), ("PERFMARK_EVENTS", "cycels"), ("PERFMARK_OUPUT", "report")]
    {
        let text = printed(ALONE, &[(name, value)]);
        assert!(has_report(&text), "{name}={value}: {text}");
    }
}
