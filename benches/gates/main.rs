//! How often `perfmark run --against` errs: comparisons of a program with itself, and with ones that are 1, 3 and 5 %
//! slower.
//!
//! ```sh
//! cargo build --release -p perfmark-cli                 # the command line that is examined
//! cargo bench -p benches --bench gates                  # 20 and 5 comparisons each, on an idle and on a busy machine
//! cargo bench -p benches --bench gates -- --record      # 200 and 20 of each, about half an hour; writes to records/
//! cargo bench -p benches --bench gates -- --record busy # only on a busy machine: with a busy loop for each processor
//! ```

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Instant;
use std::{env, fs, io};

use benches::{record, table};
use serde_json::Value;

const WORKLOAD: &str = env!("CARGO_BIN_EXE_workload");
const GATE: &str = "time:2%";
/// How much slower the other programs are, in percent.
const RISES: [u32; 3] = [1, 3, 5];

fn main() -> ExitCode {
    if env::args().nth(1).is_some_and(|argument| argument == "loop") {
        spin();
    }
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("gates: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> io::Result<()> {
    let has = |name: &str| env::args().skip(1).any(|argument| argument == name);
    let is_recorded = has("--record");
    let (same, slower) = if is_recorded { (200, 20) } else { (20, 5) };
    let command_line = Path::new(WORKLOAD).with_file_name("perfmark");
    if !command_line.exists() {
        let why = format!("{} does not exist: cargo build --release -p perfmark-cli", command_line.display());
        return Err(io::Error::new(io::ErrorKind::NotFound, why));
    }
    let folder = env::temp_dir().join(format!("perfmark-gates-{}", std::process::id()));
    fs::create_dir(&folder)?;
    let link = |rise: u32| -> PathBuf { folder.join(format!("slower-{rise}")) };
    for rise in RISES {
        symlink(WORKLOAD, link(rise))?;
    }
    for name in ["idle", "busy"].into_iter().filter(|name| has(name) || !has("idle") && !has("busy")) {
        let cpus = std::thread::available_parallelism()?.get();
        let loops = Loops::start(if name == "busy" { cpus } else { 0 })?;
        let begin = (Instant::now(), load());
        let alike = Outcomes::of(&command_line, Path::new(WORKLOAD), same)?;
        let found = RISES.map(|rise| Outcomes::of(&command_line, &link(rise), slower));
        let found = found.into_iter().collect::<io::Result<Vec<_>>>()?;
        drop(loops);
        let body = text(&alike, &found, begin);
        println!("{name}\n\n{body}");
        if is_recorded {
            let with = if name == "busy" { "one busy loop for each CPU" } else { "no busy loops" };
            let title = format!("False alarms of gates, {with}: `cargo bench -p benches --bench gates -- --record`");
            println!("recorded in {}", record::write(&format!("gates-{name}"), &title, &body)?.display());
        }
    }
    fs::remove_dir_all(&folder)
}

/// Busy loops in other processes, until it is dropped.
struct Loops(Vec<Child>);

impl Loops {
    fn start(count: usize) -> io::Result<Self> {
        let program = env::current_exe()?;
        let one = |_| Command::new(&program).arg("loop").env("PERFMARK", "off").stdin(Stdio::null()).spawn();
        Ok(Self((0..count).map(one).collect::<io::Result<_>>()?))
    }
}

impl Drop for Loops {
    fn drop(&mut self) {
        for child in &mut self.0 {
            _ = child.kill();
            _ = child.wait();
        }
    }
}

/// Until the process that started it is gone.
fn spin() -> ! {
    let parent = std::os::unix::process::parent_id();
    while std::os::unix::process::parent_id() == parent {}
    std::process::exit(0)
}

/// The processes that were running or ready, on average in the last minute, 5 and 15 minutes (`proc_loadavg(5)`).
fn load() -> String {
    let all = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    all.split(' ').take(3).collect::<Vec<_>>().join(", ")
}

/// The outcomes of comparisons.
#[derive(Default)]
struct Outcomes {
    /// How many had this exit status.
    statuses: BTreeMap<i32, usize>,
    /// For `parse`: the smallest rise that would have been found, in percent; whether a rise was found; and whether the
    /// gate failed.
    parse: Vec<(f64, bool, bool)>,
    /// For each mark, the change and the smallest rise that would have been found, in percent.
    marks: BTreeMap<String, [Vec<f64>; 2]>,
    /// For each mark, how often it was not judged.
    not_judged: BTreeMap<String, usize>,
}

impl Outcomes {
    fn of(command_line: &Path, head: &Path, count: usize) -> io::Result<Self> {
        let mut outcomes = Self::default();
        for _ in 0..count {
            outcomes.add(command_line, head)?;
        }
        Ok(outcomes)
    }

    fn add(&mut self, command_line: &Path, head: &Path) -> io::Result<()> {
        let arguments = ["run", "--times", "10", "--format", "json", "--fail-on", GATE, "--against", WORKLOAD, "--"];
        let output = Command::new(command_line).args(arguments).arg(head).stderr(Stdio::null()).output()?;
        *self.statuses.entry(output.status.code().unwrap_or(-1)).or_default() += 1;
        let document: Value = serde_json::from_slice(&output.stdout)?;
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let gate = &document["gates"][0];
        let fails = list(&gate["failures"]).iter().any(|failure| failure["mark"] == "parse");
        for mark in list(&document["marks"]) {
            let name = mark["mark"].as_str().unwrap_or_default().to_owned();
            let event = &mark["events"][0];
            if name == "parse" {
                let least = event["smallest_rise_percent"].as_f64().unwrap_or(f64::INFINITY);
                self.parse.push((least, event["verdict"] == "more", fails));
            }
            let values = self.marks.entry(name).or_default();
            for (all, field) in values.iter_mut().zip(["change_percent", "smallest_rise_percent"]) {
                all.extend(event[field].as_f64());
            }
        }
        for mark in list(&gate["not_judged"]).iter().flat_map(|one| list(&one["marks"])) {
            *self.not_judged.entry(mark.as_str().unwrap_or_default().to_owned()).or_default() += 1;
        }
        Ok(())
    }

    fn count(&self) -> usize {
        self.statuses.values().sum()
    }

    fn row(&self, rise: u32) -> String {
        let is_detectable = |least: f64| least <= f64::from(rise);
        let count = |is_it: &dyn Fn(f64, bool, bool) -> bool| {
            self.parse.iter().filter(|&&(least, found, fails)| is_it(least, found, fails)).count()
        };
        format!(
            "| {rise} % | {} | {} | {} | {} | {} |\n",
            self.count(),
            count(&|least, _, _| is_detectable(least)),
            count(&|least, found, _| is_detectable(least) && found),
            count(&|least, found, _| !is_detectable(least) && found),
            count(&|_, _, fails| fails),
        )
    }

    fn with(&self, status: i32) -> usize {
        self.statuses.get(&status).copied().unwrap_or(0)
    }
}

fn text(same: &Outcomes, slower: &[Outcomes], (start, load_before): (Instant, String)) -> String {
    let mut text = format!(
        "`perfmark run --times 10 --fail-on {GATE}`; the workload has six marks; {} s; load average (1, 5, 15 min) {} \
         before, {} after.\n\n\
         The same program: {} of {} comparisons failed, {} could not be judged.\n\n\
         More work in `parse`: comparisons whose smallest detectable rise was at most this (`detectable`), how many of \
         these and of\nthe others found a rise, and gates that failed.\n\n\
         | more work | comparisons | detectable | of these, found | of the others, found | gates that failed |\n\
         |--:|--:|--:|--:|--:|--:|\n{}\n\
         The machine's spread, in the comparisons of the same program: the change that was measured, and the smallest \
         rise that\nwould have been found, in percent. `not judged`: comparisons in which that was more than the \
         gate's limit, or the mark too short.\n\n\
         | mark | change: median (quartiles) | largest | smallest rise: median (quartiles) | not judged |\n\
         |---|---|---|---|---|\n",
        start.elapsed().as_secs(),
        load_before,
        load(),
        same.with(1),
        same.count(),
        same.with(3),
        RISES.into_iter().zip(slower).map(|(rise, of)| of.row(rise)).collect::<String>(),
    );
    for (name, [changes, least]) in &same.marks {
        let largest = changes.iter().fold(0.0, |largest: f64, change| largest.max(change.abs()));
        let not_judged = same.not_judged.get(name).copied().unwrap_or(0);
        let (change, least) = (table::cell(changes, 2), table::cell(least, 2));
        _ = writeln!(text, "| `{name}` | {change} | {largest:.1} | {least} | {not_judged} |");
    }
    text
}
