//! Rows of names and cells in columns that are as wide as their content.
//!
//! If the report is not wide enough, columns that only wide reports have are left out, and then names are cut. Without
//! a width that limits it, rows with long names are longer.

use std::fmt;

use super::column::Column;
use super::hot_lines::Row;
use super::quantity::{ESTIMATE, Quantity};
use super::style::{Page, Style};
use super::text::{beginning, push_left, push_right, shorten, shorten_each, width, wrap};
use super::view::View;
use crate::platform::terminal::DEFAULT_WIDTH;
use crate::text::counted;

/// From this width on, a mark's path and source location are shown beside its name.
const LOCATIONS: usize = 140;

pub(super) enum Line {
    /// The name of the first column, and the columns' heads.
    Head(String),
    /// A mark, its source location, and at the right its calls, and the ratios of its events.
    Heading { label: String, locations: [String; 2], right: String },
    /// An event of the mark above, or a mark.
    Row { label: String, cells: Vec<Quantity>, is_measured: bool },
    /// The hottest lines of the mark above, or functions.
    Sampled(Vec<Row>),
    /// The marks that have no row.
    Rest(Rest),
    /// A sentence about the rows above, and whether it reports missing values.
    Note { text: String, is_lacking: bool },
}

/// How many marks have no row, and their self together.
pub(super) struct Rest {
    pub(super) marks: usize,
    pub(super) own: Quantity,
}

impl fmt::Display for Rest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "and {}", counted(self.marks as u64, "more mark"))?;
        if self.own.is_missing() { Ok(()) } else { write!(f, ", {} of self", self.own) }
    }
}

pub(super) struct Grid {
    pub(super) shown: Vec<Column>,
    lines: Vec<Line>,
    columns: usize,
    /// The columns of a name that no row cuts.
    longest: usize,
}

/// Between columns.
const GAP: usize = 2;
/// Columns of a long name that are shown before columns that only wide reports have. Where that is more, half of the
/// report is shown before columns that reports of the default width do not have.
const NAME: usize = 40;

impl Grid {
    /// With as many of the columns as have room beside the names. The cells of each row are those of all columns.
    pub(super) fn new(shown: Vec<Column>, lines: Vec<Line>, view: &View) -> Self {
        let columns = view.width();
        let mut grid = Self { shown, lines, columns, longest: view.longest_name() };
        for at in (0..grid.shown.len()).rev() {
            if !grid.shown[at].is_shown(columns) {
                grid.remove(at);
            }
        }
        grid.fit();
        grid
    }

    /// Removes columns that leave names too little room: first those that only the widest reports have.
    fn fit(&mut self) {
        loop {
            let cells_width = cells_width(&self.layout());
            let optional = (0..self.shown.len()).filter(|&at| self.shown[at].from > 0);
            let Some(widest) = optional.max_by_key(|&at| self.shown[at].from) else { return };
            let name = if self.shown[widest].from > DEFAULT_WIDTH { NAME.max(self.columns / 2) } else { NAME };
            if self.room(cells_width) >= self.needed(cells_width).min(name) {
                return;
            }
            self.remove(widest);
        }
    }

    /// The most columns of a name beside cells of this width.
    fn room(&self, cells_width: usize) -> usize {
        self.columns.saturating_sub(cells_width).max(self.longest)
    }

    fn remove(&mut self, at: usize) {
        self.shown.remove(at);
        for line in &mut self.lines {
            if let Line::Row { cells, .. } = line {
                cells.remove(at);
            }
        }
    }

    pub(super) fn has_column(&self, head: &str) -> bool {
        self.shown.iter().any(|column| column.head == head)
    }

    /// Whether some value has this flag.
    pub(super) fn has(&self, flag: char) -> bool {
        let is_flagged = |cell: &Quantity| cell.number.starts_with(flag);
        self.lines.iter().any(|line| match line {
            Line::Row { cells, .. } => cells.iter().any(is_flagged),
            Line::Rest(rest) => is_flagged(&rest.own),
            // Shares of samples have an explanation of their own.
            _ => false,
        })
    }

