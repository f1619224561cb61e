//! The records: one file for each benchmark, with the date and the machine of its newest results.

use std::path::PathBuf;
use std::process::Command;
use std::{env, fs, io};

/// Writes the record `name`, in place of an earlier one.
///
/// # Errors
///
/// If the file cannot be written, or the date is not available.
pub fn write(name: &str, title: &str, body: &str) -> io::Result<PathBuf> {
    let date = output_of("date", "+%F").ok_or_else(|| io::Error::other("`date +%F` printed nothing"))?;
    let path = PathBuf::from(format!("{}/records/{name}.md", env!("CARGO_MANIFEST_DIR")));
    fs::write(&path, format!("# {title}\n\n{date}; {}.\n\n{}\n", machine(), body.trim_end()))?;
    Ok(path)
}

/// A description of the compiler and the machine.
#[must_use]
pub fn machine() -> String {
    let rustc = output_of("rustc", "--version").unwrap_or_else(|| "an unknown rustc".to_owned());
    let cpus = std::thread::available_parallelism().map_or(0, usize::from);
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let of = |key: &str| {
        info.lines().find_map(|line| line.strip_prefix(key)?.split_once(':')).map(|(_, value)| value.trim())
    };
    let processor = of("model name").unwrap_or(env::consts::ARCH);
    let guest =
        if of("flags").is_some_and(|flags| flags.contains("hypervisor")) { ", in a virtual machine" } else { "" };
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_else(|_| "of unknown release".to_owned());
    format!("{rustc}, release profile; {processor}, {cpus} CPUs{guest}; {} {}", env::consts::OS, kernel.trim())
}

fn output_of(program: &str, argument: &str) -> Option<String> {
    let output = Command::new(program).arg(argument).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}

/// The versions of these packages in the workspace.
#[must_use]
pub fn versions(packages: &[&str]) -> String {
    let lock = include_str!("../../Cargo.lock");
    let version = |package: &str| {
        let entry = lock
            .split("[[package]]")
            .find(|entry| entry.trim_start().starts_with(&format!("name = \"{package}\"\n")))?;
        entry.lines().find_map(|line| line.strip_prefix("version = \"")?.strip_suffix('"'))
    };
    let named =
        packages.iter().map(|package| format!("{package} {}", version(package).unwrap_or("of unknown version")));
    named.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_those_of_the_lock_file() {
        assert!(versions(&["libc"]).starts_with("libc 0."));
    }
}
