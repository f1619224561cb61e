//! The guide: from the first mark to a gate in CI and a service in production, and how accurate its values are.
//!
//! | chapter | answers |
//! |---|---|
//! | [`start`] | how to have the first table in a minute, and marks in a library |
//! | [`table`] | what each column, symbol and note of the report means |
//! | [`formats`] | JSON, CSV, Markdown, HTML, flame graphs, OpenMetrics |
//! | [`lines`] | which line of a mark is hot: samples, their names, and other tools for them |
//! | [`events`] | which events to count for which question, how many at once, and what they cost |
//! | [`waiting`] | whether a call computed or waited: time off the CPU, blocked or preempted |
//! | [`allocations`] | what calls allocate |
//! | [`benchmarks`] | measuring one piece of code; criterion and divan |
//! | [`gate`] | how to compare a program before and after a change, and fail CI |
//! | [`production`] | how a service measures itself for months: metrics, dumps, filters, faults |
//! | [`permissions`] | what the kernel, containers and sandboxes forbid, and how to allow it; every system call |
//! | [`accuracy`] | what is exact, what is estimated, and where the limits are |
//! | [`inside`] | how it works |

/// Chapters, each with links before its text. Where files are read without rustdoc, those at their ends apply.
macro_rules! chapters {
    ($($name:ident)*) => { $(
        #[doc = "[`accuracy`]: crate::guide::accuracy"]
        #[doc = "[`allocations`]: crate::guide::allocations"]
        #[doc = "[`lines`]: crate::guide::lines"]
        #[doc = "[`perfmark diff`]: crate::guide::gate#hot-lines"]
        #[doc = "[`permissions`]: crate::guide::permissions"]
        #[doc = "[`table`]: crate::guide::table"]
        #[doc = "[`waiting`]: crate::guide::waiting"]
        #[doc = "[budget]: crate::guide::production#a-budget"]
        #[doc = "[crate's documentation]: crate"]
        #[doc = "[instructions without a PMU]: crate::guide::gate#instructions-without-a-pmu"]
        #[doc = "[sampled]: crate::guide::lines"]
        #[doc = "[samples]: crate::guide::lines#what-to-mark-next"]
        #[doc = include_str!(concat!(stringify!($name), ".md"))]
        pub mod $name {}
    )* };
}

chapters! {
    start table formats lines events waiting allocations benchmarks gate production permissions accuracy inside
}
