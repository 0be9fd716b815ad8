//! A borrowed connection of any dialect: the one place that hands statements to sqlx.

use std::time::{Duration, Instant};

use sqlx::mysql::MySqlConnection;
use sqlx::postgres::PgConnection;
use sqlx::sqlite::SqliteConnection;
use sqlx::{AssertSqlSafe, Executor as _};

use super::statement::Value;
use super::{Dialect, Row, Statement};

/// How many of its instructions SQLite executes between two looks at the clock.
const INSTRUCTIONS: i32 = 4000;

/// A connection that somebody else owns.
pub(crate) enum Link<'a> {
    MySql(&'a mut MySqlConnection),
    Postgres(&'a mut PgConnection),
    Sqlite(&'a mut SqliteConnection),
}

/// What a statement without rows has done.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Done {
    /// How many rows it changed. MySQL also counts rows that it found and left as they were.
    pub rows: u64,
    /// What `LAST_INSERT_ID` had; 0 if the dialect is not MySQL.
    pub last_id: u64,
}

/// Builds the query of sqlx for a statement.
macro_rules! query {
    ($statement:expr) => {{
        let mut query = sqlx::query(AssertSqlSafe($statement.text.clone())).persistent($statement.is_kept);
        for value in &$statement.values {
            query = match value {
                Value::Int(value) => query.bind(*value),
                Value::Text(value) => query.bind(value.as_deref()),
                Value::Bytes(value) => query.bind(value.as_slice()),
            };
        }
        query
    }};
}

impl Link<'_> {
    pub(crate) fn dialect(&self) -> Dialect {
        match self {
            Self::MySql(_) => Dialect::MySql,
            Self::Postgres(_) => Dialect::Postgres,
            Self::Sqlite(_) => Dialect::Sqlite,
        }
    }

    pub(crate) async fn execute(&mut self, statement: &Statement) -> Result<Done, sqlx::Error> {
        Ok(match self {
            Self::MySql(connection) => {
                let done = query!(statement).execute(&mut **connection).await?;
                Done { rows: done.rows_affected(), last_id: done.last_insert_id() }
            }
            Self::Postgres(connection) => {
                Done { rows: query!(statement).execute(&mut **connection).await?.rows_affected(), last_id: 0 }
            }
            Self::Sqlite(connection) => {
                Done { rows: query!(statement).execute(&mut **connection).await?.rows_affected(), last_id: 0 }
            }
        })
    }

    pub(crate) async fn rows(&mut self, statement: &Statement) -> Result<Vec<Row>, sqlx::Error> {
        Ok(match self {
            Self::MySql(connection) => {
                let rows = query!(statement).fetch_all(&mut **connection).await?;
                rows.into_iter().map(Row::MySql).collect()
            }
            Self::Postgres(connection) => {
                let rows = query!(statement).fetch_all(&mut **connection).await?;
                rows.into_iter().map(Row::Postgres).collect()
            }
            Self::Sqlite(connection) => {
                let rows = query!(statement).fetch_all(&mut **connection).await?;
                rows.into_iter().map(Row::Sqlite).collect()
            }
        })
    }

    /// Executes one or more statements that have no values and cannot be prepared in every dialect, such as `BEGIN`.
    pub(crate) async fn run(&mut self, text: &str) -> Result<(), sqlx::Error> {
        let raw = sqlx::raw_sql(AssertSqlSafe(text.to_owned()));
        match self {
            Self::MySql(connection) => connection.execute(raw).await.map(drop),
            Self::Postgres(connection) => connection.execute(raw).await.map(drop),
            Self::Sqlite(connection) => connection.execute(raw).await.map(drop),
        }
    }

    /// Makes SQLite stop its next statements when this time is over. The others have a server that does so.
    pub(crate) async fn limit(&mut self, limit: Duration) -> Result<(), sqlx::Error> {
        if let Self::Sqlite(connection) = self {
            let end = Instant::now() + limit;
            connection.lock_handle().await?.set_progress_handler(INSTRUCTIONS, move || Instant::now() < end);
        }
        Ok(())
    }
}
