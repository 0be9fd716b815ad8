//! What takes long: many kills of workers and servers. `make sql-check ARGS=--long` runs it.

mod history;
mod relay;
mod transfer;
mod transfers;
