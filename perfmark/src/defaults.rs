//! What a crate's marks record where they do not say.

use crate::mark::Mark;

/// The options of one `defaults!(…)`.
#[derive(Debug)]
pub struct Defaults {
    /// The module that it stands in.
    module: &'static str,
    file: &'static str,
    line: u32,
    /// A line each; none where it names none.
    pub(crate) events: &'static str,
    /// 0 where it does not say.
    pub(crate) every: u32,
    pub(crate) is_fenced: bool,
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
    ) -> Self {
        Self { module, file, line, events, every, is_fenced }
    }

    fn place(&self) -> String {
        format!("{}:{}", self.file, self.line)
    }
}

/// The crate of a module.
fn root(module: &str) -> &str {
    module.split_once("::").map_or(module, |(root, _)| root)
}

/// A crate's, the first in its source.
fn of_crate(krate: &str) -> Option<&'static Defaults> {
    let here = inventory::iter::<Defaults>.into_iter().filter(|defaults| root(defaults.module) == krate);
    here.min_by_key(|defaults| (defaults.file, defaults.line))
}

/// Those for the mark, if its crate has any.
pub(crate) fn of(mark: &Mark) -> Option<&'static Defaults> {
    of_crate(root(mark.module))
}

/// What is wrong with them, a sentence each.
pub(crate) fn wrong() -> Vec<String> {
    let all = inventory::iter::<Defaults>.into_iter();
    let one_more = all.filter_map(|defaults| {
        let krate = root(defaults.module);
        let first = of_crate(krate).filter(|first| !std::ptr::eq(*first, defaults))?;
        let (first, other) = (first.place(), defaults.place());
        Some(format!("the crate {krate} has defaults! at {first} and at {other}: the first holds"))
    });
    one_more.collect()
}
