//! A connection of the test's own, through which it does what applications and administrators do.

use sqlx::mysql::MySqlConnection;
use sqlx::postgres::PgConnection;
use sqlx::sqlite::SqliteConnection;
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, Row as _};
use streamfleet_sql::Dialect;

pub(crate) enum Hand {
    MySql(MySqlConnection),
    Postgres(PgConnection),
    Sqlite(SqliteConnection),
}

impl Hand {
    pub(super) async fn new(dialect: Dialect, url: &str) -> Self {
        match dialect {
            Dialect::MySql => {
                let mut connection = MySqlConnection::connect(url).await.unwrap();
                // What the server of an application has by default.
                connection.execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ").await.unwrap();
                Self::MySql(connection)
            }
            Dialect::Postgres => Self::Postgres(PgConnection::connect(url).await.unwrap()),
            Dialect::Sqlite => Self::Sqlite(SqliteConnection::connect(url).await.unwrap()),
        }
    }

    pub(crate) async fn try_run(&mut self, text: &str) -> Result<(), sqlx::Error> {
        let raw = sqlx::raw_sql(AssertSqlSafe(text.to_owned()));
        match self {
            Self::MySql(connection) => connection.execute(raw).await.map(drop),
            Self::Postgres(connection) => connection.execute(raw).await.map(drop),
            Self::Sqlite(connection) => connection.execute(raw).await.map(drop),
        }
    }

    pub(crate) async fn run(&mut self, text: &str) {
        self.try_run(text).await.unwrap_or_else(|error| panic!("{text}: {error}"));
    }

    /// Returns the one number that a query returns.
    pub(crate) async fn number(&mut self, text: &str) -> i64 {
        let query = AssertSqlSafe(text.to_owned());
        match self {
            Self::MySql(connection) => sqlx::query(query).fetch_one(connection).await.unwrap().get(0),
            Self::Postgres(connection) => sqlx::query(query).fetch_one(connection).await.unwrap().get(0),
            Self::Sqlite(connection) => sqlx::query(query).fetch_one(connection).await.unwrap().get(0),
        }
    }
}
