//! What a mark is called in a report: its name, and as much more as tells it from others of that name.

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
        let told = tell_apart(same.iter().map(|&index| &marks[index]).collect());
        for (index, label) in same.into_iter().zip(told) {
            labels[index] = label;
        }
    }
    labels.iter().map(|label| clean(label)).collect()
}

/// The shortest end of their paths that differs; where even the whole paths are the same, the place in the source.
fn tell_apart(marks: Vec<&Mark>) -> Vec<String> {
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
    let place = |(label, mark): (&String, &Mark)| match times[label.as_str()] {
        1 => label.clone(),
        _ => format!("{label} ({}:{})", mark.file, mark.line),
    };
    labels.iter().zip(marks).map(place).collect()
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
        let place = |&(name, path): &(&str, &str)| {
            line += 1;
            Mark { path: path.to_owned(), file: "a.rs".to_owned(), line, ..mark(name, 1) }
        };
        labels(&marks.iter().map(place).collect::<Vec<_>>())
    }

    #[test]
    fn a_name_alone_suffices_where_it_is_the_only_one() {
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
    fn marks_of_one_path_show_their_place() {
        assert_eq!(
            labels_of(&[("f", "w::f"), ("f", "w::f"), ("f", "w::g::f")]),
            ["w::f (a.rs:1)", "w::f (a.rs:2)", "w::g::f"]
        );
    }
}
