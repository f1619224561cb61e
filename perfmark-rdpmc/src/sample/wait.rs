//! Waits for records.

use std::time::Duration;

use super::ring::Ring;
use crate::error::Error;
use crate::sys;

/// Waits until one of the rings is ready, which [`Sampler::wakeup_events`](super::Sampler::wakeup_events) defines, or
/// until its thread has ended, or for `timeout`; without one, without a limit. Returns the number of such rings: 0 also
/// if a signal arrived first. A ring whose thread has ended is always ready.
///
/// # Errors
///
/// If `poll(2)` fails, or in a forked child.
pub fn wait(rings: &[&Ring], timeout: Option<Duration>) -> Result<usize, Error> {
    let mut fds = Vec::with_capacity(rings.len());
    for ring in rings {
        fds.push(ring.sources[0].fd().map_err(|refusal| refusal.explain("poll", ring.name.clone()))?);
    }
    // Rounded up, so that a wait for less than a millisecond is one.
    let milliseconds = timeout.map_or(-1, |time| i32::try_from(time.as_micros().div_ceil(1_000)).unwrap_or(i32::MAX));
    sys::poll(&fds, milliseconds)
        .map_err(|errno| Error::os(errno, "poll", format!("{} rings", rings.len()), "see poll(2)"))
}
