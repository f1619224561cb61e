//! Budgets: the share of the CPU time that measuring may take. The language of `PERFMARK_BUDGET`.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

/// The share of each thread's CPU time that measuring may take.
///
/// With a budget, perfmark measures one call in N of marks that are called so often that their measuring would take
/// more. It chooses N for each thread, and changes it while the program runs. See
/// [`set_budget`](crate::set_budget).
///
/// ```
/// use perfmark::Budget;
///
/// let budget: Budget = "2%".parse()?;
/// assert_eq!(budget, Budget::percent(2.0)?);
/// assert_eq!(budget.to_string(), "2%");
/// assert!(Budget::percent(0.0).is_err() && "2".parse::<Budget>().is_err());
/// # Ok::<(), perfmark::BudgetError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    percent: f64,
}

/// An invalid budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetError(String);

message_error!(BudgetError);

impl Budget {
    /// So many percent of the CPU time.
    ///
    /// # Errors
    ///
    /// It is not a number, not above 0, or above 100.
    pub fn percent(percent: f64) -> Result<Self, BudgetError> {
        if percent > 0.0 && percent <= 100.0 {
            Ok(Self { percent })
        } else {
            Err(BudgetError(format!("a budget of {percent} % is not possible; it must be above 0 % and at most 100 %")))
        }
    }

    /// The percentage.
    #[must_use]
    pub fn as_percent(self) -> f64 {
        self.percent
    }

    /// The share: 1 for 100 %.
    #[cfg(feature = "record")]
    pub(crate) fn share(self) -> f64 {
        self.percent / 100.0
    }
}

impl Display for Budget {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", self.percent)
    }
}

impl FromStr for Budget {
    type Err = BudgetError;

    /// Reads a percentage, such as `2%` or `0.5 %`.
    fn from_str(text: &str) -> Result<Self, BudgetError> {
        let percent = text.trim().strip_suffix('%').and_then(|number| number.trim().parse().ok());
        let percent = percent.ok_or_else(|| BudgetError("expected a percentage, such as `2%`".into()))?;
        Self::percent(percent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_a_percentage_above_zero_and_at_most_100() {
        for (text, percent) in [("2%", 2.0), (" 0.5 % ", 0.5), ("100%", 100.0), ("1e-3%", 0.001)] {
            let budget: Budget = text.parse().expect(text);
            assert!((budget.as_percent() - percent).abs() < 1e-12, "{text}");
        }
        for text in ["", "2", "%", "two%", "2%%", "0.02"] {
            let why = text.parse::<Budget>().expect_err(text).to_string();
            assert_eq!(why, "expected a percentage, such as `2%`", "{text}");
        }
        for (text, shown) in [("0%", "0"), ("-1%", "-1"), ("101%", "101"), ("nan%", "NaN"), ("inf%", "inf")] {
            let why = text.parse::<Budget>().expect_err(text).to_string();
            assert_eq!(why, format!("a budget of {shown} % is not possible; it must be above 0 % and at most 100 %"));
        }
    }
}
