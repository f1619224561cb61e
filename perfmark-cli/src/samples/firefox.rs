//! The processed format of the Firefox Profiler. Samples with times are on a timeline of their threads, where marks are
//! markers. Other samples are in a thread for each event and rate: they follow each other at the sampling interval,
//! those with the same marks together.

use std::collections::{BTreeMap, BTreeSet};
use std::{mem, ptr};

use fxprof_processed_profile::{
    CategoryColor, CategoryHandle, CpuDelta, Frame, FrameFlags, FrameInfo, MarkerFieldFlags, MarkerFieldFormat,
    MarkerLocations, MarkerTiming, ProcessHandle, Profile, ReferenceTimestamp, SamplingInterval, StackHandle,
    StaticSchemaMarker, StaticSchemaMarkerField, StringHandle, ThreadHandle, Timestamp, WeightType,
};
use perfmark::text::sanitize;
use perfmark::{Samples, Snapshot};

use super::stacks::{Sampled, Stack, is_of_clock};

pub(super) fn render(snapshot: &Snapshot, sampled: &[Sampled<'_>]) -> Result<Vec<u8>, String> {
    let start = ReferenceTimestamp::from_millis_since_unix_epoch(0.0);
    let program = sanitize(&snapshot.program);
    let first = sampled.first().map_or(MILLISECOND, |one| interval(one.samples));
    let mut profile = Profile::new(&program, start, SamplingInterval::from_nanos(first));
    let process = profile.add_process(&program, snapshot.pid, at(0));
    let categories = [("Marks", CategoryColor::Purple), ("Functions", CategoryColor::Blue)];
    let categories = categories.map(|(name, color)| profile.add_category(name, color));
    let is_only = sampled.len() == 1;
    for one in sampled {
        let mut threads = Threads { profile: &mut profile, process, categories, sampled: one };
        if one.samples.timestamps {
            threads.add_timelines(is_only);
        } else {
            threads.add_one(snapshot.pid);
        }
    }
    serde_json::to_vec(&profile).map_err(|why| format!("the samples cannot be written for Firefox: {why}"))
}

const MILLISECOND: u64 = 1_000_000;

/// The nanoseconds between two samples.
fn interval(samples: &Samples) -> u64 {
    known_interval(samples).unwrap_or(MILLISECOND)
}

/// They are known if samples are taken at a frequency, or at a period of a clock.
fn known_interval(samples: &Samples) -> Option<u64> {
    let of_clock = samples.period.filter(|_| is_of_clock(samples));
    let interval = of_clock.or(samples.frequency.map(|frequency| 1_000 * MILLISECOND / frequency.max(1)));
    interval.map(|interval| interval.max(1))
}

fn at(nanoseconds: u64) -> Timestamp {
    Timestamp::from_nanos_since_reference(nanoseconds)
}

/// The threads of an event and rate.
struct Threads<'p, 'a> {
    profile: &'p mut Profile,
    process: ProcessHandle,
    /// Those of marks, and of functions.
    categories: [CategoryHandle; 2],
    sampled: &'p Sampled<'a>,
}

/// The names in a stack, the outermost first, and how many of them are marks or threads.
struct Named<'a> {
    stack: Stack<'a>,
    names: Vec<StringHandle>,
    marked: usize,
}

