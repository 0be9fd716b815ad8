//! Tests on real databases: MariaDB, PostgreSQL and SQLite, each with every test. A server is started for all tests of a
//! database together, and each test has a database of its own on it.
#![expect(clippy::unwrap_used, reason = "a test that meets an error fails")]

#[macro_use]
mod kit;

mod disk;
mod effects;
mod history;
mod outbox;
mod partitions;
mod questions;
mod schema;
mod troubles;
