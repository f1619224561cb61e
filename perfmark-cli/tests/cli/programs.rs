//! `perfmark run`: exit status, signals, and the reports of a program's processes.

use std::fs::{self, File};
use std::io::Write as _;

use perfmark::Snapshot;

use super::command::{assert_contains, is_empty, running, start_until_ready, stderr, unshare};
use super::program::{assert_code, ending, terminal, text};
use super::sample::Folder;

pub(super) const TESTS: &[(&str, fn())] = &[
    ("the_reports_of_all_processes_are_merged", the_reports_of_all_processes_are_merged),
    ("processes_with_equal_pids_keep_separate_reports", processes_with_equal_pids_keep_separate_reports),
    ("reports_from_several_pid_namespaces_are_merged", reports_from_several_pid_namespaces_are_merged),
    ("run_exits_as_the_program_does", run_exits_as_the_program_does),
    ("a_program_without_a_report_leaves_no_older_report_in_its_file", no_older_report_is_left_in_the_file),
    ("reports_that_cannot_be_printed_are_kept", reports_that_cannot_be_printed_are_kept),
    ("a_signal_reaches_the_program_and_its_report_is_printed", a_signal_reaches_the_program),
    ("ctrl_c_ends_the_program_and_its_report_follows", ctrl_c_ends_the_program_and_its_report_follows),
    ("sigint_from_a_process_gives_a_report_and_leaves_other_actions_alone", sigint_from_a_process_gives_a_report),
    ("a_process_that_still_runs_is_reported", a_process_that_still_runs_is_reported),
    ("nothing_but_the_running_process_is_reported", nothing_but_the_running_process_is_reported),
    ("settings_for_a_program_are_checked_and_passed_on", settings_for_a_program_are_passed_on),
];

fn the_reports_of_all_processes_are_merged() {
    let folder = Folder::new("cli-processes");
    let output = running(&folder, &["--format", "json"], "children").output().expect("started");
    assert_code(&output, 7);
    assert_eq!(text(&output.stdout), "what the program says\n");
    let all = text(&output.stderr);
    assert_contains(all, &["merged 4 reports", "--each shows each"]);
    let merged: Snapshot = serde_json::from_str(&all[all.find('{').expect("JSON")..]).expect("a report");
    let calls = |name: &str| merged.marks.iter().find(|mark| mark.name == name).map(|mark| mark.calls);
    assert_eq!((calls("work"), calls("bare")), (Some(4), Some(3)));
    let output = running(&folder, &["--each"], "children").output().expect("started");
    assert_eq!(text(&output.stderr).matches("==> cli").count(), 4, "{}", text(&output.stderr));
    assert!(is_empty(&folder.0), "nothing is left behind");
    let file = folder.0.join("report");
    let output = running(&folder, &["-o", file.to_str().expect("UTF-8")], "calls").output().expect("started");
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""), "{}", output.status);
    assert!(fs::read_to_string(file).expect("written").contains("work"));
}

/// Calls of `work` in all processes and the number of reports, as `perfmark run` prints them.
fn merged_calls(folder: &Folder, scenario: &str) -> (u64, usize) {
    let output = running(folder, &["--format", "json"], scenario).output().expect("started");
    let printed = text(&output.stderr);
    assert_code(&output, 0);
    let (head, report) = printed.split_at(printed.find('{').expect("JSON"));
    let merged: Snapshot = serde_json::from_str(report).expect("a report");
    let reports = head.lines().find_map(|line| line.strip_prefix("perfmark: merged ")?.split_once(" reports;"));
    let work = merged.marks.iter().find(|mark| mark.name == "work").expect("called");
    (work.calls, reports.map_or(1, |(count, _)| count.parse().expect("a number")))
}

fn processes_with_equal_pids_keep_separate_reports() {
    let folder = Folder::new("cli-equal");
    assert_eq!(merged_calls(&folder, "leaves a report and becomes another program"), (2, 2));
    assert!(is_empty(&folder.0), "nothing is left behind");
}

