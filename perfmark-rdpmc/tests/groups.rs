//! Groups on a PMU: scheduled together, exact together, and an error that says how many events fit.

#[cfg(target_os = "linux")]
mod memory;
mod support;

use perfmark_rdpmc::sample::Sampler;
use perfmark_rdpmc::{
    Attr, Counter, Delta, Error, Event, Group, GroupReading, Hardware, Region, Software, Target, TargetGroup,
    known_loop,
};
use support::{if_supported, named, open_if_supported, trial};

fn main() {
    support::run(
        vec![
            named(a_group_of_software_events_is_read_at_once),
            named(counters_that_joined_a_group_are_read_at_once),
            named(an_empty_group_is_refused),
            named(a_member_that_cannot_be_opened_is_named),
            named(only_a_leader_may_be_pinned_or_exclusive),
            named(members_of_several_pmus_stop_and_start_together),
            named(a_group_inherits_as_a_unit_or_not_at_all),
            named(a_stopped_group_counts_no_child_that_executes_a_program),
            trial("members_are_counters_too", || members_are_counters_too(&Attr::new(Software::TaskClock))),
        ],
        &[
            ("a_group_that_fills_the_pmu_is_exact_and_one_more_is_refused", a_group_that_fills_the_pmu_is_exact),
            ("a_group_gives_a_ratio", a_group_gives_a_ratio),
            ("members_in_hardware_are_counters_too", || members_are_counters_too(&Attr::new(Hardware::Instructions))),
            ("a_group_rotates_as_a_unit", a_group_rotates_as_a_unit),
        ],
    );
}

fn group(attrs: &[Attr]) -> Group {
    Group::open(attrs).expect("opens")
}

fn a_group_of_software_events_is_read_at_once() {
    let opened = Group::open(&[Attr::new(Software::TaskClock), Attr::new(Software::PageFaults)]);
    let Some(group) = if_supported(opened) else { return };
    assert_eq!(group.read_user(), None, "only the kernel counts them");
    let before = group.read().expect("readable");
    let _ = known_loop(100_000);
    touch_three_pages();
    let deltas = group.read().expect("readable").since(&before);
    let [Delta::Exact(nanoseconds), Delta::Exact(_)] = deltas[..] else { panic!("{deltas:?}") };
    assert!(nanoseconds > 0);
    group.disable().expect("allowed");
    group.reset().expect("allowed");
    assert_eq!(group.read().expect("readable").values, [0, 0], "not the leader alone");
}

/// Writes to three new pages. On other targets nothing is counted.
fn touch_three_pages() {
    #[cfg(target_os = "linux")]
    memory::faults(3);
}

/// Also events of other PMUs than the leader's count from the moment they join. A thread switch would hide a failure,
/// but not in each of many tries.
fn counters_that_joined_a_group_are_read_at_once() {
    // The code itself may not be mapped yet.
    touch_three_pages();
    for _ in 0..50 {
        let Some(leader) = open_if_supported(&Attr::new(Software::TaskClock)) else { return };
        let reader = Counter::open_reader(&Attr::new(Software::PageFaults), &leader).expect("opens");
        let [cpu, minor] = [Software::CpuClock, Software::MinorFaults]
            .map(|event| Counter::open_member(&Attr::new(event), &leader, &reader).expect("opens"));
        let counters = [&leader, &reader, &cpu, &minor];
        let mut own = [Region::default(); 4];
        counters.iter().zip(&mut own).for_each(|(counter, region)| counter.begin(region));
        let begin = reader.read_group();
        let regions = counters.map(|counter| begin.begin(counter));
        touch_three_pages();
        let _ = known_loop(10_000);
        let end = reader.read_group();
        let [task, faults, clock, minors] = [0, 1, 2, 3].map(|n| end.end(counters[n], &regions[n]));
        assert_eq!((faults, minors), (Delta::Exact(3), Delta::Exact(3)));
        let (Delta::Exact(task), Delta::Exact(clock)) = (task, clock) else { panic!("{task:?} {clock:?}") };
        assert!(task > 1_000 && clock > 1_000, "{task} {clock}");
        // Each counter's own region counts at least as much, because it began before and ends after.
        for ((counter, region), least) in counters.iter().zip(&own).zip([task, 3, clock, 3]) {
            let counted = counter.end(region);
            assert!(matches!(counted, Delta::Exact(value) if value >= least), "{}: {counted:?}", counter.event());
        }
    }
}

/// The child inherits the events as they are: stopped.
fn a_stopped_group_counts_no_child_that_executes_a_program() {
    let attr = |event: Software| Attr::new(event).inherit(true).disabled(true);
    let opened = Group::open(&[attr(Software::TaskClock), attr(Software::PageFaults)]);
    let Some(group) = if_supported(opened) else { return };
    let child = std::process::Command::new("true").status().expect("started");
    assert!(child.success(), "{child}");
    assert_eq!(group.read().expect("readable").values, [0, 0]);
}

