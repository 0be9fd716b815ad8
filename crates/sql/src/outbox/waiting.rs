//! How much waits in the outbox, and for how long.

use crate::Error;
use crate::database::{Database, Dialect, Session, Statement};

/// The largest number of rows that is counted.
const COUNTED: u64 = 10_000;

/// What waits in the outbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Waiting {
    /// How many rows wait to be submitted, counted up to 10,000.
    pub rows: u64,
    /// How many milliseconds ago the row with the smallest number was written, by the clock of the database; absent if none
    /// waits.
    pub oldest_ms: Option<u64>,
    /// How many rows are refused, counted up to 10,000.
    pub refused: u64,
}

/// Looks what waits in the outbox, in a bounded time.
///
/// # Errors
///
/// What the database answered.
pub async fn waiting(database: &Database) -> Result<Waiting, Error> {
    let mut session = database.session("look into the outbox").await?;
    let is_mysql = database.dialect() == Dialect::MySql;
    let (waiting, refused) = if is_mysql {
        ("waiting = 1", "waiting IS NULL")
    } else {
        ("refused IS NULL", "refused IS NOT NULL")
    };
    let rows = count(&mut session, waiting).await?;
    let refused = count(&mut session, refused).await?;
    let age = match database.dialect() {
        Dialect::MySql => "TIMESTAMPDIFF(SECOND, created_at, CURRENT_TIMESTAMP) * 1000",
        Dialect::Postgres => "CAST(EXTRACT(EPOCH FROM (clock_timestamp() - created_at)) * 1000 AS BIGINT)",
        Dialect::Sqlite => "CAST((julianday('now') - julianday(created_at)) * 86400000 AS INTEGER)",
    };
    let text = format!(
        "SELECT {age} FROM streamfleet_outbox{} WHERE {waiting} ORDER BY seq LIMIT 1",
        hint(is_mysql)
    );
    let oldest = session.rows(&Statement::new(database.dialect(), &text)).await?;
    let oldest_ms = oldest.first().map(|row| row.number(0)).transpose()?;
    Ok(Waiting { rows, oldest_ms, refused })
}

async fn count(session: &mut Session, condition: &str) -> Result<u64, Error> {
    let hint = hint(session.dialect() == Dialect::MySql);
    let text = format!(
        "SELECT COUNT(*) FROM (SELECT seq FROM streamfleet_outbox{hint} WHERE {condition} LIMIT {COUNTED}) AS few"
    );
    let rows = session.rows(&Statement::new(session.dialect(), &text)).await?;
    rows.first().map_or(Ok(0), |row| row.number(0))
}

fn hint(is_mysql: bool) -> &'static str {
    if is_mysql { " FORCE INDEX (streamfleet_outbox_waiting)" } else { "" }
}
