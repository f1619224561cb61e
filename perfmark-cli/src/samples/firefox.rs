//! The processed format of the Firefox Profiler.
//!
//! Samples have no time. They follow each other at the sampling interval, those with the same marks together.

use fxprof_processed_profile::{
    CategoryColor, CpuDelta, Frame, FrameFlags, FrameInfo, Profile, ReferenceTimestamp, SamplingInterval, Timestamp,
    WeightType,
};
use perfmark::text::sanitize;
use perfmark::{Samples, Snapshot};

use super::stacks::Stack;

pub(super) fn render(snapshot: &Snapshot, samples: &Samples, stacks: &[Stack<'_>]) -> Result<Vec<u8>, String> {
    const MILLISECOND: u64 = 1_000_000;
    let interval = samples.frequency.map_or(MILLISECOND, |frequency| (1_000 * MILLISECOND / frequency.max(1)).max(1));
    let start = ReferenceTimestamp::from_millis_since_unix_epoch(0.0);
    let program = sanitize(&snapshot.program);
    let mut profile = Profile::new(&program, start, SamplingInterval::from_nanos(interval));
    let at = |sample: u64| Timestamp::from_nanos_since_reference(sample.saturating_mul(interval));
    let process = profile.add_process(&program, snapshot.pid, at(0));
    let thread = profile.add_thread(process, snapshot.pid, at(0), true);
    profile.set_thread_name(thread, &format!("{program}: samples of {}", sanitize(&samples.event)));
    profile.set_thread_samples_weight_type(thread, WeightType::Samples);
    let marks = profile.add_category("Marks", CategoryColor::Purple);
    let functions = profile.add_category("Functions", CategoryColor::Blue);
    let mut taken = 0_u64;
    for stack in stacks {
        let mut labels = stack.labels(|frame| match (&frame.file, frame.line) {
            (Some(file), Some(line)) => format!("{} ({file}:{line})", frame.function),
            _ => frame.function.clone(),
        });
        let marked = stack.marks.len().max(1);
        if let Some((file, line)) = stack.own.and_then(|own| own.file.as_ref().zip(own.line)) {
            labels.insert(marked, format!("{file}:{line}"));
        }
        let mut frames = Vec::new();
        for (depth, label) in labels.iter().enumerate() {
            frames.push(FrameInfo {
                frame: Frame::Label(profile.intern_string(label)),
                category_pair: if depth < marked { marks } else { functions }.into(),
                flags: FrameFlags::empty(),
            });
        }
        let handle = profile.intern_stack_frames(thread, frames.into_iter());
        let weight = i32::try_from(stack.samples).unwrap_or(i32::MAX);
        profile.add_sample(thread, at(taken), handle, CpuDelta::ZERO, weight);
        taken = taken.saturating_add(stack.samples);
    }
    profile.set_thread_end_time(thread, at(taken));
    serde_json::to_vec(&profile).map_err(|why| format!("the samples cannot be written for Firefox: {why}"))
}
