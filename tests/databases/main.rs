//! The program beside a database: what the history writes and gives back, the outbox relays and an import takes over, on MariaDB, PostgreSQL and SQLite, while
//! processes die and the database is away. Run by `make sql-check`, because it needs these servers.

#[cfg(test)]
#[macro_use]
mod kit;

#[cfg(test)]
mod history;
#[cfg(test)]
mod import;
#[cfg(test)]
mod incidents;
#[cfg(test)]
mod long;
#[cfg(test)]
mod outbox;
#[cfg(test)]
mod restore;
#[cfg(test)]
mod scene;
