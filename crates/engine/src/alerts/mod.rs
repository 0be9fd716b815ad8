//! Incidents in Redis: what is known about each, which sinks have got which message, and who sends. See `job::incident` for
//! what follows from a check.

pub(crate) mod incidents;
mod stored;
