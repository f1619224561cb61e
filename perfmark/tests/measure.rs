//! Measuring one piece of work by itself.

#[path = "../../perfmark-rdpmc/tests/support/mod.rs"]
mod support;

use std::hint::black_box;
use std::process::ExitCode;

use perfmark::measure;
use perfmark_rdpmc::known_loop;

fn main() -> ExitCode {
    let on_pmu: &[support::OnPmu] = &[("a_loop_counts_its_instructions_beside_any_other_events", a_loop)];
    support::run(vec![support::trial("what_cannot_be_counted_is_refused_and_the_work_does_not_run", refused)], on_pmu)
}

fn refused() {
    let why = measure(&["no-such-event"], || unreachable!("it does not run")).expect_err("there is none");
    assert!(why.to_string().contains("no-such-event"), "{why}");
    if let Err(why) = measure(&["instructions"], || ()).map_err(|why| why.to_string()) {
        assert!(!why.contains("ENOENT") || why.contains("perfmark run --emulate"), "{why}");
    }
}

fn a_loop() {
    for events in [&["instructions"][..], &["time", "instructions"], &["cycles", "instructions", "time", "page-faults"]]
    {
        for turns in [0, 500, 500_000] {
            // The least of several tries, as a kernel tick may interrupt one.
            let counted = (0..3).map(|_| {
                let measured = measure(events, || {
                    black_box(known_loop(turns));
                });
                measured.expect("there is a PMU").instructions().expect("counted exactly")
            });
            let counted = counted.min().expect("three");
            println!("{events:?}: {counted} instructions of a loop of {}", 2 * turns);
            // The excess is the calls of the work and of the loop. If the kernel can interrupt the loop, it includes
            // the slow path of the reading.
            let more = if turns > 1_000 { 200 } else { 20 };
            assert!((2 * turns..=2 * turns + more).contains(&counted), "{counted} instructions of {}", 2 * turns);
        }
    }
}
