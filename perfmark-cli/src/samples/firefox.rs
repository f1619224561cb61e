//! The processed format of the Firefox Profiler, with a thread for each event and rate.
//!
//! Samples have no time. They follow each other at the sampling interval, those with the same marks together.

use std::collections::BTreeMap;

use fxprof_processed_profile::{
    CategoryColor, CategoryHandle, CpuDelta, Frame, FrameFlags, FrameInfo, ProcessHandle, Profile, ReferenceTimestamp,
    SamplingInterval, Timestamp, WeightType,
};
use perfmark::text::sanitize;
use perfmark::{Samples, Snapshot};

use super::stacks::Sampled;

pub(super) fn render(snapshot: &Snapshot, sampled: &[Sampled<'_>]) -> Result<Vec<u8>, String> {
    let start = ReferenceTimestamp::from_millis_since_unix_epoch(0.0);
    let program = sanitize(&snapshot.program);
    let first = sampled.first().map_or(MILLISECOND, |one| interval(one.samples));
    let mut profile = Profile::new(&program, start, SamplingInterval::from_nanos(first));
    let process = profile.add_process(&program, snapshot.pid, Timestamp::from_nanos_since_reference(0));
    let marks = profile.add_category("Marks", CategoryColor::Purple);
    let functions = profile.add_category("Functions", CategoryColor::Blue);
    for one in sampled {
        add_thread(&mut profile, process, snapshot.pid, one, [marks, functions]);
    }
    serde_json::to_vec(&profile).map_err(|why| format!("the samples cannot be written for Firefox: {why}"))
}

const MILLISECOND: u64 = 1_000_000;

/// The nanoseconds between two samples, which are only known if they are taken at a frequency.
fn interval(samples: &Samples) -> u64 {
    samples.frequency.map_or(MILLISECOND, |frequency| (1_000 * MILLISECOND / frequency.max(1)).max(1))
}

fn add_thread(
    profile: &mut Profile,
    process: ProcessHandle,
    number: u32,
    sampled: &Sampled<'_>,
    [of_marks, of_functions]: [CategoryHandle; 2],
) {
    let interval = interval(sampled.samples);
    let at = |sample: u64| Timestamp::from_nanos_since_reference(sample.saturating_mul(interval));
    // A main thread would have the program's name instead of its own.
    let thread = profile.add_thread(process, number, at(0), false);
    profile.set_thread_name(thread, &format!("samples of {}", sampled.samples.rate()));
    profile.set_thread_samples_weight_type(thread, WeightType::Samples);
    let mut taken = 0_u64;
    let mut names = BTreeMap::new();
    for stack in sampled.stacks() {
        let mut labels = Vec::new();
        for part in stack.parts() {
            let label = names.entry(part.key()).or_insert_with(|| {
                profile.intern_string(&part.name(|frame| match (&frame.file, frame.line) {
                    (Some(file), Some(line)) => format!("{} ({file}:{line})", frame.function),
                    _ => frame.function.clone(),
                }))
            });
            labels.push(*label);
        }
        let marked = stack.marks.len().max(1) + usize::from(stack.thread.is_some());
        if let Some((file, line)) = stack.own().and_then(|own| own.file.as_ref().zip(own.line)) {
            labels.insert(marked, profile.intern_string(&sanitize(&format!("{file}:{line}"))));
        }
        let frames = labels.into_iter().enumerate().map(|(depth, label)| FrameInfo {
            frame: Frame::Label(label),
            category_pair: if depth < marked { of_marks } else { of_functions }.into(),
            flags: FrameFlags::empty(),
        });
        let handle = profile.intern_stack_frames(thread, frames);
        let weight = i32::try_from(stack.samples).unwrap_or(i32::MAX);
        profile.add_sample(thread, at(taken), handle, CpuDelta::ZERO, weight);
        taken = taken.saturating_add(stack.samples);
    }
    profile.set_thread_end_time(thread, at(taken));
}
