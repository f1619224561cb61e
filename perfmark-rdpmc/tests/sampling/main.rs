//! Sampling on a real kernel: software events anywhere, hardware events where there is a PMU.
//!
//! A scenario that changes the entire process runs in a new process of this program, with `PERFMARK_TEST_SCENARIO`.
#![cfg(target_os = "linux")]

#[path = "../child/mod.rs"]
mod child;
#[path = "../memory/mod.rs"]
mod memory;
#[path = "../process/mod.rs"]
mod process;
#[path = "../support/mod.rs"]
mod support;
mod clock;
mod faults;
mod forks;
mod limits;
mod pmu;
mod records;
mod signals;
mod switches;

use perfmark_rdpmc::sample::{Body, Origin, Record, Ring, Sample, Sampler};
use process::gettid;
use support::{named, trial};

/// Tests that change the entire process.
const ALONE: [(&str, fn()); 10] = [
    ("a_clock_is_sampled_by_a_user_without_permissions", || unprivileged(clock::a_millisecond)),
    ("lost_records_are_counted_exactly", || unprivileged(faults::lost_records_are_counted_exactly)),
    ("samples_contain_what_was_requested", || unprivileged(faults::samples_contain_what_was_requested)),
    ("what_requires_permission_is_named", || unprivileged(limits::what_requires_permission_is_named)),
    ("users_without_permissions_may_request_all_the_rest", || unprivileged(limits::unprivileged_requests_are_allowed)),
    ("spent_locked_memory_is_reported_with_the_number_of_rings_that_fit", || unprivileged(limits::locked_memory)),
    ("a_forked_child_has_no_ring", forks::a_child_has_no_ring),
    ("rings_come_and_go_while_others_fork", forks::rings_come_and_go_while_others_fork),
    ("a_signal_is_sent_to_the_sampled_thread", signals::for_each_sample),
    ("a_sigtrap_is_sent_for_every_sample", signals::before_the_next_instruction),
];

fn main() {
    if child::runs_scenario(&ALONE) {
        return;
    }
    if let Err(error) = Sampler::dummy().open()
        && error.is_unsupported()
    {
        return eprintln!("skipped: {error}");
    }
    let beside = [
        named(clock::the_times_of_samples_are_between_the_ticks_around_them),
        named(clock::the_times_of_samples_are_of_the_clock_that_was_chosen),
        named(faults::call_chains_leave_out_what_is_excluded),
        trial("every_page_fault_has_its_exact_address", faults::every_fault_has_its_exact_address),
        named(faults::records_that_wrap_are_whole),
        named(faults::the_newest_records_of_an_overwritten_ring_are_read_first),
        named(faults::a_reader_of_an_overwritten_ring_keeps_its_pause),
        named(faults::a_reader_that_was_refused_pauses_nothing),
        named(faults::members_of_a_group_that_sample_write_to_the_ring),
        named(faults::flags_of_a_field_are_as_those_of_methods),
        named(faults::two_events_share_a_ring),
        named(faults::a_refused_period_leaves_the_event_running),
        named(faults::the_counts_in_samples_contain_what_was_chosen),
        named(faults::the_samples_of_counters_go_to_a_ring),
        named(faults::a_ring_is_ready_after_as_many_samples_as_requested),
        named(faults::an_event_loop_waits_for_a_rings_descriptor),
        named(faults::requests_change_what_is_sampled),
        named(faults::a_sampled_breakpoint_can_be_moved_to_another_variable),
        named(switches::the_lock_moves_with_each_switch),
        named(switches::a_wait_is_blocked_time),
        named(switches::another_thread_is_sampled_and_its_records_outlive_it),
        trial("mappings_names_and_threads_are_recorded", records::mappings_names_and_threads),
        named(limits::what_is_refused_is_named_with_its_remedy),
        named(limits::requests_that_are_refused_later_name_the_cause),
        named(limits::counters_that_sample_are_refused_with_the_same_reasons),
        named(limits::a_group_that_linux_refuses_is_refused_with_the_reason),
    ];
    let alone = ALONE.iter().map(|&(name, _)| trial(name, || child::passes(name)));
    support::run(
        alone.chain(beside).collect(),
        &[
            ("every_overflow_of_a_counter_is_a_sample", pmu::every_overflow_is_a_sample),
            ("a_sample_inside_a_region_does_not_change_its_count", || {
                pmu::a_sample_inside_a_region_does_not_change_its_count();
            }),
        ],
    );
}

fn open(sampler: &Sampler) -> Ring {
    sampler.open().expect("opens")
}

/// Calls `each` for each record in the ring.
fn for_each_record(ring: &Ring, mut each: impl FnMut(Record<'_>)) {
    let mut reader = ring.reader().expect("no other reader");
    while let Some(record) = reader.read() {
        each(record);
    }
}

/// The same for a ring that has samples only.
fn for_each_sample(ring: &Ring, mut each: impl FnMut(Sample<'_>, Origin)) {
    for_each_record(ring, |record| match record.body {
        Body::Sample(sample) => each(sample, record.origin),
        other => panic!("{other:?}"),
    });
}

/// Gives up root's permissions, if this is root, and runs the test where the kernel allows it to others.
fn unprivileged(test: fn()) {
    // SAFETY: no preconditions.
    if unsafe { libc::geteuid() } == 0 {
        // A user for each process: all processes of a user share its locked memory, also those of another run. User
        // namespaces often have users below 65,536 only.
        process::become_user(40_000 + std::process::id() % 20_000);
    }
    match Sampler::dummy().open().map(drop) {
        Err(error) if error.errno_name() == Some("EACCES") => println!("skipped: {error}"),
        _ => test(),
    }
}
