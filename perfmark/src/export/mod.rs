//! Values for other programs and libraries, while the program runs.

#[cfg(feature = "criterion")]
mod criterion;
#[cfg(feature = "prometheus")]
mod prometheus;
#[cfg(feature = "exporter")]
mod exporter;

#[cfg(feature = "criterion")]
pub use self::criterion::Measure;
#[cfg(feature = "exporter")]
pub use self::exporter::{Exporter, Exporting};
#[cfg(feature = "prometheus")]
pub use self::prometheus::Metrics;
