//! The gates of a queue: their rules, whether a job may pass, and the waiting lists of those that may not.

pub(super) mod admit;
pub(super) mod drain;
pub(super) mod rules;
pub(super) mod share;
