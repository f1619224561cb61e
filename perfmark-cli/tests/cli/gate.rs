//! `perfmark gate` in small repositories: what it compares, what it says when it cannot, and what it leaves behind.

use std::env;
use std::fs;
use std::process::{Command, Output};

use perfmark::{Read, Snapshot, Unit};

use super::command::{assert_contains, is_empty, perfmark};
use super::program::{assert_code, ending, text, unset_variables};
use super::sample::{Folder, mark, snapshot, values};

pub(super) const TESTS: &[(&str, fn())] = &[
    ("a_dearer_function_fails_the_gate_against_a_commit", a_dearer_function_fails_the_gate),
    ("a_gate_in_a_hook_of_git_leaves_the_index_alone", a_gate_in_a_hook_of_git_leaves_the_index_alone),
    ("a_base_without_the_program_or_marks_is_reported_and_not_compared", a_base_without_marks_is_not_compared),
    ("a_gate_with_nothing_to_judge_is_undecided_for_the_true_reason", a_gate_with_nothing_to_judge_is_undecided),
    ("a_gate_takes_empty_variables_as_unset", a_gate_takes_empty_variables_as_unset),
    ("a_gate_that_cannot_compare_says_why_and_leaves_nothing", a_gate_that_cannot_compare_says_why),
    ("a_signal_ends_the_gate_and_it_leaves_nothing", a_signal_ends_the_gate),
    ("baselines_are_kept_in_notes_for_each_program", baselines_are_kept_in_notes),
    ("baselines_of_other_packages_and_events_are_kept_apart", baselines_of_others_are_kept_apart),
    ("counts_of_different_origin_are_refused", counts_of_different_origin_are_refused),
];

/// Those that need QEMU's user-mode emulator.
pub(super) const IN_EMULATOR: &[(&str, fn())] = &[
    ("one_percent_more_instructions_in_a_real_program_fail_the_gate", one_percent_more_in_a_real_program_fails),
    ("a_gate_on_a_program_for_another_processor_says_so", a_program_for_another_processor_is_an_error),
];

/// A program that leaves this report, as a marked one does, without the time that perfmark takes to build.
const PROGRAM: &str = r#"
fn main() {
    let place = std::env::var("PERFMARK_OUTPUT").unwrap().replace("%p", "1").replace("%u", "1");
    std::fs::write(place, include_str!("../report.json")).unwrap();
}
"#;
const MANIFEST: &str = "[package]\nname = \"small\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n";

/// Counts that need no PMU and no emulator.
const EVENT: &str = "allocated_bytes";
const GATE: [&str; 2] = ["--fail-on", "allocated_bytes:1%"];

fn report(marks: &[(&str, u64)]) -> Snapshot {
    let mut report = snapshot(marks.iter().map(|&(name, each)| mark(name, vec![values(EVENT, &[each; 20])])).collect());
    report.events[0].name = EVENT.into();
    report
}

/// A repository with a commit, and the temporary folder of commands in it.
struct Repository {
    folder: Folder,
    temporary: Folder,
}

impl Repository {
    fn new(name: &str) -> Self {
        let folder = Folder::new(&format!("cli-gate-{name}"));
        folder.file("Cargo.toml", MANIFEST);
        folder.file("src/main.rs", PROGRAM);
        folder.file(".gitignore", "target/\n");
        let this = Self { folder, temporary: Folder::new(&format!("cli-gate-{name}-tmp")) };
        this.set_report(&report(&[("parse", 1_000), ("print", 500)]));
        this.git(&["init", "-q", "-b", "main"]);
        this.commit();
        this
    }

    fn set_report(&self, report: &Snapshot) {
        self.folder.report("report.json", report);
    }

