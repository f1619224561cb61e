//! A check that the marks in benchmarks of other harnesses were called.

use std::env;

/// Prints how often these marks were called. Does nothing if the program has arguments other than cargo's, because a
/// filter or `--list` leaves out benchmarks.
///
/// # Panics
///
/// If a mark was not called.
pub fn assert_called(names: &[&str]) {
    if env::args().skip(1).any(|argument| !["--bench", "--test"].contains(&&*argument)) {
        return;
    }
    let snapshot = perfmark::snapshot();
    for name in names {
        let mut found = snapshot.marks.iter().filter(|mark| mark.name == *name);
        let calls = found.next().map_or(0, |mark| mark.calls);
        assert!(calls > 0 && found.next().is_none(), "{name}: {calls} calls");
        println!("{name}: {calls} calls counted");
    }
}
