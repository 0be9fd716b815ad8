//! Rows that have no partition of their own: those of the catch-all in PostgreSQL, and all in SQLite.

use std::time::{Duration, Instant};

use super::Removed;
use crate::Error;
use crate::database::{Dialect, Session, Statement};
use crate::history::Day;

/// How many rows one statement deletes.
const ROWS: u64 = 5000;

/// After this time, no further statement begins. The caller has other work.
const TIME: Duration = Duration::from_secs(1);

/// The largest number of jobs of the catch-all that is counted.
pub const MOST_COUNTED: u64 = 10_000;

/// Deletes the rows of all days before `first`, as far as there is time since `began`. Each statement is a transaction of its own, so
/// that nobody waits for long.
pub(super) async fn delete(
    session: &mut Session,
    table: &str,
    first: Day,
    began: Instant,
    removed: &mut Removed,
) -> Result<(), Error> {
    while began.elapsed() < TIME {
        let done = session.execute(&deletion(session.dialect(), table, first)).await?;
        removed.rows += done.rows;
        if done.rows < ROWS {
            return Ok(());
        }
    }
    removed.is_more = true;
    Ok(())
}

fn deletion(dialect: Dialect, table: &str, first: Day) -> Statement {
    let (place, row) = match dialect {
        Dialect::Postgres => (format!("{table}_rest"), "ctid"),
        Dialect::Sqlite | Dialect::MySql => (table.to_owned(), "rowid"),
    };
    let text = format!("DELETE FROM {place} WHERE {row} IN (SELECT {row} FROM {place} WHERE day < ");
    let mut statement = Statement::new(dialect, &text);
    statement.day(first).add(&format!(" LIMIT {ROWS})"));
    statement
}

pub(super) async fn count(session: &mut Session) -> Result<u64, Error> {
    let place = match session.dialect() {
        Dialect::MySql => "sf_jobs PARTITION (rest)",
        Dialect::Postgres => "sf_jobs_rest",
        Dialect::Sqlite => return Ok(0),
    };
    let text = format!("SELECT COUNT(*) FROM (SELECT 1 AS one FROM {place} LIMIT {MOST_COUNTED}) AS few");
    let rows = session.rows(&Statement::new(session.dialect(), &text)).await?;
    rows.first().map_or(Ok(0), |row| row.number(0))
}
