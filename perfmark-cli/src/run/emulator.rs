//! QEMU's user-mode emulator, with a plugin that counts the instructions of each thread.
//!
//! QEMU's packages contain no such plugin, and a compiled one would suit one kind of machine. Its source is therefore
//! part of this program, and each run compiles it, which takes a fraction of a second. It requires `cc`, as Rust's
//! linker does, and no header of QEMU.
#![allow(unsafe_code, reason = "personality has no safe form in libc")]

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

use super::directory::private;
use super::once::Ended;
use super::program::{NOT_EXECUTABLE, OWN_TROUBLE, not_started};

const PLUGIN: &str = include_str!("emulator_plugin.c");
/// The exit status by which the plugin shows that the emulator has loaded it.
const TRIAL_STATUS: i32 = 42;

/// The code for a program that executes an instruction that its processor lacks: 128 plus the number of SIGILL.
pub(super) const SIGILL_CODE: u8 = 132;
/// As for SIGSEGV.
pub(super) const SIGSEGV_CODE: u8 = 139;
pub(super) const UNALIGNED_HANDLER: &str = "QEMU 7.2 calls signal handlers with an unaligned stack, so one that \
                                            calls a mark or uses SSE may end the program (chapter `gate` of the guide)";
pub(super) const LACKS_INSTRUCTION: &str = "the emulated processor may lack an instruction, such as one of AVX-512; \
                                            build the program without `-C target-cpu=native`";

const INSTALL: &str = "install QEMU 7.2 or later with plugins: on Debian 12, `apt install qemu-user`; packages of \
                       other distributions may have no plugins, so use a container of Debian 12 there (chapter `gate` \
                       of the guide)";

const COMPILER: &str = "the plugin needs a C compiler with headers, on Debian and Ubuntu `apt install gcc libc6-dev`";

/// An emulator that can run the program.
pub(super) struct Emulator {
    /// `qemu-x86_64`, and its name and version for reports.
    path: PathBuf,
    name: String,
    /// The folder of the plugin, removed when dropped.
    plugin: TempDir,
    program: PathBuf,
}

fn refuse(why: impl Into<String>) -> Ended {
    (why.into(), OWN_TROUBLE)
}

impl Emulator {
    /// The emulator for a program, checked by a trial.
    pub(super) fn of(program: &OsStr) -> Result<Self, Ended> {
        let not_found = |error: &io::Error| (format!("{}: {error}", Path::new(program).display()), not_started(error));
        let program = find(program).map_err(|error| not_found(&error))?;
        let header = header(&program).map_err(|error| not_found(&error))?;
        let Some(name) = emulator_for(&header) else {
            let why = "not an ELF program for x86-64, arm64 or riscv64, so perfmark cannot emulate it; for a script, \
                       pass its interpreter and the script";
            return Err((format!("{}: {why}", program.display()), NOT_EXECUTABLE));
        };
        let path = find(OsStr::new(name)).map_err(|error| refuse(format!("{name}: {error}; {INSTALL}")))?;
        let version = output(Command::new(&path).arg("--version"))?;
        let version = String::from_utf8_lossy(&version.stdout).into_owned();
        let version = version.split_whitespace().skip_while(|&word| word != "version").nth(1).unwrap_or("");
        let emulator = Self { path, name: format!("QEMU {version}").trim().into(), plugin: compile()?, program };
        emulator.check()?;
        Ok(emulator)
    }

    /// The emulator, with the plugin and its argument.
    fn with_plugin(&self, argument: &str) -> Command {
        // QEMU's options are separated by commas. Two commas are one in a value.
        let mut options = OsString::from("file=");
        for (n, part) in self.plugin.path().join("plugin.so").to_string_lossy().split(',').enumerate() {
            options.push(if n == 0 { "" } else { ",," });
            options.push(part);
        }
        options.push(",");
        options.push(argument);
        let mut command = Command::new(&self.path);
        command.arg("-plugin").arg(options);
        command
    }

    fn check(&self) -> Result<(), Ended> {
        let answered = output(self.with_plugin("trial=on").arg(&self.program))?;
        if answered.status.code() == Some(TRIAL_STATUS) {
            return Ok(());
        }
        let (path, status, said) = (self.path.display(), answered.status, text(&answered.stderr));
        Err(refuse(format!(
            "{path} ({}) does not load perfmark's plugin ({status}): {said}; {INSTALL}; if {} does not \
             allow programs (noexec), set TMPDIR",
            self.name,
            env::temp_dir().display()
        )))
    }

