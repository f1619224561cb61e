//! What was sampled, how to read the shares of samples, and what the samples lack.

use super::hot_lines::{FEWEST, events};
use super::quantity::ESTIMATE;
use crate::snapshot::{Samples, Snapshot};
use crate::text::{counted, exact, plural, sanitize};

/// How to read the lines, and what they lack. `None` if nothing was sampled.
pub(super) fn legend(snapshot: &Snapshot) -> Option<String> {
    let samples = snapshot.sampled();
    if samples.is_empty() {
        return None;
    }
    let counts: Vec<String> =
        samples.iter().map(|one| format!("{} of {}", counted(one.taken(), "sample"), one.rate())).collect();
    let taken = counts.join("; ");
    if samples.iter().all(|one| one.taken() == 0) {
        let rates: Vec<String> = samples.iter().map(Samples::rate).collect();
        return Some(format!("no samples of {}", rates.join("; ")));
    }
    if samples.iter().all(|one| one.locations.is_empty()) {
        return Some(taken);
    }
    if !samples.iter().any(Samples::has_names) {
        return Some(format!(
            "{taken}. They are addresses without lines: name them by `perfmark::symbols::Symbols`, which requires the \
             feature `symbols`, or write a report with PERFMARK_FORMAT=json for `perfmark report --symbols FILE`"
        ));
    }
    let few = format!("unctions with fewer than {FEWEST} samples are not shown. {taken}.");
    let of_lines = "Lines below a mark: share of the samples in the mark without marked callees, ± its standard error.";
    let has_lines = samples.iter().flat_map(|one| &one.paths).any(|path| !path.marks.is_empty());
    Some(if has_lines { format!("{of_lines} Lines and f{few}") } else { format!("F{few}") })
}

/// Samplings of which so many samples were lost that the others may be biased, a sentence each.
#[cfg(feature = "html")]
pub(super) fn biased(snapshot: &Snapshot) -> impl Iterator<Item = String> {
    let all = snapshot.sampled().iter().zip(events(snapshot.sampled()));
    all.flat_map(|(samples, event)| {
        let why = [
            lost(samples).filter(|_| samples.is_lossy()),
            missing(samples),
            unattributed(samples).filter(|_| samples.is_unattributed()),
            without(samples).filter(|_| samples.lacks_threads()),
        ];
        why.into_iter().flatten().map(move |sentence| of_event(&event, &sentence))
    })
}

/// Flags the shares of samples of which others are missing.
fn flagged() -> String {
    format!("; shares have the flag {ESTIMATE}, because the remaining samples may be biased")
}

/// The samples that the kernel could not write.
fn lost(samples: &Samples) -> Option<String> {
    let percent = percent(samples.lost, samples.lost.saturating_add(samples.taken_in_all()));
    let flagged = if samples.is_lossy() { flagged() } else { String::new() };
    (samples.lost > 0).then(|| format!("{} lost ({percent:.1} %){flagged}", were(samples.lost, "sample")))
}

/// The samples that were never taken.
fn missing(samples: &Samples) -> Option<String> {
    let (missing, expected) = (samples.missing()?, samples.expected()?);
    Some(format!(
        "{} of {} that the CPU time in user mode should have are missing ({:.0} %): of threads that ended soon or \
         could not be sampled, or because the kernel was late{}",
        exact(missing),
        counted(expected, "sample"),
        percent(missing, expected),
        flagged()
    ))
}

fn of_event(event: &str, sentence: &str) -> String {
    if event.is_empty() { sentence.to_owned() } else { format!("{event}: {sentence}") }
}

/// What is missing among the samples, a sentence each.
pub(super) fn lacks(snapshot: &Snapshot) -> Vec<String> {
    let mut lacks: Vec<String> = Vec::new();
    if snapshot.sampled().is_empty() {
        return lacks;
    }
    // The events of one sampling have the same threads.
    let threads = snapshot.sampled().iter().flat_map(of_threads);
    for sentence in threads {
        if !lacks.contains(&sentence) {
            lacks.push(sentence);
        }
    }
    for (samples, event) in snapshot.sampled().iter().zip(events(snapshot.sampled())) {
        let sentences = of_one(samples).into_iter().chain(short_stacks(snapshot, samples));
        lacks.extend(sentences.map(|sentence| of_event(&event, &sentence)));
    }
    lacks
}