fn an_empty_group_is_refused() {
    assert!(Group::open(&[]).is_err_and(|error| error.reason().contains("no events")));
}

fn a_member_that_cannot_be_opened_is_named() {
    let attrs = [Attr::new(Software::TaskClock), Attr::new(Event::raw(u64::MAX))];
    let Err(error) = Group::open(&attrs) else {
        return println!("skipped: this PMU accepts any number");
    };
    assert!(error.is_unsupported() || error.to_string().starts_with("r0xffffffffffffffff"), "{error}");
    assert!(!error.to_string().contains("too big"), "{error}");
}

fn only_a_leader_may_be_pinned_or_exclusive() {
    let attr = Attr::new(Software::TaskClock);
    for member in [
        attr.clone().pinned(true),
        attr.clone().exclusive(true),
        Attr::new("task-clock:D".parse::<Event>().expect("known")),
    ] {
        let error = Group::open(&[attr.clone(), member.clone()]).expect_err("it is not the leader");
        assert_eq!(error.errno(), None, "the kernel is not asked");
        assert_eq!(
            error.to_string(),
            format!("{member}: only the leader, the first event of a group, may be pinned or exclusive")
        );
        // A leader may be.
        if_supported(Group::open(&[member, attr.clone()]));
    }
}

/// Each clock is a PMU of its own. The members of a stopped leader stay off their PMUs until the group is started.
fn members_of_several_pmus_stop_and_start_together() {
    let [task, cpu] = [Software::TaskClock, Software::CpuClock].map(Attr::new);
    for attrs in [[task.clone(), cpu.clone()], [cpu.clone().disabled(true), task.clone()], [task, cpu.disabled(true)]] {
        let Some(group) = if_supported(Group::open(&attrs)) else { return };
        let counted = || {
            let before = group.read().expect("readable");
            let _ = known_loop(1_000_000);
            group.read().expect("readable").since(&before)
        };
        if attrs[0].to_string().starts_with("cpu") {
            assert_eq!(counted(), [Delta::Exact(0); 2], "it was opened stopped");
        } else {
            let counts = counted();
            assert!(matches!(counts[..], [Delta::Exact(1_000..), Delta::Exact(1_000..)]), "{counts:?}");
        }
        group.disable().expect("allowed");
        assert_eq!(counted(), [Delta::Exact(0); 2]);
        group.enable().expect("allowed");
        let counts = counted();
        assert!(matches!(counts[..], [Delta::Exact(1_000..), Delta::Exact(1_000..)]), "{counts:?}");
    }
}

fn a_group_inherits_as_a_unit_or_not_at_all() {
    let attr = Attr::new(Software::TaskClock);
    let error = Group::open(&[attr.clone(), attr.inherit(true)]).expect_err("not both");
    assert!(error.reason().starts_with("either all events of a group inherit, or none does"), "{error}");
}

/// Each member by itself, also the leader, whose descriptor returns the values of all.
fn members_are_counters_too(attr: &Attr) {
    let Some(group) = if_supported(Group::open(&vec![attr.clone(); 3])) else { return };
    group.disable().expect("allowed");
    let _ = known_loop(1_000);
    // Stopped, so that all ways of reading return the same values.
    let reading = group.read_syscall().expect("readable");
    assert!(reading.values.iter().all(|&value| value > 0), "{reading:?}");
    let one = |counter: &Counter, value| {
        for own in [counter.read_syscall(), counter.read()].map(|reading| reading.expect("readable")) {
            let fields = (own.value, own.enabled, own.running);
            assert_eq!(fields, (value, reading.enabled, reading.running), "{counter:?}");
        }
    };
    for (counter, &value) in group.counters().iter().zip(&reading.values) {
        one(counter, value);
    }
    group.enable().expect("allowed");
    for counter in group.counters() {
        let before = counter.read_syscall().expect("readable");
        let _ = known_loop(100_000);
        let delta = counter.read_syscall().expect("readable").since(&before);
        assert!(matches!(delta, Delta::Exact(100..)), "{delta:?}");
    }
}

fn instructions(count: usize) -> Vec<Attr> {
    vec![Attr::new(Hardware::Instructions); count]
}

/// The size of the largest group of instructions that opens, and the error for one more.
fn largest() -> (usize, Error) {
    for count in 1..64 {
        if let Err(error) = Group::open(&instructions(count)) {
            assert!(count == 7 || !support::is_emulated(), "the emulated machine has 6 counters, and refuses {count}");
            return (count - 1, error);
        }
    }
    panic!("64 counters");
}

/// What each member counts in addition to a loop of `iterations`, and whether the kernel left the pages unchanged.
#[inline(never)]
fn extra(group: &Group, read: fn(&Group) -> Result<GroupReading, Error>, iterations: u64) -> (Vec<u64>, bool) {
    let locks = || group.counters().iter().map(Counter::page_lock).collect::<Vec<_>>();
    let before_all = locks();
    let before = read(group).expect("readable");
    let length = known_loop(iterations);
    let deltas = read(group).expect("readable").since(&before);
    let value = |delta: &Delta| match delta {
        Delta::Exact(value) => value - length,
        _ => panic!("{deltas:?}"),
    };
    (deltas.iter().map(value).collect(), locks() == before_all)
}

