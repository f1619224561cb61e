//! The trials: faults with endings, each started in a folder of its own, and compared with what the program counted.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output, Stdio};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use libtest_mimic::{Failed, Trial};

use crate::crowds::FULL;
use crate::endings::{ENDINGS, Ending};
use crate::ledger::{FOLDER, Leaves, Ledger, read};
use crate::program::machine::{self, ParanoidLevel};
use crate::program::{SCENARIO, text};
use crate::{CHANGES, CROWDS, FAULTS, Fault, child, libraries, support, versions};

/// Time, and four events that every machine has and that are read by read(2).
const FOUR: &str = "time,page-faults,minor-faults,major-faults,task-clock";

pub(crate) fn run() -> ExitCode {
    let is_full = env::var_os(FULL).is_some();
    // Each fault is combined with two endings, or with all.
    let crossed = |faults: &'static [Fault], with_all: bool, test: fn(&Fault, &Ending) -> Result<(), String>| {
        let pairs = faults.iter().enumerate().flat_map(move |(n, fault)| {
            let is_in = move |at: usize| with_all || at == 0 || at == 1 + n % (ENDINGS.len() - 1);
            ENDINGS.iter().enumerate().filter(move |(at, _)| is_in(*at)).map(move |(_, ending)| (fault, ending))
        });
        pairs.map(move |(fault, ending)| trial(format!("{}::{}", fault.name, ending.name), move || test(fault, ending)))
    };
    let crowds = CROWDS.iter().map(|fault| trial(fault.name.into(), || try_out(fault, &ENDINGS[0], FOUR)));
    let anywhere = crossed(FAULTS, is_full, |fault, ending| try_out(fault, ending, FOUR));
    let missing = machine::missing();
    if let Some(why) = &missing {
        let count = CHANGES.len() * ENDINGS.len();
        eprintln!("tests that change the machine's settings are ignored ({count}), because {why}");
    }
    let changes = crossed(CHANGES, true, |fault, ending| changing_the_machine(|| try_out(fault, ending, FOUR)))
        .map(|change| change.with_ignored_flag(missing.is_some()));
    // They build two versions of perfmark.
    if !is_full {
        println!("skipped: two versions of perfmark in one program: {FULL} is not set");
    }
    let versions = versions::ENDINGS
        .iter()
        .filter(|_| is_full)
        .map(|&(ending, status)| trial(format!("two_versions::{ending}"), move || versions::try_out(ending, status)));
    let switched_off = trial("libraries_that_are_switched_off_leave_nothing".into(), libraries::try_switched_off);
    support::run(
        anywhere.chain(changes).chain(crowds).chain(versions).chain([switched_off]).collect(),
        &[("a_thousand_threads_with_four_counters_of_the_pmu", a_thousand_threads_with_counters)],
    )
}

fn trial(name: String, test: impl FnOnce() -> Result<(), String> + Send + 'static) -> Trial {
    Trial::test(name, || test().map_err(Failed::from))
}

/// Runs one such test at a time.
fn changing_the_machine(test: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    test()
}

/// As a user whom the kernel allows to count.
fn a_thousand_threads_with_counters() {
    const COUNTERS: &str = "time,instructions,cycles,r0008,r0011";
    let crowd = CROWDS.iter().find(|fault| fault.name == "a_thousand_threads_at_once").expect("there");
    if let Some(why) = machine::missing() {
        return println!("skipped: {why}");
    }
    changing_the_machine(|| {
        let _level = ParanoidLevel::new("2");
        try_out(crowd, &ENDINGS[0], COUNTERS)
    })
    .unwrap_or_else(|why| panic!("{why}"));
}

