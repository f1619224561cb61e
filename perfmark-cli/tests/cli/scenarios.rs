//! The programs that the tests run.

use std::env;
use std::fs;
use std::hint::black_box;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, ExitCode, ExitStatus, Stdio};

use perfmark::{Format, Report, perfmark};

use super::command::{perfmark, this_program, unshare};
use super::program::SCENARIO;
use super::seccomp;

#[perfmark(time)]
fn work(n: u64) -> u64 {
    (0..n).map(black_box).sum()
}

#[perfmark]
fn bare() {
    black_box(());
}

pub(super) fn run(scenario: &str) -> ExitCode {
    let child = |scenario: &str| {
        let mut command = Command::new(env::current_exe().expect("known"));
        command.env(SCENARIO, scenario);
        command
    };
    match scenario {
        "calls" => {
            work(1);
            bare();
        }
        "children of the head" => {
            work(1);
            for _ in 0..2 {
                let status = child("calls").stdout(Stdio::null()).status().expect("started");
                assert!(status.success(), "{status}");
            }
        }
        "writes half a report" | "writes half a report only" => {
            let files = env::var("PERFMARK_OUTPUT").expect("set");
            fs::write(files.replace("%p", "half"), "{\"schema\": 2,").expect("written");
            if scenario == "writes half a report only" {
                // SAFETY: it ends this process, without a report.
                unsafe { libc::_exit(0) };
            }
        }
        "children" => {
            work(1);
            for _ in 0..3 {
                let status = child("calls").status().expect("started");
                assert!(status.success(), "{status}");
            }
            println!("what the program says");
            return ExitCode::from(7);
        }
        // The same process ID twice, as when the kernel reuses one.
        "leaves a report and becomes another program" => {
            use std::os::unix::process::CommandExt as _;
            work(1);
            let file = env::var("PERFMARK_OUTPUT").expect("set");
            Report::new(&perfmark::snapshot()).format(Format::Json).write_to(file).expect("written");
            panic!("{}", child("calls").exec());
        }
        "children in namespaces" => {
            work(1);
            for _ in 0..3 {
                let program = this_program();
                let status = unshare().arg(program).env(SCENARIO, "calls").status().expect("started");
                assert!(status.success(), "{status}");
            }
        }
        "killed" => {
            work(1);
            // SAFETY: it ends this process.
            unsafe { libc::raise(libc::SIGKILL) };
        }
        "leaves a child running" | "only leaves a child running" => {
            let pipe = child("listens")
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("started");
            println!("{}", pipe.id());
            std::mem::forget(pipe);
            if scenario == "only leaves a child running" {
                // SAFETY: it ends this process, without a report.
                unsafe { libc::_exit(0) };
            }
            work(1);
        }
        // Refuses the system call as container engines do.
        "doctor without perf_event_open" => {
            use std::os::unix::process::CommandExt as _;
            seccomp::refuse(&[libc::SYS_perf_event_open], libc::EPERM).expect("a filter");
            let error = perfmark(&["doctor"]).env_remove(SCENARIO).exec();
            panic!("{error}");
        }
        "listens" => {
            // Until it is killed.
            loop {
                std::thread::park();
            }
        }
        _ => return wait_for_a_signal(scenario),
    }
    ExitCode::SUCCESS
}

fn wait_for_a_signal(scenario: &str) -> ExitCode {
    match scenario {
        "parks" => {
            work(1);
            println!("ready");
            loop {
                std::thread::park();
            }
        }
        // A forked child has no thread that writes a report. SIGINT still ends it.
        "parks, forked" => {
            work(1);
            // SAFETY: the child only waits for the signal, and the numbers are of this process and its child.
            unsafe {
                let child = libc::fork();
                if child == 0 {
                    loop {
                        libc::pause();
                    }
                }
                libc::kill(child, libc::SIGINT);
                let mut status = 0;
                libc::waitpid(child, &raw mut status, 0);
                let status = ExitStatus::from_raw(status);
                assert_eq!(status.signal(), Some(libc::SIGINT), "{status}");
            }
            println!("ready");
        }
        "waits" | "waits for SIGINT" => {
            // SAFETY: the pointers are to live memory, and no handler is installed.
            unsafe {
                let mut set = std::mem::zeroed();
                libc::sigemptyset(&raw mut set);
                libc::sigaddset(&raw mut set, if scenario == "waits" { libc::SIGTERM } else { libc::SIGINT });
                libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
                work(1);
                println!("ready");
                let mut signal = 0;
                libc::sigwait(&raw const set, &raw mut signal);
                return ExitCode::from(u8::try_from(signal).expect("small"));
            }
        }
        _ => panic!("no scenario {scenario}"),
    }
    ExitCode::SUCCESS
}
