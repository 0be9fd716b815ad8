//! Partitions of PostgreSQL. Each is a table of its own, `sf_jobs_d20261130`, and each is made or dropped in a transaction of
//! its own, so that nobody waits for long.
//!
//! A table that has a default partition cannot detach another one concurrently. So a drop locks the table for a moment, but
//! gives up if it must wait for more than 5 s, because all who come after it would wait too.

use super::wanted;
use crate::Error;
use crate::database::{Dialect, Session, Statement};
use crate::history::Day;

/// The key of the advisory lock: the letters `sfpartit`.
const KEY: i64 = 0x7366_7061_7274_6974;

/// The most days for which one call makes partitions because the catch-all has rows of them.
const DAYS: i64 = 400;

pub(super) async fn prepare(session: &mut Session, table: &str, today: Day) -> Result<usize, Error> {
    let there = days(session, table).await?;
    let mut missing = wanted(today.plus(-1), today);
    missing.extend(unplaced(session, table, today).await?);
    missing.sort_unstable();
    missing.dedup();
    missing.retain(|day| !there.contains(day));
    let mut made = 0;
    for day in missing {
        begin(session).await?;
        let result = make(session, table, day).await;
        made += usize::from(finish(session, result).await?);
    }
    Ok(made)
}

pub(super) async fn retain(session: &mut Session, table: &str, first: Day) -> Result<usize, Error> {
    let old: Vec<Day> = days(session, table).await?.into_iter().filter(|day| *day < first).collect();
    for day in &old {
        begin(session).await?;
        let result = session.run(&format!("DROP TABLE IF EXISTS {table}_{}", day.partition())).await;
        finish(session, result).await?;
    }
    Ok(old.len())
}

/// Makes the partition of a day, unless somebody else just has.
async fn make(session: &mut Session, table: &str, day: Day) -> Result<bool, Error> {
    let name = format!("{table}_{}", day.partition());
    let mut ask = Statement::new(Dialect::Postgres, "SELECT CAST(to_regclass(");
    ask.text(name.as_str()).add(") AS TEXT)");
    let found = session.rows(&ask).await?;
    if found.first().map(|row| row.text(0)).transpose()?.flatten().is_some() {
        return Ok(false);
    }
    let bound = day.plus(1);
    // The lock on the catch-all comes first: no row of this day may come there between the move and the end. The table itself
    // stays usable.
    let text = format!(
        "LOCK TABLE {table}_rest IN ACCESS EXCLUSIVE MODE; \
         CREATE TABLE {name} (LIKE {table} INCLUDING ALL); \
         WITH moved AS (DELETE FROM {table}_rest WHERE day = DATE '{day}' RETURNING *) INSERT INTO {name} SELECT * FROM moved; \
         ALTER TABLE {table} ATTACH PARTITION {name} FOR VALUES FROM ('{day}') TO ('{bound}')"
    );
    session.run(&text).await?;
    Ok(true)
}

async fn begin(session: &mut Session) -> Result<(), Error> {
    session.begin().await?;
    let text = format!("SET LOCAL lock_timeout = '5s'; SELECT pg_advisory_xact_lock({KEY})");
    let locked = session.run(&text).await;
    finish_failed(session, locked).await
}

async fn finish<T>(session: &mut Session, result: Result<T, Error>) -> Result<T, Error> {
    let value = finish_failed(session, result).await?;
    session.commit().await?;
    Ok(value)
}

async fn finish_failed<T>(session: &mut Session, result: Result<T, Error>) -> Result<T, Error> {
    if result.is_err() {
        session.roll_back().await;
    }
    result
}

/// Returns the days that have a partition, in order.
async fn days(session: &mut Session, table: &str) -> Result<Vec<Day>, Error> {
    let text = "SELECT CAST(c.relname AS TEXT) FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid \
                WHERE i.inhparent = to_regclass(";
    let mut statement = Statement::new(Dialect::Postgres, text);
    statement.text(table).add(")");
    let rows = session.rows(&statement).await?;
    if rows.is_empty() {
        let why = format!("table {table} does not exist or has no partitions");
        return Err(Error::Schema { doing: "read the partitions of the history", why });
    }
    let mut days = Vec::with_capacity(rows.len());
    for row in rows {
        let name = row.text(0)?.unwrap_or_default();
        let end = name.strip_prefix(table).and_then(|rest| rest.strip_prefix('_'));
        days.extend(end.and_then(Day::of_partition));
    }
    days.sort_unstable();
    Ok(days)
}

/// Returns the days up to a week ahead of which the catch-all has rows.
async fn unplaced(session: &mut Session, table: &str, today: Day) -> Result<Vec<Day>, Error> {
    let text = format!("SELECT DISTINCT to_char(day, 'YYYY-MM-DD') FROM {table}_rest WHERE day <= ");
    let mut statement = Statement::new(Dialect::Postgres, &text);
    statement.day(today.plus(super::AHEAD)).add(" LIMIT ").digits(&[DAYS]);
    let rows = session.rows(&statement).await?;
    let mut days = Vec::with_capacity(rows.len());
    for row in rows {
        days.push(row.parsed(0, "day")?);
    }
    Ok(days)
}
