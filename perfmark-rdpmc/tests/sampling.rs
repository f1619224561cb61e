//! Sampling on a real kernel: software events anywhere, hardware events where there is a PMU.
//!
//! A scenario that changes the entire process runs in a new process of this program, with `PERFMARK_TEST_SCENARIO`.
#![cfg_attr(not(target_os = "linux"), allow(dead_code, unused_imports, reason = "only for linux"))]

#[cfg(target_os = "linux")]
#[path = "sampling/switches.rs"]
mod switches;
mod support;

use perfmark_rdpmc::sample::{Ring, Sampler};
use support::trial;

#[cfg(target_os = "linux")]
fn main() {
    support::run(
        vec![
            trial("the_lock_moves_when_and_only_when_the_thread_is_off_its_cpu", || {
                switches::the_lock_moves_when_and_only_when_the_thread_is_off_its_cpu();
            }),
            trial("a_sleep_is_blocked_time", switches::a_sleep_is_blocked_time),
            trial("another_thread_is_sampled_and_its_records_outlive_it", || {
                switches::another_thread_is_sampled_and_its_records_outlive_it();
            }),
        ],
        &[],
    );
}

#[cfg(not(target_os = "linux"))]
fn main() {}

fn open(sampler: &Sampler) -> Ring {
    sampler.open().unwrap_or_else(|error| panic!("{error}"))
}

#[cfg(target_os = "linux")]
fn gettid() -> u32 {
    // SAFETY: takes nothing.
    u32::try_from(unsafe { libc::syscall(libc::SYS_gettid) }).expect("small")
}
