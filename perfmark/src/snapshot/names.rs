//! Names of marks for people: as much of the path as distinguishes a mark from all others.
//!
//! A filter accepts these names: each is chosen so that it matches no other mark's path.

use super::data::{Mark, Snapshot};
use super::path;
use crate::compact::{Collect as _, Map, Set};
use crate::text::sanitize;

/// Of longer paths, only the complete path is a name.
const LONGEST: usize = 2_000;
/// Of paths with more segments, only as many are tried from each end.
const SEGMENTS: usize = 16;

impl Snapshot {
    /// The marks' names as reports show them, in the order of [`marks`](Self::marks): type and function for a method,
    /// the function's name for others, and more of the path where other marks would have the same name. A method of all
    /// types with a trait has the trait's name, too: `<_ as Load>::load`. No two names are the same. A
    /// [`Filter`](crate::Filter) with such a name matches this mark only, unless another mark has the same path; the
    /// source location is then a part of the name.
    ///
    /// ```standalone_crate
    /// #[perfmark::perfmark(time)]
    /// fn parse() {}
    ///
    /// # fn main() {
    /// # if cfg!(feature = "record") {
    /// assert_eq!(perfmark::snapshot().names(), ["parse"]);
    /// # }
    /// # }
    /// ```
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        names(&self.marks)
    }
}

/// A name for every mark, in their order.
pub(crate) fn names(marks: &[Mark]) -> Vec<String> {
    distinct(marks, of_targets(marks.iter().map(Mark::target).collect()))
}

/// The name that is most similar to a pattern that matches none.
pub(crate) fn nearest(pattern: &str, names: &[String]) -> Option<String> {
    let near = |pattern: &str, names: &[&str]| {
        perfmark_rdpmc::nearest(pattern, names.iter().copied()).first().map(|&name| name.to_owned())
    };
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    near(pattern, &all).or_else(|| {
        // The function's name may be right, or almost so, and what is before it wrong.
        let last = path::end(pattern, 1);
        let of_functions: Vec<&str> = names.iter().map(|name| path::end(name, 1)).collect();
        let function = near(last, &of_functions)?;
        names.iter().find(|name| path::end(name, 1) == function).cloned()
    })
}

/// A name for each of what filters compare patterns with. Equal ones have the same name.
pub(crate) fn of_targets(targets: Vec<String>) -> Vec<String> {
    let forms: Vec<Forms> = targets.into_iter().map(Forms::of).collect();
    // The pattern's only mark, or none if it matches several.
    let mut matched: Map<&str, Option<usize>> = Map::new();
    let exact: Vec<String> = forms.iter().map(|forms| format!("::{}", forms.complete)).collect();
    for (index, (forms, exact)) in forms.iter().zip(&exact).enumerate() {
        for pattern in forms.patterns().chain([exact.as_str()]) {
            let known = matched.get_or_insert(pattern, Some(index));
            *known = known.filter(|&known| known == index);
        }
    }
    let is_own = |name: &&str, index| matched.get(name) == Some(&Some(index)) && !name.contains(['*', '?']);
    let name = |(index, (forms, exact)): (usize, (&Forms, &String))| {
        let own = forms.names().chain([exact.as_str()]).find(|name| is_own(name, index));
        own.unwrap_or(&forms.complete).to_owned()
    };
    forms.iter().zip(&exact).enumerate().map(name).map(|name| sanitize(&name)).collect()
}

/// What filters compare a pattern with.
struct Forms {
    complete: String,
    brief: String,
    bare: String,
    /// The fewest segments of a name: two for a method.
    fewest: usize,
}

impl Forms {
    fn of(complete: String) -> Self {
        if complete.len() > LONGEST {
            return Self { brief: String::new(), bare: String::new(), complete, fewest: usize::MAX };
        }
        let (brief, mut bare) = (path::brief(&complete), path::bare(&complete));
        // A method of all types that have a trait: `<_ as Load>::load`.
        if path::end(&bare, 2).starts_with("_::") {
            bare.clone_from(&brief);
        }
        let owner = path::end(&complete, 2);
        let is_method = owner.starts_with('<') || path::end(&bare, 2).starts_with(char::is_uppercase);
        Self { brief, bare, complete, fewest: 1 + usize::from(is_method) }
    }

    /// Names in the order of preference.
    fn names(&self) -> impl Iterator<Item = &str> {
        self.ends(self.fewest).chain([self.complete.as_str()])
    }

    /// The last segments of each form, from `fewest` to all. Most paths have the same form three times.
    fn ends(&self, fewest: usize) -> impl Iterator<Item = &str> {
        let with_next = [(&self.bare, Some(&self.brief)), (&self.brief, Some(&self.complete)), (&self.complete, None)];
        let forms = with_next.into_iter().filter(|&(form, next)| Some(form) != next);
        forms.flat_map(move |(form, _)| ends(form, fewest))
    }

    /// All patterns without wildcards that match the path, except for the one with a leading `::`.
    fn patterns(&self) -> impl Iterator<Item = &str> {
        let is_short = self.complete.len() <= LONGEST;
        let complete = self.complete.as_str();
        let is_end = |&(at, c): &(usize, char)| c == '<' || complete[at..].starts_with("::");
        let parents = complete.char_indices().filter(is_end).take(2 * SEGMENTS).map(|(at, _)| &complete[..at]);
        parents.chain(self.ends(1)).filter(move |_| is_short).chain([complete])
    }
}

/// The last segments of a path: from `fewest` to all.
fn ends(path: &str, fewest: usize) -> impl Iterator<Item = &str> {
    let starts = path::starts(path);
    let count = starts.len();
    let starts = starts.into_iter().rev().skip(fewest.saturating_sub(1)).take(SEGMENTS);
    starts.map(move |start| &path[start..]).filter(move |end| !end.is_empty() && fewest <= count)
}

/// Adds the source location to names that occur more than once, and then a number.
fn distinct(marks: &[Mark], mut names: Vec<String>) -> Vec<String> {
    for is_located in [true, false] {
        let mut times: Map<String, usize> = Map::new();
        for name in &names {
            *times.get_or_default(name.clone()) += 1;
        }
        let mut used: Set<String> =
            times.iter().filter(|(_, times)| **times == 1).map(|(name, _)| name.clone()).collect_set();
        let mut numbers: Map<String, usize> = Map::new();
        for (name, mark) in names.iter_mut().zip(marks).filter(|(name, _)| times.get(name.as_str()) > Some(&1)) {
            if is_located {
                sanitize(&format!("{name} ({}:{})", mark.file, mark.line)).trim_start().clone_into(name);
                continue;
            }
            let last = numbers.get_or_default(name.clone());
            *name = loop {
                *last += 1;
                let numbered = format!("{name} #{last}");
                if !used.contains(&numbered) {
                    break numbered;
                }
            };
            used.insert(name.clone());
        }
    }
    names
}
