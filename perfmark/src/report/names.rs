//! The labels of marks in a report: the name, and as much of the path as distinguishes it from others with that name.

use super::signs::clean;
use crate::path;
use crate::snapshot::Mark;
use std::collections::{BTreeMap, BTreeSet};

/// A label for every mark, in their order.
pub(super) fn labels(marks: &[Mark]) -> Vec<String> {
    let mut labels: Vec<String> = marks.iter().map(|mark| mark.name.clone()).collect();
    let mut namesakes: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, mark) in marks.iter().enumerate() {
        namesakes.entry(&mark.name).or_default().push(index);
    }
    for same in namesakes.into_values().filter(|same| same.len() > 1) {
        let distinct = distinguish(same.iter().map(|&index| &marks[index]).collect());
        for (index, label) in same.into_iter().zip(distinct) {
            labels[index] = label;
        }
    }
    labels.iter().map(|label| clean(label)).collect()
}

/// The shortest ends of their paths that differ. If even the complete paths are the same, the source locations.
fn distinguish(marks: Vec<&Mark>) -> Vec<String> {
    let mut labels = Vec::new();
    for segments in [2, 3, 4, usize::MAX] {
        labels = marks.iter().map(|mark| with_path(mark, segments)).collect();
        if labels.iter().collect::<BTreeSet<_>>().len() == labels.len() {
            return labels;
        }
    }
    let mut times: BTreeMap<&str, usize> = BTreeMap::new();
    for label in &labels {
        *times.entry(label).or_default() += 1;
    }
    let located = |(label, mark): (&String, &Mark)| match times[label.as_str()] {
        1 => label.clone(),
        _ => format!("{label} ({}:{})", mark.file, mark.line),
    };
    labels.iter().zip(marks).map(located).collect()
}

fn with_path(mark: &Mark, segments: usize) -> String {
    let end = path::end(&mark.path, segments);
    if end.ends_with(&mark.name) { end.to_owned() } else { format!("{} ({end})", mark.name) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample::mark;

    fn labels_of(marks: &[(&str, &str)]) -> Vec<String> {
        let mut line = 0;
        let located = |&(name, path): &(&str, &str)| {
            line += 1;
            Mark { path: path.to_owned(), file: "a.rs".to_owned(), line, ..mark(name, 1) }
        };
        labels(&marks.iter().map(located).collect::<Vec<_>>())
    }

    #[test]
    fn a_unique_name_is_shown_alone() {
        assert_eq!(labels_of(&[("next", "wire::Parser::next"), ("push", "wire::push")]), ["next", "push"]);
    }

    #[test]
    fn namesakes_show_as_much_of_their_paths_as_differs() {
        assert_eq!(
            labels_of(&[("next", "wire::Parser::next"), ("next", "wire::lexer::next")]),
            ["Parser::next", "lexer::next"]
        );
        assert_eq!(
            labels_of(&[("next", "wire::a::It::next"), ("next", "wire::b::It::next")]),
            ["a::It::next", "b::It::next"]
        );
        assert_eq!(
            labels_of(&[("f", "w::P<core::X>::f"), ("f", "w::P<core::Y>::f")]),
            ["P<core::X>::f", "P<core::Y>::f"]
        );
        assert_eq!(labels_of(&[("hot", "w::a::f"), ("hot", "w::b::f")]), ["hot (a::f)", "hot (b::f)"]);
    }

    #[test]
    fn marks_of_one_path_show_their_location() {
        assert_eq!(
            labels_of(&[("f", "w::f"), ("f", "w::f"), ("f", "w::g::f")]),
            ["w::f (a.rs:1)", "w::f (a.rs:2)", "w::g::f"]
        );
    }
}
