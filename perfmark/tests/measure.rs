//! One piece of work, measured by itself.

#[path = "../../perfmark-rdpmc/tests/support/mod.rs"]
mod support;

use std::hint::black_box;
use std::process::ExitCode;

use perfmark::measure;
use perfmark_rdpmc::known_loop;

fn main() -> ExitCode {
    let on_pmu: &[support::OnPmu] = &[("a_loop_shows_its_instructions_whatever_is_counted_beside", a_loop)];
    support::run(vec![support::trial("what_cannot_be_counted_is_told_and_the_work_is_not_done", refused)], on_pmu)
}

fn refused() {
    let why = measure(&["no-such-event"], || unreachable!("it is not done")).expect_err("there is none");
    assert!(why.to_string().contains("no-such-event"), "{why}");
}

fn a_loop() {
    for events in [&["instructions"][..], &["time", "instructions"], &["cycles", "instructions", "time", "page-faults"]]
    {
        for turns in [0, 500, 500_000] {
            // The least of a few, as a tick of the kernel's may come in between.
            let counted = (0..3).map(|_| {
                let measured = measure(events, || {
                    black_box(known_loop(turns));
                });
                measured.expect("there is a PMU").count("instructions").expect("nobody else counts")
            });
            let counted = counted.min().expect("three");
            println!("{events:?}: {counted} instructions of a loop of {}", 2 * turns);
            // The call of the work, and of the loop; and where it is long enough for the kernel to come in between, the long way of reading.
            let more = if turns > 1_000 { 200 } else { 20 };
            assert!((2 * turns..=2 * turns + more).contains(&counted), "{counted} instructions of {}", 2 * turns);
        }
    }
}
