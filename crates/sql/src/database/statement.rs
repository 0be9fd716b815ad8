//! A statement: its text, which consists of constants of this crate and names that it has made, and its values, which are
//! always parameters.

use std::fmt::Write as _;

use super::Dialect;
use crate::history::Day;

/// Text and values, in the dialect of one database.
#[derive(Debug, Clone)]
pub(crate) struct Statement {
    dialect: Dialect,
    pub(super) text: String,
    pub(super) values: Vec<Value>,
    pub(super) is_kept: bool,
}

#[derive(Debug, Clone)]
pub(super) enum Value {
    Int(Option<i64>),
    Text(Option<String>),
    Bytes(Vec<u8>),
}

impl Statement {
    /// Begins a statement that is sent often, so that connections keep it prepared.
    pub(crate) fn new(dialect: Dialect, text: &str) -> Self {
        Self { dialect, text: text.to_owned(), values: Vec::new(), is_kept: true }
    }

    /// Begins a statement whose text differs from call to call.
    pub(crate) fn varying(dialect: Dialect, text: &str) -> Self {
        Self { is_kept: false, ..Self::new(dialect, text) }
    }

    pub(crate) fn add(&mut self, text: &str) -> &mut Self {
        self.text.push_str(text);
        self
    }

    pub(crate) fn int(&mut self, value: impl Into<Option<i64>>) -> &mut Self {
        self.value(Value::Int(value.into()))
    }

    /// Adds a number of the domain. None of them is beyond the range of the database in practice, and a larger one is stored
    /// as the largest.
    pub(crate) fn number(&mut self, value: impl Into<Option<u64>>) -> &mut Self {
        self.int(value.into().map(|value| i64::try_from(value).unwrap_or(i64::MAX)))
    }

    pub(crate) fn text<'a>(&mut self, value: impl Into<Option<&'a str>>) -> &mut Self {
        self.value(Value::Text(value.into().map(str::to_owned)))
    }

    pub(crate) fn bytes(&mut self, value: &[u8]) -> &mut Self {
        self.value(Value::Bytes(value.to_owned()))
    }

    /// Adds a day, as a date or, in SQLite, as text.
    pub(crate) fn day(&mut self, day: Day) -> &mut Self {
        if self.dialect == Dialect::Sqlite {
            return self.text(day.to_string().as_str());
        }
        self.add("CAST(").text(day.to_string().as_str()).add(" AS DATE)")
    }

    /// Adds a day as a part of the text, so that a plan is made for its partition alone.
    pub(crate) fn fixed_day(&mut self, day: Day) -> &mut Self {
        let kind = if self.dialect == Dialect::Sqlite { "" } else { "DATE " };
        self.add(&format!("{kind}'{day}'"))
    }

    /// Adds integers as digits, separated by commas: there may be more than a database takes as parameters.
    pub(crate) fn digits(&mut self, values: &[i64]) -> &mut Self {
        for (at, value) in values.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            write!(self.text, "{comma}{value}").expect("writing to a String cannot fail");
        }
        self
    }

    /// Adds what makes an INSERT of a row that exists already change nothing. It hides no other error, as `INSERT IGNORE`
    /// would. `column` is one of the primary key.
    pub(crate) fn unless_there(&mut self, column: &str) -> &mut Self {
        match self.dialect {
            Dialect::MySql => self.add(" ON DUPLICATE KEY UPDATE ").add(column).add(" = ").add(column),
            Dialect::Postgres | Dialect::Sqlite => self.add(" ON CONFLICT DO NOTHING"),
        }
    }

    /// Returns the statement that asks for the plan of this one.
    pub(crate) fn explained(&self) -> Self {
        let before = match self.dialect {
            Dialect::MySql => "EXPLAIN FORMAT=JSON ",
            Dialect::Postgres => "EXPLAIN ",
            Dialect::Sqlite => "EXPLAIN QUERY PLAN ",
        };
        Self { text: format!("{before}{}", self.text), is_kept: false, ..self.clone() }
    }

    fn value(&mut self, value: Value) -> &mut Self {
        self.values.push(value);
        match self.dialect {
            Dialect::Postgres => {
                let number = self.values.len();
                write!(self.text, "${number}").expect("writing to a String cannot fail");
            }
            Dialect::MySql | Dialect::Sqlite => self.text.push('?'),
        }
        self
    }
}

/// Returns a text that every database can store: at most `most` bytes, and U+FFFD for NUL, which PostgreSQL refuses.
pub(crate) fn stored_text(text: &str, most: usize) -> String {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    // U+FFFD has three bytes, so the cut comes last.
    let mut safe = text[..end].replace('\0', "\u{fffd}");
    let mut end = safe.len().min(most);
    while !safe.is_char_boundary(end) {
        end -= 1;
    }
    safe.truncate(end);
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_numbered_where_the_dialect_wants_it() {
        let build = |dialect| {
            let mut statement = Statement::new(dialect, "SELECT ");
            statement.int(1).add(", ").text("a").add(", ").day(Day::of_ms(0));
            statement.text
        };
        assert_eq!(build(Dialect::Postgres), "SELECT $1, $2, CAST($3 AS DATE)");
        assert_eq!(build(Dialect::MySql), "SELECT ?, ?, CAST(? AS DATE)");
        assert_eq!(build(Dialect::Sqlite), "SELECT ?, ?, ?");
    }

    #[test]
    fn a_day_may_be_a_part_of_the_text() {
        let build = |dialect| {
            let mut statement = Statement::varying(dialect, "SELECT ");
            statement.fixed_day(Day::of_ms(0));
            statement.text
        };
        assert_eq!(build(Dialect::Postgres), "SELECT DATE '1970-01-01'");
        assert_eq!(build(Dialect::MySql), "SELECT DATE '1970-01-01'");
        assert_eq!(build(Dialect::Sqlite), "SELECT '1970-01-01'");
    }

    #[test]
    fn a_stored_text_has_no_nul_and_ends_between_characters() {
        assert_eq!(stored_text("a\0b", 100), "a\u{fffd}b");
        assert_eq!(stored_text("äöü", 3), "ä");
        assert_eq!(stored_text("\0\0\0", 4), "\u{fffd}");
        assert_eq!(stored_text("plain", 5), "plain");
    }
}