    fn settings<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        unset_variables(command);
        for (variable, _) in env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("GIT_")) {
            command.env_remove(variable);
        }
        command.env_remove("CARGO_TARGET_DIR").env_remove("CARGO_BUILD_TARGET").env("CARGO_NET_OFFLINE", "true");
        command.current_dir(&self.folder.0).env("TMPDIR", &self.temporary.0).env("GIT_CONFIG_GLOBAL", "/dev/null")
    }

    #[track_caller]
    fn git(&self, arguments: &[&str]) -> String {
        let identity = ["-c", "user.name=test", "-c", "user.email=test@localhost"];
        let output = self.settings(Command::new("git").args(identity).args(arguments)).output().expect("git");
        assert_code(&output, 0);
        text(&output.stdout).into()
    }

    fn commit(&self) {
        self.git(&["add", "--all"]);
        self.git(&["commit", "-q", "-m", "a commit"]);
    }

    /// `perfmark gate`, which leaves no temporary files, and no checkout.
    #[track_caller]
    fn gate(&self, arguments: &[&str], status: i32) -> Output {
        self.gate_with(&[], arguments, status)
    }

    /// The same with these variables.
    #[track_caller]
    fn gate_with(&self, variables: &[(&str, &str)], arguments: &[&str], status: i32) -> Output {
        let mut command = perfmark(&["gate"]);
        self.settings(command.args(arguments)).env("GIT_COMMITTER_NAME", "test").env("GIT_AUTHOR_NAME", "test");
        command.env("GIT_COMMITTER_EMAIL", "test@localhost").env("GIT_AUTHOR_EMAIL", "test@localhost");
        let output = command.envs(variables.iter().copied()).output().expect("started");
        assert_code(&output, status);
        assert!(is_empty(&self.temporary.0), "{}", ending(&output));
        if self.folder.0.join(".git").exists() {
            assert_eq!(self.git(&["worktree", "list"]).lines().count(), 1);
        }
        output
    }

    #[track_caller]
    fn check(&self, arguments: &[&str], status: i32, parts: &[&str]) {
        let output = self.gate(&[&GATE, arguments].concat(), status);
        let printed = if status == 2 { &output.stderr } else { &output.stdout };
        assert_contains(text(printed), parts);
    }
}

fn a_dearer_function_fails_the_gate() {
    let repository = Repository::new("dearer");
    repository.check(&["--base", "main"], 0, &["✅ **perfmark**: 0 of 2 marks changed; the gate passed"]);
    repository.set_report(&report(&[("parse", 1_020), ("print", 500)]));
    let failed = ["❌ **perfmark**: 1 of 2 marks changed", "- parse: allocated\\_bytes per call rose by 2.0 %"];
    repository.check(&["--base", "main"], 1, &failed);
    repository.check(&["--base", "main", "--fail-on", "allocated_bytes:3%"], 1, &["1 of 2 gates failed"]);
    assert!(fs::exists(repository.folder.0.join("target/perfmark-gate/base")).expect("known"), "kept");
    repository.commit();
    repository.check(&["--base", "HEAD~1"], 1, &failed);
    repository.check(&["--base", "HEAD", "--times", "3"], 0, &["0 of 2 marks changed"]);
    // As cargo starts it.
    let mut command = Command::new(env!("CARGO_BIN_EXE_cargo-perfmark"));
    let arguments = ["perfmark", "gate", "--base", "HEAD~1", "--fail-on", "allocated_bytes:3%"];
    let output = repository.settings(command.args(arguments)).output().expect("started");
    assert_code(&output, 0);
}

fn a_gate_in_a_hook_of_git_leaves_the_index_alone() {
    let repository = Repository::new("hook");
    repository.set_report(&report(&[("parse", 900)]));
    repository.git(&["add", "report.json"]);
    // As git starts hooks.
    let absolute = repository.folder.0.join(".git/index");
    for index in [".git/index", absolute.to_str().expect("UTF-8")] {
        let variables = [("GIT_DIR", ".git"), ("GIT_INDEX_FILE", index)];
        repository.gate_with(&variables, &["--base", "HEAD", GATE[0], GATE[1]], 0);
        assert_eq!(repository.git(&["status", "--porcelain", "--untracked-files=no"]), "M  report.json\n");
    }
}

fn a_base_without_marks_is_not_compared() {
    let repository = Repository::new("first");
    repository.folder.file("examples/new.rs", PROGRAM);
    let parts = ["⚠️ **perfmark**: nothing was compared: base HEAD (", "no example `new`", "Merge this change first"];
    repository.check(&["--base", "HEAD", "--example", "new"], 3, &parts);
    repository.folder.file("Cargo.toml", format!("{MANIFEST}members = [\"member\"]\n"));
    repository.folder.file("member/Cargo.toml", "[package]\nname = \"member\"\nversion = \"0.0.0\"\n");
    repository.folder.file("member/src/main.rs", PROGRAM.replace("../report", "../../report"));
    repository.check(&["--base", "HEAD", "-p", "member"], 3, &["no package `member`", "Merge this change first"]);
    // A program that is new in its package, while another package has one.
    let [program, library] = ["src/main.rs", "src/lib.rs"].map(|file| repository.folder.0.join(file));
    fs::rename(&program, &library).expect("there");
    repository.commit();
    fs::rename(&library, &program).expect("there");
    repository.check(&["--base", "HEAD"], 3, &["no bin `small`", "Merge this change first"]);
    repository.folder.file("Cargo.toml", MANIFEST);
    repository.set_report(&snapshot(Vec::new()));
    repository.commit();
    repository.set_report(&report(&[("parse", 1_000)]));
    repository.check(&["--base", "HEAD"], 3, &["recorded no call of a mark"]);
    repository.folder.file("src/main.rs", "fn main() {}");
    repository.commit();
    repository.folder.file("src/main.rs", PROGRAM);
    repository.check(&["--base", "HEAD"], 3, &["recorded no call of a mark"]);
}