/// What to do if many stacks do not reach the marked function.
fn short_stacks(snapshot: &Snapshot, samples: &Samples) -> Option<String> {
    /// In percent.
    const MANY: f64 = 10.0;
    const ENOUGH: u64 = 8192;
    if !(1..ENOUGH).contains(&samples.stack_bytes) {
        return None;
    }
    let by_mark = snapshot.samples_by_mark(samples);
    let lines = (0..snapshot.marks.len()).flat_map(|mark| by_mark.hot_lines(Some(mark)));
    let (mut all, mut elsewhere) = (0_u64, 0_u64);
    for line in lines {
        all = all.saturating_add(line.samples);
        elsewhere = elsewhere.saturating_add(if line.is_own { 0 } else { line.samples });
    }
    let percent = percent(elsewhere, all);
    (percent > MANY && elsewhere >= FEWEST).then(|| {
        format!(
            "{percent:.1} % of the samples in marks are at lines of other functions, as {} bytes of the stack did not \
             reach the marked one; add `stack={ENOUGH}` to PERFMARK_SAMPLE to sample more of it",
            exact(samples.stack_bytes)
        )
    })
}

fn percent(part: u64, all: u64) -> f64 {
    part as f64 / all.max(1) as f64 * 100.0
}

fn of_one(samples: &Samples) -> Vec<String> {
    let mut lacks: Vec<String> = lost(samples).into_iter().chain(missing(samples)).collect();
    if samples.throttled > 0 {
        let times = counted(samples.throttled, "time");
        lacks.push(format!("the kernel paused sampling {times}, because there were too many samples"));
    }
    lacks.extend(unattributed(samples));
    lacks
}

/// The samples that belong to no mark, if they are many or in calls that are too deep.
fn unattributed(samples: &Samples) -> Option<String> {
    let known = samples.in_open_calls.saturating_add(samples.too_deep);
    let parts = [
        (samples.in_open_calls, "in calls that were still open"),
        (samples.too_deep, "in calls beyond the limit of about 1,170 open calls"),
        (samples.unattributed.saturating_sub(known), "in calls that are unknown or began before sampling"),
    ];
    let parts = parts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{} {what}", exact(*count)));
    (samples.is_unattributed() || samples.too_deep > 0).then(|| {
        format!(
            "{} not attributed ({:.1} %): {}{}",
            were(samples.unattributed, "sample"),
            percent(samples.unattributed, samples.taken_in_all()),
            parts.collect::<Vec<_>>().join(", "),
            if samples.is_unattributed() { flagged() } else { String::new() }
        )
    })
}

/// What is missing of threads.
fn of_threads(samples: &Samples) -> Vec<String> {
    let mut lacks = Vec::from_iter(without(samples));
    if samples.threads_too_short > 0 {
        let threads = counted(samples.threads_too_short, "thread");
        lacks.push(format!("{threads} ended before perfmark could sample them"));
    }
    lacks
}

/// The threads that could not be sampled.
fn without(samples: &Samples) -> Option<String> {
    let why = samples.why_without.as_deref().map_or_else(String::new, |why| format!(": {}", sanitize(why)));
    let flagged = if samples.lacks_threads() { flagged() } else { String::new() };
    let threads = samples.threads_without;
    (threads > 0).then(|| format!("{} could not be sampled{why}{flagged}", counted(threads, "thread")))
}

