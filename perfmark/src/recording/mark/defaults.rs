//! The settings of `defaults!`, for a crate's marks that do not specify their own.

use super::definition::Mark;
use crate::settings::Budget;

/// The options of one `defaults!(…)`.
#[derive(Debug)]
pub struct Defaults {
    /// The module that contains it.
    module: &'static str,
    file: &'static str,
    line: u32,
    /// One event a line; empty if it names none.
    pub(crate) events: &'static str,
    /// 0 if it is not given.
    pub(crate) every: u32,
    pub(crate) is_fenced: bool,
    /// Its budget in percent; empty if it is not given. The macro has checked it.
    budget: &'static str,
}

inventory::collect!(Defaults);

impl Defaults {
    /// Called by the macro's expansion alone.
    #[must_use]
    pub const fn new(
        (module, file, line): (&'static str, &'static str, u32),
        events: &'static str,
        every: u32,
        is_fenced: bool,
        budget: &'static str,
    ) -> Self {
        Self { module, file, line, events, every, is_fenced, budget }
    }

    /// The budget that the crate's marks share, if it is given.
    pub(crate) fn budget(&self) -> Option<Budget> {
        self.budget.parse().ok()
    }

    fn location(&self) -> String {
        format!("{}:{}", self.file, self.line)
    }
}

/// The name of a module's crate.
fn root(module: &str) -> &str {
    module.split_once("::").map_or(module, |(root, _)| root)
}

/// A crate's defaults: the first in its source.
fn of_crate(krate: &str) -> Option<&'static Defaults> {
    let here = inventory::iter::<Defaults>.into_iter().filter(|defaults| root(defaults.module) == krate);
    here.min_by_key(|defaults| (defaults.file, defaults.line))
}

/// The defaults for the mark, if its crate has any.
pub(crate) fn of(mark: &Mark) -> Option<&'static Defaults> {
    of_crate(root(mark.module))
}

/// The source files that contain defaults.
pub(crate) fn files() -> impl Iterator<Item = &'static str> {
    inventory::iter::<Defaults>.into_iter().map(|defaults| defaults.file)
}

/// The errors in all crates' defaults, a sentence each.
pub(crate) fn wrong() -> Vec<String> {
    let all = inventory::iter::<Defaults>.into_iter();
    let repeated = all.filter_map(|defaults| {
        let krate = root(defaults.module);
        let first = of_crate(krate).filter(|first| !std::ptr::eq(*first, defaults))?;
        let (first, other) = (first.location(), defaults.location());
        Some(format!("the crate {krate} has defaults! at {first} and at {other}; using the first"))
    });
    repeated.collect()
}
