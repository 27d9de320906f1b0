//! Prints tables with columns as wide as their longest cell.

use super::document::{Document, Emphasis, Line, Span, plain, span, width};

/// The number of spaces between two columns.
const GAP: usize = 2;

/// A table. It leaves out columns whose cells are all empty.
pub(crate) struct Table {
    indent: usize,
    headings: Vec<&'static str>,
    /// The cells of each row, and the lines below it.
    rows: Vec<(Vec<Span>, Vec<Line>)>,
}

impl Table {
    /// Returns a table with these headings, indented by some columns.
    pub(crate) fn new(indent: usize, headings: &[&'static str]) -> Self {
        Self { indent, headings: headings.to_vec(), rows: Vec::new() }
    }

    /// Adds a row with a cell for each heading.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = Span>) {
        self.rows.push((cells.into_iter().collect(), Vec::new()));
    }

    /// Adds a line below the last row, which is no part of the columns.
    pub(crate) fn below(&mut self, line: Line) {
        if let Some((_, below)) = self.rows.last_mut() {
            below.push(line);
        }
    }

    /// Adds the table to a document: the headings, then the rows. Without rows it adds nothing.
    pub(crate) fn add_to(self, document: &mut Document) {
        if self.rows.is_empty() {
            return;
        }
        let cell_width = |row: &Vec<Span>, column: usize| row.get(column).map_or(0, |cell| width(&cell.text));
        let widths: Vec<usize> = (0..self.headings.len())
            .map(|column| {
                let longest =
                    self.rows.iter().map(|(row, _)| cell_width(row, column)).max().unwrap_or_default();
                let heading = self.headings.get(column).map_or(0, |heading| width(heading));
                if longest == 0 { 0 } else { longest.max(heading) }
            })
            .collect();
        let headings: Vec<Span> = self.headings.iter().map(|heading| span(*heading, Emphasis::Dim)).collect();
        for (row, below) in std::iter::once((headings, Vec::new())).chain(self.rows) {
            let mut line: Line = vec![plain(" ".repeat(self.indent))];
            for (cell, wanted) in row.into_iter().zip(&widths).filter(|(_, wanted)| **wanted > 0) {
                let missing = wanted.saturating_sub(width(&cell.text));
                line.push(cell);
                line.push(plain(" ".repeat(missing + GAP)));
            }
            document.line(line);
            below.into_iter().for_each(|line| document.line(line));
        }
    }
}
