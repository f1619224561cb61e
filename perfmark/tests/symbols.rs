//! Names of samples: lines of the marked function, from the program or its separate debug information.
//!
//! The scenario is this program, started again, or a copy of it without debug information.

mod program;
mod project;
#[path = "../../perfmark-rdpmc/tests/support/mod.rs"]
mod support;

use std::collections::BTreeMap;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::{env, fs, process};

use perfmark::symbols::Symbols;
use perfmark::{Format, HotLine, Report, Sampling, Snapshot, SourceText, perfmark};
use program::{Folder, SCENARIO, assert_code, scenario_of};

/// The line of the first loop; the second one is in the next line.
const FIRST: u32 = line!() + 5;
#[perfmark(time)]
#[inline(never)]
fn two_loops(times: u64) {
    // The lines of `spin` are not those of this function, into which it is inlined.
    spin(3 * times);
    spin(7 * times);
}

#[allow(clippy::inline_always, reason = "the test is about inlined code")]
#[inline(always)]
fn spin(times: u64) {
    let (mut left, mut bits) = (times, 1_u64);
    while left > 0 {
        bits = (bits << 1) ^ (bits >> 3) ^ left;
        left -= 1;
    }
    black_box(bits);
}

/// Its time is in a function that another one calls. Both are compiled as functions by every compiler.
#[perfmark(time)]
#[inline(never)]
fn calls_another(times: u64) {
    black_box(called(times));
}

#[inline(never)]
fn called(times: u64) -> u64 {
    black_box(computes(times)) + 1
}

#[inline(never)]
fn computes(times: u64) -> u64 {
    spin(10 * times);
    times
}

