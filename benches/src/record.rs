//! The dated records: one file for each day, with a section for each benchmark.

use std::path::PathBuf;
use std::process::Command;
use std::{env, fs, io};

/// Writes the section to today's file. It replaces an earlier one with the same title.
///
/// # Errors
///
/// If the file cannot be read or written, or the date is not available.
pub fn write(title: &str, body: &str) -> io::Result<PathBuf> {
    let date = output_of("date", "+%F").ok_or_else(|| io::Error::other("`date +%F` printed nothing"))?;
    let path = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/records")).join(format!("{date}.md"));
    let record = match fs::read_to_string(&path) {
        Ok(record) => record,
        Err(error) if error.kind() == io::ErrorKind::NotFound => format!("# {date}\n"),
        Err(error) => return Err(error),
    };
    fs::write(&path, with_section(&record, title, body))?;
    Ok(path)
}

fn with_section(record: &str, title: &str, body: &str) -> String {
    let heading = format!("\n## {title}\n");
    let section = format!("{heading}\n{}\n", body.trim_end());
    let Some(start) = record.find(&heading) else { return format!("{}\n{section}", record.trim_end()) };
    let rest = &record[start + heading.len()..];
    let end = rest.find("\n## ").map_or("", |end| &rest[end..]);
    format!("{}{section}{end}", &record[..start])
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
    fn a_section_replaces_its_predecessor_and_leaves_the_others() {
        let day = with_section("# 2030-01-02\n\nA remark.\n", "one", "1\n");
        let day = with_section(&day, "two", "2\n\n| a |\n");
        assert_eq!(day, "# 2030-01-02\n\nA remark.\n\n## one\n\n1\n\n## two\n\n2\n\n| a |\n");
        let day = with_section(&day, "one", "3\n\n4\n");
        assert_eq!(day, "# 2030-01-02\n\nA remark.\n\n## one\n\n3\n\n4\n\n## two\n\n2\n\n| a |\n");
        assert_eq!(with_section(&day, "two", "5"), day.replace("2\n\n| a |\n", "5\n"));
    }

    #[test]
    fn versions_are_those_of_the_lock_file() {
        assert!(versions(&["libc"]).starts_with("libc 0."));
    }
}
