//! `perfmark report`: formats, merging, filters, and the files that it reads and writes.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;
use std::process::{Command, Stdio};

use perfmark::text::sanitize;
use perfmark::{Format, Report, Snapshot};
use serde_json::{Value, json};

use super::command::{answer, assert_contains, document, is_empty, perfmark, running, stderr, stdout};
use super::program::{ending, terminal, text};
use super::sample::{self, Folder, mark, real, report, snapshot, table, values};

pub(super) const TESTS: &[(&str, fn())] = &[
    ("a_report_is_printed_as_the_program_would_print_it", a_report_is_printed_as_by_the_program),
    ("bencher_gets_what_a_call_of_each_mark_costs", bencher_gets_what_a_call_costs),
    ("several_reports_are_merged_exactly_or_printed_one_by_one", several_reports_are_merged_exactly),
    ("each_is_accepted_only_with_formats_that_can_hold_several_reports", each_is_accepted_only_with_some_formats),
    ("options_are_refused_with_formats_that_ignore_them", options_are_refused_with_formats_that_ignore_them),
    ("variables_for_tables_are_the_defaults_of_options", variables_are_the_defaults_of_options),
    ("a_table_has_colours_on_a_terminal_that_supports_them", a_table_has_colours_on_a_terminal),
    ("zero_columns_are_as_no_columns", zero_columns_are_as_no_columns),
    ("stdin_is_read_only_once", stdin_is_read_only_once),
    ("a_report_is_read_from_stdin_and_written_to_a_file", a_report_is_read_from_stdin_and_written_to_a_file),
    ("a_file_is_replaced_also_through_a_link_and_a_device_is_written_to", a_file_is_replaced),
    ("another_users_link_in_a_shared_directory_is_not_followed", another_users_link_is_not_followed),
    ("marks_are_selected_by_a_filter_and_one_that_matches_none_is_reported", marks_are_selected_by_a_filter),
    ("a_file_that_is_not_a_report_is_reported_with_a_remedy", a_file_that_is_not_a_report_is_reported),
    ("a_truncated_report_is_never_accepted", a_truncated_report_is_never_accepted),
    ("a_closed_pipe_is_not_a_failure", a_closed_pipe_is_not_a_failure),
    ("settings_in_the_environment_do_not_overwrite_the_file_that_is_read", settings_overwrite_no_file),
];

fn a_report_is_printed_as_by_the_program() {
    let folder = Folder::new("cli-shown");
    let (file, snapshot) = real(&folder, "a.json");
    assert_eq!(stdout(&["report", &file], 0), table(&snapshot));
    assert_eq!(stdout(&["report", &file, "--format", "json"], 0), fs::read_to_string(&file).expect("there"));
    assert_eq!(stdout(&["report", &file, "--width", "130"], 0), Report::new(&snapshot).width(130).to_string());
    for name in Format::names() {
        let format = name.parse().expect("named");
        assert_eq!(stdout(&["report", &file, "--format", name], 0), Report::new(&snapshot).format(format).to_string());
    }
    assert_contains(&stderr(&["report", &file, "--format", "xml"], 2), &["invalid value 'xml'", "table, json"]);
}

fn bencher_gets_what_a_call_costs() {
    let folder = Folder::new("cli-bencher");
    let parse = mark("parse", vec![values("instructions", &[10, 20, 33]), values("time", &[100, 200, 900])]);
    let never_called = mark("print", vec![values("instructions", &[])]);
    let file = folder.report("a.json", &snapshot(vec![parse, mark("read", vec![values("time", &[7])]), never_called]));
    let metrics =
        |arguments: &[&str]| -> Value { document(&[&["report", &file, "--format", "bencher"], arguments].concat(), 0) };
    let read = json!({"latency": {"value": 7.0}});
    let parse = json!({"instructions": {"value": 21.0}, "latency": {"value": 200.0}});
    assert_eq!(metrics(&[]), json!({"parse": parse, "read": read}));
    assert_eq!(metrics(&["--marks", "read"]), json!({"read": read}));
}

