//! The source text of sampled lines, and of some lines around them, for readers without the files.

use std::cmp::Reverse;

use super::hot_lines::{FEWEST, functions_to_show};
use super::source_lines::SourceLines;
use crate::compact::sort_by_key;
use crate::snapshot::{Frame, LinesOfFiles, Snapshot};
use crate::text::sanitize;

/// The most lines of a mark whose text is shown.
const LINES_OF_MARK: usize = 40;
/// The lines of text before and after a line that is not rarely sampled.
const CONTEXT: u32 = 3;
/// The most bytes of text.
const MOST_TEXT: usize = 1 << 20;
/// The most characters of a line.
const LONGEST: usize = 300;

/// Puts the source text of a report's lines into the snapshot.
pub(super) fn embed(snapshot: &mut Snapshot, reads_sources: bool) {
    if snapshot.sampled().is_empty() {
        return snapshot.sources.clear();
    }
    // Each with its samples and the number of lines before and after it.
    let mut lines = Vec::new();
    for samples in snapshot.sampled() {
        let by_mark = snapshot.samples_by_mark(samples);
        for mark in (0..snapshot.marks.len()).map(Some) {
            let hot = by_mark.hot_lines(mark).into_iter().filter(|line| line.is_own || line.samples >= FEWEST);
            for line in hot.take(LINES_OF_MARK) {
                if line.samples >= FEWEST {
                    // Details of a mark show the lines that its lines execute in other functions.
                    let inside = by_mark.lines_inside(mark, &line).into_iter().filter(|line| line.samples >= FEWEST);
                    lines.extend(inside.take(LINES_OF_MARK).map(|line| (line.frame, line.samples, 0)));
                }
                lines.push((line.frame, line.samples, if line.samples < FEWEST { 0 } else { CONTEXT }));
            }
        }
        let unmarked = functions_to_show(snapshot, samples).into_iter();
        lines.extend(unmarked.map(|function| (function.frame, function.samples, 0)));
    }
    let mut files = text(snapshot, reads_sources, lines);
    for line in files.values_mut().flat_map(|lines| lines.values_mut()) {
        let parts: Vec<String> = line.split('\t').map(sanitize).collect();
        *line = parts.join("\t");
    }
    snapshot.set_sources(files);
}

/// The text of these lines, of the line with the most samples first.
fn text(snapshot: &Snapshot, reads_sources: bool, mut lines: Vec<(Frame, u64, u32)>) -> LinesOfFiles {
    sort_by_key(&mut lines, |(_, samples, _)| Reverse(*samples));
    let mut source = SourceLines::new(snapshot, reads_sources);
    let mut text = LinesOfFiles::new();
    let mut left = MOST_TEXT;
    for (frame, _, context) in lines {
        let (Some(file), Some(line)) = (frame.file, frame.line) else { continue };
        for number in line.saturating_sub(context)..=line.saturating_add(context) {
            if text.get(&file).is_some_and(|lines| lines.contains_key(&number)) {
                continue;
            }
            let Some(shown) = source.line(&file, number) else { continue };
            let shown: String = shown.chars().take(LONGEST).collect();
            if shown.len() > left {
                return text;
            }
            left -= shown.len();
            text.entry(file.clone()).or_default().insert(number, shown);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::source_lines::tests::Project;
    use crate::report::tests::sample;

    #[test]
    fn it_has_the_lines_around_hot_ones_and_not_the_files() {
        let project = Project::new("page");
        let mut snapshot = project.sampled();
        let long = "x".repeat(1_000);
        let text: Vec<String> = (1..=100).map(|line| format!("{line} {long}")).collect();
        let main = project.write("src/main.rs", 60, text.join("\n"));
        embed(&mut snapshot, true);
        snapshot.sources.retain(|source| source.file == main);
        let lines: Vec<_> = snapshot.source_lines().map(|(_, number, text)| (number, text)).collect();
        // Lines 12, 14 and 40 are hot; line 21 has 3 samples.
        let numbers: Vec<u32> = lines.iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers, (9..=17).chain([21]).chain(37..=43).collect::<Vec<_>>());
        assert!(lines.iter().all(|(number, text)| text.starts_with(&format!("{number} x")) && text.len() == LONGEST));
        let mut elsewhere = sample::sampled();
        embed(&mut elsewhere, true);
        assert_eq!(elsewhere.sources.len(), 0);
    }

    #[test]
    fn a_line_near_several_hot_ones_counts_once_among_the_bytes_of_text() {
        let (file, lines) = ("src/main.rs".to_owned(), vec!["x".repeat(LONGEST); 3_000]);
        let source = crate::snapshot::SourceText { file: file.clone(), line: 1, lines };
        let snapshot = Snapshot { sources: vec![source], ..Snapshot::default() };
        let frame = |line| Frame { file: Some(file.clone()), line: Some(line), ..Frame::default() };
        let files = text(&snapshot, false, (1..=3_000).map(|line| (frame(line), FEWEST, CONTEXT)).collect());
        assert_eq!(files[&file].len(), 3_000, "900,000 bytes");
    }

    #[test]
    fn a_report_with_embedded_sources_is_the_same_where_the_files_are_not() {
        let project = Project::new("embedded");
        let mut snapshot = project.sampled();
        // Details show this line below the line that calls it.
        let split = project.write("src/split.rs", 60, "fn split() {}");
        let called = snapshot.samples[0].frames.iter_mut().find(|frame| frame.function.contains("find"));
        *called.expect("a frame") = Frame { function: "wordcount::split".into(), file: Some(split), line: Some(1) };
        let details = crate::Filter::default();
        let table = |snapshot: &Snapshot| crate::Report::new(snapshot).details(&details).to_string();
        let expected = table(&snapshot);
        assert!(expected.contains("let words = line.split(") && expected.contains("fn split() {}"), "{expected}");
        embed(&mut snapshot, true);
        drop(project);
        assert_eq!(table(&snapshot), expected);
    }

    #[test]
    fn characters_that_hide_or_move_text_are_replaced() {
        let project = Project::new("control");
        let line = "\tlet a = \"\u{202e}\u{1b}[2J\u{7}\";";
        project.write("src/main.rs", 60, format!("{line}\n").repeat(50));
        let mut snapshot = project.sampled();
        project.write("src/main.rs", 60, format!("{line}\n").repeat(50));
        embed(&mut snapshot, true);
        let lines: Vec<&String> =
            snapshot.source_lines().filter(|(_, number, _)| *number == 12).map(|one| one.2).collect();
        assert_eq!(lines, ["\tlet a = \"\u{fffd}\u{fffd}[2J\u{fffd}\";"]);
    }
}
