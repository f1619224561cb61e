//! Two versions of perfmark in one program, as cargo links them where crates require different ones. Each version
//! records for itself, and leaves a report of its own.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::endings::Status::{self, Code, Signal};
use crate::ledger::read;
use crate::program::text;
use crate::{libraries, project, trials};

/// The endings of `two_versions.rs`.
pub(crate) const ENDINGS: &[(&str, Status)] = &[
    ("main_returns", Code(0)),
    ("another_thread_exits", Code(3)),
    ("main_panics", Code(101)),
    (KILLED, Signal(libc::SIGKILL)),
];
const KILLED: &str = "killed_after_dumps";

/// Calls by their marks' names.
type Calls = BTreeMap<String, u64>;

pub(crate) fn try_out(ending: &str, status: Status) -> Result<(), String> {
    let Some(program) = program() else {
        println!("skipped: there is no cargo here to build a program with two versions");
        return Ok(());
    };
    let folder = trials::new_folder(&format!("two-versions-{ending}"));
    let mut command = Command::new(program);
    trials::set_up(&mut command, &folder);
    // It is built without samples.
    command.env_remove("PERFMARK_SAMPLE");
    if ending == KILLED {
        command.env("PERFMARK_DUMP_SIGNAL", "USR1");
    }
    let output = trials::run_to_end(command.arg(ending).current_dir(&folder));
    let stderr = text(&output.stderr);
    let is_silent = ending == "main_panics" || stderr.is_empty();
    if !status.is(output.status) || !is_silent {
        return Err(format!("{}, in {}: {stderr}", output.status, folder.display()));
    }
    compare(&folder).map_err(|why| format!("in {}, {why}\n{stderr}", folder.display()))?;
    fs::remove_dir_all(&folder).map_err(|why| why.to_string())
}

/// Compares what the process and its child called with what each version reports, in either order.
fn compare(folder: &Path) -> Result<(), String> {
    let names = fs::read_dir(folder).map_err(|why| why.to_string())?.flatten();
    let names: Vec<_> = names.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    let suffixes: Vec<_> = names.iter().filter_map(|name| name.strip_prefix("calls")).collect();
    let reports = names.iter().filter(|name| name.starts_with("report")).count();
    if suffixes.len() != 2 || reports != 4 {
        return Err(format!("two reports of a process and of its child: {names:?}"));
    }
    for suffix in suffixes {
        let calls = read(&folder.join(format!("calls{suffix}")))?;
        let calls: Calls = serde_json::from_value(calls).map_err(|why| why.to_string())?;
        let one = reported(&folder.join(format!("report{suffix}")))?;
        let another = reported(&folder.join(format!("report{suffix}.copy-2")))?;
        let both: Calls = one.clone().into_iter().chain(another.clone()).collect();
        if [one.len(), another.len()] != [1, 1] || both != calls {
            return Err(format!("{suffix}: {one:?} and {another:?}, of {calls:?}"));
        }
    }
    Ok(())
}

/// The calls in a report.
fn reported(report: &Path) -> Result<Calls, String> {
    let report = read(report)?;
    let marks = report["marks"].as_array().ok_or("no marks")?;
    let calls = marks.iter().map(|mark| Some((mark["name"].as_str()?.to_owned(), mark["calls"].as_u64()?)));
    calls.collect::<Option<_>>().ok_or_else(|| "no names, or no calls".into())
}

/// The program, built once. None without cargo.
fn program() -> Option<&'static Path> {
    static BUILT: OnceLock<Option<PathBuf>> = OnceLock::new();
    BUILT.get_or_init(build).as_deref()
}

fn build() -> Option<PathBuf> {
    // Not below the program's folder, where cargo would take it for a member of its workspace.
    let another = project::target_folder("another_version");
    let manifest = format!(
        "{}\n[dependencies]\nlibc = \"0.2\"\nperfmark = {{ path = '{}', features = [\"signal\"] }}\n\
         another = {{ package = \"perfmark\", path = '{}', features = [\"signal\"] }}\n\n[workspace]\n",
        project::package("two_versions", "2024", "[[bin]]", &project::here().join("tests/faults/two_versions.rs")),
        project::here().display(),
        another.join("perfmark").display(),
    );
    let mut cargo = project::cargo("two_versions", &[("", manifest)])?;
    make_another(&another);
    Some(libraries::built(cargo.arg("build")).join("two_versions"))
}

/// The three crates, unchanged except for the version: one that satisfies nobody who requires this one.
fn make_another(folder: &Path) {
    const CRATES: [&str; 3] = ["perfmark", "perfmark-macros", "perfmark-rdpmc"];
    let version = |line: &str| {
        let replace = |line: String, before: &str| {
            line.replace(&format!("{before}{}\"", env!("CARGO_PKG_VERSION")), &format!("{before}1000.0.0\""))
        };
        ["\"", "\"="].into_iter().fold(line.to_owned(), replace)
    };
    let root = project::here().join("..");
    _ = fs::remove_dir_all(folder);
    for name in CRATES {
        fs::create_dir_all(folder.join(name)).expect("a folder");
        for entry in fs::read_dir(root.join(name)).expect("a crate").flatten() {
            let target = folder.join(name).join(entry.file_name());
            if entry.file_name() == "Cargo.toml" {
                fs::copy(entry.path(), target).expect("a manifest");
            } else {
                symlink(entry.path(), target).expect("a link");
            }
        }
    }
    let manifest = fs::read_to_string(root.join("Cargo.toml")).expect("the workspace's");
    let line = |line: &str| {
        if line.starts_with("members = ") { format!("members = {CRATES:?}\n") } else { format!("{}\n", version(line)) }
    };
    fs::write(folder.join("Cargo.toml"), manifest.lines().map(line).collect::<String>()).expect("written");
}