fn reports_from_several_pid_namespaces_are_merged() {
    match unshare().arg("true").output() {
        Ok(output) if output.status.success() => {}
        Ok(output) => return eprintln!("not run: there are no new namespaces here: {}", text(&output.stderr).trim()),
        Err(why) => return eprintln!("not run: unshare: {why}"),
    }
    let folder = Folder::new("cli-namespaces");
    assert_eq!(merged_calls(&folder, "children in namespaces"), (4, 4));
}

fn run_exits_as_the_program_does() {
    let folder = Folder::new("cli-ends");
    let killed = running(&folder, &[], "killed").output().expect("started");
    assert_code(&killed, 128 + libc::SIGKILL);
    assert_contains(text(&killed.stderr), &["left no report: signal 9 ended it; set PERFMARK_DUMP_INTERVAL=1"]);
    // What is set for the program says nothing about this command.
    let dumped = running(&folder, &[], "killed").env("PERFMARK_DUMP_INTERVAL", "60").output().expect("started");
    assert!(!text(&dumped.stderr).contains("names no file"), "{}", ending(&dumped));
    let printed = stderr(&["run", "--", "true"], 0);
    assert_contains(&printed, &["true left no report: no marked function is linked into it", "or it is setuid or has"]);
    assert_contains(&stderr(&["run", "--", "/nowhere/program"], 127), &["/nowhere/program: No such file or directory"]);
    assert_contains(&stderr(&["run", "--", "/etc/passwd"], 126), &["/etc/passwd: Permission denied"]);
    assert_contains(&stderr(&["run"], 2), &["PROGRAM"]);
    let binary = stderr(&["run", "--format", "pprof", "--", "/nowhere/program"], 2);
    assert_contains(&binary, &["this format is binary; name a file with --output FILE"]);
    for misspelt in [&["--emulat", "--", "true"][..], &["--against", "true", "--fail_on", "time:3%", "--", "true"]] {
        assert_contains(&stderr(&[&["run"], misspelt].concat(), 2), &["unexpected argument '--"]);
    }
    for its_own in
        [&["--", "sh", "-c", "exit 3"][..], &["sh", "-c", "exit 3"], &["sh", "-c", "exit $#", "-", "1", "--each", "--"]]
    {
        stderr(&[&["run"], its_own].concat(), 3);
    }
    let off = running(&folder, &[], "calls").env("PERFMARK", "off").output().expect("started");
    assert_contains(&ending(&off), &["PERFMARK=off is set"]);
    let nowhere = running(&folder, &[], "calls").env("TMPDIR", "/nowhere").output().expect("started");
    assert_code(&nowhere, 125);
    assert_contains(text(&nowhere.stderr), &["set TMPDIR"]);
    for (file, why) in [
        ("/nowhere/report", "No such file"),
        ("/tmp", "is a directory"),
        ("/tmp/no-such-folder/", "the name of a file does not end with `/`"),
        ("/proc/report", ""),
    ] {
        let unwritable = running(&folder, &["-o", file], "children").output().expect("started");
        assert_eq!((unwritable.status.code(), text(&unwritable.stdout)), (Some(125), ""), "{}", ending(&unwritable));
        assert_contains(text(&unwritable.stderr), &[&format!("writing {file}: {why}")]);
    }
    assert!(is_empty(&folder.0));
}

