//! The foundation of the integration tests. Only [`fleet`] names types of the library, so the rest can also judge the library;
//! its [`DevServer`](streamfleet::dev_server::DevServer) starts the servers.
//!
//! A test starts a [`redis_server`], puts a [`proxy`] in front of it if the network must misbehave, starts
//! workers as [`process`]es and lets a seeded [`nemesis`] kill and freeze them. Producers and handlers write
//! what they see into the [`ledger`], which is outside Redis. At the end the ledger becomes a [`history`], and
//! the [`checker`] compares it with what is left in Redis. Tests wait only with [`wait`]; all times of one
//! run come from one [`clock`].

pub(crate) mod certificates;
pub(crate) mod checker;
pub(crate) mod clock;
pub(crate) mod cluster;
mod connection;
pub(crate) mod fleet;

pub(crate) mod history;
mod invariants;
pub(crate) mod ledger;
pub(crate) mod nemesis;
pub(crate) mod payload;
pub(crate) mod process;
pub(crate) mod proxy;
mod recovery;
pub(crate) mod redis_server;
pub(crate) mod resp;
pub(crate) mod rest;
pub(crate) mod scripts;
pub(crate) mod sentinel;
pub(crate) mod server_program;
pub(crate) mod tls_server;
pub(crate) mod wait;
pub(crate) mod weather;
