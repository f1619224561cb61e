//! A program closes perfmark's descriptors, and its own sockets, files and events get their numbers. perfmark does not
//! read, change or close these, does not block in them, and reports no value of theirs.
//!
//! Each scenario is this program, started again.

#[path = "../../perfmark-rdpmc/tests/memory/mod.rs"]
mod memory;
#[path = "../../perfmark-rdpmc/tests/support/mod.rs"]
mod support;
#[path = "program/mod.rs"]
mod program;

use std::env;
use std::fs;
use std::io::{self, Write as _};
use std::os::fd::{AsRawFd as _, RawFd};
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;

use memory::Memory;
use perfmark::perfmark;
use perfmark_rdpmc::known_loop;
use program::{SCENARIO, json, mark};
use serde_json::Value;
use support::trial;

const SYSCALL: &[(&str, &str)] = &[("PERFMARK_READ", "syscall")];

fn main() {
    if let Ok(scenario) = env::var(SCENARIO) {
        return run_scenario(&scenario);
    }
    support::run(
        vec![
            trial("sockets_lose_no_byte", || keeps_own_descriptors("sockets", &[], Lost::Faults)),
            trial("silent_sockets_do_not_block_a_call", || keeps_own_descriptors("silent sockets", &[], Lost::Faults)),
            trial("files_keep_their_positions", || keeps_own_descriptors("files", &[], Lost::Faults)),
            trial("the_programs_own_events_contribute_no_value", || keeps_own_descriptors("events", &[], Lost::Faults)),
            trial("events_that_look_like_perfmarks_contribute_no_value", || {
                keeps_own_descriptors("like ours", &[], Lost::Faults);
            }),
            trial("calls_are_unmeasured_while_the_descriptors_stay_closed", || {
                keeps_own_descriptors("nothing", &[], Lost::Faults);
            }),
            trial("threads_with_a_table_of_descriptors_of_their_own_leave_none", || keeps_own("tables")),
            trial("a_file_with_the_number_of_stdout_or_stderr_gets_no_report", keeps_own_file),
            #[cfg(feature = "exporter")]
            trial("a_listener_with_the_number_of_the_exporters_keeps_its_clients", || keeps_own("listener")),
            #[cfg(feature = "sampling")]
            trial("sockets_with_the_numbers_of_the_samplers_pipe_stay_as_they_are", || keeps_own("sampling")),
        ],
        &[
            ("sockets_lose_no_byte_when_hardware_events_are_read_by_syscall", || {
                keeps_own_descriptors("sockets", SYSCALL, Lost::All);
            }),
            ("silent_sockets_do_not_block_when_hardware_events_are_read_by_syscall", || {
                keeps_own_descriptors("silent sockets", SYSCALL, Lost::All);
            }),
            ("the_programs_own_events_contribute_no_value_to_hardware_events", || {
                keeps_own_descriptors("events", SYSCALL, Lost::All);
            }),
        ],
    );
}

/// Which events are lost with the descriptors.
#[derive(Clone, Copy, PartialEq)]
enum Lost {
    /// Only the software event. User space reads the others.
    Faults,
    All,
}

/// Calls on each of the two threads, before the descriptors are closed, and again afterwards.
const CALLS: u64 = 500;
/// Page faults per call of `faults`.
const PAGES: usize = 3;
const TURNS: u64 = 5_000;

