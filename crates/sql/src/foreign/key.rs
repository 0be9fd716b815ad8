//! The value of a key: where a page of a table ends, and the next one begins.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::database::{Dialect, Row, Statement};

/// The most bytes of a key that is a text.
const MAX_BYTES: usize = 1024;

/// The value of a column that is unique and ordered.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Key {
    /// An integer of at most 64 bits.
    Int(i64),
    /// A text, in the order of its column.
    Text(String),
    /// A `UUID` of PostgreSQL.
    Uuid(String),
}

impl fmt::Display for Key {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(key) => write!(out, "{key}"),
            Self::Text(key) | Self::Uuid(key) => out.write_str(key),
        }
    }
}

impl Key {
    /// Reads the key of a row whose first column is the key as it is, and whose second one is its bytes.
    pub(super) fn of(row: &Row, table: &str) -> Result<Self, Error> {
        let wrong = |why: String| Error::Input(format!("the key of the table {table} {why}"));
        let bytes = row
            .bytes(1)?
            .ok_or_else(|| wrong("has NULL: name a column that has a value in each row".into()))?;
        let kind = row.kind(0)?;
        let text = String::from_utf8(bytes).map_err(|_| wrong("has a value that is not UTF-8".into()))?;
        match kind.trim_end_matches(" UNSIGNED") {
            "BIGINT" | "INT" | "INTEGER" | "MEDIUMINT" | "SMALLINT" | "TINYINT" | "INT8" | "INT4"
            | "INT2" => text
                .parse()
                .map(Self::Int)
                .map_err(|_| wrong(format!("has {text}, which needs more than 63 bits"))),
            "UUID" => Ok(Self::Uuid(text)),
            "TEXT" | "VARCHAR" | "CHAR" | "TINYTEXT" | "MEDIUMTEXT" | "VARBINARY" | "BINARY"
                if text.len() <= MAX_BYTES =>
            {
                Ok(Self::Text(text))
            }
            _ => Err(wrong(format!("has the type {kind}: name a column of integers, short texts or UUIDs"))),
        }
    }

    /// Adds this key to a statement, as a parameter.
    pub(super) fn bind(&self, statement: &mut Statement, dialect: Dialect) {
        match self {
            Self::Int(key) => statement.int(*key),
            Self::Text(key) => statement.text(key.as_str()),
            Self::Uuid(key) if dialect == Dialect::Postgres => {
                statement.add("CAST(").text(key.as_str()).add(" AS UUID)")
            }
            Self::Uuid(key) => statement.text(key.as_str()),
        };
    }
}