fn several_reports_are_merged_exactly() {
    let folder = Folder::new("cli-merged");
    let (mut files, mut merged) = (Vec::new(), Snapshot::default());
    for n in 0..3 {
        let (file, snapshot) = real(&folder, &format!("{n}.json"));
        files.push(file);
        merged.merge(&snapshot);
    }
    let [one, two, three] = [0, 1, 2].map(|n| files[n].as_str());
    let output = answer(&["report", one, two, three], 0);
    assert_eq!(text(&output.stdout), table(&merged));
    let merged_by = "merged 3 reports; program and process number are those of the first";
    assert_contains(text(&output.stderr), &[merged_by, "--each shows each"]);
    assert_eq!(stdout(&["report", "--format", "json", one, two, three], 0), sample::json(&merged));
    let for_one = stderr(&["report", "--format", "csv", one, two, three], 0);
    assert!(for_one.ends_with("the time is the longest\n"), "--each is refused for csv: {for_one}");
    let each = stdout(&["report", "--each", one, two], 0);
    assert_contains(&each, &[&format!("==> {one} <=="), &format!("==> {two} <==")]);
    let work = merged.marks.iter().find(|mark| mark.name == "work").expect("called");
    assert_eq!(work.calls, 3);
}

fn each_is_accepted_only_with_some_formats() {
    let folder = Folder::new("cli-each");
    let (one, two) = (report(&[("parse", 1000)]), report(&[("print", 2000)]));
    let (first, second) = (folder.report("a.json", &one), folder.report("b.json", &two));
    let documents = stdout(&["report", "--each", "--format", "json", &first, &second], 0);
    assert_eq!(documents, sample::json(&one) + &sample::json(&two));
    let both = folder.file("both.json", documents);
    let each = stdout(&["report", "--each", &both], 0);
    let heads = [1, 2].map(|number| format!("==> {both} · {number} of 2 <==\n"));
    assert_eq!(each, format!("{}{}\n{}{}", heads[0], table(&one), heads[1], table(&two)));
    let page = stdout(&["report", "--each", "--format", "html", &first, &second], 0);
    let names = format!("[{first:?},{second:?}]");
    let runs = page.split_once("id=\"runs\">").expect("the names").1.split_once("</script>").expect("their end").0;
    assert_eq!(runs.split_whitespace().collect::<String>(), names);
    for name in Format::names().filter(|name| !["table", "markdown", "json", "html"].contains(name)) {
        let why = [&*format!("--each: the format {name} does not support it; these do: table, markdown, json, html")];
        assert_contains(&stderr(&["report", "--each", "--format", name, &first, &second], 2), &why);
        let never_made = folder.0.join("made");
        let made = never_made.to_str().expect("UTF-8");
        assert_contains(&stderr(&["run", "--each", "--format", name, "--", "touch", made], 2), &why);
        assert!(!never_made.exists(), "the program did not start");
    }
}

fn options_are_refused_with_formats_that_ignore_them() {
    let folder = Folder::new("cli-ignored");
    let file = folder.report("a.json", &report(&[("parse", 1000)]));
    let samples = "folded-samples, pprof, firefox";
    for (option, formats) in [
        ("--width=90", "table"),
        ("--top=5", "table, markdown"),
        ("--lines=5", "table, markdown"),
        ("--sort=total", "table, markdown, csv"),
        ("--details", "table, markdown"),
        ("--symbols", &format!("table, markdown, json, html, {samples}")),
        ("--event=time", samples),
        ("--embed-sources", "json"),
    ] {
        let supports = |name: &str| formats.split(", ").any(|format| format == name);
        for name in Format::names().chain(samples.split(", ")).chain(["bencher"]).filter(|name| !supports(name)) {
            let name_of_option = option.split('=').next().expect("one");
            let why = format!("{name_of_option}: the format {name} does not support it; these do: {formats}");
            assert_eq!(stderr(&["report", &file, "--format", name, option], 2), format!("perfmark: {why}\n"));
        }
        for name in Format::names().filter(|name| supports(name)) {
            stdout(&["report", &file, "--format", name, option], 0);
        }
    }
}

fn variables_are_the_defaults_of_options() {
    let folder = Folder::new("cli-variables");
    let file = folder.report("a.json", &report(&[("parse", 1000), ("print", 2000)]));
    let with = |variable: &str, value: &str, options: &[&str], status: i32| {
        let output = perfmark(&[&["report", &file], options].concat()).env(variable, value).output().expect("started");
        assert_eq!(output.status.code(), Some(status), "{}", ending(&output));
        text(if status == 0 { &output.stdout } else { &output.stderr }).to_owned()
    };
    for (variable, value, option) in [
        ("PERFMARK_TOP", " 0", "--top=0"),
        ("PERFMARK_LINES", "all", "--lines=all"),
        ("PERFMARK_DETAILS", "on", "--details"),
        ("PERFMARK_DETAILS", "parse", "--details=parse"),
    ] {
        assert_eq!(with(variable, value, &[], 0), stdout(&["report", &file, option], 0), "{variable}={value}");
        with(variable, "a=every:0", &["--format", "json"], 0);
    }
    assert_eq!(with("PERFMARK_TOP", "0", &["--top=20"], 0), stdout(&["report", &file], 0));
    assert_eq!(with("PERFMARK_DETAILS", "off", &[], 0), stdout(&["report", &file], 0));
    assert_eq!(with("PERFMARK_DETAILS", "on", &["--details=off"], 0), stdout(&["report", &file], 0));
    let wrong = with("PERFMARK_TOP", "al", &[], 2);
    assert_eq!(wrong, "perfmark: PERFMARK_TOP=al: expected a number or `all`\n");
}

