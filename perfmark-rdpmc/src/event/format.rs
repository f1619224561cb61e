//! The files `format/*` of a PMU: which bits of `struct perf_event_attr` a term sets.

use std::str::FromStr;

/// The words of `struct perf_event_attr` that contain a PMU's fields: `config`, `config1`, `config2`, `config3` (the
/// last since linux 6.3).
pub(crate) type Words = [u64; 4];

/// The position of a field in the words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Format {
    word: usize,
    /// The field's bits. The value's lowest bit goes to the lowest of them, in whatever order the file lists them
    /// (`perf_pmu__format_value`).
    mask: u64,
}

/// The index of the word with that name.
pub(crate) fn word(name: &str) -> Option<usize> {
    ["config", "config1", "config2", "config3"].iter().position(|&word| word == name)
}

impl Format {
    /// The number of bits of the field.
    pub(crate) fn width(self) -> u32 {
        self.mask.count_ones()
    }

    /// The greatest value that fits.
    pub(crate) fn max(self) -> u64 {
        1u64.checked_shl(self.width()).map_or(u64::MAX, |beyond| beyond - 1)
    }

    /// Sets the field's value. The value must fit.
    pub(crate) fn set(self, words: &mut Words, value: u64) {
        let word = &mut words[self.word];
        *word &= !self.mask;
        let (mut mask, mut value) = (self.mask, value);
        while mask != 0 && value != 0 {
            let lowest = mask & mask.wrapping_neg();
            if value & 1 != 0 {
                *word |= lowest;
            }
            mask ^= lowest;
            value >>= 1;
        }
    }
}

impl FromStr for Format {
    type Err = String;

    /// `config:0-7,32-35`, `config1:44`.
    fn from_str(text: &str) -> Result<Self, String> {
        let malformed = || format!("{text:?} is not a format such as config1:1,6-10,44");
        let (name, ranges) = text.split_once(':').ok_or_else(malformed)?;
        let word =
            word(name).ok_or_else(|| format!("this version does not know the word {name:?} in the format {text:?}"))?;
        let mut mask = 0;
        for range in ranges.split(',') {
            let (low, high) = range.split_once('-').unwrap_or((range, range));
            let bit = |text: &str| text.parse::<u32>().ok().filter(|&bit| bit < 64).ok_or_else(malformed);
            let (low, high) = (bit(low)?, bit(high)?);
            let above = high.checked_sub(low).ok_or_else(malformed)?;
            mask |= (u64::MAX >> (63 - above)) << low;
        }
        Ok(Self { word, mask })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_format_is_refused() {
        for wrong in " config config: config:64 config:7-0 config:-1 config:0- config4:0 config:0,,1 attr:0".split(' ')
        {
            assert!(wrong.parse::<Format>().is_err(), "{wrong}");
        }
    }
}
