//! Prints tables with columns as wide as their longest cell.

use super::document::{Document, Emphasis, Line, Span, plain, span, width, wrap};

/// The number of spaces between two columns.
const GAP: usize = 2;

/// The least number of characters in a line of a wrapped cell. If there is less room beside the
/// other cells, it is below them.
const LEAST: usize = 30;

/// A table. It leaves out columns whose cells are all empty.
pub(crate) struct Table {
    indent: usize,
    /// The width at which cells of the last column are wrapped.
    columns: usize,
    headings: Vec<&'static str>,
    /// The cells of each row, and the lines below it.
    rows: Vec<(Vec<Span>, Vec<Line>)>,
}

impl Table {
    /// Returns a table with these headings, indented by some columns.
    pub(crate) fn new(indent: usize, headings: &[&'static str]) -> Self {
        Self { indent, columns: usize::MAX, headings: headings.to_vec(), rows: Vec::new() }
    }

    /// Wraps the cells of the last column, so that the table is no wider than this.
    pub(crate) fn wrapped(self, columns: usize) -> Self {
        Self { columns, ..self }
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
        let Some((longest, others)) = widths.split_last() else { return };
        let beside = self.indent + others.iter().filter(|it| **it > 0).map(|it| it + GAP).sum::<usize>();
        let is_below = self.columns.saturating_sub(beside) < LEAST.min(*longest);
        let begin = if is_below { self.indent + 2 * GAP } else { beside };
        let room = self.columns.saturating_sub(begin).max(LEAST);
        for (at, (row, below)) in std::iter::once((headings, Vec::new())).chain(self.rows).enumerate() {
            let mut row = row.into_iter();
            let mut line: Line = vec![plain(" ".repeat(self.indent))];
            for (wanted, cell) in others.iter().zip(row.by_ref()).filter(|(wanted, _)| **wanted > 0) {
                let missing = wanted.saturating_sub(width(&cell.text));
                line.push(cell);
                line.push(plain(" ".repeat(missing + GAP)));
            }
            let Span { text, emphasis } = row.next().filter(|_| *longest > 0).unwrap_or_else(|| plain(""));
            let next_line = || vec![plain(" ".repeat(begin))];
            if is_below && at > 0 {
                document.line(std::mem::replace(&mut line, next_line()));
            }
            let parts = if width(&text) > room { wrap(&text, room) } else { vec![text] };
            for (at, part) in parts.into_iter().enumerate() {
                if at > 0 {
                    document.line(std::mem::replace(&mut line, next_line()));
                }
                line.push(span(part, emphasis));
            }
            document.line(line);
            below.into_iter().for_each(|line| document.line(line));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::Colors;

    fn drawn(columns: usize) -> String {
        let mut table = Table::new(0, &["CODE", "EMPTY", "OBJECT", "PROBLEM"]).wrapped(columns);
        for (object, problem) in
            [("shop/web", "fine"), ("shop/frontend", "one two three four five six seven")]
        {
            table.row([plain("EP012"), plain(""), plain(object), span(problem, Emphasis::Bad)]);
            table.below(vec![plain("  kubectl get a-command-that-is-never-wrapped-however-long-it-is")]);
        }
        let mut document = Document::default();
        table.add_to(&mut document);
        document.render(Colors::Off)
    }

    #[test]
    fn the_last_column_is_wrapped_below_its_beginning() {
        assert_eq!(drawn(usize::MAX), drawn(55));
        insta::assert_snapshot!(drawn(52), @r"
        CODE   OBJECT         PROBLEM
        EP012  shop/web       fine
          kubectl get a-command-that-is-never-wrapped-however-long-it-is
        EP012  shop/frontend  one two three four five six
                              seven
          kubectl get a-command-that-is-never-wrapped-however-long-it-is
        ");
    }

    /// There is no room for a sentence beside a long name.
    #[test]
    fn the_last_column_is_below_the_others_in_a_narrow_table() {
        insta::assert_snapshot!(drawn(51), @r"
        CODE   OBJECT         PROBLEM
        EP012  shop/web
            fine
          kubectl get a-command-that-is-never-wrapped-however-long-it-is
        EP012  shop/frontend
            one two three four five six seven
          kubectl get a-command-that-is-never-wrapped-however-long-it-is
        ");
    }
}
