//! Parses any text as a filter. A filter must parse back from its own text, also if it was built from any text. A
//! filter that names a mark's path must select the mark.
//!
//! The input's first line is used as a filter and as a pattern, the rest as another pattern and as a mark's path.

#![no_main]

use libfuzzer_sys::fuzz_target;
use perfmark::{Filter, Mark, Report, Snapshot};

fuzz_target!(|text: &str| {
    let (filter, path) = text.split_once('\n').unwrap_or((text, "app::parser::Tree<u8>::insert"));
    let mut snapshot = Snapshot::default();
    snapshot.marks = vec![mark(path)];
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
    let mut mark = Mark::default();
    (mark.name, mark.path, mark.file, mark.line) = ("insert".into(), path.into(), "src/parser.rs".into(), 1);
    (mark.on, mark.calls, mark.every) = (true, 1, 1);
    mark
}