/// Its time is in functions of the standard library, with 4 KiB of buffers on the stack, and in the closure.
#[perfmark(time)]
#[inline(never)]
fn sorts(numbers: &mut [u64]) {
    numbers.sort_by_key(|number| number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    black_box(numbers);
}

/// Calls a function of a library that is opened by a relative path, in another directory than the current one.
#[perfmark(time)]
fn in_library(times: u64) {
    static SPIN: OnceLock<extern "C" fn(u64) -> u64> = OnceLock::new();
    let spin = SPIN.get_or_init(|| {
        // SAFETY: the library has a function of that name and type, and runs no code when it is opened.
        let spin = unsafe { libc::dlsym(libc::dlopen(c"./libspin.so".as_ptr(), libc::RTLD_NOW), c"spin".as_ptr()) };
        assert!(!spin.is_null(), "in the library");
        env::set_current_dir("/").expect("set");
        // SAFETY: as above.
        unsafe { std::mem::transmute::<*mut libc::c_void, extern "C" fn(u64) -> u64>(spin) }
    });
    black_box(spin(times));
}

/// Repeats the work until there are enough samples for shares, however late the thread is sampled.
fn until_sampled(work: fn()) {
    let taken = || perfmark::snapshot().samples.iter().map(perfmark::Samples::taken).sum::<u64>();
    while taken() < 400 {
        (0..10).for_each(|_| work());
    }
}

fn main() {
    match env::var(SCENARIO).as_deref() {
        Ok("library") => return until_sampled(|| in_library(10_000)),
        Ok("sorts") => return until_sampled(|| sorts(&mut (0..20_000).collect::<Vec<_>>())),
        Ok("callees") => return until_sampled(|| calls_another(10_000)),
        Ok(_) => return until_sampled(|| two_loops(10_000)),
        Err(_) => {}
    }
    if let Err(why) = Sampling::new().start() {
        return println!("skipped: {why}");
    }
    let folder = Folder::new("symbols");
    let own = env::current_exe().expect("a path");
    let named = sample(&own, "loops", &folder.0.join("own.json"));
    if lines(&named).is_empty() {
        return println!("skipped: this program was built without debug information: {:?}", named.notes);
    }
    let tests: &[(&str, fn())] = &[
        ("lines_are_those_of_the_marked_function_with_their_shares", lines_are_of_the_marked_function),
        ("time_in_called_functions_is_at_the_line_of_the_call", time_in_callees),
        ("a_stack_that_is_too_short_for_sort_by_key_has_its_outermost_line", time_in_sort_by),
        ("a_stripped_program_is_named_from_its_separate_debug_information", a_stripped_program_is_named),
        ("debug_information_of_another_build_is_refused", another_build_is_refused),
        ("a_stripped_program_has_the_functions_of_its_separate_symbols", separate_symbols),
        ("a_file_does_not_name_another_module_without_a_build_id", without_build_ids),
        ("a_program_that_the_loader_starts_has_its_own_name_and_lines", started_by_the_loader),
        ("a_library_of_a_relative_path_has_lines_after_the_program_changes_its_directory", relative_library),
        ("a_library_without_rust_and_without_debug_information_is_no_problem", library_without_lines),
        ("packed_debug_information_beside_the_program_has_inlined_functions", packed),
    ];
    support::run(tests.iter().map(|&(name, test)| support::trial(name, test)).collect(), &[])
}

/// The report of a sampled run of the program.
fn sample(program: &Path, scenario: &str, report: &Path) -> Snapshot {
    assert_code(&scenario_of(program, scenario, &settings(report)), 0);
    read(report)
}

fn settings(report: &Path) -> [(&'static str, &str); 4] {
    let report = report.to_str().expect("UTF-8");
    let format = [("PERFMARK_FORMAT", "json"), ("PERFMARK_SOURCES", "embed")];
    [("PERFMARK_SAMPLE", "1999"), format[0], format[1], ("PERFMARK_OUTPUT", report)]
}

fn read(report: &Path) -> Snapshot {
    serde_json::from_slice(&fs::read(report).expect("written")).expect("a report")
}

/// The samples at each line of `two_loops`.
fn lines(snapshot: &Snapshot) -> BTreeMap<u32, u64> {
    let mark = snapshot.marks.iter().position(|mark| mark.name == "two_loops");
    let lines = snapshot.hot_lines(&snapshot.samples[0], mark).into_iter().filter(|line| line.is_own);
    lines.filter_map(|line| Some((line.frame.line?, line.samples))).collect()
}

/// Checks the shares, up to five standard errors.
#[track_caller]
fn check(snapshot: &Snapshot) {
    let lines = lines(snapshot);
    let of = |line| lines.get(&line).copied().unwrap_or(0) as f64;
    let (first, all) = (of(FIRST), lines.values().sum::<u64>() as f64);
    println!("{lines:?}");
    let error = (0.3 * 0.7 / all).sqrt();
    let lost = snapshot.samples[0].lost;
    if cfg!(debug_assertions) || lost > 0 {
        println!("shares are not checked: this is a build without optimization, or samples were lost: {lost}");
    } else {
        assert!((first / all - 0.3).abs() < 5.0 * error + 0.02, "{lines:?}");
    }
    assert!(first + of(FIRST + 1) > 0.9 * all, "{lines:?}");
}

fn lines_are_of_the_marked_function() {
    let folder = Folder::new("symbols-lines");
    let snapshot = sample(&env::current_exe().expect("a path"), "loops", &folder.0.join("report.json"));
    check(&snapshot);
    let table = Report::new(&snapshot).to_string();
    let line = format!("perfmark/tests/symbols.rs:{}  spin(7 * times);\n", FIRST + 1);
    assert!(table.contains(&line) && table.contains(" ± "), "{table}");
    let embedded = |text: &&SourceText| text.lines.iter().any(|line| line == "    spin(7 * times);");
    let text = snapshot.sources.iter().find(embedded).expect("embedded");
    // At the earliest, it begins with the attribute, whose code may have a sample.
    assert!((FIRST - 4..=FIRST + 1).contains(&text.line) && text.file.ends_with("tests/symbols.rs"), "{text:?}");
    // As a report in JSON, and read back, it is the same.
    let json = Report::new(&snapshot).format(Format::Json).to_string();
    assert_eq!(serde_json::from_str::<Snapshot>(&json).expect("a report"), snapshot);
}

fn time_in_callees() {
    let folder = Folder::new("symbols-callees");
    let snapshot = sample(&env::current_exe().expect("a path"), "callees", &folder.0.join("report.json"));
    let mark = snapshot.marks.iter().position(|mark| mark.name == "calls_another");
    let lines = snapshot.hot_lines(&snapshot.samples[0], mark);
    let sum = |counted: fn(&HotLine) -> u64| lines.iter().map(counted).sum::<u64>() as f64;
    let (all, own) = (sum(|line| line.samples), sum(|line| if line.is_own { line.samples } else { 0 }));
    println!("{own} of {all} samples, {} of them in callees", sum(|line| line.in_callees));
    assert!(own >= 0.9 * all && sum(|line| line.in_callees) >= 0.9 * all, "{lines:?}");
}

fn time_in_sort_by() {
    let folder = Folder::new("symbols-sort");
    let snapshot = sample(&env::current_exe().expect("a path"), "sorts", &folder.0.join("report.json"));
    let mark = snapshot.marks.iter().position(|mark| mark.name == "sorts");
    let lines = snapshot.hot_lines(&snapshot.samples[0], mark);
    let sum = |counts: fn(&HotLine) -> bool| {
        lines.iter().filter(|line| counts(line)).map(|line| line.samples).sum::<u64>() as f64
    };
    let [all, cut, own] = [sum(|_| true), sum(|line| line.is_cut), sum(|line| line.is_own)];
    println!("{cut} of {all} samples are at outermost lines, {own} at lines of the mark");
    assert!(cut > 0.0 && cut + own >= 0.9 * all, "{lines:?}");
    // A few are in what sorting allocates.
    let of_sort = sum(|line| line.is_cut && line.frame.function.contains("sort"));
    assert!(of_sort >= 0.9 * cut, "{of_sort} in functions of sorting: {lines:?}");
}

/// A copy of this program without debug information, which is in a file of its own.
fn stripped(folder: &Folder) -> [PathBuf; 2] {
    let own = env::current_exe().expect("a path");
    let (program, debug) = (folder.0.join("app"), folder.0.join("debug"));
    fs::create_dir(&debug).expect("made");
    let debug = debug.join("app.debug");
    for [option, to] in [["--only-keep-debug", debug.to_str().expect("UTF-8")], ["--strip-all", ""]] {
        let to = if to.is_empty() { program.as_path() } else { Path::new(to) };
        assert_code(&Command::new("objcopy").arg(option).arg(&own).arg(to).output().expect("binutils"), 0);
    }
    [program, debug]
}

fn a_stripped_program_is_named() {
    let folder = Folder::new("symbols-stripped");
    let [program, debug] = stripped(&folder);
    let unnamed = sample(&program, "loops", &folder.0.join("report.json"));
    assert!(lines(&unnamed).is_empty());
    let table = Report::new(&unnamed).width(200).to_string();
    assert!(!table.contains("symbols.rs:"), "{table}");
    assert!(table.contains("lines of samples in ") && table.contains("/app ("), "{table}");
    let samples = &unnamed.samples[0];
    let module = samples.modules.iter().find(|module| Path::new(&module.path) == program).expect("the program");
    let id = module.build_id.clone().expect("a build id");
    let named_by = |place: &Path| {
        let mut snapshot = unnamed.clone();
        let problems = Symbols::new().search(place).name(&mut snapshot);
        assert!(problems.iter().all(|problem| problem.module() != module), "{problems:?}");
        check(&snapshot);
        snapshot
    };
    let named = named_by(&debug);
    assert_eq!(named_by(debug.parent().expect("a folder")), named);
    let by_id = folder.0.join("by-id/.build-id").join(&id[..2]);
    fs::create_dir_all(&by_id).expect("made");
    fs::rename(&debug, by_id.join(format!("{}.debug", &id[2..]))).expect("moved");
    assert_eq!(named_by(&folder.0.join("by-id")), named);
    // The file to which the program has a link, beside it.
    let beside = folder.0.join("app.debug");
    fs::copy(by_id.join(format!("{}.debug", &id[2..])), &beside).expect("copied");
    let link = format!("--add-gnu-debuglink={}", beside.display());
    assert_code(&Command::new("objcopy").arg(link).arg(&program).output().expect("binutils"), 0);
    assert_eq!(named_by(&folder.0.join("by-id/none")), named);
    check(&sample(&program, "loops", &folder.0.join("report.json")));
}

fn another_build_is_refused() {
    let folder = Folder::new("symbols-refused");
    let [program, debug] = stripped(&folder);
    let mut snapshot = sample(&program, "loops", &folder.0.join("report.json"));
    let samples = &mut snapshot.samples[0];
    let module = samples.modules.iter_mut().find(|module| Path::new(&module.path) == program).expect("the program");
    let id = module.build_id.replace("6c01".into()).expect("a build id");
    let problems = Symbols::new().search(&debug).name(&mut snapshot);
    let problem = problems.iter().map(ToString::to_string).find(|why| why.contains("app (")).expect("a problem");
    let why = format!("{} is another build: build id {id}, sampled 6c01", debug.display());
    assert!(problem.contains(&why), "{problem}");
    assert!(lines(&snapshot).is_empty());
    println!("{} {problem}", process::id());
}

/// A program in C, whose function `work` is at that address.
fn in_c(folder: &Folder, option: &str) -> (PathBuf, u64) {
    let [source, full] = [folder.0.join("app.c"), folder.0.join("app.full")];
    fs::write(&source, "int work(int n) { return n + 1; }\nint main(void) { return work(-1); }\n").expect("written");
    let mut compiler = Command::new("cc");
    let compiler = compiler.args(["-g0", option, "-o"]).args([&full, &source]);
    assert_code(&compiler.output().expect("a C compiler"), 0);
    let names = Command::new("nm").arg(&full).output().expect("binutils").stdout;
    let names = String::from_utf8(names).expect("UTF-8");
    let line = names.lines().find(|line| line.ends_with(" work")).expect("a function");
    let address = line.split(' ').next().expect("an address");
    (full, u64::from_str_radix(address, 16).expect("a number"))
}

/// The functions of one sample in each module, and the problems.
fn names(symbols: &Symbols, modules: &[(&Path, Option<&str>)], address: u64) -> (Vec<String>, Vec<String>) {
    let mut samples = perfmark::Samples::default();
    let mut path = perfmark::SampledPath::default();
    for (at, (file, build_id)) in modules.iter().enumerate() {
        let mut module = perfmark::Module::default();
        (module.path, module.build_id) = (file.to_str().expect("UTF-8").into(), build_id.map(str::to_owned));
        samples.modules.push(module);
        let mut location = perfmark::Location::default();
        (location.module, location.address) = (at, address);
        samples.locations.push(location);
        let mut stack = perfmark::SampledStack::default();
        (stack.locations, stack.samples) = (vec![at], 1);
        path.stacks.push(stack);
        path.samples += 1;
    }
    samples.paths.push(path);
    let mut snapshot = Snapshot::default();
    snapshot.samples.push(samples);
    let problems = symbols.name(&mut snapshot).iter().map(ToString::to_string).collect();
    let samples = &snapshot.samples[0];
    let function = |&at: &usize| samples.frames[at].function.clone();
    let functions = samples.locations.iter().flat_map(|location| location.frames.iter().map(function));
    (functions.collect(), problems)
}

fn separate_symbols() {
    let folder = Folder::new("symbols-functions");
    let (full, address) = in_c(&folder, "-Wl,--build-id=0x6c01ab");
    let [own, debug] = [folder.0.join("app"), folder.0.join("app.debug")];
    for (option, to) in [("--only-keep-debug", &debug), ("--strip-all", &own)] {
        assert_code(&Command::new("objcopy").arg(option).args([&full, to]).output().expect("binutils"), 0);
    }
    let named = |symbols: &Symbols| names(symbols, &[(&own, Some("6c01ab"))], address).0;
    assert_eq!(named(&Symbols::new()), [""; 0]);
    assert_eq!(named(&Symbols::new().search(&debug)), ["work"]);
    assert_eq!(named(&Symbols::new().search(&own).search(&debug)), ["work"]);
    let link = format!("--add-gnu-debuglink={}", debug.display());
    assert_code(&Command::new("objcopy").arg(link).arg(&own).output().expect("binutils"), 0);
    assert_eq!(named(&Symbols::new()), ["work"]);
}

fn without_build_ids() {
    let folder = Folder::new("symbols-without-id");
    let (full, address) = in_c(&folder, "-Wl,--build-id=none");
    let modules = ["/nowhere/app.full", "/nowhere/libother.so"].map(|path| (Path::new(path), None));
    let (functions, problems) = names(&Symbols::new().search(&full), &modules, address);
    assert_eq!(functions, ["work"]);
    let [own, other] = &problems[..] else { panic!("{problems:?}") };
    let unchecked = format!("so it is unknown whether {} is the same build", full.display());
    assert!(own.starts_with("/nowhere/app.full (50 %") && own.contains(&unchecked), "{own}");
    let why = format!("without a build id, {} must have the name of the sampled file", full.display());
    assert!(other.starts_with("/nowhere/libother.so (50 %") && other.contains(&why), "{other}");
}

fn started_by_the_loader() {
    let maps = fs::read_to_string("/proc/self/maps").expect("read");
    let files = maps.lines().filter_map(|line| Some(&line[line.find('/')?..]));
    let is_loader = |file: &&str| file.rsplit('/').next().is_some_and(|name| name.starts_with("ld-"));
    let Some(loader) = files.into_iter().find(is_loader) else { return println!("skipped: there is no loader") };
    let own = env::current_exe().expect("a path");
    let folder = Folder::new("symbols-loader");
    let [report, relative] = [folder.0.join("report.json"), folder.0.join("app")];
    fs::hard_link(&own, &relative).or_else(|_| fs::copy(&own, &relative).map(|_| ())).expect("linked");
    let mut command = program::command(Path::new(loader), "loops", &settings(&report));
    assert_code(&command.arg("./app").current_dir(&folder.0).output().expect("started"), 0);
    let snapshot = read(&report);
    assert_eq!(snapshot.program, "app");
    let paths: Vec<&Path> = snapshot.samples[0].modules.iter().map(|module| Path::new(&module.path)).collect();
    assert!(paths.contains(&&*fs::canonicalize(relative).expect("there")), "{paths:?}");
    check(&snapshot);
}

fn relative_library() {
    let snapshot = with_library("symbols-library", "-g");
    let frames = &snapshot.samples[0].frames;
    let is_there = |frame: &perfmark::Frame| frame.function == "spin" && frame.line == Some(3);
    assert!(frames.iter().any(is_there), "{:?}\n{:?}", snapshot.notes, snapshot.samples[0].modules);
}

fn library_without_lines() {
    let snapshot = with_library("symbols-without-lines", "-g0");
    let is_there = |frame: &perfmark::Frame| frame.function == "spin" && frame.line.is_none();
    assert!(snapshot.samples[0].frames.iter().any(is_there), "{:?}", snapshot.samples[0].modules);
    assert!(!snapshot.notes.iter().any(|note| note.contains("libspin.so")), "{:?}", snapshot.notes);
}

/// The report of a program whose time is in a library, which is compiled with this option.
fn with_library(folder: &str, option: &str) -> Snapshot {
    let folder = Folder::new(folder);
    let [source, report] = [folder.0.join("spin.c"), folder.0.join("report.json")];
    let text = "unsigned long spin(unsigned long n) {\n volatile unsigned long sum = 0;\n while (n--) sum += n;\n \
                return sum;\n}\n";
    fs::write(&source, text).expect("written");
    let mut compiler = Command::new("cc");
    let compiler = compiler.args([option, "-shared", "-fPIC", "-Wl,--build-id", "-o", "libspin.so"]).arg(&source);
    assert_code(&compiler.current_dir(&folder.0).output().expect("a C compiler"), 0);
    let own = env::current_exe().expect("a path");
    let mut command = program::command(&own, "library", &settings(&report));
    assert_code(&command.current_dir(&folder.0).output().expect("started"), 0);
    read(&report)
}

/// Builds this program again, with its debug information in a file beside it.
fn packed() {
    if env::var_os("PERFMARK_TEST_FULL").is_none() {
        return println!("skipped: it takes long; PERFMARK_TEST_FULL=1 runs it");
    }
    let here = project::here();
    let manifest = format!(
        "{}\n[dependencies]\nlibc = \"0.2\"\nlibtest-mimic = \"0.8\"\nserde_json = \"1\"\n\
         perfmark-rdpmc = {{ path = '{}' }}\n\
         perfmark = {{ path = '{}', features = [\"json\", \"sampling\", \"serde\", \"symbols\"] }}\n\n\
         [profile.dev]\nsplit-debuginfo = \"packed\"\n\n[workspace]\n",
        project::package("packed", "2024", "[[bin]]", &here.join("tests/symbols.rs")),
        here.join("../perfmark-rdpmc").display(),
        here.display(),
    );
    let Some(mut cargo) = project::cargo("packed", &[("", manifest)]) else { return };
    let target = project::target_folder("packed-target");
    cargo.env("CARGO_TARGET_TMPDIR", &target);
    assert_code(&cargo.args(["build", "--quiet", "--target-dir"]).arg(&target).output().expect("cargo runs"), 0);
    let folder = Folder::new("symbols-packed");
    check(&sample(&target.join("debug/packed"), "loops", &folder.0.join("report.json")));
}