    pub(super) fn paint(&self, page: &mut Page) {
        let layout = self.layout();
        let cells_width = cells_width(&layout);
        let label_width = self.needed(cells_width).min(self.room(cells_width));
        // Names of marks are distinct, also when they are cut; names of events recur.
        let mut names = self.names(label_width, label_width + cells_width).into_iter();
        let has_headings = self.lines.iter().any(|line| matches!(line, Line::Heading { .. }));
        let share_widths = self.lines.iter().filter_map(|line| match line {
            Line::Sampled(rows) => rows.iter().map(|row| width(&row.share)).max(),
            _ => None,
        });
        let share_width = share_widths.max().unwrap_or(0);
        let indent = if has_headings { 4 } else { 0 };
        let note = |page: &mut Page, text: &str, style| page.styled(style, |out| wrap(out, text, indent, self.columns));
        for line in &self.lines {
            match line {
                Line::Head(head) => page.styled(Style::Bold, |out| {
                    push_left(out, &shorten(head, label_width), label_width);
                    for (column, width) in self.shown.iter().zip(&layout) {
                        push_right(out, column.head, GAP + width.all);
                    }
                }),
                Line::Heading { locations, right, .. } => {
                    let room = (label_width + cells_width).saturating_sub(GAP + width(right));
                    self.heading(page, &names.next().unwrap_or_default(), locations, room);
                    page.plain().push_str(right);
                }
                Line::Row { label, cells, is_measured } => {
                    let name =
                        if has_headings { shorten(label, label_width) } else { names.next().unwrap_or_default() };
                    push_left(page.plain(), &name, label_width);
                    for (cell, width) in cells.iter().zip(&layout) {
                        width.paint(page, cell, *is_measured);
                    }
                }
                Line::Sampled(rows) => {
                    self.sampled(page, rows, share_width);
                    continue;
                }
                Line::Rest(rest) => {
                    note(page, &rest.to_string(), Style::Dim);
                    continue;
                }
                Line::Note { text, is_lacking } => {
                    note(page, text, if *is_lacking { Style::Red } else { Style::Dim });
                    continue;
                }
            }
            page.end_line();
            if matches!(line, Line::Head(_)) {
                page.plain().push_str(&"─".repeat(label_width + cells_width));
                page.end_line();
            }
        }
    }

    /// Rows with columns of their own: shares, functions, places, and source text in the room that is left.
    fn sampled(&self, page: &mut Page, rows: &[Row], share_width: usize) {
        const INDENT: usize = 4;
        /// The narrowest source text that is of use.
        const TEXT: usize = 12;
        let widest = |text: fn(&Row) -> &str, most: usize| {
            rows.iter().map(|row| width(text(row))).filter(|&width| width <= most).max().unwrap_or(0)
        };
        let event_width = widest(|row| &row.event, usize::MAX);
        let of_event = if event_width == 0 { 0 } else { " of ".len() + event_width };
        let room = self.columns.saturating_sub(INDENT + share_width + of_event);
        let function_width = widest(|row| &row.function, usize::MAX).min(room / 2);
        let room = room.saturating_sub(if function_width == 0 { 0 } else { GAP + function_width });
        // A longer place has its text closer to it.
        let of_place = |row: &&Row| width(&row.place) + width(&row.around);
        let places = rows.iter().filter(|row| !row.text.is_empty()).map(|row| of_place(&row));
        let place_width = places.filter(|&width| width <= room / 2).max().unwrap_or(0);
        for Row { share, event, function, place, around, text } in rows {
            push_right(page.plain(), "", INDENT + share_width - width(share));
            let style = if share.starts_with(ESTIMATE) { Style::Yellow } else { Style::Dim };
            page.styled(style, |out| out.push_str(share));
            page.styled(Style::Dim, |out| {
                if of_event > 0 {
                    push_left(out, &format!(" of {event}"), of_event);
                }
                if function_width > 0 {
                    push_right(out, "", GAP);
                    push_left(out, &shorten(function, function_width), function_width);
                }
                push_right(out, "", GAP);
                // A line's number is not cut as long as what follows can be.
                let left = room.saturating_sub(GAP + width(place));
                let around = if left >= TEXT.min(width(around)) { shorten(around, left) } else { String::new() };
                let place = shorten(place, room.saturating_sub(GAP)) + &around;
                push_left(out, &place, place_width);
                let room = room.saturating_sub(2 * GAP + width(&place).max(place_width));
                if room >= TEXT && !text.is_empty() {
                    push_right(out, "", GAP);
                    out.push_str(&beginning(text, room));
                }
            });
            page.end_line();
        }
    }

