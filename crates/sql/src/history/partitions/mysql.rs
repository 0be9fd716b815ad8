//! Partitions of MySQL and MariaDB. A partition has all days before its bound that no lower one has, so the lowest also takes
//! what is older.

use super::wanted;
use crate::database::{Dialect, Session, Statement};
use crate::history::Day;
use crate::{Error, Trouble};

/// Does the work while no other process changes partitions. The lock belongs to the connection, so it is freed before that
/// goes back to the pool, also after an error.
pub(super) async fn locked<T>(
    session: &mut Session,
    work: impl AsyncFnOnce(&mut Session) -> Result<T, Error>,
) -> Result<T, Error> {
    lock(session).await?;
    let result = work(session).await;
    let unlocked = unlock(session).await;
    let value = result?;
    unlocked?;
    Ok(value)
}

/// Waits until no other process changes partitions, at most 10 s. If the connection ends, so does the lock.
async fn lock(session: &mut Session) -> Result<(), Error> {
    let text = "SELECT CAST(GET_LOCK(CONCAT('streamfleet.partitions.', MD5(DATABASE())), 10) AS SIGNED)";
    let rows = session.rows(&Statement::new(Dialect::MySql, text)).await?;
    if rows.first().map(|row| row.int(0)).transpose()?.flatten() == Some(1) {
        return Ok(());
    }
    let why = "another process has changed partitions for 10 s".to_owned();
    Err(Error::Transient {
        doing: "change the partitions of the history",
        trouble: Trouble::LockTimeout,
        why,
    })
}

async fn unlock(session: &mut Session) -> Result<(), Error> {
    session.run("DO RELEASE_LOCK(CONCAT('streamfleet.partitions.', MD5(DATABASE())))").await
}

/// Splits the catch-all, which moves its rows.
pub(super) async fn prepare(session: &mut Session, table: &str, today: Day) -> Result<usize, Error> {
    let days = days(session, table).await?;
    let first = days.last().map_or_else(|| today.plus(-1), |day| day.plus(1));
    let wanted = wanted(first, today);
    if wanted.is_empty() {
        return Ok(0);
    }
    let parts = wanted.iter().map(|day| {
        let (name, bound) = (day.partition(), day.plus(1));
        format!("PARTITION {name} VALUES LESS THAN (TO_DAYS('{bound}'))")
    });
    let parts = parts.collect::<Vec<_>>().join(", ");
    let text = format!(
        "ALTER TABLE {table} REORGANIZE PARTITION rest INTO ({parts}, PARTITION rest VALUES LESS THAN MAXVALUE)"
    );
    session.run(&text).await?;
    Ok(wanted.len())
}

pub(super) async fn retain(session: &mut Session, table: &str, first: Day) -> Result<usize, Error> {
    let days = days(session, table).await?;
    let old: Vec<String> = days.iter().filter(|day| **day < first).map(|day| day.partition()).collect();
    if !old.is_empty() {
        session.run(&format!("ALTER TABLE {table} DROP PARTITION {}", old.join(", "))).await?;
    }
    Ok(old.len())
}

/// Returns the days that have a partition, in order.
async fn days(session: &mut Session, table: &str) -> Result<Vec<Day>, Error> {
    let text = "SELECT CAST(partition_name AS CHAR) FROM information_schema.partitions \
                WHERE table_schema = DATABASE() AND partition_name IS NOT NULL AND table_name = ";
    let mut statement = Statement::new(Dialect::MySql, text);
    statement.text(table);
    let rows = session.rows(&statement).await?;
    if rows.is_empty() {
        let why = format!("table {table} does not exist or has no partitions");
        return Err(Error::Schema { doing: "read the partitions of the history", why });
    }
    let mut days = Vec::with_capacity(rows.len());
    for row in rows {
        days.extend(row.text(0)?.as_deref().and_then(Day::of_partition));
    }
    days.sort_unstable();
    Ok(days)
}
