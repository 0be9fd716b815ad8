//! One connection that its holder has for itself, for as long as the session exists. A session that is dropped within a
//! statement or a transaction closes its connection, so that the server ends both.

use std::time::Duration;

use super::link::Done;
use super::pool::Pooled;
use super::{Dialect, Link, Row, Statement};
use crate::{Error, Trouble};

/// How much longer than a statement may take to wait for the server to say so.
const GRACE: Duration = Duration::from_secs(2);

pub(crate) struct Session {
    connection: Option<Pooled>,
    limit: Duration,
    doing: &'static str,
    is_busy: bool,
    is_open: bool,
}

impl Session {
    pub(super) fn new(connection: Pooled, limit: Duration, doing: &'static str) -> Self {
        Self { connection: Some(connection), limit, doing, is_busy: false, is_open: false }
    }

    /// Lowers the time that each of the next statements may take. SQLite ends them then; for the others, the connection is
    /// given up 2 s later.
    pub(crate) fn limit(&mut self, limit: Duration) {
        self.limit = self.limit.min(limit);
    }

    pub(crate) fn dialect(&self) -> Dialect {
        match &self.connection {
            Some(Pooled::MySql(_)) => Dialect::MySql,
            Some(Pooled::Postgres(_)) => Dialect::Postgres,
            Some(Pooled::Sqlite(_)) | None => Dialect::Sqlite,
        }
    }

    /// Executes a statement that has no rows.
    pub(crate) async fn execute(&mut self, statement: &Statement) -> Result<Done, Error> {
        self.timed(async |link| link.execute(statement).await).await
    }

    /// Returns all rows of the answer. The statement bounds how many there are.
    pub(crate) async fn rows(&mut self, statement: &Statement) -> Result<Vec<Row>, Error> {
        self.timed(async |link| link.rows(statement).await).await
    }

    /// Executes text without values.
    pub(crate) async fn run(&mut self, text: &str) -> Result<(), Error> {
        self.timed(async |link| link.run(text).await).await
    }

    /// Begins a transaction that will write.
    pub(crate) async fn begin(&mut self) -> Result<(), Error> {
        // SQLite would otherwise refuse the first write if somebody has written since the first read.
        let text = if self.dialect() == Dialect::Sqlite { "BEGIN IMMEDIATE" } else { "BEGIN" };
        self.is_open = true;
        let begun = self.run(text).await;
        self.is_open = begun.is_ok();
        begun
    }

    /// Commits. After an error, nobody knows whether the transaction was committed.
    pub(crate) async fn commit(&mut self) -> Result<(), Error> {
        self.run("COMMIT").await?;
        self.is_open = false;
        Ok(())
    }

    /// Undoes the transaction. If that fails, the connection is closed, which undoes it too.
    pub(crate) async fn roll_back(&mut self) {
        match self.run("ROLLBACK").await {
            Ok(()) => self.is_open = false,
            Err(error) => {
                tracing::debug!(%error, "a rollback failed, so its connection is closed");
                self.discard();
            }
        }
    }

    async fn timed<T>(
        &mut self,
        work: impl AsyncFnOnce(&mut Link<'_>) -> Result<T, sqlx::Error>,
    ) -> Result<T, Error> {
        let (doing, limit) = (self.doing, self.limit);
        self.is_busy = true;
        let Some(connection) = &mut self.connection else {
            let why = "an earlier statement of this session has lost the connection".to_owned();
            return Err(Error::Transient { doing, trouble: Trouble::ConnectionLost, why });
        };
        let mut link = match connection {
            Pooled::MySql(connection) => Link::MySql(&mut *connection),
            Pooled::Postgres(connection) => Link::Postgres(&mut *connection),
            Pooled::Sqlite(connection) => Link::Sqlite(&mut *connection),
        };
        let all = async {
            link.limit(limit).await?;
            work(&mut link).await
        };
        let Ok(result) = tokio::time::timeout(limit + GRACE, all).await else {
            self.discard();
            let why = format!("the database has not answered for {:?}", limit + GRACE);
            return Err(Error::Transient { doing, trouble: Trouble::TimeLimit, why });
        };
        self.is_busy = false;
        result.map_err(|error| Error::of(doing, &error))
    }

    fn discard(&mut self) {
        self.is_open = false;
        if let Some(connection) = self.connection.take() {
            connection.discard();
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.is_busy || self.is_open {
            self.discard();
        }
    }
}
