//! The pool of connections, which sqlx keeps: one type for each dialect.

use std::str::FromStr as _;

use sqlx::mysql::{MySql, MySqlPoolOptions};
use sqlx::pool::{PoolConnection, PoolOptions};
use sqlx::postgres::{PgPoolOptions, Postgres};
use sqlx::sqlite::{Sqlite, SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions};
use sqlx::{ConnectOptions as _, Executor as _};

use super::address::{Address, Server};
use super::{Dialect, Options, setup};
use crate::Error;

/// How many statements a connection to PostgreSQL keeps prepared. A plan for all partitions takes up to 500 KiB of the server.
const KEPT: usize = 32;

/// How long a connection may be idle before it is closed. MySQL closes it after 300 s. A new one has to learn all partitions again.
const IDLE: std::time::Duration = std::time::Duration::from_secs(240);

#[derive(Clone)]
pub(super) enum Pool {
    MySql(sqlx::Pool<MySql>),
    Postgres(sqlx::Pool<Postgres>),
    Sqlite(sqlx::Pool<Sqlite>),
}

/// A connection that goes back to its pool when it is dropped.
pub(super) enum Pooled {
    MySql(PoolConnection<MySql>),
    Postgres(PoolConnection<Postgres>),
    Sqlite(PoolConnection<Sqlite>),
}

impl Pooled {
    /// Closes the connection without a word, which ends its transaction.
    pub(super) fn discard(self) {
        match self {
            Self::MySql(connection) => drop(connection.detach()),
            Self::Postgres(connection) => drop(connection.detach()),
            Self::Sqlite(connection) => drop(connection.detach()),
        }
    }
}

impl Pool {
    /// Makes the pool, but no connection.
    pub(super) fn open(address: Address, options: &Options) -> Result<Self, Error> {
        Ok(match address.server {
            Server::MySql(server) => {
                let setup = setup::mysql(options);
                let pool: MySqlPoolOptions = bounded(options);
                let pool = pool.after_connect(move |connection, _| {
                    let setup = sqlx::AssertSqlSafe(setup.clone());
                    Box::pin(async move { connection.execute(sqlx::raw_sql(setup)).await.map(drop) })
                });
                Self::MySql(pool.connect_lazy_with(server.disable_statement_logging()))
            }
            Server::Postgres(server) => {
                let setup = setup::postgres(options);
                let pool: PgPoolOptions = bounded(options);
                let pool = pool.after_connect(move |connection, _| {
                    let setup = sqlx::AssertSqlSafe(setup.clone());
                    Box::pin(async move { connection.execute(sqlx::raw_sql(setup)).await.map(drop) })
                });
                Self::Postgres(
                    pool.connect_lazy_with(server.statement_cache_capacity(KEPT).disable_statement_logging()),
                )
            }
            Server::Sqlite(path) => {
                let server = SqliteConnectOptions::from_str("sqlite:")
                    .map_err(|error| Error::of("open SQLite", &error))?;
                let server = server.filename(path).read_only(options.read_only);
                let server =
                    server.create_if_missing(!options.read_only).busy_timeout(setup::lock_limit(options));
                let journaled =
                    if options.read_only { server } else { server.journal_mode(SqliteJournalMode::Wal) };
                let pool: SqlitePoolOptions = bounded(options);
                Self::Sqlite(pool.connect_lazy_with(journaled.disable_statement_logging()))
            }
        })
    }

    pub(super) fn dialect(&self) -> Dialect {
        match self {
            Self::MySql(_) => Dialect::MySql,
            Self::Postgres(_) => Dialect::Postgres,
            Self::Sqlite(_) => Dialect::Sqlite,
        }
    }

    pub(super) async fn acquire(&self) -> Result<Pooled, sqlx::Error> {
        Ok(match self {
            Self::MySql(pool) => Pooled::MySql(pool.acquire().await?),
            Self::Postgres(pool) => Pooled::Postgres(pool.acquire().await?),
            Self::Sqlite(pool) => Pooled::Sqlite(pool.acquire().await?),
        })
    }

    /// Returns true if this process has all connections that it may have.
    pub(super) fn is_full(&self) -> bool {
        match self {
            Self::MySql(pool) => pool.size() >= pool.options().get_max_connections(),
            Self::Postgres(pool) => pool.size() >= pool.options().get_max_connections(),
            Self::Sqlite(pool) => pool.size() >= pool.options().get_max_connections(),
        }
    }

    pub(super) async fn close(&self) {
        match self {
            Self::MySql(pool) => pool.close().await,
            Self::Postgres(pool) => pool.close().await,
            Self::Sqlite(pool) => pool.close().await,
        }
    }
}

fn bounded<D: sqlx::Database>(options: &Options) -> PoolOptions<D> {
    PoolOptions::new()
        .max_connections(options.max_connections)
        .acquire_timeout(options.acquire_timeout)
        .idle_timeout(IDLE)
}