fn a_gate_with_nothing_to_judge_is_undecided() {
    let repository = Repository::new("nothing");
    let counted = |name: &str, read: Read, reason: &str| {
        let mut report = report(&[(name, 1_000)]);
        (report.events[0].read, report.events[0].reason) = (read, Some(reason.into()));
        repository.set_report(&report);
    };
    counted("old", Read::Emulated, "counted by QEMU 7.2.22");
    repository.commit();
    counted("new", Read::Emulated, "counted by QEMU 7.2.22");
    repository.check(&["--base", "HEAD"], 3, &["nothing to judge: no mark that both sides called records it"]);
    // The program started another one, which called the mark 20 times.
    let mut outside = report(&[]);
    let mut started = mark("old", vec![values(EVENT, &[1_000])]);
    (started.calls, started.values[0].unmeasured) = (21, 20);
    outside.marks.push(started);
    (outside.events[0].read, outside.events[0].reason) = (Read::Emulated, Some("counted by QEMU 7.2.22".into()));
    repository.set_report(&outside);
    repository.commit();
    let why = "old (base measured only 1 of 21 calls): calls in programs that an emulated one starts are not counted";
    repository.check(&["--base", "HEAD"], 3, &["no mark can be judged", why]);
    let mut none = snapshot(vec![mark("old", vec![values("time", &[1_000; 20])])]);
    none.events[0].name = "time".into();
    let mut event = report(&[]).events[0].clone();
    (event.read, event.reason) = (Read::None, Some("no counter here".into()));
    none.events.push(event);
    repository.set_report(&none);
    repository.commit();
    repository.check(&["--base", "HEAD"], 3, &["nothing to judge: no counter here"]);
    let mut time = report(&[("parse", 1_000)]);
    time.events[0].unit = Unit::Ns;
    repository.set_report(&time);
    repository.commit();
    let output = repository.gate(&["--base", "HEAD", "--fail-on", "allocated_bytes:5%"], 3);
    assert_contains(text(&output.stderr), &["with fewer than 3 runs on a side", "or `--times 5` without a baseline"]);
    assert!(!text(&output.stderr).contains("--allow-few-runs"), "{}", ending(&output));
}

fn a_gate_takes_empty_variables_as_unset() {
    let repository = Repository::new("empty");
    let check = "fn main() {\n    assert_eq!(std::env::var(\"PERFMARK_FILTER\").unwrap(), \"*=allocated_bytes\");";
    repository.folder.file("src/main.rs", PROGRAM.replace("fn main() {", check));
    repository.commit();
    for variable in ["PERFMARK_FILTER", "PERFMARK_EVENTS"] {
        repository.gate_with(&[(variable, "")], &["--base", "HEAD", GATE[0], GATE[1]], 0);
    }
}

