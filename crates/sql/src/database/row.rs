//! A row of an answer, whose columns are read by their position. Integers are 64 bits wide in every dialect, because the
//! tables have no others.

use sqlx::mysql::MySqlRow;
use sqlx::postgres::PgRow;
use sqlx::sqlite::SqliteRow;
use sqlx::{Row as _, TypeInfo as _, ValueRef as _};

use crate::Error;

pub(crate) enum Row {
    MySql(MySqlRow),
    Postgres(PgRow),
    Sqlite(SqliteRow),
}

/// Reads a column as this type, which the dialect must have.
macro_rules! column {
    ($row:expr, $at:expr, $kind:ty) => {
        match $row {
            Row::MySql(row) => row.try_get::<$kind, _>($at),
            Row::Postgres(row) => row.try_get::<$kind, _>($at),
            Row::Sqlite(row) => row.try_get::<$kind, _>($at),
        }
        .map_err(|error| Error::of("read an answer of the database", &error))
    };
}

impl Row {
    pub(crate) fn int(&self, at: usize) -> Result<Option<i64>, Error> {
        column!(self, at, Option<i64>)
    }

    pub(crate) fn text(&self, at: usize) -> Result<Option<String>, Error> {
        column!(self, at, Option<String>)
    }

    pub(crate) fn bytes(&self, at: usize) -> Result<Option<Vec<u8>>, Error> {
        column!(self, at, Option<Vec<u8>>)
    }

    /// Returns the name of a value's type, as the dialect has it: `BIGINT`, `INT8` and `INTEGER` are some.
    pub(crate) fn kind(&self, at: usize) -> Result<String, Error> {
        let failed = |error: sqlx::Error| Error::of("read an answer of the database", &error);
        Ok(match self {
            Self::MySql(row) => row.try_get_raw(at).map_err(failed)?.type_info().name().to_owned(),
            Self::Postgres(row) => row.try_get_raw(at).map_err(failed)?.type_info().name().to_owned(),
            Self::Sqlite(row) => row.try_get_raw(at).map_err(failed)?.type_info().name().to_owned(),
        })
    }

    /// Returns a number that is neither absent nor negative, or else 0.
    pub(crate) fn number(&self, at: usize) -> Result<u64, Error> {
        Ok(self.int(at)?.and_then(|value| u64::try_from(value).ok()).unwrap_or_default())
    }

    /// Parses a text that this crate has written, so that only somebody else's change can make it wrong.
    pub(crate) fn parsed<T: std::str::FromStr>(&self, at: usize, what: &str) -> Result<T, Error> {
        let text = self.text(at)?.unwrap_or_default();
        let why = || format!("column {what} has a value that streamfleet has not written: {text:?}");
        text.parse().map_err(|_| Error::Broken { doing: "read a row", why: why() })
    }
}
