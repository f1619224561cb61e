//! The table at several widths, with names of any length and script, and values that are flagged or missing.

use super::sample::{self, flagged, mark, snapshot, values};
use super::style::tests::bare;
use super::table::render;
use super::text::width;
use crate::snapshot::{Read, Snapshot, Unit};

#[test]
fn the_narrowest_report_shortens_long_names_and_keeps_the_most_important_columns() {
    let expected = "\
perfmark · wörterbuch · pid 4242 · ran 2.31 s · 4 threads

mark                       total     share      mean      p50      p99       max
────────────────────────────────────────────────────────────────────────────────
<alloc::co…s store::Lookup>::find  1.5 % branch misses   2.93 GHz   52.1 k calls
  cycles                ≈9.70 G   ≈100.0 %    186 k    168 k    372 k    7.45 M
  branches              ≈1.45 G   ≈100.0 %   27.9 k   25.1 k   55.8 k    1.12 M
  branch-misses         ≈21.3 M   ≈100.0 %    409      368      818      16.4 k
  time                  ≈3.31 s   ≈100.0 %   63.5 µs  57.2 µs   127 µs   2.54 ms
    51,286 calls not measured (every = 64)
次の要素                                                             1,204 calls
  cycles                 66.0 k     <0.1 %   55.4       49      110     2,200
  time                  ~24.1 µs   ~<0.1 %  ~20.0 ns   ~18 ns   ~40 ns     91 ns
  branches                  –          –        –        –        –         –
    cycles: 12 of 1,204 calls unmeasured; branches: 1,204 of 1,204 calls
      unmeasured
e\u{301}tat                                                                     7 calls
    nothing measured: none of its events is available

share: percentage of everything measured in marks, marked callees included.
  Sorted by share of time. Counts are of user mode only.
GHz: user-mode cycles per nanosecond.
≈: estimated from the measured calls.
probe overhead subtracted per call (from its caller): time 51 ns (222 ns). ~: no
  larger than the noise of the probe.
read in user space: cycles, branches, branch-misses
read from the tick counter: time
not available: page-faults — perf_event_open said EACCES:
  kernel.perf_event_paranoid is 4
";
    assert_eq!(render(&flagged(), 80, false), expected);
}

#[test]
fn a_report_of_120_columns_has_self_and_p90() {
    let expected = include_str!("looks/120_columns.txt");
    assert_eq!(render(&flagged(), 120, false), expected);
}

#[test]
fn a_report_of_200_columns_has_every_column_and_the_locations_of_marks() {
    let expected = include_str!("looks/200_columns.txt");
    assert_eq!(render(&flagged(), 200, false), expected);
}

/// One mark of that name, of one event.
fn named(name: &str) -> Snapshot {
    let mut one = mark(name, 2);
    one.values = vec![values("time", 2, 1_000)];
    snapshot(&[sample::event("time", Unit::Ns, Read::Ticks)], &[one])
}

fn heads(snapshot: &Snapshot, columns: usize) -> String {
    render(snapshot, columns, false).lines().nth(2).expect("heads").split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_wider_report_never_has_less() {
    for snapshot in [named("short"), named(&"long_".repeat(80)), flagged()] {
        let mut before: Vec<String> = Vec::new();
        for columns in 80..=240 {
            let now: Vec<String> = heads(&snapshot, columns).split(' ').map(str::to_owned).collect();
            assert!(before.iter().all(|head| now.contains(head)), "{before:?}, and at {columns} {now:?}");
            before = now;
        }
    }
}

#[test]
fn the_widest_reports_columns_leave_names_their_room() {
    let all = "time by mark calls total share self mean min p50 p90 p99 p99.9 max";
    assert_eq!(heads(&named("short"), 140), format!("{all} min to max"));
    let long = named(&"a_long_name_".repeat(3));
    assert_eq!(heads(&long, 140), all);
    assert!(render(&long, 140, false).contains("a_long_name_a_long_name_a_long_name_ "));
}

#[test]
fn colours_change_no_character_of_the_table() {
    for snapshot in sample::nasty().iter().chain([&flagged(), &sample::typical(), &sample::time_only()]) {
        for columns in [80, 140, 200] {
            let (plain, coloured) = (render(snapshot, columns, false), render(snapshot, columns, true));
            assert!(!plain.contains('\u{1b}'), "{plain:?}");
            assert_eq!(bare(&coloured), plain);
            for line in coloured.lines() {
                let ends = line.matches("\u{1b}[0m").count();
                assert_eq!(line.matches('\u{1b}').count(), 2 * ends, "{line:?}");
            }
        }
    }
}

#[test]
fn headings_units_flags_and_missing_values_have_colours() {
    let report = render(&flagged(), 80, true);
    for styled in [
        "\u{1b}[1mmark                       total     share ",
        "\u{1b}[1m次の要素\u{1b}[0m  ",
        "\u{1b}[33m≈9.70\u{1b}[0m \u{1b}[2mG",
        "\u{1b}[33m~20.0\u{1b}[0m \u{1b}[2mns\u{1b}[0m",
        " \u{1b}[31m–\u{1b}[0m ",
        "    \u{1b}[31mnothing measured: none of its events is available\u{1b}[0m\n",
        "    \u{1b}[2m51,286 calls not measured (every = 64)\u{1b}[0m\n",
        "\u{1b}[2mread from the tick counter: time\u{1b}[0m\n",
    ] {
        assert!(report.contains(styled), "{styled:?} in {report:?}");
    }
    assert!(report.lines().all(|line| width(&bare(line)) <= 80));
}