fn try_out(fault: &Fault, ending: &Ending, events: &str) -> Result<(), String> {
    let folder = new_folder(&format!("{}-{}", fault.name, ending.name));
    let output = start(&format!("{}/{}", fault.name, ending.name), &folder, events);
    let stderr = text(&output.stderr);
    print!("{}", text(&output.stdout));
    if !ending.status.is(output.status) {
        return Err(format!("{}, in {}: {stderr}", output.status, folder.display()));
    }
    let ledgers = compare(&folder, stderr).map_err(|why| format!("in {}, {why}\n{stderr}", folder.display()))?;
    if ledgers == 0 {
        return Err("nothing was written".into());
    }
    fs::remove_dir_all(&folder).map_err(|why| why.to_string())
}

/// Compares the ledger of each process in the folder, and below it, with what the process left. Returns how many there
/// are.
fn compare(folder: &Path, stderr: &str) -> Result<usize, String> {
    let mut ledgers = 0;
    for entry in fs::read_dir(folder).map_err(|why| why.to_string())?.flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        if path.is_dir() {
            ledgers += compare(&path, stderr)?;
        }
        let Some(suffix) = name.to_str().and_then(|name| name.strip_prefix("ledger")) else { continue };
        let (ledger, report) = (Ledger::map(&path), folder.join(format!("report{suffix}")));
        match ledger.leaves() {
            Leaves::Report => {
                ledger.compare(&read(&report).or_else(|why| follows(stderr).ok_or(why))?)?;
                libraries::compare(folder)?;
            }
            Leaves::Dump => ledger.compare(&read(&folder.join(format!("dump{suffix}")))?)?,
            Leaves::Nothing => {}
        }
        if report.exists() != (ledger.leaves() == Leaves::Report) && follows(stderr).is_none() {
            return Err(format!("{}: expected {:?}", report.display(), ledger.leaves()));
        }
        ledgers += 1;
    }
    Ok(ledgers)
}

/// The report on stderr, if it could not be written elsewhere.
fn follows(stderr: &str) -> Option<serde_json::Value> {
    let (_, report) = stderr.split_once("the report follows\n")?;
    serde_json::Deserializer::from_str(report).into_iter().next()?.ok()
}

pub(crate) fn new_folder(name: &str) -> PathBuf {
    static FOLDERS: AtomicU32 = AtomicU32::new(0);
    let (pid, number) = (std::process::id(), FOLDERS.fetch_add(1, Relaxed));
    let folder = env::temp_dir().join(format!("perfmark-faults-{pid}-{number}-{name}"));
    // For the program that this one may execute.
    fs::create_dir_all(folder.join("next")).expect("a folder");
    // Also for a program that gives up its rights.
    for folder in [&folder, &folder.join("next")] {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o777)).expect("its own");
    }
    folder
}

/// Starts a scenario with these events for bare marks and no other setting.
fn start(scenario: &str, folder: &Path, events: &str) -> Output {
    let mut command = Command::new(env::current_exe().expect("known"));
    set_up(&mut command, folder);
    command.env(SCENARIO, scenario).env(FOLDER, folder).env("PERFMARK_EVENTS", events);
    // Only scenarios that need the libraries wait for their build.
    if scenario.starts_with("libraries") {
        libraries::set_up(&mut command, scenario);
    }
    run_to_end(&mut command)
}

/// Sets a JSON report in that folder, and no other setting.
pub(crate) fn set_up(command: &mut Command, folder: &Path) {
    // With `PERFMARK_SAMPLE=499`, all trials are sampled.
    let is_kept = |name: &OsString| name == FULL || name == "PERFMARK_SAMPLE";
    let is_perfmarks = |name: &OsString| !is_kept(name) && name.to_string_lossy().starts_with("PERFMARK");
    for (variable, _) in env::vars_os().filter(|(name, _)| is_perfmarks(name)) {
        command.env_remove(variable);
    }
    command.env("RUST_BACKTRACE", "0").env("PERFMARK_OUTPUT", folder.join("report")).env("PERFMARK_FORMAT", "json");
}

/// Runs the program to its end. Kills it with its children if it hangs.
pub(crate) fn run_to_end(command: &mut Command) -> Output {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    child::run_to_end(command, Duration::from_secs(300))
}
