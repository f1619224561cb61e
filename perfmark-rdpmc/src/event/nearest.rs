//! The valid names nearest to a wrong one.

/// At most this many are named.
const NAMED: usize = 5;

/// The nearest of `names` to `wrong`, the nearest first, as a list to be shown; empty where none is near.
pub(super) fn nearest<'a>(wrong: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let wrong = plain(wrong);
    let allowed = (wrong.len() / 3).clamp(1, 6);
    let mut near: Vec<(usize, &str)> = names
        .into_iter()
        .filter_map(|name| {
            let name_plain = plain(name);
            let whole = distance(&wrong, &name_plain, allowed);
            // A part of a long name is near, too: `dcache` in `L1-dcache-loads`.
            let part = wrong.len() > 3 && name_plain.windows(wrong.len()).any(|window| window == wrong);
            whole.or(part.then_some(allowed)).map(|distance| (distance, name))
        })
        .collect();
    near.sort_unstable();
    near.dedup();
    near.into_iter().take(NAMED).map(|(_, name)| name).collect()
}

/// `did you mean a, b?`, or nothing.
pub(super) fn did_you_mean(near: &[&str]) -> String {
    if near.is_empty() { String::new() } else { format!("; did you mean {}?", near.join(", ")) }
}

/// Without what is easily mistaken: capital letters, hyphens, underscores. Cut, so that no name costs more than a long one.
fn plain(name: &str) -> Vec<u8> {
    name.bytes().filter(|byte| !matches!(byte, b'-' | b'_')).take(64).map(|byte| byte.to_ascii_lowercase()).collect()
}

/// How many letters have to be changed, added, left out or swapped with the next, if at most `allowed`.
fn distance(a: &[u8], b: &[u8], allowed: usize) -> Option<usize> {
    if a.len().abs_diff(b.len()) > allowed {
        return None;
    }
    // Rows of the usual table: the one before the last, the last, and the one in the making.
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
    fn a_slip_of_the_fingers_is_near() {
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
}
