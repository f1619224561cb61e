//! Patterns of paths.

/// Whether the pattern is that of the path, or of one that it is below. All are below the empty one.
pub(super) fn matches(pattern: &str, path: &str) -> bool {
    let (pattern, path): (Vec<char>, Vec<char>) = (pattern.chars().collect(), path.chars().collect());
    let is_whole = |at: usize| at == path.len() || path[at..].starts_with(&[':', ':']) || path[at] == '<';
    // Where to go on when what comes behind the last `*` does not match: there, with one character more taken by it.
    let (mut at, mut sign, mut last_star) = (0, 0, None);
    loop {
        if sign == pattern.len() && (is_whole(at) || pattern.is_empty()) {
            return true;
        }
        match pattern.get(sign) {
            Some('*') => {
                last_star = Some((sign, at));
                sign += 1;
            }
            Some(&wanted) if at < path.len() && (wanted == '?' || wanted == path[at]) => {
                (at, sign) = (at + 1, sign + 1);
            }
            _ => match &mut last_star {
                Some((star, from)) if *from < path.len() => {
                    *from += 1;
                    (at, sign) = (*from, *star + 1);
                }
                _ => return false,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches_a_path_and_what_is_below_it() {
        let path = "app::parser::Tree<u8, i8>::insert";
        let patterns = [
            "",
            "*",
            "app",
            "app::parser",
            "app::parser::Tree<u8, i8>",
            path,
            "app::*::insert",
            "*insert",
            "*::Tree*",
            "app::pars?r",
            "*par*",
            "**",
            "app::parser::Tree",
            "app::*",
            "*::insert",
        ];
        for pattern in patterns {
            assert!(matches(pattern, path), "{pattern}");
        }
        for pattern in [
            "ap",
            "app:",
            "parser",
            "app::parser::Tre",
            "*inser",
            "app::?",
            "app::parser::Tree<u8, i8>::insert::a",
            "?",
            "App",
        ] {
            assert!(!matches(pattern, path), "{pattern}");
        }
    }
}