fn a_gate_that_cannot_compare_says_why() {
    let repository = Repository::new("errors");
    let head = ["--base", "HEAD"];
    let check = |arguments: &[&str], parts: &[&str]| repository.check(arguments, 2, parts);
    let check_with = |name: &str, value: &str, parts: &[&str]| {
        let output = repository.gate_with(&[(name, value)], &["--base", "HEAD", GATE[0], GATE[1]], 2);
        assert_contains(text(&output.stderr), parts);
    };
    check(&["--base", "no-such-branch"], &["git knows no commit `no-such-branch`; fetch it first"]);
    check(&["--base", "HEAD", "--bench", "other"], &["the working directory has no bench `other`"]);
    check(&["--base", "HEAD", "--times", "0"], &["invalid value '0' for '--times <N>'"]);
    check(&["--baseline"], &["add --base REF"]);
    check(&["--base", "HEAD", "--baseline", "base.json"], &["--base has no meaning with --baseline FILE"]);
    check(&["--save", "--times", "5"], &["--save", "--times"]);
    check(&[], &["--base <REF>", "--baseline", "--save"]);
    check_with("PERFMARK_EVENTS", "time", &["PERFMARK_EVENTS=time lacks allocated_bytes", "unset the variable"]);
    let lacking = [("PERFMARK_EVENTS", "time,branch-misses:k")];
    let output = repository.gate_with(&lacking, &["--base", "HEAD", "--fail-on", "branch-misses:1%"], 2);
    assert_contains(text(&output.stderr), &["PERFMARK_EVENTS=time,branch-misses:k lacks branch-misses"]);
    check_with("PERFMARK_EVENTS", "time,cycels", &["PERFMARK_EVENTS: unknown event `cycels`"]);
    let unsaved = &["no report in refs/notes/perfmark", "`git fetch", "Save one by `perfmark gate --save`"];
    repository.check(&["--base", "HEAD", "--baseline"], 3, unsaved);
    check(&["--base", "HEAD", "--fail-on", "no_such_event:1%"], &["--fail-on", "no_such_event"]);
    check(&["--base", "HEAD", "--fail-on", "time:9%", "--emulate"], &["`perfmark run --against`"]);
    check(&["--base", "HEAD", "--fail-on", "cycles:9%", "--emulate"], &["--fail-on cycles: an emulator has no cycles"]);
    let lacks_emulator = |option: &str, why: &str| {
        let output = repository.gate_with(&[("PATH", "")], &["--base", "HEAD", option], 2);
        let told = format!("perfmark: {why}: qemu-{}: not found in PATH", env::consts::ARCH);
        assert!(text(&output.stderr).starts_with(&told), "{}", ending(&output));
    };
    lacks_emulator("--emulate", "--emulate");
    let counts = perfmark_rdpmc::support().trial.and_then(|trial| trial.instructions.ok());
    if !counts.is_some_and(|check| check.passes()) {
        let why = "no PMU counts instructions here (`perfmark doctor` says why), so an emulator is required";
        lacks_emulator("--fail-on=instructions:1%", why);
    }
    for event in [
        "time",
        "off_cpu",
        "on-cpu",
        "blocked",
        "preempted",
        "suspended",
        "cycles:u",
        "page_faults",
        "context-switches:k",
    ] {
        let (limit, why) = (format!("{event}:9%"), format!("--fail-on {event}: it varies from run to run"));
        check(&["--base", "HEAD", "--fail-on", &limit], &[&why, "--times 3 or more"]);
        check(&["--save", "--fail-on", &limit], &[&why]);
    }
    check(&["--base", "HEAD", "--times", "5", "--fail-on", "time:2%"], &["a rise by less than 3.3 %"]);
    check(&["--save", "/nowhere/base.json"], &["writing /nowhere/base.json: No such file"]);
    assert!(!repository.folder.0.join("target").exists(), "nothing was built");
    check_with("PERFMARK_FILTER", "*=cycels", &["PERFMARK_FILTER: ", "did you mean `cycles`"]);

    repository.folder.file("src/main.rs", "fn main() { std::process::exit(7) }");
    check(&head, &["head: ", "exit status: 7"]);
    repository.folder.file("src/main.rs", "fn main() {}");
    check(&head, &["head recorded no call of a mark; put #[perfmark] on a function"]);
    check_with("PERFMARK", "off", &["head recorded no call of a mark, because PERFMARK=off is set"]);
    repository.folder.file("src/main.rs", "fn main() { let n: u8 = \"text\"; }");
    check(&head, &["error[E0308]", "head: cargo build: exit status: 101"]);
    repository.commit();
    repository.folder.file("src/main.rs", PROGRAM);
    check(&head, &["error[E0308]", "base HEAD (", "cargo build: exit status: 101"]);

    fs::remove_dir_all(repository.folder.0.join(".git")).expect("there");
    check(&head, &["not a git repository", "run the gate in a git repository"]);
    fs::remove_file(repository.folder.0.join("Cargo.toml")).expect("there");
    check(&["--save", "file"], &["could not find `Cargo.toml`"]);
}

