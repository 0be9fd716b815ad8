//! A database of its own, for a test or for a program that measures.

use streamfleet_sql::{Database, Dialect, Options};
use tempfile::TempDir;

use super::hand::Hand;
use super::server::{self, Server};

/// A database, and what must live as long as it does.
pub(crate) struct Place {
    pub(crate) dialect: Dialect,
    pub(crate) url: String,
    _folder: Option<TempDir>,
    /// The server, if nobody else has it.
    pub(super) own: Option<Server>,
}

impl Place {
    /// Makes a database on the server that all have together.
    pub(crate) async fn new(dialect: Dialect) -> Self {
        let (url, folder) = match dialect {
            Dialect::MySql => (server::mariadb().await.create().await, None),
            Dialect::Postgres => (server::postgres().await.create().await, None),
            Dialect::Sqlite => {
                let folder = tempfile::tempdir().unwrap();
                (format!("sqlite:{}", folder.path().join("test.db").display()), Some(folder))
            }
        };
        Self { dialect, url, _folder: folder, own: None }
    }

    /// Names a database on a server that nobody else has.
    pub(super) async fn on(dialect: Dialect, own: Server) -> Self {
        Self { dialect, url: own.create().await, _folder: None, own: Some(own) }
    }

    pub(crate) async fn open_with(&self, options: Options) -> Database {
        Database::connect(&self.url.as_str().into(), &options).await.unwrap()
    }

    /// Returns a connection that does what its holder says.
    pub(crate) async fn hand(&self) -> Hand {
        Hand::new(self.dialect, &self.url).await
    }
}
