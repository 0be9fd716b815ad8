//! Deletes the notes of effects that nobody will ask for again.

use std::time::Duration;

use crate::Error;
use crate::database::{Database, Dialect, Session, Statement};

/// The most rows of one call.
const ROWS: u32 = 10_000;

/// The most rows of one DELETE in MySQL.
const KEYS: usize = 500;

/// A hundred years. Longer times are beyond what databases subtract.
const LONGEST_SECONDS: i64 = 100 * 366 * 86_400;

/// Deletes effects that were noted longer ago than this, by the clock of the database: at most `limit`, which is 1 to 10,000.
/// Returns how many were deleted. An attempt or a replay that comes later does its work again, so keep effects longer than
/// dead letters.
///
/// # Errors
///
/// [`Error::Input`] if the limit is beyond its bounds, otherwise what the database answered. The call may be repeated.
pub async fn prune(database: &Database, older_than: Duration, limit: u32) -> Result<u64, Error> {
    if !(1..=ROWS).contains(&limit) {
        return Err(Error::Input(format!("the limit of a prune is {limit}, but must be 1 to {ROWS}")));
    }
    let mut session = database.session("delete old effects").await?;
    let seconds = i64::try_from(older_than.as_secs()).unwrap_or(i64::MAX).min(LONGEST_SECONDS);
    if database.dialect() == Dialect::MySql {
        return prune_mysql(&mut session, seconds, limit).await;
    }
    Ok(session.execute(&deletion(database.dialect(), seconds, limit)).await?.rows)
}

fn deletion(dialect: Dialect, seconds: i64, limit: u32) -> Statement {
    let mut statement = Statement::new(dialect, "DELETE FROM streamfleet_effects WHERE ");
    if dialect == Dialect::Postgres {
        statement.add("(queue, job_id, step) IN (SELECT queue, job_id, step FROM streamfleet_effects ");
        statement.add("WHERE created_at < CURRENT_TIMESTAMP - ").int(seconds).add(" * INTERVAL '1 second' ");
    } else {
        statement.add("rowid IN (SELECT rowid FROM streamfleet_effects ");
        statement.add("WHERE created_at < datetime('now', '-' || ").int(seconds).add(" || ' seconds') ");
    }
    statement.add("ORDER BY created_at LIMIT ").digits(&[limit.into()]).add(")");
    statement
}

/// Reads the primary keys first, which locks nothing, and deletes by them. A DELETE by time would lock the row after the last
/// one, and wait for notes that handlers have not committed.
async fn prune_mysql(session: &mut Session, seconds: i64, limit: u32) -> Result<u64, Error> {
    let text = "SELECT queue, job_id, step FROM streamfleet_effects FORCE INDEX (streamfleet_effects_created) \
                WHERE created_at < CURRENT_TIMESTAMP - INTERVAL ";
    let mut ask = Statement::new(Dialect::MySql, text);
    ask.int(seconds).add(" SECOND ORDER BY created_at LIMIT ").digits(&[limit.into()]);
    let found = session.rows(&ask).await?;
    let mut deleted = 0;
    for keys in found.chunks(KEYS) {
        let mut statement = Statement::varying(Dialect::MySql, "DELETE e FROM (");
        for (at, key) in keys.iter().enumerate() {
            statement.add(if at == 0 { "SELECT " } else { " UNION ALL SELECT " });
            for (column, name) in ["queue", "job_id", "step"].into_iter().enumerate() {
                statement.add(if column == 0 { "" } else { ", " }).text(key.text(column)?.as_deref());
                statement.add(" AS ").add(name);
            }
        }
        statement
            .add(") AS k STRAIGHT_JOIN streamfleet_effects AS e ON e.queue = k.queue COLLATE utf8mb4_bin ");
        statement.add("AND e.job_id = k.job_id COLLATE utf8mb4_bin AND e.step = k.step COLLATE utf8mb4_bin ");
        // Somebody may have deleted a note, and an attempt has noted the effect again.
        statement.add("WHERE e.created_at < CURRENT_TIMESTAMP - INTERVAL ").int(seconds).add(" SECOND");
        deleted += session.execute(&statement).await?.rows;
    }
    Ok(deleted)
}
