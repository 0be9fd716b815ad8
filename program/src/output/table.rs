//! Tables without borders. On a terminal, they fit its width: minor columns are left out, and long cells are cut. In a pipe,
//! each row is one line, and nothing is cut.

use std::fmt;

use comfy_table::{Attribute, Cell, ColumnConstraint, ContentArrangement, Row, presets};

use super::style::{Look, Meaning};
use super::text::harmless_lines;

/// The space between two columns.
const GAP: u16 = 2;

/// A column of a table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    heading: &'static str,
    kind: Kind,
    is_wide: bool,
}

/// What a column contains, which decides how it looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Text, which is cut if it does not fit.
    Text,
    /// Identifiers that others need in full. They are cut only if they would take more than half of the width.
    Id,
    /// Text that must be read in full: it is continued on the next line.
    Prose,
    /// States, some of which have a color.
    State,
}

impl From<&'static str> for Column {
    fn from(heading: &'static str) -> Self {
        Self { heading, kind: Kind::Text, is_wide: false }
    }
}

impl Column {
    /// A column of identifiers, which are not cut unless they are very long.
    pub(crate) fn id(heading: &'static str) -> Self {
        Self { kind: Kind::Id, ..Self::from(heading) }
    }

    /// A column of sentences, which are continued on the next line instead of being cut.
    pub(crate) fn prose(heading: &'static str) -> Self {
        Self { kind: Kind::Prose, ..Self::from(heading) }
    }

    /// A column of states, such as `dead`, some of which have a color.
    pub(crate) fn state(heading: &'static str) -> Self {
        Self { kind: Kind::State, ..Self::from(heading) }
    }

    /// A column that only `-o wide` shows.
    pub(crate) fn wide(heading: &'static str) -> Self {
        Self { is_wide: true, ..Self::from(heading) }
    }

    /// `longest` is the width of its longest cell, and `width` that of the terminal.
    fn constraint(self, is_wide: bool, longest: usize, width: Option<u16>) -> Option<ColumnConstraint> {
        if self.is_wide && !is_wide {
            return Some(ColumnConstraint::Hidden);
        }
        let fits = width.is_none_or(|width| longest <= usize::from(width / 2));
        (self.kind == Kind::Id && fits).then_some(ColumnConstraint::ContentWidth)
    }
}

/// A table. Shown as text, it is as in a pipe.
#[derive(Debug)]
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

/// Returns a table with these columns and no rows.
pub(crate) fn table<C: Into<Column> + Copy>(columns: &[C]) -> Table {
    Table { columns: columns.iter().map(|column| (*column).into()).collect(), rows: Vec::new() }
}

/// A column, and what its cell says of an item.
type CellOf<'a, T> = (Column, &'a dyn Fn(&T) -> String);

/// Returns a table with these columns and a row for each item.
pub(crate) fn table_of<T>(items: &[T], columns: &[CellOf<'_, T>]) -> Table {
    let headings: Vec<Column> = columns.iter().map(|(column, _)| *column).collect();
    let mut table = table(&headings);
    for item in items {
        table.add_row(columns.iter().map(|(_, cell)| cell(item)));
    }
    table
}

impl Table {
    /// Adds a row, with a cell for every column. A cell may have several lines.
    pub(crate) fn add_row<C: Into<String>>(&mut self, cells: impl IntoIterator<Item = C>) {
        self.rows.push(cells.into_iter().map(|cell| harmless_lines(&cell.into())).collect());
    }

    pub(super) fn render(&self, look: Look, is_wide: bool) -> String {
        let width = look.width.filter(|_| !is_wide);
        let mut table = comfy_table::Table::new();
        table.load_style(presets::NOTHING).force_no_tty().style_text_only();
        if look.has_color {
            table.enforce_styling();
        }
        if let Some(width) = width {
            // The gap after the last column is not printed.
            table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width.saturating_add(GAP));
        }
        let headings = self.columns.iter().map(|column| Cell::new(column.heading));
        table.set_header(headings.map(|heading| heading.add_attribute(Attribute::Bold)));
        for cells in &self.rows {
            table.add_row(self.row(cells, look, width.is_some()));
        }
        for (nth, (column, shown)) in self.columns.iter().zip(table.column_iter_mut()).enumerate() {
            shown.set_padding((0, GAP));
            let longest = self.rows.iter().map(|cells| cells[nth].chars().count()).max().unwrap_or(0);
            if let Some(constraint) = column.constraint(is_wide, longest, width) {
                shown.set_constraint(constraint);
            }
        }
        table.trim_fmt()
    }

    fn row(&self, cells: &[String], look: Look, is_cut: bool) -> Row {
        let shown = self.columns.iter().zip(cells).map(|(column, cell)| {
            let text = match cell.as_str() {
                // Programs that split lines at spaces need something in every column.
                "" => "-".to_owned(),
                _ if look.width.is_some() => cell.clone(),
                _ => cell.replace('\n', "; "),
            };
            let meaning = Meaning::of(&text).filter(|_| column.kind == Kind::State);
            match meaning {
                Some(meaning) => Cell::new(text).fg(meaning.color()),
                None => Cell::new(text),
            }
        });
        let mut row = Row::from(shown);
        if is_cut && self.columns.iter().all(|column| column.kind != Kind::Prose) {
            row.max_height(cells.iter().map(|cell| cell.lines().count()).max().unwrap_or(1));
        }
        row
    }
}

