//! Lines of source in a snapshot.

use std::collections::BTreeMap;

use super::data::{Snapshot, SourceText};
use super::samples::possible;

/// Lines by their files and numbers.
pub(crate) type LinesOfFiles = BTreeMap<String, BTreeMap<u32, String>>;

impl Snapshot {
    /// Each line of [`sources`](Self::sources) with its file and number.
    pub(crate) fn source_lines(&self) -> impl Iterator<Item = (&String, u32, &String)> {
        let numbered = |text: &'_ SourceText| (text.line..=u32::MAX).zip(0..text.lines.len());
        possible(&self.sources)
            .iter()
            .flat_map(move |text| numbered(text).map(move |(number, at)| (&text.file, number, &text.lines[at])))
    }

    /// Replaces [`sources`](Self::sources).
    pub(crate) fn set_sources(&mut self, files: LinesOfFiles) {
        self.sources.clear();
        for (file, lines) in files {
            let mut next = None;
            for (line, text) in lines {
                match self.sources.last_mut().filter(|_| next == Some(line)) {
                    Some(last) => last.lines.push(text),
                    None => self.sources.push(SourceText { file: file.clone(), line, lines: vec![text] }),
                }
                next = line.checked_add(1);
            }
        }
    }

    /// Adds the lines of another snapshot. A line that two builds have with different texts is empty, and stays empty
    /// when further snapshots are added.
    pub(super) fn merge_sources(&mut self, other: &Self) {
        if possible(&self.sources) == possible(&other.sources) {
            return;
        }
        let mut files = LinesOfFiles::new();
        for (file, number, text) in self.source_lines().chain(other.source_lines()) {
            let line = files.entry(file.clone()).or_default().entry(number).or_insert_with(|| text.clone());
            if line != text {
                line.clear();
            }
        }
        self.set_sources(files);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(texts: &[(&str, u32, &[&str])]) -> Snapshot {
        let text = |&(file, line, lines): &(&str, u32, &[&str])| SourceText {
            file: file.into(),
            line,
            lines: lines.iter().map(|&line| line.to_owned()).collect(),
        };
        Snapshot { sources: texts.iter().map(text).collect(), ..Snapshot::default() }
    }

    #[test]
    fn merged_sources_are_those_of_both_and_lines_that_differ_are_empty() {
        let mut both = snapshot(&[("a.rs", 1, &["one", "two", "three"]), ("b.rs", u32::MAX, &["end", "beyond"])]);
        both.merge(&snapshot(&[("a.rs", 2, &["2", "three", "four"])]));
        let expected = snapshot(&[("a.rs", 1, &["one", "", "three", "four"]), ("b.rs", u32::MAX, &["end"])]);
        assert_eq!(both.sources, expected.sources);
        for text in ["2", "two", "two"] {
            both.merge(&snapshot(&[("a.rs", 2, &[text])]));
            assert_eq!(both.sources, expected.sources);
        }
    }
}
