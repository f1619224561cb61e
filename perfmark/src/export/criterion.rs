//! Events as criterion measurements.

use std::cell::Cell;

use criterion::Throughput;
use criterion::measurement::{Measurement, ValueFormatter};
use perfmark_rdpmc::Delta;

use crate::platform::terminal::say;
use crate::recording::measure::{MeasureError, Meter, Span};
use crate::recording::start;
use crate::snapshot::Unit;

/// An event for `criterion` to measure instead of wall time. It is counted with user reads, on the thread that runs the
/// benchmarks, in user mode.
///
/// ```no_run
/// use criterion::Criterion;
/// use perfmark::Measure;
///
/// fn main() -> Result<(), perfmark::MeasureError> {
///     let measure = Measure::event("instructions")?;
///     let mut criterion = Criterion::default().configure_from_args().with_measurement(measure);
///     criterion.bench_function("product", |bencher| {
///         bencher.iter(|| (1..=std::hint::black_box(20_u64)).product::<u64>());
///     });
///     criterion.final_summary();
///     Ok(())
/// }
/// ```
///
/// Counts of instructions hardly vary. So a benchmark needs few samples (`sample_size(10)`), and a difference of one in
/// a thousand is visible; but fewer instructions do not always take less time. The cost of criterion's own loop is
/// included, as with wall time: one or two instructions per iteration.
#[derive(Debug)]
pub struct Measure {
    meter: Meter,
    /// The units of 1, of 1,000, and so on.
    units: [&'static str; 4],
    /// The units per byte, bit and element.
    rates: [&'static str; 3],
    has_warned: Cell<bool>,
}

impl Measure {
    /// Measures one event, as perf writes it, or `time`.
    ///
    /// # Errors
    ///
    /// As for [`measure`](fn@crate::measure): the event is unknown, or cannot be counted here.
    pub fn event(name: &str) -> Result<Self, MeasureError> {
        start::note_api_use();
        let meter = Meter::open(name)?;
        // Criterion requires names that live as long as the program; there are few of them.
        let leaked = |text: String| -> &'static str { text.leak() };
        let units = match meter.event.unit() {
            Unit::Ns => ["ns", "µs", "ms", "s"],
            Unit::Count => ["", "k ", "M ", "G "].map(|prefix| leaked(format!("{prefix}{}", meter.event))),
        };
        let rates = ["byte", "bit", "element"].map(|what| leaked(format!("{}/{what}", units[0])));
        Ok(Self { meter, units, rates, has_warned: Cell::new(false) })
    }
}

/// A measurement in progress.
#[derive(Debug)]
pub struct Begun(Span);

impl Measurement for Measure {
    type Intermediate = Begun;
    type Value = u64;

    fn start(&self) -> Begun {
        let mut span = Span::default();
        self.meter.begin(&mut span);
        Begun(span)
    }

    /// # Panics
    ///
    /// If other events used the counter all the time: criterion has no way to report a missing value.
    fn end(&self, Begun(mut span): Begun) -> u64 {
        self.meter.end(&mut span);
        match span.delta() {
            Delta::Exact(counted) => counted,
            Delta::Scaled { estimate, .. } => {
                if !self.has_warned.replace(true) {
                    say(&format!(
                        "{}: other events used the counter for part of the time; values are estimates",
                        self.meter.event
                    ));
                }
                estimate
            }
            Delta::Unmeasured => {
                panic!("perfmark: {}: other events used the counters all the time", self.meter.event)
            }
        }
    }

    fn add(&self, one: &u64, other: &u64) -> u64 {
        one.saturating_add(*other)
    }

    fn zero(&self) -> u64 {
        0
    }

    fn to_f64(&self, value: &u64) -> f64 {
        *value as f64 * self.meter.scale().unwrap_or(1.0)
    }

    fn formatter(&self) -> &dyn ValueFormatter {
        self
    }
}

impl ValueFormatter for Measure {
    fn scale_values(&self, typical: f64, values: &mut [f64]) -> &'static str {
        let at = [1e3, 1e6, 1e9].iter().filter(|&&end| typical >= end).count();
        let size = [1.0, 1e3, 1e6, 1e9][at];
        for value in values {
            *value /= size;
        }
        self.units[at]
    }

    /// The event's count per byte, bit or element. A rate per second makes no sense for a count.
    fn scale_throughputs(&self, _: f64, throughput: &Throughput, values: &mut [f64]) -> &'static str {
        let (many, rate) = match *throughput {
            Throughput::Bytes(bytes) | Throughput::BytesDecimal(bytes) => (bytes, 0),
            Throughput::Bits(bits) => (bits, 1),
            Throughput::Elements(elements) | Throughput::ElementsAndBytes { elements, .. } => (elements, 2),
        };
        for value in values {
            *value /= many.max(1) as f64;
        }
        self.rates[rate]
    }

    fn scale_for_machines(&self, _: &mut [f64]) -> &'static str {
        self.units[0]
    }
}
