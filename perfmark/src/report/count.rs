//! Counts with all digits in groups of three, and their nouns.
//!
//! It uses nothing else of the crate, because the command line includes it, too.

/// Puts a comma between groups of three digits: `18,446,744`.
pub(crate) fn grouped(digits: &str) -> String {
    let mut grouped = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// Every digit, in groups of three.
pub(crate) fn exact(value: u64) -> String {
    grouped(&value.to_string())
}

/// The noun for a count, in the singular or plural.
pub(crate) fn plural(count: u64, noun: &str) -> String {
    format!("{noun}{}", if count == 1 { "" } else { "s" })
}

/// A count with its noun: `1 call`, `1,204 calls`.
pub(crate) fn counted(count: u64, noun: &str) -> String {
    format!("{} {}", exact(count), plural(count, noun))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_by_three() {
        assert_eq!(exact(0), "0");
        assert_eq!(exact(1_204), "1,204");
        assert_eq!(exact(u64::MAX), "18,446,744,073,709,551,615");
        assert_eq!([0, 1, 12_000].map(|calls| counted(calls, "call")).join(", "), "0 calls, 1 call, 12,000 calls");
    }
}