impl fmt::Display for Table {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.render(Look::PLAIN, false))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letters() -> Table {
        let columns = [
            Column::id("letter"),
            Column::wide("job"),
            Column::from("type"),
            Column::state("state"),
            Column::from("error"),
        ];
        let mut table = table(&columns);
        let error = "the mail server refused the sender's address because its domain has no record";
        table.add_row(["1700000000000-0", "order-7", "mail.send", "dead", error]);
        table.add_row(["1700000000001-12", "order-8", "report.generate", "waiting", ""]);
        table
    }

    const TERMINAL: Look = Look { width: Some(60), has_color: false };

    #[test]
    fn in_a_pipe_nothing_is_cut_and_each_row_is_a_line() {
        let mut table = letters();
        table.add_row(["1700000000002-0", "order-9", "a", "dead", "one\ntwo\u{1b}[2J"]);
        let want = "\
letter            type             state    error
1700000000000-0   mail.send        dead     the mail server refused the sender's address because its domain has no record
1700000000001-12  report.generate  waiting  -
1700000000002-0   a                dead     one; two\\u{1b}[2J";
        assert_eq!(table.to_string(), want);
    }

    #[test]
    fn on_a_terminal_long_cells_are_cut_to_its_width() {
        let shown = letters().render(TERMINAL, false);
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines.len(), 3, "{shown}");
        assert!(lines.iter().all(|line| line.chars().count() <= 60), "{shown}");
        assert!(lines[1].starts_with("1700000000000-0 ") && lines[1].ends_with('…'), "{shown}");
        assert!(!shown.contains("order-7"), "{shown}");
    }

    #[test]
    fn very_long_identifiers_are_cut_to_the_width_of_a_terminal() {
        let mut table = letters();
        table.add_row(["x".repeat(128).as_str(), "", "a", "dead", ""]);
        let shown = table.render(TERMINAL, false);
        assert!(shown.lines().all(|line| line.chars().count() <= 60), "{shown}");
        assert!(table.to_string().contains(&"x".repeat(128)));
    }

    #[test]
    fn a_wide_table_has_all_columns_and_is_not_cut() {
        let shown = letters().render(TERMINAL, true);
        assert!(shown.contains("order-7") && shown.contains("has no record"), "{shown}");
        assert_eq!(shown.lines().count(), 3, "{shown}");
    }

    #[test]
    fn sentences_continue_on_the_next_line() {
        let mut table = table(&[Column::from("check"), Column::prose("found")]);
        table.add_row([
            "memory",
            "no limit: the kernel may kill Redis when memory is short, and all jobs\n→ set it",
        ]);
        let shown = table.render(TERMINAL, false);
        assert!(shown.contains("all jobs") && shown.lines().count() == 4, "{shown}");
        assert_eq!(table.to_string().lines().count(), 2);
    }

    #[test]
    fn only_states_have_a_color_and_only_if_the_terminal_has() {
        let colored = letters().render(Look { has_color: true, ..TERMINAL }, false);
        assert!(colored.contains("\u{1b}["), "{colored}");
        assert!(!colored.contains("\u{1b}[38;5;1mmail"), "{colored}");
        assert!(!letters().render(TERMINAL, false).contains('\u{1b}'));
    }
}
