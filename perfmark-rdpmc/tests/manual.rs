//! What `perf_event_open(2)` and the kernel's documents describe, and the test of each: a list that grows with the
//! tests. `cargo test -p perfmark-rdpmc --test manual -- --nocapture` prints it as a table.

use std::fmt::Write as _;
use std::fs;

/// How a fact is tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Status {
    /// On a kernel, without a PMU.
    Kernel,
    /// On a kernel with a PMU, in the machine of `ci/pmu-machine`.
    Pmu,
    /// On recorded files, bytes and errors alone: no machine here has it.
    Recorded,
}

use Status::{Kernel, Pmu, Recorded};

/// The fact, its status, and the file and function of its test.
const FACTS: &[(&str, Status, &str, &str)] = &[
    ("pid > 0: another process, another user's", Kernel, "tests/targets.rs", "another_users_process"),
    ("pid > 0: hardware events of another process", Pmu, "tests/targets.rs", "instructions_of_another_user"),
    (
        "pid 0, cpu >= 0: the calling thread on one CPU",
        Kernel,
        "tests/sampling/limits.rs",
        "unprivileged_requests_are_allowed",
    ),
    ("pid -1, cpu >= 0: an entire CPU", Kernel, "tests/targets.rs", "entire_cpu"),
    ("PERF_FLAG_PID_CGROUP", Kernel, "tests/targets.rs", "cgroup"),
    (
        "cpumask of PMUs outside the cores",
        Recorded,
        "src/event/list.rs",
        "a_machines_pmus_are_listed_with_events_and_fields",
    ),
    (
        "an event of a PMU outside the cores for a thread: EINVAL",
        Recorded,
        "src/open/tests.rs",
        "a_pmu_that_counts_whole_cpus_is_named_with_its_cpus",
    ),
    (
        "PMUs that cannot exclude a mode: EINVAL",
        Recorded,
        "src/open/tests.rs",
        "a_pmu_that_cannot_exclude_a_mode_says_so",
    ),
    (
        "a PMU with a cpumask that samples threads (Arm SPE)",
        Recorded,
        "src/attr/tests.rs",
        "only_the_kernel_refuses_a_pmu_that_lists_cpus",
    ),
    (
        "exclude_hv on arm64: VHE, nVHE, guests",
        Recorded,
        "src/machine.rs",
        "an_arm64_kernel_has_a_separate_hypervisor_only_without_vhe",
    ),
    ("exclude_hv in an arm64 guest", Pmu, "tests/causes.rs", "counting_nothing"),
    (
        "pinned: end of file in error state, until enabled",
        Pmu,
        "tests/counters.rs",
        "a_pinned_event_that_does_not_fit_says_so",
    ),
    ("disabled, ENABLE, DISABLE, RESET, ID", Kernel, "tests/targets.rs", "requests"),
    ("IOC_FLAG_GROUP", Kernel, "tests/targets.rs", "group"),
    ("REFRESH with 0", Kernel, "tests/control.rs", "requests_for_sampling_events"),
    ("SET_FILTER, once for each event", Kernel, "tests/kernel.rs", "filtered"),
    ("SET_BPF, QUERY_BPF", Kernel, "tests/kernel.rs", "by_program"),
    (
        "MODIFY_ATTRIBUTES of a sampled breakpoint",
        Kernel,
        "tests/sampling/faults.rs",
        "a_sampled_breakpoint_can_be_moved_to_another_variable",
    ),
    ("RESET of a sampled event", Kernel, "tests/sampling/faults.rs", "requests_change_what_is_sampled"),
    ("PR_TASK_PERF_EVENTS_DISABLE, _ENABLE", Kernel, "tests/control.rs", "all_of_a_thread"),
    (
        "PERF_FORMAT_*: all combinations",
        Recorded,
        "src/sample/record/tests/samples.rs",
        "saved_counts_of_every_read_format_are_parsed",
    ),
    (
        "lock, index, offset, pmc_width, cap_user_rdpmc",
        Pmu,
        "tests/counters.rs",
        "a_loop_of_ones_own_over_the_page_reads_the_same",
    ),
    (
        "time_zero, cap_user_time_zero: both formulas",
        Recorded,
        "src/clock.rs",
        "ticks_and_nanoseconds_are_converted_by_the_manuals_formulas",
    ),
    (
        "time_zero and the times of records",
        Pmu,
        "tests/sampling/clock.rs",
        "the_times_of_samples_are_between_the_ticks_around_them",
    ),
    (
        "time_cycles, time_mask, cap_user_time_short",
        Recorded,
        "src/clock.rs",
        "a_short_tick_counter_continues_after_it_wraps",
    ),
    ("POLL_IN", Kernel, "tests/sampling/faults.rs", "a_ring_is_ready_after_as_many_samples_as_requested"),
    ("POLL_HUP", Kernel, "tests/sampling/switches.rs", "another_thread_is_sampled_and_its_records_outlive_it"),
    (
        "the descriptor in an event loop",
        Kernel,
        "tests/sampling/faults.rs",
        "an_event_loop_waits_for_a_rings_descriptor",
    ),
    (
        "PERF_SAMPLE_DATA_SRC: PERF_MEM_*",
        Recorded,
        "src/sample/record/tests/samples.rs",
        "the_fields_of_a_data_source_have_the_headers_names",
    ),
    (
        "PERF_SAMPLE_TRANSACTION: flags and abort code",
        Recorded,
        "src/sample/record/tests/samples.rs",
        "a_sample_with_everything",
    ),
    (
        "perf_event_max_sample_rate, perf_event_max_stack, rdpmc 2, threshold_max",
        Recorded,
        "tests/support_report.rs",
        "limits_of_sampling_thresholds_and_open_user_reads_are_reported",
    ),
    (
        "the AUX area, overwritten (read-only)",
        Recorded,
        "src/sample/reader.rs",
        "a_snapshot_begins_with_the_oldest_byte",
    ),
    ("E2BIG: the size that the kernel returns", Kernel, "src/open/tests.rs", "e2big_names_the_field_that_is_set"),
    ("EACCES: another user's process, an entire CPU", Kernel, "tests/targets.rs", "errors_of_nobody"),
    (
        "EACCES: a process that cannot be dumped, a cgroup",
        Recorded,
        "src/open/tests.rs",
        "a_target_that_is_refused_is_named_with_what_it_requires",
    ),
    ("EBADF, ESRCH, EINVAL for a CPU that does not exist", Kernel, "tests/targets.rs", "missing"),
    ("EINTR, ENODEV", Recorded, "src/open/tests.rs", "each_documented_errno_has_its_cause"),
];

#[test]
fn each_fact_names_a_test_that_exists() {
    let root = env!("CARGO_MANIFEST_DIR");
    if !fs::exists(format!("{root}/src/lib.rs")).is_ok_and(|is| is) {
        return println!("skipped: the sources are not on this machine");
    }
    let mut facts = FACTS.to_vec();
    facts.sort_by_key(|&(_, status, ..)| status);
    let mut table = String::from("| fact | tested on | test |\n|---|---|---|\n");
    for (fact, status, file, test) in facts {
        let source = fs::read_to_string(format!("{root}/{file}")).unwrap_or_else(|error| panic!("{file}: {error}"));
        assert!(source.contains(&format!("fn {test}(")), "{fact}: {file} has no {test}");
        let on = match status {
            Kernel => "a kernel",
            Pmu => "a kernel and a PMU",
            Recorded => "recorded data",
        };
        writeln!(table, "| {fact} | {on} | `{file}`: `{test}` |").expect("a text");
    }
    println!("{table}");
}
