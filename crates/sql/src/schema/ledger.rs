//! The table `streamfleet_migrations`, which says what was applied, and the lock that lets one process migrate at a time.
//!
//! In PostgreSQL and SQLite the whole migration is one transaction. MySQL commits at each `CREATE TABLE`, so its files can be
//! applied again.

use super::{Migration, locked};
use crate::Error;
use crate::database::{Dialect, Session, Statement};

/// A migration that a database has.
pub(super) struct Applied {
    pub version: u32,
    pub checksum: String,
}

/// The key of the advisory lock in PostgreSQL: the letters `sfmigrat`.
const KEY: i64 = 0x7366_6d69_6772_6174;

pub(super) fn table(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::MySql => {
            "CREATE TABLE IF NOT EXISTS streamfleet_migrations (version BIGINT NOT NULL PRIMARY KEY, \
             applied_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, checksum VARCHAR(64) NOT NULL) \
             ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4"
        }
        Dialect::Postgres => {
            "CREATE TABLE IF NOT EXISTS streamfleet_migrations (version BIGINT NOT NULL PRIMARY KEY, \
             applied_at TIMESTAMP WITH TIME ZONE NOT NULL DEFAULT CURRENT_TIMESTAMP, checksum VARCHAR(64) NOT NULL)"
        }
        Dialect::Sqlite => {
            "CREATE TABLE IF NOT EXISTS streamfleet_migrations (version INTEGER NOT NULL PRIMARY KEY, \
             applied_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP, checksum TEXT NOT NULL)"
        }
    }
}

/// Waits until no other process migrates.
pub(super) async fn lock(session: &mut Session) -> Result<(), Error> {
    match session.dialect() {
        Dialect::MySql => {
            let ask = Statement::new(
                Dialect::MySql,
                "SELECT CAST(GET_LOCK(CONCAT('streamfleet.migrate.', MD5(DATABASE())), 10) AS SIGNED)",
            );
            let rows = session.rows(&ask).await?;
            let got = rows.first().map(|row| row.int(0)).transpose()?.flatten();
            if got == Some(1) { Ok(()) } else { Err(locked("migrate the database")) }
        }
        Dialect::Postgres => {
            session.begin().await?;
            session.run(&format!("SET LOCAL lock_timeout = '10s'; SELECT pg_advisory_xact_lock({KEY})")).await
        }
        Dialect::Sqlite => session.begin().await,
    }
}

/// Commits if the migration has succeeded, and lets the next process in.
pub(super) async fn unlock(session: &mut Session, is_done: bool) -> Result<(), Error> {
    match session.dialect() {
        Dialect::MySql => {
            session.run("DO RELEASE_LOCK(CONCAT('streamfleet.migrate.', MD5(DATABASE())))").await
        }
        Dialect::Postgres | Dialect::Sqlite if is_done => session.commit().await,
        Dialect::Postgres | Dialect::Sqlite => {
            session.roll_back().await;
            Ok(())
        }
    }
}

pub(super) async fn create(session: &mut Session) -> Result<(), Error> {
    let dialect = session.dialect();
    session.run(table(dialect)).await
}

pub(super) async fn read(session: &mut Session) -> Result<Vec<Applied>, Error> {
    let text = "SELECT version, checksum FROM streamfleet_migrations ORDER BY version";
    let rows = session.rows(&Statement::new(session.dialect(), text)).await?;
    let mut applied = Vec::with_capacity(rows.len());
    for row in rows {
        let version = u32::try_from(row.number(0)?).unwrap_or(u32::MAX);
        applied.push(Applied { version, checksum: row.text(1)?.unwrap_or_default() });
    }
    Ok(applied)
}

pub(super) async fn record(session: &mut Session, migration: &Migration) -> Result<(), Error> {
    session.run(&record_text(migration)).await
}

/// Returns the statement that records a migration. It has no values from outside.
pub(super) fn record_text(migration: &Migration) -> String {
    let (version, checksum) = (migration.version, migration.checksum());
    format!("INSERT INTO streamfleet_migrations (version, checksum) VALUES ({version}, '{checksum}')")
}
