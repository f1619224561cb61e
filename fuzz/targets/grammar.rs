//! Parses any text as an event. An event must parse back from its own text, and resolve or fail with a reason on every
//! machine in the tests' fixtures.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use perfmark_rdpmc::{Attr, Event, Machine};

static MACHINES: LazyLock<[Machine; 5]> = LazyLock::new(|| {
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../perfmark-rdpmc/tests/fixtures");
    ["alder-lake", "big-little", "skylake-server", "zen", "armv8.8-threshold"]
        .map(|name| Machine::at(format!("{fixtures}/{name}")))
});

fuzz_target!(|text: &str| {
    let event = match text.parse::<Event>() {
        Ok(event) => event,
        Err(error) => {
            assert!(error.is_invalid_event() && !error.reason().is_empty());
            return;
        }
    };
    let shown = event.to_string();
    assert_eq!(shown.parse().as_ref(), Ok(&event), "{text:?} is shown as {shown:?}");
    let attr = Attr::new(event.clone());
    let attr_shown = attr.to_string();
    assert!(attr_shown.parse::<Event>().is_ok(), "{text:?} is counted as {attr_shown:?}");
    match event.resolve(&MACHINES[text.len() % MACHINES.len()]) {
        Ok(encodings) => assert!(!encodings.is_empty()),
        Err(error) => assert!(!error.reason().is_empty()),
    }
});
