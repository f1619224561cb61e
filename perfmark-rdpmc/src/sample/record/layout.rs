//! What the records of an event contain, which the records themselves do not say.

use crate::attr::{Attr, Field};
use crate::flags::{Branches, Content, ReadFormat};
use crate::sys::FLAG_SAMPLE_ID_ALL;

/// What the records of an event contain, which is needed to read them. Records of events with other layouts cannot be
/// distinguished from these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// `PERF_SAMPLE_*`.
    pub(in super::super) content: Content,
    /// `PERF_FORMAT_*`.
    pub(in super::super) read_format: u64,
    pub(in super::super) branches: Branches,
    /// A bit for each register in a sample.
    pub(in super::super) user_registers: u64,
    pub(in super::super) interrupt_registers: u64,
    /// Whether records that are not samples say when and where they were written.
    pub(in super::super) has_origin: bool,
}

impl Layout {
    /// That of an event with these attributes.
    pub(in super::super) fn of(attr: &Attr, read_format: u64) -> Self {
        let given = |field| attr.set(field).unwrap_or(0);
        Self {
            content: Content::from_bits(given(Field::SampleType)),
            read_format,
            branches: Branches::from_bits(given(Field::BranchSampleType)),
            user_registers: given(Field::SampleRegsUser),
            interrupt_registers: given(Field::SampleRegsIntr),
            has_origin: given(Field::Flags) & FLAG_SAMPLE_ID_ALL != 0,
        }
    }

    /// The same layout with readings that contain something else, for records that another program saved.
    /// [`Sampler::read_format`](super::super::Sampler::read_format) chooses the readings of this crate's events.
    ///
    /// ```
    /// use perfmark_rdpmc::sample::{Content, ReadFormat, Sampler};
    /// use perfmark_rdpmc::{Attr, Software};
    ///
    /// // Samples with a bare count, as `perf record` without a group writes them.
    /// let sampler = Sampler::new(Attr::new(Software::TaskClock)).content(Content::READ);
    /// let layout = sampler.layout().read_format(ReadFormat::default());
    /// assert_ne!(layout, sampler.layout());
    /// ```
    #[must_use]
    pub fn read_format(self, format: ReadFormat) -> Self {
        Self { read_format: format.bits(), ..self }
    }

    pub(in super::super) fn has(&self, content: Content) -> bool {
        self.content.contains(content)
    }

    /// Whether readings contain all of these.
    pub(in super::super) fn reads(&self, format: ReadFormat) -> bool {
        ReadFormat::from_bits(self.read_format).contains(format)
    }

    /// The bytes of a record's origin at its end.
    pub(super) fn origin_bytes(&self) -> usize {
        let parts =
            [Content::THREAD, Content::TIME, Content::ID, Content::STREAM_ID, Content::CPU, Content::IDENTIFIER];
        if self.has_origin { 8 * parts.iter().filter(|&&part| self.has(part)).count() } else { 0 }
    }
}
