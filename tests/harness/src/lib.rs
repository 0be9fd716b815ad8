//! The foundation of the integration tests. Only [`fleet`] names types of the library, so the rest can also judge the library;
//! its [`DevServer`](streamfleet::dev_server::DevServer) starts the servers.
//!
//! A test starts a [`redis_server`], puts a [`proxy`] in front of it if the network must misbehave, starts
//! workers as [`process`]es and lets a seeded [`nemesis`] kill and freeze them. Producers and handlers write
//! what they see into the [`ledger`], which is outside Redis. At the end the ledger becomes a [`history`], and
//! the [`checker`] compares it with what is left in Redis. Tests wait only with [`wait`]; all times of one
//! run come from one [`clock`].
#![expect(missing_docs, reason = "nothing is published, and a comment says what a name does not")]
#![expect(clippy::unwrap_used, reason = "a test whose harness fails must fail")]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "the test runner captures it")]
#![expect(clippy::wildcard_enum_match_arm, reason = "any other kind of answer fails the test")]
#![expect(clippy::disallowed_methods, reason = "a test awaits the tasks it spawns by their handles")]

pub mod alone;
pub mod callbacks;
pub mod campaigns;
pub mod certificates;
pub mod checker;
pub mod cli;
pub mod clock;
pub mod cluster;
mod connection;
pub mod cron;
pub mod dead;
pub mod fleet;
pub mod history;
mod invariants;
pub mod ledger;
pub mod metrics;
pub mod nemesis;
pub mod payload;
pub mod pool;
pub mod process;
pub mod program;
pub mod proxy;
mod recovery;
pub mod redis_server;
pub mod remains;
pub mod resp;
pub mod rest;
pub mod samples;
pub mod scene;
pub mod schema;
pub mod scrape;
pub mod scripts;
pub mod sentinel;
pub mod server_program;
pub mod slowness;
pub mod steps;
pub mod tally;
pub mod terminal;
pub mod tls_server;
pub mod wait;
pub mod weather;
pub mod witness;
pub mod yardstick;
