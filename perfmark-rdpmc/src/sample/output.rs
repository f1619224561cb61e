//! Sends the samples of counters to rings.

use super::refusal;
use super::ring::Ring;
use crate::attr::Attr;
use crate::control::ONLY_FOR_SAMPLING;
use crate::counter::Counter;
use crate::error::Error;
use crate::source::Source;

impl Counter {
    /// Sends the counter's samples to `to`, instead of any earlier ring. `None` stops this. The counter samples if it
    /// was opened with the attributes of a sampler ([`Sampler::attr`](super::Sampler::attr)).
    ///
    /// The ring must be of the same thread, or both must be [on the same CPU](crate::Target::on_cpu). They must have
    /// the same clock and [content](super::Sampler::content), without `READ`. With the content `IDENTIFIER`, each
    /// record has the id of its event. The ring's methods, such as [`Ring::disable`], [`Ring::reset`] and
    /// [`Ring::count`], leave the counter out. To sample several events that are not counters, use [`Ring::add`].
    ///
    /// ```
    /// use perfmark_rdpmc::sample::{Content, Sampler};
    /// use perfmark_rdpmc::{Attr, Counter, Software};
    ///
    /// let content = Content::IDENTIFIER | Content::ADDRESS;
    /// let faults = Sampler::new(Attr::new(Software::PageFaults)).content(content);
    /// if let (Ok(ring), Ok(counter)) = (Sampler::dummy().content(content).open(), Counter::open(faults.attr())) {
    ///     counter.set_output(Some(&ring))?;
    ///     std::hint::black_box(vec![1_u8; 1 << 20]);
    ///     counter.set_output(None)?;
    ///     println!("{} page faults, {} bytes of samples", counter.read()?.value, ring.head());
    /// }
    /// # Ok::<(), perfmark_rdpmc::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A counter that takes no samples is refused, and so is one whose samples have another [layout](super::Layout) or
    /// clock than the ring's. The kernel refuses a ring of another thread and CPU, and a counter whose page is mapped
    /// ([`Attr::user_reads`]; `perf_event_set_output` in `kernel/events/core.c`, linux 6.12). In a forked child, every
    /// call is an error.
    pub fn set_output(&self, to: Option<&Ring>) -> Result<(), Error> {
        set_output(&mut self.sources(), self.attr(), to)
    }
}

/// Sends the samples of an event to a ring.
pub(crate) fn set_output(
    sources: &mut dyn Iterator<Item = &Source>,
    attr: &Attr,
    to: Option<&Ring>,
) -> Result<(), Error> {
    // The kernel would accept it without effect.
    if !attr.samples() {
        return Err(Error::refused(attr.to_string(), ONLY_FOR_SAMPLING));
    }
    if let Some(ring) = to {
        ring.check(attr)?;
    }
    let ring = to.map(|ring| ring.source().fd()).transpose();
    let sent = ring.and_then(|ring| Source::each(sources, |source| source.set_output(ring)));
    sent.map_err(|refusal| refusal::output(refusal, attr, to.is_some()))
}
