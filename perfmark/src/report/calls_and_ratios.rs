//! The text beside a mark's name in its details: its calls, and ratios of its events.

use super::quantity::rounded_count;
use super::ratio::RATIOS;
use super::text::{push_right, width};
use crate::snapshot::Mark;

/// Between ratios.
const SPACE: &str = "   ";
const GAP: usize = SPACE.len();
/// Columns of a long name that ratios must leave.
const NAME: usize = 24;

/// Calls and ratios of all marks, aligned by kind.
pub(super) struct CallsAndRatios {
    marks: Vec<[Option<String>; RATIOS.len()]>,
    calls: Vec<String>,
    /// The width of each ratio; `None` if it is not shown, or if no mark has it.
    widths: [Option<usize>; RATIOS.len()],
    calls_width: usize,
}

impl CallsAndRatios {
    /// For these marks with their names, in a total width of `room`.
    pub(super) fn new<'a>(marks: impl Iterator<Item = (&'a Mark, &'a str)> + Clone, room: usize) -> Self {
        let calls: Vec<String> = marks.clone().map(|(mark, _)| rounded_count(mark.calls, "call")).collect();
        let ratios: Vec<_> = marks
            .clone()
            .map(|(mark, _)| RATIOS.each_ref().map(|ratio| (ratio.of_mark)(mark).map(|(of, to)| (ratio.text)(of, to))))
            .collect();
        let mut widths = [None; RATIOS.len()];
        for ratios in &ratios {
            for (known, text) in widths.iter_mut().zip(ratios) {
                *known = (*known).max(text.as_deref().map(width));
            }
        }
        let mut made = Self {
            calls_width: calls.iter().map(|calls| width(calls)).max().unwrap_or(0),
            marks: ratios,
            calls,
            widths,
        };
        let name = marks.map(|(_, label)| width(label)).max().unwrap_or(0).min(NAME);
        for last in (0..RATIOS.len()).rev() {
            if name + GAP + made.width() > room {
                made.widths[last] = None;
            }
        }
        made
    }

    pub(super) fn width(&self) -> usize {
        self.widths.iter().flatten().map(|width| width + GAP).sum::<usize>() + self.calls_width
    }

    /// Whether a clock rate is shown.
    pub(super) fn has_clock(&self) -> bool {
        self.widths[RATIOS.len() - 1].is_some()
    }

    /// Calls and ratios of the mark with this index, without padding on the left.
    pub(super) fn of(&self, index: usize) -> String {
        let ratios =
            self.marks[index].iter().zip(self.widths).filter_map(|(text, width)| Some((text.as_deref(), width?)));
        let mut out = String::new();
        for (text, width) in ratios.chain([(Some(&*self.calls[index]), self.calls_width)]) {
            out.push_str(SPACE);
            push_right(&mut out, text.unwrap_or(""), width);
        }
        out.trim_start_matches(' ').to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::sample::{mark, values};

    fn text(mark: &Mark, room: usize) -> String {
        CallsAndRatios::new([(mark, "a mark")].into_iter(), room).of(0)
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
    fn a_ratio_is_shown_only_if_both_events_were_counted_over_the_same_calls() {
        let mut some = all();
        assert_eq!(
            text(&some, 200),
            "2.49 insn/cycle   0.8 % branch misses   10.0 % cache misses   2.50 GHz   2 calls"
        );
        some.values[0].unmeasured = 2;
        some.values[1].unmeasured = 2;
        assert_eq!(text(&some, 200), "0.8 % branch misses   10.0 % cache misses   2 calls", "two of four calls each");
        some.values[0].measured = 1;
        assert_eq!(text(&some, 200), "0.8 % branch misses   10.0 % cache misses   2 calls");
        some.values[3].sum = 0;
        some.values.retain(|values| values.event != "cache-references");
        assert_eq!(text(&some, 200), "2 calls");
        some.values[0].measured = 0;
        some.values[1].measured = 0;
        assert_eq!(text(&some, 200), "2 calls");
    }

    #[test]
    fn the_last_ratios_are_dropped_without_room() {
        let full = text(&all(), 200);
        let needed = "a mark".len() + GAP + full.len();
        assert_eq!(text(&all(), needed), full);
        assert_eq!(text(&all(), needed - 1), "2.49 insn/cycle   0.8 % branch misses   10.0 % cache misses   2 calls");
        assert_eq!(text(&all(), 60), "2.49 insn/cycle   0.8 % branch misses   2 calls");
        assert_eq!(text(&all(), 20), "2 calls");
    }

    #[test]
    fn ratios_of_all_marks_are_below_one_another() {
        let mut other = mark("other", 1_200);
        other.values = vec![values("cycles", 9, 1), values("instructions", 9, 12), values("branch-misses", 9, 9)];
        let marks = [all(), other];
        let made = CallsAndRatios::new(marks.iter().map(|mark| (mark, "")), 60);
        let text = [made.of(0), made.of(1)];
        assert_eq!(
            text,
            [
                "2.49 insn/cycle   0.8 % branch misses       2 calls",
                "12.00 insn/cycle                         1,200 calls"
            ]
        );
    }
}