impl<'a> Threads<'_, 'a> {
    /// A thread with all samples, which have no times.
    fn add_one(&mut self, number: u32) {
        let interval = interval(self.sampled.samples);
        let thread = self.add(number, 0, &format!("samples of {}", self.sampled.samples.rate()));
        let mut taken = 0_u64;
        for named in self.named() {
            let weight = i32::try_from(named.stack.samples).unwrap_or(i32::MAX);
            let stack = self.intern(thread, &named);
            self.profile.add_sample(thread, at(taken.saturating_mul(interval)), stack, CpuDelta::ZERO, weight);
            taken = taken.saturating_add(named.stack.samples);
        }
        self.profile.set_thread_end_time(thread, at(taken.saturating_mul(interval)));
    }

    /// Each thread that has samples with times. If this event `is_only`, its name is that of the thread.
    fn add_timelines(&mut self, is_only: bool) {
        let samples = self.sampled.samples;
        let all = self.named();
        let mut by_thread: BTreeMap<usize, Vec<(u64, &Named<'_>)>> = BTreeMap::new();
        for one in &all {
            for time in one.stack.times {
                by_thread.entry(time.thread).or_default().push((time.ns, one));
            }
        }
        // Each sample stands for that much CPU time.
        let cpu_ns = known_interval(samples).unwrap_or(0);
        for (thread, mut timeline) in by_thread {
            timeline.sort_by_key(|(time, _)| *time);
            let (Some(first), Some(last)) = (timeline.first(), timeline.last()) else { continue };
            let known = samples.threads.get(thread);
            let name = known.and_then(|thread| thread.name.as_deref()).map_or_else(|| "thread".into(), sanitize);
            let name = if is_only { name } else { format!("{name}: {}", samples.rate()) };
            let thread = self.add(known.map_or(0, |thread| thread.id), first.0, &name);
            self.profile.set_thread_show_markers_in_timeline(thread, true);
            self.profile.set_thread_end_time(thread, at(last.0));
            let (mut before, mut stacks) = (0, BTreeMap::new());
            for (time, named) in &timeline {
                let cpu = CpuDelta::from_nanos(cpu_ns.min(time - mem::replace(&mut before, *time)));
                let stack = *stacks.entry(ptr::from_ref(*named)).or_insert_with(|| self.intern(thread, named));
                self.profile.add_sample(thread, at(*time), stack, cpu, 1);
            }
            self.add_markers(thread, &timeline);
        }
    }

    /// A marker for each mark and each series of samples in it.
    fn add_markers(&mut self, thread: ThreadHandle, timeline: &[(u64, &Named<'_>)]) {
        let mut series: BTreeMap<&str, (u64, InMark)> = BTreeMap::new();
        let category = self.categories[0];
        let mut runs = timeline.chunk_by(|(_, one), (_, other)| ptr::eq(*one, *other)).peekable();
        while let Some(run) = runs.next() {
            let (Some((begun, named)), Some((time, _))) = (run.first(), run.last()) else { continue };
            let samples = u32::try_from(run.len()).unwrap_or(u32::MAX);
            for (&name, &label) in named.stack.marks.iter().zip(&named.names) {
                let (_, mark) = series.entry(name).or_insert((*begun, InMark { name: label, category, samples: 0 }));
                mark.samples = mark.samples.saturating_add(samples);
            }
            let next = runs.peek().and_then(|run| run.first()).map_or(&[][..], |(_, next)| &next.stack.marks);
            let next: BTreeSet<&str> = next.iter().copied().collect();
            series.retain(|name, (start, mark)| {
                let goes_on = next.contains(name);
                if !goes_on {
                    self.profile.add_marker(thread, MarkerTiming::Interval(at(*start), at(*time)), *mark);
                }
                goes_on
            });
        }
    }

    fn add(&mut self, number: u32, start: u64, name: &str) -> ThreadHandle {
        // A main thread would have the program's name instead of its own.
        let thread = self.profile.add_thread(self.process, number, at(start), false);
        self.profile.set_thread_name(thread, name);
        self.profile.set_thread_samples_weight_type(thread, WeightType::Samples);
        thread
    }

    fn intern(&mut self, thread: ThreadHandle, named: &Named<'_>) -> Option<StackHandle> {
        let [of_marks, of_functions] = self.categories;
        let frames = named.names.iter().enumerate().map(|(depth, &label)| FrameInfo {
            frame: Frame::Label(label),
            category_pair: if depth < named.marked { of_marks } else { of_functions }.into(),
            flags: FrameFlags::empty(),
        });
        self.profile.intern_stack_frames(thread, frames)
    }

    fn named(&mut self) -> Vec<Named<'a>> {
        let mut known = BTreeMap::new();
        let named = |stack: Stack<'a>| {
            let mut names = Vec::new();
            for part in stack.parts() {
                let name = known.entry(part.key()).or_insert_with(|| {
                    self.profile.intern_string(&part.name(|frame| match (&frame.file, frame.line) {
                        (Some(file), Some(line)) => format!("{} ({file}:{line})", frame.function),
                        _ => frame.function.clone(),
                    }))
                });
                names.push(*name);
            }
            let marked = stack.marks.len().max(1) + usize::from(stack.thread.is_some());
            if let Some((file, line)) = stack.own().and_then(|own| own.file.as_ref().zip(own.line)) {
                names.insert(marked, self.profile.intern_string(&sanitize(&format!("{file}:{line}"))));
            }
            Named { stack, names, marked }
        };
        self.sampled.stacks().map(named).collect()
    }
}

/// A series of samples in calls of a mark.
#[derive(Clone, Copy)]
struct InMark {
    name: StringHandle,
    category: CategoryHandle,
    samples: u32,
}

impl StaticSchemaMarker for InMark {
    const UNIQUE_MARKER_TYPE_NAME: &'static str = "InMark";
    const DESCRIPTION: Option<&'static str> = Some("Successive samples of the thread in calls of this mark.");
    const LOCATIONS: MarkerLocations =
        MarkerLocations::MARKER_CHART.union(MarkerLocations::MARKER_TABLE).union(MarkerLocations::TIMELINE_OVERVIEW);
    const CHART_LABEL: Option<&'static str> = Some("{marker.name}");
    const FIELDS: &'static [StaticSchemaMarkerField] = &[StaticSchemaMarkerField {
        key: "samples",
        label: "Samples",
        format: MarkerFieldFormat::Integer,
        flags: MarkerFieldFlags::empty(),
    }];

    fn name(&self, _: &mut Profile) -> StringHandle {
        self.name
    }

    fn category(&self, _: &mut Profile) -> CategoryHandle {
        self.category
    }

    fn string_field_value(&self, _: u32) -> StringHandle {
        self.name
    }

    fn number_field_value(&self, _: u32) -> f64 {
        self.samples.into()
    }
}
