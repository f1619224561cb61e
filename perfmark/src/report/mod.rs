//! A snapshot as text: for people, or for programs.
//!
//! Sees [`Snapshot`] and nothing deeper; whatever a snapshot holds, rendering it neither fails nor panics.

mod quantity;
mod text;

mod names;
mod share;

mod column;
mod coverage;
mod legend;

mod table;

#[cfg(feature = "json")]
mod json;

#[cfg(test)]
mod sample;

use crate::snapshot::Snapshot;

/// How a report is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// For people.
    Table,
    /// For programs.
    #[cfg(feature = "json")]
    Json,
}

impl Format {
    /// Every format's name, those that this build lacks included.
    pub(crate) const NAMES: [&str; 2] = ["table", "json"];

    /// The format of this name, or a sentence for the user.
    pub(crate) fn from_name(name: &str) -> Result<Self, String> {
        match name {
            "table" => Ok(Self::Table),
            #[cfg(feature = "json")]
            "json" => Ok(Self::Json),
            #[cfg(not(feature = "json"))]
            "json" => Err("this build of perfmark has no json: enable its feature `json`".to_owned()),
            _ => Err(format!("`{name}` is no format: {}", Self::NAMES.join(" or "))),
        }
    }
}

/// The report, ending with a newline. A table takes at most `width` columns, and never less than 80.
pub(crate) fn render(snapshot: &Snapshot, format: Format, width: usize) -> String {
    match format {
        Format::Table => table::render(snapshot, width.max(table::NARROWEST)),
        #[cfg(feature = "json")]
        Format::Json => json::render(snapshot),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listed_format_is_known_in_every_build() {
        for name in Format::NAMES {
            match Format::from_name(name) {
                Ok(format) => assert!(render(&sample::typical(), format, 100).ends_with('\n')),
                Err(why) => assert!(why.contains("enable its feature"), "{name}: {why}"),
            }
        }
    }

    #[test]
    fn an_unknown_format_is_told_with_the_ones_there_are() {
        assert_eq!(Format::from_name("xml").unwrap_err(), "`xml` is no format: table or json");
    }
}