    /// The marks' names, in their room beside cells, or in a line with calls and ratios.
    fn names(&self, label_width: usize, line_width: usize) -> Vec<String> {
        let heading = |line: &Line| match line {
            Line::Heading { right, .. } => Some(GAP + width(right)),
            _ => None,
        };
        let right = self.lines.iter().filter_map(heading).max();
        let names = self.lines.iter().filter_map(|line| match line {
            Line::Heading { label, .. } => Some(label.as_str()),
            Line::Row { label, .. } if right.is_none() => Some(label.as_str()),
            _ => None,
        });
        shorten_each(&names.collect::<Vec<_>>(), right.map_or(label_width, |right| line_width.saturating_sub(right)))
    }

    /// The mark's name, and as much of its location as fits.
    fn heading(&self, page: &mut Page, label: &str, locations: &[String; 2], room: usize) {
        page.styled(Style::Bold, |out| out.push_str(label));
        let mut left = room - width(label).min(room);
        let fits = |location: &&String| self.columns >= LOCATIONS && GAP + width(location) <= left;
        if let Some(location) = locations.iter().find(fits) {
            push_right(page.plain(), "", GAP);
            page.styled(Style::Dim, |out| out.push_str(location));
            left -= GAP + width(location);
        }
        push_right(page.plain(), "", left + GAP);
    }

    fn layout(&self) -> Vec<Width> {
        (0..self.shown.len()).map(|index| self.column_width(index)).collect()
    }

    fn column_width(&self, index: usize) -> Width {
        let cells = self.lines.iter().filter_map(|line| match line {
            Line::Row { cells, .. } => cells.get(index),
            _ => None,
        });
        let (mut number, mut unit) = (0, 0);
        for cell in cells {
            number = number.max(width(&cell.number));
            unit = unit.max(width(cell.unit));
        }
        let unit = if unit > 0 { unit + 1 } else { 0 };
        let head = self.shown.get(index).map_or(0, |column| column.head.len());
        Width { unit, all: head.max(number + unit) }
    }

    /// The width in which every label and heading fits, beside cells of this width.
    fn needed(&self, cells_width: usize) -> usize {
        let needed = self.lines.iter().map(|line| match line {
            Line::Heading { label, right, .. } => (width(label) + GAP + width(right)).saturating_sub(cells_width),
            Line::Row { label, .. } => width(label),
            Line::Head(head) => width(head),
            Line::Sampled(_) | Line::Rest(_) | Line::Note { .. } => 0,
        });
        needed.max().unwrap_or(0)
    }
}

/// A column's width, and the part of it that units take, including the space before them.
struct Width {
    unit: usize,
    all: usize,
}

impl Width {
    fn paint(&self, page: &mut Page, cell: &Quantity, is_measured: bool) {
        let missing = self.all - self.unit - width(&cell.number).min(self.all - self.unit);
        push_right(page.plain(), "", GAP + missing);
        let number = |out: &mut String| out.push_str(&cell.number);
        match () {
            () if cell.is_flagged() => page.styled(Style::Yellow, number),
            () if !is_measured && cell.is_missing() => page.styled(Style::Red, number),
            () => number(page.plain()),
        }
        let unit = if cell.unit.is_empty() { String::new() } else { format!(" {}", cell.unit) };
        page.styled(Style::Dim, |out| push_left(out, &unit, self.unit));
    }
}

fn cells_width(layout: &[Width]) -> usize {
    layout.iter().map(|width| GAP + width.all).sum()
}
