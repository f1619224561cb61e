//! Names of samples: lines of the marked function, from the program or its separate debug information.
//!
//! The scenario is this program, started again, or a copy of it without debug information.

#[cfg(all(feature = "json", feature = "sampling", feature = "serde", feature = "symbols", target_os = "linux"))]
mod program;
#[cfg(all(feature = "json", feature = "sampling", feature = "serde", feature = "symbols", target_os = "linux"))]
#[path = "../../perfmark-rdpmc/tests/support/mod.rs"]
mod support;

#[cfg(not(all(feature = "json", feature = "sampling", feature = "serde", feature = "symbols", target_os = "linux")))]
fn main() {
    println!("skipped: it requires Linux and the features json, sampling, serde and symbols");
}

#[cfg(all(feature = "json", feature = "sampling", feature = "serde", feature = "symbols", target_os = "linux"))]
fn main() {
    linux::main();
}

#[cfg(all(feature = "json", feature = "sampling", feature = "serde", feature = "symbols", target_os = "linux"))]
mod linux {
    use std::collections::BTreeMap;
    use std::hint::black_box;
    use std::path::{Path, PathBuf};
    use std::process::Command;
    use std::{env, fs, process};

    use perfmark::symbols::Symbols;
    use perfmark::{Format, HotLine, Report, Sampling, Snapshot, perfmark};

    use crate::program::{SCENARIO, assert_code, scenario_of};
    use crate::support;

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

    /// Repeats the work until there are enough samples for shares, however late the thread is sampled.
    fn until_sampled(work: fn()) {
        let taken = || perfmark::snapshot().samples.iter().map(perfmark::Samples::taken).sum::<u64>();
        while taken() < 400 {
            (0..10).for_each(|_| work());
        }
    }

    pub(super) fn main() {
        match env::var(SCENARIO).as_deref() {
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
            ("a_stripped_program_is_named_from_its_separate_debug_information", a_stripped_program_is_named),
            ("debug_information_of_another_build_is_refused", another_build_is_refused),
        ];
        support::run(tests.iter().map(|&(name, test)| support::trial(name, test)).collect(), &[])
    }

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = crate::program::file(name);
            _ = fs::remove_dir_all(&path);
            fs::create_dir(&path).expect("made");
            Self(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            _ = fs::remove_dir_all(&self.0);
        }
    }

    /// The report of a sampled run of the program.
    fn sample(program: &Path, scenario: &str, report: &Path) -> Snapshot {
        let report = report.to_str().expect("UTF-8");
        let settings = [("PERFMARK_SAMPLE", "1999"), ("PERFMARK_FORMAT", "json"), ("PERFMARK_OUTPUT", report)];
        let output = scenario_of(program, scenario, &settings);
        assert_code(&output, 0);
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
        if cfg!(not(debug_assertions)) {
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
}
