//! Compiled twice without the feature `record`: with marks, and without.

#![deny(warnings)]

#[cfg(marked)]
use perfmark::{perfmark, region};

#[cfg(not(marked))]
macro_rules! region {
    ($name:literal, $event:ident, $block:block) => {
        $block
    };
}

/// Called from elsewhere, so that it is there.
#[cfg_attr(marked, perfmark(cycles, instructions))]
#[unsafe(no_mangle)]
pub fn checksum(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |sum, &byte| sum.rotate_left(5) ^ u32::from(byte))
}

/// Leaves early, by a panic, too.
#[cfg_attr(marked, perfmark(time, every = 61, fence))]
#[unsafe(no_mangle)]
pub fn parse(text: &str) -> Option<u32> {
    let first = text.split(',').next()?;
    assert!(!first.is_empty());
    region!("digits", time, { first.parse().ok() })
}

/// Has methods.
#[derive(Debug)]
pub struct Table(pub Vec<u64>);

#[cfg_attr(marked, perfmark)]
impl Table {
    /// Finds a place.
    #[unsafe(no_mangle)]
    pub extern "C" fn find(&self, key: u64) -> u64 {
        self.0.iter().position(|&entry| entry == key).map_or(u64::MAX, |at| at as u64)
    }
}