/// Runs the scenario, which checks its own descriptors, and then checks its report.
fn keeps_own_descriptors(scenario: &str, variables: &[(&str, &str)], lost: Lost) {
    let report = json(scenario, variables, 0);
    for (name, event) in
        [("faults", "page-faults"), ("faults_read_together", "page-faults"), ("faults_read_together", "minor-faults")]
    {
        let (measured, unmeasured) = calls(&report, name, event);
        assert_eq!((measured, unmeasured), (2 * CALLS, 2 * CALLS), "{report}");
        let values = &mark(&report, name)["values"][event];
        assert_eq!(values["imputed"], 2 * CALLS, "the others are imputed from the measured ones: {values}");
        // The program's stack may grow by a page during one of them.
        let pages = PAGES as u64;
        assert!(values["min"] == pages && (values["max"] == pages || values["max"] == pages + 1), "{values}");
        has_reason(&report, event);
    }
    let hardware = &mark(&report, "looped")["values"]["instructions"];
    if hardware.is_null() {
        return println!("hardware events are not checked: none is recorded here");
    }
    let (measured, unmeasured) = calls(&report, "looped", "instructions");
    let expected = if lost == Lost::All { (2 * CALLS, 2 * CALLS) } else { (4 * CALLS, 0) };
    assert_eq!((measured, unmeasured), expected, "{hardware}");
    // A call during which the kernel touched the counters counts hundreds of instructions more.
    let length = 2 * TURNS;
    let is_right = |key: &str| (length..length + 1_000).contains(&hardware[key].as_u64().expect("a number"));
    assert!(is_right("min") && is_right("max"), "{hardware}");
    if lost == Lost::All {
        has_reason(&report, "instructions");
    }
}

/// Checks that all calls are counted. Returns how many were measured and how many were not.
fn calls(report: &Value, name: &str, event: &str) -> (u64, u64) {
    let mark = mark(report, name);
    assert_eq!(mark["calls"], 4 * CALLS, "{mark}");
    let number = |key: &str| mark["values"][event][key].as_u64().unwrap_or_else(|| panic!("{event} in {mark}"));
    (number("measured"), number("unmeasured"))
}

fn has_reason(report: &Value, event: &str) {
    let notes = report["notes"].as_array().expect("a list");
    let of_event = notes.iter().filter_map(Value::as_str).filter(|note| note.starts_with(&format!("{event}: ")));
    let is_reason = |note: &str| note.contains("2 threads") && note.contains("closed perfmark's descriptor");
    assert_eq!(of_event.filter(|note| is_reason(note)).count(), 1, "{notes:?}");
}

#[perfmark(page_faults)]
#[inline(never)]
fn faults(pages: &Memory) {
    pages.touch();
}

/// Its events are read in one system call.
#[perfmark(page_faults, minor_faults, task_clock)]
#[inline(never)]
fn faults_read_together(pages: &Memory) {
    pages.touch();
}

#[perfmark(instructions)]
#[inline(never)]
fn looped() {
    let _ = known_loop(TURNS);
}

/// The variable with the path of the program's own file.
const FILE: &str = "PERFMARK_TEST_FILE";

fn keeps_own_file() {
    for (number, output) in [("1", "-"), ("2", ""), ("2", "/nonexistent/report"), ("2", "/dev/stderr")] {
        let path = program::file("own");
        let variables = [("PERFMARK_OUTPUT", output), (FILE, path.to_str().expect("UTF-8"))];
        let done = program::scenario(number, &variables);
        program::assert_code(&done, 0);
        let says_so = program::text(&done.stderr).contains("stdout is another file");
        assert_eq!(says_so, output == "-", "{}", program::ending(&done));
        assert_eq!(fs::read_to_string(&path).expect("written"), "data", "PERFMARK_OUTPUT={output}");
        fs::remove_file(path).expect("there");
    }
}

/// The program's own file gets this number.
fn replaces(number: RawFd) {
    // SAFETY: nothing is printed from now on.
    unsafe { libc::close(number) };
    let mut file = fs::File::create(env::var_os(FILE).expect("set")).expect("created");
    assert_eq!(file.as_raw_fd(), number);
    file.write_all(b"data").expect("written");
    std::mem::forget(file);
    looped();
}

/// Runs a scenario that checks its own descriptors.
fn keeps_own(scenario: &str) {
    let done = program::scenario(scenario, &[]);
    program::assert_code(&done, 0);
    print!("{}", program::text(&done.stdout));
}

