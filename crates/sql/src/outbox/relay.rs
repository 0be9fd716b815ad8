//! What a relay does: takes the oldest rows, deletes those that Redis has, and refuses those that can never be jobs.

use super::portion::{Sized, fitting};
use super::row::{COLUMNS, Row};
use crate::Error;
use crate::database::{Database, Dialect, Session, Statement, stored_text};

/// The most rows of one call, and of one DELETE.
const ROWS: usize = 1000;

/// The most bytes of the reason why a row is refused.
const WHY_BYTES: usize = 1000;

/// What a row has besides its large columns, roughly.
const FIXED_BYTES: u64 = 512;

/// The most queues whose rows one call leaves out.
pub const MAX_WITHOUT: usize = 64;

/// Returns the oldest rows that are not refused, and are not of these queues, which are at most [`MAX_WITHOUT`]: at most
/// `limit`, which is 1 to 1,000, and at most `max_bytes` together, but always one if there is one. It locks nothing and
/// remembers nothing, so the next call returns the rows again until they are deleted.
///
/// # Errors
///
/// [`Error::Input`] if the limit or the number of queues is beyond its bounds, otherwise what the database answered.
pub async fn take(
    database: &Database,
    without: &[&str],
    limit: usize,
    max_bytes: u64,
) -> Result<Vec<Row>, Error> {
    if !(1..=ROWS).contains(&limit) {
        return Err(Error::Input(format!("the limit of the outbox is {limit}, but must be 1 to {ROWS}")));
    }
    if without.len() > MAX_WITHOUT {
        let count = without.len();
        return Err(Error::Input(format!("{count} queues are left out, but at most {MAX_WITHOUT} may be")));
    }
    let mut session = database.session("read the outbox").await?;
    let sizes = sizes(&mut session, without, limit).await?;
    let seqs = fitting(&sizes, max_bytes);
    if seqs.is_empty() {
        return Ok(Vec::new());
    }
    // A row that was refused or deleted meanwhile is left out.
    let text = format!("SELECT {COLUMNS} FROM streamfleet_outbox WHERE refused IS NULL AND seq IN (");
    let mut statement = Statement::varying(database.dialect(), &text);
    statement.digits(&seqs).add(") ORDER BY seq");
    session.rows(&statement).await?.iter().map(Row::read).collect()
}

/// Returns the sizes of the oldest rows, in order. Their large columns are not read.
async fn sizes(session: &mut Session, without: &[&str], limit: usize) -> Result<Vec<Sized>, Error> {
    let mut sizes = Vec::new();
    for row in session.rows(&sizing(session.dialect(), without, limit)).await? {
        sizes.push(Sized {
            seq: row.int(0)?.unwrap_or_default(),
            bytes: row.number(1)?.saturating_add(FIXED_BYTES),
        });
    }
    Ok(sizes)
}

/// Returns the statement that reads numbers and sizes. In MySQL, the rows that are left out are passed over in the index, which
/// has their queues. There may be very many of them.
fn sizing(dialect: Dialect, without: &[&str], limit: usize) -> Statement {
    let (size, number) = match dialect {
        Dialect::MySql => ("LENGTH", "SIGNED"),
        Dialect::Postgres => ("octet_length", "BIGINT"),
        Dialect::Sqlite => ("length", "BIGINT"),
    };
    let text = format!(
        "SELECT o.seq, CAST({size}(o.payload) + COALESCE({size}(o.headers), 0) + COALESCE({size}(o.options), 0) AS {number}) FROM "
    );
    let mut statement = Statement::varying(dialect, &text);
    let is_mysql = dialect == Dialect::MySql;
    statement.add(if is_mysql {
        "(SELECT seq FROM streamfleet_outbox FORCE INDEX (streamfleet_outbox_waiting) WHERE waiting = 1"
    } else {
        "streamfleet_outbox AS o WHERE refused IS NULL"
    });
    for (at, queue) in without.iter().enumerate() {
        statement.add(if at == 0 { " AND queue NOT IN (" } else { ", " }).text(*queue);
    }
    statement.add(if without.is_empty() { "" } else { ")" });
    statement.add(" ORDER BY seq LIMIT ").digits(&[i64::try_from(limit).unwrap_or(i64::MAX)]);
    statement.add(if is_mysql {
        ") AS k STRAIGHT_JOIN streamfleet_outbox AS o ON o.seq = k.seq ORDER BY k.seq"
    } else {
        ""
    });
    statement
}

/// Deletes rows by their numbers, 1,000 in one statement. Rows that are gone do no harm. Returns how many were deleted.
///
/// # Errors
///
/// What the database answered. Some may have been deleted: repeat the call.
pub async fn delete(database: &Database, seqs: &[i64]) -> Result<u64, Error> {
    let mut session = database.session("delete from the outbox").await?;
    let mut sorted = seqs.to_vec();
    sorted.sort_unstable();
    let mut deleted = 0;
    for seqs in sorted.chunks(ROWS) {
        let statement = deletion(session.dialect(), seqs);
        deleted += session.execute(&statement).await?.rows;
    }
    Ok(deleted)
}

/// Returns the statement that deletes these rows. MySQL would read the whole of a small table for `seq IN (…)`, even with a
/// hint, and wait for rows that applications have not committed. So it joins the numbers, which looks up each by the primary
/// key.
fn deletion(dialect: Dialect, seqs: &[i64]) -> Statement {
    if dialect != Dialect::MySql {
        let mut statement = Statement::varying(dialect, "DELETE FROM streamfleet_outbox WHERE seq IN (");
        statement.digits(seqs).add(")");
        return statement;
    }
    let mut statement = Statement::varying(dialect, "DELETE o FROM (");
    for (at, seq) in seqs.iter().enumerate() {
        statement.add(if at == 0 { "SELECT " } else { " UNION ALL SELECT " }).digits(&[*seq]);
        statement.add(if at == 0 { " AS seq" } else { "" });
    }
    statement.add(") AS k STRAIGHT_JOIN streamfleet_outbox AS o ON o.seq = k.seq");
    statement
}

/// Keeps a row, but out of the way: [`take`] does not return it. The reason, of which 1,000 bytes are kept, says what is wrong
/// and what to do. To have a row submitted after a repair, set its `refused` to NULL. Returns false if the row is gone.
///
/// # Errors
///
/// What the database answered. The call may be repeated.
pub async fn refuse(database: &Database, seq: i64, why: &str) -> Result<bool, Error> {
    let mut session = database.session("refuse a row of the outbox").await?;
    let mut statement = Statement::new(session.dialect(), "UPDATE streamfleet_outbox SET refused = ");
    statement.text(stored_text(why, WHY_BYTES).as_str()).add(" WHERE seq = ").int(seq);
    Ok(session.execute(&statement).await?.rows > 0)
}
