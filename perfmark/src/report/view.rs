//! What a report shows of a snapshot, in which order, and in which width.

use crate::platform::terminal::DEFAULT_WIDTH;
use crate::settings::Filter;
use crate::snapshot::Mark;

/// What a report shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct View {
    /// Columns of a table.
    pub(crate) columns: usize,
    /// Whether no row is longer than that.
    pub(crate) is_limited: bool,
    pub(crate) has_color: bool,
    /// The most rows of marks.
    pub(crate) top: usize,
    /// The most lines of a mark, for each event.
    pub(crate) lines: usize,
    pub(crate) sort: Sort,
    /// The marks whose details follow.
    pub(crate) details: Option<Filter>,
    /// Whether the text of sampled lines is read from source files.
    pub(crate) reads_sources: bool,
}

impl View {
    /// A report that is the same on each machine: it reads no source files.
    pub(crate) const DEFAULT: Self = Self {
        columns: DEFAULT_WIDTH,
        is_limited: false,
        has_color: false,
        top: 20,
        lines: 3,
        sort: Sort::SelfCost,
        details: None,
        reads_sources: false,
    };

    /// The same with so many columns, where no row is longer.
    #[cfg(test)]
    pub(super) fn new(columns: usize) -> Self {
        Self { columns, is_limited: true, ..Self::DEFAULT }
    }

    /// The width of a table.
    pub(super) fn width(&self) -> usize {
        const NARROWEST: usize = 80;
        self.columns.max(NARROWEST)
    }

    /// The columns of a name that no row cuts.
    pub(super) fn longest_name(&self) -> usize {
        if self.is_limited { 0 } else { 120 }
    }

    /// Whether it shows the details of the mark.
    pub(super) fn has_details(&self, mark: &Mark) -> bool {
        self.details.as_ref().is_some_and(|filter| filter.has_mark(mark))
    }

    /// How many of that many marks have a row. A line about a single mark that has none would be as long as its row.
    pub(super) fn rows(&self, marks: usize) -> usize {
        if marks <= self.top.saturating_add(1) { marks } else { self.top }
    }
}

/// The order of the marks in a report, the largest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Sort {
    /// By the cost without marked callees: the mark where most of it is spent is first.
    #[default]
    SelfCost,
    /// By the cost with marked callees.
    Total,
    /// By the number of calls.
    Calls,
    /// By the mean cost of a call.
    Mean,
    /// By the cost that half the calls do not exceed.
    P50,
    /// By the cost that 99 calls in a hundred do not exceed.
    P99,
    /// By the cost of the largest call.
    Max,
}

impl Sort {
    const NAMES: [(&str, Self); 7] = [
        ("self", Self::SelfCost),
        ("total", Self::Total),
        ("calls", Self::Calls),
        ("mean", Self::Mean),
        ("p50", Self::P50),
        ("p99", Self::P99),
        ("max", Self::Max),
    ];

    /// The names of the orders, which are those of the table's columns.
    pub fn names() -> impl Iterator<Item = &'static str> {
        Self::NAMES.iter().map(|(name, _)| *name)
    }

    /// The order with that name.
    ///
    /// ```
    /// assert_eq!(perfmark::Sort::from_name("self"), Some(perfmark::Sort::SelfCost));
    /// assert!(perfmark::Sort::names().all(|name| perfmark::Sort::from_name(name).is_some()));
    /// ```
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, sort)| *sort)
    }

    pub(super) fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, sort)| *sort == self).map_or("", |(name, _)| name)
    }
}
