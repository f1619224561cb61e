//! Makes a snapshot: merges every thread's cells, and turns ticks into nanoseconds.

use std::sync::atomic::Ordering::Relaxed;

use perfmark_rdpmc::clock;
use perfmark_rdpmc::support::Truth;

use crate::cells::{Figures, Totals};
use crate::config::{self, config};
use crate::defaults;
use crate::events::{Entry, EventId, What, events};
use crate::mark::{self, Mark};
use crate::recorder;
use crate::registry::{Merged, registry};
use crate::snapshot::{self, Read, Snapshot, Unit, Values};
use crate::start;

pub(crate) fn snapshot() -> Snapshot {
    let mut snapshot = Snapshot { schema: 1, program: program(), pid: std::process::id(), ..Snapshot::default() };
    // None: this thread is inside perfmark already, in a signal handler; its locks may be taken.
    let recorded = recorder::own_work(|| {
        start::start();
        if config().on { Ok((registry()?.merged(), events()?.all())) } else { Ok(Default::default()) }
    });
    let (merged, events) = match recorded {
        Some(Ok(recorded)) => recorded,
        Some(Err(error)) => {
            let error: std::io::Error = error;
            snapshot
                .notes
                .push(format!("nothing could be recorded: no memory that a fork wipes (linux 4.14 has it): {error}"));
            Default::default()
        }
        None => {
            snapshot
                .notes
                .push("taken by a signal handler while perfmark itself was at work: figures are missing".into());
            Default::default()
        }
    };
    let clock = start::clock();
    snapshot.wall_ns = u64::try_from(clock.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let has_time = events.iter().any(|(_, entry)| entry.what == What::Time);
    let nanoseconds = if has_time { clock.nanoseconds_per_tick() } else { 1.0 };
    snapshot.threads = merged.threads;
    snapshot.events = events.iter().map(|(_, entry)| event(entry)).collect();
    snapshot.marks = mark::all().into_iter().map(|mark| figures(mark, &merged, &events, nanoseconds)).collect();
    snapshot.marks.sort_by(|one, two| (&one.file, one.line, &one.path).cmp(&(&two.file, two.line, &two.path)));
    snapshot.notes.extend(events.iter().flat_map(|(_, entry)| partly(entry)));
    snapshot.notes.extend(figures_with_probes(&merged, &events));
    snapshot.notes.extend(sums_at_their_end(&snapshot));
    snapshot.notes.extend(events.iter().filter_map(|(_, entry)| unreliable(&name(&entry.what), entry.truth?)));
    if events.iter().any(|(_, entry)| entry.stands_in) {
        snapshot.notes.push("marks that can have none of the events they ask for record time instead".into());
    }
    snapshot.notes.extend(defaults::wrong());
    if !clock::is_trusted() {
        snapshot
            .notes
            .push("the kernel does not trust this machine's tick counter: times may be off between CPUs".into());
    }
    snapshot
}

fn program() -> String {
    let path = std::env::current_exe().ok().or_else(|| std::env::args_os().next().map(Into::into));
    let name = path.as_deref().and_then(std::path::Path::file_name);
    name.map_or_else(|| "?".into(), |name| name.to_string_lossy().into_owned())
}

fn name(what: &What) -> String {
    match what {
        What::Time => "time".into(),
        What::Counter(event) => event.to_string(),
        What::Unknown(name) => (*name).into(),
    }
}

fn event(entry: &Entry) -> snapshot::Event {
    let unit = match &entry.what {
        What::Time => Unit::Ns,
        What::Counter(event) if event.is_time() => Unit::Ns,
        _ => Unit::Count,
    };
    let (read, reason) = match entry {
        Entry { what: What::Time, .. } => (Read::Ticks, None),
        Entry { user: 1.., .. } => (Read::User, None),
        Entry { syscall: 1.., why_syscall, .. } => (Read::Syscall, why_syscall.clone()),
        Entry { why_refused, .. } => (Read::None, why_refused.clone()),
    };
    snapshot::Event { name: name(&entry.what), unit, read, reason }
}

/// What is wrong with a counter that a loop of known length showed to lie. One that did not count the loop told nothing.
fn unreliable(name: &str, truth: Truth) -> Option<String> {
    let counted = truth.counted.filter(|_| !truth.holds())?;
    Some(format!(
        "{name}: unreliable on this machine: of a loop of {} instructions it counted {counted}",
        truth.executed
    ))
}

/// The events in which some marks' own cost is not known.
fn figures_with_probes(merged: &Merged, events: &[(EventId, Entry)]) -> Option<String> {
    let figures = || merged.marks.values().flat_map(|totals| &totals.events);
    let is_unknown = |id: EventId| figures().any(|(event, figures)| *event == id && figures.probe.is_unknown);
    let names: Vec<String> =
        events.iter().filter(|(id, _)| is_unknown(*id)).map(|(_, entry)| name(&entry.what)).collect();
    (!names.is_empty()).then(|| {
        let why = "could not be measured, as other events held the counters: it is in figures of marks that have them";
        format!("what a mark itself costs in {} {why}", names.join(", "))
    })
}

/// Marks whose sums are more than can be told.
fn sums_at_their_end(snapshot: &Snapshot) -> Option<String> {
    let is_full = |mark: &&snapshot::Mark| mark.values.iter().any(|values| values.sum == u64::MAX);
    let names: Vec<&str> = snapshot.marks.iter().filter(is_full).map(|mark| mark.name.as_str()).collect();
    (!names.is_empty()).then(|| format!("sums stop at {}, and are more: {}", u64::MAX, names.join(", ")))
}

/// What only some of the threads had to do without.
fn partly(entry: &Entry) -> Vec<String> {
    let threads = |n: u64| if n == 1 { "1 thread".into() } else { format!("{n} threads") };
    let name = name(&entry.what);
    let mut notes = Vec::new();
    if let (1.., 1.., Some(why)) = (entry.user, entry.syscall, &entry.why_syscall) {
        notes.push(format!("{name}: read by read(2) on {}: {why}", threads(entry.syscall)));
    }
    if let (1.., 1.., Some(why)) = (entry.user + entry.syscall, entry.refused, &entry.why_refused) {
        notes.push(format!("{name}: not counted on {}: {why}", threads(entry.refused)));
    }
    notes
}

fn figures(mark: &'static Mark, merged: &Merged, events: &[(EventId, Entry)], nanoseconds: f64) -> snapshot::Mark {
    let totals = merged.totals(mark);
    let (interrupted, unrecorded) = (mark.interrupted.load(Relaxed), mark.unrecorded.load(Relaxed));
    let cancelled = mark.cancelled.load(Relaxed);
    let calls = totals.calls + interrupted + unrecorded + cancelled;
    let wanted = config::wanted(mark);
    let mut events: Vec<_> = totals
        .events
        .iter()
        // An event that began to be recorded after the table was copied: the next snapshot has it.
        .filter_map(|(id, figures)| Some((&events.iter().find(|(event, _)| event == id)?.1, figures)))
        .collect();
    // As the mark names them; `time` that stands in is last.
    events.sort_by_key(|(entry, _)| wanted.iter().position(|what| *what == entry.what).unwrap_or(usize::MAX));
    let values = events.into_iter().map(|(entry, figures)| {
        let scale = if entry.what == What::Time { Some(nanoseconds) } else { None };
        values(name(&entry.what), figures, calls - cancelled, &totals, scale)
    });
    snapshot::Mark {
        name: mark.name.into(),
        path: mark.full_path(),
        file: mark.file.into(),
        line: mark.line,
        calls,
        in_flight: in_flight(&totals, mark),
        unwound: totals.unwound,
        cancelled,
        polls: totals.polls,
        interrupted,
        every: config::every(mark),
        skipped: totals.skipped,
        values: values.collect(),
    }
}

/// Calls that began and did not end.
fn in_flight(totals: &Totals, mark: &Mark) -> u64 {
    let left = totals.in_flight.wrapping_sub(mark.gone.load(Relaxed));
    // Less than nothing where one ended while threads were looked at in turn.
    if left.cast_signed() < 0 { 0 } else { left }
}

/// Of `calls` that may be measured. `scale` turns ticks into nanoseconds.
fn values(event: String, figures: &Figures, calls: u64, totals: &Totals, scale: Option<f64>) -> Values {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates, and is not negative")]
    let unit = |value: u64| scale.map_or(value, |scale| (value as f64 * scale).round() as u64);
    // Sums beyond the range stay at its end.
    let sum_unit = |sum: u128| unit(u64::try_from(sum).unwrap_or(u64::MAX));
    let frozen = &figures.values;
    let quantile = |numerator, denominator| frozen.quantile(numerator, denominator).map(unit);
    let sum = sum_unit(frozen.sum);
    let unmeasured = calls.saturating_sub(frozen.count + totals.unwound + totals.skipped);
    let missing = unmeasured + totals.skipped;
    // With those that are missing, if they are like the others.
    let of_all = |sum: u128| {
        let count = u128::from(frozen.count);
        sum.saturating_mul(count + u128::from(missing)).checked_div(count).unwrap_or(sum)
    };
    // Of a recursive function the outermost calls hold the others, measured or not; how much those hold that are missing nobody knows.
    let is_recursive = figures.nested != 0 || figures.unmeasured_nested != 0;
    let missing_outermost = if is_recursive { unmeasured.saturating_sub(figures.unmeasured_nested) } else { 0 };
    let total = if is_recursive && totals.skipped == 0 { figures.total() } else { of_all(figures.total()) };
    Values {
        event,
        measured: frozen.count,
        scaled: figures.scaled,
        unmeasured,
        sum,
        total: sum_unit(total),
        missing_outermost,
        extrapolated: missing > 0,
        self_sum: Some(sum_unit(of_all(figures.own()))),
        min: frozen.min().map(unit),
        max: frozen.max().map(unit),
        mean: (frozen.count > 0).then(|| frozen.sum as f64 * scale.unwrap_or(1.0) / frozen.count as f64),
        p50: quantile(1, 2),
        p90: quantile(9, 10),
        p99: quantile(99, 100),
        p999: quantile(999, 1000),
        probe: snapshot::Probe {
            own: unit(figures.probe.own),
            whole: unit(figures.probe.whole),
            noise: unit(figures.probe.noise),
        },
        buckets: match scale {
            None => frozen.buckets().collect(),
            Some(scale) => in_nanoseconds(frozen.buckets(), scale),
        },
    }
}

/// The buckets' ranges of ticks as ranges of nanoseconds that follow one another; those that fall within one nanosecond are one.
fn in_nanoseconds(buckets: impl Iterator<Item = (u64, u64, u64)>, scale: f64) -> Vec<(u64, u64, u64)> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates, and is not negative")]
    let nanoseconds = |ticks: f64| (ticks * scale).round() as u64;
    let mut scaled: Vec<(u64, u64, u64)> = Vec::new();
    for (low, high, count) in buckets {
        let (mut low, high) = (nanoseconds(low as f64), nanoseconds(high as f64));
        match scaled.last_mut() {
            Some((_, last, merged)) if *last >= high => {
                *merged += count;
                continue;
            }
            Some((_, last, _)) => low = low.max(*last + 1),
            None => {}
        }
        scaled.push((low, high, count));
    }
    scaled
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_in_nanoseconds_follow_one_another_and_lose_no_call() {
        let ticks = || (0..100_u64).map(|n| (32 * n, 32 * n + 31, 1));
        for scale in [0.01, 0.384_615, 1.0, 16.0, 1e9] {
            let scaled = in_nanoseconds(ticks(), scale);
            assert!(scaled.iter().all(|(low, high, _)| low <= high), "{scaled:?}");
            assert!(scaled.windows(2).all(|pair| pair[0].1 < pair[1].0), "{scaled:?}");
            assert_eq!(scaled.iter().map(|bucket| bucket.2).sum::<u64>(), 100);
        }
        assert_eq!(in_nanoseconds([(u64::MAX - 9, u64::MAX, 1)].into_iter(), 2.0), [(u64::MAX, u64::MAX, 1)]);
    }
}
