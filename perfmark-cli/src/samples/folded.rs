//! Folded stacks, the input of flame graphs: `mark;function N`, where N is a number of samples.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::stacks::Sampled;

/// The most bytes of all stacks.
const MOST: usize = 64 << 20;

pub(super) fn render(sampled: &Sampled<'_>) -> Result<String, String> {
    let mut names: BTreeMap<usize, String> = BTreeMap::new();
    let mut folded: BTreeMap<String, u64> = BTreeMap::new();
    let mut left = MOST;
    for stack in sampled.stacks() {
        let mut line = String::new();
        for part in stack.parts() {
            let name = names.entry(part.key()).or_insert_with(|| frame(&part.name(|frame| frame.function.clone())));
            let Some(rest) = left.checked_sub(name.len() + 1) else {
                let most = MOST >> 20;
                return Err(format!(
                    "folded stacks of all samples have more than {most} MiB; choose marks with --marks, or the format \
                     pprof, which has each name once"
                ));
            };
            left = rest;
            line.extend((!line.is_empty()).then_some(';'));
            line.push_str(name);
        }
        let count = folded.entry(line).or_default();
        *count = count.saturating_add(stack.samples);
    }
    Ok(folded.into_iter().fold(String::new(), |mut text, (stack, samples)| {
        _ = writeln!(text, "{stack} {samples}");
        text
    }))
}

/// A name without the characters that separate frames, stacks and numbers.
fn frame(label: &str) -> String {
    let harmless = |c: char| match c {
        ';' => ',',
        c if c.is_whitespace() => '_',
        c => c,
    };
    if label.is_empty() { "?".into() } else { label.chars().map(harmless).collect() }
}
