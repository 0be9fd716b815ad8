//! Servers that may crash. They keep what they have committed.

use std::io::Write as _;

use streamfleet_sql::Dialect;

use super::place::Place;
use super::server::{self, Server, hold};

impl Server {
    /// Ends the server as a crash would. Its data stay.
    pub(crate) fn kill(&self) {
        let mut shell = self.shell.lock().unwrap();
        shell.stdin.take().unwrap().write_all(b"kill\n").unwrap();
        shell.wait().unwrap();
    }

    /// Starts it again, and waits until it answers.
    pub(crate) async fn restart(&self) {
        *self.shell.lock().unwrap() = hold(&mut self.command.lock().unwrap());
        self.ready().await;
    }
}

impl Place {
    /// Makes a database on a server that no other test has, so that it may be killed.
    pub(crate) async fn alone(dialect: Dialect) -> Self {
        let own = match dialect {
            Dialect::MySql => server::start_mariadb().await,
            Dialect::Postgres => server::start_postgres().await,
            Dialect::Sqlite => return Self::new(dialect).await,
        };
        Self::on(dialect, own).await
    }

    /// Kills the server, and starts it again. SQLite has none.
    pub(crate) async fn crash(&self) {
        if let Some(server) = &self.own {
            server.kill();
            server.restart().await;
        }
    }
}
