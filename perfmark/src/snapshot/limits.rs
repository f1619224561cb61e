//! The limits of a report that is read. They bound the memory and time that a made-up report can take. Reports of
//! recorded values are far from them, except for names of very long types.

use serde::de::{Deserialize as _, Deserializer};

/// The most samplings: events at one rate.
pub(super) const MAX_SAMPLINGS: usize = 128;
/// The most nested calls: an upper bound of the frames that a thread's stack has room for (`switched::ROOM`).
pub(super) const DEEPEST: usize = 2_048;
/// The most bytes of a text to which many parts of a report can refer. Longer texts are cut.
const MAX_TEXT: usize = 4_096;

/// A text, which may be cut.
pub(super) fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    String::deserialize(deserializer).map(cut)
}

/// A text that may be missing.
pub(super) fn optional_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Ok(Option::<String>::deserialize(deserializer)?.map(cut))
}

fn cut(mut text: String) -> String {
    if text.len() > MAX_TEXT {
        let end = (0..=MAX_TEXT).rev().find(|&at| text.is_char_boundary(at));
        text.truncate(end.unwrap_or(0));
        text.push('…');
        text.shrink_to_fit();
    }
    text
}
