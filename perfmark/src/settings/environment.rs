//! Reads environment variables, and collects what is wrong with them.

use std::env;
#[cfg(any(target_os = "linux", target_os = "android"))]
use std::ffi::{CStr, c_char};
use std::ffi::{OsStr, OsString};

use crate::compact::sort_by;

/// The variables of perfmark.
pub(crate) const VARIABLES: [&str; 16] = [
    "PERFMARK",
    "PERFMARK_EVENTS",
    "PERFMARK_FILTER",
    "PERFMARK_BUDGET",
    "PERFMARK_OUTPUT",
    "PERFMARK_FORMAT",
    "PERFMARK_TOP",
    "PERFMARK_LINES",
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

/// Whether any variable of perfmark's is set, even one that is wrong or unknown.
pub(crate) fn has_any() -> bool {
    !names().is_empty()
}

/// Reports the variables whose names are similar to one of perfmark's, a sentence each. Other unknown variables may be
/// the program's own, or settings of another version of perfmark.
pub(crate) fn misspelled() -> Vec<String> {
    let mut names = names();
    sort_by(&mut names, Ord::cmp);
    let report = |name: &String| {
        let meant = meant(name)?;
        Some(format!("{name} is not a setting of this version of perfmark, and is ignored; did you mean {meant}?"))
    };
    names.iter().filter_map(report).collect()
}

/// The names of the variables of perfmark's that are set.
fn names() -> Vec<String> {
    let mut names = Vec::new();
    if !has_more_rights_than_its_caller() {
        for_each_variable(|variable| names.extend(name_of_perfmarks(variable)));
    }
    names
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
fn instead(why: &str, what: &str) -> String {
    match what.split_at_checked(1).filter(|_| why.ends_with('?')) {
        Some((first, rest)) => format!("{why} {}{rest}", first.to_ascii_uppercase()),
        None => format!("{why}; {what}"),
    }
}

/// The name in `NAME=VALUE`, if it is one of perfmark's. A variable that is empty counts as not set.
fn name_of_perfmarks(variable: &[u8]) -> Option<String> {
    let rest = variable.strip_prefix(b"PERFMARK").filter(|rest| matches!(rest, [b'=' | b'_', ..]))?;
    let end = rest.iter().position(|&byte| byte == b'=').filter(|end| end + 1 < rest.len())?;
    Some(String::from_utf8_lossy(&variable[..variable.len() - rest.len() + end]).into_owned())
}

impl Environment<'_> {
    /// The variable's value, unless it is empty.
    #[inline(never)]
    pub(crate) fn value(&self, name: &str) -> Option<OsString> {
        // Only in unit tests: a panic before `main` would abort the program.
        #[cfg(test)]
        assert!(!name.starts_with("PERFMARK") || VARIABLES.contains(&name), "{name} is missing in the list");
        (self.variable)(name).filter(|value| !value.is_empty())
    }

    /// The variable's value as `parse` understands it, without spaces around it, which only the name of a file may
    /// have. `None` if the variable is unset, empty or wrong.
    pub(crate) fn parsed<T>(&mut self, name: &str, parse: impl FnOnce(&OsStr) -> Result<T, String>) -> Option<T> {
        let value = self.value(name)?;
        let text = value.to_str().filter(|_| name != "PERFMARK_OUTPUT");
        let trimmed = text.map_or(&*value, |text| text.trim().as_ref());
        if trimmed.is_empty() {
            return None;
        }
        parse(trimmed).map_err(|why| self.report_value(name, &value, &why)).ok()
    }

    /// The same for a variable that is text. An error in it is followed by what applies `instead`.
    pub(crate) fn text<T, E: ToString>(
        &mut self,
        name: &str,
        instead: &str,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        self.parsed(name, |value| {
            let text = value.to_str().ok_or_else(|| "not valid UTF-8".to_owned());
            let parsed = text.and_then(|text| parse(text).map_err(|why| why.to_string()));
            parsed.map_err(|why| self::instead(&why, instead))
        })
    }

    #[inline(never)]
    fn report_value(&mut self, name: &str, value: &OsStr, why: &str) {
        self.report(format!("{name}={}: {why}", value.to_string_lossy()));
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

/// Calls a function with each variable, as `NAME=VALUE`. It copies none, so the program's later allocations have the
/// same addresses in any environment.
#[cfg(any(target_os = "linux", target_os = "android"))]
#[allow(unsafe_code, reason = "reads the list of libc")]
fn for_each_variable(mut call: impl FnMut(&[u8])) {
    unsafe extern "C" {
        static mut environ: *const *const c_char;
    }
    // SAFETY: environ(7): null, or a list that ends with null, of strings that end with zero. perfmark reads it when
    // the program, or the library that contains it, is loaded. As for getenv(3), no other thread may change it then;
    // a program with threads that loads such a library must not call `env::set_var` meanwhile.
    unsafe {
        let mut next = (&raw const environ).read();
        while !next.is_null() && !(*next).is_null() {
            call(CStr::from_ptr(*next).to_bytes());
            next = next.add(1);
        }
    }
}

/// The same elsewhere. A browser has no variables, and the standard library panics there.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn for_each_variable(mut call: impl FnMut(&[u8])) {
    if !cfg!(all(target_family = "wasm", target_os = "unknown")) {
        for (name, value) in env::vars_os() {
            call(&[name.as_encoded_bytes(), value.as_encoded_bytes()].join(&b'='));
        }
    }
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
    use super::{meant, name_of_perfmarks};

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
        for (variable, name) in [
            ("PERFMARK=on", "PERFMARK"),
            ("PERFMARK_EVENTS=cycels", "PERFMARK_EVENTS"),
            ("PERFMARK_OUPUT=a=b", "PERFMARK_OUPUT"),
        ] {
            assert_eq!(name_of_perfmarks(variable.as_bytes()).as_deref(), Some(name));
        }
        for variable in ["PERFMARK=", "PERFMARK_EVENTS=", "PERFMARKS=5", "MY_PERFMARK=on", "PERFMARK", ""] {
            assert_eq!(name_of_perfmarks(variable.as_bytes()), None, "{variable}");
        }
    }
}
