//! The report as a flame graph: an SVG image that can be searched and zoomed in a browser.

use std::fmt::Write as _;

use inferno::flamegraph::{Options, from_lines};

use super::share::Shares;
use super::stacks::{folded, has_callers};
use crate::snapshot::{Snapshot, Unit};
use crate::text::sanitize;

/// The image. It is valid for any snapshot; if there is nothing to draw, it says so.
pub(super) fn render(snapshot: &Snapshot) -> String {
    let (shares, stacks) = (Shares::new(snapshot), folded(snapshot));
    let (Some(event), false) = (shares.leading(), stacks.is_empty()) else {
        return message("perfmark: nothing was measured");
    };
    let is_time = shares.unit(event) == Unit::Ns;
    let (scale, lines) = scaled(&stacks);
    let mut options = Options::default();
    options.title = legible(&format!("{} · {event} by mark", snapshot.program));
    options.subtitle = Some(if has_callers(snapshot) {
        "self cost of each mark's calls, by caller".into()
    } else {
        "self cost of each mark's calls; the call graph was not recorded".into()
    });
    options.count_name = if is_time { "ns".into() } else { legible(event) };
    options.name_type = "Mark:".into();
    options.factor = scale;
    // Colours depend on the name, so the same snapshot gives the same image.
    options.hash = true;
    // The stacks are in the order of their frames. Sorted as text, `run2` would be between `run` and `run;parse`, which
    // would then be two frames. Only flame charts keep the order, of lines that begin at the end.
    options.flame_chart = true;
    let mut image = Vec::new();
    match from_lines(&mut options, lines.iter().rev().map(String::as_str), &mut image) {
        Ok(()) => String::from_utf8(image).map(|image| image + "\n").unwrap_or_default(),
        Err(why) => message(&format!("perfmark: no flame graph: {why}")),
    }
}

/// Folded stacks whose sum fits into a `u64`, and the factor of their numbers.
fn scaled(stacks: &[(String, u64)]) -> (f64, Vec<String>) {
    let sum: u128 = stacks.iter().map(|(_, own)| u128::from(*own)).sum();
    let shift = (128 - sum.leading_zeros()).saturating_sub(63);
    let lines = stacks.iter().map(|(stack, own)| format!("{stack} {}", own >> shift)).collect();
    (2_f64.powi(shift.try_into().unwrap_or(0)), lines)
}

/// Replaces the characters that are invalid in XML.
fn legible(text: &str) -> String {
    sanitize(text).replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}")
}

/// An image with a sentence.
fn message(text: &str) -> String {
    let mut image = String::from("<?xml version=\"1.0\" standalone=\"no\"?>\n");
    let size = "xmlns=\"http://www.w3.org/2000/svg\" width=\"800\" height=\"60\"";
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    _ = writeln!(
        image,
        "<svg version=\"1.1\" {size}><text x=\"20\" y=\"36\" font-family=\"monospace\">{text}</text></svg>"
    );
    image
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::sample;
    use crate::snapshot::Read;

    #[test]
    fn the_image_has_the_events_unit_and_every_mark_that_cost_anything() {
        let image = render(&sample::typical());
        assert!(image.contains("wordcount · time by mark"), "{image}");
        assert!(image.contains("the call graph was not recorded"), "{image}");
        for title in [
            "<title>parse_line (3,104,000,000 ns, 68.52%)</title>",
            "<title>run (1,304,000,000 ns, 28.79%)</title>",
            "<title>lexer::next (122,000,000 ns, 2.69%)</title>",
        ] {
            assert!(image.contains(title), "{title} in {image}");
        }
        assert!(!image.contains("usage"), "{image}");
    }

    #[test]
    fn a_count_has_the_events_name_as_unit() {
        let mut counts = sample::typical();
        counts.marks.iter_mut().for_each(|mark| mark.values.retain(|values| values.event == "cycles"));
        let image = render(&counts);
        assert!(image.contains("<title>parse_line (12,400,000,000 cycles, "), "{image}");
    }

    #[test]
    fn a_mark_whose_name_begins_that_of_another_one_is_one_frame() {
        let marks = ["run", "run2", "parse"].map(|name| sample::mark(name, 1));
        let mut snapshot = sample::snapshot(&[sample::event("time", Unit::Ns, Read::Ticks)], &marks);
        snapshot.marks[0].values = vec![sample::values("time", 1, 12)];
        snapshot.call_graph = vec![
            sample::node(None, 0, 12, Some(5)),
            sample::node(None, 1, 3, Some(3)),
            sample::node(Some(0), 2, 7, Some(7)),
        ];
        assert_eq!(crate::report::stacks::render(&snapshot), "run 5\nrun;parse 7\nrun2 3\n");
        let image = render(&snapshot);
        assert!(image.contains("calls, by caller"), "{image}");
        for title in ["<title>run (12 ns, ", "<title>run2 (3 ns, ", "<title>parse (7 ns, ", "<title>all (15 ns, "] {
            assert_eq!(image.matches(title).count(), 1, "{title} in {image}");
        }
        assert_eq!(image.matches("<title>").count(), 4, "{image}");
    }

    #[test]
    fn sums_beyond_64_bits_are_scaled() {
        let stacks = ["a", "b", "c"].map(|name| (name.to_owned(), u64::MAX));
        let (scale, lines) = scaled(&stacks);
        let numbers: Vec<u64> = lines.iter().filter_map(|line| line.split(' ').nth(1)?.parse().ok()).collect();
        assert_eq!((numbers.len(), numbers.iter().copied().try_fold(0_u64, u64::checked_add).is_some()), (3, true));
        assert!((numbers[0] as f64 * scale / u64::MAX as f64 - 1.0).abs() < 1e-9);
        assert_eq!(scaled(&[("a".to_owned(), 7)]), (1.0, vec!["a 7".to_owned()]));
    }

    #[test]
    fn there_is_an_image_for_any_snapshot() {
        let is_valid = |c: char| !c.is_control() || matches!(c, '\n' | '\t' | '\r');
        for snapshot in sample::nasty() {
            let image = render(&snapshot);
            assert!(image.starts_with("<?xml") && image.ends_with("</svg>\n"), "{image}");
            assert!(image.chars().all(|c| is_valid(c) && !matches!(c, '\u{fffe}' | '\u{ffff}')), "{image}");
            assert!(!image.contains("no flame graph"), "{image}");
        }
        assert!(render(&Snapshot::default()).contains("nothing was measured"));
    }
}
