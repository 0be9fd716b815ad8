//! The journal of a queue: what the scripts that end jobs append for the process that writes the history to a database.

pub(super) mod ended;
pub(super) mod journal;
pub(super) mod outbox;