/// Threads leave the process's table after their first calls, and end. What they opened before must not stay in it.
fn unshares_tables() {
    let of_process = || fs::read_dir("/proc/self/fd").expect("there").count();
    // Every other thread leaves it first, and does not see what the others left in it.
    let call_and_unshare = |calls_first: bool| {
        if calls_first {
            faults(&Memory::new(PAGES));
        }
        // SAFETY: takes no pointer.
        assert_eq!(unsafe { libc::unshare(libc::CLONE_FILES) }, 0);
        faults_read_together(&Memory::new(PAGES));
    };
    let open: Vec<usize> = (0..20)
        .map(|n| {
            thread::spawn(move || call_and_unshare(n % 2 == 0)).join().expect("does not panic");
            of_process()
        })
        .collect();
    println!("open after each thread: {open:?}");
    assert!(open.iter().all(|&count| count <= open[0]), "{open:?}");
}

/// The open descriptors of this kind, as in `socket:[123]`.
#[cfg(any(feature = "exporter", feature = "sampling"))]
fn open_descriptors(kind: &str) -> Vec<RawFd> {
    let all = fs::read_dir("/proc/self/fd").expect("there").flatten();
    let of_kind =
        all.filter(|entry| fs::read_link(entry.path()).is_ok_and(|file| file.to_string_lossy().starts_with(kind)));
    let numbers = of_kind.map(|entry| entry.file_name().to_str().and_then(|name| name.parse().ok()).expect("a number"));
    numbers.filter(|&number| number > 2).collect()
}

#[cfg(feature = "exporter")]
fn replaces_listener() {
    use std::net::{Ipv4Addr, TcpListener, TcpStream};
    const CLIENTS: usize = 100;
    // Nothing inherited is below the exporter's listener.
    close_all();
    let exporting = perfmark::Exporter::new(0).start().expect("a port");
    let numbers = open_descriptors("socket:");
    assert_eq!(numbers.len(), 1);
    let own = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    replace(numbers[0], own.as_raw_fd());
    let address = own.local_addr().expect("known");
    let _clients: Vec<_> = (0..CLIENTS).map(|_| TcpStream::connect(address).expect("it listens")).collect();
    // If somebody else accepts one, this waits for ever.
    let _accepted: Vec<_> = (0..CLIENTS).map(|_| own.accept().expect("a client")).collect();
    drop(exporting);
    assert_eq!(file_of(numbers[0]), file_of(own.as_raw_fd()), "it is open");
}

#[cfg(feature = "sampling")]
fn replaces_pipe() {
    close_all();
    let sampling = match perfmark::Sampling::new().event("cpu-clock").start() {
        Ok(sampling) => sampling,
        Err(why) => return println!("not run: no samples can be taken here: {why}"),
    };
    looped();
    let numbers = open_descriptors("pipe:");
    assert_eq!(numbers.len(), 2);
    let mut own: Vec<RawFd> = sockets(0).into();
    own.iter().zip(&numbers).for_each(|(&socket, &number)| replace(number, socket));
    own.extend(numbers);
    for ring in open_descriptors("anon_inode:[perf_event]") {
        // SAFETY: perfmark must tolerate that the program closes its descriptors.
        unsafe { libc::close(ring) };
    }
    let files: Vec<_> = own.iter().map(|&fd| file_of(fd)).collect();
    looped();
    drop(sampling);
    assert!(own.iter().map(|&fd| (file_of(fd), readable(fd))).eq(files.into_iter().map(|file| (file, 0))));
}

/// Makes `number` refer to the file of `by`. The number is never free, so no other thread can take it.
#[cfg(any(feature = "exporter", feature = "sampling"))]
fn replace(number: RawFd, by: RawFd) {
    // SAFETY: it takes no pointer. It closes a descriptor of perfmark's, which must tolerate that.
    assert_eq!(unsafe { libc::dup2(by, number) }, number, "{}", io::Error::last_os_error());
}

