//! What stands beside a mark's name: its calls, and what two of its events say together.
//!
//! A ratio stands only where both events were counted over the same calls.

use super::quantity::{counted, percent};
use super::text::{push_right, width};
use crate::snapshot::{Mark, Values};

/// What a ratio is of, and how it is told.
struct Ratio {
    of: &'static str,
    to: &'static str,
    tell: fn(i64, i64) -> String,
}

/// The last ones give way first.
const RATIOS: [Ratio; 4] = [
    Ratio { of: "instructions", to: "cycles", tell: |of, to| format!("{} insn/cycle", hundredths(of, to)) },
    Ratio {
        of: "branch-misses",
        to: "branches",
        tell: |of, to| format!("{} branch misses", percent(of, to.unsigned_abs().into())),
    },
    Ratio {
        of: "cache-misses",
        to: "cache-references",
        tell: |of, to| format!("{} cache misses", percent(of, to.unsigned_abs().into())),
    },
    // Cycles in a nanosecond.
    Ratio { of: "cycles", to: "time", tell: |of, to| format!("{} GHz", hundredths(of, to)) },
];

/// Between facts.
const SPACE: &str = "   ";
const GAP: usize = SPACE.len();
/// Of a long name so much is not to give way to ratios.
const NAME: usize = 24;

/// The facts of all marks, each kind below its like.
pub(super) struct Facts {
    marks: Vec<[Option<String>; RATIOS.len()]>,
    calls: Vec<String>,
    /// Of each ratio that is shown; none of those that are not, or that no mark has.
    widths: [Option<usize>; RATIOS.len()],
    calls_width: usize,
}

impl Facts {
    /// Of these marks with their names, beside which there is so much room in all.
    pub(super) fn new<'a>(marks: impl Iterator<Item = (&'a Mark, &'a str)> + Clone, room: usize) -> Self {
        let calls: Vec<String> = marks.clone().map(|(mark, _)| counted(mark.calls, "call")).collect();
        let ratios: Vec<_> =
            marks.clone().map(|(mark, _)| RATIOS.each_ref().map(|ratio| ratio.of_mark(mark))).collect();
        let mut widths = [None; RATIOS.len()];
        for ratios in &ratios {
            for (known, told) in widths.iter_mut().zip(ratios) {
                *known = (*known).max(told.as_deref().map(width));
            }
        }
        let mut facts = Self {
            calls_width: calls.iter().map(|calls| width(calls)).max().unwrap_or(0),
            marks: ratios,
            calls,
            widths,
        };
        let name = marks.map(|(_, label)| width(label)).max().unwrap_or(0).min(NAME);
        for last in (0..RATIOS.len()).rev() {
            if name + GAP + facts.width() > room {
                facts.widths[last] = None;
            }
        }
        facts
    }

    pub(super) fn width(&self) -> usize {
        self.widths.iter().flatten().map(|width| width + GAP).sum::<usize>() + self.calls_width
    }

    /// Whether some mark's cycles by time are shown.
    pub(super) fn has_clock(&self) -> bool {
        self.widths[RATIOS.len() - 1].is_some()
    }

    /// The facts of the mark at this place, with their own width only.
    pub(super) fn of(&self, place: usize) -> String {
        let ratios =
            self.marks[place].iter().zip(self.widths).filter_map(|(told, width)| Some((told.as_deref(), width?)));
        let mut out = String::new();
        for (told, width) in ratios.chain([(Some(&*self.calls[place]), self.calls_width)]) {
            out.push_str(SPACE);
            push_right(&mut out, told.unwrap_or(""), width);
        }
        out.trim_start_matches(' ').to_owned()
    }
}

impl Ratio {
    fn of_mark(&self, mark: &Mark) -> Option<String> {
        let find =
            |event: &str| mark.values.iter().find(|values: &&Values| values.event == event && values.measured > 0);
        let (of, to) = (find(self.of)?, find(self.to)?);
        // As many, and all but a few of those that there are: else they may be others.
        let are_same = of.measured == to.measured && of.unmeasured.max(to.unmeasured) <= of.measured / 64;
        (are_same && of.sum >= 0 && to.sum > 0).then(|| (self.tell)(of.sum, to.sum))
    }
}

/// With two decimals, and never a false zero.
fn hundredths(of: i64, to: i64) -> String {
    let ratio = of as f64 / to as f64;
    if of > 0 && ratio < 0.005 { "<0.01".to_owned() } else { format!("{ratio:.2}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample::{self, mark, values};

    fn told(mark: &Mark, room: usize) -> String {
        Facts::new([(mark, "a mark")].into_iter(), room).of(0)
    }

    fn all() -> Mark {
        let mut all = mark("all", 2);
        for (event, sum) in [
            ("cycles", 100),
            ("instructions", 249),
            ("time", 40),
            ("branches", 1_000),
            ("branch-misses", 8),
            ("cache-references", 70),
            ("cache-misses", 7),
        ] {
            all.values.push(values(event, 2, sum));
        }
        all
    }

    #[test]
    fn a_ratio_stands_only_where_both_events_were_counted_over_the_same_calls() {
        let mut some = all();
        assert_eq!(
            told(&some, 200),
            "2.49 insn/cycle   0.8 % branch misses   10.0 % cache misses   2.50 GHz   2 calls"
        );
        some.values[0].unmeasured = 2;
        some.values[1].unmeasured = 2;
        assert_eq!(told(&some, 200), "0.8 % branch misses   10.0 % cache misses   2 calls", "two of four calls each");
        some.values[0].measured = 1;
        assert_eq!(told(&some, 200), "0.8 % branch misses   10.0 % cache misses   2 calls");
        some.values[3].sum = 0;
        some.values.retain(|values| values.event != "cache-references");
        assert_eq!(told(&some, 200), "2 calls");
        some.values[0].measured = 0;
        some.values[1].measured = 0;
        assert_eq!(told(&some, 200), "2 calls");
    }

    #[test]
    fn the_last_ratios_give_way_where_there_is_no_room() {
        let full = told(&all(), 200);
        let needed = "a mark".len() + GAP + full.len();
        assert_eq!(told(&all(), needed), full);
        assert_eq!(told(&all(), needed - 1), "2.49 insn/cycle   0.8 % branch misses   10.0 % cache misses   2 calls");
        assert_eq!(told(&all(), 60), "2.49 insn/cycle   0.8 % branch misses   2 calls");
        assert_eq!(told(&all(), 20), "2 calls");
    }

    #[test]
    fn ratios_of_all_marks_are_below_one_another() {
        let mut other = mark("other", 1_200);
        other.values = vec![values("cycles", 9, 1), values("instructions", 9, 12), values("branch-misses", 9, 9)];
        let marks = [all(), other];
        let facts = Facts::new(marks.iter().map(|mark| (mark, "")), 60);
        let told = [facts.of(0), facts.of(1)];
        assert_eq!(
            told,
            [
                "2.49 insn/cycle   0.8 % branch misses       2 calls",
                "12.00 insn/cycle                         1,200 calls"
            ]
        );
    }

    #[test]
    fn a_ratio_is_never_a_false_zero_and_whatever_is_told_fits() {
        assert_eq!(hundredths(0, 9), "0.00");
        assert_eq!(hundredths(1, 900), "<0.01");
        for snapshot in sample::nasty() {
            for mark in &snapshot.marks {
                assert!(width(&told(mark, 50)) <= 50);
            }
        }
    }
}
