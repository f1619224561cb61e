//! The trials: each fault with each ending, started in a folder of its own, and compared with what the program knows.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output, Stdio};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use std::{env, thread};

use libtest_mimic::{Failed, Trial};

use crate::crowds::FULL;
use crate::endings::{ENDINGS, Ending};
use crate::ledger::{FOLDER, Leaves, Ledger, read};
use crate::program::{SCENARIO, text};
use crate::{CHANGES, CROWDS, FAULTS, Fault, libraries, machine, support, versions};

/// Time, and four events that every machine has, which go by read(2).
const FOUR: &str = "time,page-faults,minor-faults,major-faults,task-clock";

pub(crate) fn run() -> ExitCode {
    // In the emulator programs take so long that each fault meets two endings only.
    let is_thin = support::is_emulated() && env::var_os(FULL).is_none();
    let crossed = |faults: &'static [Fault], test: fn(&Fault, &Ending) -> Result<(), String>| {
        let pairs = faults.iter().enumerate().flat_map(move |(n, fault)| {
            let is_in = move |at: usize| !is_thin || at == 0 || at == n % ENDINGS.len();
            ENDINGS.iter().enumerate().filter(move |(at, _)| is_in(*at)).map(move |(_, ending)| (fault, ending))
        });
        pairs.map(move |(fault, ending)| trial(format!("{}::{}", fault.name, ending.name), move || test(fault, ending)))
    };
    let crowds = CROWDS.iter().map(|fault| trial(fault.name.into(), || try_out(fault, &ENDINGS[0], FOUR)));
    let anywhere = crossed(FAULTS, |fault, ending| try_out(fault, ending, FOUR));
    let changes = crossed(CHANGES, |fault, ending| changing_the_machine(|| try_out(fault, ending, FOUR)));
    let versions = versions::ENDINGS
        .iter()
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

/// One at a time, where it is allowed.
fn changing_the_machine(test: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    static ONE: Mutex<()> = Mutex::new(());
    if let Some(why) = machine::missing() {
        println!("skipped: {why}");
        return Ok(());
    }
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    test()
}

/// Of a user whom the kernel lets count.
fn a_thousand_threads_with_counters() {
    const COUNTERS: &str = "time,instructions,cycles,r0008,r0011";
    let crowd = CROWDS.iter().find(|fault| fault.name == "a_thousand_threads_at_once").expect("there");
    changing_the_machine(|| machine::at_level("2", || try_out(crowd, &ENDINGS[0], COUNTERS)))
        .unwrap_or_else(|why| panic!("{why}"));
}

fn try_out(fault: &Fault, ending: &Ending, events: &str) -> Result<(), String> {
    let folder = new_folder(&format!("{}-{}", fault.name, ending.name));
    let output = start(&format!("{}/{}", fault.name, ending.name), &folder, events);
    let told = text(&output.stderr);
    print!("{}", text(&output.stdout));
    if !ending.status.is(output.status) {
        return Err(format!("{}, in {}: {told}", output.status, folder.display()));
    }
    let ledgers = compare(&folder, told).map_err(|why| format!("in {}, {why}\n{told}", folder.display()))?;
    if ledgers == 0 {
        return Err("nothing was written".into());
    }
    fs::remove_dir_all(&folder).map_err(|why| why.to_string())
}

/// Compares each process's ledger in the folder, and below it, with what it left. Gives how many there were.
fn compare(folder: &Path, told: &str) -> Result<usize, String> {
    let mut ledgers = 0;
    for entry in fs::read_dir(folder).map_err(|why| why.to_string())?.flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        if path.is_dir() {
            ledgers += compare(&path, told)?;
        }
        let Some(suffix) = name.to_str().and_then(|name| name.strip_prefix("ledger")) else { continue };
        let (ledger, report) = (Ledger::map(&path), folder.join(format!("report{suffix}")));
        match ledger.leaves() {
            Leaves::Report => {
                ledger.compare(&read(&report).or_else(|why| follows(told).ok_or(why))?)?;
                libraries::compare(folder)?;
            }
            Leaves::Dump => ledger.compare(&read(&folder.join(format!("dump{suffix}")))?)?,
            Leaves::Nothing => {}
        }
        if report.exists() != (ledger.leaves() == Leaves::Report) && follows(told).is_none() {
            return Err(format!("{}: it was to leave {:?}", report.display(), ledger.leaves()));
        }
        ledgers += 1;
    }
    Ok(ledgers)
}

/// The report on stderr, where it could not be written elsewhere.
fn follows(told: &str) -> Option<serde_json::Value> {
    let (_, report) = told.split_once("the report follows\n")?;
    serde_json::Deserializer::from_str(report).into_iter().next()?.ok()
}

pub(crate) fn new_folder(name: &str) -> PathBuf {
    static FOLDERS: AtomicU32 = AtomicU32::new(0);
    let (pid, number) = (std::process::id(), FOLDERS.fetch_add(1, Relaxed));
    let folder = env::temp_dir().join(format!("perfmark-faults-{pid}-{number}-{name}"));
    // For the program that this one may become.
    fs::create_dir_all(folder.join("next")).expect("a folder");
    // And for one that gives up its rights.
    for folder in [&folder, &folder.join("next")] {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o777)).expect("its own");
    }
    folder
}

/// Starts a scenario with these events of bare marks and no other setting.
fn start(scenario: &str, folder: &Path, events: &str) -> Output {
    let mut command = Command::new(env::current_exe().expect("known"));
    set_up(&mut command, folder);
    command.env(SCENARIO, scenario).env(FOLDER, folder).env("PERFMARK_EVENTS", events);
    // Only those wait for what is built that need it.
    if scenario.starts_with("libraries") {
        libraries::set_up(&mut command, scenario);
    }
    run_to_end(&mut command)
}

/// With a report as JSON in that folder, and no other setting.
pub(crate) fn set_up(command: &mut Command, folder: &Path) {
    let is_perfmarks = |name: &OsString| name != FULL && name.to_string_lossy().starts_with("PERFMARK");
    for (variable, _) in env::vars_os().filter(|(name, _)| is_perfmarks(name)) {
        command.env_remove(variable);
    }
    command.env("RUST_BACKTRACE", "0").env("PERFMARK_OUTPUT", folder.join("report")).env("PERFMARK_FORMAT", "json");
}

/// Ends the program with its children if it hangs.
pub(crate) fn run_to_end(command: &mut Command) -> Output {
    const HANGS: Duration = Duration::from_secs(300);
    let process = command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let process = process.expect("started");
    let group = libc::pid_t::try_from(process.id()).expect("small");
    let (ended, end) = mpsc::channel::<()>();
    let watch = thread::spawn(move || {
        if end.recv_timeout(HANGS) == Err(RecvTimeoutError::Timeout) {
            // SAFETY: ends processes of this test's.
            unsafe { libc::kill(-group, libc::SIGKILL) };
        }
    });
    let output = process.wait_with_output().expect("started");
    drop(ended);
    watch.join().expect("does not panic");
    output
}