/// Called on a thread that begins after the descriptors were closed.
#[perfmark(page_faults, instructions)]
fn later() {
    std::hint::black_box(());
}

fn calls_of_a_thread() {
    for _ in 0..CALLS {
        faults(&Memory::new(PAGES));
        faults_read_together(&Memory::new(PAGES));
        looped();
    }
}

fn run_scenario(scenario: &str) {
    // SAFETY: it takes no pointers; the signal ends a program that blocks, and with it the test.
    unsafe { libc::alarm(60) };
    match scenario {
        "1" | "2" => return replaces(scenario.parse().expect("a number")),
        "tables" => return unshares_tables(),
        #[cfg(feature = "exporter")]
        "listener" => return replaces_listener(),
        #[cfg(feature = "sampling")]
        "sampling" => return replaces_pipe(),
        _ => {}
    }
    let (go, wait) = mpsc::channel();
    let (done, is_done) = mpsc::channel();
    let thread = thread::spawn(move || {
        for () in wait {
            calls_of_a_thread();
            done.send(()).expect("main listens");
        }
    });
    calls_of_a_thread();
    go.send(()).expect("it listens");
    is_done.recv().expect("it makes calls");
    let folder = env::temp_dir().join(format!("perfmark-descriptors-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a directory");
    close_all();
    let own = Own::open(scenario, &folder.join("file"));
    calls_of_a_thread();
    go.send(()).expect("it listens");
    is_done.recv().expect("it makes calls");
    own.assert_unchanged();
    // The thread drops its counters.
    drop(go);
    thread.join().expect("does not panic");
    thread::spawn(|| (0..CALLS).for_each(|_| later())).join().expect("does not panic");
    own.assert_unchanged();
    _ = fs::remove_dir_all(folder);
}

/// Closes all descriptors above 2, as daemons do.
fn close_all() {
    // SAFETY: the standard library later uses no descriptor above 2.
    if unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0) } != 0 {
        println!("there is no close_range(2) here, which needs Linux 5.9: {}", io::Error::last_os_error());
        // SAFETY: as above.
        (3..4_096).for_each(|fd| _ = unsafe { libc::close(fd) });
    }
}

/// Descriptors of the program itself. They include perfmark's old numbers: 512 and the next.
struct Own {
    fds: Vec<RawFd>,
    kind: Kind,
    /// The files that they refer to.
    files: Vec<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// Each has that many bytes to read.
    Sockets(usize),
    File,
    Events {
        like_ours: bool,
    },
    Nothing,
}

const PAIRS: usize = 300;

impl Own {
    fn open(scenario: &str, file: &std::path::Path) -> Self {
        let kind = match scenario {
            "sockets" => Kind::Sockets(96),
            "silent sockets" => Kind::Sockets(0),
            "files" => Kind::File,
            "events" => Kind::Events { like_ours: false },
            "like ours" => Kind::Events { like_ours: true },
            "nothing" => Kind::Nothing,
            _ => panic!("no scenario {scenario}"),
        };
        if kind == Kind::File {
            fs::write(file, [7; 4_096]).expect("written");
        }
        let path = std::ffi::CString::new(file.to_str().expect("UTF-8")).expect("a path");
        let fds: Vec<RawFd> = (0..PAIRS)
            .flat_map(|_| match kind {
                Kind::Sockets(bytes) => sockets(bytes),
                // SAFETY: the path is live.
                Kind::File => unsafe {
                    [libc::open(path.as_ptr(), libc::O_RDWR), libc::open(path.as_ptr(), libc::O_RDWR)]
                },
                Kind::Events { like_ours } => [own_event(like_ours), own_event(like_ours)],
                Kind::Nothing => [-1; 2],
            })
            .filter(|_| kind != Kind::Nothing)
            .collect();
        assert!(fds.iter().all(|fd| *fd >= 3), "{}: ulimit -n?", io::Error::last_os_error());
        assert!(kind == Kind::Nothing || (512..520).all(|number| fds.contains(&number)));
        let files = fds.iter().map(|&fd| file_of(fd)).collect();
        Self { fds, kind, files }
    }