fn no_older_report_is_left_in_the_file() {
    let folder = Folder::new("cli-older-report");
    let older = folder.file("report.json", "an older report");
    let run = |file: &str, program: &[&str]| stderr(&[&["run", "-o", file, "--"], program].concat(), 0);
    let printed = run(&older, &["true"]);
    assert_contains(&printed, &["true left no report: ", &format!("no report was written to {older}")]);
    assert_contains(&printed, &["the older file was removed"]);
    assert!(is_empty(&folder.0), "{printed}");
    let printed = run(&older, &["true"]);
    assert_contains(&printed, &[&format!("no report was written to {older}")]);
    assert!(!printed.contains("removed"), "{printed}");
    let link = folder.0.join("link");
    std::os::unix::fs::symlink(folder.file("report.json", "an older report"), &link).expect("linked");
    assert_contains(&run(link.to_str().expect("UTF-8"), &["true"]), &["the older file was removed"]);
    assert!(link.is_symlink() && !link.exists());
    fs::remove_file(link).expect("there");
    let device = run("/dev/null", &["true"]);
    assert!(!device.contains("removed"), "{device}");
    // A program that was not started.
    folder.file("report.json", "an older report");
    stderr(&["run", "-o", &older, "--", "/nowhere/program"], 127);
    assert_eq!(fs::read_to_string(&older).expect("kept"), "an older report");
    let killed = running(&folder, &["-o", &older], "killed").output().expect("started");
    assert_code(&killed, 128 + libc::SIGKILL);
    assert!(is_empty(&folder.0), "{}", ending(&killed));
}

fn reports_that_cannot_be_printed_are_kept() {
    for (options, scenario, status, why) in [
        (&["--marks", "nosuch"][..], "calls", 125, "no mark matches"),
        (&["--marks", "nosuch"], "children", 7, "no mark matches"),
        (&["-o", "/dev/full"], "calls", 125, "writing /dev/full"),
        (&["--format", "json"], "calls", 125, ""),
        (&[], "writes half a report", 125, "1 report could not be read"),
        (&[], "writes half a report only", 125, "1 report could not be read"),
    ] {
        let folder = Folder::new("cli-kept");
        let mut command = running(&folder, options, scenario);
        if why.is_empty() {
            command.stderr(File::options().write(true).open("/dev/full").expect("there"));
        }
        let output = command.output().expect("started");
        let printed = text(&output.stderr);
        assert_code(&output, status);
        let kept = fs::read_dir(&folder.0).expect("there").flatten().next().expect("kept").path();
        assert!(!is_empty(&kept));
        if !why.is_empty() {
            assert_contains(printed, &[why, &format!("the reports are kept as JSON in {}", kept.display())]);
        }
        assert!(!printed.contains("left no report"), "{printed}");
        assert_eq!(
            printed.contains("perfmark · cli"),
            scenario == "writes half a report",
            "readable reports are printed"
        );
    }
}

fn a_process_that_still_runs_is_reported() {
    let folder = Folder::new("cli-goes-on");
    let output = running(&folder, &[], "leaves a child running").output().expect("started");
    let pid = text(&output.stdout).trim();
    let directory = fs::read_dir(&folder.0).expect("there").flatten().next().expect("kept").path();
    let kept = format!("its last dump, if there was one; its report at exit will be in {}", directory.display());
    assert_contains(text(&output.stderr), &[&format!("1 process is still running: {pid} ("), "work", &kept]);
    // SAFETY: the process is the one that this test's program started.
    unsafe { libc::kill(pid.parse().expect("a number"), libc::SIGKILL) };
}

fn nothing_but_the_running_process_is_reported() {
    let folder = Folder::new("cli-only-goes-on");
    let output = running(&folder, &[], "only leaves a child running").output().expect("started");
    let printed = text(&output.stderr);
    // SAFETY: the process is the one that this test's program started.
    unsafe { libc::kill(text(&output.stdout).trim().parse().expect("a number"), libc::SIGKILL) };
    assert_contains(printed, &["1 process is still running"]);
    assert_eq!(printed.lines().count(), 1, "{printed}");
}

