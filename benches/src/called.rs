//! Whether the marks in other crates' benchmarks were called.

use std::env;

/// Tells how often these marks were called, where cargo alone started the program: a filter or `--list` would leave some out.
///
/// # Panics
///
/// Where one of them was not.
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
