//! Groups on a PMU: all or nothing, exact together, and told how many fit.

mod support;

use perfmark_rdpmc::{Attr, Delta, Error, Event, Group, Hardware, Software, known_loop};
use support::trial;

fn main() {
    support::run(
        vec![
            trial("a_group_of_software_events_is_read_at_once", a_group_of_software_events_is_read_at_once),
            trial("a_group_of_nothing_is_refused", a_group_of_nothing_is_refused),
            trial("a_member_that_cannot_be_had_is_told_as_itself", a_member_that_cannot_be_had_is_told_as_itself),
        ],
        &[
            ("a_group_that_fills_the_pmu_is_exact_and_one_more_is_refused", a_group_that_fills_the_pmu_is_exact),
            ("a_group_gives_a_ratio", a_group_gives_a_ratio),
            ("a_group_rotates_as_a_unit", a_group_rotates_as_a_unit),
        ],
    );
}

fn group(attrs: &[Attr]) -> Group {
    Group::open(attrs).unwrap_or_else(|error| panic!("{error}"))
}

fn is_unsupported(opened: &Result<Group, Error>) -> bool {
    opened.as_ref().is_err_and(Error::is_unsupported)
}

fn a_group_of_software_events_is_read_at_once() {
    let opened = Group::open(&[Attr::new(Software::TaskClock), Attr::new(Software::PageFaults)]);
    if is_unsupported(&opened) {
        return;
    }
    let group = opened.expect("every kernel has them");
    assert_eq!(group.read_user(), None, "the kernel counts them");
    let before = group.read().expect("readable");
    let _ = known_loop(100_000);
    let deltas = group.read().expect("readable").since(&before);
    let [Delta::Exact(nanoseconds), Delta::Exact(_)] = deltas[..] else { panic!("{deltas:?}") };
    assert!(nanoseconds > 0);
}

fn a_group_of_nothing_is_refused() {
    assert!(Group::open(&[]).is_err_and(|error| error.reason().contains("no events")));
}

fn a_member_that_cannot_be_had_is_told_as_itself() {
    let attrs = [Attr::new(Software::TaskClock), Attr::new(Event::raw(u64::MAX))];
    if let Err(error) = Group::open(&attrs) {
        assert!(error.is_unsupported() || error.to_string().starts_with("rffffffffffffffff"), "{error}");
        assert!(!error.to_string().contains("too big"), "{error}");
    }
}

fn instructions(count: usize) -> Vec<Attr> {
    vec![Attr::new(Hardware::Instructions); count]
}

/// The biggest group of instructions that opens, and what is said of the next.
fn biggest() -> (usize, Error) {
    for count in 1..64 {
        if let Err(error) = Group::open(&instructions(count)) {
            return (count - 1, error);
        }
    }
    panic!("64 counters");
}

fn a_group_that_fills_the_pmu_is_exact() {
    let (fit, error) = biggest();
    println!("{error}");
    assert!(error.to_string().contains(&format!("{fit} fit")), "{error}");
    let group = group(&instructions(fit));
    for turns in [1, 1_000, 1_000_000] {
        // User reads member by member, and the kernel's of all at once.
        for read in [Group::read, Group::read_syscall] {
            let before = read(&group).expect("readable");
            let length = known_loop(turns);
            let deltas = read(&group).expect("readable").since(&before);
            assert_eq!(deltas.len(), fit);
            for delta in &deltas {
                let Delta::Exact(value) = delta else { panic!("{deltas:?}") };
                let around = if cfg!(debug_assertions) { 100_000 } else { 3_000 };
                assert!((length..length + around).contains(value), "{turns} turns: {value}");
            }
        }
    }
    assert!(group.read_user().is_some());
}

fn a_group_gives_a_ratio() {
    let group = group(&[Attr::new(Hardware::Instructions), Attr::new(Hardware::Cycles)]);
    let before = group.read().expect("readable");
    let _ = known_loop(1_000_000);
    let deltas = group.read().expect("readable").since(&before);
    let [Delta::Exact(instructions), Delta::Exact(cycles)] = deltas[..] else { panic!("{deltas:?}") };
    let ratio = instructions as f64 / cycles as f64;
    println!("{ratio:.2} instructions a cycle");
    assert!(ratio > 0.1 && ratio < 20.0, "{ratio}");
}

fn a_group_rotates_as_a_unit() {
    let (fit, _) = biggest();
    let groups = [group(&instructions(fit)), group(&instructions(fit))];
    let before: Vec<_> = groups.iter().map(|group| group.read().expect("readable")).collect();
    let truth = known_loop(200_000_000);
    for (group, before) in groups.iter().zip(&before) {
        let after = group.read().expect("readable");
        let (enabled, running) = (after.enabled - before.enabled, after.running - before.running);
        assert!(running < enabled, "two such groups do not fit");
        for delta in after.since(before) {
            let Delta::Scaled { estimate, counted } = delta else { panic!("{delta:?}") };
            let error = (estimate as f64 / truth as f64 - 1.0).abs();
            assert!(error < 0.03, "{counted} scaled to {estimate}, not {truth}");
        }
    }
}