fn settings_for_a_program_are_passed_on() {
    let folder = Folder::new("cli-passed-on");
    let options = ["-e", "page-faults", "--filter", "*::bare", "--format", "json"];
    let output = running(&folder, &options, "calls").output().expect("started");
    assert_code(&output, 0);
    let report: Snapshot = serde_json::from_str(text(&output.stderr).trim()).expect("a report");
    let mark = |name: &str| report.marks.iter().find(|mark| mark.name == name).expect("listed");
    assert_eq!((mark("work").calls, mark("bare").calls), (0, 1));
    assert_eq!(mark("bare").values[0].event, "page-faults");
    // `perfmark run` leaves them to the program.
    let wrong = [("PERFMARK_OUTPUT", "/no/such/file"), ("PERFMARK_DUMP_INTERVAL", "often")];
    let output = running(&folder, &[], "calls").envs(wrong).output().expect("started");
    let printed = text(&output.stderr);
    let count = |name: &str| printed.matches(&format!("perfmark: {name}=")).count();
    assert_eq!(wrong.map(|(name, _)| count(name)), [0, 1], "{printed}");
    let unknown = stderr(&["run", "-e", "pagefaults", "true"], 2);
    assert_contains(&unknown, &["unknown event `pagefaults`; did you mean `page-faults`"]);
    assert_contains(&stderr(&["run", "--filter", "a=b=c", "true"], 2), &["--filter"]);
}

fn a_signal_reaches_the_program() {
    let folder = Folder::new("cli-signal");
    let child = start_until_ready(&mut running(&folder, &[], "waits"));
    // SAFETY: the process is the one that this test started.
    unsafe { libc::kill(child.id().cast_signed(), libc::SIGTERM) };
    let output = child.wait_with_output().expect("ended");
    // The program's own answer to the signal.
    assert_code(&output, libc::SIGTERM);
    assert_contains(text(&output.stderr), &["work"]);
}

fn ctrl_c_ends_the_program_and_its_report_follows() {
    use std::os::fd::AsRawFd as _;
    use std::os::unix::process::CommandExt as _;
    let folder = Folder::new("cli-ctrl-c");
    let (mut ours, theirs) = terminal(0).expect("a terminal");
    let terminal = theirs.as_raw_fd();
    let mut command = running(&folder, &[], "parks");
    command.stdin(theirs.try_clone().expect("cloned"));
    // SAFETY: it calls only setsid(2) and ioctl(2), so that Ctrl-C reaches both processes as at a terminal.
    unsafe {
        command.pre_exec(move || {
            assert!(libc::setsid() > 0 && libc::ioctl(terminal, libc::TIOCSCTTY, 0) == 0);
            Ok(())
        });
    }
    let child = start_until_ready(&mut command);
    ours.write_all(b"\x03").expect("written");
    let output = child.wait_with_output().expect("ended");
    assert_code(&output, 128 + libc::SIGINT);
    assert_contains(text(&output.stderr), &["perfmark · cli", "work"]);
    assert!(is_empty(&folder.0), "{}", ending(&output));
}

fn sigint_from_a_process_gives_a_report() {
    let folder = Folder::new("cli-sigint");
    for (scenario, setting, status, is_reported) in [
        ("parks", None, 128 + libc::SIGINT, true),
        ("parks", Some("end"), 128 + libc::SIGINT, false),
        // Empty is as unset, as in programs.
        ("parks", Some(""), 128 + libc::SIGINT, true),
        ("waits for SIGINT", None, libc::SIGINT, true),
        ("parks, forked", None, 0, true),
    ] {
        let mut command = running(&folder, &[], scenario);
        command.envs(setting.map(|setting| ("PERFMARK_ON_SIGINT", setting)));
        let child = start_until_ready(&mut command);
        if scenario != "parks, forked" {
            // SAFETY: the process is the one that this test started.
            unsafe { libc::kill(child.id().cast_signed(), libc::SIGINT) };
        }
        let output = child.wait_with_output().expect("ended");
        let printed = text(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{scenario}: {}", ending(&output));
        assert_eq!(printed.contains("perfmark · cli"), is_reported, "{scenario}: {printed}");
    }
}
