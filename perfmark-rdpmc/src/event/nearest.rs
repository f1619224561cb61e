//! Suggests valid names that are similar to an unknown one.

/// The most names to suggest.
const SUGGESTIONS: usize = 5;

/// The names most similar to `wrong`, the most similar first; empty if none is similar.
#[must_use]
pub fn nearest<'a>(wrong: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    nearest_of(wrong, &mut names.into_iter())
}

fn nearest_of<'a>(wrong: &str, names: &mut dyn Iterator<Item = &'a str>) -> Vec<&'a str> {
    let wrong = normalized(wrong);
    let allowed = (wrong.len() / 3).clamp(1, 6);
    let mut near: Vec<(usize, &str)> = Vec::new();
    for name in names {
        let candidate = normalized(name);
        let full = distance(&wrong, &candidate, allowed);
        // A part of a long name is similar as well: `dcache` in `L1-dcache-loads`.
        let part = wrong.len() > 3 && candidate.windows(wrong.len()).any(|window| window == wrong);
        let found = full.or(part.then_some(allowed)).map(|distance| (distance, name));
        if let Some((found, Err(at))) = found.map(|found| (found, near.binary_search(&found))) {
            near.insert(at, found);
        }
    }
    // The same name, spelt in another way.
    if near.first().is_some_and(|(distance, _)| *distance == 0) {
        near.truncate(1);
    }
    near.into_iter().take(SUGGESTIONS).map(|(_, name)| name).collect()
}

/// `did you mean a, b?`, or nothing.
pub(super) fn did_you_mean(near: &[&str]) -> String {
    if near.is_empty() { String::new() } else { format!("; did you mean {}?", near.join(", ")) }
}

/// The number of letters in which two names differ, if it is at most `allowed`. Case, hyphens and underscores do not
/// count, and two swapped letters count once.
#[must_use]
pub fn difference(a: &str, b: &str, allowed: usize) -> Option<usize> {
    distance(&normalized(a), &normalized(b), allowed)
}

/// Removes what is easily mistaken: case, hyphens, underscores. Truncated, to bound the cost of long names.
fn normalized(name: &str) -> Vec<u8> {
    name.bytes().filter(|byte| !matches!(byte, b'-' | b'_')).take(64).map(|byte| byte.to_ascii_lowercase()).collect()
}

/// The number of letters to change, insert, delete or swap with the next one, if it is at most `allowed`.
fn distance(a: &[u8], b: &[u8], allowed: usize) -> Option<usize> {
    if a.len().abs_diff(b.len()) > allowed {
        return None;
    }
    // Rows of the usual table: the one before the last, the last, and the current one.
    let (mut before, mut last) = (vec![0; b.len() + 1], (0..=b.len()).collect::<Vec<_>>());
    for (i, &from) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, &to) in b.iter().enumerate() {
            let mut best = (last[j] + usize::from(from != to)).min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && from == b[j - 1] && a[i - 1] == to {
                best = best.min(before[j - 1] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
    }
    last.last().copied().filter(|&distance| distance <= allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typing_error_gets_a_suggestion() {
        let names = ["cycles", "ref-cycles", "instructions", "L1-dcache-loads", "page-faults"];
        let near = |wrong| nearest(wrong, names);
        assert_eq!(near("cycels")[0], "cycles");
        assert_eq!(near("Cycle"), ["cycles", "ref-cycles"]);
        assert_eq!(near("instrutions"), ["instructions"]);
        assert_eq!(near("dcache"), ["L1-dcache-loads"]);
        assert_eq!(near("pagefault"), ["page-faults"]);
        assert!(near("something-else-altogether").is_empty());
        assert!(near("").is_empty());
    }

    #[test]
    fn case_and_hyphens_are_no_difference() {
        assert_eq!(difference("Branch_Mises", "branch-misses", 1), Some(1));
        assert_eq!(difference("PageFaults", "page-faults", 0), Some(0));
        assert_eq!(difference("cycels", "cycles", 1), Some(1), "swapped letters");
        assert_eq!(difference("cycle", "instructions", 3), None);
    }
}