/// What a command prints on a terminal that is its stdout and stderr.
fn on_terminal(mut command: Command) -> String {
    let (mut ours, theirs) = terminal(0).expect("a terminal");
    let mut child = command.stdout(theirs.try_clone().expect("cloned")).stderr(theirs).spawn().expect("started");
    // Closes the command's own copies of the descriptors.
    drop(command);
    let mut shown = Vec::new();
    // The last read fails with EIO.
    _ = ours.read_to_end(&mut shown);
    let status = child.wait().expect("ended");
    assert!(status.success(), "{status}: {}", text(&shown));
    text(&shown).replace("\r\n", "\n")
}

fn a_table_has_colours_on_a_terminal() {
    let folder = Folder::new("cli-colours");
    let snapshot = report(&[("parse", 1000)]);
    let file = folder.report("a.json", &snapshot);
    let to = |mut command: Command, term: &str, no_color: &str| {
        command.env("TERM", term).env("NO_COLOR", no_color);
        on_terminal(command)
    };
    let coloured = Report::new(&snapshot).color(true).to_string();
    assert_ne!(coloured, table(&snapshot));
    assert_eq!(to(perfmark(&["report", &file]), "xterm", ""), coloured);
    assert_eq!(to(perfmark(&["report", &file, "-o", "-"]), "xterm", ""), coloured);
    assert_eq!(to(perfmark(&["report", &file]), "dumb", ""), table(&snapshot));
    assert_eq!(to(perfmark(&["report", &file]), "xterm", "1"), table(&snapshot));
    assert!(to(running(&folder, &[], "calls"), "xterm", "").contains("\u{1b}["));
}

fn zero_columns_are_as_no_columns() {
    let folder = Folder::new("cli-columns");
    let file = folder.report("a.json", &report(&[(&"long_name_".repeat(11), 1_000)]));
    let printed = |columns: &str| {
        let output = perfmark(&["report", &file]).env("COLUMNS", columns).output().expect("started");
        text(&output.stdout).to_owned()
    };
    assert_eq!(printed("0"), printed(""));
    assert_ne!(printed("0"), printed("90"));
}

fn stdin_is_read_only_once() {
    for arguments in [&["diff", "-", "-"][..], &["diff", "-", "a", "--head", "-"], &["report", "-", "-"]] {
        assert_contains(&stderr(arguments, 2), &["`-` is given twice, but stdin can be read only once"]);
    }
}

fn a_report_is_read_from_stdin_and_written_to_a_file() {
    let folder = Folder::new("cli-stdin");
    let snapshot = report(&[("parse", 1000)]);
    let file = folder.report("a.json", &snapshot);
    let output = perfmark(&["report", "-"]).stdin(File::open(&file).expect("there")).output().expect("started");
    assert_eq!(text(&output.stdout), table(&snapshot));
    // Several reports in one file.
    let twice = folder.file("b.json", sample::json(&snapshot).repeat(2));
    let mut merged = snapshot.clone();
    merged.merge(&snapshot);
    assert_eq!(stdout(&["report", &twice], 0), table(&merged));
    let to = folder.0.join("to-%p");
    assert_eq!(stdout(&["report", &file, "-o", to.to_str().expect("UTF-8")], 0), "");
    let written = fs::read_dir(&folder.0).expect("there").flatten().find(|entry| {
        let name = entry.file_name().into_string().expect("UTF-8");
        name.strip_prefix("to-").is_some_and(|pid| pid.parse::<u32>().is_ok())
    });
    assert_eq!(fs::read_to_string(written.expect("written").path()).expect("read"), table(&snapshot));
    let unwritten = stderr(&["report", &file, "-o", "/nowhere/at/all"], 2);
    assert_contains(&unwritten, &["writing /nowhere/at/all: No such file"]);
}

