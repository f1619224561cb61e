//! The compiler that built a test program, for tests of what only one compiler gives.

use std::{env, fs, str};

/// The version of rustc that built this program, such as `1.95.0`; empty if the program does not say. rustc writes it
/// into the section `.comment`.
pub(crate) fn version() -> String {
    // Followed by a digit, it is not this constant.
    const BEFORE: &[u8] = b"rustc version ";
    let program = fs::read(env::current_exe().expect("it runs")).expect("it can be read");
    let mut found = program.windows(BEFORE.len() + 1).enumerate();
    let found = found.find(|(_, bytes)| bytes.starts_with(BEFORE) && bytes[BEFORE.len()].is_ascii_digit());
    let Some((at, _)) = found else { return String::new() };
    let version = program[at + BEFORE.len()..].split(|byte| matches!(byte, b' ' | b'\0')).next();
    version.and_then(|version| str::from_utf8(version).ok()).unwrap_or_default().to_owned()
}
