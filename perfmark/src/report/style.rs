//! Terminal colours for a text that is already laid out.
//!
//! Text is written plain, and styled ranges are remembered by position. So no width, line or character depends on
//! colours.

/// A style of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    Bold,
    Dim,
    Yellow,
    Red,
}

impl Style {
    /// The SGR sequence of ECMA-48.
    fn begin(self) -> &'static str {
        match self {
            Self::Bold => "\x1b[1m",
            Self::Dim => "\x1b[2m",
            Self::Yellow => "\x1b[33m",
            Self::Red => "\x1b[31m",
        }
    }
}

const END: &str = "\x1b[0m";

/// A text with styled ranges.
#[derive(Default)]
pub(super) struct Page {
    text: String,
    /// Start and end of each range, in the text's order; ranges do not overlap.
    spans: Vec<(usize, usize, Style)>,
}

impl Page {
    /// The text, to which plain text is appended.
    pub(super) fn plain(&mut self) -> &mut String {
        &mut self.text
    }

    /// Appends styled text.
    pub(super) fn styled(&mut self, style: Style, write: impl FnOnce(&mut String)) {
        let start = self.text.len();
        write(&mut self.text);
        self.spans.push((start, self.text.len(), style));
    }

    /// Removes spaces at the end, and begins a new line.
    pub(super) fn end_line(&mut self) {
        let end = self.text.trim_end_matches(' ').len();
        self.text.truncate(end);
        for span in self.spans.iter_mut().rev().take_while(|(_, past, _)| *past > end) {
            (span.0, span.1) = (span.0.min(end), end);
        }
        self.text.push('\n');
    }

    /// The text, with colours or without.
    pub(super) fn finish(self, has_color: bool) -> String {
        let Self { text, spans } = self;
        if !has_color {
            return text;
        }
        let (mut out, mut done) = (String::with_capacity(2 * text.len()), 0);
        for (start, end, style) in spans {
            out.push_str(&text[done..start]);
            // Each line is styled by itself, so that it is complete without the others.
            for line in text[start..end].split_inclusive('\n') {
                let (line, newline) = line.strip_suffix('\n').map_or((line, ""), |line| (line, "\n"));
                // Spaces have no colour.
                let blank = line.len() - line.trim_start_matches(' ').len();
                let (blank, line) = line.split_at(blank);
                out.push_str(blank);
                if !line.is_empty() {
                    out.extend([style.begin(), line, END]);
                }
                out.push_str(newline);
            }
            done = end;
        }
        out + &text[done..]
    }
}
