//! Folded stacks, the input of flame graphs: `mark;function N`, where N is a number of samples.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::stacks::Stack;

pub(super) fn render(stacks: &[Stack<'_>]) -> String {
    let mut folded: BTreeMap<String, u64> = BTreeMap::new();
    for stack in stacks {
        let labels = stack.labels(|frame| frame.function.clone());
        let labels: Vec<String> = labels.iter().map(|label| frame(label)).collect();
        let samples = folded.entry(labels.join(";")).or_default();
        *samples = samples.saturating_add(stack.samples);
    }
    folded.into_iter().fold(String::new(), |mut text, (stack, samples)| {
        _ = writeln!(text, "{stack} {samples}");
        text
    })
}

/// A name without the characters that separate frames, stacks and numbers.
fn frame(label: &str) -> String {
    let harmless = |c: char| match c {
        ';' => ',',
        c if c.is_whitespace() || c.is_control() => '_',
        c => c,
    };
    if label.is_empty() { "?".into() } else { label.chars().map(harmless).collect() }
}
