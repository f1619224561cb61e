//! More events than hardware counters: the kernel rotates them, and every figure says how much of it was seen.

mod support;

use perfmark_rdpmc::{Attr, Counter, Delta, Hardware, Reading, Region, known_loop};

fn main() {
    support::run(
        vec![],
        &[
            ("totals_are_scaled_to_within_2_percent", totals_are_scaled_to_within_2_percent),
            ("regions_are_exact_or_scaled_or_unmeasured", regions_are_exact_or_scaled_or_unmeasured),
        ],
    );
}

/// More than any PMU has.
const EVENTS: usize = 12;

fn counters() -> Vec<Counter> {
    let open = |_| Counter::open(&Attr::new(Hardware::Instructions)).expect("there is a PMU");
    (0..EVENTS).map(open).collect()
}

fn read(counter: &Counter) -> Reading {
    counter.read().expect("readable")
}

/// Whether the kernel had to take some off the PMU by now. Where the processor counts all at once there is nothing to see.
fn are_multiplexed(counters: &[Counter]) -> bool {
    let rotated = counters.iter().any(|counter| {
        let reading = read(counter);
        reading.enabled != reading.running
    });
    if !rotated {
        println!("this PMU counts {EVENTS} events at once");
    }
    rotated
}

fn totals_are_scaled_to_within_2_percent() {
    let counters = counters();
    let before: Vec<_> = counters.iter().map(read).collect();
    // Two seconds of the emulated machine.
    let truth = known_loop(1_000_000_000);
    if !are_multiplexed(&counters) {
        return;
    }
    for (counter, before) in counters.iter().zip(&before) {
        let after = read(counter);
        let Delta::Scaled { estimate, counted } = after.since(before) else { panic!("{:?}", after.since(before)) };
        let error = (estimate as f64 / truth as f64 - 1.0) * 100.0;
        let coverage = (after.running - before.running) as f64 / (after.enabled - before.enabled) as f64 * 100.0;
        println!(
            "counted {counted}, scaled {estimate}, {error:+.2} % from the truth, on the PMU {coverage:.1} % of the time"
        );
        assert!(error.abs() <= 2.0, "{error} %");
        assert!((20.0..100.0).contains(&coverage), "{coverage} %");
    }
}

fn regions_are_exact_or_scaled_or_unmeasured() {
    /// Instructions around the loop that the counter counts as well.
    const AROUND: u64 = if cfg!(debug_assertions) { 5_000 } else { 200 };
    let counters = counters();
    // Until the first rotation was seen.
    let _ = known_loop(20_000_000);
    if !are_multiplexed(&counters) {
        return;
    }
    let (mut exact, mut unmeasured, mut errors) = (0, 0, Vec::new());
    for n in 0..4_000 {
        let counter = &counters[n % EVENTS];
        let mut region = Region::default();
        counter.begin(&mut region);
        let truth = known_loop(500_000);
        match counter.end(&region) {
            Delta::Exact(value) => {
                assert!((truth..truth + AROUND).contains(&value), "{value} is not exact");
                exact += 1;
            }
            Delta::Scaled { estimate, .. } => errors.push(estimate as f64 / truth as f64 - 1.0),
            Delta::Unmeasured => unmeasured += 1,
        }
    }
    let mean = errors.iter().sum::<f64>() / errors.len().max(1) as f64 * 100.0;
    let scaled = errors.len();
    println!(
        "of 4000 regions {exact} exact, {scaled} scaled with a mean error of {mean:+.2} %, {unmeasured} unmeasured"
    );
    assert!(exact > 0 && scaled > 0 && unmeasured > 0);
    assert!(mean.abs() <= 5.0, "{mean} %");
}
