//! A database: its address, its bounded pool of connections, and what every connection is set to. A `Session` is one
//! connection that its holder has for itself; a `Statement` is text and values, in the dialect of the database.

mod address;
mod lazy;
mod link;
mod options;
mod pool;
mod row;
mod session;
mod setup;
mod statement;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;

use crate::{Error, Trouble};
use address::Address;
pub use lazy::{LazyDatabase, open};
pub(crate) use link::Link;
pub use options::Options;
use pool::Pool;
pub(crate) use row::Row;
pub(crate) use session::Session;
pub(crate) use statement::{Statement, stored_text};

/// The languages of databases that this crate speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// MariaDB, and MySQL 8.
    MySql,
    /// PostgreSQL.
    Postgres,
    /// SQLite.
    Sqlite,
}

streamfleet_domain::variants! {
    /// Returns the name of the dialect, which is also the name of its folder of migrations.
    Dialect: Display {
        MySql = "mysql",
        Postgres = "postgres",
        Sqlite = "sqlite",
    }
}

/// A database that can be reached: a pool of at most [`Options::max_connections`] connections. Clones share it.
#[derive(Clone)]
pub struct Database {
    pool: Pool,
    shown: Arc<str>,
    limit: Duration,
}

impl Database {
    /// Connects to the database at this address, and waits for the first connection. The address is `mysql://`, `mariadb://`, `postgres://` or
    /// `postgresql://` with `user:password@host:port/database`, or `sqlite:path`. Later connections are made when they are needed.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), streamfleet_sql::Error> {
    /// use streamfleet_sql::{Database, Options};
    ///
    /// let database = Database::connect(&"sqlite:/var/lib/streamfleet/history.db".into(), &Options::default()).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Address`] or [`Error::Input`] if the address or an option cannot be used, otherwise what the database answered. No error contains
    /// the password.
    pub async fn connect(url: &SecretString, options: &Options) -> Result<Self, Error> {
        options.check()?;
        let address = Address::parse(url)?;
        let shown = address.shown().into();
        let database = Self { pool: Pool::open(address, options)?, shown, limit: options.statement_limit };
        let mut session = database.session("connect to the database").await?;
        session.rows(&Statement::new(database.dialect(), "SELECT 1")).await?;
        Ok(database)
    }

    /// Returns the language of this database.
    pub fn dialect(&self) -> Dialect {
        self.pool.dialect()
    }

    /// Closes the connections, after those who have one have given it back.
    pub async fn close(&self) {
        self.pool.close().await;
    }

    /// Waits for a connection, at most [`Options::acquire_timeout`]. `doing` completes "cannot …" in errors.
    pub(crate) async fn session(&self, doing: &'static str) -> Result<Session, Error> {
        let connection = match self.pool.acquire().await {
            Ok(connection) => connection,
            // The pool tries again while the server refuses, and then says only that time is over.
            Err(sqlx::Error::PoolTimedOut) if !self.pool.is_full() => {
                let why = format!("{} has accepted no connection in time", self.shown);
                return Err(Error::Transient { doing, trouble: Trouble::ConnectionLost, why });
            }
            Err(error) => return Err(Error::of(doing, &error)),
        };
        Ok(Session::new(connection, self.limit, doing))
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Database({self})")
    }
}

/// Shows the address without user and password.
impl fmt::Display for Database {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.shown)
    }
}
