//! A table of short texts for a terminal: columns as wide as their longest cell, together no wider
//! than a line. Knows nothing of what it shows.

use super::harmless;

/// Letters between two columns.
const GAP: usize = 2;

/// No column is cut below this.
const NARROWEST: usize = 6;

/// A table under construction.
#[derive(Debug)]
pub(crate) struct TextTable {
    rows: Vec<Vec<String>>,
}

impl TextTable {
    /// A table with these headings.
    pub(crate) fn new(headings: &[&str]) -> Self {
        let headings = headings.iter().map(|&heading| heading.to_owned());
        Self {
            rows: vec![headings.collect()],
        }
    }

    /// Adds a row; cells that it lacks stay empty.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows
            .push(cells.into_iter().map(|cell| harmless(&cell)).collect());
    }

    /// Whether it has headings only.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.len() == 1
    }

    /// Its lines, headings first, without blanks at their ends. Columns without any content are
    /// left out; if the rest is too wide, the widest columns are cut until it fits.
    pub(crate) fn lines(&self, width: usize) -> Vec<String> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let used: Vec<usize> = (0..columns).filter(|&at| self.has_content(at)).collect();
        let mut widths: Vec<usize> = used.iter().map(|&at| self.widest(at)).collect();
        fit(&mut widths, width);
        let line = |row: &Vec<String>| {
            let cells = used.iter().zip(&widths).map(|(&at, &width)| {
                let cell = row.get(at).map_or("", String::as_str);
                pad(cell, width)
            });
            let line = cells.collect::<Vec<_>>().join(&" ".repeat(GAP));
            line.trim_end().to_owned()
        };
        self.rows.iter().map(line).collect()
    }

    fn has_content(&self, at: usize) -> bool {
        let mut cells = self.rows.iter().skip(1).filter_map(|row| row.get(at));
        cells.any(|cell| !cell.is_empty())
    }

    fn widest(&self, at: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(at));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    }
}

fn fit(widths: &mut [usize], width: usize) {
    let gaps = GAP * widths.len().saturating_sub(1);
    while widths.iter().sum::<usize>() + gaps > width {
        match widths.iter_mut().max() {
            Some(widest) if *widest > NARROWEST => *widest -= 1,
            _ => return,
        }
    }
}

fn pad(cell: &str, width: usize) -> String {
    let length = cell.chars().count();
    if length <= width {
        return format!("{cell}{}", " ".repeat(width - length));
    }
    let kept: String = cell.chars().take(width.saturating_sub(1)).collect();
    format!("{kept}\u{2026}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|&text| text.to_owned()).collect()
    }

    #[test]
    fn columns_line_up_and_empty_ones_are_left_out() {
        let mut table = TextTable::new(&["host", "gpus", "cpus"]);
        assert!(table.is_empty());
        table.row(cells(&["a-long-name", "", "4"]));
        table.row(cells(&["b"]));
        let lines = ["host         cpus", "a-long-name  4", "b"];
        assert_eq!(table.lines(100), lines);
    }

    #[test]
    fn the_widest_column_gives_way() {
        let mut table = TextTable::new(&["x", "y"]);
        table.row(cells(&["1234567890", "123456789012345"]));
        assert_eq!(table.lines(22)[1], "1234567890  123456789\u{2026}");
        for line in table.lines(16) {
            assert!(line.chars().count() <= 16, "{line}");
        }
    }

    #[test]
    fn cells_cannot_control_the_terminal() {
        let mut table = TextTable::new(&["x"]);
        table.row(cells(&["\u{1b}[31m"]));
        assert_eq!(table.lines(10)[1], "?[31m");
    }
}