fn a_group_that_fills_the_pmu_is_exact() {
    /// The tolerance for a region in which the kernel updated a page: a reading that had to start over.
    const DISTURBED: u64 = 2_000;
    /// The tolerance for the allocation of a reading's values.
    const ALLOCATOR: u64 = 20;
    let (fit, error) = largest();
    println!("{error}");
    assert!(
        error.to_string().starts_with("instructions:u: perf_event_open failed with EINVAL: the group is too big"),
        "{error}"
    );
    assert!(error.to_string().contains(&format!("{fit} hardware events fit")), "{error}");
    // arm64 checks a group only if an exec could start it.
    let leader = Attr::new(Hardware::Instructions).enable_on_exec(true);
    let members = instructions(fit);
    let attrs: Vec<_> = [leader.clone()].into_iter().chain(members.clone()).collect();
    let of_target = TargetGroup::open(&attrs, &Target::this_thread()).expect_err("too big");
    let sampled = Sampler::new(leader).period(1_000_000).group(members).open().expect_err("too big");
    // On PMUs with counters of 32 bits, each of these events takes two, so fewer fit.
    for error in [of_target, sampled] {
        assert!(error.reason().contains("the group is too big for this PMU"), "{error}");
    }
    let group = group(&instructions(fit));
    // User reads of each member, and the kernel's of all at once.
    for (read, name) in [(Group::read as fn(&Group) -> _, "user reads"), (Group::read_syscall, "read(2)")] {
        // The first allocations take longer. How many do depends on what was freed before.
        (0..8).for_each(|_| _ = extra(&group, read, 1));
        let (offsets, _) = extra(&group, read, 1);
        assert_eq!(offsets.len(), fit);
        let mut quiet = 0;
        let mut lengths = (1..=1_000).chain([1_000_000, 10_000_000]).peekable();
        while let Some(&iterations) = lengths.peek() {
            let (values, undisturbed) = extra(&group, read, iterations);
            // Short ones until one is undisturbed.
            if undisturbed || iterations > 1_000 {
                lengths.next();
            }
            if undisturbed {
                // A reading's own instructions are the same except for the allocator's; those between members are
                // always the same.
                assert!(
                    values[0].abs_diff(offsets[0]) <= ALLOCATOR,
                    "{name}, {iterations} iterations: {values:?}, not {offsets:?}"
                );
                let differences =
                    |values: &[u64]| -> Vec<u64> { values.iter().map(|v| v.wrapping_sub(values[0])).collect() };
                assert_eq!(
                    differences(&values),
                    differences(&offsets),
                    "{name}, {iterations} iterations: {values:?}, not {offsets:?}"
                );
                quiet += 1;
            }
            let off = values.iter().zip(&offsets).map(|(value, offset)| value.abs_diff(*offset)).max();
            assert!(off <= Some(DISTURBED), "{name}, {iterations} iterations: {values:?}, not {offsets:?}");
        }
        println!("{name}: {quiet} regions undisturbed, members count {offsets:?} in addition to the loop");
    }
    assert!(group.read_user().is_some());
}

fn a_group_gives_a_ratio() {
    let group = group(&[Attr::new(Hardware::Instructions), Attr::new(Hardware::Cycles)]);
    let before = group.read().expect("readable");
    let length = known_loop(1_000_000);
    let deltas = group.read().expect("readable").since(&before);
    let [Delta::Exact(instructions), Delta::Exact(cycles)] = deltas[..] else { panic!("{deltas:?}") };
    println!("{:.2} instructions per cycle", instructions as f64 / cycles as f64);
    assert!(instructions >= length && cycles > 0, "{deltas:?}");
}

fn a_group_rotates_as_a_unit() {
    let (fit, _) = largest();
    let groups = [group(&instructions(fit)), group(&instructions(fit))];
    let before: Vec<_> = groups.iter().map(|group| group.read().expect("readable")).collect();
    let length = known_loop(200_000_000);
    for (group, before) in groups.iter().zip(&before) {
        let after = group.read().expect("readable");
        let (enabled, running) = (after.enabled - before.enabled, after.running - before.running);
        assert!(running < enabled, "two such groups do not fit");
        for delta in after.since(before) {
            let Delta::Scaled { estimate, counted } = delta else { panic!("{delta:?}") };
            let error = (estimate as f64 / length as f64 - 1.0).abs();
            // Other processors do not execute the loop at the same rate all the time.
            assert!(error < 0.03 || !support::is_emulated(), "{counted} scaled to {estimate}, not {length}");
            let expected = u128::from(counted) * u128::from(enabled) / u128::from(running);
            assert_eq!(u128::from(estimate), expected, "{counted} scaled by {enabled} / {running}");
        }
    }
}