    fn assert_unchanged(&self) {
        for (&fd, file) in self.fds.iter().zip(&self.files) {
            assert_eq!(&file_of(fd), file, "closed, and perhaps opened again");
            match self.kind {
                Kind::Sockets(bytes) => assert_eq!(readable(fd), bytes, "{fd}"),
                // SAFETY: takes no pointer.
                Kind::File => assert_eq!(unsafe { libc::lseek(fd, 0, libc::SEEK_CUR) }, 0, "{fd}"),
                Kind::Events { .. } => assert!(value(fd) >= LEAST, "{fd}: {}", value(fd)),
                Kind::Nothing => {}
            }
        }
    }
}

fn file_of(fd: RawFd) -> PathBuf {
    fs::read_link(format!("/proc/self/fd/{fd}")).unwrap_or_else(|error| panic!("{fd} is closed: {error}"))
}

/// A pair of sockets, each with that many bytes to read.
fn sockets(bytes: usize) -> [RawFd; 2] {
    let mut pair = [-1; 2];
    let data = vec![42_u8; bytes];
    // SAFETY: the memory for two descriptors and the bytes are live.
    unsafe {
        assert_eq!(libc::socketpair(libc::AF_UNIX, libc::SOCK_STREAM, 0, pair.as_mut_ptr()), 0);
        for end in pair {
            assert_eq!(libc::write(end, data.as_ptr().cast(), bytes), bytes.cast_signed());
        }
    }
    pair
}

fn readable(fd: RawFd) -> usize {
    let mut bytes: libc::c_int = -1;
    // SAFETY: the pointer is to a live number.
    assert_eq!(unsafe { libc::ioctl(fd, libc::FIONREAD, &raw mut bytes) }, 0);
    usize::try_from(bytes).expect("a number of bytes")
}

/// The program's own events count nanoseconds of its threads' time. They are read after some work, and are at least
/// this.
const LEAST: u64 = 1_000;

/// An event that counts this thread's time, opened without perfmark. With `like_ours`, it has the read format and the
/// flags of perfmark's events.
fn own_event(like_ours: bool) -> RawFd {
    const TYPE_SOFTWARE: u64 = 1;
    const SIZE: u64 = 64;
    const TASK_CLOCK: u64 = 1;
    const TIMES_AND_ID: u64 = 7;
    const TIMES: u64 = 3;
    const EXCLUDE_KERNEL_AND_HV: u64 = 0b11 << 5;
    // `struct perf_event_attr`, its first version: type and size, config, period, sample type, read format, flags.
    let format = if like_ours { TIMES_AND_ID } else { TIMES };
    let attr = [TYPE_SOFTWARE | SIZE << 32, TASK_CLOCK, 0, 0, format, EXCLUDE_KERNEL_AND_HV, 0, 0];
    // SAFETY: the structure is live and of that size; the descriptor is this program's.
    unsafe {
        let fd = libc::syscall(libc::SYS_perf_event_open, attr.as_ptr(), 0, -1, -1, 0);
        let fd = RawFd::try_from(fd).expect("small");
        if like_ours {
            assert_eq!(libc::fcntl(fd, libc::F_SETFL, libc::O_APPEND | libc::O_NONBLOCK), 0);
        }
        fd
    }
}

fn value(fd: RawFd) -> u64 {
    let mut numbers = [0_u64; 4];
    // SAFETY: the memory is live and of that size.
    let n = unsafe { libc::read(fd, numbers.as_mut_ptr().cast(), size_of_val(&numbers)) };
    assert!(n >= 24, "{fd}: {n}");
    numbers[0]
}
