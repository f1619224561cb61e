//! Reads environment variables, and collects what is wrong with them.

use std::env;
use std::ffi::{OsStr, OsString};

/// The variables of perfmark.
pub(crate) const VARIABLES: [&str; 15] = [
    "PERFMARK",
    "PERFMARK_EVENTS",
    "PERFMARK_FILTER",
    "PERFMARK_BUDGET",
    "PERFMARK_OUTPUT",
    "PERFMARK_FORMAT",
    "PERFMARK_TOP",
    "PERFMARK_DETAILS",
    "PERFMARK_DUMP_INTERVAL",
    "PERFMARK_DUMP_SIGNAL",
    "PERFMARK_ON_SIGINT",
    "PERFMARK_CALL_GRAPH",
    "PERFMARK_READ",
    "PERFMARK_SAMPLE",
    "PERFMARK_SOURCES",
];

/// The variables, and the errors in their values.
pub(crate) struct Environment<'a> {
    variable: &'a dyn Fn(&str) -> Option<OsString>,
    wrong: Vec<String>,
}

/// Reads the process's variables with `read`. Returns its result, and the errors, a sentence each.
///
/// A program that runs with more rights than its caller (setuid; `AT_SECURE` of getauxval(3)) takes no settings from
/// the environment, because it would write files with these rights.
pub(crate) fn read<R>(read: impl FnOnce(&mut Environment<'_>) -> R) -> (R, Vec<String>) {
    let has_more_rights = has_more_rights_than_its_caller();
    from(&|name| env::var_os(name).filter(|_| !has_more_rights), read)
}

/// The same for variables from another source.
fn from<R>(
    variable: &dyn Fn(&str) -> Option<OsString>,
    read: impl FnOnce(&mut Environment<'_>) -> R,
) -> (R, Vec<String>) {
    let mut environment = Environment { variable, wrong: Vec::new() };
    let result = read(&mut environment);
    (result, environment.wrong)
}

/// The same for these variables.
#[cfg(test)]
pub(crate) fn read_from<R>(
    variables: &[(&str, &str)],
    read: impl FnOnce(&mut Environment<'_>) -> R,
) -> (R, Vec<String>) {
    from(&|name| variables.iter().find(|(variable, _)| *variable == name).map(|(_, value)| value.into()), read)
}

/// Checks that each of these variables is refused with a message that contains a text, and that the default applies.
#[cfg(test)]
pub(crate) fn assert_refused<R: std::fmt::Debug + PartialEq>(
    read: fn(&mut Environment<'_>) -> R,
    default: &R,
    cases: &[(&str, &str, &str)],
) {
    for &(name, value, reported) in cases {
        let (settings, wrong) = read_from(&[(name, value)], read);
        assert_eq!(settings, *default, "{name}={value}");
        assert_eq!(wrong.len(), 1, "{name}={value}");
        assert!(wrong[0].starts_with(&format!("{name}={value}: ")), "{wrong:?}");
        assert!(wrong[0].contains(reported), "{wrong:?}");
    }
}

/// Whether any variable of perfmark's is set, even one that is wrong or unknown.
pub(crate) fn has_any() -> bool {
    !has_more_rights_than_its_caller() && variables().any(|(name, value)| is_perfmarks(&name, &value))
}

/// Reports the variables whose names are similar to one of perfmark's, a sentence each. Other unknown variables may be
/// the program's own, or settings of another version of perfmark.
pub(crate) fn misspelled() -> Vec<String> {
    if has_more_rights_than_its_caller() {
        return Vec::new();
    }
    let set = variables().filter(|(name, value)| is_perfmarks(name, value));
    let mut names: Vec<String> = set.filter_map(|(name, _)| name.into_string().ok()).collect();
    names.sort_unstable();
    let report = |name: &String| {
        let meant = meant(name)?;
        Some(format!("{name} is not a setting of this version of perfmark, and is ignored; did you mean {meant}?"))
    };
    names.iter().filter_map(report).collect()
}

/// The variable that a name which is none may mean.
fn meant(name: &str) -> Option<&'static str> {
    // The prefix is the same in all names, and would make them all similar.
    let rest = |name: &'static str| name.strip_prefix("PERFMARK_");
    let wrong = name.strip_prefix("PERFMARK_").filter(|_| !VARIABLES.contains(&name))?;
    let known = || VARIABLES.into_iter().filter_map(rest);
    let meant = perfmark_rdpmc::nearest(wrong, known()).first().copied();
    let meant = meant.or_else(|| known().find(|known| wrong.len() > 1 && known.starts_with(wrong)))?;
    VARIABLES.into_iter().find(|&name| rest(name) == Some(meant))
}

/// Joins an error and what perfmark does instead.
pub(crate) fn instead(why: &str, what: &str) -> String {
    match what.split_at_checked(1).filter(|_| why.ends_with('?')) {
        Some((first, rest)) => format!("{why} {}{rest}", first.to_uppercase()),
        None => format!("{why}; {what}"),
    }
}

/// Whether the variable is one of perfmark's. One that is empty counts as not set.
fn is_perfmarks(name: &OsStr, value: &OsStr) -> bool {
    let rest = name.as_encoded_bytes().strip_prefix(b"PERFMARK");
    rest.is_some_and(|rest| rest.first().is_none_or(|&next| next == b'_')) && !value.is_empty()
}

impl Environment<'_> {
    /// The variable's value, unless it is empty.
    pub(crate) fn value(&self, name: &str) -> Option<OsString> {
        // Only in unit tests: a panic before `main` would abort the program.
        #[cfg(test)]
        assert!(!name.starts_with("PERFMARK") || VARIABLES.contains(&name), "{name} is missing in the list");
        (self.variable)(name).filter(|value| !value.is_empty())
    }

    /// The variable's value as `parse` understands it. `None` if the variable is unset, empty or wrong.
    pub(crate) fn parsed<T>(&mut self, name: &str, parse: impl FnOnce(&OsStr) -> Result<T, String>) -> Option<T> {
        let value = self.value(name)?;
        let parsed = parse(&value);
        parsed.map_err(|why| self.report(format!("{name}={}: {why}", value.to_string_lossy()))).ok()
    }

    /// Adds an error.
    pub(crate) fn report(&mut self, wrong: String) {
        self.wrong.push(wrong);
    }
}

/// Whether its user could use this process to access what only the program may.
#[cfg(any(target_os = "linux", target_os = "android"))]
#[allow(unsafe_code, reason = "asks libc")]
pub(crate) fn has_more_rights_than_its_caller() -> bool {
    // SAFETY: getauxval only reads what the kernel passed to the process. Miri does not support it.
    !cfg!(miri) && unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) fn has_more_rights_than_its_caller() -> bool {
    false
}

/// All variables. A browser has none, and the standard library panics there.
fn variables() -> impl Iterator<Item = (OsString, OsString)> {
    (!cfg!(all(target_family = "wasm", target_os = "unknown"))).then(env::vars_os).into_iter().flatten()
}

/// The value that `choices` gives to a name. The first one is the default.
pub(crate) fn choice<T: Copy>(value: &OsStr, choices: &[(&str, T)]) -> Result<T, String> {
    let chosen = choices.iter().find(|(name, _)| value == *name);
    chosen.map(|&(_, choice)| choice).ok_or_else(|| {
        let names: Vec<_> = choices.iter().map(|(name, _)| format!("`{name}`")).collect();
        let default = names.first().cloned().unwrap_or_default();
        let names = match names.split_last() {
            Some((last, [])) => last.clone(),
            Some((last, others)) => format!("{} or {last}", others.join(", ")),
            None => String::new(),
        };
        format!("expected {names}; using {default}")
    })
}

#[cfg(test)]
mod tests {
    use super::{is_perfmarks, meant};

    #[test]
    fn a_misspelled_variable_is_recognized_and_other_unknown_ones_are_not() {
        for (name, expected) in [
            ("PERFMARK_OUPUT", "PERFMARK_OUTPUT"),
            ("PERFMARK_OUT", "PERFMARK_OUTPUT"),
            ("PERFMARK_EVENT", "PERFMARK_EVENTS"),
            ("PERFMARK_DUMP_INTERVALL", "PERFMARK_DUMP_INTERVAL"),
            ("PERFMARK_CALLGRAPH", "PERFMARK_CALL_GRAPH"),
            ("PERFMARK_GRAPH", "PERFMARK_CALL_GRAPH"),
        ] {
            assert_eq!(meant(name), Some(expected), "{name}");
        }
        let known = super::VARIABLES;
        let others = ["PERFMARK_TEST_SCENARIO", "PERFMARK_TEST_FULL", "PERFMARK_CI_CACHE", "PERFMARK_PAGES"];
        for name in known.into_iter().chain(others) {
            assert_eq!(meant(name), None, "{name}");
        }
    }

    #[test]
    fn wrong_and_unknown_variables_are_perfmarks_but_not_empty_ones() {
        let is_perfmarks = |name: &str, value: &str| is_perfmarks(name.as_ref(), value.as_ref());
        for (name, value) in [("PERFMARK", "on"), ("PERFMARK_EVENTS", "cycels"), ("PERFMARK_OUPUT", "report")] {
            assert!(is_perfmarks(name, value), "{name}={value}");
        }
        for (name, value) in [("PERFMARK", ""), ("PERFMARK_EVENTS", ""), ("PERFMARKS", "5"), ("MY_PERFMARK", "on")] {
            assert!(!is_perfmarks(name, value), "{name}={value}");
        }
    }
}