fn a_signal_ends_the_gate() {
    let repository = Repository::new("signal");
    let program = r#"
fn main() {
    let gate = std::os::unix::process::parent_id().to_string();
    std::process::Command::new("kill").args(["-TERM", &gate]).status().unwrap();
    loop {
        std::thread::park();
    }
}
"#;
    repository.folder.file("src/main.rs", program);
    repository.check(&["--base", "HEAD"], 2, &["head: ", "signal: 15"]);
    // A program that handles the signal and succeeds.
    let script = "trap 'exit 0' TERM; kill -TERM $PPID; while :; do :; done";
    let exec = format!(
        "_ = std::os::unix::process::CommandExt::exec(std::process::Command::new(\"sh\").args([\"-c\", {script:?}]));"
    );
    repository.folder.file("src/main.rs", PROGRAM.replace("\n}\n", &format!("\n{exec}\n}}\n")));
    repository.check(&["--base", "HEAD"], 2, &["head: ", "signal 15 came; nothing was compared"]);
}

fn baselines_are_kept_in_notes() {
    let repository = Repository::new("notes");
    repository.folder.file("examples/other.rs", PROGRAM.replace("../report", "report"));
    repository.folder.report("examples/report.json", &report(&[("other", 7)]));
    repository.check(&["--save"], 0, &[]);
    // Cargo.lock is new, and so is this.
    repository.commit();
    for program in ["--bin=small", "--example=other", "--bin=small"] {
        let output = repository.gate(&[&GATE[..], &[program, "--save"]].concat(), 0);
        assert!(!text(&output.stderr).contains("Overwriting"), "{}", ending(&output));
    }
    repository.set_report(&report(&[("parse", 1_020), ("print", 500)]));
    repository.check(&["--save", "notes"], 2, &["uncommitted changes", "report.json"]);
    repository.check(&["--base", "HEAD", "--baseline"], 1, &["- parse: allocated\\_bytes per call rose by 2.0 %"]);
    repository.check(&["--base", "HEAD", "--baseline", "notes", "--example=other"], 0, &["0 of 1 mark changed"]);
    let file = repository.folder.0.join("target/base.json");
    let file = file.to_str().expect("UTF-8");
    repository.check(&["--save", file], 0, &[]);
    repository.check(&["--baseline", file], 0, &["0 of 2 marks changed"]);
    repository.check(&["--baseline", file, "--fail-on", "allocated-bytes:1%"], 0, &["2 gates passed"]);
    let one = fs::read_to_string(file).expect("saved");
    let twice = repository.folder.file("target/twice.json", one.repeat(2));
    let refused = ["twice.json has 2 reports of small, but a baseline is one report; merge"];
    repository.check(&["--baseline", &twice], 2, &refused);
    repository.check(&["--baseline", file, "--example=other"], 3, &["has no report of `--example=other "]);
    let options =
        |profile: &str| format!("`--bin=small --package=small --profile={profile} --fail-on=allocated-bytes --");
    let (asked, saved) = (options("dev"), options("release"));
    let other = [&*format!("no report of {asked} 7`, but of {saved}`. Save one")];
    repository.check(&["--baseline", file, "--profile=dev", "--", "7"], 3, &other);
    // Another program of the same name.
    repository.folder.file("examples/small.rs", PROGRAM);
    repository.check(&["--baseline", file, "--example=small"], 3, &["no report of `--example=small"]);
    let events = ["no report of `", " --fail-on=allocated-bytes --fail-on=allocations --`, but of `"];
    repository.check(&["--baseline", file, "--fail-on", "allocations:1%"], 3, &events);
    // As `perfmark run` writes it.
    let mut plain = report(&[("parse", 1_000)]);
    plain.program = "small".into();
    let plain = repository.folder.report("target/plain.json", &plain);
    let lacks = ["plain.json has no allocations, which --fail-on limits; save it again"];
    repository.check(&["--baseline", &plain, "--fail-on", "allocations:1%"], 2, &lacks);
    // A note that cannot be read.
    repository.commit();
    repository.git(&["notes", "--ref=perfmark", "add", "-m", "{\"schema\": 1}"]);
    let output = repository.gate(&[&GATE[..], &["--save"]].concat(), 0);
    assert_contains(text(&output.stderr), &["the note of HEAD (", " has schema 1", "; the new report replaces it"]);
    repository.check(&["--base", "HEAD", "--baseline"], 0, &["0 of 2 marks changed"]);
}

