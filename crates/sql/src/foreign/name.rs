//! Names of tables and columns that somebody else has chosen. They reach a statement only in quotes.

use crate::Error;
use crate::database::Dialect;

/// The most bytes of a name. No database allows more.
const MAX_BYTES: usize = 128;

/// Checks the name of a table, which may have the names of its database and schema before it.
pub(super) fn table(name: &str) -> Result<(), Error> {
    if name.split('.').count() > 3 {
        return Err(Error::Input(format!("the table {name:?} has more than three parts between dots")));
    }
    name.split('.').try_for_each(|part| check("table", part))
}

/// Checks the name of a column.
pub(super) fn column(name: &str) -> Result<(), Error> {
    check("column", name)
}

fn check(what: &str, name: &str) -> Result<(), Error> {
    let fits = (1..=MAX_BYTES).contains(&name.len()) && !name.chars().any(char::is_control);
    let rule = || format!("the {what} {name:?} must have 1 to {MAX_BYTES} bytes without control characters");
    fits.then_some(()).ok_or_else(|| Error::Input(rule()))
}

/// Quotes a name. SQLite gets backticks, because it reads a name in double quotes as a text if there is no such column.
pub(super) fn quoted(dialect: Dialect, name: &str) -> String {
    let quote = match dialect {
        Dialect::MySql | Dialect::Sqlite => '`',
        Dialect::Postgres => '"',
    };
    format!("{quote}{}{quote}", name.replace(quote, &format!("{quote}{quote}")))
}

/// Quotes each part of the name of a table.
pub(super) fn quoted_table(dialect: Dialect, name: &str) -> String {
    name.split('.').map(|part| quoted(dialect, part)).collect::<Vec<_>>().join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quote_in_a_name_ends_nothing() {
        assert_eq!(quoted(Dialect::MySql, "a`; DROP TABLE b"), "`a``; DROP TABLE b`");
        assert_eq!(quoted(Dialect::Postgres, "a\"b"), "\"a\"\"b\"");
        assert_eq!(quoted(Dialect::Sqlite, "a\"b"), "`a\"b`");
        assert_eq!(quoted_table(Dialect::Postgres, "shop.jobs"), "\"shop\".\"jobs\"");
    }

    #[test]
    fn names_are_bounded() {
        assert!(table("app.public.jobs").is_ok() && column("failed at").is_ok());
        for name in ["", "a.", "a.b.c.d", "a\0b", &"x".repeat(129)] {
            assert!(table(name).is_err(), "{name:?}");
        }
        assert!(column("").is_err() && column("a\n").is_err());
    }
}