    /// The command that runs the program. Random bytes that the emulator gives it, and addresses, are the same in each
    /// run.
    pub(super) fn command(&self, given_name: &OsStr) -> Command {
        #[cfg(target_os = "linux")]
        keep_addresses();
        let mut command = self.with_plugin(&format!("emulator={}", self.name));
        command.args(["-seed", "1", "-0"]).arg(given_name).arg(&self.program);
        command.env("PERFMARK_READ", "emulated");
        command
    }
}

/// Lets the processes that this one starts have the same addresses in each run. With QEMU 7.2, that is so even if the
/// call is refused, as by Docker's default profile.
#[cfg(target_os = "linux")]
fn keep_addresses() {
    // SAFETY: changes a property of this process, which its children inherit.
    unsafe { libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong) };
}

/// The emulator for the program with this ELF header.
fn emulator_for(header: &[u8; 20]) -> Option<&'static str> {
    // 64 bits, little-endian (`elf(5)`).
    let machine = header.strip_prefix(b"\x7fELF\x02\x01")?.get(12..14)?;
    match u16::from_le_bytes(machine.try_into().ok()?) {
        62 => Some("qemu-x86_64"),
        183 => Some("qemu-aarch64"),
        243 => Some("qemu-riscv64"),
        _ => None,
    }
}

/// The beginning of the file; zeroes if it is shorter.
fn header(program: &Path) -> io::Result<[u8; 20]> {
    let mut header = [0; 20];
    match File::open(program)?.read_exact(&mut header) {
        Err(error) if error.kind() != ErrorKind::UnexpectedEof => Err(error),
        _ => Ok(header),
    }
}

/// The file that a command's name means.
fn find(name: &OsStr) -> io::Result<PathBuf> {
    let path = Path::new(name);
    if name.as_encoded_bytes().contains(&b'/') {
        return fs::metadata(path).and_then(|file| executable(&file)).map(|()| path.into());
    }
    let paths = env::var_os("PATH").unwrap_or_default();
    let is_program = |file: &PathBuf| fs::metadata(file).is_ok_and(|file| file.is_file() && executable(&file).is_ok());
    let found = env::split_paths(&paths).map(|folder| folder.join(name)).find(is_program);
    found.ok_or_else(|| io::Error::new(ErrorKind::NotFound, "not found in PATH"))
}

fn executable(file: &Metadata) -> io::Result<()> {
    #[cfg(unix)]
    if std::os::unix::fs::PermissionsExt::mode(&file.permissions()) & 0o111 == 0 {
        return Err(ErrorKind::PermissionDenied.into());
    }
    _ = file;
    Ok(())
}

/// Compiles the plugin into a temporary folder.
fn compile() -> Result<TempDir, Ended> {
    let folder = private("perfmark-plugin-").map_err(refuse)?;
    let source = folder.path().join("plugin.c");
    fs::write(&source, PLUGIN).map_err(|error| refuse(format!("{}: {error}", source.display())))?;
    let mut command = Command::new("cc");
    command.args(["-O2", "-shared", "-fPIC", &format!("-DTRIAL_STATUS={TRIAL_STATUS}"), "-o"]);
    let answered = output(command.arg(folder.path().join("plugin.so")).arg(&source))
        .map_err(|(why, status)| (format!("{why}; {COMPILER}"), status))?;
    if answered.status.success() {
        return Ok(folder);
    }
    let (status, said) = (answered.status, text(&answered.stderr));
    Err(refuse(format!("cc does not compile the plugin ({status}): {said}; {COMPILER}")))
}

fn output(command: &mut Command) -> Result<Output, Ended> {
    command.output().map_err(|error| refuse(format!("{}: {error}", Path::new(command.get_program()).display())))
}

/// What a program printed, on one line.
fn text(printed: &[u8]) -> String {
    String::from_utf8_lossy(printed).lines().collect::<Vec<_>>().join(" / ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_emulator_is_that_of_the_programs_architecture() {
        let header = |machine: u16| {
            let mut header = *b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0\0\0";
            header[18..].copy_from_slice(&machine.to_le_bytes());
            emulator_for(&header)
        };
        assert_eq!([62, 183, 243].map(header), [Some("qemu-x86_64"), Some("qemu-aarch64"), Some("qemu-riscv64")]);
        assert_eq!(header(3), None, "i386 has no perfmark");
        assert_eq!(emulator_for(b"#!/bin/sh\necho hello"), None);
    }
}
