//! What streamfleet keeps in a database: the history of jobs that have ended, the outbox, and effects that happen once; and how
//! it reads the tables of other queues. This crate knows SQL and nothing of Redis: callers bring what Redis has, and take to Redis what the outbox has.
//!
//! MariaDB, MySQL 8, PostgreSQL from version 12 on, and SQLite. [`Database::connect`] opens one, [`schema::migrate`] makes its
//! tables.
//!
//! This crate is a part of streamfleet. It makes no promise of its own about versions.

pub mod database;
pub mod effects;
mod error;
pub mod foreign;
pub mod history;
pub mod outbox;
pub mod schema;

pub use database::{Database, Dialect, LazyDatabase, Options, open};
pub use error::{Error, Trouble};