fn marks_are_selected_by_a_filter() {
    let folder = Folder::new("cli-filter");
    let file = folder.report("a.json", &report(&[("parse", 1000), ("print", 2000)]));
    let shown = stdout(&["report", &file, "--marks", "app::parse"], 0);
    assert!(shown.contains("parse") && !shown.contains("print"), "{shown}");
    for (typed, suggestion) in [("app::prase", "; did you mean parse?"), ("zzz", "")] {
        let why = format!("perfmark: --marks {typed}: no mark matches{suggestion}\n");
        assert_eq!(stderr(&["report", &file, "--marks", typed], 2), why);
        assert_eq!(stderr(&["diff", &file, &file, "--marks", typed], 2), why);
    }
    let by_name = stdout(&["report", &file, "--marks", "parse", "--details"], 0);
    assert!(by_name.contains("\ndetails ") && !by_name.contains("print"), "{by_name}");
    let top = stdout(&["report", &file, "--top", "0", "--sort", "calls"], 0);
    assert_contains(&top, &["and 2 more marks", "Sorted by calls."]);
    let wrong = stderr(&["report", &file, "--marks", "x=every:0"], 2);
    assert_contains(&wrong, &["`every:0`: expected a number from 1 to"]);
}

fn a_closed_pipe_is_not_a_failure() {
    let folder = Folder::new("cli-pipe");
    let marks = (0..2000).map(|n| mark(&format!("f{n}"), vec![values("time", &[n + 1; 3])])).collect();
    let file = folder.report("a.json", &snapshot(marks));
    let mut child =
        perfmark(&["report", &file]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("ended");
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""), "{}", output.status);
}

fn settings_overwrite_no_file() {
    let folder = Folder::new("cli-settings");
    let snapshot = report(&[("parse", 1000)]);
    let file = folder.report("a.json", &snapshot);
    let output = perfmark(&["report", &file])
        .envs([("PERFMARK_OUTPUT", &*file), ("PERFMARK_FORMAT", "json"), ("PERFMARK_DUMP_INTERVAL", "60")])
        .output()
        .expect("started");
    assert_eq!(text(&output.stdout), table(&snapshot));
    assert_eq!(fs::read_to_string(&file).expect("there"), sample::json(&snapshot));
}

fn a_file_is_replaced() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let folder = Folder::new("cli-files");
    let snapshot = report(&[("parse", 1000)]);
    let file = folder.report("a.json", &snapshot);
    let write = |to: &Path| stdout(&["report", &file, "-o", to.to_str().expect("UTF-8")], 0);
    let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o7777;
    let [fresh, kept, link, other] = ["fresh", "kept", "link", "other"].map(|name| folder.0.join(name));
    // SAFETY: no other test creates files whose mode matters.
    unsafe { libc::umask(0o022) };
    write(&fresh);
    assert_eq!((fs::read_to_string(&fresh).expect("written"), mode(&fresh)), (table(&snapshot), 0o644));
    fs::write(&kept, "a longer text than the report: ".repeat(1000)).expect("written");
    fs::set_permissions(&kept, fs::Permissions::from_mode(0o4600)).expect("its owner may");
    // A reader of the old file still sees the old text.
    fs::hard_link(&kept, &other).expect("linked");
    write(&kept);
    assert_eq!((fs::read_to_string(&kept).expect("written"), mode(&kept)), (table(&snapshot), 0o600));
    assert!(fs::read_to_string(&other).expect("there").starts_with("a longer text"));
    symlink("other", &link).expect("linked");
    let mut reader = File::open(&other).expect("there");
    write(&link);
    assert_eq!(fs::read_to_string(&other).expect("there"), table(&snapshot));
    assert!(io::read_to_string(&mut reader).expect("read").starts_with("a longer text"));
    assert!(link.is_symlink());
    fs::remove_file(&other).expect("there");
    write(&link);
    assert_eq!(fs::read_to_string(&other).expect("made"), table(&snapshot));
    assert_eq!(write(Path::new("/dev/stdout")), table(&snapshot));
    assert_eq!(fs::read_dir(&folder.0).expect("there").count(), 5, "no draft is left");
}

fn another_users_link_is_not_followed() {
    use std::os::unix::fs::{PermissionsExt as _, lchown, symlink};
    const NOBODY: u32 = 65534;
    // SAFETY: it takes no arguments and always succeeds.
    if unsafe { libc::geteuid() } != 0 {
        return eprintln!("not run: only root can create another user's link");
    }
    let folder = Folder::new("cli-shared");
    let file = folder.report("a.json", &report(&[("parse", 1000)]));
    let [shared, elsewhere] = ["shared", "elsewhere"].map(|name| folder.0.join(name));
    fs::create_dir(&shared).expect("made");
    fs::create_dir(&elsewhere).expect("made");
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o1777)).expect("its owner may");
    // At the end of a path, and on the way.
    for (name, target) in [("link", elsewhere.join("file")), ("way", elsewhere.clone())] {
        let link = shared.join(name);
        symlink(target, &link).expect("linked");
        lchown(&link, Some(NOBODY), None).expect("root may");
        let to = if name == "way" { link.join("file") } else { link };
        let printed = stderr(&["report", &file, "-o", to.to_str().expect("UTF-8")], 2);
        assert_contains(&printed, &["is a symbolic link of user 65534 in a world-writable directory"]);
    }
    assert!(is_empty(&elsewhere));
}

