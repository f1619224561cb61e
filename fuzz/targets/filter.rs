//! Parses any text as a filter. A filter must parse back from its own text, also if it was built from any text. A
//! filter that names a mark's path must select the mark.
//!
//! The input's first line is used as a filter and as a pattern, the rest as another pattern and as a mark's path.

#![no_main]

use libfuzzer_sys::fuzz_target;
use perfmark::{Filter, Mark, Report, Snapshot};

fuzz_target!(|text: &str| {
    let (filter, path) = text.split_once('\n').unwrap_or((text, "app::parser::Tree<u8>::insert"));
    let snapshot = Snapshot { marks: vec![mark(path)], ..Snapshot::default() };
    match filter.parse::<Filter>() {
        Ok(read) => {
            let shown = read.to_string();
            assert_eq!(shown.parse().as_ref(), Ok(&read), "{filter:?} is shown as {shown:?}");
            _ = Report::new(&snapshot).marks(&read);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    // No function's path is empty, and the pattern for all marks is shown as `*`.
    if path.is_empty() {
        return;
    }
    if !filter.is_empty() {
        let built = Filter::default().on(filter).every(path, 7).off(path).on(path);
        let built = built.clone().events(filter, &[path]).unwrap_or(built);
        let shown = built.to_string();
        assert_eq!(shown.parse().as_ref(), Ok(&built), "{filter:?} and {path:?} are shown as {shown:?}");
    }
    let selected = Report::new(&snapshot).marks(&Filter::default().off("*").on(path)).to_string();
    assert_eq!(selected, Report::new(&snapshot).to_string(), "{path:?}");
});

fn mark(path: &str) -> Mark {
    Mark {
        name: "insert".into(),
        path: path.into(),
        file: "src/parser.rs".into(),
        line: 1,
        on: true,
        calls: 1,
        in_flight: 0,
        unwound: 0,
        cancelled: 0,
        polls: 0,
        interrupted: 0,
        every: 1,
        skipped: 0,
        values: Vec::new(),
    }
}
