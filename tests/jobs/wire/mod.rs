//! What docs/wire.md promises to programs that have only a Redis client.

mod keys;
mod record;
