//! How many bytes the tables and their indexes have.

use serde::Serialize;
use streamfleet_sql::Dialect;

use crate::place::Place;

/// The bytes of the rows and of all indexes but that which MySQL keeps the rows in.
#[derive(Serialize)]
pub(crate) struct Sizes {
    pub(crate) table: u64,
    pub(crate) index: u64,
    /// The size of the file, if it is one.
    pub(crate) file: Option<u64>,
}

pub(crate) async fn of(place: &Place) -> Sizes {
    let [table, index] = match place.dialect {
        Dialect::MySql => ["data_length", "index_length"].map(|column| {
            format!(
                "SELECT CAST(COALESCE(SUM({column}), 0) AS SIGNED) FROM information_schema.partitions \
                 WHERE table_schema = DATABASE() AND table_name LIKE 'sf!_%' ESCAPE '!'"
            )
        }),
        Dialect::Postgres => ["pg_table_size", "pg_indexes_size"].map(|function| {
            format!(
                "SELECT CAST(COALESCE(SUM({function}(oid)), 0) AS BIGINT) FROM pg_class \
                 WHERE relkind = 'r' AND relname LIKE 'sf!_%' ESCAPE '!'"
            )
        }),
        Dialect::Sqlite => ["'table'", "'index'"].map(|kind| {
            format!(
                "SELECT CAST(COALESCE(SUM(pgsize), 0) AS INTEGER) FROM dbstat \
                 WHERE name IN (SELECT name FROM sqlite_master WHERE type = {kind} AND tbl_name LIKE 'sf!_%' ESCAPE '!')"
            )
        }),
    };
    let mut hand = place.hand().await;
    let bytes = |number: i64| u64::try_from(number).unwrap();
    Sizes {
        table: bytes(hand.number(&table).await),
        index: bytes(hand.number(&index).await),
        file: place.url.strip_prefix("sqlite:").map(|path| std::fs::metadata(path).unwrap().len()),
    }
}