fn baselines_of_others_are_kept_apart() {
    let repository = Repository::new("apart");
    repository.folder.file("Cargo.toml", format!("{MANIFEST}members = [\"member\"]\n"));
    for package in [".", "member"] {
        repository.folder.file(&format!("{package}/examples/other.rs"), PROGRAM);
        repository.folder.report(&format!("{package}/report.json"), &report(&[(package, 7)]));
    }
    repository.folder.file("member/Cargo.toml", "[package]\nname = \"member\"\nversion = \"0.0.0\"\n");
    repository.commit();
    repository.gate(&["--save", "--example=other", "-psmall", "--fail-on", "allocated-bytes:9%"], 0);
    repository.gate(&["--save", "--example=other", "-psmall", "--fail-on", "allocations:9%"], 0);
    for package in ["-psmall", "-pmember"] {
        repository.check(&["--save", "--example=other", package], 0, &[]);
    }
    let note = repository.git(&["notes", "--ref=perfmark", "show"]);
    assert_eq!(note.matches("saved by `perfmark gate`").count(), 3, "{note}");
    let member = ["--base", "HEAD", "--baseline", "--example=other", "-pmember"];
    repository.check(&member, 0, &["0 of 1 mark changed"]);
}

fn counts_of_different_origin_are_refused() {
    let repository = Repository::new("origin");
    let mut counted = report(&[("parse", 1_000)]);
    counted.program = "small".into();
    let mut instructions = counted.events[0].clone();
    instructions.name = "instructions".into();
    counted.events.push(instructions);
    repository.set_report(&counted);
    let event = counted.events.last_mut().expect("pushed");
    (event.read, event.reason) = (Read::Emulated, Some("counted by QEMU 7.2.22".into()));
    let file = repository.folder.report("base.json", &counted);
    let baseline = ["--baseline", &file];
    repository.check(&baseline, 2, &["of base were counted by QEMU 7.2.22, and those of head were counted by a PMU"]);
    counted.events.last_mut().expect("pushed").reason = Some("counted by QEMU 8.0.0".into());
    repository.set_report(&counted);
    repository.check(&baseline, 2, &["of head were counted by QEMU 8.0.0", "save the baseline again"]);
    repository.folder.report("base.json", &counted);
    repository.check(&baseline, 0, &["base and head: instructions: counted by QEMU 8.0.0"]);
}

fn a_program_for_another_processor_is_an_error() {
    let repository = Repository::new("processor");
    let program = r#"fn main() {
    let this = std::process::id().to_string();
    _ = std::process::Command::new("kill").args(["-ILL", &this]).status();
}
"#;
    repository.folder.file("src/main.rs", program);
    let why = ["head: ", "signal: 4", "nothing was compared; the emulated processor may lack an instruction"];
    repository.check(&["--base", "HEAD", "--emulate"], 2, &why);
}

/// Builds perfmark twice, which takes minutes.
fn one_percent_more_in_a_real_program_fails() {
    if env::var_os("PERFMARK_TEST_FULL").is_none() {
        return println!("skipped: it builds perfmark twice; PERFMARK_TEST_FULL=1 runs it");
    }
    let repository = Repository::new("real");
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    fs::copy(format!("{root}/Cargo.lock"), repository.folder.0.join("Cargo.lock")).expect("copied");
    let dependency = format!("[dependencies]\nperfmark = {{ path = \"{root}/perfmark\" }}\n");
    repository.folder.file("Cargo.toml", format!("{MANIFEST}\n{dependency}"));
    let program = |turns: u64| {
        let functions = [("changed", turns), ("steady", 10_000)].map(|(name, turns)| {
            format!("#[perfmark::perfmark(time)]\nfn {name}() {{ (0..{turns}u64).for_each(|n| _ = black_box(n)) }}\n")
        });
        let main = "fn main() { (0..20).for_each(|_| { changed(); steady() }) }\n";
        repository.folder.file("src/main.rs", format!("use std::hint::black_box;\n{}{main}", functions.concat()));
    };
    program(10_000);
    repository.commit();
    let gate = |arguments: &[&str], status: i32, parts: &[&str]| {
        let options = ["--emulate", "--profile", "dev", "--fail-on", "instructions:0.5%"];
        let output = repository.gate(&[&options, arguments].concat(), status);
        assert_contains(text(&output.stdout), parts);
    };
    let counted = "base and head: instructions: counted by QEMU";
    gate(&["--base", "HEAD"], 0, &["0 of 2 marks changed; the gate passed", counted]);
    program(10_100);
    gate(&["--base", "HEAD"], 1, &["1 of 2 marks changed", "- changed: instructions per call rose by 1.0 %", counted]);
}
