//! One connection to Redis: its server, how it reconnects, what is sent over it, and what the answers mean.

pub(super) mod address;
pub(super) mod assemble;
pub(super) mod cluster;
pub(super) mod decode;
#[cfg(test)]
mod derived;
pub(super) mod error;
pub(super) mod keys;
pub(super) mod lease;
pub(super) mod link;
pub(super) mod locator;
pub(super) mod meter;
pub(super) mod script;
pub(super) mod sentinel;
pub(super) mod setup;
pub(super) mod tls;
pub(super) mod url;
