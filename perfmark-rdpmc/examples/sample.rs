//! Samples its own cycles while two functions run, one for 30 % of the time and one for 70 %. To run it: `cargo run
//! --release -p perfmark-rdpmc --example sample [-- EVENT]`.
//!
//! With `-- none` it takes no samples, so that another program can: `perf record -e cycles:u -c 100003 sample none`.

use std::hint::black_box;
use std::process::ExitCode;

use perfmark_rdpmc::sample::{Body, Content, Sampler};
use perfmark_rdpmc::{Attr, Error, Event};

const ROUNDS: u64 = 40;
const TURNS: u64 = 250_000;
/// A prime, so that samples are not in step with the loops.
const PERIOD: u64 = 100_003;
/// Neither function is longer in a release build: they are loops of a few instructions.
const BYTES: u64 = 128;

#[inline(never)]
fn light() -> u64 {
    (0..3 * TURNS).fold(0, |sum, n| black_box(sum ^ n))
}

#[inline(never)]
fn heavy() -> u64 {
    (0..7 * TURNS).fold(0, |sum, n| black_box(sum ^ n))
}

/// Samples in each function.
#[derive(Default)]
struct Samples {
    light: u64,
    heavy: u64,
    elsewhere: u64,
    lost: Option<u64>,
}

impl Samples {
    fn add(&mut self, address: u64) {
        let is_in = |function: fn() -> u64| address.checked_sub(function as usize as u64).filter(|&at| at < BYTES);
        *match (is_in(light), is_in(heavy)) {
            (None, None) => &mut self.elsewhere,
            // The functions may be neighbours. The sample is in the one that begins last before it.
            (Some(in_light), in_heavy) if in_heavy.is_none_or(|in_heavy| in_light < in_heavy) => &mut self.light,
            _ => &mut self.heavy,
        } += 1;
    }
}

fn compute() {
    (0..ROUNDS).for_each(|_| _ = black_box(light() + heavy()));
}

/// The samples of that event while the functions run.
fn sampled(event: &str) -> Result<Samples, Error> {
    // Pinned, so that no other event of this thread takes its counter.
    let attr = Attr::new(event.parse::<Event>()?).pinned(true);
    let ring = Sampler::new(attr).period(PERIOD).content(Content::IP).pages(64).open()?;
    compute();
    ring.disable()?;
    let mut samples = Samples { lost: ring.count()?.lost, ..Samples::default() };
    let mut reader = ring.reader()?;
    while let Some(record) = reader.read() {
        match record.body {
            Body::Sample(sample) => samples.add(sample.ip.unwrap_or(0)),
            // For example, the kernel took fewer samples for a while.
            other => eprintln!("{other:?}"),
        }
    }
    Ok(samples)
}

fn main() -> ExitCode {
    let event = std::env::args().nth(1).unwrap_or_else(|| "cycles:u".into());
    if event == "none" {
        compute();
        return ExitCode::SUCCESS;
    }
    let Samples { light, heavy, elsewhere, lost } = match sampled(&event) {
        Ok(samples) => samples,
        Err(why) => {
            eprintln!("{why}");
            return ExitCode::FAILURE;
        }
    };
    let all = light + heavy + elsewhere;
    for (name, number) in [("light", light), ("heavy", heavy), ("elsewhere", elsewhere)] {
        println!("{:6.2}% {name}", 100.0 * number as f64 / all.max(1) as f64);
    }
    // Before linux 6.0, the kernel does not say it.
    let lost = lost.map_or_else(|| "an unknown number".into(), |lost| lost.to_string());
    println!("{all} samples of {event}, {lost} lost");
    ExitCode::SUCCESS
}
