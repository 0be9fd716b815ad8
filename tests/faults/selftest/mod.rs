//! The harness is software too. These tests show that it does what the other tests rely on.

mod checker;
mod judge;
mod ledger;
mod nemesis;
mod process;
mod proxy;
mod redis_server;
mod resp;
mod wait;