fn a_file_that_is_not_a_report_is_reported() {
    let folder = Folder::new("cli-wrong");
    let good = sample::json(&report(&[("parse", 1000)]));
    for (name, content, why) in [
        ("empty", String::new(), "is empty"),
        ("cut", good[..good.len() / 2].into(), "is truncated"),
        ("table", table(&report(&[("parse", 1000)])), "is a report in the format `table`, not JSON"),
        ("text", "hello\n".into(), "is not a JSON report"),
        ("other", "{\"a\": 1}".into(), "is JSON, but not a perfmark report"),
        ("list", "[1, 2]".into(), "is JSON, but not a perfmark report"),
        (
            "newer",
            good.replace("\"schema\": 2", "\"schema\": 3"),
            concat!("has schema 3, but perfmark ", env!("CARGO_PKG_VERSION"), " reads schema 2; install the version"),
        ),
        (
            // Schema 1 had no weights and no rows for unwound calls.
            "older",
            good.replace("\"schema\": 2", "\"schema\": 1").replace("\"weight\":100,", ""),
            concat!("has schema 1, but perfmark ", env!("CARGO_PKG_VERSION"), " reads schema 2; an older version"),
        ),
        (
            "no field",
            good.replace("\"every\":1,", ""),
            "is damaged, or is not a report of schema 2 (missing field `every`",
        ),
        (
            // Drafts of schema 2 had at most one kind of samples.
            "samples null",
            good.replace("\"samples\": []", "\"samples\": null"),
            "is damaged, or is not a report of schema 2 (invalid type: null, expected a sequence",
        ),
        (
            "samples object",
            good.replace("\"samples\": []", "\"samples\": {\"event\": \"cpu-clock\", \"paths\": []}"),
            "write it again, with this version of perfmark in the program",
        ),
        // What an escape sequence in its name would do to a terminal.
        ("\u{1b}[2J", String::new(), "\u{fffd}[2J is empty"),
        ("altered", good.replace("[1000,1000,100]", "[1000,999,100]"), "is damaged"),
        ("negative", good.replace("\"calls\":100", "\"calls\":-1"), "is damaged"),
        ("deep", format!("{{\"a\":{}", "[".repeat(1_000_000)), "is truncated"),
        ("deep list", "[".repeat(1_000_000), "is JSON, but not a perfmark report"),
        ("two and a half", format!("{good}{good}{}", &good[..99]), "is truncated"),
    ] {
        let file = folder.file(name, content);
        let printed = stderr(&["report", &file], 2);
        assert_contains(&printed, &[why, &format!("perfmark: {} ", sanitize(&file))]);
        assert_contains(&stderr(&["diff", &file, &file], 2), &[why]);
    }
    for bytes in [&b"\xff\xfe\0\0"[..], b"\0", b"\x1f\x8b\x08\x00"] {
        assert_contains(&stderr(&["report", &folder.file("bytes", bytes)], 2), &["is not a JSON report"]);
    }
    let large = folder.file("large", "");
    File::options().write(true).open(&large).expect("there").set_len((1 << 30) + 1).expect("sparse");
    assert_contains(&stderr(&["report", &large], 2), &["larger than 1024 MiB, the limit for reports"]);
    let directory = stderr(&["report", folder.0.to_str().expect("UTF-8")], 2);
    assert_contains(&directory, &["is a directory; name the reports in it"]);
    assert_contains(&stderr(&["report", "/nowhere"], 2), &["/nowhere: No such file or directory"]);
}

fn a_truncated_report_is_never_accepted() {
    let folder = Folder::new("cli-cuts");
    let good = sample::json(&report(&[("parse", 1000)]));
    let whole = good.trim_end().len();
    for length in (0..whole).step_by(37).chain([whole - 1]) {
        let file = folder.file("cut", &good[..length]);
        assert_contains(&stderr(&["report", &file], 2), &[if length == 0 { "is empty" } else { "is truncated" }]);
    }
}