/// A count with its noun and verb.
fn were(count: u64, noun: &str) -> String {
    format!("{} {} {}", exact(count), plural(count, noun), if count == 1 { "was" } else { "were" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::sample;

    fn lacks_of(change: impl FnOnce(&mut Samples)) -> Vec<String> {
        let mut snapshot = sample::sampled();
        change(&mut snapshot.samples[0]);
        lacks(&snapshot)
    }

    #[test]
    fn what_the_samples_lack_is_reported() {
        assert_eq!(lacks_of(|_| ()), [""; 0], "2 samples in unknown calls are few");
        let all = lacks_of(|samples| {
            samples.throttled = 1;
            (samples.threads_without, samples.why_without) = (2, Some("mmap: EPERM".into()));
            samples.threads_too_short = 1_200;
            samples.user_ns = 5_000_000_000;
        });
        let expected = [
            "2 threads could not be sampled: mmap: EPERM",
            "1,200 threads ended before perfmark could sample them",
            "the kernel paused sampling 1 time, because there were too many samples",
        ];
        assert_eq!(all, expected);
    }

    #[test]
    fn lost_samples_are_reported_and_flag_shares_if_they_are_many() {
        // 487 samples were taken.
        let [few, many] = [25, 26].map(|lost| lacks_of(|samples| samples.lost = lost).concat());
        assert_eq!(few, "25 samples were lost (4.9 %)");
        assert!(many.starts_with("26 samples were lost (5.1 %); shares have the flag ≈"), "{many}");
    }

    #[test]
    fn cpu_time_without_samples_is_reported_and_flags_shares() {
        // 487 samples of 99 a second were taken.
        let of_ms = |ms: u64| lacks_of(|samples| samples.user_ns = ms * 1_000_000).concat();
        assert_eq!([of_ms(0), of_ms(5_000), of_ms(5_600)], [""; 3]);
        let expected = "107 of 594 samples that the CPU time in user mode should have are missing (18 %): of threads \
                        that ended soon or could not be sampled, or because the kernel was late; shares have the flag \
                        ≈, because the remaining samples may be biased";
        assert_eq!(of_ms(6_000), expected);
        let without =
            |ms: u64| lacks_of(|samples| (samples.user_ns, samples.threads_without) = (ms * 1_000_000, 1)).concat();
        assert_eq!(without(5_000), "1 thread could not be sampled");
        let unknown = "1 thread could not be sampled; shares have the flag ≈, because";
        assert!(without(0).starts_with(unknown), "{}", without(0));
        let short = |threads_without| {
            let all = |samples: &mut Samples| {
                samples.paths.retain(|path| path.marks == [1]);
                (samples.user_ns, samples.threads_without) = (900_000_000, threads_without);
            };
            lacks_of(all).concat()
        };
        assert!(
            !short(0).contains("missing") && short(31).contains("of 89 samples that the CPU time"),
            "{}",
            short(31)
        );
        let with_one_lost = lacks_of(|samples| (samples.user_ns, samples.lost) = (6_000_000_000, 1));
        assert_eq!(with_one_lost[0], "1 sample was lost (0.2 %)");
        assert!(with_one_lost[1].starts_with("106 of 594 samples"), "{with_one_lost:?}");
        let of_kernel = |samples: &mut Samples| {
            (samples.user_ns, samples.event) = (6_000_000_000, "cpu-clock:k".to_owned());
        };
        assert_eq!(lacks_of(of_kernel), [""; 0]);
    }

    #[test]
    fn samples_without_a_line_of_the_marked_function_have_a_remedy() {
        let of_length = |bytes| lacks_of(|samples| samples.stack_bytes = bytes).concat();
        let expected = "17.5 % of the samples in marks are at lines of other functions, as 512 bytes of the stack did \
                        not reach the marked one; add `stack=8192` to PERFMARK_SAMPLE to sample more of it";
        assert_eq!(of_length(512), expected);
        assert_eq!([of_length(8192), of_length(0)], [""; 2]);
        let of_most = lacks_of(|samples| {
            samples.stack_bytes = 512;
            for stack in samples.paths.iter_mut().flat_map(|path| &mut path.stacks) {
                stack.samples = u64::MAX;
            }
        });
        assert!(of_most.concat().contains("as 512 bytes of the stack"), "{of_most:?}");
    }

    #[test]
    fn many_samples_in_unknown_calls_are_reported() {
        let unattributed = |count| lacks_of(|samples| samples.unattributed = count);
        assert_eq!(unattributed(25), [""; 0]);
        let expected = "26 samples were not attributed (5.1 %): 26 in calls that are unknown or began before sampling; \
                        shares have the flag ≈, because the remaining samples may be biased";
        assert_eq!(unattributed(26), [expected]);
    }

    #[test]
    fn samples_in_open_and_in_too_deep_calls_are_reported_with_their_numbers() {
        let parts = |unattributed, in_open_calls, too_deep| {
            lacks_of(|samples| {
                (samples.unattributed, samples.in_open_calls, samples.too_deep) =
                    (unattributed, in_open_calls, too_deep);
            })
            .concat()
        };
        assert_eq!(parts(10, 10, 0), "");
        let few = "10 samples were not attributed (2.0 %): 8 in calls that were still open, 2 in calls beyond the \
                   limit of about 1,170 open calls";
        assert_eq!(parts(10, 8, 2), few);
        let many = "200 samples were not attributed (29.2 %): 150 in calls that were still open, 40 in calls beyond \
                    the limit of about 1,170 open calls, 10 in calls that are unknown or began before sampling; \
                    shares have the flag ≈, because the remaining samples may be biased";
        assert_eq!(parts(200, 150, 40), many);
    }

    #[test]
    fn of_several_events_each_names_what_it_lacks() {
        let mut snapshot = sample::sampled_twice();
        snapshot.samples[1].lost = 1;
        assert_eq!(lacks(&snapshot), ["cache-misses: 1 sample was lost (2.2 %)"]);
        let legend = legend(&snapshot).expect("samples");
        assert!(legend.ends_with(" 487 samples of cpu-clock, 99 a second; 45 samples of cache-misses, one in 10,007."));
    }
}
